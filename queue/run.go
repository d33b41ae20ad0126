package queue

import (
	"context"
	"errors"
	"fmt"
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
func (q *Queue) Run(ctx context.Context, workers int, handler Handler) error {
	if workers < 1 || workers > MaxWorkers || handler == nil {
		return fmt.Errorf("%w: %d workers, and a handler that is nil: %t", ErrWorkers, workers, handler == nil)
	}
	r := &run{Queue: q, handler: handler, ctx: ctx, workers: workers, free: workers, leases: map[string]*lease{}}
	r.changed.L = &r.mu
	stop := context.AfterFunc(ctx, r.stop)
	defer stop()
	var end context.CancelFunc
	r.settles, end = context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go r.beat()

	taken := make(chan error, 1)
	go func() {
		s := &source{Queue: q, name: uuid.NewString()[:8]}
		taker := blocking.Taker{
			Source: s, Sessions: q.one.Sessions(), Want: r.want,
			Deliver: func(elements []string) { r.begin(elements, s.sent) },
			Failed: func(err error) (final bool) {
				q.report("take jobs", err)
				return isFinal(err)
			},
		}
		taken <- taker.Run(ctx)
		close(taken)
	}()
	var err error
	select {
	case err = <-taken:
		r.stop()
	case <-ctx.Done():
	}
	return q.wrap("run", errors.Join(err, r.finish(taken)))
}

// run is one call of Run.
type run struct {
	*Queue
	handler Handler
	workers int
	ctx     context.Context

	mu      sync.Mutex
	changed sync.Cond // free or stopped has changed
	free    int       // how many more handlers may be called
	stopped bool
	failed  bool              // the end of a job could not be recorded
	leases  map[string]*lease // the latest of each job, by the id that the server knows

	settles context.Context // ends when Run returns
}

// lease is a job that this process has leased.
type lease struct {
	claim
	job  *Job // as the handler gets it, who may change it
	ctx  context.Context
	end  context.CancelCauseFunc
	lost *time.Timer // ends ctx when the lease ends
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
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.free == 0 && !r.stopped {
		r.changed.Wait()
	}
	return min(r.free, maxTake), !r.stopped
}

// begin calls handlers for jobs that were taken by an operation that was sent then. Their leases may have begun at that time. If that was
// long ago, since the server or the connection was held up, they are extended first: no handler runs in the belief of a lease that has
// ended.
func (r *run) begin(elements []string, sent time.Time) {
	leases := make([]*lease, 0, len(elements))
	for _, element := range elements {
		job, c, err := leased(element)
		if err != nil {
			r.report("take jobs", err) // the script has written another envelope
			continue
		}
		l := &lease{claim: c, job: job}
		l.ctx, l.end = context.WithCancelCause(context.WithoutCancel(r.ctx))
		l.lost = time.AfterFunc(r.lease, func() { l.end(ErrLeaseLost) })
		leases = append(leases, l)
	}
	r.mu.Lock()
	for _, l := range leases {
		if old := r.leases[l.id()]; old != nil {
			old.end(ErrLeaseLost) // no matter what its timer says
		}
		r.leases[l.id()] = l
	}
	r.free -= len(leases)
	late := r.stopped
	r.mu.Unlock()
	r.date(leases, sent)
	for _, l := range leases {
		if l.ctx.Err() != nil { // the lease is lost, or nobody can tell
			r.release(l)
			continue
		}
		go r.work(l, late)
	}
}

// date sets when leases end that began at that time at the earliest, or extends them.
func (r *run) date(leases []*lease, sent time.Time) {
	if time.Since(sent) > r.lease/beatsPerLease {
		err := r.extend(leases)
		if err == nil {
			return
		}
		r.report("extend leases", err)
	}
	for _, l := range leases {
		if left := r.lease - time.Since(sent); left > 0 {
			l.lost.Reset(left)
		} else {
			l.end(ErrLeaseLost)
		}
	}
}

// work does one job, or gives it back if it comes too late.
func (r *run) work(l *lease, late bool) {
	attempt, err := l.job.Attempt, errGoexit
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
		v := r.verdictOn(l.ctx, attempt, err)
		if late {
			v = verdict{}
		}
		if !r.settleUntilDone(r.settles, l.claim, v) {
			r.mu.Lock()
			r.failed = true
			r.mu.Unlock()
		}
		r.release(l)
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

// release lets another handler be called.
func (r *run) release(l *lease) {
	l.lost.Stop()
	l.end(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leases[l.id()] == l {
		delete(r.leases, l.id())
	}
	r.free++
	r.changed.Broadcast()
}

// finish waits for the taker and for the handlers.
func (r *run) finish(taken <-chan error) error {
	over := make(chan struct{})
	go func() {
		<-taken
		r.mu.Lock()
		defer r.mu.Unlock()
		for r.free < r.workers {
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

// each calls do for each lease.
func (r *run) each(do func(l *lease)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.leases {
		do(l)
	}
}
