package exactlyonce

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
)

// Edits of a short list, which are the commands themselves, are done once although replies are cut.
func TestEditsOfAShortListAreDoneOnce(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		const most = 100
		ctx, proxy, admin := t.Context(), redistest.NewProxy(t), server.Client(t)
		list, err := shardedlist.New(server.Client(t, harness.Through(proxy)), harness.UniqueName(t), shardedlist.WithCapacity(4*most))
		require.NoError(t, err)
		for i := range most {
			_, err = list.RPush(ctx, i, "x")
			require.NoError(t, err)
		}
		proxy.Set(redistest.Faults{CutReply: 0.1, CutRequest: 0.05})
		for i := range most / 2 {
			removed, err := list.LRem(ctx, 1, "x")
			require.NoError(t, err)
			assert.EqualValues(t, 1, removed)
			length, err := list.LInsert(ctx, "BEFORE", most-1, "y")
			require.NoError(t, err)
			assert.EqualValues(t, 2*most-i, length)
			require.NoError(t, list.LTrim(ctx, 1, -1)) // the x of number i has gone, and so does the number
			assert.ErrorContains(t, list.LSet(ctx, 4*most, "z"), "index out of range")
		}
		proxy.Set(redistest.Faults{})
		count := map[string]int{}
		content := harness.Content(t, list)
		for _, value := range content {
			count[value]++
		}
		assert.Equal(t, "50", content[0], "each LTRIM has dropped one")
		assert.Equal(t, most/2, count["x"])
		assert.Equal(t, most/2, count["y"])
		assert.Len(t, content, 3*most/2)
		assert.EqualValues(t, 1, admin.Exists(ctx, list.Name()).Val(), "it is the plain list")
		assert.Zero(t, admin.Exists(ctx, harness.Keys(list).Meta).Val())
		assert.Positive(t, proxy.Strikes())
	})
}

// What shrinks a short list goes on while memory is full, and what may grow it fails with nothing changed, as in Redis.
func TestEditsOfAShortListWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.Start(t, kind, "maxmemory-policy noeviction")
			admin := server.Client(t)
			list, err := shardedlist.New(server.Client(t), "jobs", shardedlist.WithCapacity(100))
			require.NoError(t, err)
			_, err = list.RPush(ctx, "a", "b", "c", "d")
			require.NoError(t, err)
			_, err = list.LRem(ctx, 0, "none") // so that all is loaded
			require.NoError(t, err)
			require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "1").Err())
			assert.ErrorContains(t, list.LSet(ctx, 0, "z"), "OOM")
			_, err = list.LInsert(ctx, "AFTER", "a", "z")
			assert.ErrorContains(t, err, "OOM")
			removed, err := list.LRem(ctx, 0, "none")
			assert.NoError(t, err)
			assert.Zero(t, removed)
			removed, err = list.LRem(ctx, 0, "a")
			assert.NoError(t, err)
			assert.EqualValues(t, 1, removed)
			assert.NoError(t, list.LTrim(ctx, 1, -1))
			set, err := list.Expire(ctx, time.Hour)
			assert.NoError(t, err)
			assert.True(t, set)
			assert.Equal(t, []string{"c", "d"}, admin.LRange(ctx, "jobs", 0, -1).Val())
			assert.Positive(t, admin.TTL(ctx, "jobs").Val())
		})
	}
}
