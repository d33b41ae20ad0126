package hook

import (
	"context"
	"fmt"
	"slices"
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

// scanned returns what SCAN yields on all nodes, each key as often as it does.
func scanned(t *testing.T, rdb redis.UniversalClient, scan func(node redis.UniversalClient) *redis.ScanCmd) (keys []string) {
	var mu sync.Mutex
	collect := func(ctx context.Context, node redis.UniversalClient) error {
		found := scan(node).Iterator()
		mu.Lock()
		defer mu.Unlock()
		for found.Next(ctx) {
			keys = append(keys, found.Val())
		}
		return found.Err()
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		require.NoError(t, cluster.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error { return collect(ctx, node) }))
	} else {
		require.NoError(t, collect(t.Context(), rdb))
	}
	slices.Sort(keys)
	return keys
}

// KEYS and SCAN have each list under its name, whatever its form, and none of the keys that it is stored in.
func TestHookListsListsByTheirNames(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Embedded) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Start(t, kind), t.Context()
			rdb := hookOn(t, server, "queue:*")
			require.NoError(t, rdb.RPush(ctx, "queue:short", 1).Err())
			require.NoError(t, rdb.RPush(ctx, "queue:long", harness.Numbers(0, 9)...).Err())
			require.NoError(t, rdb.RPush(ctx, "queue:{tag}:old", harness.Numbers(0, 9)...).Err())
			require.NoError(t, rdb.Rename(ctx, "queue:{tag}:old", "queue:{tag}:renamed").Err())
			require.NoError(t, rdb.RPush(ctx, "queue:expires", harness.Numbers(0, 9)...).Err())
			require.NoError(t, rdb.PExpire(ctx, "queue:expires", 1).Err())
			require.NoError(t, rdb.RPush(ctx, "queue:empty", harness.Numbers(0, 9)...).Err())
			require.NoError(t, rdb.LPopCount(ctx, "queue:empty", 9).Err())
			require.NoError(t, rdb.Set(ctx, "queue:setting", 1, 0).Err())
			require.NoError(t, rdb.Set(ctx, "other", 1, 0).Err())
			require.NoError(t, rdb.RPush(ctx, "plain", harness.Numbers(0, 9)...).Err())
			spread, err := shardedlist.New(rdb, "queue:spread", shardedlist.WithParts(4))
			require.NoError(t, err)
			_, err = spread.RPush(ctx, harness.Numbers(0, 9)...)
			require.NoError(t, err)
			require.Eventually(t, func() bool { return rdb.Exists(ctx, "queue:expires").Val() == 0 }, 10*time.Second, time.Millisecond)

			lists := []string{"queue:long", "queue:short", "queue:spread", "queue:{tag}:renamed"}
			queues := append([]string{"queue:setting"}, lists...)
			slices.Sort(queues)
			all := append([]string{"other", "plain"}, queues...)
			listsOfAll := append([]string{"plain"}, lists...)
			for _, count := range []int64{0, 1, 3, 1000} {
				assert.Equal(t, all, scanned(t, rdb, func(n redis.UniversalClient) *redis.ScanCmd { return n.Scan(ctx, 0, "", count) }))
				assert.Equal(t, queues, scanned(t, rdb, func(n redis.UniversalClient) *redis.ScanCmd { return n.Scan(ctx, 0, "queue:*", count) }))
				assert.Equal(t, listsOfAll, scanned(t, rdb, func(n redis.UniversalClient) *redis.ScanCmd { return n.ScanType(ctx, 0, "", count, "list") }))
			}
			assert.Equal(t, []string{"queue:long"}, scanned(t, rdb, func(n redis.UniversalClient) *redis.ScanCmd { return n.Scan(ctx, 0, "queue:l?n[a-g]", 10) }))
			assert.Empty(t, scanned(t, rdb, func(n redis.UniversalClient) *redis.ScanCmd { return n.ScanType(ctx, 0, "queue:*", 10, "hash") }))
			if kind == redistest.Cluster {
				return // elsewhere KEYS is of one server
			}
			sorted := func(keys []string) []string { return slices.Sorted(slices.Values(keys)) }
			assert.Equal(t, all, sorted(rdb.Keys(ctx, "*").Val()))
			assert.Equal(t, queues, sorted(rdb.Keys(ctx, "queue:*").Val()))
			assert.Equal(t, []string{"queue:long"}, rdb.Keys(ctx, "queue:long").Val())
			assert.Empty(t, rdb.Keys(ctx, "none").Val())
			for name, together := range map[string]func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
				"pipeline": rdb.Pipelined, "transaction": rdb.TxPipelined,
			} {
				var keys, once *redis.StringSliceCmd
				var page, further *redis.ScanCmd
				var pushed *redis.IntCmd
				_, err := together(ctx, func(p redis.Pipeliner) error {
					once = p.Keys(ctx, "queue:l*")
					page = p.Scan(ctx, 0, "queue:*", 1000)
					pushed = p.RPush(ctx, "queue:long", name)
					further = p.Scan(ctx, 1<<63, "queue:*", 1000)
					keys = p.Keys(ctx, "queue:*")
					return nil
				})
				require.NoError(t, err, name)
				assert.Equal(t, []string{"queue:long"}, once.Val(), name)
				assert.NotZero(t, pushed.Val(), name)
				assert.Equal(t, queues, sorted(keys.Val()), name)
				first, cursor := page.Val()
				assert.EqualValues(t, uint64(1<<63), cursor, name)
				second, cursor := further.Val()
				assert.Zero(t, cursor, name)
				assert.Equal(t, queues, sorted(append(first, second...)), name)
			}
			raw, err := rdb.Do(ctx, "SCAN", "9223372036854775808", "MATCH", "queue:l*").Slice()
			require.NoError(t, err)
			assert.Equal(t, []any{"0", []any{"queue:long"}}, raw)
			slice := redis.NewSliceCmd(ctx, "keys", "queue:sh*")
			require.NoError(t, rdb.Process(ctx, slice))
			assert.Equal(t, []any{"queue:short"}, slice.Val())
			assert.ErrorContains(t, rdb.Do(ctx, "scan", "x").Err(), "invalid cursor")
			assert.Error(t, rdb.Do(ctx, "scan", 0, "match").Err())
		})
	}
}

