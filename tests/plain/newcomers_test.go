package plain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever a process that watches the plain key does next, the elements that others have pushed to it are in the list, at the end
// opposite to that at which elements are popped.
func TestEveryOperationTakesNewcomersIn(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, popped := range []string{"LEFT", "RIGHT"} {
			for name, operation := range map[string]func(context.Context, *shardedlist.ShardedList) error{
				"llen":   func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.LLen(ctx); return err },
				"lindex": func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.LIndex(ctx, 0); return err },
				"lrange": func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.LRange(ctx, 0, 1); return err },
				"lpos": func(ctx context.Context, l *shardedlist.ShardedList) error {
					_, err := l.LPos(ctx, "b", redis.LPosArgs{})
					return err
				},
				"lset":  func(ctx context.Context, l *shardedlist.ShardedList) error { return l.LSet(ctx, 0, "x") },
				"lrem":  func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.LRem(ctx, 1, "x"); return err },
				"ltrim": func(ctx context.Context, l *shardedlist.ShardedList) error { return l.LTrim(ctx, 0, -1) },
				"linsert": func(ctx context.Context, l *shardedlist.ShardedList) error {
					_, err := l.LInsertBefore(ctx, "nothing", "x")
					return err
				},
				"lmove": func(ctx context.Context, l *shardedlist.ShardedList) error {
					_, err := l.LMove(ctx, l, "LEFT", "LEFT")
					return err
				},
				"expire": func(ctx context.Context, l *shardedlist.ShardedList) error {
					_, err := l.Expire(ctx, time.Hour)
					return err
				},
				"ttl":    func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.TTL(ctx); return err },
				"lpushx": func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.LPushX(ctx, "x"); return err },
				"rpush":  func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.RPush(ctx, "x"); return err },
				"lpop":   func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.LPop(ctx); return err },
				"blpop": func(ctx context.Context, l *shardedlist.ShardedList) error {
					_, err := l.BLPop(ctx, time.Second)
					return err
				},
			} {
				name = popped + " " + name
				ctx, rdb := t.Context(), server.Client(t)
				list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(3))
				_, err := list.RPush(ctx, "a", "b", "c", "d", "e")
				require.NoError(t, err)
				pop := list.LPop
				if popped == "RIGHT" {
					pop = list.RPop
				}
				_, err = pop(ctx)
				require.NoError(t, err)
				require.NoError(t, rdb.RPush(ctx, list.Name(), "1", "2", "3", "4").Err())
				require.NoError(t, operation(ctx, list), name)
				require.Zero(t, rdb.Exists(ctx, list.Name()).Val(), name)
				got := strings.Join(harness.Content(t, list), "")
				if popped == "LEFT" {
					require.Contains(t, got, "de1234", name)
				} else {
					require.Contains(t, got, "234a", name)
				}
				require.NoError(t, list.Check(ctx), name)
			}
		}
	})
}

// Until somebody pops, the newcomers of a list join the end at which elements were pushed first; and the right end if nobody has.
func TestWhereNewcomersJoinBeforeAPop(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t))
		_, err := list.LPush(ctx, "a")
		require.NoError(t, err)
		require.NoError(t, rdb.LPush(ctx, list.Name(), "b", "c").Err())
		assert.Equal(t, []string{"c", "b", "a"}, harness.Content(t, list))
		value, err := list.RPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, "a", value, "a queue keeps its order")

		_, err = list.Del(ctx)
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(ctx, list.Name(), "a").Err())
		require.NoError(t, list.LSet(ctx, 0, "A"))
		require.NoError(t, rdb.RPush(ctx, list.Name(), "b").Err())
		assert.Equal(t, []string{"A", "b"}, harness.Content(t, list))

		_, err = list.Del(ctx)
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(ctx, list.Name(), "a").Err())
		require.NoError(t, list.LSet(ctx, 0, "A"))
		_, err = list.LPush(ctx, "b")
		require.NoError(t, err)
		require.NoError(t, rdb.LPush(ctx, list.Name(), "c").Err())
		assert.Equal(t, []string{"c", "b", "A"}, harness.Content(t, list), "it has been pushed to by now")
	})
}

