package plain_test

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

// Each rule of the border between short lists and long ones is needed: without it, what it is for goes wrong.
func TestEachRuleOfTheBorder(t *testing.T) {
	t.Parallel()
	newLists := func(t *testing.T, rdb redis.UniversalClient, capacities ...int) (lists []*shardedlist.ShardedList) {
		name := harness.UniqueName(t)
		for _, capacity := range capacities {
			lists = append(lists, harness.OpenList(t, rdb, name, shardedlist.WithCapacity(capacity)))
		}
		return lists
	}
	for _, rule := range []struct {
		name   string
		broken []string // pairs of texts of the scripts
		result func(t *testing.T, rdb redis.UniversalClient) any
		want   any
	}{{
		"a list becomes short only if there is no newcomer",
		[]string{"redis.pcall('EXISTS', META, shard, PLAIN) ~= 2", "false", "elseif not empty and TAKES_IN and", "elseif false and"},
		func(t *testing.T, rdb redis.UniversalClient) any {
			list := newLists(t, rdb, 4)[0]
			pushed(t, list, "a", "b", "c", "d", "e")
			require.NoError(t, rdb.RPush(t.Context(), list.Name(), "newcomer").Err())
			for range 4 {
				_, err := list.LPop(t.Context())
				require.NoError(t, err)
			}
			return harness.Content(t, list)
		},
		[]string{"e", "newcomer"},
	}, {
		"a list that becomes long keeps the flag of a consumer that waits",
		[]string{"local rings = list.armed and not is_away(BELL)", "local rings = false and not is_away(BELL)",
			"if list.armed and size > 0 and how ~= 'reading' and TAKES_OVER then", "if false then"},
		func(t *testing.T, rdb redis.UniversalClient) any {
			list := newLists(t, rdb, 2)[0]
			harness.Arm(t, list)
			require.NoError(t, rdb.RPush(t.Context(), list.Name(), "a").Err()) // of a process that does not ring
			pushed(t, list, "b", "c")
			return rdb.Exists(t.Context(), harness.Keys(list).Bell).Val()
		},
		int64(1),
	}, {
		"the capacity is that of the list, whatever it has been",
		[]string{"first == last and 0 or last - first, cap + 0\n",
			"first == last and 0 or last - first, (redis.call('GET', PREFIX .. 'before') or cap) + 0\nredis.call('SET', PREFIX .. 'before', CAP)\n"},
		func(t *testing.T, rdb redis.UniversalClient) any {
			var lengths []int64
			lists := newLists(t, rdb, 2, 5)
			for _, list := range lists {
				for i := range 11 {
					_, err := list.RPush(t.Context(), i)
					require.NoError(t, err)
				}
				length, err := list.RPush(t.Context(), "last")
				require.NoError(t, err)
				lengths = append(lengths, length)
				for {
					if _, err := list.LPop(t.Context()); err == redis.Nil {
						break
					}
				}
			}
			return lengths
		},
		[]int64{12, 12},
	}} {
		t.Run(rule.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Redis)
			assert.Equal(t, rule.want, rule.result(t, server.Client(t)))
			require.NoError(t, server.Client(t).FlushAll(t.Context()).Err())
			broken := server.Client(t)
			broken.AddHook(harness.NewRewriter(rule.broken...))
			assert.NotEqual(t, rule.want, rule.result(t, broken))
		})
	}
}

func pushed(t *testing.T, list *shardedlist.ShardedList, values ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, err := list.RPush(ctx, values...)
	require.NoError(t, err)
}
