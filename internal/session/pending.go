package session

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

// Pending is an operation that is sent in a pipeline of the caller.
type Pending struct {
	op      Operation
	session *Session // nil for a read
}

// Prepare gives the operation a session and a number, so that it can be sent. The caller must call End.
func (o Operation) Prepare() Pending {
	if o.at == 0 {
		return Pending{op: o}
	}
	s := o.pool.Get()
	s.Begin()
	s.address(o)
	return Pending{o, s}
}

// Call returns the call to send.
func (p Pending) Call() script.Call { return p.op.call }

// Place names the server that the call goes to, see script.Runner.Place.
func (p Pending) Place() string { return p.op.pool.Runner.Place(p.op.call.Key()) }

// End returns the reply of the operation, given what the pipeline returned for its call. Outside a transaction, an operation is
// retried if its reply was lost or the server could not serve it for now.
func (p Pending) End(ctx context.Context, reply any, err error, atomic bool) (any, error) {
	if err == redis.Nil {
		reply, err = nil, nil
	}
	again := !atomic && err != nil && (!script.IsReply(err) || script.IsTransient(err) || redis.HasErrorPrefix(err, "NOSCRIPT"))
	if p.session == nil {
		if again {
			return p.op.pool.Runner.Run(ctx, p.op.call)
		}
		return reply, err
	}
	outcome := p.session.learnPipelined(reply, err)
	if again {
		outcome = p.session.Do(ctx, script.Deadline(ctx), p.op)
	}
	return p.op.pool.Put(p.session, p.op, outcome)
}

// learnPipelined is learn for an attempt that go-redis may have retried with its pipeline. The context's error may hide that of
// an earlier attempt.
func (s *Session) learnPipelined(reply any, err error) Outcome {
	outcome := s.learn(reply, err)
	if outcome.Status == Refused && s.id != "" && mayHaveActed(err) {
		s.unknown = true
		return s.failed(err)
	}
	return outcome
}

// Finish turns the reply into the operation's result, see Operation.Finish.
func (p Pending) Finish(ctx context.Context, reply any) (any, error) {
	return p.op.finish(ctx, reply, nil)
}
