package queue

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
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

// settle ends the lease of a job. It returns ErrLeaseLost if the lease had ended before.
func (q *Queue) settle(ctx context.Context, job *Job, v verdict) error {
	after := *job
	after.LastError = v.reason
	if v.dead {
		return q.bury(ctx, job, &after)
	}
	r := batch.NewRequest()
	r.Count = 1
	if v.done {
		r.Values = []any{job.member(), "", job.unique}
	} else {
		if !v.counts {
			after.Attempt, after.LastError = max(0, job.Attempt-1), job.LastError
		}
		r.Values = []any{job.member(), v.delay.Milliseconds(), after.envelope()}
		r.Bytes = len(job.Payload)
	}
	if err := q.settlers.Do(ctx, r); !script.IsDone(err) {
		return err
	}
	held := r.Length == 1
	r.Recycle()
	if !held {
		return ErrLeaseLost
	}
	return nil
}

// joinSettles makes one operation of what several handlers have come to.
func (q *Queue) joinSettles(requests []*batch.Request) session.Operation {
	op := q.operation(settleScript, 3*len(requests))
	for _, r := range requests {
		op.Append(r.Values...)
	}
	return op
}

func shareSettles(requests []*batch.Request, reply any) (surplus []string) {
	for i, held := range reply.(string) {
		requests[i].Length = int64(held - '0')
	}
	return nil
}

func (q *Queue) bury(ctx context.Context, job, after *Job) error {
	capacity, err := q.grave.Capacity(ctx)
	if err != nil {
		return err
	}
	op := q.onBoth(buryScript, 4)
	op.Append(capacity, job.member(), job.unique, after.envelope())
	held, err := op.Run(ctx)
	if script.IsDone(err) && held != int64(1) {
		return ErrLeaseLost
	}
	return err
}

// settleUntilDone repeats settle while the server does not answer, until the context or the lease ends.
func (q *Queue) settleUntilDone(ctx context.Context, job *Job, v verdict) error {
	for attempt := 0; ; attempt++ {
		err := q.settle(ctx, job, v)
		if script.IsDone(err) || errors.Is(err, ErrLeaseLost) || errors.Is(err, redis.ErrClosed) {
			return err
		}
		if script.Sleep(ctx, min(time.Second, time.Millisecond<<min(attempt, 10))) != nil {
			return err
		}
	}
}

// verdictOn returns what becomes of a job that a handler has returned from.
func (q *Queue) verdictOn(ctx context.Context, job *Job, err error) verdict {
	switch {
	case err == nil:
		return verdict{done: true}
	case errors.Is(context.Cause(ctx), ErrShutdown):
		return verdict{}
	case errors.Is(err, ErrDead) || job.Attempt >= q.attempts:
		return verdict{dead: true, reason: text(err)}
	}
	return verdict{delay: min(max(0, q.backoff(job.Attempt)), longest), counts: true, reason: text(err)}
}

// text returns the text of an error, valid and not too long for an envelope.
func text(err error) string {
	reason := err.Error()
	return strings.ToValidUTF8(reason[:min(len(reason), errorSize)], "")
}
