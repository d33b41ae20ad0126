package exactlyonce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/lua"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Large values do not pass through Lua: a plain command pushes them onto the end shard, which is aside meanwhile. What has no room there
// becomes the next shard.
func TestLargeValuesDoNotPassThroughLua(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Embedded) {
		for _, capacity := range []int{1, 2, 20} {
			t.Run(fmt.Sprintf("%s/%d", kind, capacity), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, kind)
				list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(capacity))
				want := []string{"first"}
				_, err := list.RPush(t.Context(), "first")
				require.NoError(t, err)
				for i := range 200 {
					values := make([]any, 1+i%5)
					for j := range values {
						values[j] = fmt.Sprintf("%d.%d\r\n\x00", i, j) + strings.Repeat("x", 20<<10)
					}
					push := list.RPush
					if i%2 == 1 {
						push = list.LPush
					}
					length, err := push(t.Context(), values...)
					require.NoError(t, err)
					for _, value := range values {
						if i%2 == 1 {
							want = slices.Insert(want, 0, value.(string))
						} else {
							want = append(want, value.(string))
						}
					}
					require.EqualValues(t, len(want), length)
				}
				assert.Equal(t, want, harness.Content(t, list))
				assert.NoError(t, list.Check(t.Context()))
				if rdb, single := server.Client(t).(*redis.Client); single && kind != redistest.Embedded {
					calls := harness.CommandCalls(t, rdb)
					assert.Greater(t, calls["rpushx"]+calls["lpushx"], 180, "of 200 pushes: the first make the list long")
					assert.Less(t, calls["rpush"]+calls["lpush"], 40)
				}
			})
		}
	}
}

// If the three commands are no transaction, whoever comes between them finds the list as it was. The push is then not done, whatever
// comes late, and may be sent again as usual.
func TestWhoeverComesBetweenPutsTheShardBack(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Embedded, redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) { whoeverComesBetween(t, redistest.Start(t, kind).Client(t)) })
	}
}

func whoeverComesBetween(t *testing.T, rdb redis.UniversalClient) {
	t.Parallel()
	run := func(name string, before func(list *shardedlist.ShardedList)) (list *shardedlist.ShardedList, result string) {
		flushAll(t, rdb) // or Check would have to look at more and more keys
		list, other := harness.OpenList(t, rdb, "{tag}list", shardedlist.WithCapacity(3), harness.PastLua), harness.OpenList(t, rdb, "{tag}other", shardedlist.WithCapacity(3))
		_, err := list.RPush(t.Context(), "a", "b", "c", "d", "e", "f", "g")
		require.NoError(t, err)
		_, err = other.RPush(t.Context(), "u", "v")
		require.NoError(t, err)
		before(list)
		result = fmt.Sprint(harness.EveryCall(list, other)[name](t.Context()), harness.Content(t, list), harness.Content(t, other))
		assert.NoError(t, errors.Join(list.Check(t.Context()), other.Check(t.Context())), name)
		return list, result
	}
	for name := range harness.EveryCall(nil, nil) {
		if name == "ExpireLT" {
			continue // in a second, which a slow machine needs
		}
		_, expected := run(name, func(*shardedlist.ShardedList) {})
		for i := range 4 {
			step := harness.AsideStep{Side: []string{"L", "R"}[i%2], Values: []any{"x", "y"}}
			list, got := run(name, func(list *shardedlist.ShardedList) {
				step.List = list
				step.Begin(t)
				assert.True(t, i < 2 || step.Push(t))
			})
			assert.Equal(t, expected, got, "%s, %s", name, step.Side)
			left := harness.Content(t, list)
			assert.False(t, step.Push(t), name)
			assert.False(t, step.End(t), name)
			assert.Equal(t, left, harness.Content(t, list), name)
		}
	}
}

func flushAll(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		require.NoError(t, cluster.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
			return master.FlushAll(ctx).Err()
		}))
		return
	}
	require.NoError(t, rdb.FlushAll(t.Context()).Err())
}

