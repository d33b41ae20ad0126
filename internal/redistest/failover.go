package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Failover makes a replica take over from the master, of that slot in a
// ReplicatedCluster. Nothing is lost: the replica has everything that the master
// has acknowledged before it takes over. Failover returns when the two have
// changed roles and the server is healthy.
func (s *Server) Failover(t testing.TB, slot int) {
	t.Helper()
	s.failOver(t, slot, func(ctx context.Context, master, replica *process) error {
		if s.kind == ReplicatedCluster {
			if err := s.hurry(ctx, true); err != nil {
				return err
			}
			if err := replica.client.ClusterFailover(ctx).Err(); err != nil {
				return err
			}
			if err := poll(ctx, nil, func() error { return replica.tookOver(ctx) }); err != nil {
				return err
			}
			return s.hurry(ctx, false)
		}
		// A sentinel does not wait for the replica, so the master pauses writes
		// until it is no longer the master. The pause also blocks the sentinel's
		// REPLICAOF, so this sends it.
		if err := master.client.Do(ctx, "CLIENT", "PAUSE", patience.Milliseconds(), "WRITE").Err(); err != nil {
			return err
		}
		if err := poll(ctx, nil, func() error { return replica.caughtUp(ctx, master) }); err != nil {
			return err
		}
		var asked time.Time
		if err := poll(ctx, nil, func() error {
			err := replica.tookOver(ctx)
			if err != nil && time.Since(asked) > 2*failoverTimeout { // on a busy machine, the sentinel gives up after its timeout
				asked = time.Now()
				err = errors.Join(err, s.sentinel().Do(ctx, "SENTINEL", "FAILOVER", masterName).Err())
			}
			return err
		}); err != nil {
			return err
		}
		host, port, err := net.SplitHostPort(replica.addr)
		if err != nil {
			return err
		}
		if err := master.client.ReplicaOf(ctx, host, port).Err(); err != nil {
			return err
		}
		return master.client.Do(ctx, "CLIENT", "UNPAUSE").Err()
	})
}

// Crash kills the master, of that slot in a ReplicatedCluster, and waits until
// its replica is the master. What the replica had not received is lost. Crash
// returns when the old master is back as a replica and the server is healthy.
//
// If before is not nil, Crash calls it first, with the replica. It may pause the
// replica; Crash resumes it when the master is dead.
func (s *Server) Crash(t testing.TB, slot int, before func(replica *Server)) {
	t.Helper()
	s.failOver(t, slot, func(ctx context.Context, master, replica *process) error {
		if before != nil {
			before(s.node(replica))
		}
		master.kill()
		replica.resume()
		// The timeout is short only now: at other times a busy node would count as
		// dead.
		if err := s.hurry(ctx, true); err != nil {
			return err
		}
		if err := poll(ctx, nil, func() error { return errors.Join(replica.tookOver(ctx), s.announced(ctx, replica)) }); err != nil {
			return err
		}
		if err := s.hurry(ctx, false); err != nil {
			return err
		}
		return master.start(ctx)
	})
}

// Isolate calls cut to separate the master of that slot of a ReplicatedCluster
// from the other nodes, waits until its replica is the master, and calls heal to
// join them again. What the replica had not received is lost, and so is what the
// old master did until it noticed. Isolate returns when the old master is a
// replica and the server is healthy. The caller must reach all nodes throughout.
func (s *Server) Isolate(t testing.TB, slot int, cut func(master *Server), heal func()) {
	t.Helper()
	s.failOver(t, slot, func(ctx context.Context, master, replica *process) error {
		if err := s.hurry(ctx, true); err != nil {
			return err
		}
		cut(s.node(master))
		err := poll(ctx, nil, func() error { return replica.tookOver(ctx) })
		heal()
		return errors.Join(err, s.awaitHealthy(ctx), s.hurry(ctx, false))
	})
}

// failOver calls change to make master and replica change roles.
func (s *Server) failOver(t testing.TB, slot int, change func(ctx context.Context, master, replica *process) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	master, replica, err := s.pair(ctx, slot)
	if err == nil {
		err = change(ctx, master, replica)
	}
	if err == nil {
		err = s.awaitHealthy(ctx)
	}
	if err != nil {
		t.Errorf("redistest: %s failing over: %v", s.kind, err)
	}
}

// pair returns a master and its replica.
func (s *Server) pair(ctx context.Context, slot int) (master, replica *process, err error) {
	if s.kind == ReplicatedCluster {
		owner, err := s.SlotOwner(ctx, slot)
		if err != nil {
			return nil, nil, err
		}
		master = s.processes[owner]
	}
	for _, p := range s.processes {
		info, err := p.client.InfoMap(ctx, "replication").Result()
		if err != nil {
			return nil, nil, err
		}
		values := info["Replication"]
		of := slices.IndexFunc(s.processes, func(other *process) bool {
			return values["role"] == "slave" && other.addr == net.JoinHostPort(values["master_host"], values["master_port"])
		})
		if of >= 0 && (master == nil || master == s.processes[of]) {
			return s.processes[of], p, nil
		}
	}
	return nil, nil, fmt.Errorf("redistest: %s has no replica of slot %d", s.kind, slot)
}

func (s *Server) sentinel() *redis.Client { return s.processes[2].client }

// hurry sets the time after which the running processes take others for dead: a
// short one, or the usual one. In a cluster it is also the time after which a
// replica may replace the same master again.
func (s *Server) hurry(ctx context.Context, soon bool) error {
	sentinelPatience, nodePatience := 15_000, "15000" // the values that they start with
	if soon {
		sentinelPatience, nodePatience = 200, "1000"
	}
	if s.kind == Sentinel {
		return s.sentinel().Do(ctx, "SENTINEL", "SET", masterName, "down-after-milliseconds", sentinelPatience).Err()
	}
	for _, p := range s.processes {
		if !p.running() {
			continue
		}
		if err := p.client.ConfigSet(ctx, "cluster-node-timeout", nodePatience).Err(); err != nil {
			return err
		}
	}
	return nil
}

// tookOver returns nil if the process is a master that serves.
func (p *process) tookOver(ctx context.Context) error {
	info, err := p.client.Info(ctx).Result()
	if err == nil && !strings.Contains(info, "role:master") {
		err = fmt.Errorf("%s is no master: %s", p.addr, info)
	}
	if err != nil || !strings.Contains(info, "cluster_enabled:1") {
		return err
	}
	info, err = p.client.ClusterInfo(ctx).Result()
	if err == nil && !strings.Contains(info, "cluster_state:ok") {
		err = errors.New(info)
	}
	return err
}

// announced returns nil if the sentinel sends clients to the new master. Before
// that, the old one could start without data and still count as the master.
func (s *Server) announced(ctx context.Context, master *process) error {
	if s.kind != Sentinel {
		return nil
	}
	addr := redis.NewStringSliceCmd(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName)
	if err := s.sentinel().Process(ctx, addr); err != nil {
		return err
	}
	if got := strings.Join(addr.Val(), ":"); got != master.addr {
		return fmt.Errorf("the sentinel sends clients to %s", got)
	}
	return nil
}

// caughtUp returns nil if the replica has everything that its master has.
func (p *process) caughtUp(ctx context.Context, master *process) error {
	offsets := [2]string{}
	for i, p := range []*process{master, p} {
		info, err := p.client.InfoMap(ctx, "replication").Result()
		if err != nil {
			return err
		}
		offsets[i] = info["Replication"]["master_repl_offset"]
	}
	if offsets[0] != offsets[1] {
		return fmt.Errorf("the replica is at %s, its master at %s", offsets[1], offsets[0])
	}
	return nil
}
