package hook

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
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

// hookedClient is a client with the hook, for keys under a prefix of its own.
func hookedClient(t testing.TB, server *redistest.Server) (rdb redis.UniversalClient, prefix string) {
	rdb, prefix = server.Client(t), "queue-"+uuid.NewString()+":"
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(3)))
	return rdb, prefix
}

func TestHookLeavesOtherKeysAlone(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server)
		key := "not-" + prefix + "mail"
		require.NoError(t, rdb.RPush(ctx, key, "a", "b").Err())
		plain := server.Client(t)
		assert.Equal(t, []string{"a", "b"}, plain.LRange(ctx, key, 0, -1).Val())
		assert.Equal(t, int64(1), rdb.Del(ctx, key).Val())
		assert.Zero(t, plain.Exists(ctx, key).Val())
	})
}

func TestHookServesAllClientsOfARedisClient(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	ctx := t.Context()
	rdb, prefix := hookedClient(t, server)
	key := prefix + "mail"

	conn := rdb.(*redis.Client).Conn()
	defer conn.Close()
	require.NoError(t, conn.RPush(ctx, key, 1).Err())
	require.NoError(t, rdb.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.RPush(ctx, key, 2)
			p.Incr(ctx, "n-"+key)
			return nil
		})
		return err
	}, "n-"+key))
	require.NoError(t, rdb.Do(ctx, "RPUSH", key, 3).Err())
	assert.Equal(t, []string{"1", "2", "3"}, rdb.LRange(ctx, key, 0, -1).Val())
	assert.Equal(t, "list", server.Client(t).Type(ctx, key).Val(), "it is a list of Redis")
}

// Watch calls the hooks of nodes only.
func TestHookServesWatchOnClustersAndRings(t *testing.T) {
	t.Parallel()
	clients := map[string]func(t *testing.T) redis.UniversalClient{
		"cluster": func(t *testing.T) redis.UniversalClient { return redistest.Shared(t, redistest.Cluster).Client(t) },
		"ring": func(t *testing.T) redis.UniversalClient {
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
				"one": redistest.Shared(t, redistest.Redis).Addr(), "two": redistest.Shared(t, redistest.Valkey).Addr(),
			}})
			t.Cleanup(func() { _ = ring.Close() })
			return ring
		},
	}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, prefix, rdb := t.Context(), harness.UniqueName(t)+":", client(t)
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(2)))
			key, counter := prefix+"{mail}", "n-"+prefix+"{mail}"
			watch := func() ([]redis.Cmder, error) {
				var cmds []redis.Cmder
				return cmds, rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) (err error) {
					require.NoError(t, tx.RPush(ctx, key, 1).Err())
					_, err = tx.Pipelined(ctx, func(p redis.Pipeliner) error { return p.RPush(ctx, key, 2, 3).Err() })
					require.NoError(t, err)
					cmds, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
						p.RPush(ctx, key, 4)
						p.Incr(ctx, counter)
						p.LRange(ctx, key, 0, -1)
						p.Type(ctx, key)
						return nil
					})
					return err
				}, counter)
			}
			cmds, err := watch()
			require.NoError(t, err)
			require.Len(t, cmds, 4)
			assert.Equal(t, []string{"1", "2", "3", "4"}, cmds[2].(*redis.StringSliceCmd).Val())
			assert.Equal(t, "list", cmds[3].(*redis.StatusCmd).Val())
			assert.Equal(t, []string{"1", "2", "3", "4"}, rdb.LRange(ctx, key, 0, -1).Val())

			rdb.Set(ctx, counter, "no number", 0)
			_, err = watch()
			require.ErrorContains(t, err, "not an integer")
			require.EqualValues(t, 8, rdb.LLen(ctx, key).Val(), "Redis carries out the others")
			err = rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) error {
				require.NoError(t, rdb.Set(ctx, counter, 0, 0).Err())
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.RPush(ctx, key, 5).Err() })
				return err
			}, counter)
			require.ErrorIs(t, err, redis.TxFailedErr)
			require.EqualValues(t, 8, rdb.LLen(ctx, key).Val())

			err = rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) error {
				require.NoError(t, rdb.LSet(ctx, key, 4, "changed").Err())
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.RPush(ctx, key, 5).Err() })
				return err
			}, key)
			require.ErrorIs(t, err, redis.TxFailedErr)
			require.EqualValues(t, 8, rdb.LLen(ctx, key).Val())
			require.NoError(t, rdb.Del(ctx, key).Err())
			assert.Equal(t, "none", rdb.Do(ctx, "type", key).Val(), "nothing is at the key itself")
		})
	}
}

