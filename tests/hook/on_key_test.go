package hook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a pipeline or a transaction changes of a short list is one call, and each command has its own reply.
func TestChangesOfAShortListAreOneCall(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server) // with a capacity of 3
		sent := &harness.Scripts{}
		rdb.AddHook(sent)
		calls := 0 // that were carried out: another test may make the server forget the functions
		sent.Set(func(words string, send func() error) error {
			err := send()
			if err == nil && strings.Contains(words, "ltrim") {
				calls++
			}
			return err
		})
		change := func(keys ...string) func(p redis.Pipeliner) error {
			return func(p redis.Pipeliner) error {
				for _, key := range keys {
					p.LPush(ctx, key, "a", "b")
					p.LSet(ctx, key, 7, "c")
					p.LTrim(ctx, key, 0, 0)
					p.Expire(ctx, key, time.Hour)
				}
				return nil
			}
		}
		check := func(key string, replies []redis.Cmder) {
			t.Helper()
			assert.EqualValues(t, 2, replies[0].(*redis.IntCmd).Val())
			assert.EqualError(t, replies[1].Err(), "ERR index out of range")
			assert.Equal(t, "OK", replies[2].(*redis.StatusCmd).Val())
			assert.True(t, replies[3].(*redis.BoolCmd).Val())
			assert.NoError(t, firstOf(replies[0], replies[2], replies[3]))
			assert.Equal(t, []string{"b"}, rdb.LRange(ctx, key, 0, -1).Val())
			assert.Positive(t, rdb.TTL(ctx, key).Val())
		}
		one, two := prefix+"{x}one", prefix+"{x}two"
		replies, err := rdb.Pipelined(ctx, change(one))
		assert.ErrorContains(t, err, "out of range")
		check(one, replies)
		if redistest.WithoutFunctions() || server.Kind() == redistest.Embedded {
			return // a script would be half done where memory is full
		}
		assert.Equal(t, 1, calls)

		require.NoError(t, rdb.Del(ctx, one).Err())
		replies, err = rdb.TxPipelined(ctx, change(one))
		assert.ErrorContains(t, err, "out of range")
		check(one, replies)
		assert.Equal(t, 2, calls)

		require.NoError(t, rdb.Del(ctx, one).Err())
		replies, err = rdb.Pipelined(ctx, change(one, two))
		assert.ErrorContains(t, err, "out of range")
		check(one, replies[:4])
		check(two, replies[4:])

		require.NoError(t, rdb.RPush(ctx, one, "c", "d", "e", "f").Err())
		for range 2 { // as a client that has not seen it become long, and as one that has
			replies, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.LPush(ctx, one, "a")
				p.LTrim(ctx, one, 1, -1)
				return nil
			})
			require.NoError(t, err)
			assert.EqualValues(t, 6, replies[0].(*redis.IntCmd).Val())
			assert.Equal(t, []string{"b", "c", "d", "e", "f"}, rdb.LRange(ctx, one, 0, -1).Val())
		}
		require.NoError(t, server.Client(t).Set(ctx, two, "text", 0).Err())
		_, err = rdb.Pipelined(ctx, change(two))
		assert.ErrorContains(t, err, "WRONGTYPE")
		assert.Equal(t, "text", server.Client(t).Get(ctx, two).Val())
	})
}

func firstOf(cmds ...redis.Cmder) error {
	for _, cmd := range cmds {
		if cmd.Err() != nil {
			return cmd.Err()
		}
	}
	return nil
}

