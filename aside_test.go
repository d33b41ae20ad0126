package shardedlist

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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/lua"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// Large values do not pass through Lua: a plain command pushes them onto the end shard, which is aside meanwhile. What has no room there
// becomes the next shard.
func TestLargeValuesDoNotPassThroughLua(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Embedded} {
		for _, capacity := range []int{1, 2, 20} {
			t.Run(fmt.Sprintf("%s/%d", kind, capacity), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, kind)
				list := newList(t, server.Client(t), WithCapacity(capacity))
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
				assert.Equal(t, want, content(t, list))
				assert.NoError(t, list.Check(t.Context()))
				if rdb, single := server.Client(t).(*redis.Client); single && kind != redistest.Embedded {
					calls := commandCalls(t, rdb)
					assert.Greater(t, calls["rpushx"]+calls["lpushx"], 190, "of 200 pushes")
					assert.Less(t, calls["rpush"]+calls["lpush"], 20)
				}
			})
		}
	}
}

// asideStep carries out one of the three commands by itself, as a server does that knows no transactions.
type asideStep struct {
	list   *ShardedList
	side   string
	values []any
}

const asideSession = "11111111-2222-4333-8444-555555555555"

func (a asideStep) script(t *testing.T, name string) any {
	t.Helper()
	reply, err := a.list.rdb().Eval(t.Context(), lua.Source(name), []string{a.list.keys().Meta}, asideSession, 7, 60000, a.side, len(a.values)).Result()
	if err != redis.Nil {
		require.NoError(t, err)
	}
	return reply
}

func (a asideStep) begin(t *testing.T) {
	t.Helper()
	require.EqualValues(t, 1, a.script(t, "push_begin"))
}

func (a asideStep) push(t *testing.T) (pushed bool) {
	t.Helper()
	words := append([]any{a.side + "PUSHX", a.list.keys().Records() + asideSession + ":7"}, a.values...)
	length, err := a.list.rdb().Do(t.Context(), words...).Int()
	require.NoError(t, err)
	return length > 0
}

func (a asideStep) end(t *testing.T) (done bool) {
	t.Helper()
	return a.script(t, "push_end") != nil
}

// If the three commands are no transaction, whoever comes between them finds the list as it was. The push is then not done, whatever
// comes late, and may be sent again as usual.
func TestWhoeverComesBetweenPutsTheShardBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Embedded, redistest.Redis, redistest.Valkey, redistest.Cluster} {
		t.Run(string(kind), func(t *testing.T) { whoeverComesBetween(t, redistest.Start(t, kind).Client(t)) })
	}
}