// A client that sentinels guard is served too, by the new master after a failover.
func TestHookOnAFailoverClient(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Sentinel)
	rdb := server.Client(t)
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*"), shardedlist.WithCapacity(2)))
	require.NoError(t, rdb.RPush(t.Context(), "queue:mail", "a", "b", "c", "d", "e").Err())
	server.Failover(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	popped, err := rdb.LPop(ctx, "queue:mail").Result()
	require.NoError(t, err)
	assert.Equal(t, "a", popped)
	assert.EqualValues(t, 6, rdb.RPush(ctx, "queue:mail", "f", "g").Val())
	list, err := shardedlist.New(server.Client(t), "queue:mail")
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "c", "d", "e", "f", "g"}, harness.Content(t, list))
}

func TestHookOnARing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	one, two := redistest.Shared(t, redistest.Redis), redistest.Shared(t, redistest.Valkey)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": one.Addr(), "two": two.Addr()}})
	defer ring.Close()
	prefix := harness.UniqueName(t) + ":"
	ring.AddHook(shardedlist.NewHook(ring, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(2)))
	for i := range 20 {
		key := prefix + strconv.Itoa(i)
		require.NoError(t, ring.RPush(ctx, key, "a", "b", "c").Err())
		cmds, err := ring.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.LPop(ctx, key)
			p.LRange(ctx, key, 0, -1)
			p.Del(ctx, key)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, "a", cmds[0].(*redis.StringCmd).Val())
		assert.Equal(t, []string{"b", "c"}, cmds[1].(*redis.StringSliceCmd).Val())
		assert.Equal(t, int64(1), cmds[2].(*redis.IntCmd).Val())
		assert.ErrorIs(t, ring.Do(ctx, "blpop", key, "0.001").Err(), redis.Nil)
	}
}

// A list command through the hook is done once, alone and in a pipeline, over a network that loses every tenth reply.
func TestHookIsExactlyOnceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Shared(t, kind), t.Context()
			proxy := redistest.NewProxy(t)
			rdb := server.Client(t, harness.Through(proxy))
			key := harness.UniqueName(t)
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(key), shardedlist.WithCapacity(3)))
			require.NoError(t, rdb.RPush(ctx, key, "0").Err())
			proxy.Set(redistest.Faults{CutReply: 0.1})
			const rounds = 300
			for i := range rounds {
				require.NoError(t, rdb.RPush(ctx, key, 4*i+1).Err())
				_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.RPush(ctx, key, 4*i+2)
					p.LLen(ctx, key)
					p.RPush(ctx, key, 4*i+3)
					p.RPush(ctx, key, 4*i+4)
					return nil
				})
				require.NoError(t, err)
			}
			popped := []string{}
			for len(popped) < 4*rounds+1 {
				cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.LPop(ctx, key)
					p.LIndex(ctx, key, 0)
					p.LPopCount(ctx, key, 2)
					return nil
				})
				if err != redis.Nil { // at the end
					require.NoError(t, err)
				}
				popped = append(popped, cmds[0].(*redis.StringCmd).Val())
				popped = append(popped, cmds[2].(*redis.StringSliceCmd).Val()...)
			}
			proxy.Set(redistest.Faults{})
			assert.Equal(t, harness.Words(harness.Numbers(0, 4*rounds+1)), popped)
		})
	}
}

