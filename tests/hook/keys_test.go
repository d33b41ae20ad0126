package hook

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/scan"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// realServers runs a test on a Redis and a Valkey of its own.
func realServers(t *testing.T, test func(t *testing.T, server *redistest.Server)) {
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t, kind))
		})
	}
}

// hookOn returns a client of the server with the hook on keys that match the pattern.
func hookOn(t *testing.T, server *redistest.Server, pattern string, configure ...func(*redis.UniversalOptions)) redis.UniversalClient {
	rdb := server.Client(t, configure...)
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(pattern), shardedlist.WithCapacity(2)))
	return rdb
}

// What go-redis sends on a new connection has no keys, whatever the words in it.
func TestHookConnectsWhateverThePatternMatches(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		require.NoError(t, server.Client(t).Do(ctx, "acl", "setuser", "s3", "on", ">s3", "~*", "&*", "+@all").Err())
		for _, protocol := range []int{2, 3} {
			for _, pattern := range []string{"*", "s*", "m*", "[0-9]*"} {
				t.Run(fmt.Sprintf("%s, RESP%d", pattern, protocol), func(t *testing.T) {
					rdb := hookOn(t, server, pattern, func(o *redis.UniversalOptions) {
						o.Protocol, o.Username, o.Password, o.DB, o.ClientName = protocol, "s3", "s3", 1, "sm1"
					})
					for _, key := range []string{"s" + uuid.NewString(), "m" + uuid.NewString(), "1" + uuid.NewString()} {
						require.NoError(t, rdb.RPush(ctx, key, "a", "b", "c").Err())
						assert.Equal(t, "a", rdb.LPop(ctx, key).Val())
						for _, together := range []func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){rdb.Pipelined, rdb.TxPipelined} {
							_, err := together(ctx, func(p redis.Pipeliner) error {
								p.RPush(ctx, key, "d")
								p.LPop(ctx, key)
								p.Publish(ctx, "s", "m")
								return nil
							})
							require.NoError(t, err)
						}
						assert.Equal(t, []string{"d", "d"}, rdb.LRange(ctx, key, 0, -1).Val())
						require.NoError(t, rdb.Del(ctx, key).Err())
					}
					assert.Equal(t, "sm1", rdb.ClientGetName(ctx).Val())
				})
			}
		}
	})
}

func TestHookLetsCommandsWithoutKeysPass(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb, plain := hookOn(t, server, "*"), server.Client(t)
		require.NoError(t, rdb.RPush(ctx, "L", "a").Err())
		for _, command := range [][]any{
			{"memory", "doctor"}, {"memory", "purge"}, {"memory", "help"}, {"object", "help"}, {"xinfo", "help"},
			{"memory", "doctor", "L"}, {"object", "help", "L"},
			{"object"}, {"object", "foo"}, {"object", "foo", "L"}, {"object", "encoding"}, {"memory", "usage"}, {"memory", "foo", "L"},
			{"object", "encoding", "L", "L"}, {"echo", "L"}, {"keys", "nothing"}, {"no-such-command", "L"}, {"config", "get", "save"},
		} {
			want, wantErr := plain.Do(ctx, command...).Result()
			got, err := rdb.Do(ctx, command...).Result()
			assert.Equal(t, want, got, "%v", command)
			assert.Equal(t, wantErr, err, "%v", command)
		}
		assert.NoError(t, rdb.Do(ctx, "memory", "stats").Err())
		assert.NoError(t, rdb.Do(ctx, []byte("LLEN"), []byte("L")).Err())
	})
}

// A MULTI that is a command of a pipeline has replies that the hook could not read.
func TestHookRefusesAHandWrittenTransaction(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb := hookOn(t, server, "q*")
		for _, key := range []string{"q", "other"} {
			cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Do(ctx, "multi")
				p.RPush(ctx, key, "a")
				p.Do(ctx, "exec")
				return nil
			})
			if key == "other" {
				assert.NotErrorIs(t, err, shardedlist.ErrUnsupported, "go-redis's own")
				continue
			}
			assert.ErrorIs(t, err, shardedlist.ErrUnsupported)
			for _, cmd := range cmds {
				assert.ErrorIs(t, cmd.Err(), shardedlist.ErrUnsupported)
			}
		}
		assert.Zero(t, rdb.Exists(ctx, "q").Val())
		assert.EqualValues(t, 1, rdb.Exists(ctx, "other").Val())
	})
}