// The last script does nothing if not all values have come, or if the operation was done or fenced meanwhile.
func TestAPushAsideIsDoneOnceAndAsAWhole(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for i := range 4 {
			side, capacity := []string{"L", "R"}[i%2], 3
			if i >= 2 {
				capacity = 9
			}
			list := harness.NewSharded(t, rdb, capacity, []any{"a", "b", "c", "d", "e"})
			step := harness.AsideStep{List: list, Side: side, Values: []any{"x", "y"}}

			step.Begin(t)
			assert.False(t, step.End(t), "no values have come")
			assert.Equal(t, []string{"a", "b", "c", "d", "e"}, harness.Content(t, list))

			step.Begin(t)
			half := harness.AsideStep{List: list, Side: side, Values: []any{"x"}}
			assert.True(t, half.Push(t))
			assert.False(t, step.End(t), "a value is missing")
			assert.Equal(t, []string{"a", "b", "c", "d", "e"}, harness.Content(t, list))

			step.Begin(t)
			assert.True(t, step.Push(t))
			fenced := rdb.Eval(t.Context(), lua.Source("resolve"), []string{harness.Keys(list).Meta}, "", harness.AsideSession, 7, 60000)
			require.Equal(t, redis.Nil, fenced.Err(), "it was not done so far")
			assert.False(t, step.End(t), "it is fenced")
			assert.Equal(t, []string{"a", "b", "c", "d", "e"}, harness.Content(t, list))
			require.EqualValues(t, 0, step.Script(t, "push_begin"), "it is fenced")

			require.NoError(t, rdb.Del(t.Context(), harness.Keys(list).Records()+harness.AsideSession).Err())
			step.Begin(t)
			assert.True(t, step.Push(t))
			assert.True(t, step.End(t))
			want := []string{"y", "x", "a", "b", "c", "d", "e"}
			if side == "R" {
				want = []string{"a", "b", "c", "d", "e", "x", "y"}
			}
			assert.Equal(t, want, harness.Content(t, list))
			require.EqualValues(t, 0, step.Script(t, "push_begin"), "it is done")
			assert.False(t, step.Push(t))
			assert.False(t, step.End(t))
			assert.Equal(t, want, harness.Content(t, list))
			assert.NoError(t, list.Check(t.Context()))
			repeated, err := rdb.Eval(t.Context(), lua.Source("push"), []string{harness.Keys(list).Meta}, "+"+list.Name(), harness.AsideSession, 7, 60000, side, 3, "x", "y").Int()
			require.NoError(t, err)
			assert.Equal(t, 7, repeated, "the record has the length")
			assert.Equal(t, want, harness.Content(t, list))
		}
	})
}

// A dedup record that is written to meta while a shard is aside stays, and meta says that it has one.
func TestARecordInMetaBesideAPushAside(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, room := range []int{9, 3} {
			for _, ends := range []bool{true, false} {
				list := harness.NewSharded(t, rdb, room, []any{"a", "b"})
				step := harness.AsideStep{List: list, Side: "R", Values: []any{"x", "y"}}
				step.Begin(t)
				assert.True(t, step.Push(t))
				fence := func() *redis.Cmd {
					return rdb.Eval(t.Context(), lua.Source("resolve"), []string{harness.Keys(list).Meta}, "", "@"+harness.AsideSession, 1, 60000)
				}
				require.Equal(t, redis.Nil, fence().Err())
				want := []string{"a", "b"}
				if ends {
					assert.True(t, step.End(t))
					want = []string{"a", "b", "x", "y"}
				}
				assert.Equal(t, want, harness.Content(t, list))
				assert.NoError(t, list.Check(t.Context()))
				_, err := list.LPopCount(t.Context(), 4)
				require.NoError(t, err)
				late := rdb.Eval(t.Context(), lua.Source("push"), []string{harness.Keys(list).Meta}, "+"+list.Name(), "@"+harness.AsideSession, 1, 60000, "R", 3, "late")
				assert.ErrorContains(t, late.Err(), "FENCED")
				assert.NoError(t, list.Check(t.Context()))
			}
		}
	})
}

// What a push costs that is sent twice after all, a list pays seldom.
func TestPushesThatMustPassThroughLuaAreNotSentTwice(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(20))
	for range 3 {
		_, err := list.RPush(t.Context(), slices.Repeat([]any{strings.Repeat("x", 100)}, 16*20+1)...)
		require.NoError(t, err)
		_, err = list.RPush(t.Context(), slices.Repeat([]any{strings.Repeat("x", 30)}, 16*20)...)
		require.NoError(t, err)
	}
	assert.Zero(t, harness.CommandCalls(t, rdb)["multi"], "more values than it may have, or smaller ones")
	require.NoError(t, harness.ErrorOf(list.Expire(t.Context(), time.Hour)))
	start := time.Now()
	for range 20 {
		_, err := list.RPush(t.Context(), strings.Repeat("x", 20<<10))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, harness.CommandCalls(t, rdb)["multi"], 2+int(time.Since(start)/time.Second), "one, and one more for the scripts to be loaded")
}