// Who only reads leaves the plain list to those who pop from it.
func TestReadersTakeNoPlainListOver(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t))
		values := harness.Numbered(3000)
		require.NoError(t, rdb.RPush(ctx, list.Name(), values...).Err())
		require.NoError(t, rdb.Expire(ctx, list.Name(), time.Hour).Err())
		assert.Equal(t, harness.Words(values), harness.Content(t, list))
		length, err := list.LLen(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 3000, length)
		value, err := list.LIndex(ctx, -1)
		require.NoError(t, err)
		assert.Equal(t, "2999", value)
		at, err := list.LPos(ctx, "7", redis.LPosArgs{})
		require.NoError(t, err)
		assert.EqualValues(t, 7, at)
		ttl, err := list.TTL(ctx)
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, ttl, float64(time.Minute))
		all := 0
		for value, err := range list.All(ctx) {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(all), value)
			all++
		}
		assert.Equal(t, 3000, all)
		info, err := list.Info(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 3000, info.Length)
		assert.Zero(t, info.Newcomers)
		require.NoError(t, list.Check(ctx))
		assert.EqualValues(t, 3000, rdb.LLen(ctx, list.Name()).Val())
	})
}

// Newcomers that make a long shard, and then more of them than one step may move.
func TestManyNewcomers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(4))
		_, err := list.RPush(ctx, "a", "b", "c", "d", "e", "f")
		require.NoError(t, err)
		value, err := list.LPop(ctx)
		require.NoError(t, err)
		require.Equal(t, "a", value)
		want := []string{"b", "c", "d", "e", "f"}
		for range 3 {
			require.NoError(t, rdb.RPush(ctx, list.Name(), harness.Numbered(2500)...).Err())
			want = append(want, harness.Words(harness.Numbered(2500))...)
			length, err := list.RPush(ctx, "z")
			require.NoError(t, err)
			want = append(want, "z")
			require.EqualValues(t, len(want), length)
		}
		assert.Equal(t, want, harness.Content(t, list))
		require.NoError(t, list.Check(ctx))
		require.NoError(t, list.Adopt(ctx, nil))
		assert.Equal(t, want, harness.Content(t, list))
		require.NoError(t, list.Check(ctx))
	})
}

// A TTL that somebody gives the plain key becomes the list's, as if it were one key, sooner or later than the one it had.
func TestATTLOfNewcomers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, "a", "b", "c", "d", "e")
		require.NoError(t, err)
		for _, life := range []time.Duration{time.Hour, time.Minute, 1000 * time.Hour} {
			require.NoError(t, rdb.RPush(ctx, list.Name(), "x").Err())
			require.NoError(t, rdb.Expire(ctx, list.Name(), life).Err())
			ttl, err := list.TTL(ctx)
			require.NoError(t, err)
			assert.InDelta(t, life, ttl, float64(30*time.Second))
			require.NoError(t, list.Check(ctx))
		}
		require.NoError(t, rdb.RPush(ctx, list.Name(), "x").Err())
		require.NoError(t, rdb.PExpire(ctx, list.Name(), 300*time.Millisecond).Err())
		length, err := list.LLen(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 9, length)
		require.Eventually(t, func() bool {
			length, err := list.LLen(ctx)
			return err == nil && length == 0
		}, 10*time.Second, 5*time.Millisecond)
	})
}

// The meta of a list that became empty expires soon, and so does one whose list has expired. That of a list which is taken over does not.
func TestATakeoverBesideAMetaThatExpires(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, before := range []string{"empty", "expired"} {
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(1))
			if before == "empty" {
				_, err := list.BLPop(ctx, 100*time.Millisecond) // else meta would be gone
				require.Equal(t, redis.Nil, err)
			} else {
				_, err := list.RPush(ctx, "old", "older")
				require.NoError(t, err)
				_, err = list.PExpire(ctx, 20*time.Millisecond)
				require.NoError(t, err)
				require.Eventually(t, func() bool {
					length, err := list.LLen(ctx)
					return err == nil && length == 0
				}, 10*time.Second, time.Millisecond)
			}
			require.Positive(t, rdb.PTTL(ctx, harness.Keys(list).Meta).Val(), before)
			require.NoError(t, rdb.RPush(ctx, list.Name(), "a", "b").Err())
			length, err := list.RPush(ctx, "c")
			require.NoError(t, err)
			assert.EqualValues(t, 3, length)
			assert.EqualValues(t, -1, rdb.PTTL(ctx, harness.Keys(list).Meta).Val(), before)
			ttl, err := list.PTTL(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, -1, ttl, before)
		}
	})
}

