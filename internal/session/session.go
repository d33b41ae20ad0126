// Package session applies operations exactly once.
//
// A session is one client's stream of operations on a list, one at a time. Each operation has a sequence number, which its
// script stores with the result in a dedup record beside the list. If a reply is lost, the operation is sent again with the
// same number until its outcome is known, and is applied once.
//
// The package knows sessions, sequence numbers, outcomes, and how to resolve an unknown outcome. It does not know what an
// operation does.
package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/stats"
)

const (
	// RecordLife is how long the server keeps the dedup record of a session after the last operation that renews it.
	RecordLife = 60 * time.Second
	// renewals is how often an operation renews the record within its life. Others leave its TTL as it is, which is faster.
	renewals = 10
	// ResolveFor is how long the library tries to resolve an unknown outcome in the background, well within the life of the
	// record.
	ResolveFor = RecordLife / 2
	// LeaveGrace is how long a caller whose context has ended waits for the outcome of an operation in flight. It matters only when
	// the server does not answer.
	LeaveGrace = 500 * time.Millisecond
	// maxReconnects is how often an operation that was never sent is retried before it fails.
	maxReconnects = 3
	// recordsStayInMeta is how long sessions keep their records in meta after the slot was seen to move.
	recordsStayInMeta = time.Minute
)

// Session is a stream of operations. One goroutine uses it at a time.
type Session struct {
	pool *Pool
	id   string        // empty: operations are not recorded, and lost replies are go-redis's to deal with
	life time.Duration // of the record

	// Arguments of scripts: the id, which is also part of the keys of lists that the operations create; and the life of the record,
	// for an operation that renews it and for others.
	idWord, renewWord, keepWord any

	number  int64     // of the operation in flight, or of the last one
	sent    int64     // of the last operation that was counted
	at      string    // its first key, beside which its record is
	expires time.Time // when the record of that operation may be gone, halved to be sure
	renewed time.Time // when the operation began that renewed the record there last
	keeps   bool      // the operation does not renew it
	op      Operation // it, until its outcome is known
	unknown bool      // the outcome of that operation is not known
	large   bool      // the record may hold a large result
}

// Begin gives the next operation its sequence number.
func (s *Session) Begin() {
	if strings.HasPrefix(s.id, inMeta) && !s.pool.recordsMove() && !s.pool.InMeta {
		s.rename()
	}
	s.number++
	now := time.Now()
	s.expires = now.Add(s.life / 2)
	s.keeps = now.Sub(s.renewed) < s.life/renewals
}

// Expires returns the time after which the operation must not be retried, because the server may have dropped its record.
func (s *Session) Expires() time.Time { return s.expires }

// resolvable returns the time until which the record tells for sure whether the operation was applied. Later the server may have dropped
// it: that there is none says nothing.
func (s *Session) resolvable() time.Time { return s.expires.Add(s.life / 4) }

// Unknown reports whether the outcome of the last operation is unknown. The operation must be retried or resolved before the
// next one begins.
func (s *Session) Unknown() bool { return s.unknown }

// Do sends an operation with the current number until its outcome is known, until is over, or the record may be gone.
func (s *Session) Do(ctx context.Context, until time.Time, op Operation) Outcome {
	s.take(op)
	return s.repeat(ctx, until)
}

// Block sends an operation once, after a blocking command and in one pipeline with it. The error is that of the blocking
// command, and wokenBy the key that it has popped from. If the outcome is unknown, Do must retry the operation.
func (s *Session) Block(ctx context.Context, command []any, op Operation) (outcome Outcome, wokenBy string, err error) {
	s.take(op)
	s.count()
	reply, blocking, err := s.sendBehind(ctx, command)
	outcome = s.learn(reply, err)
	if outcome.Status != Done {
		if RecordMoves(outcome.Err) {
			_ = s.moveRecord(ctx)
		}
		return outcome, "", nil
	}
	popped, err := blocking.StringSlice()
	if err == redis.Nil {
		err = nil
	}
	if len(popped) > 0 {
		wokenBy = popped[0]
	}
	return outcome, wokenBy, err
}

// Client is the one that operations are sent by, and Stats counts them.
func (s *Session) Client() redis.UniversalClient { return s.pool.Runner.Client }

// Stats counts what happens to the list.
func (s *Session) Stats() *stats.List { return s.pool.List }

