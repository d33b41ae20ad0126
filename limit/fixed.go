package limit

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

var fixedScript = script.Load("limit_fixed")

// FixedWindow admits a number of calls in each window of time. Windows lie end to end, and are aligned to the server's clock:
// those of a minute begin when its seconds are 0, and those of an hour and of a day with the hour and the day of UTC.
//
// At the border of two windows it admits twice as many within a moment: all of the first window at its end, and all of the
// second at its beginning. If that must not be, use a [SlidingWindow] or a [TokenBucket].
//
// It costs O(1) time, and about 120 bytes while its window lasts; with dedup records, for up to two minutes, more.
type FixedWindow struct {
	*counter
	limit int64
	per   time.Duration
}

// NewFixedWindow returns a limiter that admits limit calls in each window of that length. It sends nothing. The length counts
// in whole microseconds, from a millisecond to ten years.
//
// It returns ErrLimit for a nil client, an empty name, a limit below 1, or a length that is too short or too long.
func NewFixedWindow(rdb redis.UniversalClient, name string, limit int64, per time.Duration) (*FixedWindow, error) {
	if err := checkNumber(limit, maxNumber); err != nil {
		return nil, err
	}
	if err := checkSpan(per); err != nil {
		return nil, err
	}
	c, err := newCounter(rdb, name, "fixed")
	if err != nil {
		return nil, err
	}
	return &FixedWindow{c, limit, per}, nil
}

// Allow is AllowN of 1.
func (w *FixedWindow) Allow(ctx context.Context) (Decision, error) { return w.AllowN(ctx, 1) }

// AllowN admits n calls at once if the current window has room for all of them, or none. It does not wait: if it refuses,
// RetryAfter is the time until the next window. A refusal counts nothing. It costs O(1).
//
// It returns ErrLimit for an n below 1 or above the limit. If ctx ends while the server does not answer, the error is its own
// and ErrOutcomeUnknown: the call may have been counted. If the server's memory is full, it returns the server's error, and
// nothing was counted.
func (w *FixedWindow) AllowN(ctx context.Context, n int64) (Decision, error) {
	if err := checkNumber(n, w.limit); err != nil {
		return Decision{}, w.wrap("allow", err)
	}
	decision, err := w.decide(ctx, w.operation(fixedScript, w.limit, w.per.Microseconds(), n))
	return decision, w.wrap("allow", err)
}
