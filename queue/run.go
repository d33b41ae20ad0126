package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/shardedlist/shardedlist/internal/blocking"
)

// Handler does a job. If it returns nil, the job is done. If it returns an error or panics, the job is tried again after the backoff;
// after the last attempt, or if the error wraps ErrDead, it goes to the dead.
//
// ctx ends when the lease of the job does, with the cause ErrLeaseLost: another consumer may have the job by then. It ends with the cause
// ErrShutdown when Run has waited long enough. It has the values of the context of Run, and does not end with that.
type Handler func(ctx context.Context, job *Job) error

// lastMoment is how long Run waits for handlers once their contexts have ended.
const lastMoment = time.Second

// Run takes jobs and calls the handler for each, up to so many at once, until ctx ends. Then it takes no more, and waits for the handlers
// that run, for the time that [Grace] sets. Then it ends their contexts, and what fails within a second goes back to the queue, without
// counting the attempt. The job of a handler that still runs comes back when its lease ends.
//
// Run returns nil if all handlers have returned and their jobs are settled, ErrUnfinished if not, and the error of the server if that
// refuses for good to give it jobs, as for a list of another type. It bears with a server that fails over, or does not answer: see
// [OnError].
//
// All jobs of one Run share a heartbeat and a connection on which it waits. A push, a job that ends, [Queue.Resume], or the time at which
// a job is due wakes it. It asks without a reason only when a BLPOP ends: every two seconds, or after half of the client's ReadTimeout if
// that is shorter.
//
// While jobs that are done are being settled, others begin. So one Run leases up to three times as many jobs as it has workers,
// unless there is a [Concurrency], which counts leases.
func (q *Queue) Run(ctx context.Context, workers int, handler Handler) error {
	if workers < 1 || workers > MaxWorkers || handler == nil {
		return fmt.Errorf("%w: %d workers, and a handler that is nil: %t", ErrWorkers, workers, handler == nil)
	}
	values := context.WithoutCancel(ctx)
	r := &run{Queue: q, handler: handler, values: values, workers: workers, free: workers, leases: map[string]*lease{}}
	r.changed.L, r.returned.L, r.work.L = &r.mu, &r.mu, &r.mu
	stop := context.AfterFunc(ctx, r.stop)
	defer stop()
	var end context.CancelFunc
	r.settles, end = context.WithCancel(values)
	defer end()
	context.AfterFunc(r.settles, r.over)
	go r.beat()
	for range settlers {
		go r.settleAllThatReturn()
	}

	ended := make(chan error, 1)
	go func() {
		ended <- r.take(ctx)
		close(ended)
	}()
	var err error
	select {
	case err = <-ended:
		r.stop()
	case <-ctx.Done():
	}
	return q.wrap("run", errors.Join(err, r.finish(ended)))
}

// run is one call of Run.
type run struct {
	*Queue
	handler Handler
	workers int
	values  context.Context // that of Run, without its end

	mu       sync.Mutex
	changed  sync.Cond // free, held or stopped has changed
	returned sync.Cond // there are endings, or settles has ended
	work     sync.Cond // called is set, or settles has ended
	free     int       // how many more handlers may be called
	held     int       // how many leases have not been settled
	stopped  bool
	failed   bool              // the end of a job could not be recorded
	leases   map[string]*lease // the latest of each job, by the id that the server knows
	endings  []ending          // of handlers that have returned
	ready    []*lease          // of jobs whose handlers are about to be called
	called   bool              // a worker is about to look at what is ready
	asksNext bool              // take is about to ask for jobs; the server settles leases while it goes on with those
	parked   int               // workers that wait for work, but for one that is called
	expiry   *time.Timer       // runs expire; nil before there are leases
	expires  time.Time         // when it does

	settles context.Context // ends when Run returns
}

// take takes jobs until ctx ends, or the server refuses for good.
func (r *run) take(ctx context.Context) error {
	s := &source{Queue: r.Queue, name: uuid.NewString()[:8]}
	taker := blocking.Taker{
		Source: s, Sessions: r.one.Sessions(), Want: r.want,
		Deliver: func(envelopes []string) { r.begin(envelopes, s.leaseName, s.sent) },
		Failed: func(err error) (final bool) {
			r.asked()
			r.report("take jobs", err)
			return isFinal(err)
		},
	}
	defer r.asked()
	return taker.Run(ctx)
}

// stop makes the run take no more jobs.
func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	r.changed.Broadcast()
}