// List commands take connections of their own. So a connection cannot be told to do something else with what follows.
func TestHookRefusesWhatListCommandsWouldNotFollow(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb := hookOn(t, server, "q*")
		require.NoError(t, rdb.RPush(ctx, "q", "a").Err())
		for _, command := range [][]any{{"select", 1}, {"SELECT", "1"}, {"multi"}} {
			assert.ErrorIs(t, rdb.Do(ctx, command...).Err(), shardedlist.ErrUnsupported, command)
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Do(ctx, command...)
				p.RPush(ctx, "q", "b")
				return nil
			})
			assert.ErrorIs(t, err, shardedlist.ErrUnsupported, command)
		}
		if single, ok := rdb.(*redis.Client); ok {
			conn := single.Conn()
			defer conn.Close()
			assert.ErrorIs(t, conn.Select(ctx, 1).Err(), shardedlist.ErrUnsupported)
			assert.NoError(t, conn.Select(ctx, 0).Err())
			assert.ErrorIs(t, conn.Do(ctx, "multi").Err(), shardedlist.ErrUnsupported)
			assert.Equal(t, []string{"a"}, conn.LRange(ctx, "q", 0, -1).Val())

			options := *single.Options()
			options.DB = 1
			other := redis.NewClient(&options)
			defer other.Close()
			other.AddHook(shardedlist.NewHook(other, shardedlist.Match("q*")))
			require.NoError(t, other.RPush(ctx, "q", "of 1").Err())
			assert.Equal(t, []string{"of 1"}, other.LRange(ctx, "q", 0, -1).Val())
			require.NoError(t, other.Del(ctx, "q").Err())
		}
		assert.Equal(t, []string{"a"}, rdb.LRange(ctx, "q", 0, -1).Val())
	})
}

// A key that is watched has changed: the transaction is not carried out, also if the server has lost the functions meanwhile.
func TestHookWatchesThroughRepetitions(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.Start(t, kind)
			rdb := hookOn(t, server, "{q}*")
			admin := server.Client(t)
			for i := range 4 {
				err := rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) error {
					if i%2 == 1 {
						require.NoError(t, scan.EachMaster(ctx, admin, func(ctx context.Context, master redis.UniversalClient) error {
							return master.Do(ctx, "function", "flush", "sync").Err()
						}))
					}
					if i >= 2 {
						require.NoError(t, admin.Incr(ctx, "n{q}").Err())
					}
					_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
						p.RPush(ctx, "{q}", i)
						p.Incr(ctx, "n{q}")
						return nil
					})
					return err
				}, "n{q}")
				if i >= 2 {
					assert.ErrorIs(t, err, redis.TxFailedErr, i)
				}
				t.Log(i, err)
			}
			assert.Subset(t, []string{"0", "1"}, rdb.LRange(ctx, "{q}", 0, -1).Val())
		})
	}
}

