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

	"github.com/shardedlist/shardedlist"
)

const (
	spreadNodes  = 3
	spreadParts  = 64
	spreadStep   = 512 // values of a push that fills the list: one shard
	spreadValue  = 100 // bytes
	spreadShort  = 1000
	slotsOfRedis = 16384
)

// spreadResult are the figures of a list over three nodes, next to one in one slot of the same cluster.
type spreadResult struct {
	Elements int            `json:"elements"`
	Runs     int            `json:"runs"`
	Nodes    []float64      `json:"bytes_of_nodes"` // that the list takes
	Layouts  []spreadFigure `json:"layouts"`        // one slot first
	Trips    int            `json:"index_round_trips"`
}

type spreadFigure struct {
	Parts     int           `json:"parts"` // 0: one slot
	Bytes     float64       `json:"bytes_per_element"`
	ShortPush time.Duration `json:"short_push_ns"` // server time of a call, on a list of spreadShort elements
	ShortPop  time.Duration `json:"short_pop_ns"`
	Push      time.Duration `json:"push_ns"` // the same on the long list
	Pop       time.Duration `json:"pop_ns"`
	BothEnds  float64       `json:"both_ends_per_second"` // calls of pushers at one end and poppers at the other
	Busiest   time.Duration `json:"busiest_cpu_ns"`       // CPU time of the busiest node a call, meanwhile
	WakeUp    time.Duration `json:"wakeup_p50_ns"`
}

// cluster are servers with equal shares of the slots.
type cluster struct {
	nodes []*server
	rdb   *redis.ClusterClient
}

func startCluster(ctx context.Context, path string) (*cluster, error) {
	c := &cluster{}
	for i := range spreadNodes {
		node, err := startServer(ctx, path, "--cluster-enabled", "yes")
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
		perCall, scripts, err := node.callTime(ctx, "evalsha")
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

// spread measures a list over three nodes.
func (b *bench) spread(ctx context.Context) error {
	r := &spreadResult{Elements: pick(b, 20_000, 20_000_000), Runs: b.runs}
	for _, parts := range []int{0, spreadParts} {
		f, err := b.spreadLayout(ctx, r, parts)
		if err != nil {
			return err
		}
		r.Layouts = append(r.Layouts, f)
		tick()
	}
	b.results.Spread = r
	return nil
}

func (b *bench) spreadLayout(ctx context.Context, r *spreadResult, parts int) (f spreadFigure, err error) {
	c, err := startCluster(ctx, b.path)
	if err != nil {
		return f, err
	}
	defer c.stop()
	f.Parts = parts
	var options []shardedlist.Option
	if parts > 0 {
		options = append(options, shardedlist.WithParts(parts))
	}
	value, calls := text(spreadValue), pick(b, 1000, 20_000)
	times := func(list *shardedlist.ShardedList, push, pop *time.Duration) error {
		var pushes, pops []time.Duration
		for range b.runs {
			took, err := c.serverTime(ctx, calls, func(ctx context.Context) error { _, err := list.RPush(ctx, value); return err })
			if err != nil {
				return err
			}
			pushes = append(pushes, took)
			if took, err = c.serverTime(ctx, calls, func(ctx context.Context) error { _, err := list.LPop(ctx); return err }); err != nil {
				return err
			}
			pops = append(pops, took)
		}
		*push, *pop = quantile(pushes, 0.5), quantile(pops, 0.5)
		return nil
	}
	fill := func(list *shardedlist.ShardedList, count int) error {
		values := slices.Repeat([]any{value}, spreadStep)
		for ; count > 0; count -= spreadStep {
			if _, err := list.RPush(ctx, values[:min(count, spreadStep)]...); err != nil {
				return err
			}
		}
		return nil
	}
	short := sharded(c.rdb, "short", options...)
	if err := errors.Join(fill(short, spreadShort), times(short, &f.ShortPush, &f.ShortPop)); err != nil {
		return f, err
	}

	if f.WakeUp, err = b.wakeUpIn(ctx, c, options); err != nil {
		return f, err
	}
	before, err := c.used(ctx)
	if err != nil {
		return f, err
	}
	long := sharded(c.rdb, "long", options...)
	if err := fill(long, r.Elements); err != nil {
		return f, err
	}
	after, err := c.used(ctx)
	if err != nil {
		return f, err
	}
	total := 0.0
	r.Nodes = nil
	for i := range after {
		r.Nodes = append(r.Nodes, after[i]-before[i])
		total += after[i] - before[i]
	}
	f.Bytes = total / float64(r.Elements)
	if err := times(long, &f.Push, &f.Pop); err != nil {
		return f, err
	}

	counter := &trips{}
	counted := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}})
	defer counted.Close()
	counted.AddHook(counter)
	index := sharded(counted, "long")
	for _, at := range []int64{0, -1, int64(r.Elements / 2)} { // it finds the layout and the pointers
		if _, err := index.LIndex(ctx, at); err != nil {
			return f, err
		}
	}
	r.Trips = 0
	for range 100 {
		counter.Store(0)
		if _, err := index.LIndex(ctx, rand.Int64N(int64(r.Elements))); err != nil {
			return f, err
		}
		r.Trips = max(r.Trips, int(counter.Load()))
	}

	var rates []float64
	var busiest []time.Duration
	for range b.runs {
		var turn atomic.Int64
		before, err := c.cpus(ctx)
		if err != nil {
			return f, err
		}
		figures, err := load(ctx, c.nodes[0], 64, pick(b, 100*time.Millisecond, 2*time.Second), func(ctx context.Context) error {
			if turn.Add(1)%2 == 0 {
				_, err := long.RPush(ctx, value)
				return err
			}
			_, err := long.LPop(ctx)
			return err
		})
		if err != nil {
			return f, err
		}
		rates = append(rates, figures.Ops)
		after, err := c.cpus(ctx)
		if err != nil {
			return f, err
		}
		most := time.Duration(0)
		for i := range after {
			most = max(most, after[i]-before[i])
		}
		busiest = append(busiest, most/time.Duration(max(1, turn.Load())))
	}
	f.BothEnds, f.Busiest = quantile(rates, 0.5), quantile(busiest, 0.5)
	return f, nil
}

