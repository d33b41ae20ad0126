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
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/spread"
)

const (
	workers = 3
	// tag is in the names of all lists, so that on a cluster they are in one slot.
	tag = "{robustness}"
	// lostWakeUp is how long a consumer may be blocked at a list with elements, not counting the time that the machine stalls it.
	lostWakeUp = time.Second
)

// A scenario is one fault on one kind of server: rounds, which are checked for linearizability, then a queue, which is checked for
// conservation. Where a failover may undo operations there are only queues.
type scenario struct {
	harness
	fault   fault
	kind    redistest.Kind
	clients string // how they call
	seed    uint64
	span    time.Duration
	variant string
	hook    redis.Hook // of the clients of a damaged list
	foreign bool       // the variant has another layout: its lists are neither read nor checked
	only    string     // "rounds", "queue", or "blocking queue": a queue whose consumers always block
	out     string     // the directory for histories that break a promise
	rate    int64      // of jobs a second, where a queue limits it

	server  *redistest.Server
	rdb     redis.UniversalClient // the harness's own client, without faults
	proxies []*redistest.Proxy
	network *network        // nil unless the fault cuts links
	program string          // that workers run
	quit    context.Context // ends when the run is interrupted: no more faults and calls
	ctx     context.Context // ends at the first violation
	fail    context.CancelCauseFunc

	mu        sync.Mutex
	processes [workers]*process
	hear      func(p *process, line []byte) // set by each phase
	gone      func(p *process)
	restarted func(i int, p *process)
	dead      map[*process]bool
	numbers   int    // of producers and consumers, all below it
	lap       int    // the run of jobs
	unreached string // tells of a run of jobs that has not reached a limit
	reached   bool   // another has
	row       row
	inPlay    map[string]int // the spread lists in use: how many parts they have
	calls     int            // of rounds
	answered  int            // of those, the ones that had a result

	inconclusive bool // see missEvidence
}

// hasRounds reports whether there are rounds with the clients. In pipelines and transactions a call has no moment of its own. While a slot
// moves, the elements of plain producers stay at the plain key, behind what others push meanwhile.
func (sc *scenario) hasRounds() bool {
	switch sc.clients {
	case crowd, pipelines, transactions, moves, queueJobs:
		return false
	case rollout:
		return !sc.fault.hasStrike("slot move")
	}
	return true
}

// row is the result of a scenario.
type row struct {
	Fault, Server, Command string
	Clients                string // how they call
	Time                   time.Duration
	Operations, Rounds, ByConservation, Undecided, Faults,
	Elements, Lost, Doubled, Disordered, HalfDone int64
	Excused     int64 // lost or undone, as the fault allows
	Again       int64 // times that a job was done again, after its lease had run out
	LongestWait time.Duration
	Hiccup      time.Duration
	Violation   string
}

// run runs the scenario and returns its row. Violation is empty if all promises were kept. An error means that the harness failed.
func (sc *scenario) run(ctx context.Context) (r row, err error) {
	sc.quit = ctx
	sc.ctx, sc.fail = context.WithCancelCause(context.WithoutCancel(ctx))
	defer sc.fail(nil)
	defer sc.close()
	if err := sc.try(sc.setUp); err != nil {
		return sc.row, err
	}
	if sc.clients == steps {
		sc.only = "rounds"
	}
	began, span := time.Now(), sc.span
	if sc.fault.crash && sc.fault.strikes != nil {
		span /= 2
	}
	if sc.fault.damage {
		within, cancel := context.WithTimeout(sc.ctx, span)
		defer cancel()
		defer context.AfterFunc(sc.quit, cancel)()
		sc.damage(within)
	} else if !sc.fault.crash || sc.fault.strikes != nil {
		share := span / 2
		if sc.only != "" || !sc.hasRounds() {
			share = span
		}
		if sc.hasRounds() && (sc.only == "" || sc.only == "rounds") {
			sc.phase(share, sc.rounds)
		}
		if sc.clients == queueJobs {
			sc.tryJobs(span)
		} else if sc.only != "rounds" {
			sc.phase(span-share%span, sc.queue)
		}
	}
	crashing, before := time.Now(), sc.row.Faults
	for sc.fault.crash && sc.ctx.Err() == nil && sc.quit.Err() == nil && (time.Since(crashing) < span || sc.row.Faults == before) {
		if sc.clients == queueJobs {
			sc.crashJobs()
		} else {
			sc.crash()
		}
	}
	sc.row.Time = time.Since(began)
	sc.showEvidence()
	cause := context.Cause(sc.ctx)
	var v violation
	switch {
	case errors.As(cause, &v):
		sc.row.Violation = v.Error()
	case cause != nil:
		return sc.row, cause
	}
	return sc.row, nil
}