func TestNilArgumentsAreErrors(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		rdb := server.Client(t)
		list := harness.OpenList(t, rdb, "q")
		require.NoError(t, harness.ErrorOf(list.RPush(ctx, "a")))
		_, err := list.LMove(ctx, nil, "LEFT", "LEFT")
		assert.ErrorIs(t, err, shardedlist.ErrNilList)
		_, err = list.BLMove(ctx, nil, "LEFT", "LEFT", time.Second)
		assert.ErrorIs(t, err, shardedlist.ErrNilList)
		for _, lists := range [][]*shardedlist.ShardedList{{nil}, {nil, list}, {list, nil}} {
			_, _, err = shardedlist.LMPop(ctx, "LEFT", 1, lists...)
			assert.ErrorIs(t, err, shardedlist.ErrNilList)
			_, _, err = shardedlist.BLPop(ctx, time.Second, lists...)
			assert.ErrorIs(t, err, shardedlist.ErrNilList)
			_, _, err = shardedlist.BRPop(ctx, time.Second, lists...)
			assert.ErrorIs(t, err, shardedlist.ErrNilList)
		}
		assert.Equal(t, []string{"a"}, harness.Content(t, list))

		rdb.AddHook(shardedlist.NewHook(rdb, nil))
		for _, err := range []error{rdb.LPush(ctx, "q", 1).Err(), rdb.Set(ctx, "q", 1, 0).Err(), rdb.MGet(ctx, "q").Err()} {
			assert.ErrorIs(t, err, shardedlist.ErrNilMatch)
		}
		assert.NoError(t, rdb.Ping(ctx).Err())
		noClient := server.Client(t)
		noClient.AddHook(shardedlist.NewHook(nil, shardedlist.Match("q")))
		assert.ErrorIs(t, noClient.LPush(ctx, "q", 1).Err(), shardedlist.ErrNilClient)
		assert.NoError(t, noClient.Set(ctx, "other", 1, 0).Err())
	})
}

// No list stands in for the empty key: it has no room for a hash tag.
func TestTheEmptyKeyIsAPlainKey(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Start(t, kind), t.Context()
			rdb := hookOn(t, server, "*")
			require.NoError(t, rdb.Del(ctx, "").Err())
			require.NoError(t, rdb.RPush(ctx, "", "a", "b").Err())
			assert.Equal(t, "a", rdb.LPop(ctx, "").Val())
			assert.Equal(t, []string{"b"}, server.Client(t).LRange(ctx, "", 0, -1).Val())
			require.NoError(t, rdb.Del(ctx, "").Err())
		})
	}
}

// The keys that a list is stored in may match as well. What would break the list is refused, and what is not a list's is let be.
func TestHookGuardsTheKeysOfLists(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Shared(t, kind), t.Context()
			tag := "{" + uuid.NewString() + "}"
			rdb := hookOn(t, server, tag+"*")
			q := tag + ":q"
			require.NoError(t, rdb.RPush(ctx, q, "a", "b", "c").Err())
			keys, list := oneslot.KeysOf(q), harness.OpenList(t, server.Client(t), q)
			record := keys.Records() + uuid.NewString()
			for _, key := range []string{harness.Shard(list, ctx, 0), harness.Shard(list, ctx, -1), keys.Meta, keys.Bell, record, record + ":popped", record + ":7", keys.Release(uuid.NewString())} {
				for _, command := range [][]any{
					{"del", key}, {"unlink", tag + "other", key}, {"set", key, "x"}, {"hset", key, "first", "7"}, {"expire", key, 1},
					{"persist", key}, {"rename", key, tag + "other"}, {"rename", tag + "other", key}, {"copy", tag + "other", key},
					{"mset", tag + "other", 1, key, 2}, {"sunionstore", key, tag + "other"}, {"incr", key},
				} {
					err := rdb.Do(ctx, command...).Err()
					assert.ErrorIs(t, err, shardedlist.ErrUnsupported, "%v", command)
					cmds, _ := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error { p.Do(ctx, command...); return nil })
					assert.ErrorIs(t, cmds[0].Err(), shardedlist.ErrUnsupported, "%v in a transaction", command)
				}
				if _, sure := oneslot.Owner(key); sure {
					assert.ErrorIs(t, rdb.RPush(ctx, key, "x").Err(), shardedlist.ErrUnsupported, key)
				}
				assert.NoError(t, rdb.Exists(ctx, key).Err(), "reads pass")
				assert.NoError(t, rdb.Type(ctx, key).Err(), "reads pass")
			}
			layout, err := rdb.HGet(ctx, keys.Meta, "layout").Result()
			assert.NoError(t, err)
			assert.Equal(t, harness.Shard(list, ctx, 0), harness.ShardPrefix(layout, keys.Prefix)+"0", "reads pass")
			assert.Equal(t, []string{"a", "b", "c"}, rdb.LRange(ctx, q, 0, -1).Val())
			require.NoError(t, list.Check(ctx))

			for _, key := range []string{q + ":0", tag + ":jobs:0", tag + ":jobs:-7", tag + ":user:meta", tag + ":door:bell", tag + "plain:07"} {
				require.NoError(t, rdb.Set(ctx, key, "v", 0).Err(), "no list has it")
				require.NoError(t, rdb.Rename(ctx, key, key+"x").Err())
				require.NoError(t, rdb.Rename(ctx, key+"x", key).Err())
				assert.True(t, rdb.Expire(ctx, key, time.Minute).Val())
				assert.EqualValues(t, 1, rdb.Del(ctx, key).Val())
				require.NoError(t, rdb.RPush(ctx, key, "a", "b", "c").Err())
				assert.Equal(t, "a", rdb.LPop(ctx, key).Val())
				assert.EqualValues(t, 1, rdb.Del(ctx, key).Val())
			}
		})
	}
}