// cpus returns the CPU time that each node has taken.
func (c *cluster) cpus(ctx context.Context) (times []time.Duration, err error) {
	for _, node := range c.nodes {
		took, err := node.cpu(ctx)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

// wakeUpIn returns the median time from the call of a push to the return of a blocked pop.
func (b *bench) wakeUpIn(ctx context.Context, c *cluster, options []shardedlist.Option) (time.Duration, error) {
	popper := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}})
	defer popper.Close()
	in, out := sharded(c.rdb, "wakeup", options...), sharded(popper, "wakeup", options...)
	var latencies []time.Duration
	for range pick(b, 200, 5000) {
		woken := make(chan error, 1)
		var returned time.Time
		go func() {
			_, err := out.BLPop(ctx, 0)
			returned = time.Now()
			woken <- err
		}()
		if err := c.untilBlocked(ctx); err != nil {
			return 0, err
		}
		began := time.Now()
		_, err := in.RPush(ctx, text(spreadValue))
		if err := errors.Join(err, <-woken); err != nil {
			return 0, err
		}
		latencies = append(latencies, returned.Sub(began))
	}
	return quantile(latencies, 0.5), nil
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
	r.section("A list over three nodes", fmt.Sprintf(`A cluster of three nodes, and a list of %s elements of %d bytes: in one slot, and spread over
%d parts. *Server time* is that of all scripts of a push or a pop by one goroutine, pointer moves included. *Both ends* are calls
a second of 64 goroutines that push at the right end and pop at the left one. *Wake-up* is from the call of a push to the return of a
blocked pop, p50. All nodes and the client share two processors, so
two busy nodes cannot show in it: *CPU of the busiest node* is what bounds it where each has its own. Medians of %d runs.`, count(s.Elements), spreadValue, spreadParts, s.Runs))
	t := r.table("", "list", "bytes per element", fmt.Sprintf("server time of a push, %s elements", count(spreadShort)), "of a pop",
		fmt.Sprintf("of a push, %s elements", count(s.Elements)), "of a pop", "both ends", "CPU of the busiest node a call", "wake-up")
	for _, f := range s.Layouts {
		name := "one slot"
		if f.Parts > 0 {
			name = fmt.Sprintf("%d parts", f.Parts)
		}
		t.row(name, fmt.Sprintf("%.2f", f.Bytes), micros(f.ShortPush), micros(f.ShortPop), micros(f.Push), micros(f.Pop), count(f.BothEnds), micros(f.Busiest), micros(f.WakeUp))
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
