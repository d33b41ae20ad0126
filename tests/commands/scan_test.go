package commands

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// scanned returns the names that Scan yields, sorted.
func scanned(t testing.TB, rdb redis.UniversalClient, match string) (names []string) {
	t.Helper()
	for name, err := range shardedlist.Scan(t.Context(), rdb, match) {
		require.NoError(t, err)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Whatever else there is, each list is found under its name, once.
func TestScanFindsEveryListOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		space := harness.UniqueName(t)
		var want []string
		push := func(name string, options ...shardedlist.Option) *shardedlist.ShardedList {
			list := harness.OpenList(t, rdb, name, options...)
			_, err := list.RPush(ctx, harness.Numbers(0, 7)...)
			require.NoError(t, err)
			return list
		}
		for _, odd := range append(slices.Clone(oddNames), "{user1}:jobs", "{jobs}", "x\x00\xff\n", "[*?]") {
			want = append(want, space+odd)
			push(space + odd)
		}
		for i := range 50 {
			name := space + ":many:" + strconv.Itoa(i)
			want = append(want, name)
			push(name, shardedlist.WithCapacity(1), shardedlist.WithParts(1+i%3))
		}
		renamed := push(space + "{tag}:old")
		require.NoError(t, renamed.Rename(ctx, space+"{tag}:new"))
		want = append(want, space+"{tag}:new")

		for _, list := range []*shardedlist.ShardedList{push(space + ":popped"), push(space+":spread and popped", shardedlist.WithParts(2))} {
			_, err := list.LPopCount(ctx, 7)
			require.NoError(t, err)
		}
		deleted := push(space+":spread and deleted", shardedlist.WithParts(2))
		_, err := deleted.Del(ctx)
		require.NoError(t, err)
		gone := push(space + ":expired")
		_, err = gone.PExpire(ctx, time.Millisecond)
		require.NoError(t, err)
		harness.Expired(t, gone)
		restored := push(space + ":restored")
		require.NoError(t, restored.Restore(ctx, nil))
		waits := harness.OpenList(t, rdb, space+":waits")
		harness.Arm(t, waits)
		require.NoError(t, rdb.RPush(ctx, space+":plain", "a").Err())
		require.NoError(t, rdb.HSet(ctx, "{"+space+":mine}:meta", "layout2", "3 0 0 1 0 x").Err())
		require.NoError(t, rdb.HSet(ctx, space+":mine:meta", "layout", "3 0 0 1 0 x").Err())
		require.NoError(t, rdb.Set(ctx, "{"+space+":string}:meta", "3 0 0 1 0 x", 0).Err())
		broken := openBroken(t, rdb, space+":broken")
		want = append(want, broken, restored.Name(), space+":plain")

		pattern := space + "*"
		slices.Sort(want)
		assert.Equal(t, want, scanned(t, rdb, pattern))
		hooked := server.Client(t)
		hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("*")))
		assert.Equal(t, want, scanned(t, hooked, pattern), "through the hook")
		assert.Equal(t, []string{space + ":many:4"}, scanned(t, rdb, space+":many:4"))
		assert.Equal(t, []string{space + "[*?]"}, scanned(t, rdb, space+`\[\*\?\]`))
		assert.Empty(t, scanned(t, rdb, space+":nothing"))
		assert.Equal(t, []string{space + ":plain"}, scanned(t, rdb, space+":plain"))
	})
}

// openBroken makes a list that lacks a shard, and returns its name.
func openBroken(t testing.TB, rdb redis.UniversalClient, name string) string {
	list, err := shardedlist.New(rdb, name, shardedlist.WithCapacity(1))
	require.NoError(t, err)
	_, err = list.RPush(t.Context(), "a", "b", "c")
	require.NoError(t, err)
	require.NoError(t, rdb.Del(t.Context(), harness.Shard(list, t.Context(), 2)).Err())
	return name
}

// A loop that ends early leaves nothing running, and a context that ends stops the scan.
func TestScanEnds(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for range 3 {
			list := harness.NewList(t, rdb)
			_, err := list.RPush(t.Context(), "a")
			require.NoError(t, err)
		}
		count := 0
		for _, err := range shardedlist.Scan(t.Context(), rdb, "*") {
			require.NoError(t, err)
			count++
			break
		}
		assert.Equal(t, 1, count)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for name, err := range shardedlist.Scan(ctx, rdb, "*") {
			assert.Empty(t, name)
			assert.ErrorIs(t, err, ctx.Err())
			count++
		}
		assert.Equal(t, 2, count)
	})
	for _, err := range shardedlist.Scan(t.Context(), nil, "*") {
		assert.ErrorIs(t, err, shardedlist.ErrNilClient)
	}
}

// A ring has lists on all servers that are up.
func TestScanOfARing(t *testing.T) {
	t.Parallel()
	addrs := map[string]string{}
	for _, name := range []string{"a", "b", "c"} {
		addrs[name] = redistest.Start(t, redistest.Embedded).Addr()
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
	t.Cleanup(func() { _ = ring.Close() })
	var want []string
	for i := range 30 {
		list := harness.NewList(t, ring)
		_, err := list.RPush(t.Context(), i)
		require.NoError(t, err)
		want = append(want, list.Name())
	}
	slices.Sort(want)
	assert.Equal(t, want, scanned(t, ring, "*"))
}

func TestScanThroughSentinel(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t, redistest.Sentinel).Client(t)
	list := harness.NewList(t, rdb)
	_, err := list.RPush(t.Context(), "a")
	require.NoError(t, err)
	assert.Equal(t, []string{list.Name()}, scanned(t, rdb, list.Name()[:len(list.Name())-1]+"*"))
}