func whoeverComesBetween(t *testing.T, rdb redis.UniversalClient) {
	t.Parallel()
	run := func(name string, before func(list *ShardedList)) (list *ShardedList, result string) {
		flushAll(t, rdb) // or Check would have to look at more and more keys
		list, other := openList(t, rdb, "{tag}list", WithCapacity(3), pastLua), openList(t, rdb, "{tag}other", WithCapacity(3))
		_, err := list.RPush(t.Context(), "a", "b", "c", "d", "e", "f", "g")
		require.NoError(t, err)
		_, err = other.RPush(t.Context(), "u", "v")
		require.NoError(t, err)
		before(list)
		result = fmt.Sprint(everyCall(list, other)[name](t.Context()), content(t, list), content(t, other))
		assert.NoError(t, errors.Join(list.Check(t.Context()), other.Check(t.Context())), name)
		return list, result
	}
	for name := range everyCall(nil, nil) {
		if name == "ExpireLT" {
			continue // in a second, which a slow machine needs
		}
		_, expected := run(name, func(*ShardedList) {})
		for i := range 4 {
			step := asideStep{side: []string{"L", "R"}[i%2], values: []any{"x", "y"}}
			list, got := run(name, func(list *ShardedList) {
				step.list = list
				step.begin(t)
				assert.True(t, i < 2 || step.push(t))
			})
			assert.Equal(t, expected, got, "%s, %s", name, step.side)
			left := content(t, list)
			assert.False(t, step.push(t), name)
			assert.False(t, step.end(t), name)
			assert.Equal(t, left, content(t, list), name)
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
			if i >= 2 || server.Kind() == redistest.Embedded { // which has no SORT
				capacity = 9
			}
			list := newList(t, rdb, WithCapacity(capacity))
			_, err := list.RPush(t.Context(), "a", "b", "c", "d", "e")
			require.NoError(t, err)
			step := asideStep{list, side, []any{"x", "y"}}

			step.begin(t)
			assert.False(t, step.end(t), "no values have come")
			assert.Equal(t, []string{"a", "b", "c", "d", "e"}, content(t, list))

			step.begin(t)
			half := asideStep{list, side, []any{"x"}}
			assert.True(t, half.push(t))
			assert.False(t, step.end(t), "a value is missing")
			assert.Equal(t, []string{"a", "b", "c", "d", "e"}, content(t, list))

			step.begin(t)
			assert.True(t, step.push(t))
			fenced := rdb.Eval(t.Context(), lua.Source("resolve"), []string{list.keys().Meta}, asideSession, 7, 60000)
			require.Equal(t, redis.Nil, fenced.Err(), "it was not done so far")
			assert.False(t, step.end(t), "it is fenced")
			assert.Equal(t, []string{"a", "b", "c", "d", "e"}, content(t, list))
			require.EqualValues(t, 0, step.script(t, "push_begin"), "it is fenced")

			require.NoError(t, rdb.Del(t.Context(), list.keys().Records()+asideSession).Err())
			step.begin(t)
			assert.True(t, step.push(t))
			assert.True(t, step.end(t))
			want := []string{"y", "x", "a", "b", "c", "d", "e"}
			if side == "R" {
				want = []string{"a", "b", "c", "d", "e", "x", "y"}
			}
			assert.Equal(t, want, content(t, list))
			require.EqualValues(t, 0, step.script(t, "push_begin"), "it is done")
			assert.False(t, step.push(t))
			assert.False(t, step.end(t))
			assert.Equal(t, want, content(t, list))
			assert.NoError(t, list.Check(t.Context()))
			repeated, err := rdb.Eval(t.Context(), lua.Source("push"), []string{list.keys().Meta}, asideSession, 7, 60000, side, 3, "x", "y").Int()
			require.NoError(t, err)
			assert.Equal(t, 7, repeated, "the record has the length")
			assert.Equal(t, want, content(t, list))
		}
	})
}