// Resolve finds the unknown outcome of the last operation, until the time is over. Done means that it was applied. Refused means that it can
// no longer be. Its caller has been told that the outcome is unknown: late in the life of the record, it may have been applied all the same.
func (s *Session) Resolve(ctx context.Context, until time.Time) Outcome {
	return s.fence(ctx, until, nil, false)
}

// repeat sends the operation until its outcome is known, until is over, or the record may be gone.
func (s *Session) repeat(ctx context.Context, until time.Time) Outcome {
	until = earlier(until, s.expires)
	if s.id == "" {
		s.count()
		return s.learn(s.pool.Runner.Run(ctx, s.op.call))
	}
	fresh := false // nothing has been sent under the id that might have been done
	for attempt := 0; ; attempt++ {
		s.count()
		if fresh {
			s.op.call.Args[s.op.at+2] = fmt.Sprint("+", s.renewWord)
		}
		outcome := s.learn(s.send(ctx, attempt))
		fresh = fresh && outcome.Status == Refused
		moved := RecordMoves(outcome.Err) && !fresh && s.moveRecord(ctx)
		if fresh = fresh || moved && s.op.call.ByPlain(); moved && !fresh {
			continue
		}
		if outcome.Status != Done && s.pool.Runner.Moves(outcome.Err) && (!s.unknown || !RecordMoves(outcome.Err)) {
			s.op.call = s.op.call.Turn() // else a fence may have been left, which the operation must not meet
		}
		final := script.IsReply(outcome.Err) && !script.IsTransient(outcome.Err)
		switch {
		case outcome.Status == Done:
			return outcome
		case final && outcome.Status == Unknown:
			return s.resolve(ctx, until, outcome.Err) // it was not applied so far, but an earlier copy may be on its way
		case outcome.Status == Refused && (final || attempt == maxReconnects && !script.IsTransient(outcome.Err)):
			return outcome
		case outcome.Status == Refused && !s.op.RefusedUntil.IsZero() && time.Now().After(s.op.RefusedUntil):
			return outcome
		case !s.pause(ctx, until, attempt, outcome.Err):
			return outcome
		}
	}
}

// send sends the operation once. Attempts after the first do nothing that go-redis does not know of: it looks for a new master.
func (s *Session) send(ctx context.Context, attempt int) (any, error) {
	if attempt == 0 && s.leaves() {
		reply, _, err := s.sendAndRead(ctx, nil)
		if !errors.Is(err, script.ErrNotRun) {
			return reply, err
		}
	}
	if attempt == 0 && s.op.Aside != nil && s.hasKey() && !s.unknown {
		reply, err := s.sendAside(ctx, *s.op.Aside)
		if !errors.Is(err, script.ErrNotRun) {
			return reply, err
		}
	}
	return s.pool.Runner.Once(ctx, s.op.call)
}

// sendBehind sends the operation once, behind a blocking command.
func (s *Session) sendBehind(ctx context.Context, command []any) (reply any, blocking *script.Command, err error) {
	if _, cluster := s.pool.Runner.Client.(*redis.ClusterClient); s.leaves() && !cluster { // there go-redis follows redirections of the command
		reply, blocking, err = s.sendAndRead(ctx, command)
		if errors.Is(err, script.ErrNotRun) {
			reply, err = s.pool.Runner.Once(ctx, s.op.call)
		}
		return reply, blocking, err
	}
	return s.pool.Runner.Behind(ctx, command, s.op.call)
}

// leaves tells whether the script may leave elements in the list of the record.
func (s *Session) leaves() bool { return s.op.Leaver != nil && s.hasKey() }

// hasKey tells whether the record is a key of its own, and the operation waits for no replicas: then plain commands may be sent with it.
func (s *Session) hasKey() bool {
	return s.id != "" && !strings.HasPrefix(s.id, inMeta) && s.pool.Runner.Replicas == 0
}

// errLeft is the error of an operation that was applied, and whose elements have not been read yet. A repetition has them in its reply.
var errLeft = errors.New("the elements popped could not be read")

// sendAndRead sends the operation, behind a command if that is not nil, and one that reads the elements which the script leaves in the
// list of the record. Elements that do not pass through Lua, which hashes every byte of a string, take a fraction of the server's time.
func (s *Session) sendAndRead(ctx context.Context, before []any) (reply any, first *script.Command, err error) {
	call := s.op.call
	call.Args = append(slices.Clip(call.Args), leave)
	reply, first, last, err := s.pool.Runner.Before(ctx, before, call, []any{"lrange", s.record() + ":popped", 0, -1})
	if err == nil {
		reply, err = s.op.gather(reply, last)
	}
	return reply, first, script.InPipeline(err)
}