// Random changes of lists around the border, in pipelines and transactions, do as they do to plain lists.
func TestChangesOfAShortListAreThoseOfRedis(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, seed := t.Context(), rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		rdb, prefix := hookedClient(t, server)
		plain, most := server.Client(t), 13
		if server.Kind() == redistest.Embedded { // it aborts a transaction for an argument that is no number
			most = 11
		}
		add := func(p redis.Pipeliner, key string, kind, number int) {
			at := number%5 - 2
			switch kind {
			case 0:
				p.LPush(ctx, key, number)
			case 1:
				p.RPush(ctx, key, number, []byte{0xff, '\n'})
			case 2:
				p.LPushX(ctx, key, number%3)
			case 3:
				p.LTrim(ctx, key, int64(at), 2)
			case 4:
				p.LSet(ctx, key, int64(at), "set")
			case 5:
				p.LInsert(ctx, key, "before", "set", at)
			case 6:
				p.LRem(ctx, key, int64(at), "set")
			case 7:
				p.Expire(ctx, key, time.Hour)
			case 8:
				p.ExpireGT(ctx, key, time.Duration(number)*time.Minute)
			case 9:
				p.Persist(ctx, key)
			case 11:
				p.Do(ctx, "ltrim", key, "x", 2)
			case 12:
				p.Do(ctx, "linsert", key, "beside", "set", 2)
			case 10:
				p.PExpireAt(ctx, key, time.UnixMilli(int64(number%2)*4e12))
			}
		}
		for round := range redistest.Times(400, 4000) {
			name := fmt.Sprintf("{%d}", round/8) // a list that has become long is not taken for a short one for a while
			kinds, lists, transaction := make([]int, 1+random.IntN(6)), 1+random.IntN(2), random.IntN(2) == 0
			for i := range kinds {
				kinds[i] = random.IntN(most)
			}
			run := func(rdb redis.UniversalClient, prefix string) (replies string) {
				pipelined := rdb.Pipelined
				if transaction {
					pipelined = rdb.TxPipelined
				}
				cmds, _ := pipelined(ctx, func(p redis.Pipeliner) error {
					for list := range lists {
						for i, kind := range kinds {
							add(p, fmt.Sprint(prefix, name, list), kind, round*10+i)
						}
					}
					return nil
				})
				var text strings.Builder
				for _, cmd := range cmds {
					fmt.Fprintln(&text, strings.ReplaceAll(cmd.String(), prefix, ""))
				}
				for list := range lists {
					key := fmt.Sprint(prefix, name, list)
					fmt.Fprintln(&text, rdb.LRange(ctx, key, 0, -1).Val(), rdb.TTL(ctx, key).Val() > 0)
				}
				return text.String()
			}
			require.Equal(t, run(plain, "plain-"+prefix), run(rdb, prefix), "seed %d, round %d", seed, round)
		}
	})
}

// Callers who change a short list at the same time share calls. Each transaction is carried out as a whole, or by other operations if the list
// would become long, and each caller gets its own replies.
func TestCallersThatChangeAShortListShareCalls(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for name, capacity := range map[string]int{"short": 100, "at the border": 7} {
			t.Run(name, func(t *testing.T) {
				const callers, kept = 32, 6
				rounds := redistest.Times(20, 200)
				ctx, rdb, prefix, sent := t.Context(), server.Client(t), "queue-"+uuid.NewString()+":", &harness.Scripts{}
				rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(capacity)))
				rdb.AddHook(sent)
				var calls atomic.Int64
				sent.Set(func(words string, send func() error) error {
					if strings.Contains(words, "ltrim") {
						calls.Add(1)
					}
					return send()
				})
				failures, wrong := make(chan error, callers), make(chan string, callers*rounds)
				for caller := range callers {
					go func() {
						failures <- func() error {
							for i := range rounds {
								var pushed *redis.IntCmd
								var set *redis.StatusCmd
								value := fmt.Sprint(caller, ":", i)
								_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
									pushed = p.RPush(ctx, prefix, value)
									set = p.LSet(ctx, prefix, -1, value)
									p.LTrim(ctx, prefix, -kept, -1)
									return nil
								})
								if err != nil {
									return err
								}
								if n := pushed.Val(); n < 1 || n > kept+1 || set.Val() != "OK" {
									wrong <- fmt.Sprint(n, set)
								}
							}
							return nil
						}()
					}()
				}
				for range callers {
					require.NoError(t, <-failures)
				}
				close(wrong)
				assert.Empty(t, wrong)
				elements := rdb.LRange(ctx, prefix, 0, -1).Val()
				assert.Len(t, elements, kept)
				assert.Len(t, slices.Compact(slices.Sorted(slices.Values(elements))), kept)
				if n := calls.Load(); server.Kind() != redistest.Embedded && !redistest.WithoutFunctions() && capacity > kept+1 {
					assert.Positive(t, n)
					assert.Less(t, n, int64(callers*rounds))
				}
			})
		}
	})
}

// Pipelines and transactions that change short lists are carried out once, although replies and requests are cut, delayed and repeated, and
// although the lists become long and short meanwhile.
func TestChangesOfAShortListAreDoneOnce(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for name, fault := range map[string]redistest.Faults{
			"cut":  {CutReply: 0.03, CutRequest: 0.02},
			"late": {LateRequest: 0.05, Delay: 300 * time.Millisecond},
		} {
			t.Run(name, func(t *testing.T) {
				const lists = 40
				ctx, proxy, prefix := t.Context(), redistest.NewProxy(t), "queue-"+uuid.NewString()+":"
				rdb := server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) { o.ReadTimeout = 200 * time.Millisecond })
				rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(2)))
				key := func(i int) string { return fmt.Sprint(prefix, i%lists) }
				for i := range lists { // the server has the functions
					require.NoError(t, rdb.LTrim(ctx, key(i), 0, -1).Err())
				}
				proxy.Set(fault)
				traffic := harness.NewTraffic(4)
				traffic.Run(t, harness.FaultOperations(), harness.Strikes(proxy), func(ctx context.Context, value string) error {
					at := rand.IntN(lists)
					pipelined := rdb.Pipelined
					if at%2 == 0 {
						pipelined = rdb.TxPipelined
					}
					cmds, _ := pipelined(ctx, func(p redis.Pipeliner) error {
						p.RPush(ctx, key(at), value)
						p.LTrim(ctx, key(at), 0, -1)
						if at%3 == 0 && at%2 > 0 {
							p.Persist(ctx, key(at+1))
							p.LTrim(ctx, key(at+1), 0, -1)
						}
						return nil
					})
					return cmds[0].Err()
				}, func(ctx context.Context, i int) ([]string, error) {
					for at := range lists {
						value, err := rdb.LPop(ctx, key(i+at)).Result()
						if err != redis.Nil {
							return harness.Single(value, err)
						}
					}
					return nil, redis.Nil
				})
				proxy.Set(redistest.Faults{})
				traffic.AssertOnce(t)
			})
		}
	})
}