// A dedup record that is written to meta while a shard is aside stays, and meta says that it has one.
func TestARecordInMetaBesideAPushAside(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, room := range []int{9, 3} {
			if server.Kind() == redistest.Embedded && room == 3 {
				continue // it has no SORT
			}
			for _, ends := range []bool{true, false} {
				list := newList(t, rdb, WithCapacity(room))
				_, err := list.RPush(t.Context(), "a", "b")
				require.NoError(t, err)
				step := asideStep{list, "R", []any{"x", "y"}}
				step.begin(t)
				assert.True(t, step.push(t))
				fence := func() *redis.Cmd {
					return rdb.Eval(t.Context(), lua.Source("resolve"), []string{list.keys().Meta}, "@"+asideSession, 1, 60000)
				}
				require.Equal(t, redis.Nil, fence().Err())
				want := []string{"a", "b"}
				if ends {
					assert.True(t, step.end(t))
					want = []string{"a", "b", "x", "y"}
				}
				assert.Equal(t, want, content(t, list))
				assert.NoError(t, list.Check(t.Context()))
				_, err = list.LPopCount(t.Context(), 4)
				require.NoError(t, err)
				late := rdb.Eval(t.Context(), lua.Source("push"), []string{list.keys().Meta}, "@"+asideSession, 1, 60000, "R", 3, "late")
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
	list := newList(t, rdb, WithCapacity(20))
	for range 3 {
		_, err := list.RPush(t.Context(), slices.Repeat([]any{strings.Repeat("x", 100)}, 16*20+1)...)
		require.NoError(t, err)
		_, err = list.RPush(t.Context(), slices.Repeat([]any{strings.Repeat("x", 30)}, 16*20)...)
		require.NoError(t, err)
	}
	assert.Zero(t, commandCalls(t, rdb)["multi"], "more values than it may have, or smaller ones")
	require.NoError(t, errorOf(list.Expire(t.Context(), time.Hour)))
	start := time.Now()
	for range 20 {
		_, err := list.RPush(t.Context(), strings.Repeat("x", 20<<10))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, commandCalls(t, rdb)["multi"], 2+int(time.Since(start)/time.Second), "one, and one more for the scripts to be loaded")
}

// A server that does not allow what it takes is asked once, and a push that it refuses so is done as usual.
func TestPushesOfAServerThatAllowsNoTransaction(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		for _, forbidden := range []string{"multi", "exec", "multi exec", "rpushx", "rename", "sort"} {
			t.Run(string(kind)+"/"+forbidden, func(t *testing.T) {
				t.Parallel()
				rdb := redistest.Start(t, kind).Client(t).(*redis.Client)
				list := newList(t, rdb, WithCapacity(2))
				var want []string
				for i := range 8 {
					if i == 3 { // the scripts are loaded
						for _, command := range strings.Fields(forbidden) {
							require.NoError(t, rdb.Do(t.Context(), "ACL", "SETUSER", "default", "-"+command).Err())
						}
					}
					want = append(want, strconv.Itoa(i)+strings.Repeat("x", 20<<10), strconv.Itoa(i))
					before := commandCalls(t, rdb)["evalsha"]
					length, err := list.RPush(t.Context(), want[2*i], want[2*i+1])
					require.NoError(t, err)
					assert.EqualValues(t, len(want), length)
					if i == 3 && strings.HasPrefix(forbidden, "multi") {
						assert.Equal(t, before+2, commandCalls(t, rdb)["evalsha"], "carried out one by one, it is done, and is not sent as usual")
					}
				}
				assert.Equal(t, want, content(t, list))
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
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
			list := newList(t, rdb, WithCapacity(20))
			large := strings.Repeat("x", 20<<10)
			for range 3 {
				_, err := list.RPush(t.Context(), large)
				require.NoError(t, err)
			}
			require.GreaterOrEqual(t, commandCalls(t, rdb)["rpushx"], 2)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			before := snapshot(t, list)
			_, err := list.RPush(t.Context(), large)
			assert.ErrorContains(t, err, "OOM")
			assert.Equal(t, before, snapshot(t, list))
		})
	}
}

// Large values are pushed once though connections break in every way.
func TestExactlyOncePastLuaOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey, redistest.Cluster} {
		for fault, rates := range faults {
			for _, name := range []string{"RPush LPop", "LPush BRPop, mixed"} {
				t.Run(fmt.Sprintf("%s, %s, %s", kind, fault, name), func(t *testing.T) {
					t.Parallel()
					server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
					list := newList(t, server.Client(t), WithCapacity(5))
					rdb, sent := server.Client(t, through(proxy)), &transactions{}
					rdb.AddHook(sent)
					broken := openList(t, rdb, list.Name(), WithCapacity(5), pastLua)
					proxy.Set(rates)
					traffic := newTraffic(4)
					traffic.run(t, *faultOperations/4, strikes(proxy), func(ctx context.Context, value string) error {
						_, err := ends[name].push(broken, ctx, value)
						return err
					}, func(ctx context.Context, i int) ([]string, error) { return ends[name].pop(broken, ctx, i) })
					proxy.Set(redistest.Faults{})
					assert.Empty(t, content(t, list))
					assert.NoError(t, list.Check(t.Context()))
					traffic.assertOnceInOrder(t, broken)
					if kind != redistest.Cluster { // whose nodes have clients without the hook
						assert.Greater(t, sent.count.Load(), int64(5), "pushes past Lua")
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