// showEvidence adds the strikes of the proxies to the row. A scenario has shown nothing if its faults have not struck, if most calls of its
// rounds had no result, or if jobs never were as many at once as a limit allows, so that none could exceed it; for queues see ledger.Evidence. One that was interrupted may not have come so far.
func (sc *scenario) showEvidence() {
	var strikes int64
	for _, proxy := range sc.proxies {
		strikes += proxy.Strikes()
	}
	struck := sc.row.Faults > 0 || sc.fault.strikes == nil && !sc.fault.cancel && !sc.fault.crash && !sc.fault.damage
	sc.row.Faults += strikes
	switch {
	case sc.quit.Err() != nil || sc.ctx.Err() != nil:
	case !struck, sc.proxies != nil && strikes == 0:
		sc.missEvidence("no fault has struck")
	case 2*sc.answered < sc.calls:
		sc.missEvidence("of %d calls in rounds, only %d had a result", sc.calls, sc.answered)
	case sc.unreached != "" && !sc.reached:
		sc.missEvidence("%s", sc.unreached)
	}
}

func (sc *scenario) setUp() {
	sc.server = redistest.StartAt(&sc.harness, sc.kind, sc.placements(), sc.fault.config...)
	sc.checkClocks(sc.clocks())
	var err error
	if sc.fault.clocks {
		sc.program, err = programAhead()
	} else {
		sc.program, err = os.Executable()
	}
	if err != nil {
		sc.Fatalf("no program for workers: %v", err)
	}
	sc.rdb = sc.server.Client(&sc.harness, func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Second })
	if sc.fault.needsProxy() {
		for i := range workers {
			sc.proxies = append(sc.proxies, redistest.NewSeededProxy(&sc.harness, sc.seed+uint64(i)))
		}
	}
	sc.dead, sc.inPlay = map[*process]bool{}, map[string]int{}
}

// placements returns where the server's processes run, or nil if they run beside this one.
func (sc *scenario) placements() []redistest.Placement {
	if !sc.fault.apart {
		placements, err := clockPlacements(sc.clocks())
		sc.note(err)
		return placements
	}
	var err error
	if sc.network, err = newNetwork(&sc.harness); err != nil {
		sc.Fatalf("no network: %v", err)
	}
	return sc.network.placements()
}

// violation is a broken promise.
type violation string

func (v violation) Error() string { return string(v) }

func (sc *scenario) violate(format string, args ...any) {
	sc.fail(violation(fmt.Sprintf(format, args...)))
}

// missEvidence ends a scenario that has broken no promise, but has not shown either that it would have noticed.
func (sc *scenario) missEvidence(format string, args ...any) {
	sc.mu.Lock()
	sc.inconclusive = true
	sc.mu.Unlock()
	sc.violate(format, args...)
}

