package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

const (
	workers = 3
	// tag is in the names of all lists, so that on a cluster they are in one slot.
	tag = "{robustness}"
	// lostWakeUp is how long a consumer may be blocked at a list with elements, beyond what the machine held it up.
	lostWakeUp = time.Second
)

// A cell is one fault on one kind of server: rounds that are checked for linearizability, then a queue that is checked for
// conservation; or, where a failover may undo operations, queues only.
type cell struct {
	bed
	fault   fault
	kind    redistest.Kind
	seed    uint64
	span    time.Duration
	variant string
	foreign bool   // that has another layout, and is neither read nor checked
	only    string // "rounds", "queue", or "blocking queue" for one whose consumers are always blocked
	out     string // the directory for histories that fail

	server  *redistest.Server
	rdb     redis.UniversalClient // the harness's own, which no fault is aimed at
	proxies []*redistest.Proxy
	network *network        // nil unless the fault is of links
	program string          // the workers'
	quit    context.Context // ends when the run is interrupted: no more strikes and calls
	ctx     context.Context // ends at the first violation
	fail    context.CancelCauseFunc

	mu        sync.Mutex
	processes [workers]*process
	hear      func(p *process, line []byte) // of the phase
	gone      func(p *process)
	restarted func(i int, p *process)
	dead      map[*process]bool
	row       row
}

// row is what a cell found.
type row struct {
	Fault, Server, Promise, Command string
	Time                            time.Duration
	Operations, Rounds, ByConservation, Undecided, Faults,
	Elements, Lost, Doubled, Disordered int64
	Excused     int64 // lost or undone as the fault allows
	LongestWait time.Duration
	Hiccup      time.Duration
	Violation   string
}

// run runs the cell, and returns its row, whose Violation is empty if all promises were kept. An error is one of the harness.
func (c *cell) run(ctx context.Context) (r row, err error) {
	c.quit = ctx
	c.ctx, c.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	defer c.fail(nil)
	defer c.close()
	if err := c.try(c.setUp); err != nil {
		return c.row, err
	}
	began, span := time.Now(), c.span
	if c.fault.crash && c.fault.strikes != nil {
		span /= 2
	}
	if !c.fault.crash || c.fault.strikes != nil {
		share := span / 2
		if c.only != "" {
			share = span
		}
		if c.only == "" || c.only == "rounds" {
			c.phase(share, c.rounds)
		}
		if c.only != "rounds" {
			c.phase(span-share%span, c.queue)
		}
	}
	crashing, before := time.Now(), c.row.Faults
	for c.fault.crash && c.ctx.Err() == nil && c.quit.Err() == nil && (time.Since(crashing) < span || c.row.Faults == before) {
		c.crash()
	}
	c.row.Time = time.Since(began)
	for _, proxy := range c.proxies {
		a, b, d, e := proxy.Counts()
		c.row.Faults += a + b + d + e
	}
	cause := context.Cause(c.ctx)
	var v violation
	switch {
	case errors.As(cause, &v):
		c.row.Violation = v.Error()
	case cause != nil:
		return c.row, cause
	}
	return c.row, nil
}

func (c *cell) setUp() {
	c.server = redistest.StartAt(&c.bed, c.kind, c.seats(), c.fault.config...)
	c.checkClocks(c.clocks())
	var err error
	if c.fault.clocks {
		c.program, err = programAhead()
	} else {
		c.program, err = os.Executable()
	}
	if err != nil {
		c.Fatalf("no program for workers: %v", err)
	}
	c.rdb = c.server.Client(&c.bed, func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Second })
	if c.fault.needsProxy() {
		for i := range workers {
			c.proxies = append(c.proxies, redistest.NewSeededProxy(&c.bed, c.seed+uint64(i)))
		}
	}
	c.dead = map[*process]bool{}
}

// seats are where the server's processes run, if that is not beside this one.
func (c *cell) seats() []redistest.Seat {
	if !c.fault.apart {
		seats, err := clockSeats(c.clocks())
		c.note(err)
		return seats
	}
	var err error
	if c.network, err = newNetwork(&c.bed); err != nil {
		c.Fatalf("no network: %v", err)
	}
	return c.network.seats()
}

// violation is a promise that was not kept.
type violation string

func (v violation) Error() string { return string(v) }

func (c *cell) violate(format string, args ...any) { c.fail(violation(fmt.Sprintf(format, args...))) }

// note ends the cell if the harness fails to do what it should.
func (c *cell) note(err error) {
	if err != nil && c.ctx.Err() == nil {
		c.fail(fmt.Errorf("%s on %s: %w", c.fault.name, c.kind, err))
	}
}

// phase runs body, which is to end with its context, while faults strike.
func (c *cell) phase(d time.Duration, body func(ctx context.Context, nemesis func())) {
	if c.ctx.Err() != nil || c.quit.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, d)
	defer cancel()
	defer context.AfterFunc(c.quit, cancel)()
	for _, proxy := range c.proxies {
		proxy.Set(c.fault.network)
	}
	body(ctx, func() { c.strike(ctx) })
	c.dismiss()
}

