package commands

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPopOfAnEmptyListIsRedisNil(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		_, err := list.LPop(t.Context())
		assert.Equal(t, redis.Nil, err)
		_, err = list.RPop(t.Context())
		assert.Equal(t, redis.Nil, err)
		for _, count := range []int{0, 1, 5} {
			_, err = list.LPopCount(t.Context(), count)
			assert.Equal(t, redis.Nil, err)
			_, err = list.RPopCount(t.Context(), count)
			assert.Equal(t, redis.Nil, err)
		}
		assert.Empty(t, harness.KeysOfList(t, list))
	})
}

func TestPopCountAsRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for count := range 9 {
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			plain := "plain-" + list.Name()
			for range 2 {
				require.NoError(t, rdb.RPush(t.Context(), plain, harness.Numbers(0, 7)...).Err())
				_, err := list.RPush(t.Context(), harness.Numbers(0, 7)...)
				require.NoError(t, err)
			}
			want, wantErr := rdb.LPopCount(t.Context(), plain, count).Result()
			got, err := list.LPopCount(t.Context(), count)
			assert.Equal(t, wantErr, err)
			assert.Equal(t, want, got)
			want, wantErr = rdb.RPopCount(t.Context(), plain, count).Result()
			got, err = list.RPopCount(t.Context(), count)
			assert.Equal(t, wantErr, err)
			assert.Equal(t, want, got)
		}
	})
}

// Large elements, and several at once, do not pass through Lua: the script leaves them in the list of the record, where a plain command
// reads them. A server that does not allow the command that moves them is asked once or twice an end.
func TestPopsReadElementsThatTheScriptLeaves(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for _, allowed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/allowed=%v", kind, allowed), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, kind)
				rdb := server.Client(t)
				if !allowed {
					require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-sort").Err())
				}
				list := harness.NewList(t, rdb, shardedlist.WithCapacity(20))
				var want []string
				for i := range 100 {
					want = append(want, strings.Repeat(strconv.Itoa(i%10), 1+i%3*5000)+"\r\n\x00"+strconv.Itoa(i))
					_, err := list.RPush(t.Context(), want[i])
					require.NoError(t, err)
				}
				var ends [2][]string
				for i := 0; len(ends[0])+len(ends[1]) < len(want); i++ {
					pop, popOne := list.LPopCount, list.LPop
					if i%2 == 1 {
						pop, popOne = list.RPopCount, list.RPop
					}
					elements, err := pop(t.Context(), 1+i%5)
					require.NoError(t, err)
					ends[i%2] = append(ends[i%2], elements...)
					if element, err := popOne(t.Context()); err == nil {
						ends[i%2] = append(ends[i%2], element)
					}
				}
				slices.Reverse(ends[1])
				assert.Equal(t, want, append(ends[0], ends[1]...))
				for _, pop := range []func(context.Context, int) ([]string, error){list.LPopCount, list.RPopCount} {
					_, err := pop(t.Context(), 2)
					assert.Equal(t, redis.Nil, err)
				}
				sorts := harness.CommandCalls(t, rdb.(*redis.Client))["sort"]
				if allowed {
					assert.Greater(t, sorts, 20)
					assert.NotContains(t, strings.Join(harness.KeysOfList(t, list), " "), ":popped", "nor does a pop that finds nothing read what the last one left")
				} else {
					log, err := rdb.ACLLog(t.Context(), 10).Result()
					require.NoError(t, err)
					require.Len(t, log, 1)
					assert.LessOrEqual(t, log[0].Count, int64(4), "one for each end that is popped, or two if the first pop took a part")
				}
			})
		}
	}
}

func TestANegativeCountChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		_, err := list.RPush(t.Context(), "a")
		require.NoError(t, err)
		for _, pop := range []func(context.Context, int) ([]string, error){list.LPopCount, list.RPopCount} {
			_, err = pop(t.Context(), -1)
			assert.ErrorIs(t, err, shardedlist.ErrNegativeCount)
		}
		assert.Equal(t, []string{"a"}, harness.Content(t, list))
	})
}

// Ids wander below zero and back while the ends are used in turn.
func TestBothEndsOverAndOver(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, capacity := range []int{1, 2, 3} {
			list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(capacity))
			for round := range 30 {
				_, err := list.LPush(t.Context(), harness.Numbers(0, round)...)
				require.True(t, round == 0 || err == nil, err)
				_, err = list.RPush(t.Context(), "x", "y")
				require.NoError(t, err)
				for range round + 2 {
					_, err = list.RPop(t.Context())
					require.NoError(t, err)
				}
				_, err = list.LPop(t.Context())
				require.Equal(t, redis.Nil, err)
				require.Empty(t, harness.KeysOfList(t, list))
			}
		}
	})
}

// A large result does not stay on the server until its record expires, whoever popped it.
func TestLargeResultsOfPopsAreForgotten(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(100))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 3000)...)
		require.NoError(t, err)
		popped, err := list.LPopCount(t.Context(), 3000)
		require.NoError(t, err)
		assert.Equal(t, harness.Words(harness.Numbers(0, 3000)), popped)
		_, err = list.LPop(t.Context()) // which does not make it small
		assert.Equal(t, redis.Nil, err)
		awaitForgotten(t, list)

		var consumers sync.WaitGroup
		for range 20 {
			consumers.Go(func() {
				_, err := list.BLPop(t.Context(), 0)
				assert.NoError(t, err)
			})
		}
		require.Eventually(t, func() bool { return harness.Left(list).Waiting() == 20 }, 10*time.Second, time.Millisecond)
		large := make([]any, 20)
		for i := range large {
			large[i] = strings.Repeat("x", 5<<10)
		}
		_, err = list.RPush(t.Context(), large...)
		require.NoError(t, err)
		consumers.Wait()
		awaitForgotten(t, list)
	})
}

// awaitForgotten waits until no result of several elements is left beside the list.
func awaitForgotten(t *testing.T, list *shardedlist.ShardedList) {
	require.Eventually(t, func() bool {
		for _, node := range harness.NodesOf(t, list) {
			if len(node.Keys(t.Context(), harness.Keys(list).Glob()+"*:popped").Val()) > 0 {
				return false
			}
		}
		return true
	}, 10*time.Second, time.Millisecond)
}
