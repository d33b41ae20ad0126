package queue

import (
	"context"
	"runtime"

	"slices"
	"time"
)

// settlers is how many goroutines settle leases. One would do, but for a connection that does not answer.
const settlers = 2

// lease is a job that this process has leased.
type lease struct {
	claim
	job  *Job            // as the handler gets it, who may change it
	ctx  context.Context // of the handler
	end  context.CancelCauseFunc
	ends time.Time // when the lease does, and so ctx; guarded by run.mu
}

// hold takes note of new leases, which may have begun at that time, and reports whether they come too late for their handlers to be
// called.
func (r *run) hold(leases []*lease, sent time.Time) (late bool) {
	held := sent
	old := time.Since(sent) > r.lease/beatsPerLease
	if old {
		held = time.Now() // until the server has told
	}
	r.mu.Lock()
	for _, l := range leases {
		if before := r.leases[l.id()]; before != nil {
			before.end(ErrLeaseLost) // no matter what it believes
		}
		r.leases[l.id()] = l
		r.setEnd(l, held.Add(r.lease))
	}
	r.free -= len(leases)
	r.held += len(leases)
	late = r.stopped
	r.mu.Unlock()
	if !old {
		return late
	}
	if err := r.extend(leases); err != nil {
		r.report("extend leases", err)
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, l := range leases {
			r.setEnd(l, sent.Add(r.lease))
		}
	}
	return late
}

// setEnd sets when a lease ends. One that has ended does so at once. The lock is held.
func (r *run) setEnd(l *lease, at time.Time) {
	l.ends = at
	left := time.Until(at)
	if left <= 0 {
		l.end(ErrLeaseLost)
		return
	}
	switch {
	case r.expiry == nil:
		r.expiry = time.AfterFunc(left, r.expire)
	case r.expires.IsZero() || at.Before(r.expires):
		r.expiry.Reset(left)
	default:
		return // by then, it is looked at again
	}
	r.expires = at
}

// expire ends the contexts of the handlers whose leases have ended.
func (r *run) expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.expires = time.Time{}
	for _, l := range r.leases {
		if l.ctx.Err() == nil {
			r.setEnd(l, l.ends)
		}
	}
}

// settleSoon hands over the lease of a handler that has returned, and lets another one be called.
func (r *run) settleSoon(l *lease, v verdict) {
	r.mu.Lock()
	r.free++
	r.changed.Broadcast()
	if !v.dead {
		r.endings = append(r.endings, ending{l.claim, v, l})
		r.returned.Signal()
	}
	r.mu.Unlock()
	if v.dead {
		e := ending{l.claim, v, l}
		r.release(r.settleUntilDone(r.settles, e), e)
	}
}

// settleAllThatReturn settles the leases of handlers that have returned until the run is over: together those that return meanwhile.
func (r *run) settleAllThatReturn() {
	for {
		endings := r.next()
		if len(endings) == 0 {
			return
		}
		r.release(r.settleUntilDone(r.settles, endings...), endings...)
	}
}

// next waits for handlers that have returned. It returns nothing when the run is over.
func (r *run) next() []ending {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.endings) == 0 || r.asksNext {
		if r.settles.Err() != nil {
			return nil
		}
		r.returned.Wait()
		r.mu.Unlock()
		runtime.Gosched() // others of the same batch are about to return, mostly
		r.mu.Lock()
	}
	count, bytes := 0, 0 // of what the script reads and writes
	for _, e := range r.endings {
		if !e.done {
			bytes += e.size + len(e.reason)
		}
		if count == maxTake || count > 0 && bytes > partBytes {
			break
		}
		count++
	}
	first := slices.Clone(r.endings[:count])
	r.endings = slices.Delete(r.endings, 0, count)
	if len(r.endings) > 0 {
		r.returned.Signal() // the other one, as this may take its time
	}
	return first
}

// release forgets leases that are over, or that could not be settled.
func (r *run) release(settled bool, endings ...ending) {
	for _, e := range endings {
		e.lease.end(nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range endings {
		if r.leases[e.id()] == e.lease {
			delete(r.leases, e.id())
		}
	}
	r.failed = r.failed || !settled
	r.held -= len(endings)
	r.changed.Broadcast()
}
