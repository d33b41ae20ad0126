package session

import (
	"context"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// Operation is a script with all that is needed to run it. A read has no session: it may run twice.
type Operation struct {
	// Kind is what the operation is counted as, and Calls the number of callers that share it; 0 if they cannot.
	Kind  stats.Kind
	Calls int
	// Elements returns how many elements it has pushed, popped or moved, by its reply. Values is the number of those that it pushes, of
	// which PutsBack were popped before.
	Elements         func(o *Operation, reply any) int
	Values, PutsBack int

	pool *Pool
	call script.Call
	at   int // where in the call's words the session stands; 0 in a read

	steps func(ctx context.Context) (any, error) // carries out what is no script
	// Alone carries out, in steps or together with other callers, what is the script alone in a pipeline or a transaction.
	Alone func(ctx context.Context) (any, error)

	// Orders are those of the ends at which the operation adds elements: it must not overtake others that were given up there, nor be
	// overtaken when it is.
	Orders []*Order
	// RefusedUntil is when to stop repeating an operation that the server cannot serve for the moment, if not as late as one whose
	// outcome is unknown.
	RefusedUntil time.Time
	// Finish turns the reply of the script into the result, after any remaining work in bounded steps. Without it, the reply is
	// the result.
	Finish func(ctx context.Context, reply any) (any, error)
	// Otherwise carries out an operation that has failed because the list has another layout. It returns any other error unchanged.
	Otherwise func(ctx context.Context, err error) (any, error)
	// Leaver makes a reply of elements that the script leaves in the list of the dedup record. Without it, the script leaves none there.
	Leaver Leaver
	// Aside is how the values may be pushed without passing through Lua. It is nil if they are not.
	Aside *Aside
	// Reclaimer puts back what the operation took for a caller that has gone. An operation without it changes a list, and its
	// caller must learn that the outcome is unknown.
	Reclaimer Reclaimer
}

// Reclaimer puts back elements that no caller takes.
type Reclaimer interface {
	// Reclaim puts back the elements in a reply.
	Reclaim(reply any)
}

// Leaver knows the replies of a script that may leave elements in the list of the dedup record.
type Leaver interface {
	// Left returns the reply without a note for the client, and how many elements the script has left there; 0 if they are in the reply.
	Left(reply any) (noted any, count int)
	// Gather returns the reply with the elements that were left.
	Gather(reply any, elements []any) any
}

// Aside is how a plain command pushes the values of an operation, between two scripts of which the first puts a shard aside and the second
// puts it back, see lua/shared/aside.lua.
type Aside struct {
	Begin, End Operation
	Command    string          // RPUSHX or LPUSHX
	Values     []any           // of the operation
	Told       func(err error) // is told how that went
}

// leave is the argument that allows a script to leave elements in the list of the record.
const leave = "leave"

// sessionWords are the first arguments of a script: the session's id, the sequence number, and the life of the record.
const sessionWords = 3

// Steps returns an operation that takes several scripts, which depend on each other's replies.
func Steps(run func(ctx context.Context) (any, error)) Operation { return Operation{steps: run} }

// TakesSteps reports whether the operation takes several scripts. Such a one cannot be sent in a pipeline.
func (o Operation) TakesSteps() bool { return o.steps != nil }

// Append appends arguments after those of the session.
func (o *Operation) Append(args ...any) { o.call.Args = append(o.call.Args, args...) }

// Key returns the first key of an operation that is one script.
func (o Operation) Key() string { return o.call.Key() }

// Args returns the arguments after the keys and the session.
func (o Operation) Args() []any {
	return o.call.Args[o.at+sessionWords:]
}

// Run runs the operation by itself and returns its result. With ErrNotReplicated there is a result too.
func (o Operation) Run(ctx context.Context) (any, error) {
	result, err := o.run(ctx)
	if !script.IsDone(err) && o.Otherwise != nil {
		return o.Otherwise(ctx, err)
	}
	return result, err
}

func (o Operation) run(ctx context.Context) (any, error) {
	switch {
	case o.steps != nil:
		return o.steps(ctx)
	case o.Alone != nil:
		return o.Alone(ctx)
	}
	if o.at == 0 {
		o.pool.List.Operation(o.Kind, 0)
		reply, err := o.pool.Runner.Run(ctx, o.call)
		return o.finish(ctx, reply, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := Ready(ctx, o.Orders, script.Deadline(ctx)); err != nil {
		return nil, err
	}
	s := o.pool.Get()
	s.Begin()
	outcome, heard := o.do(ctx, s)
	if !heard {
		return nil, o.pool.Lost(ctx.Err(), o.Reclaimer != nil)
	}
	reply, err := o.pool.Put(s, o, outcome)
	return o.finish(ctx, reply, err)
}

// do carries out the operation. If ctx ends and the server does not answer, it leaves the operation to another goroutine.
func (o Operation) do(ctx context.Context, s *Session) (outcome Outcome, heard bool) {
	until := script.Deadline(ctx)
	if ctx.Done() == nil {
		return s.Do(ctx, until, o), true
	}
	result := make(chan Outcome, 1)
	go func() { result <- s.Do(ctx, until, o) }()
	select {
	case outcome = <-result:
		return outcome, true
	case <-ctx.Done():
	}
	grace := time.NewTimer(LeaveGrace)
	defer grace.Stop()
	select {
	case outcome = <-result:
		return outcome, true
	case <-grace.C:
	}
	resolved := Abandon(o.Orders)
	go func() {
		defer resolved()
		outcome := <-result
		if outcome.Status == Done && o.Reclaimer != nil {
			o.Reclaimer.Reclaim(outcome.Reply)
		}
		o.pool.putBack(s, o, outcome)
	}()
	return Outcome{}, false
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
