package hook

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readSteps counts the steps of searches that a client sends.
type readSteps struct{ number atomic.Int64 }

func (s *readSteps) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *readSteps) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.count(cmd)
		return next(ctx, cmd)
	}
}

func (s *readSteps) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			s.count(cmd)
		}
		return next(ctx, cmds)
	}
}

func (s *readSteps) count(cmd redis.Cmder) {
	if slices.Contains(cmd.Args(), any("read")) {
		s.number.Add(1)
	}
}

// Through the hook, a long list is searched in steps, but not in a pipeline, a transaction and a Conn, where that would change the order.
func TestLongListsAreSearchedInSteps(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		if server.Kind() == redistest.Embedded {
			t.Skip("it is slow")
		}
		rdb, steps, key := server.Client(t, harness.Patient), &readSteps{}, harness.UniqueName(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*"), shardedlist.WithCapacity(1000)))
		rdb.AddHook(steps) // behind the hook: it sees what is sent
		ctx, values := t.Context(), make([]any, 1000)
		for from := 0; from < 120_000; from += len(values) {
			for i := range values {
				values[i] = fmt.Sprint("v", from+i)
			}
			require.NoError(t, rdb.RPush(ctx, key, values...).Err())
		}
		require.EqualValues(t, 110_000, rdb.LPos(ctx, key, "v110000", redis.LPosArgs{}).Val())
		require.EqualValues(t, 1, rdb.LRem(ctx, key, 0, "v100000").Val())
		require.EqualValues(t, 120_000, rdb.LInsertBefore(ctx, key, "v100001", "new").Val())
		require.EqualValues(t, 100_000, rdb.LPos(ctx, key, "new", redis.LPosArgs{}).Val())
		assert.GreaterOrEqual(t, steps.number.Load(), int64(8))

		steps.number.Store(0)
		for _, run := range []func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){rdb.Pipelined, rdb.TxPipelined} {
			cmds, err := run(ctx, func(pipe redis.Pipeliner) error {
				pipe.LPos(ctx, key, "v110000", redis.LPosArgs{})
				pipe.RPush(ctx, key, "x")
				return nil
			})
			require.NoError(t, err)
			assert.EqualValues(t, 110_000, cmds[0].(*redis.IntCmd).Val())
		}
		assert.Zero(t, steps.number.Load())
		require.NoError(t, rdb.Del(ctx, key).Err())
	})
}
