package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

// ErrNotRepeated is the error of an operation that the server could not serve for the moment, and that is not repeated because a
// later one on its list was applied, or may have been.
var ErrNotRepeated = errors.New("not repeated, to keep the order of its pipeline")

// Pending is an operation that is sent in a pipeline of the caller.
type Pending struct {
	op      Operation
	session *Session // nil for a read
	settled *Outcome // what Settle has found out
}

// Prepare gives the operation a session and a number, so that it can be sent. The caller must call End.
func (o Operation) Prepare() Pending {
	if o.at == 0 {
		o.pool.List.Operation(o.Kind, 0)
		return Pending{op: o}
	}
	s := o.pool.Get()
	if s.id != "" && o.pool.recordsMove() && !strings.HasPrefix(s.id, inMeta) {
		s.rename() // a transaction whose records are in different places would be carried out in part
	}
	s.Begin()
	s.take(o)
	s.count()
	return Pending{op: o, session: s}
}

// AtOnce makes the operation do all of its work, however much that is, rather than ask for a repetition: it is in a transaction, of which
// either all or nothing is carried out, or in a pipeline, in which later operations must not overtake it.
func (p Pending) AtOnce() { p.op.call.AtOnce() }

// Command returns what is sent together with the rest of a batch.
func (p Pending) Command(ctx context.Context, batch *script.Batch) *script.Command {
	return batch.Command(ctx, p.op.pool.Runner, p.op.call)
}

// Whole returns what is sent where the server has forgotten the functions.
func (p Pending) Whole(ctx context.Context) *script.Command { return p.op.call.Whole(ctx) }

// Ready makes sure that the server knows the operation, see script.Runner.Prepare.
func (p Pending) Ready(ctx context.Context, surely bool) {
	p.op.pool.Runner.Prepare(ctx, p.op.call.Key(), surely)
}

// Lost is told that the server of the operation has lost the functions.
func (p Pending) Lost(ctx context.Context) { p.op.pool.Runner.Lost(ctx, p.op.call.Key()) }

// OnCluster reports whether the call goes to a cluster, whose slots may move.
func (p Pending) OnCluster() bool {
	_, cluster := p.op.pool.Runner.Client.(*redis.ClusterClient)
	return cluster
}

// Writes reports whether the operation changes a list.
func (p Pending) Writes() bool { return p.session != nil }

// Recorded reports whether the operation has a dedup record.
func (p Pending) Recorded() bool { return p.session != nil && p.session.id != "" }

// Keys returns the keys of the operation, the first of which tells its server.
func (p Pending) Keys() []any { return p.op.call.Keys() }

// Failed reports whether the operation may be repeated after an error: the reply was lost, or the server could not serve it for the moment.
func (p Pending) Failed(err error) bool {
	return err != nil && err != redis.Nil && (!script.IsReply(err) || passes(err))
}

func passes(err error) bool { return script.IsTransient(err) || script.IsMissing(err) }

// Settle finds out what became of an operation that has failed, and makes sure that copies of it have no effect from then on. It reports
// whether the operation was applied, or may have been.
func (p *Pending) Settle(ctx context.Context, until time.Time, err error) bool {
	if !p.Recorded() { // nobody can tell
		return false
	}
	p.session.unknown = true
	outcome := p.session.resolve(ctx, until, err)
	p.settled = &outcome
	return outcome.Status != Refused
}

// End returns the operation's reply, given what came back for what was sent. go-redis may have repeated the pipeline, so an error
// may hide that an earlier attempt was applied. With repeat, an operation whose reply was lost, or that the server could not serve for
// the moment, is repeated until the time is over. Otherwise the library only finds out whether it was applied, since later operations
// on its list were, or may have been.
func (p Pending) End(ctx context.Context, until time.Time, reply any, err error, repeat bool) (any, error) {
	if err == redis.Nil {
		reply, err = nil, nil
	}
	again := repeat && p.Failed(err)
	notRepeated := err
	if passes(err) && !repeat {
		notRepeated = fmt.Errorf("%w: %w", ErrNotRepeated, script.Explain(err))
	}
	s := p.session
	if s == nil {
		if again {
			return p.readAgain(ctx, until)
		}
		return reply, notRepeated
	}
	if p.settled != nil {
		return p.endSettled(ctx, until, notRepeated, again)
	}
	outcome := s.learn(reply, err)
	switch {
	case outcome.Status == Done || IsRecorded(err) || script.RefusesScripts(err):
	case again:
		s.unknown = s.id != ""
		outcome = s.Do(ctx, until, p.op)
		if script.IsMissing(err) && script.RefusesScripts(outcome.Err) { // it never knew it
			s.unknown, outcome.Status = false, Refused
		}
	case s.id != "":
		s.unknown = true
		outcome = s.resolve(ctx, until, notRepeated)
	case outcome.Status == Refused:
		outcome.Err = notRepeated
	}
	return p.op.pool.Put(s, p.op, outcome)
}

// readAgain repeats a read: as often as go-redis may have done with its pipeline, and each time as a command alone.
func (p Pending) readAgain(ctx context.Context, until time.Time) (reply any, err error) {
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for range 1 + maxReconnects {
		p.op.pool.List.Repeat()
		reply, err = p.op.pool.Runner.Run(ctx, p.op.call)
		if err == nil || script.IsReply(err) || ctx.Err() != nil {
			break
		}
	}
	return reply, err
}

// endSettled is End for an operation that was settled. Its number is used up.
func (p Pending) endSettled(ctx context.Context, until time.Time, notRepeated error, again bool) (any, error) {
	outcome := *p.settled
	switch {
	case IsRecorded(outcome.Err): // its result
	case outcome.Status == Refused && again:
		p.session.Begin()
		p.session.sent = p.session.number
		outcome = p.session.Do(ctx, until, p.op)
	case outcome.Status == Refused:
		outcome.Err = notRepeated
	}
	return p.op.pool.Put(p.session, p.op, outcome)
}

// Finish makes the operation's result of its reply, see Operation.Finish.
func (p Pending) Finish(ctx context.Context, reply any) (any, error) {
	return p.op.finish(ctx, reply, nil)
}
