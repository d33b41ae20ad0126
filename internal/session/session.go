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
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

const (
	// RecordLife is how long the server keeps the dedup record of a session after its last operation.
	RecordLife = 60 * time.Second
	// ResolveFor is how long the library tries to resolve an unknown outcome in the background, well within the life of the
	// record.
	ResolveFor = RecordLife / 2
	// LeaveGrace is how long a caller whose context has ended waits for the outcome of an operation in flight. It matters only when
	// the server does not answer.
	LeaveGrace = 500 * time.Millisecond
	// maxReconnects is how often an operation that was never sent is retried before it fails.
	maxReconnects = 3
)

// Session is a stream of operations. One goroutine uses it at a time.
type Session struct {
	pool *Pool
	id   string        // empty: operations are not recorded, and lost replies are go-redis's to deal with
	life time.Duration // of the record

	number  int64     // of the operation in flight, or of the last one
	expires time.Time // when the record of that operation may be gone, halved to be sure
	unknown bool      // the outcome of that operation is not known
	large   bool      // the server may hold a large result
}

// Begin gives the next operation its sequence number.
func (s *Session) Begin() {
	s.number++
	s.expires = time.Now().Add(s.life / 2)
}

// Expires returns the time after which the operation must not be retried, because the server may have dropped its record.
func (s *Session) Expires() time.Time { return s.expires }

// Unknown reports whether the outcome of the last operation is unknown. The operation must be retried or resolved before the
// next one begins.
func (s *Session) Unknown() bool { return s.unknown }

// Do sends an operation with the current number until its outcome is known, until is over, or the record may be gone.
func (s *Session) Do(ctx context.Context, until time.Time, op Operation) Outcome {
	if s.expires.Before(until) {
		until = s.expires
	}
	return s.repeat(ctx, until, op)
}

// Resolve finds the outcome of the last operation, by sending a no-op with its number until the deadline of ctx. Done means
// that the operation was applied, or no longer can be. Elements that it took are in the reply.
func (s *Session) Resolve(ctx context.Context, noop Operation) Outcome {
	return s.repeat(ctx, script.Deadline(ctx), noop)
}

// Block sends an operation once, after a blocking command and in one pipeline with it. The error is that of the blocking
// command. If the outcome is unknown, Do must retry the operation.
func (s *Session) Block(ctx context.Context, command []any, op Operation) (Outcome, error) {
	s.address(op)
	reply, err, commandErr := s.pool.Runner.Behind(ctx, command, op.call)
	outcome := s.learn(reply, err)
	if outcome.Status != Done {
		return outcome, nil
	}
	if commandErr == redis.Nil {
		commandErr = nil
	}
	return outcome, commandErr
}

func (s *Session) repeat(ctx context.Context, until time.Time, op Operation) Outcome {
	s.address(op)
	if s.id == "" {
		return s.learn(s.pool.Runner.Run(ctx, op.call))
	}
	for attempt := 0; ; attempt++ {
		reply, err := s.pool.Runner.Once(ctx, op.call)
		outcome := s.learn(reply, err)
		if outcome.Status == Done {
			return outcome
		}
		if outcome.Status == Refused && !script.IsTransient(err) && (script.IsReply(err) || attempt == maxReconnects) {
			return outcome
		}
		pause := script.Backoff(attempt)
		if errors.Is(err, redis.ErrClosed) || time.Until(until) < pause || script.Sleep(ctx, pause) != nil {
			return outcome
		}
	}
}

// address writes the session and the number into an operation's arguments.
func (s *Session) address(op Operation) {
	words := op.call.Args[op.at : op.at+sessionWords]
	if s.id == "" {
		words[0], words[1], words[2] = "", "", ""
		return
	}
	words[0], words[1], words[2] = s.id, s.number, s.life.Milliseconds()
}

// learn updates what is known of the outcome after an attempt.
func (s *Session) learn(reply any, err error) Outcome {
	switch {
	case script.IsDone(err):
		s.unknown = false
		s.large = s.large || isLarge(reply)
		return Outcome{Status: Done, Reply: reply, Err: err}
	case IsRecorded(err):
		s.unknown = false
	case s.id != "" && !s.unsent(err) && mayHaveActed(err):
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

// Forget removes the result of the last operation, which the client has received, from the record. If that fails, the record
// expires. It may run on a copy of the session in another goroutine.
func (s *Session) Forget() {
	if s.id == "" {
		return
	}
	op := s.pool.Operation(forgetScript, []string{s.pool.Key}, 0)
	s.address(op)
	_, _ = s.pool.Runner.Once(context.Background(), op.call)
}

// ForgetLarge is Forget if the record may hold a large result. It does not wait.
func (s *Session) ForgetLarge() {
	if s.large && !s.unknown {
		s.large = false
		idle := *s
		go idle.Forget()
	}
}

// Large reports whether the record may hold a large result.
func (s *Session) Large() bool { return s.large }
