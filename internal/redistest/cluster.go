package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	clusterMasters = 3
	clusterSlots   = 16384
)

// MoveSlot moves a slot of a Cluster, with its keys, to the node of that index
// in Nodes, while clients use it. It does what redis-cli --cluster reshard does.
//
// The keys move in batches, or one at a time if step is not nil. MoveSlot calls
// step before the first key and after each key, with the number of keys moved.
// During the move, the source node redirects commands on keys that it no longer
// has, and fails a command on several keys with TRYAGAIN if it has only some of
// them.
//
// A failed move leaves the slot half moved; another call completes it. Moves by
// several goroutines run one after another.
func (s *Server) MoveSlot(ctx context.Context, slot, to int, step func(moved int)) error {
	s.moving.Lock()
	defer s.moving.Unlock()

	from, err := s.agreedOwner(ctx, slot)
	if err != nil || from == to {
		return err
	}
	if s.moved[slot] {
		if err := s.reassert(ctx, from); err != nil {
			return err
		}
	}
	s.moved[slot] = true
	source, target := s.processes[from], s.processes[to]
	sourceID, err := source.client.ClusterMyID(ctx).Result()
	if err != nil {
		return err
	}
	targetID, err := target.client.ClusterMyID(ctx).Result()
	if err != nil {
		return err
	}

	if err := target.setSlot(ctx, slot, "IMPORTING", sourceID); err != nil {
		return err
	}
	if err := source.setSlot(ctx, slot, "MIGRATING", targetID); err != nil {
		return err
	}
	if err := source.migrateSlot(ctx, slot, target, step); err != nil {
		return err
	}

	// The target must know first. Otherwise the other nodes redirect commands to
	// it, and it redirects them back. The source must know last: a node that still
	// takes it for the owner would note that it does not claim the slot, see
	// reassert.
	rest := slices.DeleteFunc(slices.Clone(s.processes), func(p *process) bool {
		return p == source || p == target
	})
	for range assignments {
		for _, p := range slices.Concat([]*process{target}, rest, []*process{source}) {
			if err = p.setSlot(ctx, slot, "NODE", targetID); err != nil {
				return err
			}
		}
		soon, cancel := context.WithTimeout(ctx, agreeFor)
		err = poll(soon, nil, func() error { return s.hasMoved(ctx, slot, to, targetID) })
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	return err
}

// Nodes that are busy have been seen not to agree for as long as one waits. An
// operator would assign the slot again, as redis-cli --cluster fix does.
const (
	assignments = 6
	agreeFor    = 10 * time.Second
)

// reassert makes all nodes hear that the node claims the slots that it owns.
//
// A node that has been told of a slot's new owner, and then reads a message that
// the owner sent before it was, notes that the owner does not claim the slot. It
// forgets that when it reads of a claim, but only if that changes what it knows of
// the owner; SETSLOT does not make it forget. If such a node gets the slot next,
// the first message of the last owner, which still claims it, takes the slot away
// again: the node deletes its keys, and the two redirect clients to each other. So
// the owner takes a spare slot first, which changes what the others know of it;
// twice, since the late message may be read right behind the first one.
func (s *Server) reassert(ctx context.Context, owner int) error {
	spare, err := s.spareSlot(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		for _, by := range []int{(owner + 1) % clusterMasters, owner} {
			if err := s.claim(ctx, spare, by); err != nil {
				return err
			}
		}
	}
	return nil
}

// spareSlot returns a slot without keys.
func (s *Server) spareSlot(ctx context.Context) (int, error) {
	for slot := clusterSlots - 1; slot > clusterSlots-100; slot-- {
		owner, err := s.agreedOwner(ctx, slot)
		if err != nil {
			return 0, err
		}
		keys, err := s.processes[owner].client.ClusterCountKeysInSlot(ctx, slot).Result()
		if err != nil || keys == 0 && !s.moved[slot] {
			return slot, err
		}
	}
	return 0, errors.New("redistest: no slot is empty")
}

// claim makes a node the owner of a slot without keys, and lets the others hear
// that from the node.
func (s *Server) claim(ctx context.Context, slot, to int) error {
	from, err := s.agreedOwner(ctx, slot)
	if err != nil || from == to {
		return err
	}
	target := s.processes[to]
	for _, step := range []struct {
		state string
		node  *process
	}{{"IMPORTING", s.processes[from]}, {"NODE", target}} {
		id, err := step.node.client.ClusterMyID(ctx).Result()
		if err != nil {
			return err
		}
		if err := target.setSlot(ctx, slot, step.state, id); err != nil {
			return err
		}
	}
	soon, cancel := context.WithTimeout(ctx, agreeFor)
	defer cancel()
	return poll(soon, nil, func() error {
		owner, err := s.SlotOwner(ctx, slot)
		if err == nil && owner != to {
			err = fmt.Errorf("redistest: the nodes have not heard that node %d claims slot %d", to, slot)
		}
		return err
	})
}

// agreedOwner is SlotOwner when the nodes agree. If they do not in time, they
// are told of the one that has it.
func (s *Server) agreedOwner(ctx context.Context, slot int) (owner int, err error) {
	for range assignments {
		soon, cancel := context.WithTimeout(ctx, agreeFor/10)
		err = poll(soon, nil, func() error {
			owner, err = s.SlotOwner(ctx, slot)
			return err
		})
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
		for _, p := range s.processes {
			if addr, err := p.slotOwner(ctx, slot); err != nil || addr != p.addr {
				continue
			}
			id, err := p.client.ClusterMyID(ctx).Result()
			if err != nil {
				return 0, err
			}
			for _, other := range s.processes {
				if err := other.setSlot(ctx, slot, "NODE", id); err != nil {
					return 0, err
				}
			}
		}
	}
	return owner, err
}

// sameEpochs returns nil if all nodes know of the latest epoch. The target of a
// move claims the slot with a new one. If it chose that before it had heard of the
// last move, an owner with a later epoch might take the slot back.
func (s *Server) sameEpochs(ctx context.Context) error {
	var epochs []string
	for _, p := range s.processes {
		info, err := p.client.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		epochs = append(epochs, currentEpoch.FindString(info))
	}
	if differ(epochs) {
		return fmt.Errorf("redistest: the nodes differ in their epochs: %v", epochs)
	}
	return nil
}

func differ(words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return word != words[0] })
}

