package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shardedlist/shardedlist"
)

const (
	// jobsFor is how long a run of jobs lasts at most. Then all is drained and checked, and the next one begins.
	jobsFor = 20 * time.Second
	// drainPatience is much longer than it takes to drain the queues.
	drainPatience = 30 * time.Second
	// sampleEvery is how often the server is asked how many jobs are leased.
	sampleEvery = 7 * time.Millisecond
)

// jobsSpec returns what all workers of a run have in common.
func (sc *scenario) jobsSpec() jobsSpec {
	name := fmt.Sprintf("%s:jobs:%d:", tag, sc.lap)
	return jobsSpec{
		Seed: sc.seed + uint64(sc.lap), Lease: jobLease, Cancel: sc.fault.cancel,
		Queues: []jobQueueSpec{
			{Name: name + "free", Attempts: manyAttempts},
			{Name: name + "few", Attempts: fewAttempts, Concurrency: 5},
			{Name: name + "slow", Attempts: manyAttempts, Rate: sc.rate, PopRight: true},
		},
	}
}

func (sc *scenario) newJobLedger() *jobLedger { return newJobLedger(sc.jobsSpec(), sc.fault.waits) }

// uniqueKeyOf returns the Redis key of a unique key.
func uniqueKeyOf(queue, key string) string {
	hash := sha1.Sum([]byte(key))
	return queue + ":queue:unique:" + hex.EncodeToString(hash[:])
}

// tryJobs makes runs of jobs for that long, without the time that it takes to drain and check them.
func (sc *scenario) tryJobs(span time.Duration) {
	for span > 0 && sc.ctx.Err() == nil && sc.quit.Err() == nil {
		share := min(span, jobsFor)
		sc.phase(share, func(ctx context.Context, nemesis func()) {
			sc.jobs(ctx, sc.newJobLedger(), nemesis)
		})
		span -= share
		sc.lap++
	}
}

// crashJobs makes a run of jobs in which a master crashes, whose replica lags behind.
func (sc *scenario) crashJobs() {
	l := sc.newJobLedger()
	ctx, cancel := context.WithCancel(sc.ctx)
	defer cancel()
	sc.jobs(ctx, l, func() {
		defer cancel()
		sc.await(l, 300, 300)
		l.crashed(sc.replicate())
		sc.takeOver(l)
		sc.row.Faults++
		sc.await(l, 300, 1500) // more than waited when it began
	})
	sc.dismiss()
	sc.lap++
}

// replicate waits until the replica has all that clients had been told of when it was called, and returns when that was.
func (sc *scenario) replicate() (at int64) {
	at = now()
	list, err := shardedlist.New(sc.rdb, tag+":replicated", shardedlist.WithReplicas(1, 5*time.Second))
	sc.note(err)
	sc.note(sc.retry(func(ctx context.Context) error {
		_, err := list.RPush(ctx, "")
		return err
	}))
	return at
}

// jobs runs producers and queues while faults strike, until ctx ends. Then it stops all of them, looks where the jobs are, lets the
// queues drain, and checks that each job was done.
func (sc *scenario) jobs(ctx context.Context, l *jobLedger, nemesis func()) {
	spec, began := sc.jobsSpec(), now()
	crew := sc.startCrew(l, spec)
	sampled := sc.sample(spec)
	nemesis()
	<-ctx.Done()
	evidence := l.Evidence()
	var found places
	if crew.stage(order{Stop: true}) {
		found = sc.checkJobs(spec, func(found places, _ []jobKeys) error { return sc.halted(l, found) })
	}
	if crew.send(order{Drain: true}); sc.drain(spec) && crew.stage(order{Close: true}) {
		found = sc.checkJobs(spec, l.over)
	}
	sc.judgeLimits(l, spec, sampled(), began)
	sc.settleAccounts(l, found)
	if sc.ctx.Err() == nil && sc.quit.Err() == nil && evidence != nil {
		sc.missEvidence("most calls failed: %v", evidence)
	}
	sc.note(sc.retry(sc.empty))
}

// halted judges where the jobs are when all workers have stopped, and enters it.
func (sc *scenario) halted(l *jobLedger, found places) error {
	problems := slices.DeleteFunc(l.tally(found).Problems, func(p jobProblem) bool { return p.Kind != jobLost && p.Kind != jobInvented })
	if len(problems) > 0 {
		return errors.New(sc.evidence(problems))
	}
	if len(found) == 0 && sc.quit.Err() == nil {
		return errors.New("there are no jobs in the queues, so their keys show nothing")
	}
	return nil
}

