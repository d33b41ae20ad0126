package queue

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var takeScript = script.Load("queue_take")

const (
	// maxTake is the number of jobs that one script leases at most.
	maxTake = 256
	// newcomersSlice is how long a BLPOP lasts at most after newcomers were seen in the last newcomersFor: see internal/oneslot.
	newcomersSlice = 250 * time.Millisecond
	newcomersFor   = time.Minute
)

// source is where one Run takes its jobs from. Elements are their envelopes.
type source struct {
	*Queue
	name         string       // of this Run, on the server
	look         atomic.Int64 // when to look again, as a Unix time in nanoseconds; 0 if not before the bell
	sawNewcomers atomic.Int64
}

var _ blocking.Source = (*source)(nil)

// Pop returns the operation that takes jobs.
func (s *source) Pop(count int, wait blocking.Wait, release string) session.Operation {
	var interval float64
	if s.rate > 0 {
		interval = float64(s.per.Nanoseconds()) / 1e3 / float64(s.rate)
	}
	ids := uuid.New()
	op := s.onList(takeScript, 10)
	op.Append(string(s.end()), count, string(wait), release, s.name, s.lease.Milliseconds(), s.concurrency, interval, s.burst, ids[:])
	op.Reclaimer = s
	return op
}

// Read reads the reply of an operation that takes jobs.
func (s *source) Read(reply any) (envelopes []string, exhausted bool) {
	words := reply.([]any)
	now := time.Now()
	s.look.Store(0)
	if wait := words[0].(int64); wait >= 0 {
		s.look.Store(now.Add(time.Duration(wait) * time.Millisecond).UnixNano())
	}
	if words[1] == int64(1) {
		s.sawNewcomers.Store(now.UnixNano())
	}
	for _, envelope := range words[2:] {
		envelopes = append(envelopes, envelope.(string))
	}
	return envelopes, words[1] != int64(2)
}

// Reclaim gives back jobs that were taken when nobody waited for the reply any more.
func (s *source) Reclaim(reply any) {
	envelopes, _ := s.Read(reply)
	ctx, cancel := context.WithTimeout(context.Background(), s.lease)
	defer cancel()
	for _, envelope := range envelopes {
		if job, err := Parse(envelope); err == nil {
			_ = s.settleUntilDone(ctx, job, verdict{}) // or else its lease ends
		}
	}
}

func (s *source) Block(n *session.Session, take session.Operation, release string, slice time.Duration) (session.Outcome, error) {
	return blocking.Block(n, take, slice, s.one.Keys().Bell, release)
}

func (s *source) Find(context.Context) (bool, error) { return false, nil }
func (s *source) ReleaseKey() string                 { return s.one.Keys().Release(uuid.NewString()) }
func (s *source) Release(key string)                 { blocking.Release(s.one.Sessions(), key) }

// Slice returns how long a BLPOP may last: until it is time to look again.
func (s *source) Slice(time.Time) time.Duration {
	longest := s.one.MaxSlice
	if time.Since(time.Unix(0, s.sawNewcomers.Load())) < newcomersFor {
		longest = min(longest, newcomersSlice)
	}
	var until time.Time
	if look := s.look.Load(); look > 0 {
		until = time.Unix(0, look)
	}
	return blocking.Slice(s.one.Sessions().Runner, longest, until)
}
