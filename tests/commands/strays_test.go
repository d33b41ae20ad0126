package commands

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A list whose meta somebody deletes is empty, and nothing notices its shards but Check and DelStrays.
func TestShardsOfALostMetaAreFoundAndDeleted(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 5001)...)
		require.NoError(t, err)
		require.NoError(t, rdb.Del(t.Context(), harness.Keys(list).Meta).Err())

		assert.Zero(t, lengthOf(t, list))
		existed, err := list.Del(t.Context())
		require.NoError(t, err)
		assert.False(t, existed, "Del looks at meta only")
		assertStrays(t, list, "0..2500 (2501 in all)")

		_, err = list.RPush(t.Context(), "a", "b", "c", "d", "e")
		require.NoError(t, err)
		assertStrays(t, list, "0..2500 (2501 in all)")
		deleted, err := list.DelStrays(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2501, deleted)
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, harness.Content(t, list))
		assert.Len(t, harness.KeysOfList(t, list), 4, "meta and three shards")
		require.NoError(t, list.Check(t.Context()))

		deleted, err = list.DelStrays(t.Context())
		require.NoError(t, err)
		assert.Zero(t, deleted)
	})
}

// Eviction takes meta as it takes any key. Whatever shards it leaves are found.
func TestShardsOfAnEvictedMetaAreFoundAndDeleted(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		for _, policy := range []string{"allkeys-random", "allkeys-lru"} {
			t.Run(string(kind)+"/"+policy, func(t *testing.T) {
				t.Parallel()
				rdb := redistest.Start(t, kind, "maxmemory-policy "+policy).Client(t)
				list := harness.NewList(t, rdb, shardedlist.WithCapacity(2), shardedlist.WithoutExactlyOnce())
				left := []string{}
				for len(left) == 0 { // again if meta was the last to go
					_, err := list.RPush(t.Context(), harness.Numbers(0, 1000)...)
					require.NoError(t, err)
					evictMeta(t, list)
					left = harness.KeysOfList(t, list)
				}

				assert.Zero(t, lengthOf(t, list))
				assertStrays(t, list, fmt.Sprintf("(%d in all)", len(left)))
				_, err := list.RPush(t.Context(), "a", "b", "c")
				require.NoError(t, err)
				_, err = list.DelStrays(t.Context())
				require.NoError(t, err)
				assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, list))
				assert.Len(t, harness.KeysOfList(t, list), 3, "meta and two shards")
			})
		}
	}
}

// evictMeta fills the memory of the list's server until that has evicted meta.
func evictMeta(t *testing.T, list *shardedlist.ShardedList) {
	t.Helper()
	ctx := t.Context()
	master, err := script.Master(ctx, harness.Client(list), harness.Keys(list).Meta)
	require.NoError(t, err)
	node := master.(*redis.Client)
	var used int64
	memory := node.Info(ctx, "memory").Val()
	_, err = fmt.Sscanf(memory[strings.Index(memory, "used_memory:"):], "used_memory:%d", &used)
	require.NoError(t, err)
	require.NoError(t, node.ConfigSet(ctx, "maxmemory", fmt.Sprint(used+1<<15)).Err())
	filler := strings.TrimSuffix(harness.Keys(list).Prefix, ":") + "filler"
	for i := 0; node.Exists(ctx, harness.Keys(list).Meta).Val() == 1; i++ {
		require.Less(t, i, 1_000_000)
		require.NoError(t, node.Set(ctx, fmt.Sprint(filler, i), strings.Repeat("x", 100), 0).Err())
	}
	require.NoError(t, ctx.Err())
	require.NoError(t, node.ConfigSet(ctx, "maxmemory", "0").Err())
	assert.NotContains(t, node.Info(ctx, "stats").Val(), "evicted_keys:0\r")
}

// A shard that a list has taken into use since SCAN found it is not deleted, nor is any other key.
func TestDelStraysDeletesStraysOnly(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		other := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		rdb, scans := observeScans(server.Client(t))
		list, err := shardedlist.New(rdb, other.Name())
		require.NoError(t, err)
		_, err = list.RPush(t.Context(), harness.Numbers(0, 800)...)
		require.NoError(t, err)
		existed, err := list.Del(t.Context())
		require.NoError(t, err)
		require.True(t, existed)
		_, err = list.Del(t.Context())
		require.NoError(t, err)
		assert.Zero(t, scans.count.Load(), "Del never scans")

		_, err = other.RPush(t.Context(), harness.Numbers(0, 1000)...) // shards 0 to 499
		require.NoError(t, err)
		shards := strings.TrimSuffix(harness.Shard(other, t.Context(), 0), "0")
		meta := rdb.HGetAll(t.Context(), harness.Keys(other).Meta).Val()
		require.NoError(t, harness.Client(other).Del(t.Context(), harness.Keys(other).Meta).Err())
		foreign := []string{harness.Keys(other).Prefix + "7", harness.Keys(other).Prefix + "#7:0"}
		for _, suffix := range []string{"007", "+7", "-0", "x", "7x", "7:0", "1e3", "99999999999999999999"} {
			foreign = append(foreign, shards+suffix)
		}
		for _, key := range foreign {
			require.NoError(t, harness.Client(other).RPush(t.Context(), key, "x").Err())
		}
		require.NoError(t, harness.Client(other).HSet(t.Context(), shards+"777", "a", "hash").Err())

		scans.then = func() { // somebody restores meta, for a part of the shards
			words := strings.SplitN(meta["layout"], " ", 6)
			words[harness.LastID] = "399"
			meta["layout"] = strings.Join(words, " ")
			assert.NoError(t, harness.Client(other).HSet(t.Context(), harness.Keys(other).Meta, meta).Err())
		}
		deleted, err := list.DelStrays(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 100, deleted)
		assert.Equal(t, harness.Words(harness.Numbers(0, 800)), harness.Content(t, other))
		for _, key := range append(foreign, shards+"777") {
			assert.EqualValues(t, 1, harness.Client(other).Exists(t.Context(), key).Val(), key)
		}
		assert.Positive(t, scans.shards.Load())
		assert.LessOrEqual(t, scans.shards.Load(), int64(100), "one step is bounded")
	})
}

