package queue

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var takeScript = script.Load("queue_take")

const (
	// maxTake is the number of jobs that one script leases at most.
	maxTake = 256
	// soon is a time that is too short to wait for anything else meanwhile.
	soon = 20 * time.Millisecond
	// longestWait limits in milliseconds what the server says of when to look again.
	longestWait = int64(time.Hour / time.Millisecond)
	// leaseSize is the size of what is behind the id in a member.
	leaseSize = 6
)

// source is where one Run takes its jobs from.
type source struct {
	*Queue
	name         string    // of this Run, on the server
	look         time.Time // when that is; zero if not before the bell
	sawNewcomers time.Time
	sent         time.Time // when the last operation was
	leaseName    string    // of the jobs in its reply
}

var _ blocking.Source = (*source)(nil)

// Pop returns the operation that takes jobs.
func (s *source) Pop(count int, wait blocking.Wait, release string) session.Operation {
	var interval float64
	if s.rate > 0 {
		interval = float64(s.per.Nanoseconds()) / 1e3 / float64(s.rate)
	}
	s.sent = time.Now() // in a moment, and the leases begin then at the earliest: a script that is sent again begins them anew
	ids := uuid.New()
	op := s.onList(takeScript, 10)
	op.Append(string(s.end()), count, string(wait), release, s.name, s.lease.Milliseconds(), s.concurrency, interval, s.burst, ids[:])
	op.Reclaimer = s
	return op
}

// Read reads the reply of an operation that takes jobs. The elements are envelopes.
func (s *source) Read(reply any) (elements []string, exhausted bool) {
	words := reply.([]any)
	now := time.Now()
	s.look = time.Time{}
	if wait := words[0].(int64); wait >= 0 {
		s.look = now.Add(time.Duration(min(wait, longestWait)) * time.Millisecond)
	}
	if words[1] == int64(1) {
		s.sawNewcomers = now
	}
	s.leaseName, elements = taken(words)
	return elements, words[1] != int64(2)
}

// taken returns the envelopes in a reply, and the name of their leases: what is behind the ids in their members.
func taken(words []any) (leaseName string, envelopes []string) {
	envelopes = make([]string, len(words)-3)
	for i, envelope := range words[3:] {
		envelopes[i] = envelope.(string)
	}
	return words[2].(string), envelopes
}

// leased returns the job of an envelope, and the claim on its lease.
func leased(envelope, leaseName string) (job *Job, c claim, err error) {
	if job, err = Parse(envelope); err != nil {
		return nil, claim{}, err
	}
	job.Attempt++ // the envelope counts those that have ended
	job.member = envelope[idAt:attemptAt] + leaseName
	return job, claim{job.member, job.unique, len(envelope)}, nil
}

// Reclaim gives back jobs that were taken when nobody waited for the reply any more.
func (s *source) Reclaim(reply any) {
	ctx, cancel := context.WithTimeout(context.Background(), s.lease)
	defer cancel()
	var endings []ending
	leaseName, envelopes := taken(reply.([]any))
	for _, envelope := range envelopes {
		if _, c, err := leased(envelope, leaseName); err == nil {
			endings = append(endings, ending{claim: c})
		}
	}
	if len(endings) > 0 {
		s.settleUntilDone(ctx, endings...) // or else the leases end
	}
}

// Block takes jobs after a BLPOP on the bell. If it is time to look soon, it sleeps instead. If it is later, a timer wakes the BLPOP:
// an idle server ends one that times out only ten times a second.
func (s *source) Block(n *session.Session, take session.Operation, release string, slice time.Duration) (session.Outcome, error) {
	at := blocking.Place{Bells: []string{s.one.Keys().Bell}, Release: release}
	left := time.Until(s.look)
	switch {
	case s.look.IsZero() || left > slice:
		return blocking.Block(n, take, slice, at)
	case left <= soon:
		time.Sleep(left)
		return n.Do(context.Background(), time.Now().Add(time.Second), take), nil
	}
	at.Alarm = s.ReleaseKey()
	timer := time.AfterFunc(left, func() { blocking.Rouse(s.one.Sessions(), at.Alarm) })
	defer timer.Stop()
	return blocking.Block(n, take, slice+soon, at)
}

func (s *source) Find(context.Context) (bool, error) { return false, nil }
func (s *source) ReleaseKey() string                 { return s.one.Keys().Release(uuid.NewString()) }
func (s *source) Release(key string)                 { blocking.Release(s.one.Sessions(), key) }

// Slice returns how long a BLPOP may last: until it is time to look again.
func (s *source) Slice(time.Time) time.Duration {
	longest := s.one.MaxSlice
	if time.Since(s.sawNewcomers) < oneslot.NewcomersFor {
		longest = min(longest, oneslot.NewcomersSlice)
	}
	return blocking.Slice(s.one.Sessions().Runner, longest, s.look)
}