// A server that does not allow what it takes is asked once, and a push that it refuses so is done as usual.
func TestPushesOfAServerThatAllowsNoTransaction(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for _, forbidden := range []string{"multi", "exec", "multi exec", "rpushx", "rename", "copy"} {
			t.Run(string(kind)+"/"+forbidden, func(t *testing.T) {
				t.Parallel()
				rdb := redistest.Start(t, kind).Client(t).(*redis.Client)
				list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
				var want []string
				for i := range 8 {
					if i == 4 { // the scripts are loaded
						for _, command := range strings.Fields(forbidden) {
							require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-"+command).Err())
						}
					}
					want = append(want, strconv.Itoa(i)+strings.Repeat("x", 20<<10), strconv.Itoa(i))
					before := harness.CommandCalls(t, rdb)["call"]
					length, err := list.RPush(t.Context(), want[2*i], want[2*i+1])
					require.NoError(t, err)
					assert.EqualValues(t, len(want), length)
					if i == 4 && strings.HasPrefix(forbidden, "multi") {
						assert.Equal(t, before+2, harness.CommandCalls(t, rdb)["call"], "carried out one by one, it is done, and is not sent as usual")
					}
				}
				assert.Equal(t, want, harness.Content(t, list))
				assert.NoError(t, list.Check(t.Context()))
				log, err := rdb.ACLLog(t.Context(), 10).Result()
				require.NoError(t, err)
				require.Len(t, log, len(strings.Fields(forbidden)))
				assert.EqualValues(t, 1, log[0].Count)
				assert.Zero(t, list.Stats().Repeats)
			})
		}
	}
}

// A push of large values that a full server refuses changes nothing.
func TestLargeValuesWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
			list := harness.NewSharded(t, rdb, 20, harness.Numbers(0, 12))
			large := strings.Repeat("x", 20<<10)
			for range 3 {
				_, err := list.RPush(t.Context(), large)
				require.NoError(t, err)
			}
			require.GreaterOrEqual(t, harness.CommandCalls(t, rdb)["rpushx"], 2)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			before := harness.Snapshot(t, list)
			_, err := list.RPush(t.Context(), large)
			assert.ErrorContains(t, err, "OOM")
			assert.Equal(t, before, harness.Snapshot(t, list))
		})
	}
}

// Large values are pushed once though connections break in every way.
func TestExactlyOncePastLuaOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		for fault, rates := range harness.Faults {
			for _, name := range []string{"RPush LPop", "LPush BRPop, mixed"} {
				if !redistest.Long() && fault != "everything" && (kind != redistest.Redis || name == "RPush LPop") {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s", kind, fault, name), func(t *testing.T) {
					t.Parallel()
					server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
					list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(1))
					rdb, sent := server.Client(t, harness.Through(proxy)), &transactions{}
					rdb.AddHook(sent)
					broken := harness.OpenList(t, rdb, list.Name(), shardedlist.WithCapacity(1), harness.PastLua)
					proxy.Set(rates)
					traffic := harness.NewTraffic(4)
					traffic.Run(t, harness.FaultOperations()/2, harness.Strikes(proxy), func(ctx context.Context, value string) error {
						_, err := harness.Ends[name].Push(broken, ctx, value)
						return err
					}, func(ctx context.Context, i int) ([]string, error) { return harness.Ends[name].Pop(broken, ctx, i) })
					proxy.Set(redistest.Faults{})
					assert.Empty(t, harness.Content(t, list))
					assert.NoError(t, list.Check(t.Context()))
					traffic.AssertOnceInOrder(t, broken)
					if kind != redistest.Cluster { // whose nodes have clients without the hook
						assert.Greater(t, sent.count.Load(), int64(2), "pushes past Lua")
						t.Logf("%d pushes past Lua", sent.count.Load())
					}
				})
			}
		}
	}
}

// transactions counts those that are sent in pipelines.
type transactions struct{ count atomic.Int64 }

func (*transactions) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*transactions) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (n *transactions) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "multi" {
			n.count.Add(1)
		}
		return next(ctx, cmds)
	}
}
