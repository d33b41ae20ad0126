// Package stats counts what the library does for lists.
//
// The counters are in the lowest layer, and passed down to where things happen. They only grow, but for the number of callers that wait.
// The package knows what is counted. It does not know what for.
package stats

import (
	"sync/atomic"
	"time"
)

// List is a list as the lower layers know it: its name, and the counters that it shares with the other lists of its hook. A nil *List
// counts nothing.
type List struct {
	Name string
	*Counters
}

// NewList returns a list of that name with counters of its own.
func NewList(name string) *List { return &List{name, &Counters{}} }

// Sibling returns a list of another name with the same counters.
func (l *List) Sibling(name string) *List { return &List{name, l.Counters} }

// Counters are cumulative. Reading them does not stop the callers that count: numbers that belong together may be of different moments.
type Counters struct {
	Operations [Kinds]atomic.Int64 // that were sent, however often
	Repeats    atomic.Int64        // attempts beyond the first
	AtOnce     atomic.Int64        // searches of long lists that could not be done in steps
	Lost       atomic.Int64        // calls that ended with ErrOutcomeUnknown

	Pushed, Popped, Moved, PutBack atomic.Int64 // elements

	Batches [len(BatchSizes) + 1]atomic.Int64 // by their size
	Calls   atomic.Int64                      // in all batches

	Waiting  atomic.Int64 // callers that are blocked now
	Waits    atomic.Int64 // that are over
	WaitTime atomic.Int64 // of these, in nanoseconds
	WakeUps  atomic.Int64 // of waits, each for one caller or for all at one end

	Blocked   atomic.Int64 // connections that are blocked now
	Listening atomic.Int64 // waits that a subscription ends, which many share

	ServerTime atomic.Int64 // for which replies were waited, in nanoseconds
}

// BatchSizes are the upper bounds of the classes in which batches are counted. The last class has none.
var BatchSizes = [...]int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}

// Operation counts an operation when it is sent for the first time. calls is the number of those that share it, or 0 if it cannot be
// shared.
func (l *List) Operation(kind Kind, calls int) {
	if l == nil {
		return
	}
	l.Operations[kind].Add(1)
	if calls > 0 {
		l.Batches[classOf(calls)].Add(1)
		l.Calls.Add(int64(calls))
	}
}

func classOf(calls int) int {
	for class, most := range BatchSizes {
		if int64(calls) <= most {
			return class
		}
	}
	return len(BatchSizes)
}

// Repeat counts an operation that is sent once more.
func (l *List) Repeat() {
	if l != nil {
		l.Repeats.Add(1)
	}
}

// Lose counts a call whose caller learns that its outcome is unknown.
func (l *List) Lose() {
	if l != nil {
		l.Lost.Add(1)
	}
}

// Elements counts those that an operation has pushed, popped or moved. Of pushed ones, some may have been popped before.
func (l *List) Elements(kind Kind, number, putBack int) {
	if l == nil {
		return
	}
	switch kind {
	case Push:
		l.Pushed.Add(int64(number - putBack))
		if putBack > 0 {
			l.PutBack.Add(int64(putBack))
		}
	case Pop, BlockingPop:
		l.Popped.Add(int64(number))
	case Move:
		l.Moved.Add(int64(number))
	}
}

// Wait counts a caller that begins to wait, until EndWait.
func (l *List) Wait() (began time.Time) {
	if l != nil {
		l.Waiting.Add(1)
	}
	return time.Now()
}

// EndWait counts a caller that waits no longer.
func (l *List) EndWait(began time.Time) {
	if l != nil {
		l.Waiting.Add(-1)
		l.Waits.Add(1)
		l.WaitTime.Add(int64(time.Since(began)))
	}
}

// SearchedAtOnce counts a search of a long list that could not be done in steps.
func (l *List) SearchedAtOnce() {
	if l != nil {
		l.AtOnce.Add(1)
	}
}

// WakeUp counts a wait that a push has ended.
func (l *List) WakeUp() {
	if l != nil {
		l.WakeUps.Add(1)
	}
}

// Block counts a connection that blocks until the function that it returns is called, and Listen a wait without one.
func (l *List) Block() (end func()) {
	return l.during(func(c *Counters) *atomic.Int64 { return &c.Blocked })
}

// Listen is like Block.
func (l *List) Listen() (end func()) {
	return l.during(func(c *Counters) *atomic.Int64 { return &c.Listening })
}

func (l *List) during(counter func(c *Counters) *atomic.Int64) (end func()) {
	if l == nil {
		return func() {}
	}
	of := counter(l.Counters)
	of.Add(1)
	return func() { of.Add(-1) }
}

// Replied counts the time for which a reply was waited.
func (l *List) Replied(took time.Duration) {
	if l != nil {
		l.ServerTime.Add(int64(took))
	}
}
