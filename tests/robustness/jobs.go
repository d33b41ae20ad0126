package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/queue"
)

// A jobsSpec is a worker's part of a long run of the package queue: producers push jobs, and one Run for each queue does them. The
// payload of a job is the name of an element: its producer and its number.
//
// It has three stages. Orders end them: Stop the load, and with it all Runs; Drain the pause; and Close the draining, in which nobody
// pushes and no handler fails.
type jobsSpec struct {
	Queues    []jobQueueSpec `json:"queues"`
	Seed      uint64         `json:"seed"`
	Producers []int          `json:"producers"` // their numbers
	Lease     time.Duration  `json:"lease"`
	Cancel    bool           `json:"cancel"` // pushes, and Runs
}

type jobQueueSpec struct {
	Name        string `json:"name"`
	Concurrency int64  `json:"concurrency"` // 0: no limit
	Rate        int64  `json:"rate"`        // jobs a second; 0: no limit
	Attempts    int    `json:"attempts"`
	PopRight    bool   `json:"popRight"`
}

// Lines of jobs; times are those of now:
//
//	line                                     meaning
//	> producer first count queue delay key start   a push begins; delay in nanoseconds, key is - for none
//	+ producer first count end id            pushed; ~ if not on all replicas; the id is - for several
//	? producer first count end -             outcome unknown
//	! producer first count end -             not pushed
//	d producer first count end id            not pushed: the job with the id has the key
//	b call payload attempt run id start      a handler begins; call and run are numbers, of this process
//	e call result end                        it returns: ok, error, dead or panic
//	c call cause at                          its context has ended: lost, shutdown or ended
//	r run at                                 a Run has returned
//	x text                                   an error that no fault explains
//	h start end                              the machine stalled this process
//	.                                        a stage has ended: the load, or the draining
const (
	jobLease       = time.Second
	jobWorkers     = 4   // of each Run
	jobBacklog     = 150 // producers leave a longer queue alone, so that it does not take minutes to drain
	manyAttempts   = 1000
	fewAttempts    = 3
	slowJobs       = 6  // in 100: they take up to 1.6 leases in each attempt
	uniqueKeys     = 20 // of each queue
	longestDelay   = 700 * time.Millisecond
	longestBackoff = 60 * time.Millisecond
)

// options returns those of a queue.
func (s jobsSpec) options(q jobQueueSpec, list ...shardedlist.Option) []queue.Option {
	options := []queue.Option{
		queue.Lease(s.Lease), queue.Attempts(q.Attempts), queue.Grace(s.Lease / 3), queue.List(list...),
		queue.Backoff(func(int) time.Duration { return rand.N(longestBackoff) }),
	}
	if q.Concurrency > 0 {
		options = append(options, queue.Concurrency(q.Concurrency))
	}
	if q.Rate > 0 {
		options = append(options, queue.Rate(q.Rate, time.Second))
	}
	if q.PopRight {
		options = append(options, queue.PopRight())
	}
	return options
}

// jobQueue is the queue under test: a *queue.Queue, or a broken one that shows what the checks can find.
type jobQueue interface {
	Push(ctx context.Context, payload any, opts ...queue.PushOption) (string, error)
	PushMany(ctx context.Context, payloads []any, opts ...queue.PushOption) ([]string, error)
	Run(ctx context.Context, workers int, handler queue.Handler) error
	List() *shardedlist.ShardedList
}

// jobQueues are the queues that a worker can use.
var jobQueues = map[string]func(rdb redis.UniversalClient, name string, options ...queue.Option) (jobQueue, error){
	"": func(rdb redis.UniversalClient, name string, options ...queue.Option) (jobQueue, error) {
		return queue.New(rdb, name, options...)
	},
}

// site is where a worker does jobs.
type site struct {
	*worker
	spec    jobsSpec
	queues  []jobQueue
	lengths []atomic.Int64 // of the lists of the queues, as they were lately
	calls   atomic.Int64   // of handlers
	runs    atomic.Int64
	calm    atomic.Bool // no handler fails any more
}

// jobs runs the worker's part.
func (w *worker) jobs(spec jobsSpec) {
	s := &site{worker: w, spec: spec, lengths: make([]atomic.Int64, len(spec.Queues))}
	for _, q := range spec.Queues {
		s.queues = append(s.queues, w.jobQueue(spec, q))
	}
	var others sync.WaitGroup
	ended := make(chan struct{})
	others.Go(func() { w.watchHiccups(ended) })
	others.Go(s.measure)
	s.stage(w.stop, spec.Producers)
	<-w.drain
	s.calm.Store(true)
	s.stage(w.closed, nil)
	close(ended)
	others.Wait()
}

