package session

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/script"
)

// Operation is a script with all that there is to know of it to carry it out. A read has no session: it may run twice.
type Operation struct {
	pool *Pool
	call script.Call
	at   int // where in the call's words the session stands; 0 in a read

	// Finish makes the result of the script's reply, after it has done what is left to do in bounded steps. Without it, the reply
	// is the result.
	Finish func(ctx context.Context, reply any) (any, error)
	// Reclaimer puts back what the operation took for a caller who has gone. Without it the operation changes a list, and its
	// caller has to hear that the outcome is unknown.
	Reclaimer Reclaimer
}

// Reclaimer takes care of elements that nobody is there to take.
type Reclaimer interface {
	// Noop returns an operation that takes nothing, and whose reply tells what was taken under its number.
	Noop() Operation
	// Reclaim puts back what a reply says was taken.
	Reclaim(reply any)
}

// sessionWords are the first arguments of a script: the session's id, the sequence number, and the life of the record.
const sessionWords = 3

// Append adds arguments behind the session's.
func (o *Operation) Append(args ...any) { o.call.Args = append(o.call.Args, args...) }

// Args returns the arguments behind the keys and the session.
func (o Operation) Args() []any {
	return o.call.Args[o.at+sessionWords:]
}

// Run carries out the operation by itself, and returns its result. There is a result too with ErrNotReplicated.
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
