package session

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

// Pending is an operation that is sent in somebody else's pipeline.
type Pending struct {
	op      Operation
	session *Session // nil for a read
}

// Prepare gives the operation a session and a number, so that it can be sent. End must follow.
func (o Operation) Prepare() Pending {
	if o.at == 0 {
		return Pending{op: o}
	}
	s := o.pool.Get()
	s.Begin()
	s.address(o)
	return Pending{o, s}
}

// Call returns what is to be sent.
func (p Pending) Call() script.Call { return p.op.call }

// Place names the server that it goes to, see script.Runner.Place.
func (p Pending) Place() string { return p.op.pool.Runner.Place(p.op.call.Key()) }

// End returns the operation's reply, given what came back for what was sent. Outside a transaction an operation whose reply was lost,
// or that the server could not serve for the moment, is repeated.
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

// learnPipelined is learn for an attempt that go-redis may have repeated with its pipeline. The context's error may hide that of an
// attempt before.
func (s *Session) learnPipelined(reply any, err error) Outcome {
	outcome := s.learn(reply, err)
	if outcome.Status == Refused && s.id != "" && mayHaveActed(err) {
		s.unknown = true
		return s.failed(err)
	}
	return outcome
}

// Finish makes the operation's result of its reply, see Operation.Finish.
func (p Pending) Finish(ctx context.Context, reply any) (any, error) {
	return p.op.finish(ctx, reply, nil)
}