// longer returns the same scenario with more time, not yet begun.
func (sc *scenario) longer() *scenario {
	r := row{Fault: sc.row.Fault, Server: sc.row.Server, Clients: sc.row.Clients, Command: sc.row.Command}
	return &scenario{
		fault: sc.fault, kind: sc.kind, clients: sc.clients, seed: sc.seed, span: 3 * sc.span,
		variant: sc.variant, hook: sc.hook, foreign: sc.foreign, only: sc.only, out: sc.out, rate: sc.rate, row: r,
	}
}

// tear notes a transaction of which only a part was carried out.
func (sc *scenario) tear(format string, args ...any) {
	sc.mu.Lock()
	sc.row.HalfDone++
	sc.mu.Unlock()
	sc.violate("a transaction is half done: "+format, args...)
}

// note ends the scenario if the harness fails.
func (sc *scenario) note(err error) {
	if err != nil && sc.ctx.Err() == nil {
		sc.fail(fmt.Errorf("%s on %s: %w", sc.fault.name, sc.kind, err))
	}
}

// phase runs body, which ends with its context, while faults strike.
func (sc *scenario) phase(d time.Duration, body func(ctx context.Context, nemesis func())) {
	if sc.ctx.Err() != nil || sc.quit.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(sc.ctx, d)
	defer cancel()
	defer context.AfterFunc(sc.quit, cancel)()
	for _, proxy := range sc.proxies {
		proxy.Set(sc.fault.network)
	}
	body(ctx, func() { sc.strike(ctx) })
	sc.dismiss()
}

// strike strikes until the phase ends, and leaves everything repaired.
func (sc *scenario) strike(ctx context.Context) {
	if len(sc.fault.strikes) == 0 {
		return
	}
	random := rand.New(rand.NewPCG(sc.seed, uint64(sc.lap)<<32))
	for {
		if sc.sleepIn(ctx, time.Duration(random.Int64N(2*int64(sc.fault.every)))); ctx.Err() != nil {
			return
		}
		s := sc.fault.strikes[random.IntN(len(sc.fault.strikes))]
		sc.note(sc.try(func() { s.apply(sc, random) }))
		sc.mu.Lock()
		sc.row.Faults++
		sc.mu.Unlock()
	}
}

func (sc *scenario) sleep(d time.Duration) { sc.sleepIn(sc.ctx, d) }

