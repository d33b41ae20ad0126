package commands

import (
	"context"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIndexAndRangeAsRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, capacity := range []int{1, 2, 3, 100} {
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(capacity))
			plain := "plain-" + list.Name()
			compare := func(indices ...int64) {
				for _, start := range indices {
					want, wantErr := rdb.LIndex(t.Context(), plain, start).Result()
					got, err := list.LIndex(t.Context(), start)
					require.Equal(t, wantErr, err)
					require.Equal(t, want, got, start)
					for _, stop := range indices {
						want := rdb.LRange(t.Context(), plain, start, stop).Val()
						got, err := list.LRange(t.Context(), start, stop)
						require.NoError(t, err)
						require.Equal(t, want, got, "%d..%d", start, stop)
					}
				}
			}
			compare(0, -1, 5, math.MaxInt64, math.MinInt64)
			for _, push := range []struct {
				sharded func(context.Context, ...any) (int64, error)
				plain   func(context.Context, string, ...any) *redis.IntCmd
			}{{list.RPush, rdb.RPush}, {list.LPush, rdb.LPush}} {
				_, err := push.sharded(t.Context(), harness.Numbers(0, 4)...)
				require.NoError(t, err)
				require.NoError(t, push.plain(t.Context(), plain, harness.Numbers(0, 4)...).Err())
			}
			compare(-9, -8, -7, -4, -2, -1, 0, 1, 3, 4, 6, 7, 8, 9, math.MaxInt64, math.MinInt64, 1<<53+1)
			length, err := list.LLen(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, 8, length)
		}
	})
}

func TestAllReadsALongListInOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, capacity := range []int{1, 512, 5000} {
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(capacity))
			assert.Empty(t, harness.Content(t, list))
			_, err := list.RPush(t.Context(), harness.Numbers(0, 12_345)...)
			require.NoError(t, err)
			assert.Equal(t, harness.Words(harness.Numbers(0, 12_345)), harness.Content(t, list))
			for value, err := range list.All(t.Context()) {
				require.NoError(t, err)
				assert.Equal(t, "0", value)
				break
			}
		}
	})
}

// widest has the most shards that a transaction has read.
type widest struct{ shards int }

func (w *widest) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (w *widest) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (w *widest) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		shards := 0
		for _, cmd := range cmds {
			if cmd.Name() == "lrange" {
				shards++
			}
		}
		w.shards = max(w.shards, shards)
		return next(ctx, cmds)
	}
}

// All reads few large elements at once, also behind a small one, and many small ones.
func TestAllReadsByBytes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		if server.Kind() == redistest.Embedded {
			t.Skip("it is slow")
		}
		rdb, w := server.Client(t), &widest{}
		rdb.AddHook(w)
		for size, want := range map[int][2]int{100 << 10: {2, 5}, 1: {100, 1000}} {
			w.shards = 0
			values := make([]any, 200)
			for i := range values {
				values[i] = strings.Repeat("x", size)
			}
			values[100] = "small"
			list := harness.NewSharded(t, rdb, 1, values)
			assert.Equal(t, harness.Words(values), harness.Content(t, list))
			w.shards = 0
			var read []string
			for value, err := range list.All(t.Context()) {
				require.NoError(t, err)
				read = append(read, value)
			}
			assert.Equal(t, harness.Words(values), read)
			assert.GreaterOrEqual(t, w.shards, want[0])
			assert.LessOrEqual(t, w.shards, want[1])
		}
	})
}

func TestAllReportsAnErrorOnce(t *testing.T) {
	t.Parallel()
	list := harness.NewList(t, redistest.Shared(t, redistest.Redis).Client(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	count := 0
	for _, err := range list.All(ctx) {
		assert.ErrorIs(t, err, context.Canceled)
		count++
	}
	assert.Equal(t, 1, count)
}

// Elements that are in the list all the while come exactly once and in order, whatever happens at the ends.
func TestAllWhileOthersPushAndPop(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(3))
		const staying = 3000
		_, err := list.RPush(t.Context(), harness.Numbers(0, staying)...)
		require.NoError(t, err)

		ctx, stop := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for _, end := range []struct {
			push func(context.Context, ...any) (int64, error)
			pop  func(context.Context) (string, error)
		}{{list.LPush, list.LPop}, {list.RPush, list.RPop}} {
			others.Go(func() {
				for ctx.Err() == nil {
					_, err := end.push(context.Background(), "guest", "guest", "guest", "guest")
					assert.NoError(t, err)
					for range 4 {
						_, err := end.pop(context.Background())
						assert.NoError(t, err)
					}
				}
			})
		}
		for range 5 {
			next := 0
			for value, err := range list.All(t.Context()) {
				require.NoError(t, err)
				if value == "guest" {
					continue
				}
				require.Equal(t, strconv.Itoa(next), value)
				next++
			}
			require.Equal(t, staying, next)
		}
		stop()
		others.Wait()
	})
}

// What one look-up costs the server does not depend on where in the list it is, nor on how long that is.
func TestLookUpsTakeAConstantNumberOfCalls(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(10))
	for range 5 {
		_, err := list.RPush(t.Context(), harness.Numbers(0, 20_000)...)
		require.NoError(t, err)
		_, err = list.LIndex(t.Context(), 0) // loads the script
		require.NoError(t, err)
		_, err = list.LLen(t.Context())
		require.NoError(t, err)
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		for _, index := range []int64{0, 5, 9999, -1, -5000} {
			_, err = list.LIndex(t.Context(), index)
			require.NoError(t, err)
		}
		_, err = list.LLen(t.Context())
		require.NoError(t, err)
		assert.Equal(t, map[string]int{"call": 6, "hget": 6, "exists": 5, "llen": 8, "lindex": 5},
			harness.Without(harness.CommandCalls(t, rdb), "config|resetstat", "info"))
	}
}
