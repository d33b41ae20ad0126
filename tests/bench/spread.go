package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/shardedlist/shardedlist"
)

const (
	spreadNodes   = 3
	spreadParts   = 64
	spreadStep    = 512 // values of a push that fills the list: one shard
	spreadValue   = 100 // bytes
	spreadShort   = 1000
	slotsOfRedis  = 16384
	spreadBurst   = 1024 // calls of one kind before the layouts take turns: they cross two borders of shards
	spreadClients = 16   // of the two ends, half of which push and half of which pop, as many processes do
	spreadCallers = 16   // of each client
	spreadShare   = 0.1  // of a processor, for a node at whose limit the two ends are measured
)

// spreadResult are the figures of a list over three nodes, next to one in one slot of the same cluster.
type spreadResult struct {
	Elements int            `json:"elements"`
	Runs     int            `json:"runs"`
	Nodes    []float64      `json:"bytes_of_nodes"` // that the list takes
	Layouts  []spreadFigure `json:"layouts"`        // one slot first
	Trips    int            `json:"index_round_trips"`
	Clients  int            `json:"both_ends_clients"`
	Callers  int            `json:"both_ends_callers"`  // of each client
	Limit    float64        `json:"both_ends_limit"`    // of a processor, for each node
	Emulated bool           `json:"both_ends_emulated"` // the nodes
	Ends     int            `json:"both_ends_elements"`
}

type spreadFigure struct {
	Parts     int           `json:"parts"` // 0: one slot
	Bytes     float64       `json:"bytes_per_element"`
	ShortPush time.Duration `json:"short_push_ns"` // server time of a call, on a list of spreadShort elements
	ShortPop  time.Duration `json:"short_pop_ns"`
	Push      time.Duration `json:"push_ns"` // the same on the long list
	Pop       time.Duration `json:"pop_ns"`
	BothEnds  float64       `json:"both_ends_per_second"` // calls of pushers at one end and poppers at the other, with limited nodes
	Share     float64       `json:"busiest_share"`        // of a processor that the busiest node has taken meanwhile
	Busiest   time.Duration `json:"busiest_cpu_ns"`       // its CPU time a call
	WakeUp    time.Duration `json:"wakeup_p50_ns"`
}

// cluster are servers with equal shares of the slots.
type cluster struct {
	nodes []*server
	rdb   *redis.ClusterClient
}

func startCluster(ctx context.Context, command ...string) (*cluster, error) {
	c := &cluster{}
	for i := range spreadNodes {
		node, err := startProgram(ctx, command, "--cluster-enabled", "yes")
		if err != nil {
			c.stop()
			return nil, err
		}
		c.nodes = append(c.nodes, node)
		from, to := i*slotsOfRedis/spreadNodes, (i+1)*slotsOfRedis/spreadNodes-1
		host, port, _ := strings.Cut(c.nodes[0].addr, ":")
		if err := errors.Join(node.control.ClusterAddSlotsRange(ctx, from, to).Err(), node.control.ClusterMeet(ctx, host, port).Err()); err != nil {
			c.stop()
			return nil, err
		}
	}
	if err := c.settle(ctx); err != nil {
		c.stop()
		return nil, err
	}
	c.rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}})
	return c, nil
}

// settle waits until all nodes know each other.
func (c *cluster) settle(ctx context.Context) error {
	for _, node := range c.nodes {
		for {
			info, err := node.control.ClusterInfo(ctx).Result()
			if strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(c.nodes))) {
				break
			}
			if err := errors.Join(err, sleep(ctx, 20*time.Millisecond)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *cluster) stop() {
	if c.rdb != nil {
		_ = c.rdb.Close()
	}
	for _, node := range c.nodes {
		node.stop()
	}
}

func (c *cluster) used(ctx context.Context) (bytes []float64, err error) {
	for _, node := range c.nodes {
		used, err := node.used(ctx)
		if err != nil {
			return nil, err
		}
		bytes = append(bytes, used)
	}
	return bytes, nil
}

// serverTime returns the time that all servers spend on scripts while do is called calls times, divided by that number.
func (c *cluster) serverTime(ctx context.Context, calls int, do func(context.Context) error) (time.Duration, error) {
	for _, node := range c.nodes {
		if err := node.control.ConfigResetStat(ctx).Err(); err != nil {
			return 0, err
		}
	}
	for range calls {
		if err := do(ctx); err != nil {
			return 0, err
		}
	}
	total := time.Duration(0)
	for _, node := range c.nodes {
		perCall, scripts, err := node.callTime(ctx, "fcall")
		if err != nil {
			return 0, err
		}
		total += perCall * time.Duration(scripts)
	}
	return total / time.Duration(calls), nil
}

// trips counts the round trips of a client.
type trips struct{ atomic.Int64 }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook { return next }
func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		t.Add(1)
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		t.Add(1)
		return next(ctx, cmds)
	}
}