func (w *worker) jobQueue(spec jobsSpec, q jobQueueSpec) jobQueue {
	list := []shardedlist.Option{shardedlist.WithCapacity(5)}
	if w.spec.Replicas > 0 {
		list = append(list, shardedlist.WithReplicas(w.spec.Replicas, 50*time.Millisecond))
	}
	opened, err := jobQueues[w.spec.Variant](w.rdb, q.Name, spec.options(q, list...)...)
	if err != nil {
		panic(err)
	}
	return opened
}

// stage runs producers and all queues until over is closed.
func (s *site) stage(over <-chan struct{}, producers []int) {
	ctx, cancel := context.WithCancel(context.Background())
	var everyone sync.WaitGroup
	for _, p := range producers {
		everyone.Go(func() { s.produce(p) })
	}
	for at := range s.queues {
		everyone.Go(func() { s.consume(ctx, at) })
	}
	<-over
	cancel()
	everyone.Wait()
	s.say([]byte("."))
}

// measure looks how long the lists are, until the load ends.
func (s *site) measure() {
	for !s.stopped() {
		for at, q := range s.queues {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			length, _ := q.List().LLen(ctx) // 0 if it fails
			cancel()
			s.lengths[at].Store(length)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// jobPush is a call of Push, or of PushMany.
type jobPush struct {
	queue, producer, first, count int
	delay                         time.Duration
	key                           string
}

// produce pushes bursts of jobs, with pauses that let the queues drain and the consumers wait.
func (s *site) produce(producer int) {
	random := rand.New(rand.NewPCG(s.spec.Seed, uint64(producer)))
	for next, burst := 0, 0; !s.stopped(); burst-- {
		burst = queueSpec{}.pause(random, burst)
		p := s.draw(random, producer, next)
		if s.lengths[p.queue].Load() > jobBacklog {
			time.Sleep(time.Millisecond)
			continue
		}
		s.push(p, random)
		next += p.count
	}
}

// draw chooses what to push. Limited queues get less.
func (s *site) draw(random *rand.Rand, producer, next int) jobPush {
	p := jobPush{producer: producer, first: next, count: 1, key: "-"}
	if random.IntN(3) == 0 {
		p.queue = random.IntN(len(s.queues))
	}
	switch roll := random.IntN(100); {
	case roll < 15:
		p.delay = time.Duration(1+random.Int64N(int64(longestDelay/time.Millisecond))) * time.Millisecond
	case roll < 25:
		p.key = fmt.Sprint(random.IntN(uniqueKeys))
	case roll < 28: // both
		p.delay, p.key = 50*time.Millisecond, fmt.Sprint(random.IntN(uniqueKeys))
	case roll < 35:
		p.count = 1 + random.IntN(maxBurst)
	}
	return p
}

func (s *site) push(p jobPush, random *rand.Rand) {
	var opts []queue.PushOption
	if p.delay > 0 {
		opts = append(opts, queue.In(p.delay))
	}
	if p.key != "-" {
		opts = append(opts, queue.Unique(p.key, time.Hour))
	}
	s.say(fmt.Appendf(nil, "> %d %d %d %d %d %s %d", p.producer, p.first, p.count, p.queue, p.delay, p.key, now()))
	ctx, cancel := queueSpec{Cancel: s.spec.Cancel}.context(random)
	defer cancel()
	var err error
	id := "-"
	if p.count == 1 {
		id, err = s.queues[p.queue].Push(ctx, ledger.Name(p.producer, p.first), opts...)
	} else {
		_, err = s.queues[p.queue].PushMany(ctx, values(p.producer, p.first, p.count), opts...)
	}
	what := jobFate(err)
	if what == '!' || what == '?' {
		id = "-"
	}
	s.say(fmt.Appendf(nil, "%c %d %d %d %d %s", what, p.producer, p.first, p.count, now(), id))
	if what != '!' {
		return
	}
	if isUnexpected(err) {
		s.say([]byte("x push: " + err.Error()))
	}
	time.Sleep(3 * time.Millisecond) // or most calls would be those that are refused
}

// jobFate returns the letter of a push with this error.
func jobFate(err error) byte {
	switch {
	case errors.Is(err, queue.ErrDuplicate):
		return 'd'
	case err == nil:
		return '+'
	case isDone(err):
		return '~'
	case errors.Is(err, shardedlist.ErrOutcomeUnknown):
		return '?'
	}
	return '!'
}

// consume runs a queue until ctx ends. If calls are cancelled, Run is stopped and started again meanwhile.
func (s *site) consume(ctx context.Context, at int) {
	random := rand.New(rand.NewPCG(s.spec.Seed, 1<<32+uint64(s.spec.Producers[0])<<8+uint64(at)))
	for ctx.Err() == nil {
		life, end := ctx, func() {}
		if s.spec.Cancel && !s.calm.Load() {
			life, end = context.WithTimeout(ctx, time.Duration(random.IntN(1500))*time.Millisecond)
		}
		number := s.runs.Add(1)
		err := s.queues[at].Run(life, jobWorkers, s.handler(number))
		if life.Err() == nil || err != nil && !errors.Is(err, queue.ErrUnfinished) {
			s.say(fmt.Appendf(nil, "x a Run has ended, its context being %v, with %v", life.Err(), err))
			time.Sleep(10 * time.Millisecond)
		}
		s.say(fmt.Appendf(nil, "r %d %d", number, now()))
		end()
	}
}

// handler returns the handler of a Run: it reports what it does, and when its context ends.
func (s *site) handler(run int64) queue.Handler {
	return func(ctx context.Context, job *queue.Job) (err error) {
		call, payload := s.calls.Add(1), string(job.Payload)
		if _, _, ok := ledger.Parse(payload); !ok {
			payload = fmt.Sprintf("%x-", payload)
		}
		s.say(fmt.Appendf(nil, "b %d %s %d %d %s %d", call, payload, job.Attempt, run, job.ID, now()))
		context.AfterFunc(ctx, func() {
			at := now()
			s.say(fmt.Appendf(nil, "c %d %s %d", call, causeOf(ctx), at))
		})
		result := s.work(ctx, payload)
		s.say(fmt.Appendf(nil, "e %d %s %d", call, result, now()))
		return result.end()
	}
}

// causeOf returns why a handler's context has ended.
func causeOf(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, queue.ErrLeaseLost):
		return leaseLost
	case errors.Is(cause, queue.ErrShutdown):
		return shutDown
	}
	return settled
}

// Why a handler's context has ended.
const (
	leaseLost = "lost"
	shutDown  = "shutdown"
	settled   = "ended" // what became of the job was decided, or Run has returned
)

// jobResult is what a handler comes to.
type jobResult string

const (
	jobDone   jobResult = "ok"
	jobFailed jobResult = "error"
	jobDead   jobResult = "dead"
	jobPanics jobResult = "panic"
)

func (r jobResult) end() error {
	switch r {
	case jobDone:
		return nil
	case jobDead:
		return fmt.Errorf("no use: %w", queue.ErrDead)
	case jobPanics:
		panic("the handler panics")
	}
	return errors.New("the handler fails")
}

// work does a job, in one of many ways.
func (s *site) work(ctx context.Context, payload string) jobResult {
	switch {
	case s.calm.Load():
		return jobDone
	case isSlow(payload):
		return s.workSlowly(ctx)
	case rand.IntN(4) > 0:
		time.Sleep(rand.N(3 * time.Millisecond))
	}
	switch roll := rand.IntN(100); {
	case roll < 5:
		return jobFailed
	case roll < 7:
		return jobPanics
	case roll < 8:
		return jobDead
	}
	return jobDone
}

// workSlowly takes up to 1.6 leases. Half of the calls end when their context does.
func (s *site) workSlowly(ctx context.Context) jobResult {
	heard := ctx.Done()
	if rand.IntN(2) == 0 {
		heard = nil
	}
	select {
	case <-heard:
		return jobFailed
	case <-time.After(rand.N(s.spec.Lease * 16 / 10)):
	}
	if rand.IntN(4) == 0 {
		return jobFailed
	}
	return jobDone
}

// isSlow tells which jobs are slow whenever they are tried, so that one that was given up is still being done elsewhere when its first
// worker comes back.
func isSlow(payload string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(payload))
	return h.Sum32()%100 < slowJobs
}