// A list that has been renamed keeps the keys of its shards, also those that it has still to unlink.
func TestTheShardsOfARenamedListAreNotStray(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := "{" + harness.UniqueName(t) + "}"
		rdb := server.Client(t)
		list, renamed := harness.OpenList(t, rdb, name+"a", shardedlist.WithCapacity(1)), harness.OpenList(t, rdb, name+"b")
		_, err := list.RPush(t.Context(), harness.Numbers(0, 500)...)
		require.NoError(t, err)
		require.NoError(t, list.LTrim(t.Context(), 300, -1))
		require.NoError(t, list.Rename(t.Context(), renamed.Name()))
		_, err = list.RPush(t.Context(), "new")
		require.NoError(t, err)

		require.NoError(t, list.Check(t.Context()))
		deleted, err := list.DelStrays(t.Context())
		require.NoError(t, err)
		assert.Zero(t, deleted)
		assert.Equal(t, harness.Words(harness.Numbers(300, 500)), harness.Content(t, renamed))
		assert.Equal(t, []string{"new"}, harness.Content(t, list))
		require.NoError(t, renamed.Check(t.Context()))

		require.NoError(t, rdb.Del(t.Context(), harness.Keys(renamed).Meta).Err())
		deleted, err = list.DelStrays(t.Context())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, deleted, int64(200))
		assert.Equal(t, []string{"new"}, harness.Content(t, list))
	})
}

// A list may have a name that begins as the keys of the shards of another one do. Renamed to that one, it keeps its shards.
func TestTheShardsOfAListWithAMisleadingNameAreNotStray(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, ctx := server.Client(t), t.Context()
		for _, suffix := range []string{":#tmp", ":#abc.1", ":#", ":#a:"} {
			name := "{" + harness.UniqueName(t) + "}x"
			list, renamed := harness.OpenList(t, rdb, name+suffix, shardedlist.WithCapacity(1)), harness.OpenList(t, rdb, name)
			_, err := list.RPush(ctx, "a", "b", "c")
			require.NoError(t, err)
			require.NoError(t, list.Rename(ctx, name))
			for range 2 { // before and after the pointers are written
				require.NoError(t, list.Check(ctx), suffix)
				deleted, err := list.DelStrays(ctx)
				require.NoError(t, err)
				assert.Zero(t, deleted, suffix)
				require.NoError(t, renamed.Check(ctx), suffix)
				_, err = renamed.RPush(ctx, "d")
				require.NoError(t, err)
			}
			assert.Equal(t, []string{"a", "b", "c", "d", "d"}, harness.Content(t, renamed), suffix)
		}
	})
}

// The search ends with its context, in the middle.
func TestDelStraysAndCheckHonourTheContext(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, scans := observeScans(server.Client(t))
		list, err := shardedlist.New(rdb, harness.UniqueName(t), shardedlist.WithCapacity(1))
		require.NoError(t, err)
		_, err = list.RPush(t.Context(), harness.Numbers(0, 5000)...)
		require.NoError(t, err)
		for name, call := range map[string]func(context.Context) error{
			"delstrays": func(ctx context.Context) error { return harness.ErrorOf(list.DelStrays(ctx)) },
			"check":     list.Check,
		} {
			before := scans.count.Load()
			ctx, cancel := context.WithCancel(t.Context())
			scans.then = cancel
			assert.ErrorIs(t, call(ctx), context.Canceled, name)
			assert.LessOrEqual(t, scans.count.Load(), before+2, name) // the second one fails
		}
		require.NoError(t, list.Check(t.Context()))
	})
}

// scanObserver counts the SCANs of a client, and the most shards that a script which looks for strays is given.
type scanObserver struct {
	count, shards atomic.Int64
	then          func() // called once, after a SCAN
}

func observeScans(rdb redis.UniversalClient) (redis.UniversalClient, *scanObserver) {
	o := &scanObserver{}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(o) })
	} else {
		rdb.AddHook(o)
	}
	return rdb, o
}

func (o *scanObserver) DialHook(next redis.DialHook) redis.DialHook { return next }

func (o *scanObserver) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (o *scanObserver) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 5 && args[5] == "unlink" {
			o.shards.Store(max(o.shards.Load(), int64(len(args)-8)))
		}
		err := next(ctx, cmd)
		if cmd.Name() == "scan" {
			o.count.Add(1)
			if then := o.then; then != nil {
				o.then = nil
				then()
			}
		}
		return err
	}
}

// assertStrays asserts that Check finds nothing but stray shards, and ends their description with these words.
func assertStrays(t *testing.T, list *shardedlist.ShardedList, words string) {
	t.Helper()
	err := list.Check(t.Context())
	require.ErrorIs(t, err, shardedlist.ErrBroken)
	assert.Regexp(t, `^shardedlist: check .*: list is broken: stray shards, which no meta knows: .*`+regexp.QuoteMeta(words)+`$`, err.Error())
}

func lengthOf(t *testing.T, list *shardedlist.ShardedList) int64 {
	t.Helper()
	length, err := list.LLen(t.Context())
	require.NoError(t, err)
	return length
}