// want waits until a handler may be called.
func (r *run) want() (count int, ok bool) {
	runtime.Gosched() // handlers that return at once are not waited for
	r.asked()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.room() == 0 && !r.stopped {
		r.changed.Wait()
	}
	return min(r.room(), maxTake), !r.stopped
}

// asked lets leases be settled again.
func (r *run) asked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asksNext {
		r.asksNext = false
		r.returned.Signal()
	}
}

// room returns how many jobs may be taken. Handlers are called while leases of others are being settled, of twice as many at most: but not if
// leases are scarce, since they count against the concurrency. The lock is held.
func (r *run) room() int {
	most := 3 * r.workers
	if r.concurrency > 0 {
		most = r.workers
	}
	return min(r.free, most-r.held)
}

// begin calls handlers for jobs that were taken by an operation that was sent then. Their leases may have begun at that time. If that was
// long ago, since the server or the connection was held up, they are extended first: no handler runs in the belief of a lease that has
// ended.
func (r *run) begin(envelopes []string, leaseName string, sent time.Time) {
	leases := make([]*lease, 0, len(envelopes))
	for _, envelope := range envelopes {
		job, c, err := leased(envelope, leaseName)
		if err != nil {
			r.report("take jobs", err) // the script has written another envelope
			continue
		}
		l := &lease{claim: c, job: job}
		l.ctx, l.end = context.WithCancelCause(r.values)
		leases = append(leases, l)
	}
	late := r.hold(leases, sent)
	ready := leases[:0]
	for _, l := range leases {
		if l.ctx.Err() != nil { // the lease is lost, or nobody can tell
			r.mu.Lock()
			r.free++
			r.mu.Unlock()
			r.release(true, ending{claim: l.claim, lease: l})
			continue
		}
		if late {
			go r.do(l, true)
			continue
		}
		ready = append(ready, l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready = append(r.ready, ready...)
	r.callWorker()
	r.asksNext = true
}

// callWorker makes a worker look at what is ready, unless one is about to. The lock is held.
func (r *run) callWorker() {
	switch {
	case len(r.ready) == 0 || r.called:
		return
	case r.parked > 0:
		r.parked--
		r.work.Signal()
	default:
		go r.worker()
	}
	r.called = true
}

// worker calls handlers, one after the other, until the run is over.
func (r *run) worker() {
	for l := r.nextReady(true); l != nil; l = r.nextReady(false) {
		r.do(l, false)
	}
}

// nextReady waits for a lease whose handler is to be called. If there are more, it calls another worker: for nothing if handlers return at
// once, but this one may take its time. It returns nil when the run is over.
func (r *run) nextReady(called bool) *lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	if called {
		r.called = false
	}
	for len(r.ready) == 0 {
		if r.settles.Err() != nil {
			return nil
		}
		r.parked++
		r.work.Wait()
		r.called = false
	}
	l := r.ready[0]
	r.ready[0] = nil // for the garbage collector
	r.ready = r.ready[1:]
	r.callWorker()
	return l
}

// do does one job, or gives it back if it comes too late.
func (r *run) do(l *lease, late bool) {
	attempt, err := l.job.Attempt, errGoexit
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		v := r.verdictOn(l.ctx, attempt, err)
		if late {
			v = verdict{}
		}
		r.settleSoon(l, v)
	}()
	switch {
	case late:
	case attempt > r.attempts:
		err = errExhausted
	default:
		err = r.handler(l.ctx, l.job)
	}
}

var (
	errGoexit    = errors.New("the handler called runtime.Goexit")
	errExhausted = errors.New("the lease of the last attempt ran out")
)

// finish waits for the taker and for the handlers.
func (r *run) finish(ended <-chan error) error {
	over := make(chan struct{})
	go func() {
		<-ended
		r.mu.Lock()
		defer r.mu.Unlock()
		for r.held > 0 && r.settles.Err() == nil {
			r.changed.Wait()
		}
		close(over)
	}()
	for _, patience := range []time.Duration{r.grace, lastMoment} {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-over:
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.failed {
				return ErrUnfinished
			}
			return nil
		case <-timer.C:
		}
		r.each(func(l *lease) { l.end(ErrShutdown) })
	}
	return ErrUnfinished
}

// over ends what still runs in the background when Run returns.
func (r *run) over() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.returned.Broadcast()
	r.work.Broadcast()
	r.changed.Broadcast()
	if r.expiry != nil {
		r.expiry.Stop()
	}
}

// each calls do for each lease.
func (r *run) each(do func(l *lease)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.leases {
		do(l)
	}
}