// copied sends a call that changes a list on its key twice, and does something in between. The first reply counts.
type copied struct{ between func() }

func (c *copied) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *copied) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *copied) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err, between := next(ctx, cmd), c.between
		if between != nil && slices.Contains(cmd.Args(), any("ltrim")) && err == nil {
			c.between = nil
			between()
			_ = next(ctx, redis.NewCmd(ctx, cmd.Args()...))
		}
		return err
	}
}

// A call that found the list long comes once more when the list is short: its commands are carried out by others.
func TestALateChangeOfAListThatWasLongDoesNothing(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server) // with a capacity of 3
		other, key, late := server.Client(t), prefix+"list", &copied{}
		other.AddHook(shardedlist.NewHook(other, shardedlist.Match(prefix+"*")))
		rdb.AddHook(late)
		require.NoError(t, rdb.RPush(ctx, key, 1, 2, 3, 4).Err())
		struck := false
		late.between = func() {
			require.NoError(t, other.LTrim(ctx, key, -1, -1).Err())
			struck = true
		}
		cmds, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.RPush(ctx, key, 5)
			p.LTrim(ctx, key, 0, -1)
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, server.Kind() != redistest.Embedded && !redistest.WithoutFunctions(), struck)
		if !struck {
			return
		}
		assert.EqualValues(t, 2, cmds[0].(*redis.IntCmd).Val())
		assert.Equal(t, []string{"4", "5"}, rdb.LRange(ctx, key, 0, -1).Val())
	})
}

// While memory is full, a transaction that adds to a short list is refused as a whole, and in a pipeline only what adds.
func TestChangesOfAShortListWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.Start(t, kind, "maxmemory-policy noeviction")
			rdb, admin := server.Client(t), server.Client(t)
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*"), shardedlist.WithCapacity(10)))
			var pushed, removed *redis.IntCmd
			change := func(p redis.Pipeliner) error {
				pushed = p.RPush(ctx, "list", "x")
				removed = p.LRem(ctx, "list", 1, "y")
				return nil
			}
			_, err := rdb.TxPipelined(ctx, change)
			require.NoError(t, err)
			require.NoError(t, rdb.RPush(ctx, "list", "y").Err())
			require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "1").Err())
			_, err = rdb.TxPipelined(ctx, change)
			assert.Error(t, err)
			assert.Error(t, pushed.Err())
			assert.Error(t, removed.Err())
			assert.Equal(t, []string{"x", "y"}, admin.LRange(ctx, "list", 0, -1).Val())
			_, err = rdb.Pipelined(ctx, change)
			assert.ErrorContains(t, err, "OOM")
			assert.ErrorContains(t, pushed.Err(), "OOM")
			assert.EqualValues(t, 1, removed.Val())
			assert.Equal(t, []string{"x"}, admin.LRange(ctx, "list", 0, -1).Val())
		})
	}
}

// A transaction without dedup records is sent as one: go-redis would repeat a lone call whose reply is lost. And none waits for replicas.
func TestTransactionsThatAreNoCallOnTheKey(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	for name, option := range map[string]shardedlist.Option{
		"without records": shardedlist.WithoutExactlyOnce(), "with replicas": shardedlist.WithReplicas(1, 10*time.Millisecond),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, rdb, prefix, sent := t.Context(), server.Client(t), "queue-"+uuid.NewString()+":", &names{}
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), option))
			rdb.AddHook(sent)
			cmds, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.RPush(ctx, prefix, "a", "b")
				p.LTrim(ctx, prefix, 1, -1)
				return nil
			})
			require.NoError(t, err)
			assert.EqualValues(t, 2, cmds[0].(*redis.IntCmd).Val())
			assert.Contains(t, sent.all(), "multi")
			assert.Equal(t, []string{"b"}, rdb.LRange(ctx, prefix, 0, -1).Val())
		})
	}
}
