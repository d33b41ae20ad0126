package blocking

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// Call is one caller's operation on several lists, or a move. It shares no operations with other callers, unless they wait together.
type Call struct {
	Source   Source
	Sessions *session.Pool
	Count    int // of elements that it wants
	// Prepare fetches what the operation needs before it can be built.
	Prepare func(ctx context.Context) error
	// Orders are those of the operation.
	Orders []*session.Order
	// Reclaimer puts back what was taken for a caller that has gone. It is nil for a call that takes nothing out of its lists.
	Reclaimer session.Reclaimer
	// Together, if it is not nil, waits with other callers of the same kind.
	Together func(ctx context.Context, timeout time.Duration) ([]string, error)
}

// Operation returns the call as an operation that does not wait.
func (c *Call) Operation(ctx context.Context) (session.Operation, error) {
	if err := c.Prepare(ctx); err != nil {
		return session.Operation{}, err
	}
	return c.Source.Pop(c.Count, No, ""), nil
}

// Elements returns the elements in the operation's reply, or redis.Nil if there are none.
func (c *Call) Elements(reply any, err error) ([]string, error) {
	if !script.IsDone(err) {
		return nil, err
	}
	if reply != nil {
		if elements, _ := c.Source.Read(reply); len(elements) > 0 {
			return elements, err
		}
	}
	return nil, redis.Nil
}

// Run runs the call at once and returns the elements, or redis.Nil if there are none.
func (c *Call) Run(ctx context.Context) ([]string, error) {
	op, err := c.Operation(ctx)
	if err != nil {
		return nil, err
	}
	return c.Elements(op.Run(ctx))
}

// Wait runs the call when there are elements for it. It returns redis.Nil if the timeout is over.
func (c *Call) Wait(ctx context.Context, timeout time.Duration) ([]string, error) {
	if c.Together != nil {
		return c.Together(ctx, timeout)
	}
	if timeout < 0 {
		return nil, ErrNegativeTimeout
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &callWaiter{
		loop:    loop{source: c.Source, sessions: c.Sessions},
		call:    c,
		ctx:     ctx,
		joined:  time.Now(),
		release: c.Source.ReleaseKey(),
		outcome: make(chan callOutcome),
		gone:    make(chan struct{}),
	}
	defer c.Sessions.List.EndWait(c.Sessions.List.Wait())
	_, w.patient = ctx.Deadline()
	if timeout > 0 {
		w.deadline = w.joined.Add(timeout)
	}
	go w.serve()
	select {
	case o := <-w.outcome:
		return c.Elements(o.reply, o.err)
	case <-ctx.Done():
	}
	if w.blocks.Load() {
		go c.Source.Release(w.release)
	}
	grace := time.NewTimer(session.LeaveGrace)
	defer grace.Stop()
	select {
	case o := <-w.outcome:
		return c.Elements(o.reply, o.err)
	case <-grace.C:
	}
	w.resolved = session.Abandon(c.Orders)
	close(w.gone)
	return nil, c.Sessions.Lost(ctx.Err(), c.Reclaimer != nil)
}

// callWaiter is a call that waits, with its own connection and goroutine.
type callWaiter struct {
	loop
	call     *Call
	ctx      context.Context
	joined   time.Time
	deadline time.Time    // zero: none
	patient  bool         // ctx has a deadline
	release  string       // the key that releases its BLPOP
	looked   bool         // a round has looked at the lists
	retries  int          // rounds in a row that found too few elements, and did not block
	end      *callOutcome // what the call came to, once it is over

	blocks  atomic.Bool      // set before the first BLPOP
	outcome chan callOutcome // unbuffered: it is either received, or known not to be
	gone    chan struct{}    // closed when the caller has given up and returned

	resolved func() // to be called then, once the outcome is known or is resolved by others
}

type callOutcome struct {
	reply any
	err   error
}

// serve runs while the caller waits, and continues without it until the outcome is known.
func (w *callWaiter) serve() {
	if err := w.prepare(); err != nil {
		w.end = &callOutcome{err: err}
	} else {
		w.run(w)
	}
	select {
	case w.outcome <- *w.end:
	case <-w.gone:
		if script.IsDone(w.end.err) && w.call.Reclaimer != nil {
			w.call.Reclaimer.Reclaim(w.end.reply)
		}
		w.resolved()
	}
	w.passOn()
}

// prepare waits for what must be known and done before the call may be sent.
func (w *callWaiter) prepare() error {
	if err := w.call.Prepare(w.ctx); err != nil {
		return err
	}
	until := script.Deadline(w.ctx)
	if latest := w.deadline.Add(answerGrace); !w.deadline.IsZero() && latest.Before(until) {
		until = latest
	}
	return session.Ready(w.ctx, w.call.Orders, until)
}

// next begins a round, unless the call is over.
func (w *callWaiter) next(armed bool) (round, bool) {
	if w.end != nil {
		return round{}, false
	}
	r := round{ctx: w.ctx, count: w.call.Count, again: w.looked, until: w.deadline}
	if armed {
		w.blocks.Store(true)
		if err := w.ctx.Err(); err != nil { // the caller may not have released it
			w.finish(session.Outcome{Status: session.Refused, Err: err})
			return round{}, false
		}
		r.release, r.slice = w.release, w.source.Slice(w.deadline)
	}
	return r, true
}

// done ends the wait if the round found elements, if the call's time is up, or if it fails for good.
func (w *callWaiter) done(_ round, got result) (pause time.Duration) {
	status := session.Refused
	if got.unknown {
		status = session.Unknown
	}
	w.looked = w.looked || got.err == nil
	now := time.Now()
	timeUp := !w.deadline.IsZero() && !now.Before(w.deadline)
	switch {
	case len(got.elements) > 0:
		w.finish(session.Outcome{Status: session.Done, Reply: got.reply, Err: got.shortfall})
	case w.ctx.Err() != nil:
		w.finish(session.Outcome{Status: status, Err: w.ctx.Err()})
	case got.unknown || w.failures.endsWait(w.patient, w.joined, now) || got.err != nil && timeUp && now.Sub(w.deadline) > serviceGrace:
		w.finish(session.Outcome{Status: status, Err: got.err})
	case timeUp && got.err == nil:
		w.finish(session.Outcome{Status: session.Refused, Err: redis.Nil})
	case got.armed:
		w.retries = 0
	default:
		w.retries++
		pause = max(w.failures.pause(), script.Backoff(w.retries))
		if !w.deadline.IsZero() && !timeUp {
			pause = min(pause, time.Until(w.deadline))
		}
	}
	return pause
}

// finish returns the session to the pool, and records the outcome of the call.
func (w *callWaiter) finish(outcome session.Outcome) {
	reply, err := w.drop(outcome, w.call.Count)
	w.end = &callOutcome{reply, err}
}