var currentEpoch = regexp.MustCompile(`cluster_current_epoch:\d+`)

// hasMoved returns nil if all nodes know that the slot has moved to that node, which
// has that id, and know the node's epoch, which they hear from itself only.
func (s *Server) hasMoved(ctx context.Context, slot, to int, id string) error {
	owner, err := s.SlotOwner(ctx, slot)
	if err != nil {
		return err
	}
	if owner != to {
		return fmt.Errorf("redistest: slot %d is back with node %d", slot, owner)
	}
	var epochs []string
	for _, p := range s.processes {
		nodes, err := p.client.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		for line := range strings.Lines(nodes) {
			if words := strings.Fields(line); words[0] == id {
				epochs = append(epochs, words[6])
			}
		}
	}
	if len(epochs) < len(s.processes) {
		return fmt.Errorf("redistest: %d of %d nodes know node %d", len(epochs), len(s.processes), to)
	}
	if differ(epochs) {
		return fmt.Errorf("redistest: the nodes differ in the epoch of node %d: %v", to, epochs)
	}
	return s.sameEpochs(ctx)
}

// SlotOwner returns the index in Nodes of the node that has the slot of a
// Cluster. It is an error if the nodes do not agree.
func (s *Server) SlotOwner(ctx context.Context, slot int) (int, error) {
	if s.kind != Cluster && s.kind != ReplicatedCluster {
		return 0, fmt.Errorf("redistest: %s has no slots", s.kind)
	}
	var owner int
	for i, p := range s.processes {
		addr, err := p.slotOwner(ctx, slot)
		if err != nil {
			return 0, err
		}
		index := slices.Index(s.addrs, addr)
		if i > 0 && index != owner {
			return 0, fmt.Errorf("redistest: slot %d is with node %d for node 0, and with %d for node %d", slot, owner, index, i)
		}
		owner = index
	}
	return owner, nil
}

// slotOwner returns the address of the slot's master, according to the node.
func (p *process) slotOwner(ctx context.Context, slot int) (string, error) {
	//lint:ignore SA1019 Redis 6.2 has no CLUSTER SHARDS.
	ranges, err := p.client.ClusterSlots(ctx).Result()
	if err != nil {
		return "", err
	}
	for _, r := range ranges {
		if r.Start <= slot && slot <= r.End {
			return r.Nodes[0].Addr, nil // the master comes first
		}
	}
	return "", fmt.Errorf("redistest: slot %d has no owner", slot)
}

func (p *process) setSlot(ctx context.Context, slot int, state, id string) error {
	err := p.client.Do(ctx, "CLUSTER", "SETSLOT", slot, state, id).Err()
	if err != nil {
		return fmt.Errorf("redistest: making slot %d %s at %s: %w", slot, state, p.addr, err)
	}
	return nil
}

