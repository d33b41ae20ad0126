package blocking

import (
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
)

// failures tracks rounds that fail, so that waiting callers do not see errors that pass by themselves.
type failures struct {
	err    error
	number int
	since  time.Time
}

// count records the error of a round, or its success.
func (f *failures) count(err error) {
	if err == nil {
		*f = failures{}
		return
	}
	if f.number == 0 {
		f.since = time.Now()
	}
	f.number++
	f.err = err
}

// pause returns how long to wait before the next round.
func (f *failures) pause() time.Duration {
	if f.number == 0 {
		return 0
	}
	return script.Backoff(f.number)
}

// endsWait reports whether a caller gets the error: at once if it is final, or once a transient error has lasted longer than
// the caller waits for the server. A patient caller, whose context has a deadline, waits until then.
func (f *failures) endsWait(patient bool, joined, now time.Time) bool {
	switch {
	case f.err == nil:
		return false
	case !script.IsTransient(f.err):
		return true
	case patient:
		return false // the context will end the wait
	}
	return now.Sub(f.since) > script.RetryFor && now.Sub(joined) > script.RetryFor
}
