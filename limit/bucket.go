package limit

import (
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	bucketScript       = script.Load("limit_bucket")
	bucketReturnScript = script.Load("limit_bucket_return")
)

// TokenBucket admits calls at a steady rate. Each takes a token. Tokens come in evenly, and the bucket holds up to burst of
// them: so after a pause, burst calls are admitted at once. It begins full.
//
// In any span of time it admits no more than burst and what comes in meanwhile. It stores one number, the time at which the
// bucket will be full again (the generic cell rate algorithm). That time is rounded up by a quarter of a microsecond a call at
// most: at about 10,000 calls a second up to 0.25 % are lost, unless the interval is a multiple of that.
//
// It costs O(1) time, and about 110 bytes until it is full again; with dedup records, for up to two minutes, more.
type TokenBucket struct{ reserver }

// NewTokenBucket returns a limiter to which rate tokens come in within that time, and which holds burst of them. It sends
// nothing. The time counts in whole microseconds, from a millisecond to ten years.
//
// It returns ErrLimit for a nil client, an empty name, a rate or a burst below 1, a rate of more than one token a microsecond,
// a time that is too short or too long, or a burst that takes more than ten years to come in.
func NewTokenBucket(rdb redis.UniversalClient, name string, rate int64, per time.Duration, burst int64) (*TokenBucket, error) {
	if err := checkSpan(per); err != nil {
		return nil, err
	}
	if err := checkNumber(rate, per.Microseconds()); err != nil {
		return nil, err
	}
	if err := checkNumber(burst, maxNumber); err != nil {
		return nil, err
	}
	if fill := float64(burst) / float64(rate) * float64(per); fill > float64(maxSpan) || math.IsNaN(fill) {
		return nil, invalid("a burst of %d takes more than %v to come in", burst, maxSpan)
	}
	c, err := newCounter(rdb, name, "bucket")
	if err != nil {
		return nil, err
	}
	take := func(n int64, patience time.Duration) session.Operation {
		return c.operation(bucketScript, rate, per.Microseconds(), burst, n, patience.Microseconds())
	}
	return &TokenBucket{reserver{c, burst, take, bucketReturnScript}}, nil
}