// A consumer that waits gets what a process without the library pushes.
func TestAWaitThatNewcomersEnd(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t))
		for i := range 3 {
			popped := make(chan string, 1)
			go func() {
				value, err := list.BLPop(ctx, time.Minute)
				assert.NoError(t, err)
				popped <- value
			}()
			harness.Armed(t, list)
			require.NoError(t, rdb.RPush(ctx, list.Name(), i).Err())
			assert.Equal(t, fmt.Sprint(i), <-popped)
		}
		assert.Less(t, harness.OneSlot(list).Source("L").Slice(time.Time{}), time.Second, "it looks more often after newcomers")
	})
}

// Processes without the library push and pop for as long as they like: what others push comes out, in its turn.
func TestNobodyStarvesBesideNewcomers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(3))
		waiting := 0
		for i := range 40 {
			require.NoError(t, rdb.RPush(ctx, list.Name(), "old", "old").Err())
			length, err := list.RPush(ctx, fmt.Sprint("new", i))
			require.NoError(t, err)
			waiting = int(length)
			require.NoError(t, rdb.RPush(ctx, list.Name(), "old", "old", "old").Err())
			_, err = list.LPop(ctx)
			require.NoError(t, err)
		}
		last := "new39"
		for pops := 1; ; pops++ {
			require.NoError(t, rdb.RPush(ctx, list.Name(), "old", "old").Err())
			value, err := list.LPop(ctx)
			require.NoError(t, err)
			require.Less(t, pops, waiting, "as many pops as there were elements before it")
			if value == last {
				break
			}
		}
	})
}

// Producers and consumers with and without the hook share a queue, while replies are lost. Nothing is lost, nothing comes twice, each
// producer's elements keep their order, and no process has an error.
func TestOldAndNewProcessesShareAQueue(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server, key := t.Context(), redistest.Shared(t, kind), harness.UniqueName(t)
			proxy := redistest.NewProxy(t)
			calm := server.Client(t)
			hooked := server.Client(t, harness.Through(proxy))
			hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(key), shardedlist.WithCapacity(5)))
			t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
			require.NoError(t, hooked.Ping(ctx).Err())
			proxy.Set(redistest.Faults{CutReply: 0.05})

			const each, limit = 500, 2 * time.Minute
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			var mu sync.Mutex
			var popped []string
			var group sync.WaitGroup
			for name, rdb := range map[string]redis.UniversalClient{"old": calm, "new": hooked, "old2": calm, "new2": hooked} {
				group.Go(func() {
					for i := range each {
						if !assert.NoError(t, rdb.RPush(ctx, key, fmt.Sprintf("%s %d", name, i)).Err()) {
							cancel()
							return
						}
					}
				})
			}
			count := func(more ...string) int {
				mu.Lock()
				defer mu.Unlock()
				popped = append(popped, more...)
				return len(popped)
			}
			for _, rdb := range []redis.UniversalClient{calm, hooked} {
				group.Go(func() {
					for count() < 4*each {
						values, err := rdb.BLPop(ctx, time.Second, key).Result()
						if err == redis.Nil {
							continue
						}
						if !assert.NoError(t, err) {
							cancel()
							return
						}
						count(values[1])
					}
				})
			}
			group.Wait()
			proxy.Set(redistest.Faults{})
			var want []string
			for _, producer := range []string{"old", "new", "old2", "new2"} {
				for i := range each {
					want = append(want, fmt.Sprintf("%s %d", producer, i))
				}
			}
			assert.ElementsMatch(t, want, popped)
		})
	}
}