// A list that is there all the time is found, however often it becomes long and short meanwhile.
func TestScanFindsListsThatBecomeLongAndShort(t *testing.T) {
	t.Parallel()
	realServers(t, func(t *testing.T, server *redistest.Server) {
		assert.Empty(t, missed(t, server, redistest.Times(10, 40)))
		require.NoError(t, server.Client(t).FlushAll(t.Context()).Err())
		broken := harness.NewRewriter("redis.pcall('SET', PREFIX .. 'short.meta', '', 'EX', 3600)\n", "")
		assert.NotEmpty(t, missed(t, server, 1000, broken), "without the mark")
	})
}

// missed returns the lists that a scan does not find, of up to so many.
func missed(t *testing.T, server *redistest.Server, rounds int, hooks ...redis.Hook) (missed []string) {
	const lists = 8
	ctx, cancel := context.WithCancel(t.Context())
	busy, rdb := server.Client(t), hookOn(t, server, "queue:*")
	for _, hook := range hooks {
		busy.AddHook(hook)
	}
	for i := range 2000 {
		require.NoError(t, rdb.Set(ctx, fmt.Sprint("other:", i), i, 0).Err())
	}
	var flipping sync.WaitGroup
	defer flipping.Wait()
	defer cancel()
	for i := range lists {
		list := harness.OpenList(t, busy, fmt.Sprint("queue:", i), shardedlist.WithCapacity(2), shardedlist.WithPoppedAt("LEFT"))
		_, err := list.RPush(ctx, "first")
		require.NoError(t, err)
		flipping.Go(func() {
			for ctx.Err() == nil {
				_, _ = list.RPush(ctx, "b", "c", "d")
				_, _ = list.LPopCount(ctx, 3)
			}
		})
	}
	for range rounds {
		byHook := scanned(t, rdb, func(n redis.UniversalClient) *redis.ScanCmd { return n.Scan(ctx, 0, "queue:*", 100) })
		var byScan []string
		for name, err := range shardedlist.Scan(ctx, rdb, "queue:*") {
			require.NoError(t, err)
			byScan = append(byScan, name)
		}
		for i := range lists {
			name := fmt.Sprint("queue:", i)
			if !slices.Contains(byHook, name) {
				missed = append(missed, "SCAN: "+name)
			}
			if !slices.Contains(byScan, name) {
				missed = append(missed, "Scan: "+name)
			}
		}
		if len(missed) > 0 {
			break
		}
	}
	t.Log(strings.Join(missed, ", "))
	return missed
}
