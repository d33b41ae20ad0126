package script

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Reply is what a call has come to.
type Reply struct {
	Value any // nil for a script's nil
	Err   error
}

// patience is how long Each goes on with calls that the server cannot serve for the moment: others wait for it.
const patience = time.Second

// Each sends calls in one pipeline, and returns their replies. The calls must be such that they may run twice. Those that the server
// cannot serve for the moment are sent again, for a second in all.
func (r *Runner) Each(ctx context.Context, calls []Call) []Reply {
	replies := make([]Reply, len(calls))
	pending := make([]int, len(calls))
	for i := range calls {
		pending[i] = i
	}
	for len(pending) > 0 {
		if pending = r.pipeline(ctx, calls, pending, replies); len(pending) > 0 {
			i := pending[0] // once it has been sent alone, the server knows the others
			replies[i].Value, replies[i].Err = r.once(ctx, calls[i], false)
			pending = pending[1:]
		}
	}
	retryCtx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for i, reply := range replies {
		if IsTransient(reply.Err) && retryCtx.Err() == nil {
			replies[i].Value, replies[i].Err = r.Run(retryCtx, calls[i])
		}
		replies[i].Err = Explain(replies[i].Err)
	}
	return replies
}

// pipeline sends some of the calls, and returns those that the server does not know.
func (r *Runner) pipeline(ctx context.Context, calls []Call, some []int, replies []Reply) (unknown []int) {
	pipe := r.Client.Pipeline()
	cmds := make([]*Command, len(some))
	for n, i := range some {
		cmds[n] = newCommand(ctx, false, r.words(calls[i]))
		_ = pipe.Process(ctx, cmds[n])
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for n, i := range some {
		value, err := cmds[n].Result()
		switch {
		case IsMissing(err):
			unknown = append(unknown, i)
		case err == redis.Nil:
			replies[i] = Reply{}
		default:
			replies[i] = Reply{value, err}
		}
	}
	return unknown
}
