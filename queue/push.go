package queue

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/value"
)

var pushScript = script.Load("queue_push")

// PushOption is an option of Push and PushMany.
type PushOption func(*pushSettings) error

type pushSettings struct {
	how    string // "in", "at", or empty: now
	when   int64  // milliseconds from now, or a Unix time in milliseconds
	unique string // the hash of the key, or empty
	life   time.Duration
}

// In delays the jobs: they are due after d, by the clock of the server. A delay of 0 or less is none.
func In(d time.Duration) PushOption {
	return func(s *pushSettings) error {
		if s.how != "" {
			return fmt.Errorf("%w: more than one of In and At", ErrOption)
		}
		if d > 0 {
			s.how, s.when = "in", max(1, d.Milliseconds())
		}
		return nil
	}
}

// At delays the jobs until t, by the clock of the server. A time in the past is now.
func At(t time.Time) PushOption {
	return func(s *pushSettings) error {
		if s.how != "" {
			return fmt.Errorf("%w: more than one of In and At", ErrOption)
		}
		s.how, s.when = "at", max(1, t.UnixMilli())
		return nil
	}
}

// Unique pushes the job only if no other job of the queue has the key: Push then returns ErrDuplicate, and the id of that job. A key is
// free again when its job is done, dead or cancelled, and after life at the latest: from a millisecond to a year.
func Unique(key string, life time.Duration) PushOption {
	return func(s *pushSettings) error {
		if life < time.Millisecond || life > longest {
			return fmt.Errorf("%w: a unique key for %v", ErrOption, life)
		}
		hash := sha1.Sum([]byte(key)) // so no key of the queue looks like another one
		s.unique, s.life = hex.EncodeToString(hash[:]), life
		return nil
	}
}

// Push adds a job, and returns its id. The payload is a string or a []byte of at most MaxPayload bytes, and may be empty. O(1), or
// O(log(jobs delayed)) for a delayed job.
//
// A job is pushed exactly once, as in [shardedlist.ShardedList.RPush]. With ErrOutcomeUnknown, Push returns the id that the job has if it
// was pushed, and with ErrNotReplicated that of the job.
//
// Without options, callers share operations as those of RPush do.
func (q *Queue) Push(ctx context.Context, payload any, opts ...PushOption) (id string, err error) {
	ids, err := q.push(ctx, []any{payload}, opts)
	if len(ids) == 0 {
		return "", q.wrap("push", err)
	}
	return ids[0], q.wrap("push", err)
}

// PushMany adds jobs, in their order, and returns their ids: all or none of up to 1,000 of a megabyte together. More are pushed in parts,
// each of which is. If a part fails, PushMany returns the ids of those that were pushed, with ErrOutcomeUnknown also of those that may have been, and
// the error. It does not take [Unique].
func (q *Queue) PushMany(ctx context.Context, payloads []any, opts ...PushOption) (ids []string, err error) {
	if len(payloads) == 0 {
		return nil, nil
	}
	ids, err = q.push(ctx, payloads, opts)
	return ids, q.wrap("push", err)
}

// Bounds of a part of PushMany.
const (
	partJobs  = 1000
	partBytes = 1 << 20
)

func (q *Queue) push(ctx context.Context, payloads []any, opts []PushOption) (ids []string, err error) {
	var s pushSettings
	for _, opt := range opts {
		if err := opt(&s); err != nil {
			return nil, err
		}
	}
	if s.unique != "" && len(payloads) > 1 {
		return nil, fmt.Errorf("%w: Unique is for one job", ErrOption)
	}
	envelopes := make([]any, len(payloads))
	ids = make([]string, len(payloads))
	for i, payload := range payloads {
		job, err := newJob(payload)
		if err != nil {
			return nil, err
		}
		job.unique = s.unique
		envelopes[i], ids[i] = job.envelope(), job.ID
	}
	if s.how != "" || s.unique != "" {
		return q.pushWith(ctx, s, envelopes, ids)
	}
	push := q.list.RPush
	if q.popRight {
		push = q.list.LPush
	}
	return inParts(envelopes, ids, func(part []any) error {
		_, err := push(ctx, part...)
		return err
	})
}

// pushWith pushes jobs that are delayed, or have a unique key.
func (q *Queue) pushWith(ctx context.Context, s pushSettings, envelopes []any, ids []string) ([]string, error) {
	capacity, err := q.one.Capacity(ctx)
	if err != nil {
		return nil, err
	}
	end := layout.Right
	if q.popRight {
		end = layout.Left
	}
	return inParts(envelopes, ids, func(part []any) error {
		op := q.onList(pushScript, 6+len(part))
		op.Append(string(end), capacity, s.how, s.when, s.unique, s.life.Milliseconds())
		op.Append(part...)
		reply, err := op.Run(ctx)
		if other, found := strings.CutPrefix(fmt.Sprint(reply), "="); found && script.IsDone(err) {
			id, _ := uuid.FromBytes([]byte(other))
			ids[0], err = id.String(), ErrDuplicate
		}
		return err
	})
}

// inParts pushes envelopes in parts. It returns the ids of those that were pushed, or may have been if the error says so.
func inParts(envelopes []any, ids []string, push func(part []any) error) (pushed []string, err error) {
	for len(pushed) < len(ids) {
		count, _ := value.Part(envelopes[len(pushed):], partJobs, partBytes)
		partErr := push(envelopes[len(pushed) : len(pushed)+count])
		done := script.IsDone(partErr)
		if done || errors.Is(partErr, session.ErrOutcomeUnknown) || partErr == ErrDuplicate {
			pushed = ids[:len(pushed)+count]
		}
		if partErr != nil {
			err = partErr
		}
		if !done {
			break
		}
	}
	return pushed, err
}