// In full duplex go-redis sends a command before it calls the hooks. It must not look as if all were well.
func TestHookRefusesFullDuplex(t *testing.T) {
	t.Parallel()
	fullDuplex := &redis.AutoPipelineOptions{FullDuplex: true}
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Shared(t, kind), t.Context()
			prefix := uuid.NewString()

			rdb := hookOn(t, server, prefix+"*")
			pipe, err := rdb.AutoPipelineWithOptions(fullDuplex)
			require.NoError(t, err)
			require.True(t, pipe.Config().FullDuplex)
			assert.ErrorIs(t, pipe.RPush(ctx, prefix, "a").Err(), shardedlist.ErrUnsupported)
			assert.NoError(t, pipe.Set(ctx, "not-"+prefix, "a", 0).Err())
			require.NoError(t, rdb.Del(ctx, prefix).Err())
			require.NoError(t, rdb.Del(ctx, "not-"+prefix).Err())

			async, err := rdb.AsyncAutoPipelineWithOptions(fullDuplex)
			require.NoError(t, err)
			assert.ErrorIs(t, async.RPush(ctx, prefix, "a").Err(), shardedlist.ErrUnsupported)

			known := hookOn(t, server, prefix+"*", func(o *redis.UniversalOptions) { o.AutoPipelineOptions = fullDuplex })
			assert.ErrorIs(t, known.RPush(ctx, prefix+"b", "a").Err(), shardedlist.ErrUnsupported)
			assert.Zero(t, server.Client(t).Exists(ctx, prefix+"b").Val(), "nothing was sent")

			half := hookOn(t, server, prefix+"*")
			ordered, err := half.AutoPipelineWithOptions(&redis.AutoPipelineOptions{})
			require.NoError(t, err)
			require.NoError(t, ordered.RPush(ctx, prefix+"c", "a", "b", "c").Err())
			assert.Equal(t, []string{"a", "b", "c"}, half.LRange(ctx, prefix+"c", 0, -1).Val())
			assert.Zero(t, server.Client(t).Exists(ctx, prefix+"c").Val())
			require.NoError(t, half.Del(ctx, prefix+"c").Err())
		})
	}
}

// A short list that a command names twice is found while its slot moves.
func TestHookTakesAKeyTwiceWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	rdb, ctx := hookOn(t, server, "{q}*"), t.Context()
	for command, want := range map[string]int64{"del": 1, "unlink": 1, "exists": 2, "touch": 2} {
		require.NoError(t, rdb.RPush(ctx, "{q}a", "a").Err())
		home, err := server.SlotOwner(ctx, script.Slot("{q}a"))
		require.NoError(t, err)
		tried := false
		require.NoError(t, server.MoveSlot(ctx, script.Slot("{q}a"), (home+1)%3, func(moved int) {
			if moved == 0 {
				tried = true
				n, err := rdb.Do(ctx, command, "{q}a", "{q}a").Int64()
				assert.NoError(t, err, command)
				assert.Equal(t, want, n, command)
			}
		}))
		assert.True(t, tried)
	}
}