// Producers with and without the library, and consumers with it, see one queue: porcupine finds an order of all calls that explains
// what each of them saw.
func TestExactOrderBesideOldProducers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const clients = 5
		var connections []redis.UniversalClient
		for range clients {
			connections = append(connections, server.Client(t))
		}
		var order harness.Order
		defer order.Decided(t)
		for seed := range uint64(30) {
			name := harness.UniqueName(t)
			var mutex sync.Mutex
			var operations []porcupine.Operation
			var group sync.WaitGroup
			start := time.Now()
			for client, rdb := range connections {
				list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(1+int(seed)%3))
				group.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(client)))
					for i := range harness.CallsOfClient {
						o := porcupine.Operation{ClientId: client, Call: int64(time.Since(start))}
						call := history.Call{Name: "rpush", Values: []string{fmt.Sprintf("%d-%d", client, i)}}
						var outcome history.Outcome
						var err error
						switch {
						case client < 2: // the length of its list is another than that of the whole
							err = rdb.RPush(t.Context(), name, call.Values[0]).Err()
						case random.IntN(2) == 0:
							outcome, err = harness.Perform(list, call, random)
						default:
							call = history.Call{Name: "lpop", Count: 1}
							var value string
							value, err = list.LPop(t.Context())
							if outcome.Fate = ledger.Done; err == redis.Nil {
								err = nil
							} else {
								outcome.Values = []string{value}
							}
						}
						assert.NoError(t, err)
						o.Return, o.Input, o.Output = int64(time.Since(start)), call, outcome
						mutex.Lock()
						operations = append(operations, o)
						mutex.Unlock()
					}
				})
			}
			group.Wait()
			order.Check(t, history.Model, operations, seed)
		}
	})
}

// A transaction takes all newcomers in, however many they are: it is carried out as a whole.
func TestATransactionBesideManyNewcomers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(4))
		_, err := list.RPush(ctx, "a", "b")
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(ctx, list.Name(), harness.Numbered(2000)...).Err())
		length, err := list.LLen(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 2002, length)
		require.NoError(t, rdb.RPush(ctx, list.Name(), harness.Numbered(5000)...).Err())
		hooked := server.Client(t)
		hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(list.Name())))
		cmds, err := hooked.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.RPush(ctx, list.Name(), "c")
			p.LPop(ctx, list.Name())
			return nil
		})
		require.NoError(t, err)
		assert.EqualValues(t, 7003, cmds[0].(*redis.IntCmd).Val())
		assert.Equal(t, "a", cmds[1].(*redis.StringCmd).Val())
		require.NoError(t, list.Check(ctx))
	})
}

// What is put back was popped at that end: newcomers join the other one.
func TestNewcomersBesideWhatIsPutBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(1))
		harness.OneSlot(list).PutBack(layout.Left, []string{"a", "b"})
		require.NoError(t, rdb.RPush(ctx, list.Name(), "c").Err())
		assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, list))
	})
}

// Newcomers that are moved in several steps all join the same end, whoever goes on.
func TestNewcomersStayTogether(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(1000))
		_, err := harness.OpenList(t, rdb, list.Name(), shardedlist.WithCapacity(1000)).RPush(ctx, "a")
		require.NoError(t, err)
		large := strings.Repeat("x", 10_000)
		for i := range 100 {
			require.NoError(t, rdb.RPush(ctx, list.Name(), fmt.Sprint(i, large)).Err())
		}
		_, err = harness.Bare(harness.OneSlot(list).Length()).Run(ctx)
		require.NoError(t, err)
		value, err := list.RPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(99, large), value)
		first, err := list.LIndex(ctx, 0)
		require.NoError(t, err)
		assert.Equal(t, "a", first)
	})
}

// A TTL of newcomers that comes while an EXPIRE goes from shard to shard: no shard expires before the list.
func TestATTLOfNewcomersWhileTheShardsGetTheirs(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(1))
		_, err := list.RPush(ctx, harness.Numbered(300)...)
		require.NoError(t, err)
		_, err = list.Expire(ctx, 10*time.Second)
		require.NoError(t, err)
		_, err = harness.Bare(harness.OneSlot(list).Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()})).Run(ctx)
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(ctx, list.Name(), "x").Err())
		require.NoError(t, rdb.Expire(ctx, list.Name(), 30*time.Minute).Err())
		_, err = list.LLen(ctx)
		require.NoError(t, err)
		require.NoError(t, list.Check(ctx))
		for id := range int64(300) {
			assert.Greater(t, rdb.PTTL(ctx, harness.Shard(list, ctx, id)).Val(), 30*time.Minute)
		}
	})
}