// A pipeline and a transaction are each one round trip, whatever list commands are in them.
func TestHookSendsPipelinesInOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb, prefix := hookedClient(t, server)
	ctx := t.Context()
	trips := &harness.RoundTrips{}
	rdb.AddHook(trips) // within the other: it sees what is sent
	queue := func(p redis.Pipeliner) error {
		for i := range 40 {
			p.RPush(ctx, prefix+"a", i)
		}
		p.Set(ctx, "counter", 7, 0)
		p.LPop(ctx, prefix+"a")
		p.LPopCount(ctx, prefix+"a", 2)
		p.LLen(ctx, prefix+"a")
		p.Del(ctx, prefix+"a", "counter")
		return nil
	}
	require.NoError(t, rdb.RPush(ctx, prefix+"b", 1).Err()) // asks for the capacity
	for name, together := range map[string]func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
		"pipeline": rdb.Pipelined, "transaction": rdb.TxPipelined,
	} {
		var cmds []redis.Cmder
		for range 5 { // the first makes sure that the server has the functions, and so does the first after a connection was made
			*trips = harness.RoundTrips{}
			var err error
			cmds, err = together(ctx, queue)
			require.NoError(t, err, name)
			if trips.Commands == 0 {
				break
			}
		}
		assert.Equal(t, harness.RoundTrips{Pipelines: 1}, *trips, name)
		assert.Equal(t, int64(40), cmds[39].(*redis.IntCmd).Val())
		assert.Equal(t, "0", cmds[41].(*redis.StringCmd).Val())
		assert.Equal(t, []string{"1", "2"}, cmds[42].(*redis.StringSliceCmd).Val())
		assert.Equal(t, int64(37), cmds[43].(*redis.IntCmd).Val())
		assert.Equal(t, int64(2), cmds[44].(*redis.IntCmd).Val())
	}
}

// A command of many keys is one round trip, as in Redis, and counts each key once.
func TestHookTakesManyKeysAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, trips, again := t.Context(), &harness.RoundTrips{}, 0
		rdb, prefix := hookedClient(t, server)
		rdb.AddHook(trips)
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = prefix + "{many}" + strconv.Itoa(i)
			if i < 60 {
				require.NoError(t, rdb.RPush(ctx, keys[i], harness.Numbers(0, 1+i%10)...).Err()) // short and long ones
			} else if i < 70 {
				require.NoError(t, rdb.Set(ctx, keys[i], "text", 0).Err())
			}
		}
		for i, call := range []func() *redis.IntCmd{
			func() *redis.IntCmd { return rdb.Exists(ctx, keys...) },
			func() *redis.IntCmd { return rdb.Touch(ctx, keys...) },
			func() *redis.IntCmd { return rdb.Exists(ctx, keys...) },
			func() *redis.IntCmd { return rdb.Del(ctx, keys...) },
		} {
			*trips = harness.RoundTrips{}
			cmd := call()
			require.NoError(t, cmd.Err())
			assert.EqualValues(t, 70, cmd.Val(), cmd.Name())
			if i == 0 || trips.Pipelines > 1 { // or a second has passed
				assert.LessOrEqual(t, trips.Pipelines, 2, "%s: the keys, if all lists are short, and each list", cmd.Name())
				again++
			}
			assert.LessOrEqual(t, trips.Commands, 50, "for shards of long lists that DEL leaves behind")
		}
		assert.Less(t, again, 4, "it is known that some are long")
		assert.Zero(t, rdb.Exists(ctx, keys...).Val())
	})
}

