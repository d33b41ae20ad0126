package blocking

import (
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
)

const (
	// MaxSlice limits how long one BLPOP on the bell lasts, and so how long a wake-up that a crashed client received can go
	// unnoticed.
	MaxSlice = 2 * time.Second
	// releaseLife is the TTL of the key that releases a blocked consumer.
	releaseLife = 10 * time.Second
)

var releaseScript = script.Load("release")

// Slice returns how long a BLPOP on a bell may last: the longest time, but until the deadline, if there is one, and well within the
// runner's ReadTimeout.
func Slice(runner *script.Runner, longest time.Duration, deadline time.Time) time.Duration {
	slice := longest
	if timeout := script.ReadTimeout(runner.Client) - runner.ReplicaTimeout; timeout > 0 {
		slice = min(slice, timeout/2)
	}
	if !deadline.IsZero() {
		slice = min(slice, time.Until(deadline))
	}
	return max(slice, time.Millisecond) // BLPOP takes 0 for ever
}