// over judges what is left when all is done.
func (l *jobLedger) over(found places, keys []jobKeys) error {
	var err error
	for payload, where := range found {
		err = errors.Join(err, fmt.Errorf("%s is still %s", payload, where))
	}
	done := l.doneIn()
	for at, k := range keys {
		if len(k.unique) > 0 {
			err = errors.Join(err, fmt.Errorf("%d unique keys have outlived their jobs: %s", len(k.unique), k.unique[0]))
		}
		if l.replicated == 0 && done[at] != k.done {
			err = errors.Join(err, fmt.Errorf("%s has counted %d jobs that were done, and there are %d", k.name, k.done, done[at]))
		}
	}
	return err
}

// doneIn returns how many jobs of each queue were done.
func (l *jobLedger) doneIn() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := make([]int64, len(l.attempts))
	for _, job := range l.jobs {
		if job.isDone() {
			done[job.Queue]++
		}
	}
	return done
}

// settleAccounts enters what a run has come to into the row. Jobs are where they were found last; if nobody has looked, none counts as lost.
func (sc *scenario) settleAccounts(l *jobLedger, found places) {
	t := l.tally(found)
	if sc.ctx.Err() != nil && sc.quit.Err() == nil {
		sc.write(fmt.Sprintf("all-jobs-%d.json", sc.lap), l.history())
	}
	t.Problems = slices.DeleteFunc(t.Problems, func(p jobProblem) bool { return found == nil && p.Kind == jobLost })
	sc.row.Operations += l.pushes + int64(len(l.calls))
	sc.row.Elements += t.Done
	sc.row.Again += t.Again
	sc.row.Excused += t.Undone
	if sc.fault.cancel {
		sc.row.Faults += l.refused + l.runsEnded
	}
	for _, p := range t.Problems {
		if p.Kind == jobLost {
			sc.row.Lost++
		} else {
			sc.row.Doubled++
		}
	}
	if len(t.Problems) > 0 {
		sc.violate("%s", sc.evidence(t.Problems)) // unless one has been found before
	}
}

// evidence tells how many problems there are of each kind, an example, and the file that has all.
func (sc *scenario) evidence(problems []jobProblem) string {
	counts := map[string]int{}
	for _, p := range problems {
		counts[p.Kind]++
	}
	text := ""
	for _, kind := range []string{jobLost, jobInvented, jobTwice, jobAtOnce, jobEarly, jobRenamed, jobUnique} {
		if counts[kind] > 0 {
			text += fmt.Sprintf("%d jobs %s; ", counts[kind], kind)
		}
	}
	return text + problems[0].Text + " " + sc.write(fmt.Sprintf("jobs-%d.json", sc.lap), pretty(problems))
}

// crew are the workers of a run of jobs.
type crew struct {
	sc      *scenario
	spec    jobsSpec
	mu      sync.Mutex
	working map[*process]bool // in this stage
	over    chan struct{}     // closed when the stage has ended for all
}

// startCrew starts the workers.
func (sc *scenario) startCrew(l *jobLedger, spec jobsSpec) *crew {
	c := &crew{sc: sc, spec: spec, working: map[*process]bool{}, over: make(chan struct{})}
	sc.numbers = 1
	sc.launch(func(p *process, line []byte) {
		if l.hear(p, line) {
			c.leave(p)
		}
		if text := l.noFaultExplains(); text != "" {
			sc.violate("an error that no fault explains: %s", text)
		}
	}, func(p *process) {
		at := p.killed.Load()
		if at == 0 && c.isWorking(p) {
			sc.note(errors.New("a worker has ended by itself"))
		}
		l.died(p, at)
		c.leave(p)
	}, func(_ int, p *process) { c.engage(p) })
	for _, p := range sc.processes {
		c.engage(p)
	}
	return c
}

// engage gives a worker its own producers.
func (c *crew) engage(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own := c.spec
	for range producersPerWorker {
		own.Producers = append(own.Producers, c.sc.numbers)
		c.sc.numbers++
	}
	c.working[p] = true
	p.send(order{Jobs: &own})
}

func (c *crew) isWorking(p *process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.working[p]
}

// leave notes that the stage has ended for a worker.
func (c *crew) leave(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.working[p] {
		return
	}
	if delete(c.working, p); len(c.working) == 0 {
		close(c.over)
	}
}