// A command of one key is one round trip, whatever is there.
func TestHookLooksAtAKeyOnce(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx, trips := t.Context(), &harness.RoundTrips{}
		plain := server.Client(t)
		rdb, prefix := hookedClient(t, server)
		rdb.AddHook(trips)
		run := func(rdb redis.UniversalClient, command, key string) (any, error) {
			var words []any
			for _, word := range strings.Fields(command) {
				words = append(words, strings.ReplaceAll(word, "KEY", key))
			}
			return rdb.Do(ctx, words...).Result()
		}
		for what, fill := range map[string]string{
			"nothing": "PING", "text": "SET KEY text", "short": "RPUSH KEY 1 2", "long": "RPUSH KEY 1 2 3 4", "with spaces": "SADD KEY 1",
		} {
			for _, command := range []string{
				"EXISTS KEY", "TOUCH KEY", "TYPE KEY", "TTL KEY", "PERSIST KEY", "PEXPIRE KEY 100000 NX", "PEXPIRE KEY 1 GT", "TTL KEY", "PERSIST KEY",
				"PERSIST KEY", "OBJECT REFCOUNT KEY", "OBJECT FREQ KEY", "MEMORY USAGE KEY SAMPLES 0", "RENAME KEY KEY", "RENAMENX KEY KEY", "UNLINK KEY", "DEL KEY",
			} {
				if command == "EXISTS KEY" || command == "DEL KEY" {
					_, err := run(rdb, fill, prefix+what)
					require.NoError(t, err)
					_, err = run(plain, fill, "plain:"+what)
					require.NoError(t, err)
				}
				_, _ = run(rdb, command, prefix+"nothing") // without functions, a script is sent when it is called first
				*trips = harness.RoundTrips{}
				got, err := run(rdb, command, prefix+what)
				assert.Zero(t, trips.Pipelines, "%s: %s", what, command)
				if what != "long" || command != "DEL KEY" && command != "UNLINK KEY" { // whose shards are swept
					assert.Equal(t, 1, trips.Commands, "%s: %s", what, command)
				}
				want, wantErr := run(plain, command, "plain:"+what)
				assert.Equal(t, fmt.Sprint(wantErr), fmt.Sprint(err), "%s: %s", what, command)
				if command != "MEMORY USAGE KEY SAMPLES 0" {
					assert.Equal(t, want, got, "%s: %s", what, command)
				}
			}
		}
	})
}

// names are those of the commands that pass.
type names struct {
	mu   sync.Mutex
	seen []string
}

func (n *names) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen)
}

func (n *names) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *names) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (n *names) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		n.mu.Lock()
		for _, cmd := range cmds {
			n.seen = append(n.seen, cmd.Name())
		}
		n.mu.Unlock()
		return next(ctx, cmds)
	}
}

// A pipeline that only reads short lists sends the commands as they are. What it reads is right while the lists become long and short again.
func TestPipelinesReadShortListsInPlace(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server) // with a capacity of 3
		key, text, nothing := prefix+"list", prefix+"text", prefix+"nothing"
		require.NoError(t, rdb.RPush(ctx, key, 0, 1).Err())
		require.NoError(t, rdb.Set(ctx, text, "x", 0).Err())
		var replies []redis.Cmder
		read := func() error {
			var err error
			replies, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.LRange(ctx, key, 0, -1)
				p.LLen(ctx, key)
				p.LIndex(ctx, nothing, 0)
				p.LPos(ctx, key, "1", redis.LPosArgs{})
				p.LRange(ctx, text, 0, -1)
				p.Type(ctx, text)
				p.TTL(ctx, key)
				p.PTTL(ctx, nothing)
				return nil
			})
			return err
		}
		check := func(pushed int) {
			elements := harness.Numbers(0, pushed)
			assert.ErrorIs(t, read(), redis.Nil)
			assert.Equal(t, fmt.Sprint(elements), fmt.Sprint(replies[0].(*redis.StringSliceCmd).Val()))
			assert.EqualValues(t, pushed, replies[1].(*redis.IntCmd).Val())
			assert.EqualValues(t, 1, replies[3].(*redis.IntCmd).Val())
			assert.ErrorContains(t, replies[4].Err(), "WRONGTYPE Operation against a key holding the wrong kind of value")
			assert.Equal(t, "string", replies[5].(*redis.StatusCmd).Val())
			assert.Equal(t, []time.Duration{-1, -2}, []time.Duration{replies[6].(*redis.DurationCmd).Val(), replies[7].(*redis.DurationCmd).Val()})
		}
		sent := &names{}
		rdb.AddHook(sent)
		check(2)
		if server.Kind() != redistest.Cluster { // where a transaction is on one slot
			assert.NotContains(t, sent.all(), "fcall", "the commands are sent as they are")
			assert.NotContains(t, sent.all(), "evalsha")
			assert.Contains(t, sent.all(), "lrange")
		}
		require.NoError(t, rdb.RPush(ctx, key, 2, 3, 4).Err())
		check(5)
		check(5)

		for i := range redistest.Times(300, 3000) { // a list that becomes long meanwhile
			key := key + strconv.Itoa(i)
			require.NoError(t, rdb.RPush(ctx, key, 0, 1).Err())
			var writing sync.WaitGroup
			for reads, read := 0, ""; read != "[0 1 2 3 4]"; reads++ {
				if reads == 1 {
					require.Equal(t, "[0 1]", read)
					writing.Go(func() { assert.NoError(t, rdb.RPush(ctx, key, 2, 3, 4).Err()) })
				}
				cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.LRange(ctx, key, 0, -1)
					p.LLen(ctx, key)
					return nil
				})
				require.NoError(t, err)
				read = fmt.Sprint(cmds[0].(*redis.StringSliceCmd).Val())
				require.Contains(t, []string{"[0 1]", "[0 1 2 3 4]"}, read)
				require.Contains(t, []int64{2, 5}, cmds[1].(*redis.IntCmd).Val())
				require.Less(t, reads, 100_000, "the push is never seen")
			}
			writing.Wait()
		}
	})
}

func TestPipelinesReadShortListsOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]redistest.Faults{"cut": {CutReply: 0.3}, "cut within": {CutInReply: 0.3}, "lost": {CutRequest: 0.3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
			ctx, rdb := t.Context(), server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) { o.MaxRetries, o.MaxRetryBackoff = 8, 2*time.Millisecond })
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*"), shardedlist.WithCapacity(3)))
			long := []string{strings.Repeat("x", 100_000), strings.Repeat("y", 100_000)} // so that connections break within them
			require.NoError(t, rdb.RPush(ctx, "a", long[0], long[1]).Err())
			require.NoError(t, rdb.RPush(ctx, "b", 0, 1, 2, 3).Err())
			require.NoError(t, rdb.RPush(ctx, "c", 0).Err())
			proxy.Set(faults)
			for i := range 60 {
				other, length := "c", int64(1)
				if i%20 == 19 {
					other, length = "b", 4 // a long one
				}
				cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.LRange(ctx, "a", 0, -1)
					return p.LLen(ctx, other).Err()
				})
				require.NoError(t, err)
				require.True(t, slices.Equal(long, cmds[0].(*redis.StringSliceCmd).Val()))
				require.Equal(t, length, cmds[1].(*redis.IntCmd).Val())
			}
			assert.Greater(t, proxy.Strikes(), int64(10))
			assert.Contains(t, server.Client(t).Info(ctx, "commandstats").Val(), "cmdstat_exec:", "they were tried as they are")
			proxy.Set(redistest.Faults{})
		})
	}
}