// migrateSlot moves the slot's keys to the target.
func (p *process) migrateSlot(ctx context.Context, slot int, target *process, step func(moved int)) error {
	batch := 1
	if step == nil {
		batch, step = 100, func(int) {}
	}
	host, port, err := net.SplitHostPort(target.addr)
	if err != nil {
		return err
	}
	step(0)
	for moved := 0; ; {
		keys, err := p.client.ClusterGetKeysInSlot(ctx, slot, batch).Result()
		if err != nil || len(keys) == 0 {
			return err
		}
		args := []any{"MIGRATE", host, port, "", 0, patience.Milliseconds(), "KEYS"}
		for _, key := range keys {
			args = append(args, key)
		}
		if err := p.client.Do(ctx, args...).Err(); err != nil {
			return fmt.Errorf("redistest: migrating slot %d to %s: %w", slot, target.addr, err)
		}
		moved += len(keys)
		step(moved)
	}
}

// openCluster starts the nodes and makes them a cluster, some with a replica.
func (s *Server) openCluster(ctx context.Context, replicas int, config []string) error {
	config = append([]string{"cluster-enabled yes", "repl-diskless-sync-delay 0"}, config...)
	for range clusterMasters + replicas {
		announce := "cluster-announce-ip " + s.nextPlacement().ip()
		if err := s.run(ctx, nil, append([]string{announce}, config...)); err != nil {
			return err
		}
	}
	for i, p := range s.processes {
		if err := p.join(ctx, s.processes[:i], i+1); err != nil {
			return fmt.Errorf("node %d: %w", i, err)
		}
		if i < clusterMasters {
			first, end := i*clusterSlots/clusterMasters, (i+1)*clusterSlots/clusterMasters
			if err := p.client.ClusterAddSlotsRange(ctx, first, end-1).Err(); err != nil {
				return fmt.Errorf("node %d: %w", i, err)
			}
		} else if err := p.follow(ctx, s.processes[i-clusterMasters]); err != nil {
			return fmt.Errorf("replica %d: %w", i, err)
		}
	}
	s.awaitHealthy = s.awaitCluster
	if replicas == 0 {
		return s.awaitHealthy(ctx)
	}
	// Nodes learn about replicas by gossip, which is slow with the usual timeout.
	return errors.Join(s.hurry(ctx, true), s.awaitHealthy(ctx), s.hurry(ctx, false))
}

// join makes the node a member of the cluster of its peers.
func (p *process) join(ctx context.Context, peers []*process, epoch int) error {
	// Nodes that start with the same epoch take a while to resolve the conflict.
	if err := p.client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", epoch).Err(); err != nil {
		return err
	}
	for _, peer := range peers {
		host, port, err := net.SplitHostPort(peer.addr)
		if err != nil {
			return err
		}
		if err := p.client.ClusterMeet(ctx, host, port).Err(); err != nil {
			return err
		}
	}
	return nil
}

// follow makes the node a replica of the master, once it knows the master.
func (p *process) follow(ctx context.Context, master *process) error {
	id, err := master.client.ClusterMyID(ctx).Result()
	if err != nil {
		return err
	}
	return poll(ctx, nil, func() error { return p.client.ClusterReplicate(ctx, id).Err() })
}

// awaitCluster waits until each node knows all others and finds the cluster
// healthy. It returns at once if a node is down.
func (s *Server) awaitCluster(ctx context.Context) error {
	if !s.allRunning() {
		return nil
	}
	for i, p := range s.processes {
		if err := poll(ctx, nil, func() error { return p.healthy(ctx, len(s.processes)) }); err != nil {
			return fmt.Errorf("the cluster is not healthy for node %d: %w", i, err)
		}
	}
	return nil
}

func (p *process) healthy(ctx context.Context, size int) error {
	info, err := p.client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	nodes, err := p.client.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") {
		return errors.New(info)
	}
	if strings.Count(nodes, " connected") != size || strings.Count(nodes, "slave") != size-clusterMasters || strings.Contains(nodes, "slave - ") || strings.Contains(nodes, "handshake") || strings.Contains(nodes, "fail") {
		return errors.New(nodes)
	}
	replication, err := p.client.Info(ctx, "replication").Result()
	if err == nil && strings.Contains(replication, "role:slave") && !strings.Contains(replication, "master_link_status:up") {
		err = errors.New(replication)
	}
	return err
}