// spreadSubject is one layout, with the figures of each turn.
type spreadSubject struct {
	spreadFigure
	options              []shardedlist.Option
	short, long, in, out *shardedlist.ShardedList // in and out are the two ends of a wake-up

	shortPushes, shortPops, pushes, pops, wakeUps, busiest []time.Duration
	rates, shares                                          []float64
}

// spread measures a list over three nodes and one in one slot of the same nodes, in turns: whatever else the machine does meets both.
func (b *bench) spread(ctx context.Context) error {
	c, err := startCluster(ctx, b.path)
	if err != nil {
		return err
	}
	defer c.stop()
	popper := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}})
	defer popper.Close()
	var subjects []*spreadSubject
	for _, parts := range []int{0, spreadParts} {
		var options []shardedlist.Option
		if parts > 0 {
			options = append(options, shardedlist.WithParts(parts))
		}
		name := fmt.Sprint("parts", parts)
		subjects = append(subjects, &spreadSubject{
			spreadFigure: spreadFigure{Parts: parts},
			options:      options,
			short:        sharded(c.rdb, name+":short", options...),
			long:         sharded(c.rdb, name+":long", options...),
			in:           sharded(c.rdb, name+":wakeup", options...),
			out:          sharded(popper, name+":wakeup", options...),
		})
	}
	r := &spreadResult{
		Elements: pick(b, 20_000, 20_000_000), Runs: b.runs,
		Clients: spreadClients, Callers: spreadCallers, Limit: spreadShare, Ends: pick(b, 20_000, 1_000_000),
	}
	for _, step := range []func() error{
		func() error { return b.spreadWakeUps(ctx, c, subjects) },
		func() error { return b.spreadFill(ctx, c, subjects, r) },
		func() error { return b.spreadTimes(ctx, c, subjects) },
		func() error { return b.spreadTrips(ctx, c, subjects[1].long.Name(), r) },
		func() error { return b.spreadEnds(ctx, subjects, r) },
	} {
		if err := step(); err != nil {
			return err
		}
		tick()
	}
	for _, s := range subjects {
		s.ShortPush, s.ShortPop = quantile(s.shortPushes, 0.5), quantile(s.shortPops, 0.5)
		s.Push, s.Pop, s.WakeUp = quantile(s.pushes, 0.5), quantile(s.pops, 0.5), quantile(s.wakeUps, 0.5)
		s.BothEnds, s.Share, s.Busiest = quantile(s.rates, 0.5), quantile(s.shares, 0.5), quantile(s.busiest, 0.5)
		r.Layouts = append(r.Layouts, s.spreadFigure)
	}
	b.results.Spread = r
	return nil
}

// fillSpread pushes values, in calls of a shard each.
func fillSpread(ctx context.Context, list *shardedlist.ShardedList, count int) error {
	values := slices.Repeat([]any{text(spreadValue)}, spreadStep)
	for ; count > 0; count -= spreadStep {
		if _, err := list.RPush(ctx, values[:min(count, spreadStep)]...); err != nil {
			return err
		}
	}
	return nil
}

// spreadFill fills the lists, and notes what the long ones take.
func (b *bench) spreadFill(ctx context.Context, c *cluster, subjects []*spreadSubject, r *spreadResult) error {
	for _, s := range subjects {
		if err := fillSpread(ctx, s.short, spreadShort); err != nil {
			return err
		}
		before, err := c.used(ctx)
		if err != nil {
			return err
		}
		if err := fillSpread(ctx, s.long, r.Elements); err != nil {
			return err
		}
		after, err := c.used(ctx)
		if err != nil {
			return err
		}
		r.Nodes = nil // those of the last one, which is spread
		total := 0.0
		for i := range after {
			r.Nodes = append(r.Nodes, after[i]-before[i])
			total += after[i] - before[i]
		}
		s.Bytes = total / float64(r.Elements)
	}
	return nil
}

