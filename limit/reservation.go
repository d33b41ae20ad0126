package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// reserver is a limiter that admits calls for a time to come.
type reserver struct {
	*counter
	most     int64                                                   // that can be admitted at once
	take     func(n int64, patience time.Duration) session.Operation // n, within patience
	giveBack *script.Script
}

// Allow is AllowN of 1.
func (r *reserver) Allow(ctx context.Context) (Decision, error) { return r.AllowN(ctx, 1) }

// AllowN admits n calls at once, or none. It does not wait: if it refuses, RetryAfter is when n would be admitted. A refusal
// counts nothing. While others wait, nothing is admitted.
//
// It returns ErrLimit for an n below 1 or above what can ever be admitted. If ctx ends while the server does not answer, the
// error is its own and ErrOutcomeUnknown: the call may have been counted. If the server's memory is full, it returns the
// server's error, and nothing was counted.
func (r *reserver) AllowN(ctx context.Context, n int64) (Decision, error) {
	if err := checkNumber(n, r.most); err != nil {
		return Decision{}, r.wrap("allow", err)
	}
	decision, err := r.decide(ctx, r.take(n, 0))
	return decision, r.wrap("allow", err)
}

// Wait is WaitN of 1.
func (r *reserver) Wait(ctx context.Context) error { return r.WaitN(ctx, 1) }

// WaitN waits until n calls are admitted, and returns nil then. Those who wait are served in the order in which their calls
// reached the server, each at a time of its own: nobody asks again, nor wakes for what another takes. It is one script, and
// another if ctx ends.
//
// If the time would be after the deadline of ctx, it returns ErrNotAcquired and context.DeadlineExceeded at once, and nothing
// was counted. If ctx ends before the time, it gives back what it has been admitted, and returns the error of ctx. If others
// wait behind it, who have their times already, the next caller who waits for as many gets its time: the one case in which
// somebody is served before those who came earlier. It returns ErrLimit as AllowN does.
func (r *reserver) WaitN(ctx context.Context, n int64) error {
	_, err := r.reserve(ctx, n)
	return r.wrap("wait", err)
}

// reserve waits for n, and returns the decision: the server has admitted them for RetryAfter later than At.
func (r *reserver) reserve(ctx context.Context, n int64) (Decision, error) {
	if err := checkNumber(n, r.most); err != nil {
		return Decision{}, err
	}
	patience := maxSpan
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, max(0, time.Until(deadline)))
	}
	op := r.take(n, patience)
	op.Reclaimer = reclaimer{r, n}
	reply, err := op.Run(ctx)
	if err != nil {
		return Decision{}, orEnded(ctx, err)
	}
	decision, taken, err := readVerdict(reply)
	if err != nil {
		return Decision{}, err
	}
	if !decision.Allowed {
		return Decision{}, fmt.Errorf("%w: it would take %v: %w", ErrNotAcquired, decision.RetryAfter, context.DeadlineExceeded)
	}
	if err := script.Sleep(ctx, decision.RetryAfter); err != nil {
		r.undo(n, taken)
		return Decision{}, err
	}
	return decision, nil
}

// undo gives back what was taken. It waits for the server for as long as a caller who gives up does, and then goes on alone.
func (r *reserver) undo(n int64, taken []any) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), session.ResolveFor)
		defer cancel()
		_, _ = r.operation(r.giveBack, append([]any{n}, taken...)...).Run(ctx) // if it fails, what was taken is not used
	}()
	grace := time.NewTimer(session.LeaveGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
}

// reclaimer gives back what was taken for a caller that gave up before it learned of that.
type reclaimer struct {
	*reserver
	n int64
}

func (r reclaimer) Reclaim(reply any) {
	if decision, taken, err := readVerdict(reply); err == nil && decision.Allowed {
		r.undo(r.n, taken)
	}
}