// sendAside sends the operation so that its values do not pass through Lua.
func (s *Session) sendAside(ctx context.Context, a Aside) (any, error) {
	s.address(a.Begin)
	s.address(a.End)
	words := make([]any, 2, 2+len(a.Values))
	words[0], words[1] = a.Command, s.record()+":"+strconv.FormatInt(s.number, 10)
	reply, err := s.pool.Runner.Between(ctx, a.Begin.call, append(words, a.Values...), a.End.call)
	a.Told(err)
	if errors.Is(err, script.ErrNotAtomic) {
		err = nil
	}
	return reply, script.InPipeline(err)
}

// gather returns the reply of a script with the elements that it has left, which a command has read.
func (o Operation) gather(reply any, read *script.Command) (any, error) {
	reply, count := o.Leaver.Left(reply)
	if count == 0 {
		return reply, nil
	}
	elements, err := read.Slice()
	switch {
	case err == nil && len(elements) == count:
		return o.Leaver.Gather(reply, elements), nil
	case err == nil || script.IsReply(err):
		return nil, errLeft
	}
	return nil, err
}

// count counts an attempt that is about to be sent.
func (s *Session) count() {
	if s.sent == s.number {
		s.pool.List.Repeat()
		return
	}
	s.sent = s.number
	s.pool.List.Operation(s.op.Kind, s.op.Calls)
}

// resolve fences the operation, so that copies of it have no effect from then on, and learns whether it was applied. If it was, its
// record has the reply. If not, refusal is the error.
func (s *Session) resolve(ctx context.Context, until time.Time, refusal error) Outcome {
	return s.fence(ctx, earlier(until, s.resolvable()), refusal, true)
}

// fence is resolve, for a caller that is to be told the outcome or for nobody.
func (s *Session) fence(ctx context.Context, until time.Time, refusal error, tells bool) Outcome {
	fence := s.inquiry(true)
	for attempt := 0; ; attempt++ {
		reply, err := s.pool.Runner.Once(ctx, fence)
		if script.IsDone(err) && tells && time.Now().After(s.resolvable()) {
			return Outcome{Status: Unknown, Err: cmp.Or(refusal, errExpired)}
		}
		if script.IsDone(err) {
			return s.fenced(ctx, until, reply != nil, refusal)
		}
		if RecordMoves(err) {
			fence = s.inquiryAt(s.record(), true)
		}
		if script.IsReply(err) && !script.IsTransient(err) || !s.pause(ctx, until, attempt, err) {
			return Outcome{Status: Unknown, Err: cmp.Or(refusal, err)}
		}
	}
}

// errExpired is the error of an operation of which the record may have gone before the server could be asked.
var errExpired = errors.New("the server may have dropped the dedup record")

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// fenced is what follows a fence, which tells whether the operation was applied.
func (s *Session) fenced(ctx context.Context, until time.Time, applied bool, refusal error) Outcome {
	if !applied {
		s.unknown, s.op = false, Operation{}
		return Outcome{Status: Refused, Err: refusal}
	}
	s.expires = time.Now().Add(s.life / 2) // the fence has renewed the record
	reclaimer := s.op.Reclaimer
	outcome := s.repeat(ctx, until)
	if outcome.Status == Done {
		outcome.reclaimer = reclaimer
	}
	return outcome
}

// inquiry returns the call whose reply is the recorded result of the operation, or nil. It fences the operation, or only asks.
func (s *Session) inquiry(fence bool) script.Call { return s.inquiryAt(s.op.call.Meta(), fence) }

// inquiryAt is inquiry with the key that tells the call's node: meta or, while the slot moves, the record itself.
func (s *Session) inquiryAt(key string, fence bool) script.Call {
	op := s.pool.Operation(resolveScript, []any{key}, 1)
	s.address(op)
	if !fence {
		op.Append("ask")
	}
	return op.call
}

// record returns the key of the dedup record of an id that does not begin with inMeta.
func (s *Session) record() string { return strings.TrimSuffix(s.op.call.Meta(), "meta") + "op:" + s.id }

