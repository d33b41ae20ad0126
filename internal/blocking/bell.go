package blocking

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

const (
	// MaxSlice limits how long one BLPOP on the bell lasts, and so how long a wake-up that a crashed client received can go
	// unnoticed.
	MaxSlice = 2 * time.Second
	// releaseLife is the TTL of the key that releases a blocked consumer.
	releaseLife = 10 * time.Second
)

// bell is how the keys of bells end, and those that release a consumer do not.
const bell = "bell"

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

// Block sends a pop after a BLPOP on bells and a release key, see Source.
func Block(s *session.Session, pop session.Operation, slice time.Duration, keys ...any) (session.Outcome, error) {
	command := append([]any{"blpop"}, keys...)
	outcome, wokenBy, err := s.Block(context.Background(), append(command, strconv.FormatFloat(slice.Seconds(), 'f', 3, 64)), pop)
	if strings.HasSuffix(wokenBy, bell) {
		s.WakeUp()
	}
	return outcome, err
}

// Release ends a blocked BLPOP from another connection. The pop behind it takes nothing. If it fails, the BLPOP ends at its timeout.
func Release(sessions *session.Pool, key string) { release(sessions, key, "leave") }

// Rouse is Release, but the pop takes what it finds, as behind a bell that rang.
func Rouse(sessions *session.Pool, key string) { release(sessions, key, "look") }

func release(sessions *session.Pool, key, to string) {
	_, _ = sessions.Read(releaseScript, []any{key}, releaseLife.Milliseconds(), to).Run(context.Background())
}