// spreadTimes measures the server time of pushes and pops, in bursts.
func (b *bench) spreadTimes(ctx context.Context, c *cluster, subjects []*spreadSubject) error {
	value := text(spreadValue)
	for range pick(b, 2, 20) * b.runs {
		for _, s := range subjects {
			push := func(list *shardedlist.ShardedList) func(context.Context) error {
				return func(ctx context.Context) error { _, err := list.RPush(ctx, value); return err }
			}
			pop := func(list *shardedlist.ShardedList) func(context.Context) error {
				return func(ctx context.Context) error { _, err := list.LPop(ctx); return err }
			}
			for _, burst := range []struct {
				do   func(context.Context) error
				took *[]time.Duration
			}{{push(s.short), &s.shortPushes}, {push(s.long), &s.pushes}, {pop(s.short), &s.shortPops}, {pop(s.long), &s.pops}} {
				took, err := c.serverTime(ctx, spreadBurst, burst.do)
				if err != nil {
					return err
				}
				*burst.took = append(*burst.took, took)
			}
		}
	}
	return nil
}

// spreadTrips counts the round trips of LIndex, anywhere in the list.
func (b *bench) spreadTrips(ctx context.Context, c *cluster, name string, r *spreadResult) error {
	counter := &trips{}
	counted := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}})
	defer counted.Close()
	counted.AddHook(counter)
	index := sharded(counted, name)
	for _, at := range []int64{0, -1, int64(r.Elements / 2)} { // it finds the layout and the pointers
		if _, err := index.LIndex(ctx, at); err != nil {
			return err
		}
	}
	for range 100 {
		counter.Store(0)
		if _, err := index.LIndex(ctx, rand.Int64N(int64(r.Elements))); err != nil {
			return err
		}
		r.Trips = max(r.Trips, int(counter.Load()))
	}
	return nil
}