// Commands of many short lists are one round trip on a Conn and in Watch, too.
func TestHookCountsManyListsOnAConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	ctx, trips := t.Context(), &harness.RoundTrips{}
	rdb, prefix := hookedClient(t, server)
	rdb.AddHook(trips)
	fill := func(length int) (keys []string) {
		for i := range 20 {
			keys = append(keys, prefix+strconv.Itoa(i))
			require.NoError(t, rdb.RPush(ctx, keys[i], 1).Err())
		}
		require.NoError(t, rdb.RPush(ctx, keys[0], harness.Numbers(1, length)...).Err())
		return append(keys, prefix+"nothing")
	}
	use := func(counts func(keys ...string) (exist, touched, deleted *redis.IntCmd)) {
		for _, length := range []int{2, 9} {
			keys := fill(length)
			*trips = harness.RoundTrips{}
			exist, touched, deleted := counts(keys...)
			if length == 2 {
				assert.Equal(t, harness.RoundTrips{Commands: 3}, *trips)
			}
			assert.Equal(t, []int64{20, 20, 20}, []int64{exist.Val(), touched.Val(), deleted.Val()})
			assert.Zero(t, rdb.Exists(ctx, keys...).Val())
		}
	}
	conn := rdb.(*redis.Client).Conn()
	defer conn.Close()
	use(func(keys ...string) (exist, touched, deleted *redis.IntCmd) {
		return conn.Exists(ctx, keys...), conn.Touch(ctx, keys...), conn.Unlink(ctx, keys...)
	})
	use(func(keys ...string) (exist, touched, deleted *redis.IntCmd) {
		err := rdb.Watch(ctx, func(tx *redis.Tx) error {
			*trips = harness.RoundTrips{}
			exist, touched, deleted = tx.Exists(ctx, keys...), tx.Touch(ctx, keys...), tx.Del(ctx, keys...)
			return nil
		})
		require.NoError(t, err)
		return exist, touched, deleted
	})
}

// DEL of many lists is one step: who counts them finds all or none.
func TestHookDeletesManyListsInOneStep(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server)
		keys := make([]string, 100)
		for i := range keys {
			keys[i] = prefix + "{many}" + strconv.Itoa(i)
		}
		var reading sync.WaitGroup
		var stop atomic.Bool
		seen := map[int64]int{}
		reading.Go(func() {
			for !stop.Load() {
				count, err := rdb.Exists(ctx, keys...).Result()
				assert.NoError(t, err)
				seen[count]++
				if count != 0 && count != int64(len(keys)) {
					assert.Zero(t, count, "some are there")
					return
				}
			}
		})
		for i := range redistest.Times(30, 300) {
			_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range keys {
					p.RPush(ctx, key, harness.Numbers(0, 1+i%4)...)
				}
				return nil
			})
			require.NoError(t, err)
			assert.EqualValues(t, len(keys), rdb.Del(ctx, keys...).Val())
		}
		stop.Store(true)
		reading.Wait()
		assert.Positive(t, seen[0])
		assert.Positive(t, seen[int64(len(keys))], "it has looked between pushes and deletes")
	})
}

func TestHookRefusesWhatItCannotGive(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server)
		key := prefix + "{t}mail"
		require.NoError(t, rdb.RPush(ctx, key, "a").Err())
		for _, command := range [][]any{
			{"dump", key},
			{"restore", key, 0, "x"},
			{"move", key, 1},
			{"migrate", "host", 1, key, 0, 100},
			{"migrate", "host", 1, "", 0, 100, "KEYS", key},
			{"copy", key, prefix + "{t}copy", "DB", 1},
			{"sort", key},
			{"sort", "other", "store", key},
			{"sort_ro", key},
			{"eval", "return redis.call('rpush', KEYS[1], 1)", 1, key},
			{"eval", "return 1", 2, "other", key},
			{"evalsha", "0000", 1, key},
			{"fcall", "f", 1, key},
		} {
			err := rdb.Do(ctx, command...).Err()
			assert.ErrorIs(t, err, shardedlist.ErrUnsupported, "%v", command)
			_, err = rdb.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Do(ctx, command...).Err() })
			assert.ErrorIs(t, err, shardedlist.ErrUnsupported, "%v in a pipeline", command)
			cmds, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.RPush(ctx, key, "b")
				return p.Do(ctx, command...).Err()
			})
			assert.ErrorIs(t, err, shardedlist.ErrUnsupported, "%v in a transaction", command)
			assert.ErrorIs(t, cmds[0].Err(), shardedlist.ErrUnsupported)
		}
		assert.Equal(t, []string{"a"}, rdb.LRange(ctx, key, 0, -1).Val())
		assert.Equal(t, []string{"a"}, server.Client(t).LRange(ctx, key, 0, -1).Val())
	})
}

func TestHookRefusesOtherTypesAsRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server)
		plain := server.Client(t)

		text := prefix + "text"
		require.NoError(t, rdb.Set(ctx, text, "v", 0).Err(), "a key that matches may hold something else")
		for _, err := range []error{
			rdb.RPush(ctx, text, 1).Err(), rdb.LPop(ctx, text).Err(), rdb.LLen(ctx, text).Err(), rdb.LRange(ctx, text, 0, -1).Err(),
		} {
			assert.EqualError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value")
		}
		assert.Equal(t, "string", rdb.Type(ctx, text).Val())
		assert.Equal(t, int64(1), rdb.Exists(ctx, text).Val())
		assert.Equal(t, int64(1), rdb.Del(ctx, text).Val())
		assert.Equal(t, int64(1), rdb.RPush(ctx, text, 1).Val())

		for _, err := range []error{rdb.Get(ctx, text).Err(), rdb.Set(ctx, text, 1, 0).Err(), rdb.HSet(ctx, text, "f", 1).Err()} {
			assert.EqualError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value")
		}
		assert.Equal(t, "list", plain.Type(ctx, text).Val())
		require.NoError(t, rdb.Del(ctx, text).Err())
	})
}

// A plain list at a key that matches is from before the hook, or from a client without it. The first command takes it over, by itself,
// in a pipeline and in a transaction.
func TestHookTakesOverAPlainList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server)
		plain := server.Client(t)
		for name, first := range map[string]func(key string) error{
			"rpush":  func(key string) error { return rdb.RPush(ctx, key, "z").Err() },
			"lpop":   func(key string) error { return rdb.LPop(ctx, key).Err() },
			"llen":   func(key string) error { return rdb.LLen(ctx, key).Err() },
			"blpop":  func(key string) error { return rdb.BLPop(ctx, time.Minute, key).Err() },
			"lrange": func(key string) error { return rdb.LRange(ctx, key, 0, 1).Err() },
			"lrem":   func(key string) error { return rdb.LRem(ctx, key, 1, "5").Err() },
			"rename": func(key string) error { return rdb.Rename(ctx, key, key).Err() },
			"expire": func(key string) error { return rdb.Expire(ctx, key, time.Hour).Err() },
			"pipelined": func(key string) error {
				_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error { return p.RPush(ctx, key, "z").Err() })
				return err
			},
			"transaction": func(key string) error {
				_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
					p.LPop(ctx, key)
					return p.RPush(ctx, key, "z").Err()
				})
				return err
			},
		} {
			key := prefix + name
			require.NoError(t, plain.RPush(ctx, key, harness.Numbers(0, 100)...).Err())
			require.NoError(t, first(key), name)
			require.NoError(t, rdb.RPush(ctx, key, "end").Err(), name)
			assert.Zero(t, plain.Exists(ctx, key).Val(), name)
			assert.Equal(t, "end", rdb.LIndex(ctx, key, -1).Val(), name)
			assert.InDelta(t, 101, rdb.LLen(ctx, key).Val(), 1, name)
			require.NoError(t, harness.OpenList(t, plain, key).Check(ctx), name)
			require.NoError(t, rdb.Del(ctx, key).Err())
		}
	})
}

// What clients without the hook push while the list has elements is taken over when it has none.
func TestHookTakesOverWhatOthersPush(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server)
		plain, key := server.Client(t), prefix+"jobs"
		require.NoError(t, rdb.RPush(ctx, key, "a", "b").Err())
		require.NoError(t, plain.RPush(ctx, key, "c", "d").Err())
		for _, want := range []string{"a", "b", "c", "d"} {
			assert.Equal(t, want, rdb.LPop(ctx, key).Val())
		}
		assert.ErrorIs(t, rdb.LPop(ctx, key).Err(), redis.Nil)
		assert.Zero(t, plain.Exists(ctx, key).Val())

		popped := make(chan []string)
		go func() { popped <- rdb.BLPop(ctx, time.Minute, key).Val() }()
		harness.Armed(t, harness.OpenList(t, plain, key))
		require.NoError(t, plain.RPush(ctx, key, "e").Err()) // nobody rings: the consumer looks when its BLPOP ends
		assert.Equal(t, []string{key, "e"}, <-popped)
	})
}

