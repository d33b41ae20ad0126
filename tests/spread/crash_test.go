package spread

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/require"
)

// mortal is a hook for a client that dies: after so many commands it gets no reply any more, and sends nothing.
type mortal struct {
	left  atomic.Int64
	died  atomic.Bool
	death context.CancelFunc
}

func (m *mortal) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m *mortal) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return m.until(func() error { return next(ctx, cmd) }, cmd)
	}
}

func (m *mortal) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return m.until(func() error { return next(ctx, cmds) }, cmds...)
	}
}

// until carries commands out while the client lives. The last ones take effect, but nobody hears of it.
func (m *mortal) until(do func() error, cmds ...redis.Cmder) error {
	left := m.left.Add(-1)
	if left > 0 {
		return do()
	}
	if left == 0 {
		_ = do()
		m.died.Store(true)
		m.death()
	}
	for _, cmd := range cmds {
		cmd.SetErr(redis.ErrClosed)
	}
	return redis.ErrClosed
}

// A client that dies after any step of an operation leaves a list that others go on with: the operation is done or not, and nothing else.
func TestDeathBetweenTheStepsOfASpreadList(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	five := harness.Words(harness.Numbers(0, 5))
	type call = func(ctx context.Context, l *shardedlist.ShardedList) error
	outcomes := func(done ...[]string) [][]string { return done }
	operations := map[string]struct {
		do   call
		done [][]string // what it may leave, the last one if nobody dies
	}{
		"RPush": {func(ctx context.Context, l *shardedlist.ShardedList) error {
			return harness.ErrorOf(l.RPush(ctx, "x", "y"))
		}, outcomes(append(slices.Clone(five), "x", "y"))},
		"LPush": {func(ctx context.Context, l *shardedlist.ShardedList) error { return harness.ErrorOf(l.LPush(ctx, "x")) }, outcomes(append([]string{"x"}, five...))},
		"RPushX": {func(ctx context.Context, l *shardedlist.ShardedList) error {
			return harness.ErrorOf(l.RPushX(ctx, "x"))
		}, outcomes(append(slices.Clone(five), "x"))},
		"LPop": {func(ctx context.Context, l *shardedlist.ShardedList) error { return harness.ErrorOf(l.LPop(ctx)) }, outcomes(five[1:])},
		"RPop": {func(ctx context.Context, l *shardedlist.ShardedList) error { return harness.ErrorOf(l.RPop(ctx)) }, outcomes(five[:4])},
		"LPopCount": {func(ctx context.Context, l *shardedlist.ShardedList) error {
			return harness.ErrorOf(l.LPopCount(ctx, 3))
		}, outcomes(five[1:], five[2:], five[3:])},
		"BLPop": {func(ctx context.Context, l *shardedlist.ShardedList) error {
			return harness.ErrorOf(l.BLPop(ctx, time.Minute))
		}, outcomes(five[1:])},
		"LSet": {func(ctx context.Context, l *shardedlist.ShardedList) error { return l.LSet(ctx, 2, "x") }, outcomes([]string{"0", "1", "x", "3", "4"})},
		"Del":  {func(ctx context.Context, l *shardedlist.ShardedList) error { return harness.ErrorOf(l.Del(ctx)) }, outcomes([]string{})},
		"Expire": {func(ctx context.Context, l *shardedlist.ShardedList) error {
			return harness.ErrorOf(l.Expire(ctx, time.Hour))
		}, outcomes(five)},
		"ExpireAt": {func(ctx context.Context, l *shardedlist.ShardedList) error {
			return harness.ErrorOf(l.ExpireAt(ctx, time.Unix(1, 0)))
		}, outcomes([]string{})},
	}
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for name, operation := range operations {
			for step := int64(1); ; step++ {
				list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(1))
				for _, value := range five {
					_, err := list.RPush(t.Context(), value)
					require.NoError(t, err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				m := &mortal{death: cancel}
				m.left.Store(step)
				dying := server.Client(t)
				dying.AddHook(m)
				victim, err := shardedlist.New(dying, list.Name())
				require.NoError(t, err)
				err = operation.do(ctx, victim)
				cancel()
				if !m.died.Load() {
					require.NoError(t, err, name)
					require.Equal(t, operation.done[len(operation.done)-1], harness.Content(t, list), name)
					t.Logf("%s: a client died after each of %d steps", name, step-1)
					require.Greater(t, step, int64(2), name)
					break
				}
				other := harness.OpenList(t, rdb, list.Name())
				rest := harness.Content(t, other)
				require.Contains(t, append(outcomes(five), operation.done...), rest, "%s, death after %d commands", name, step)
				_, err = other.LPush(t.Context(), "first")
				require.NoError(t, err)
				_, err = other.RPush(t.Context(), "last")
				require.NoError(t, err)
				want := slices.Concat([]string{"first"}, rest, []string{"last"})
				require.Equal(t, want, harness.Content(t, other), "%s, death after %d commands", name, step)
				require.NoError(t, other.Check(t.Context()))
				for _, value := range want {
					popped, err := other.LPop(t.Context())
					require.NoError(t, err)
					require.Equal(t, value, popped)
				}
				require.Equal(t, redis.Nil, harness.ErrorOf(other.RPop(t.Context())), fmt.Sprint(name, step))
			}
		}
	})
}
