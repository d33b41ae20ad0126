package limit

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	slidingScript       = script.Load("limit_sliding")
	slidingReturnScript = script.Load("limit_sliding_return")
)

// maxLog is the highest limit of a sliding window, since its log is one key.
const maxLog = 100_000

// SlidingWindow admits a number of calls in any span of time of one length, wherever it begins. It is exact: there is no
// border at which more are admitted.
//
// For that it keeps a log of the calls that it has admitted within the span: O(limit) memory, about 75 bytes for each call, or
// for each AllowN of several. An operation costs O(log limit) time. If that is too much, a [TokenBucket] needs one number.
type SlidingWindow struct{ reserver }

// NewSlidingWindow returns a limiter that admits limit calls in any span of that length. It sends nothing. The length counts
// in whole microseconds, from a millisecond to ten years.
//
// It returns ErrLimit for a nil client, an empty name, a limit below 1 or above 100,000, or a length that is too short or too
// long.
func NewSlidingWindow(rdb redis.UniversalClient, name string, limit int64, per time.Duration) (*SlidingWindow, error) {
	if err := checkNumber(limit, maxLog); err != nil {
		return nil, err
	}
	if err := checkSpan(per); err != nil {
		return nil, err
	}
	c, err := newCounter(rdb, name, "sliding")
	if err != nil {
		return nil, err
	}
	take := func(n int64, patience time.Duration) session.Operation {
		return c.operation(slidingScript, limit, per.Microseconds(), n, patience.Microseconds())
	}
	return &SlidingWindow{reserver{c, limit, take, slidingReturnScript}}, nil
}