// A list of more shards than one step visits gets and loses its expiry as well, and what is no list its own.
func TestHookExpiresWhatIsLongAndWhatIsNoList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, prefix := hookedClient(t, server)
		key, text := prefix+"{tag}mail", prefix+"{tag}text"
		require.NoError(t, rdb.RPush(ctx, key, harness.Numbers(0, 1000)...).Err())
		require.NoError(t, rdb.Set(ctx, text, "v", 0).Err())
		list := harness.OpenList(t, server.Client(t), key)
		for name, together := range map[string]func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
			"pipeline": rdb.Pipelined, "transaction": rdb.TxPipelined,
		} {
			for _, hours := range []time.Duration{1, 1000} { // the shards must be visited first for the second
				cmds, err := together(ctx, func(p redis.Pipeliner) error {
					p.Expire(ctx, key, hours*time.Hour)
					p.Expire(ctx, text, hours*time.Hour)
					return nil
				})
				require.NoError(t, err, name)
				for i, key := range []string{key, text} {
					assert.True(t, cmds[i].(*redis.BoolCmd).Val(), name)
					assert.InDelta(t, hours*time.Hour, rdb.TTL(ctx, key).Val(), float64(time.Minute), name)
				}
				require.NoError(t, list.Check(ctx))
			}
			cmds, err := together(ctx, func(p redis.Pipeliner) error {
				p.Persist(ctx, key)
				p.Persist(ctx, text)
				p.PTTL(ctx, text)
				return nil
			})
			require.NoError(t, err, name)
			assert.True(t, cmds[0].(*redis.BoolCmd).Val(), name)
			assert.True(t, cmds[1].(*redis.BoolCmd).Val(), name)
			assert.EqualValues(t, -1, cmds[2].(*redis.DurationCmd).Val(), name)
			assert.EqualValues(t, -1, rdb.TTL(ctx, key).Val(), name)
			require.NoError(t, list.Check(ctx))
		}
		assert.True(t, rdb.Expire(ctx, key, 0).Val())
		assert.Zero(t, rdb.Exists(ctx, key).Val())
		assert.EqualValues(t, -2, rdb.TTL(ctx, key).Val())
	})
}

func TestGlobMatchesAsRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb, ctx := server.Client(t), t.Context()
	random := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, most int) string {
		w := make([]byte, random.IntN(most))
		for i := range w {
			w[i] = letters[random.IntN(len(letters))]
		}
		return string(w)
	}
	for range 3000 {
		key, pattern := word("abc-]^\\\xff", 6), word("abc-[]^*?\\\xff", 8)
		var keys *redis.StringSliceCmd
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, key, 1, 0)
			keys = p.Keys(ctx, pattern)
			return p.Del(ctx, key).Err()
		})
		require.NoError(t, err)
		require.Equal(t, len(keys.Val()) == 1, shardedlist.Match(pattern)(key), "pattern %q, key %q", pattern, key)
	}
}

// Pops that a pipeline or a transaction joins into one take what they want over any number of shards.
func TestJoinedPopsGoOverShards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*"), shardedlist.WithCapacity(3)))
		const pops = 10
		for _, pipeline := range []func() redis.Pipeliner{rdb.Pipeline, rdb.TxPipeline} {
			key := uuid.NewString()
			require.NoError(t, rdb.RPush(t.Context(), key, harness.Numbers(0, pops)...).Err())
			pipe := pipeline()
			var popped [pops]*redis.StringCmd
			for i := range popped {
				popped[i] = pipe.LPop(t.Context(), key)
			}
			_, err := pipe.Exec(t.Context())
			require.NoError(t, err)
			for i, cmd := range popped {
				assert.Equal(t, strconv.Itoa(i), cmd.Val())
			}
		}
	})
}
