package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

var (
	settleScript = script.Load("queue_settle")
	buryScript   = script.Load("queue_bury")
)

// verdict is what becomes of a leased job.
type verdict struct {
	done, dead bool
	delay      time.Duration // before it is tried again, if neither
	counts     bool          // the attempt does
	reason     string        // why it failed
}

// claim names a lease on the server.
type claim struct {
	member string // in the sorted set of times
	unique string // of the job
	size   int    // of its envelope, in bytes
}

// id returns the id of the job, as the server knows it.
func (c claim) id() string { return c.member[:len(c.member)-leaseSize] }

// ending is a lease that is to end, and what becomes of its job.
type ending struct {
	claim
	verdict
	lease *lease // or nil for one that no handler was called for
}

// settle ends a lease. It returns ErrLeaseLost if the lease had ended before.
func (q *Queue) settle(ctx context.Context, c claim, v verdict) error {
	if v.dead {
		return q.bury(ctx, c, v.reason)
	}
	held, err := q.settleAll(ctx, []ending{{claim: c, verdict: v}})
	if script.IsDone(err) && held != "1" {
		return ErrLeaseLost
	}
	return err
}

// settleAll ends leases of jobs that do not go to the dead, in one operation. It may be carried out twice: no other lease has the name of
// one of these.
func (q *Queue) settleAll(ctx context.Context, endings []ending) (held string, err error) {
	plain := make([]byte, 0, len(endings)*len(endings[0].member))
	args := []any{nil}
	for _, e := range endings {
		switch {
		case !e.done:
			counts := ""
			if e.counts {
				counts = "1"
			}
			args = append(args, e.member, e.delay.Milliseconds(), e.reason, counts)
		case e.unique != "":
			args = append(args, e.member, "", e.unique, "")
		default:
			plain = append(plain, e.member...)
		}
	}
	args[0] = plain
	reply, err := q.one.Sessions().Confirmed(settleScript, []any{q.one.Keys().Meta}, args...).Run(ctx)
	held, _ = reply.(string)
	return held, err
}

func (q *Queue) bury(ctx context.Context, c claim, reason string) error {
	capacity, err := q.grave.Capacity(ctx)
	if err != nil {
		return err
	}
	op := q.onBoth(buryScript, 3)
	op.Append(capacity, c.member, reason)
	held, err := op.Run(ctx)
	if script.IsDone(err) && held != int64(1) {
		return ErrLeaseLost
	}
	return err
}

// settleUntilDone ends leases, and repeats that while the server does not answer, or cannot do it, until ctx ends. If the server refuses
// for good, it gives up, and the leases run out. It reports whether they are over. One that goes to the dead comes alone.
func (q *Queue) settleUntilDone(ctx context.Context, endings ...ending) bool {
	for attempt := 0; ; attempt++ {
		var err error
		if endings[0].dead {
			err = q.bury(ctx, endings[0].claim, endings[0].reason)
		} else {
			_, err = q.settleAll(ctx, endings)
		}
		if script.IsDone(err) || errors.Is(err, ErrLeaseLost) {
			return true
		}
		q.report("settle", err)
		if isFinal(err) || script.Sleep(ctx, min(time.Second, time.Millisecond<<min(attempt, 10))) != nil {
			return false
		}
	}
}

// report tells the user of an error that nothing else returns.
func (q *Queue) report(operation string, err error) {
	if q.onError != nil && err != nil {
		q.onError(q.wrap(operation, err))
	}
}

// isFinal reports whether an operation has failed for a reason that does not pass by itself.
func isFinal(err error) bool {
	if errors.Is(err, redis.ErrClosed) || script.IsForbidden(err) || script.RefusesScripts(err) || layout.ErrorOf(err) != nil {
		return true
	}
	for _, code := range []string{"NOAUTH ", "WRONGPASS ", "CROSSSLOT ", "BROKENQUEUE "} {
		if redis.HasErrorPrefix(err, code) {
			return true
		}
	}
	return false
}

// verdictOn returns what becomes of a job that a handler has returned from. Neither the error nor the backoff need be well made: if one
// of their functions panics, that is why the job failed.
func (q *Queue) verdictOn(ctx context.Context, attempt int, err error) (v verdict) {
	if err == nil {
		return verdict{done: true}
	}
	defer func() {
		if p := recover(); p != nil {
			v = verdict{dead: attempt >= q.attempts, delay: exponential(attempt), counts: true, reason: text(panicked(p))}
		}
	}()
	switch {
	case errors.Is(err, ErrDead):
		return verdict{dead: true, reason: text(err)}
	case errors.Is(context.Cause(ctx), ErrShutdown):
		return verdict{reason: text(err)}
	case attempt >= q.attempts:
		return verdict{dead: true, reason: text(err)}
	}
	return verdict{delay: min(max(0, q.backoff(attempt)), longest), counts: true, reason: text(err)}
}

// panicked returns the error of a panic, with the place where it happened.
func panicked(p any) error { return fmt.Errorf("panic: %v\n%s", p, debug.Stack()) }

// text returns the text of an error, valid and not too long for an envelope.
func text(err error) string {
	reason := err.Error()
	return strings.ToValidUTF8(reason[:min(len(reason), errorSize)], "")
}