// send gives an order to all workers.
func (c *crew) send(o order) {
	c.sc.mu.Lock()
	processes := c.sc.processes
	c.sc.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.working, c.over = map[*process]bool{}, make(chan struct{})
	for _, p := range processes {
		c.working[p] = true
		p.send(o)
	}
}

// stage gives an order and waits until all workers have ended the stage.
func (c *crew) stage(o order) bool {
	c.send(o)
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	select {
	case <-over:
	case <-c.sc.ctx.Done():
	case <-time.After(roundPatience):
		c.sc.violate("a Run or a push has not returned %v after it was told to", roundPatience)
	}
	return c.sc.ctx.Err() == nil
}

// drain waits until all jobs are done. It lets the queues try the dead again.
func (sc *scenario) drain(spec jobsSpec) bool {
	left := ""
	for deadline := time.Now().Add(drainPatience); sc.ctx.Err() == nil; sc.sleep(50 * time.Millisecond) {
		if left = sc.left(spec); left == "" {
			return true
		}
		if time.Now().After(deadline) {
			sc.violate("%v after the last fault there are jobs that nobody does: %s", drainPatience, left)
		}
	}
	return false
}

// left tells what is in the queues, and lets them try the dead again.
func (sc *scenario) left(spec jobsSpec) (left string) {
	for _, q := range spec.Queues {
		opened := sc.openJobs(q)
		_, failure := opened.RetryAll(sc.ctx)
		stats, err := opened.Stats(sc.ctx)
		if err = errors.Join(err, failure); err != nil || stats.Waiting+stats.Delayed+stats.Leased+stats.Dead > 0 {
			left += fmt.Sprintf("%s: %+v %v; ", q.Name, stats, err)
		}
	}
	return left
}

// leases is what was seen of those of the queues, by the server's own record.
type leases struct {
	samples int
	peak    []int64 // how many jobs of a queue were leased at most
}

// sample asks the server again and again how many jobs are leased, until the result is asked for.
func (sc *scenario) sample(spec jobsSpec) (end func() leases) {
	var sampling sync.WaitGroup
	stop, seen := make(chan struct{}), leases{peak: make([]int64, len(spec.Queues))}
	sampling.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-sc.ctx.Done():
				return
			case <-time.After(sampleEvery):
			}
			for at, q := range spec.Queues {
				leased, err := sc.rdb.ZCount(context.Background(), q.Name+":queue:times", "-inf", "(0").Result()
				if err != nil {
					continue
				}
				seen.samples++
				if seen.peak[at] = max(seen.peak[at], leased); q.Concurrency > 0 && leased > q.Concurrency {
					sc.violate("%d jobs of %s are leased, and the limit is %d", leased, q.Name, q.Concurrency)
				}
			}
		}
	})
	return func() leases {
		close(stop)
		sampling.Wait()
		return seen
	}
}

// judgeLimits notes whether the concurrency was reached, so that it could have been exceeded, and checks that no more jobs were begun than
// the rate allows since the run has begun.
func (sc *scenario) judgeLimits(l *jobLedger, spec jobsSpec, seen leases, began int64) {
	if sc.ctx.Err() != nil || sc.quit.Err() != nil {
		return
	}
	for at, q := range spec.Queues {
		if q.Concurrency > 0 && seen.peak[at] < q.Concurrency {
			sc.unreached = fmt.Sprintf("of %d samples none found the limit of %s reached, but %d jobs at most", seen.samples, q.Name, seen.peak[at])
		} else if q.Concurrency > 0 {
			sc.reached = true
		}
		if q.Rate > 0 {
			sc.judgeRate(l, at, q, began)
		}
	}
}

func (sc *scenario) judgeRate(l *jobLedger, at int, q jobQueueSpec, began int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var begins []int64
	for _, job := range l.jobs {
		for _, c := range job.Calls {
			if job.Queue == at {
				begins = append(begins, c.Begin)
			}
		}
	}
	if excess := overRate(begins, began, q.Rate, max(1, q.Rate/10)); excess > 0 && l.replicated == 0 {
		sc.violate("%s has begun %d jobs more than its rate of %d a second allows", q.Name, excess, q.Rate)
	}
}

// overRate returns by how many jobs a bucket was overdrawn that was full when a run began: each job was taken before it was begun.
func overRate(begins []int64, began, rate, burst int64) (excess int64) {
	slices.Sort(begins)
	for i, at := range begins {
		allowed := burst + (at-began)*rate/int64(time.Second) + 1
		excess = max(excess, int64(i+1)-allowed)
	}
	return excess
}
