// Package blocking serves callers that wait for elements.
//
// A caller never blocks on a shard. It waits on the bell, and takes its element with the same pop as other callers. The bell is a list of
// dummy elements: a BLPOP on it, and then the pop, are one pipeline. It is a channel, too: where callers wait on many bells, a subscription
// serves them, and the pop is sent when the bell has rung.
//
// The package knows who waits, for how long, and who gets the elements of a pop. It does not know how a pop works, nor the key
// of the bell: its Source does.
package blocking

import (
	"context"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// Wait says how a pop that finds too few elements waits. The values are those of the scripts.
type Wait string

const (
	No    Wait = "no"    // it does not
	First Wait = "first" // the list is armed, for a BLPOP on the bell to follow
	Again Wait = "again" // the same, for one that has looked at the list before: its key may have another type by now
	Woken Wait = "woken" // that BLPOP has ended
)

// Source is where elements come from: one end of a list, or of several lists.
type Source interface {
	// Find makes sure that the next operation is sent to where the elements are, and reports whether that is another place than that of the
	// last one: then the list is not armed. It is not called while the outcome of the last one is unknown.
	Find(ctx context.Context) (moved bool, err error)
	// Pop takes up to count elements. A woken pop takes nothing if its release key exists. An empty release is no key.
	Pop(count int, wait Wait, release string) session.Operation
	// Block sends a pop once the bell has rung, the wait is released, or after slice at the latest. If the outcome is not Done, the caller sends
	// it, unless the wait was released.
	Block(s *session.Session, pop session.Operation, release string, slice time.Duration) (session.Outcome, error)
	// Read reads the reply of a pop: the elements, and whether the list was found to hold no more than those.
	Read(reply any) (elements []string, exhausted bool)
	// ReleaseKey returns a new key that releases one BLPOP. Release releases it.
	ReleaseKey() string
	Release(key string)
	// Slice returns how long a BLPOP may last, which ends by the deadline, if there is one.
	Slice(deadline time.Time) time.Duration
}

// round is one attempt to pop.
type round struct {
	ctx     context.Context
	count   int
	again   bool          // its callers have looked at the list before
	release string        // the key to watch beside the bell; empty: do not block
	slice   time.Duration // how long to block
	until   time.Time     // when to stop repeating a pop that the server cannot serve for the moment; zero: see script.Deadline
}

// result is the outcome of a round.
type result struct {
	reply     any
	elements  []string
	shortfall error // ErrNotReplicated, which the elements come with
	err       error // why the list could not be looked at
	unknown   bool  // the pop may have taken elements; the next round tells
	armed     bool  // the list is empty, and the next push will ring
}

// party is what a loop serves.
type party interface {
	// next sets up a round, or reports that nobody waits any longer.
	next(armed bool) (round, bool)
	// done receives the outcome of a round, and returns how long to pause before the next one.
	done(r round, got result) (pause time.Duration)
}

// loop pops for a party that waits: at once if the list may have elements, otherwise after a BLPOP on the bell.
type loop struct {
	source   Source
	sessions *session.Pool
	session  *session.Session
	owes     bool // it may have consumed a wake-up, and not passed it on
	failures failures
}

func (l *loop) run(p party) {
	armed := false
	for {
		r, ok := p.next(armed)
		if !ok {
			return
		}
		got := l.take(r)
		armed = got.armed
		_ = script.Sleep(r.ctx, p.done(r, got))
	}
}

// take pops, after blocking if the round says so. It can return both elements and an error. A pop whose outcome is unknown is
// retried by the next round while its record exists: its elements come before those in the list.
func (l *loop) take(r round) result {
	if l.session != nil && l.session.Unknown() && time.Now().After(l.session.Expires()) {
		_, _ = l.drop(session.Outcome{Status: session.Unknown}, r.count)
	}
	if l.session == nil {
		l.session = l.sessions.Get()
	}
	if !l.session.Unknown() {
		moved, err := l.source.Find(r.ctx)
		if err != nil {
			l.failures.count(err)
			return result{err: err}
		}
		if moved {
			r.release = ""
		}
		l.session.Begin()
	}
	outcome, err := l.attempt(r)
	if outcome.Err == errReleased {
		return result{armed: true}
	}
	got := result{unknown: outcome.Status == session.Unknown}
	if outcome.Status == session.Done {
		var exhausted bool
		got.reply = outcome.Reply
		got.elements, exhausted = l.source.Read(got.reply)
		got.shortfall, got.err = outcome.Err, err
		got.armed = err == nil && exhausted && len(got.elements) < r.count
	} else {
		got.err = outcome.Err
	}
	l.failures.count(got.err)
	return got
}

// attempt sends the pop, and retries it until its outcome is known, or until the callers that have waited long enough must be
// told. The error is that of the BLPOP.
func (l *loop) attempt(r round) (session.Outcome, error) {
	if r.release != "" {
		outcome, err := l.source.Block(l.session, l.source.Pop(r.count, Woken, r.release), r.release, r.slice)
		if outcome.Status == session.Done || outcome.Err == errReleased {
			return outcome, err
		}
		l.owes = true
		if script.IsReply(outcome.Err) {
			return outcome, nil
		}
	}
	wait := First
	switch {
	case l.owes:
		wait = Woken
	case r.again:
		wait = Again
	}
	pop := l.source.Pop(r.count, wait, "")
	pop.RefusedUntil = r.until
	outcome := l.session.Do(r.ctx, script.Deadline(r.ctx), pop)
	if outcome.Status == session.Done {
		l.owes = false
	}
	return outcome, nil
}

// drop returns the session to the pool. A pop whose outcome is unknown is resolved, and its elements go back to their end.
func (l *loop) drop(outcome session.Outcome, count int) (any, error) {
	reply, err := l.sessions.Put(l.session, l.source.Pop(count, First, ""), outcome)
	l.session = nil
	return reply, err
}

// passOn rings again for other callers, if the loop may have consumed a wake-up.
func (l *loop) passOn() {
	if l.owes {
		l.owes = false
		_, _ = l.source.Pop(0, Woken, "").Run(context.Background())
	}
}
