package session

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/script"
)

// Operation is a script with all that is needed to run it. A read has no session: it may run twice.
type Operation struct {
	pool *Pool
	call script.Call
	at   int // where in the call's words the session stands; 0 in a read

	// Finish turns the reply of the script into the result, after any remaining work in bounded steps. Without it, the reply is
	// the result.
	Finish func(ctx context.Context, reply any) (any, error)
	// Reclaimer puts back what the operation took for a caller that has gone. An operation without it changes a list, and its
	// caller must learn that the outcome is unknown.
	Reclaimer Reclaimer
}

// Reclaimer puts back elements that no caller takes.
type Reclaimer interface {
	// Noop returns an operation that takes nothing. Its reply tells what was taken under its number.
	Noop() Operation
	// Reclaim puts back the elements in a reply.
	Reclaim(reply any)
}

// sessionWords are the first arguments of a script: the session's id, the sequence number, and the life of the record.
const sessionWords = 3

// Append appends arguments after those of the session.
func (o *Operation) Append(args ...any) { o.call.Args = append(o.call.Args, args...) }

// Args returns the arguments after the keys and the session.
func (o Operation) Args() []any {
	return o.call.Args[o.at+sessionWords:]
}

// Run runs the operation by itself and returns its result. With ErrNotReplicated there is a result too.
func (o Operation) Run(ctx context.Context) (any, error) {
	if o.at == 0 {
		reply, err := o.pool.Runner.Run(ctx, o.call)
		if err != nil {
			return nil, err
		}
		return o.finish(ctx, reply, nil)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := o.pool.Get()
	s.Begin()
	reply, err := o.pool.Put(s, o, s.Do(ctx, script.Deadline(ctx), o))
	return o.finish(ctx, reply, err)
}

func (o Operation) finish(ctx context.Context, reply any, err error) (any, error) {
	if !script.IsDone(err) {
		return nil, err
	}
	if o.Finish == nil {
		return reply, err
	}
	result, finishErr := o.Finish(ctx, reply)
	if finishErr != nil {
		return result, finishErr
	}
	return result, err
}

// noop returns the operation that resolves this one.
func (o Operation) noop() Operation {
	if o.Reclaimer != nil {
		return o.Reclaimer.Noop()
	}
	return o.pool.Operation(resolveScript, []string{o.call.Key()}, 0)
}