func (sc *scenario) sleepIn(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (sc *scenario) slot() int {
	return int(sc.rdb.ClusterKeySlot(context.Background(), tag).Val())
}

// parts is the number of parts of a spread list.
const parts = 5

// slots returns the slots of the lists in use. The first has what is not spread.
func (sc *scenario) slots() []int {
	slots := []int{sc.slot()}
	if sc.clients != spreadLists {
		return slots
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for name, parts := range sc.inPlay {
		for part := range parts {
			slots = append(slots, script.Slot(spread.PartOf(name, part, parts).Meta))
		}
	}
	return slots
}

// launch starts the workers of a phase.
func (sc *scenario) launch(hear func(p *process, line []byte), gone func(p *process), restarted func(i int, p *process)) {
	sc.hear, sc.gone, sc.restarted = hear, gone, restarted
	for i := range workers {
		sc.processes[i] = sc.start(i)
	}
}

func (sc *scenario) start(i int) *process {
	spec := clientSpec{
		Addrs: sc.server.Addrs(), ReadTimeout: sc.fault.readTimeout(), Variant: sc.variant,
		Cluster: sc.kind == redistest.Cluster || sc.kind == redistest.ReplicatedCluster,
	}
	if sc.kind == redistest.Sentinel {
		options, err := redis.ParseFailoverURL(sc.server.URL())
		sc.note(err)
		spec.Master = options.MasterName
	}
	if sc.fault.waits {
		spec.Replicas = 1
	}
	spec.NoRetries = i == 0 && sc.clients != methods
	if sc.clients == crowd {
		spec.Pipelines = 3
	}
	if sc.network != nil {
		spec.From = sc.network.client(i)
	}
	if sc.proxies != nil {
		spec.Through = map[string]string{}
		for _, node := range sc.server.Nodes() {
			through, err := sc.proxies[i].Addr(node.Addr())
			sc.note(err)
			spec.Through[node.Addr()] = through
		}
	}
	var p *process
	ready := make(chan struct{})
	var ahead time.Duration
	if sc.fault.clocks {
		ahead = clocksOfWorkers[i]
	}
	p, err := launch(sc.program, ahead, spec, func(line []byte) { <-ready; sc.hear(p, line) }, sc.note, func() { <-ready; sc.lose(p) })
	if err != nil {
		panic(err)
	}
	close(ready)
	return p
}

// lose notes that a process has ended.
func (sc *scenario) lose(p *process) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.dead[p] = true
	sc.gone(p)
}

// killWorker kills a worker, whatever it is doing, and starts another in its place.
func (sc *scenario) killWorker(i int) {
	sc.mu.Lock()
	p := sc.processes[i]
	sc.mu.Unlock()
	p.kill()
	p = sc.start(i)
	sc.mu.Lock()
	sc.processes[i] = p
	sc.mu.Unlock()
	sc.restarted(i, p)
}

// dismiss ends the workers.
func (sc *scenario) dismiss() {
	for _, p := range sc.processes {
		_ = p.input.Close()
		select {
		case <-p.ended:
		case <-time.After(time.Second): // a put-back is under way, or a call that a violation left behind
			p.kill()
		}
	}
}

// open returns the harness's own handle of a list.
func (sc *scenario) open(name string) *shardedlist.ShardedList {
	list, err := shardedlist.New(sc.rdb, name, shardedlist.WithCapacity(1))
	if err != nil {
		panic(err)
	}
	return list
}

// read returns the content of a list, retrying while faults strike. Where reads may be stale it pops the content.
func (sc *scenario) read(list *shardedlist.ShardedList) (values []string) {
	if sc.foreign {
		return nil
	}
	err := sc.retry(func(ctx context.Context) (err error) {
		if !sc.staleReads() {
			values, err = list.LRange(ctx, 0, -1)
		} else if values, err = list.LPopCount(ctx, everything); err == redis.Nil {
			err = nil
		}
		return err
	})
	sc.mustBeWhole(list, err)
	return values
}

// staleReads reports whether a client may read from the old master until it hears of the failover. The old master is a replica then,
// which serves reads and lags behind; it refuses writes. A node of a cluster redirects reads, too.
func (sc *scenario) staleReads() bool { return sc.kind == redistest.Sentinel }

// everything is more elements than a list holds at the end.
const everything = 1 << 18

// check verifies a list's invariants.
func (sc *scenario) check(list *shardedlist.ShardedList) {
	if sc.foreign {
		return
	}
	sc.mustBeWhole(list, sc.retry(list.Check))
}

// mustBeWhole tells an error of the list from one of the harness.
func (sc *scenario) mustBeWhole(list *shardedlist.ShardedList, err error) {
	if errors.Is(err, shardedlist.ErrBroken) {
		sc.violate("%s: %v", list.Name(), err)
	} else {
		sc.note(err)
	}
}

// empty deletes all keys.
func (sc *scenario) empty(ctx context.Context) error {
	if cluster, ok := sc.rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() })
	}
	return sc.rdb.FlushAll(ctx).Err()
}

// retry retries do while faults make it fail.
func (sc *scenario) retry(do func(ctx context.Context) error) (err error) {
	for range 200 {
		if err = do(sc.ctx); err == nil || errors.Is(err, shardedlist.ErrBroken) || sc.ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// write saves a file about a violation and returns its path.
func (sc *scenario) write(name string, content []byte) string {
	path := fmt.Sprintf("%s/%s-%s-%s", sc.out, sc.fault.name, sc.kind, name)
	if err := errors.Join(os.MkdirAll(sc.out, 0o755), os.WriteFile(path, content, 0o644)); err != nil {
		return err.Error()
	}
	return path
}
