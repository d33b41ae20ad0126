package commands

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestInfo(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(4))
		info, err := list.Info(t.Context())
		require.NoError(t, err)
		assert.Equal(t, shardedlist.Info{Name: list.Name(), Last: -1, Slot: harness.Keys(list).Slot(), Mode: info.Mode}, info)
		assert.Regexp(t, "^(functions|scripts: the server has no functions)$", info.Mode)

		_, err = list.RPush(t.Context(), harness.Numbers(0, 10)...)
		require.NoError(t, err)
		_, err = list.LPush(t.Context(), "x")
		require.NoError(t, err)
		info, err = list.Info(t.Context())
		require.NoError(t, err)
		assert.Positive(t, info.Bytes)
		info.Bytes = 0
		assert.Equal(t, shardedlist.Info{Name: list.Name(), First: -1, Last: 2, Shards: 4, Capacity: 4, Length: 11, Slot: harness.Keys(list).Slot(), Mode: info.Mode}, info)
		assert.Regexp(t, "^(functions|scripts: the server has no functions)$", info.Mode)
	})
}

func TestInfoEstimatesTheBytesOfManyShards(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		rdb := redistest.Shared(t, kind).Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(10))
		value := strings.Repeat("x", 100)
		for range 100 {
			_, err := list.RPush(t.Context(), value, value, value, value, value)
			require.NoError(t, err)
		}
		info, err := list.Info(t.Context())
		require.NoError(t, err)
		var exact int64
		for id := info.First; id <= info.Last; id++ {
			exact += rdb.MemoryUsage(t.Context(), harness.Shard(list, t.Context(), id)).Val()
		}
		assert.InEpsilon(t, exact, info.Bytes, 0.02)
	}
}

// Check must be able to fail: each breach is made by hand, and must be named.
func TestCheckNamesEveryBreach(t *testing.T) {
	t.Parallel()
	breaches := map[string]func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList){
		"shard 1 is missing": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Del(t.Context(), harness.Shard(list, t.Context(), 1))
		},
		"shard 1 holds 2 elements, the capacity is 3": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.LPop(t.Context(), harness.Shard(list, t.Context(), 1))
		},
		"shard 1 holds 4 elements, the capacity is 3": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.LPush(t.Context(), harness.Shard(list, t.Context(), 1), "x")
		},
		"shard 0 is missing": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Del(t.Context(), harness.Shard(list, t.Context(), 0))
		},
		"shard 3 is missing": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Del(t.Context(), harness.Shard(list, t.Context(), 3))
		},
		"shard 2 is not a list": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Set(t.Context(), harness.Shard(list, t.Context(), 2), "x", 0)
		},
		"stray shards, which no meta knows: -1, 8..10 (4 in all)": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			for _, id := range []int64{9, 10, -1, 8} {
				rdb.LPush(t.Context(), harness.Shard(list, t.Context(), id), "x")
			}
		},
		"the bell holds 2 dummies": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.LPush(t.Context(), harness.Keys(list).Bell, 1, 1)
		},
		"the bell never expires": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.LPush(t.Context(), harness.Keys(list).Bell, 1)
		},
		"the bell is not a list": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Set(t.Context(), harness.Keys(list).Bell, 1, 0)
		},
		"the meta of a list with elements expires": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Expire(t.Context(), harness.Keys(list).Meta, 1e11)
		},
		"a list with elements is armed": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			harness.SetPointer(list, t.Context(), harness.Digit, "1")
		},
		"meta has the capacity 0": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			harness.SetPointer(list, t.Context(), harness.Capacity, "0")
		},
		"has no pointers": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			harness.SetPointer(list, t.Context(), harness.FirstID, "")
		},
		"first 7 is beyond last 3": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			harness.SetPointer(list, t.Context(), harness.FirstID, "7")
		},
		"shard 1 expires, the list does not": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Expire(t.Context(), harness.Shard(list, t.Context(), 1), time.Hour)
		},
		"meta has fields that its layout does not announce": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.HSet(t.Context(), harness.Keys(list).Meta, "expires", 1e15)
		},
		"the shards are to expire, the list is not": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.HSet(t.Context(), harness.Keys(list).Meta, "ttl", 1)
		},
		"the meta of an empty list never expires": func(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			harness.SetPointer(list, t.Context(), harness.FirstID, "4")
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for words, breach := range breaches {
			list, err := shardedlist.New(rdb, harness.UniqueName(t)+words, shardedlist.WithCapacity(3))
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), harness.Numbers(0, 11)...)
			require.NoError(t, err)
			require.NoError(t, list.Check(t.Context()))
			breach(t, rdb, list)
			err = list.Check(t.Context())
			assert.ErrorIs(t, err, shardedlist.ErrBroken)
			assert.ErrorContains(t, err, words)
		}
	})
}