// strike strikes until the phase ends, and leaves all in order.
func (c *cell) strike(ctx context.Context) {
	if len(c.fault.strikes) == 0 {
		return
	}
	random := rand.New(rand.NewPCG(c.seed, 0))
	for {
		if c.sleepIn(ctx, time.Duration(random.Int64N(2*int64(c.fault.every)))); ctx.Err() != nil {
			return
		}
		s := c.fault.strikes[random.IntN(len(c.fault.strikes))]
		c.note(c.try(func() { s.apply(c, random) }))
		c.mu.Lock()
		c.row.Faults++
		c.mu.Unlock()
	}
}

func (c *cell) sleep(d time.Duration) { c.sleepIn(c.ctx, d) }

func (c *cell) sleepIn(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (c *cell) slot() int {
	return int(c.rdb.ClusterKeySlot(context.Background(), tag).Val())
}

// launch starts the workers of a phase.
func (c *cell) launch(hear func(p *process, line []byte), gone func(p *process), restarted func(i int, p *process)) {
	c.hear, c.gone, c.restarted = hear, gone, restarted
	for i := range workers {
		c.processes[i] = c.start(i)
	}
}

func (c *cell) start(i int) *process {
	spec := clientSpec{
		Addrs: c.server.Addrs(), ReadTimeout: c.fault.readTimeout(), Variant: c.variant,
		Cluster: c.kind == redistest.Cluster || c.kind == redistest.ReplicatedCluster,
	}
	if c.kind == redistest.Sentinel {
		options, err := redis.ParseFailoverURL(c.server.URL())
		c.note(err)
		spec.Master = options.MasterName
	}
	if c.fault.waits {
		spec.Replicas = 1
	}
	if c.network != nil {
		spec.From = c.network.client(i)
	}
	if c.proxies != nil {
		spec.Through = map[string]string{}
		for _, node := range c.server.Nodes() {
			through, err := c.proxies[i].Addr(node.Addr())
			c.note(err)
			spec.Through[node.Addr()] = through
		}
	}
	var p *process
	ready := make(chan struct{})
	var ahead time.Duration
	if c.fault.clocks {
		ahead = clocksOfWorkers[i]
	}
	p, err := launch(c.program, ahead, spec, func(line []byte) { <-ready; c.hear(p, line) }, c.note, func() { <-ready; c.lose(p) })
	if err != nil {
		panic(err)
	}
	close(ready)
	return p
}

// lose notes that a process has gone.
func (c *cell) lose(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead[p] = true
	c.gone(p)
}

// killWorker kills a worker at whatever it does, and starts another in its place.
func (c *cell) killWorker(i int) {
	c.mu.Lock()
	p := c.processes[i]
	c.mu.Unlock()
	p.kill()
	p = c.start(i)
	c.mu.Lock()
	c.processes[i] = p
	c.mu.Unlock()
	c.restarted(i, p)
}

// dismiss ends the workers.
func (c *cell) dismiss() {
	for _, p := range c.processes {
		_ = p.input.Close()
		select {
		case <-p.ended:
		case <-time.After(time.Second): // a put-back goes on, or a call that a violation left behind
			p.kill()
		}
	}
}

// open returns the harness's own handle of a list.
func (c *cell) open(name string) *shardedlist.ShardedList {
	list, err := shardedlist.New(c.rdb, name, shardedlist.WithCapacity(1))
	if err != nil {
		panic(err)
	}
	return list
}

// read returns what is in a list, whatever goes on. Where reads may be stale it pops it.
func (c *cell) read(list *shardedlist.ShardedList) (values []string) {
	if c.foreign {
		return nil
	}
	err := c.insist(func(ctx context.Context) (err error) {
		if !c.staleReads() {
			values, err = list.LRange(ctx, 0, -1)
		} else if values, err = list.LPopCount(ctx, everything); err == redis.Nil {
			err = nil
		}
		return err
	})
	if errors.Is(err, shardedlist.ErrBroken) {
		c.violate("%s: %v", list.Name(), err)
	} else {
		c.note(err)
	}
	return values
}

// staleReads tells whether a client may read from what was the master, until it hears of the failover: that is a replica now, which
// serves reads, and lags behind. What writes is refused there. A node of a cluster redirects reads, too.
func (c *cell) staleReads() bool { return c.kind == redistest.Sentinel }

// everything is more than lists hold at the end.
const everything = 1 << 18

// check verifies a list's invariants.
func (c *cell) check(list *shardedlist.ShardedList) {
	if c.foreign {
		return
	}
	err := c.insist(list.Check)
	if errors.Is(err, shardedlist.ErrBroken) {
		c.violate("%s: %v", list.Name(), err)
	} else {
		c.note(err)
	}
}

// empty deletes all keys.
func (c *cell) empty(ctx context.Context) error {
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
	}
	return c.rdb.FlushAll(ctx).Err()
}

// insist repeats what fails because of the faults.
func (c *cell) insist(do func(ctx context.Context) error) (err error) {
	for range 200 {
		if err = do(c.ctx); err == nil || errors.Is(err, shardedlist.ErrBroken) || c.ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// write saves a file about a violation, and returns where.
func (c *cell) write(name string, content []byte) string {
	path := fmt.Sprintf("%s/%s-%s-%s", c.out, c.fault.name, c.kind, name)
	if err := errors.Join(os.MkdirAll(c.out, 0o755), os.WriteFile(path, content, 0o644)); err != nil {
		return err.Error()
	}
	return path
}
