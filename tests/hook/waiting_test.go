package hook

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// waits are the commands that wait for an element of a key.
var waits = map[string]func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error){
	"blpop": func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error) {
		return lastOf(rdb.BLPop(ctx, timeout, tag+"q").Result())
	},
	"brpop": func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error) {
		return lastOf(rdb.BRPop(ctx, timeout, tag+"q").Result())
	},
	"blpop of two": func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error) {
		return lastOf(rdb.BLPop(ctx, timeout, tag+"other", tag+"q").Result())
	},
	"blmove": func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error) {
		return rdb.BLMove(ctx, tag+"q", tag+"to", "left", "right", timeout).Result()
	},
	"brpoplpush": func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error) {
		return rdb.BRPopLPush(ctx, tag+"q", tag+"to", timeout).Result()
	},
	"blmpop": func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error) {
		_, values, err := rdb.BLMPop(ctx, timeout, "left", 2, tag+"q", tag+"other").Result()
		return lastOf(values, err)
	},
	"blmovem": func(ctx context.Context, rdb redis.UniversalClient, tag string, timeout time.Duration) (string, error) {
		args := redis.LMoveMArgs{Count: 1, Mode: redis.LMoveMCount, Order: redis.LMoveMBulk}
		return lastOf(rdb.BLMoveM(ctx, tag+"q", tag+"to", "left", "right", timeout, args).Result())
	},
}

func lastOf(values []string, err error) (string, error) {
	if len(values) == 0 {
		return "", err
	}
	return values[len(values)-1], err
}

// A key that becomes another type while somebody waits for its elements ends no wait. Only a wait that begins then fails.
func TestAWaitOutlivesAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, wait := range waits {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tag := "{" + harness.UniqueName(t) + "}"
				rdb := server.Client(t)
				rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(tag+"*"), shardedlist.WithCapacity(2)))
				list := harness.OpenList(t, server.Client(t), tag+"q")
				type result struct {
					value string
					err   error
				}
				results := make(chan result, 2)
				start := func(timeout time.Duration) {
					go func() {
						value, err := wait(t.Context(), rdb, tag, timeout)
						results <- result{value, err}
					}()
					harness.Armed(t, list)
				}
				start(0)
				_, err := rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
					pipe.LPush(t.Context(), tag+"q", "gone")
					pipe.Del(t.Context(), tag+"q")
					return pipe.Set(t.Context(), tag+"q", "a string", 0).Err()
				})
				require.NoError(t, err)
				harness.Armed(t, list) // once more: it was woken in vain

				_, err = wait(t.Context(), rdb, tag, time.Minute)
				assert.EqualError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value")
				_, err = wait(t.Context(), rdb, tag, time.Millisecond)
				assert.EqualError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value")
				select {
				case r := <-results:
					require.Fail(t, "the wait has ended", "%v", r)
				default:
				}

				require.NoError(t, rdb.Del(t.Context(), tag+"q").Err())
				require.NoError(t, rdb.RPush(t.Context(), tag+"q", "here").Err())
				assert.Equal(t, result{"here", nil}, <-results)

				require.NoError(t, rdb.RPush(t.Context(), tag+"q", "a").Err()) // which clears the flag
				require.NoError(t, rdb.RPop(t.Context(), tag+"q").Err())
				start(300 * time.Millisecond)
				require.NoError(t, rdb.Set(t.Context(), tag+"q", "a string", 0).Err())
				assert.Equal(t, result{"", redis.Nil}, <-results, "a timeout is a timeout")
				require.NoError(t, rdb.Del(t.Context(), tag+"q").Err())
			})
		}
	})
}

// Who joins others that wait begins to wait all the same, and goes on when the key becomes another type.
func TestAWaitWithOthersOutlivesAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, name := server.Client(t), harness.UniqueName(t)
		list, err := shardedlist.New(rdb, name) // as the hook does
		require.NoError(t, err)
		var results []<-chan harness.Popped
		for range 20 {
			results = append(results, harness.BlockingPop(t, list, t.Context(), 0))
		}
		harness.Asleep(t, list)
		require.Eventually(t, func() bool { return !harness.Left(list).Asking() }, 10*time.Second, time.Millisecond)
		_, err = list.RPush(t.Context(), "first") // for a round with all of them
		require.NoError(t, err)
		assert.Equal(t, harness.Got("first"), <-results[0])
		require.Eventually(t, func() bool { return !harness.Left(list).Asking() }, 10*time.Second, time.Millisecond)

		require.NoError(t, rdb.Set(t.Context(), name, "a string", 0).Err())
		_, err = list.BLPop(t.Context(), 0)
		assert.ErrorIs(t, err, shardedlist.ErrWrongType)
		require.NoError(t, rdb.Del(t.Context(), name).Err())
		for _, result := range results[1:] {
			_, err = list.RPush(t.Context(), "next")
			require.NoError(t, err)
			assert.Equal(t, harness.Got("next"), <-result)
		}
		require.NoError(t, list.Check(t.Context()))
	})
}