// spreadEnds measures pushers and poppers at the two ends. The nodes and the clients share the processors of one machine, so the nodes are
// slowed down, each to a small share of a processor: then they are what bounds the rate, and not the clients.
func (b *bench) spreadEnds(ctx context.Context, subjects []*spreadSubject, r *spreadResult) error {
	command, err := slowed(b.path)
	if err != nil {
		return err
	}
	r.Emulated = len(command) > 1
	c, err := startCluster(ctx, command...)
	if err != nil {
		return err
	}
	defer c.stop()
	ends := make([][]*shardedlist.ShardedList, len(subjects))
	for range spreadClients {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}})
		defer client.Close()
		for i, s := range subjects {
			ends[i] = append(ends[i], sharded(client, s.long.Name(), s.options...))
		}
	}
	for _, lists := range ends {
		if err := fillSpread(ctx, lists[0], r.Ends); err != nil {
			return err
		}
	}
	return c.limited(ctx, spreadShare, func(ctx context.Context) error {
		for range pick(b, 1, 3) * b.runs {
			for i, s := range subjects {
				if err := s.bothEnds(ctx, c, ends[i], pick(b, time.Second, 3*time.Second)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// bothEnds pushes with one half of the clients and pops with the other.
func (s *spreadSubject) bothEnds(ctx context.Context, c *cluster, lists []*shardedlist.ShardedList, d time.Duration) error {
	value := text(spreadValue)
	before, err := c.cpus()
	if err != nil {
		return err
	}
	began := time.Now()
	loads := make([]figures, len(lists))
	var group errgroup.Group
	for i, list := range lists {
		group.Go(func() (err error) {
			loads[i], err = load(ctx, c.nodes[0], spreadCallers, d, func(ctx context.Context) error {
				if i%2 == 0 {
					_, err := list.RPush(ctx, value)
					return err
				}
				_, err := list.LPop(ctx)
				return err
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := c.cpus()
	if err != nil {
		return err
	}
	most, rate := time.Duration(0), 0.0
	for i := range after {
		most = max(most, after[i]-before[i])
	}
	for _, load := range loads {
		rate += load.Ops
	}
	s.rates, s.shares = append(s.rates, rate), append(s.shares, float64(most)/float64(took))
	s.busiest = append(s.busiest, time.Duration(float64(most)/rate/took.Seconds()))
	return nil
}

// cpus returns the CPU time that each node has taken.
func (c *cluster) cpus() (times []time.Duration, err error) {
	for _, node := range c.nodes {
		took, err := node.onProcessor()
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

// spreadWakeUps measures the time from the call of a push to the return of a blocked pop. The layouts take turns at each.
func (b *bench) spreadWakeUps(ctx context.Context, c *cluster, subjects []*spreadSubject) error {
	for i := range pick(b, 200, 5000) {
		for _, s := range subjects {
			took, err := s.wakeUp(ctx, c)
			if err != nil {
				return err
			}
			if i > 0 { // the first one makes the list
				s.wakeUps = append(s.wakeUps, took)
			}
		}
	}
	return nil
}

func (s *spreadSubject) wakeUp(ctx context.Context, c *cluster) (time.Duration, error) {
	woken := make(chan error, 1)
	var returned time.Time
	go func() {
		_, err := s.out.BLPop(ctx, 0)
		returned = time.Now()
		woken <- err
	}()
	if err := c.untilBlocked(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	_, err := s.in.RPush(ctx, text(spreadValue))
	err = errors.Join(err, <-woken)
	return returned.Sub(began), err
}

// untilBlocked waits until a client is blocked at any node.
func (c *cluster) untilBlocked(ctx context.Context) error {
	for {
		for _, node := range c.nodes {
			blocked, err := node.number(ctx, "clients", "blocked_clients")
			if err != nil || blocked > 0 {
				return err
			}
		}
	}
}

func (r *report) spread(s *spreadResult) {
	emulated := ""
	if s.Emulated {
		emulated = " by an emulator, QEMU, which runs their code several times more slowly, and by a limit"
	}
	r.section("A list over three nodes", fmt.Sprintf(`A cluster of three nodes, and a list of %s elements of %d bytes: in one slot, and spread over
%d parts. Both are on the same nodes and take turns, every %d calls or at every wake-up. *Server time* is that of all scripts of
a push or a pop by one goroutine, pointer moves included. *Both ends* are calls a second of %d clients of %d goroutines each, half of which
push at the right end while the others pop at the left one, of a list of %s elements. The clients share the machine with the nodes, and
would be what bounds the rate; so the nodes are slowed down%s: each has %.0f %% of a processor, and is stopped for as long as it has had
more. *Share* is what the busiest node has taken. The ends of a list of this
length are on two nodes; they may be on one, which is then as busy as with one slot. *Wake-up* is from the call of a push to the return
of a blocked pop, p50. Medians of all turns.`, count(s.Elements), spreadValue, spreadParts, spreadBurst, s.Clients, s.Callers, count(s.Ends), emulated, 100*s.Limit))
	t := r.table("", "list", "bytes per element", fmt.Sprintf("server time of a push, %s elements", count(spreadShort)), "of a pop",
		fmt.Sprintf("of a push, %s elements", count(s.Elements)), "of a pop", "both ends", "share", "CPU of the busiest node a call", "wake-up")
	for _, f := range s.Layouts {
		name := "one slot"
		if f.Parts > 0 {
			name = fmt.Sprintf("%d parts", f.Parts)
		}
		t.row(name, fmt.Sprintf("%.2f", f.Bytes), micros(f.ShortPush), micros(f.ShortPop), micros(f.Push), micros(f.Pop), count(f.BothEnds), fmt.Sprintf("%.1f %%", 100*f.Share), micros(f.Busiest), micros(f.WakeUp))
	}
	one, spread := s.Layouts[0], s.Layouts[1]
	fullest, emptiest := slices.Max(s.Nodes), slices.Min(s.Nodes)
	r.note("The fullest node holds %.2f times what the emptiest one holds. LIndex takes %d round trips at most, of 100 anywhere in the list.",
		fullest/emptiest, s.Trips)
	ratio := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
	r.target("A spread list on three nodes, the fullest against the emptiest", "≤ 1.15×", times(fullest/emptiest), fullest/emptiest <= 1.15)
	r.target("Memory of a spread list, against one slot", "≤ 1.015×", fmt.Sprintf("%.3f×", spread.Bytes/one.Bytes), spread.Bytes/one.Bytes <= 1.015)
	r.target("Round trips of LIndex in a spread list", "≤ 4", fmt.Sprint(s.Trips), s.Trips <= 4)
	slower := max(ratio(spread.Push, one.Push), ratio(spread.Pop, one.Pop))
	r.target("Server time of a push and a pop, spread against one slot", "≤ 1.3×", times(slower), slower <= 1.3)
	longer := max(ratio(spread.Push, spread.ShortPush), ratio(spread.Pop, spread.ShortPop))
	r.target(fmt.Sprintf("Server time in a spread list, %s elements against %s", count(s.Elements), count(spreadShort)), "≤ 1.1×", times(longer), longer <= 1.1)
	r.target("Wake-up in a spread list, p50, against one slot", "≤ 1.2×", times(ratio(spread.WakeUp, one.WakeUp)), ratio(spread.WakeUp, one.WakeUp) <= 1.2)
	r.target("Pushes and pops at both ends, spread against one slot", "> 1×", times(spread.BothEnds/one.BothEnds), spread.BothEnds > one.BothEnds)
	r.target("The same, CPU of the busiest node", "< 1×", times(ratio(spread.Busiest, one.Busiest)), spread.Busiest < one.Busiest)
}