// A full server refuses a push although it would take newcomers in first, and pops take them in.
func TestNewcomersWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, rdb := t.Context(), redistest.Start(t, kind).Client(t)
			list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(4))
			_, err := list.RPush(ctx, "a", "b", "c", "d", "e")
			require.NoError(t, err)
			require.NoError(t, rdb.RPush(ctx, list.Name(), "f", "g").Err())
			long := harness.OpenList(t, rdb, harness.UniqueName(t)) // not taken over yet
			require.NoError(t, rdb.RPush(ctx, long.Name(), harness.Numbers(0, 1000)...).Err())
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
			_, err = list.RPush(ctx, "x")
			require.ErrorContains(t, err, "OOM")
			value, err := list.LPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, "a", value)
			_, err = long.RPush(ctx, "x")
			require.ErrorContains(t, err, "OOM")
			assert.EqualValues(t, 1000, rdb.LLen(ctx, long.Name()).Val(), "an error changes nothing")
			value, err = long.LPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, "0", value)
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
			assert.Zero(t, rdb.Exists(ctx, list.Name()).Val())
			assert.Equal(t, []string{"b", "c", "d", "e", "f", "g"}, harness.Content(t, list))
		})
	}
}

// The same while the list is turned into shards and back into the plain list, again and again: to producers without the library, and
// to everybody who watches the key, it is one queue at every moment.
func TestExactOrderThroughAdoptAndRestore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const clients = 5
		var connections []redis.UniversalClient
		for range clients {
			connections = append(connections, server.Client(t))
		}
		const histories = 30
		decided := 0
		for seed := range uint64(histories) {
			h, name := recording{start: time.Now()}, harness.UniqueName(t)
			var begun []any // elements of the plain list that was there before
			for i := range seed % 7 {
				begun = append(begun, fmt.Sprint("before-", i))
				h.record(t, clients, history.Call{Name: "rpush", Values: harness.Words(begun[i:])}, func() (history.Outcome, error) {
					return history.Outcome{}, connections[0].RPush(t.Context(), name, begun[i]).Err()
				})
			}
			stop, mover := make(chan struct{}), harness.OpenList(t, server.Client(t), name, shardedlist.WithCapacity(2), shardedlist.WithPoppedAt("LEFT"))
			var moves sync.WaitGroup
			moves.Go(func() { moveToAndFro(t, mover, stop) })
			var group sync.WaitGroup
			for client, rdb := range connections {
				list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(1+int(seed)%3))
				group.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(client)))
					for i := range harness.CallsOfClient {
						call := history.Call{Name: "rpush", Values: []string{fmt.Sprintf("%d-%d", client, i)}}
						do := func() (history.Outcome, error) { return harness.Perform(list, call, random) }
						if client < 2 {
							do = func() (history.Outcome, error) {
								return history.Outcome{}, rdb.RPush(t.Context(), name, call.Values[0]).Err()
							}
						} else if random.IntN(2) == 0 {
							call = history.Call{Name: "lpop", Count: 1}
							do = func() (history.Outcome, error) { return popOne(t.Context(), list) }
						}
						h.record(t, client, call, do)
					}
				})
			}
			group.Wait()
			close(stop)
			moves.Wait()
			order := porcupine.CheckOperationsTimeout(history.Model, h.operations, 10*time.Second)
			require.NotEqual(t, porcupine.Illegal, order, "seed %d: %s", seed, harness.Describe(h.operations))
			if order == porcupine.Ok {
				decided++
			}
		}
		assert.Greater(t, decided, histories*4/5, "histories that porcupine had the time to judge")
	})
}

// recording collects what clients did.
type recording struct {
	start      time.Time
	mutex      sync.Mutex
	operations []porcupine.Operation
}

func (r *recording) record(t *testing.T, client int, call history.Call, do func() (history.Outcome, error)) {
	o := porcupine.Operation{ClientId: client, Input: call, Call: int64(time.Since(r.start))}
	outcome, err := do()
	assert.NoError(t, err)
	o.Return, o.Output = int64(time.Since(r.start)), outcome
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.operations = append(r.operations, o)
}

// popOne pops as LPop does. An empty list is no error.
func popOne(ctx context.Context, list *shardedlist.ShardedList) (history.Outcome, error) {
	value, err := list.LPop(ctx)
	if err == redis.Nil {
		return history.Outcome{Fate: ledger.Done}, nil
	}
	return history.Outcome{Fate: ledger.Done, Values: []string{value}}, err
}

// moveToAndFro adopts and restores a list until it is to stop.
func moveToAndFro(t *testing.T, list *shardedlist.ShardedList, stop <-chan struct{}) {
	for {
		for _, move := range []func(context.Context, func(moved, total int64)) error{list.Adopt, list.Restore} {
			assert.NoError(t, move(t.Context(), nil))
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}
