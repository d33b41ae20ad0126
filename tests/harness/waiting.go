package harness

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type Popped struct {
	Value string
	Err   error
}

// BlockingPop runs a BLPop and returns where its result will be, once the caller is among the waiters.
func BlockingPop(t testing.TB, list *shardedlist.ShardedList, ctx context.Context, timeout time.Duration) <-chan Popped {
	t.Helper()
	before := Left(list).Waiting()
	result := make(chan Popped, 1)
	go func() {
		value, err := list.BLPop(ctx, timeout)
		result <- Popped{value, err}
	}()
	require.Eventually(t, func() bool { return Left(list).Waiting() > before }, 10*time.Second, time.Millisecond)
	return result
}

// Blocked waits until the waiters' pipeline is on its way to block, or does.
func Blocked(t testing.TB, list *shardedlist.ShardedList) {
	t.Helper()
	require.Eventually(t, Left(list).Blocked, 10*time.Second, time.Millisecond)
}

// Asleep waits until the server has a client blocked in BLPOP.
func Asleep(t testing.TB, list *shardedlist.ShardedList) {
	t.Helper()
	Blocked(t, list)
	require.Eventually(t, func() bool {
		for _, node := range NodesOf(t, list) {
			info, err := node.Info(t.Context(), "clients").Result()
			if err != nil || !strings.Contains(info, "blocked_clients:0") { // the embedded server does not tell
				return true
			}
		}
		return false
	}, 10*time.Second, time.Millisecond)
}

// Got is what a pop returns that got a value.
func Got(value string) Popped { return Popped{value, nil} }

// AssertStalled checks how long a cancelled caller has waited for a server that does not answer: all of its grace, or the server was not
// stalled, and not much longer.
func AssertStalled(t testing.TB, waited time.Duration) {
	t.Helper()
	assert.GreaterOrEqual(t, waited, session.LeaveGrace)
	assert.Less(t, waited, 10*session.LeaveGrace)
}

// IsArmed tells whether the list is armed, whatever its plain key holds.
func IsArmed(t testing.TB, list *shardedlist.ShardedList) bool {
	digit, _ := strconv.Atoi(Pointer(list, t.Context(), Digit))
	return digit%2 == 1
}

// Arm has a consumer wait for the list in vain, which leaves it armed. Where the consumer's time is up before it has got so far, it
// tries again.
func Arm(t testing.TB, list *shardedlist.ShardedList) {
	t.Helper()
	for !IsArmed(t, list) {
		_, err := list.BLPop(t.Context(), time.Millisecond)
		require.Equal(t, redis.Nil, err)
	}
}