// A push must not build on what is broken.
func TestAListWithoutACapacityIsAnError(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list, err := shardedlist.New(server.Client(t), harness.UniqueName(t), shardedlist.WithCapacity(2))
		require.NoError(t, err)
		_, err = list.RPush(t.Context(), "a", "b", "c")
		require.NoError(t, err)
		harness.SetPointer(list, t.Context(), harness.Capacity, "")
		_, err = list.RPush(t.Context(), "e")
		assert.ErrorIs(t, err, shardedlist.ErrBroken)
	})
}

// So must a look-up that starts from meta alone.
func TestAMetaThatIsBrokenIsAnError(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, field := range []int{harness.FirstID, harness.LastID, harness.Capacity, harness.Digit} {
			list, err := shardedlist.New(rdb, harness.UniqueName(t)+strconv.Itoa(field), shardedlist.WithCapacity(2))
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), "a", "b", "c")
			require.NoError(t, err)
			harness.SetPointer(list, t.Context(), field, "")
			for name, call := range map[string]func() error{
				"lindex": func() error { _, err := list.LIndex(t.Context(), 0); return err },
				"lrange": func() error { _, err := list.LRange(t.Context(), 0, 0); return err },
				"rpush":  func() error { _, err := list.RPush(t.Context(), "d"); return err },
				"lpop":   func() error { _, err := list.LPop(t.Context()); return err },
			} {
				assert.ErrorIs(t, call(), shardedlist.ErrBroken, "%s without word %d", name, field)
			}
		}
	})
}

// Even a broken list can be deleted.
func TestDelOfABrokenList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 6)...)
		require.NoError(t, err)
		require.NoError(t, rdb.Del(t.Context(), harness.Shard(list, t.Context(), 0)).Err())
		existed, err := list.Del(t.Context())
		require.NoError(t, err)
		assert.True(t, existed)
		assert.Empty(t, harness.KeysOfList(t, list))
	})
}

// A shard that something else removed must be reported, never be taken for the end of the list.
func TestAMissingShardIsAnError(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for id := range int64(3) {
			list, err := shardedlist.New(rdb, harness.UniqueName(t)+"READONLY TASK "+list3[id], shardedlist.WithCapacity(2)) // no word of an error is taken from the name
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), harness.Numbers(0, 6)...)
			require.NoError(t, err)
			require.NoError(t, rdb.Del(t.Context(), harness.Shard(list, t.Context(), id)).Err())
			before := len(harness.KeysOfList(t, list))

			_, err = list.LRange(t.Context(), 0, -1)
			assert.ErrorIs(t, err, shardedlist.ErrBroken)
			_, err = list.LPopCount(t.Context(), 6)
			assert.ErrorIs(t, err, shardedlist.ErrBroken)
			_, err = list.RPopCount(t.Context(), 6)
			assert.ErrorIs(t, err, shardedlist.ErrBroken)
			for _, err = range list.All(t.Context()) {
			}
			assert.ErrorIs(t, err, shardedlist.ErrBroken)
			if id == 1 {
				_, err = list.LIndex(t.Context(), 2)
				assert.ErrorIs(t, err, shardedlist.ErrBroken)
			} else {
				_, err = list.LLen(t.Context())
				assert.ErrorIs(t, err, shardedlist.ErrBroken)
				_, err = list.RPush(t.Context(), "x")
				assert.ErrorIs(t, err, shardedlist.ErrBroken)
				_, err = list.LPush(t.Context(), "x")
				assert.ErrorIs(t, err, shardedlist.ErrBroken)
			}
			assert.Len(t, harness.KeysOfList(t, list), before)
		}
	})
}

var list3 = [3]string{"first", "middle", "last"}