// moveRecord gives the session a new id, whose record is in meta, or at the node of the plain key if that is asked, and reports whether it may go on with the operation: not before it
// is sure that the operation was not applied under the old id, and can no longer be.
func (s *Session) moveRecord(ctx context.Context) bool {
	inMetaNow, byPlain := strings.HasPrefix(s.id, inMeta), s.op.call.ByPlain()
	if inMetaNow && (!byPlain || s.unknown) || s.pool.Apart {
		return false
	}
	if s.unknown {
		if reply, err := s.pool.Runner.Once(ctx, s.inquiryAt(s.record(), true)); !script.IsDone(err) || reply != nil {
			return false
		}
		s.unknown = false
	}
	if s.pool.moves.Store(time.Now().Add(recordsStayInMeta).UnixNano()); byPlain {
		s.use(uuid.NewString())
	} else {
		s.rename()
	}
	s.address(s.op)
	return true
}

// rename gives the session an id under which no operation has been sent.
func (s *Session) rename() { s.use(s.pool.newID()) }

// use gives the session an id under which no operation has been sent.
func (s *Session) use(id string) {
	s.idWord, s.renewed, s.keeps = id, time.Time{}, false
	if !s.pool.Disabled {
		s.id = id
	}
}

// pause waits before the next attempt, or reports that there is no time for one.
func (s *Session) pause(ctx context.Context, until time.Time, attempt int, err error) bool {
	pause := script.PauseAfter(err, attempt)
	return !errors.Is(err, redis.ErrClosed) && time.Until(until) >= pause && script.Sleep(ctx, pause) == nil
}

// take makes an operation that of the session. Where the session has not been last, it renews its record.
func (s *Session) take(op Operation) {
	if at := op.call.Key(); at != s.at {
		s.forgetLarge(s.number - 1)
		s.at, s.renewed, s.keeps, s.large = at, time.Time{}, false, false
	}
	s.op = op
	s.address(op)
}

// address writes the session and the number into an operation's arguments.
func (s *Session) address(op Operation) {
	words := op.call.Args[op.at : op.at+sessionWords]
	if s.id == "" {
		words[0], words[1], words[2] = s.idWord, "", ""
		return
	}
	words[0], words[1], words[2] = s.idWord, s.number, s.renewWord
	if s.keeps {
		words[2] = s.keepWord
	}
}

// learn updates what is known of the outcome after an attempt.
func (s *Session) learn(reply any, err error) Outcome {
	switch {
	case script.IsDone(err):
		if s.op.Elements != nil {
			s.pool.List.Elements(s.op.Kind, s.op.Elements(&s.op, reply), s.op.PutsBack)
		}
		s.unknown, s.op = false, Operation{}
		s.large = s.large || isLarge(reply)
		if !s.keeps {
			s.renewed = s.expires.Add(-s.life / 2)
		}
		return Outcome{Status: Done, Reply: reply, Err: err}
	case IsRecorded(err):
		s.unknown = false
	case s.id != "" && !s.unsent(err) && script.MayHaveActed(err):
		s.unknown = true
	}
	return s.failed(err)
}

// failed returns the outcome of a failed attempt.
func (s *Session) failed(err error) Outcome {
	if s.unknown {
		return Outcome{Status: Unknown, Err: err}
	}
	return Outcome{Status: Refused, Err: err}
}

// unsent reports whether an attempt failed because the context had ended before go-redis sent anything. It can tell only for a
// single command, which go-redis does not retry. In a pipeline, the context's error may hide that of an earlier attempt.
func (s *Session) unsent(err error) bool {
	return s.pool.Runner.Replicas == 0 && (err == context.Canceled || err == context.DeadlineExceeded)
}

// ForgetLarge drops a large result of the last operation, which the client has received, from the record. It does not wait. If it fails,
// the record expires.
func (s *Session) ForgetLarge() {
	if !s.unknown {
		s.forgetLarge(s.number)
		s.large = false
	}
}

// forgetLarge is ForgetLarge for the operation of that number.
func (s *Session) forgetLarge(number int64) {
	if !s.large || s.id == "" {
		return
	}
	op := s.pool.Operation(forgetScript, []any{s.at}, 0)
	words := op.call.Args[op.at : op.at+sessionWords]
	words[0], words[1], words[2] = s.idWord, number, s.renewWord
	go func() { _, _ = s.pool.Runner.Once(context.Background(), op.call) }()
}

// Large reports whether the record may hold a large result.
func (s *Session) Large() bool { return s.large }
