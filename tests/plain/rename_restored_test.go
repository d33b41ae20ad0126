package plain

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A list of many shards that is renamed to a restored one becomes one shard first, in bounded steps, and is whole meanwhile.
func TestRenameToARestoredListGathersShards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		from, to := harness.Pair(t, rdb, 3001)
		_, err := from.Expire(ctx, time.Hour)
		require.NoError(t, err)
		require.NoError(t, to.Restore(ctx, nil))
		op, err := harness.OneSlot(from).Transfer(layout.Rename, harness.OneSlot(to), true)
		require.NoError(t, err)
		before, steps := 3001, 0
		for once := harness.Bare(op); ; steps++ {
			once.RefusedUntil = time.Now()
			_, err = once.Run(ctx)
			if err == nil {
				break
			}
			require.ErrorContains(t, err, "TRYAGAIN")
			assert.Zero(t, script.PauseAfter(err, 5), "it goes on at once")
			info, err := from.Info(ctx)
			require.NoError(t, err)
			gathered := int(info.Unsplit)
			assert.LessOrEqual(t, gathered-(3001-before), 1002, "a step is bounded")
			before = 3001 - gathered
			values, err := from.LRange(ctx, 0, -1)
			require.NoError(t, err)
			assert.Equal(t, harness.Words(harness.Numbers(0, 3001)), values)
			require.NoError(t, from.Check(ctx))
			require.Less(t, steps, 10)
		}
		assert.GreaterOrEqual(t, steps, 2)
		assert.Equal(t, harness.Words(harness.Numbers(0, 3001)), rdb.LRange(ctx, to.Name(), 0, -1).Val())
		assert.InDelta(t, time.Hour, rdb.TTL(ctx, to.Name()).Val(), float64(time.Minute))
		assert.Empty(t, harness.Content(t, from))
		require.NoError(t, from.Check(ctx))
	})
}

// A pipeline or a transaction does all at once, whatever it takes: a command that asks to be repeated would come behind others.
func TestRenameToARestoredListInATransaction(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, exec := range []func(rdb redis.UniversalClient) redis.Pipeliner{redis.UniversalClient.Pipeline, redis.UniversalClient.TxPipeline} {
			ctx, rdb, hooked := t.Context(), server.Client(t), server.Client(t)
			from, to := harness.Pair(t, rdb, 3001)
			require.NoError(t, to.Restore(ctx, nil))
			hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(from.Name(), to.Name())))
			pipe := exec(hooked)
			renamed, length := pipe.Rename(ctx, from.Name(), to.Name()), pipe.RPush(ctx, to.Name(), "end")
			_, err := pipe.Exec(ctx)
			require.NoError(t, err)
			require.NoError(t, renamed.Err())
			assert.EqualValues(t, 3002, length.Val())
			assert.Equal(t, append(harness.Words(harness.Numbers(0, 3001)), "end"), rdb.LRange(ctx, to.Name(), 0, -1).Val())
		}
	})
}

// Elements of processes without the library go along, from a list and from a restored one.
func TestRenameTakesNewcomersToARestoredList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, hooked := t.Context(), server.Client(t), server.Client(t)
		from, to := harness.Pair(t, rdb, 5)
		hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(from.Name(), to.Name()), shardedlist.WithCapacity(2)))
		require.NoError(t, to.Restore(ctx, nil))
		require.NoError(t, rdb.RPush(ctx, from.Name(), "new").Err())
		require.NoError(t, hooked.Rename(ctx, from.Name(), to.Name()).Err())
		assert.Equal(t, append(harness.Words(harness.Numbers(0, 5)), "new"), rdb.LRange(ctx, to.Name(), 0, -1).Val())

		require.NoError(t, rdb.RPush(ctx, to.Name(), "newer").Err())
		require.NoError(t, hooked.RPush(ctx, from.Name(), "replaced").Err())
		require.NoError(t, hooked.Rename(ctx, to.Name(), from.Name()).Err())
		assert.Zero(t, rdb.Exists(ctx, to.Name()).Val(), "it is empty")
		assert.Equal(t, append(harness.Words(harness.Numbers(0, 5)), "new", "newer"), harness.Content(t, from))
		require.NoError(t, from.Check(ctx))
		require.NoError(t, rdb.RPush(ctx, to.Name(), "again").Err())
		assert.Equal(t, "again", hooked.LPop(ctx, to.Name()).Val(), "it is still a restored one")
	})
}

func TestRenameAndCopyWakeWhoWaitsForARestoredList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, restored := range []string{"from", "to", "both"} {
			for _, renames := range []bool{true, false} {
				from, to := harness.Pair(t, server.Client(t), 5)
				if restored != "to" {
					require.NoError(t, from.Restore(t.Context(), nil))
				}
				if restored != "from" {
					require.NoError(t, to.Restore(t.Context(), nil))
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				result := harness.BlockingPop(t, to, ctx, 0)
				harness.Blocked(t, to)
				var err error
				if renames {
					err = from.Rename(t.Context(), to.Name())
				} else {
					_, err = from.Copy(t.Context(), to.Name(), false)
				}
				require.NoError(t, err)
				assert.Equal(t, harness.Got("0"), <-result, restored)
				cancel()
				assert.Equal(t, harness.Words(harness.Numbers(1, 5)), harness.Content(t, to))
			}
		}
	})
}

// Rename works while memory is full, and Copy fails with nothing changed.
func TestTransferOfARestoredListWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, rdb := t.Context(), redistest.Start(t, kind).Client(t)
			from, to := harness.Pair(t, rdb, 500)
			require.NoError(t, to.Restore(ctx, nil))
			for _, lists := range [][2]*shardedlist.ShardedList{{from, to}, {to, from}} {
				require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
				_, err := lists[0].Copy(ctx, lists[1].Name(), true)
				require.ErrorContains(t, err, "OOM")
				assert.Len(t, harness.Content(t, lists[0]), 500)
				assert.Empty(t, harness.Content(t, lists[1]))
				require.NoError(t, lists[0].Rename(ctx, lists[1].Name()))
				require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
				assert.Equal(t, harness.Words(harness.Numbers(0, 500)), harness.Content(t, lists[1]))
				assert.Empty(t, harness.Content(t, lists[0]))
				require.NoError(t, lists[0].Check(ctx))
				require.NoError(t, lists[1].Check(ctx))
			}
		})
	}
}

// While the slot moves, both fail with nothing changed, and work once it has moved.
func TestTransferOfARestoredListWhileASlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	ctx, rdb := t.Context(), server.Client(t)
	from, to := harness.Pair(t, rdb, 5)
	require.NoError(t, to.Restore(ctx, nil))
	for _, lists := range [][2]*shardedlist.ShardedList{{from, to}, {to, from}} {
		_, err := lists[1].RPush(ctx, "replaced")
		require.NoError(t, err)
		harness.Interrupted(t, server, from, func() {
			for _, transfer := range []func(ctx context.Context) error{
				func(ctx context.Context) error { return lists[0].Rename(ctx, lists[1].Name()) },
				func(ctx context.Context) error { return harness.ErrorOf(lists[0].Copy(ctx, lists[1].Name(), true)) },
			} {
				brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				require.Error(t, transfer(brief)) // TRYAGAIN, or no more time
				cancel()
				assert.Equal(t, harness.Words(harness.Numbers(0, 5)), harness.Content(t, lists[0]))
				assert.Equal(t, []string{"replaced"}, harness.Content(t, lists[1]))
			}
		})
		require.NoError(t, lists[0].Rename(ctx, lists[1].Name()))
		assert.Equal(t, harness.Words(harness.Numbers(0, 5)), harness.Content(t, lists[1]))
		assert.Empty(t, harness.Content(t, lists[0]))
		require.NoError(t, lists[0].Check(ctx))
		require.NoError(t, lists[1].Check(ctx))
	}
}

// Somebody pushes to the list all the time, which splits long shards elsewhere.
func TestRenameToARestoredListUnderTraffic(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		tag := "{" + harness.UniqueName(t) + "}"
		from, to := harness.OpenList(t, rdb, tag+"from"), harness.OpenList(t, rdb, tag+"to")
		_, err := from.RPush(ctx, harness.Numbers(0, 20*512)...)
		require.NoError(t, err)
		require.NoError(t, to.Restore(ctx, nil))
		op, err := harness.OneSlot(from).Transfer(layout.Rename, harness.OneSlot(to), true)
		require.NoError(t, err)
		length := 20 * 512
		for steps := 0; ; steps++ {
			once := harness.Bare(op)
			once.RefusedUntil = time.Now()
			if _, err = once.Run(ctx); err == nil {
				break
			}
			require.ErrorContains(t, err, "TRYAGAIN")
			require.Less(t, steps, 60, "it makes no progress")
			_, err = from.RPush(ctx, harness.Numbers(length, length+64)...)
			require.NoError(t, err)
			length += 64
		}
		assert.Equal(t, harness.Words(harness.Numbers(0, length)), rdb.LRange(ctx, to.Name(), 0, -1).Val())
	})
}

// A list that has lost a shard is BROKENLIST, and no more of it is lost.
func TestABrokenListIsNotGathered(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		tag := "{" + harness.UniqueName(t) + "}"
		from, err := shardedlist.New(rdb, tag+"from", shardedlist.WithCapacity(2))
		require.NoError(t, err)
		to := harness.OpenList(t, rdb, tag+"to")
		_, err = from.RPush(ctx, harness.Numbers(0, 10)...)
		require.NoError(t, err)
		require.NoError(t, to.Restore(ctx, nil))
		require.NoError(t, rdb.Del(ctx, harness.Shard(from, ctx, 1)).Err())
		require.ErrorIs(t, from.Rename(ctx, to.Name()), shardedlist.ErrBroken)
		for i := 9; i > 3; i-- {
			value, err := from.RPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, fmt.Sprint(i), value)
		}
		_, err = from.Del(ctx)
		require.NoError(t, err)
	})
}

// Shards that a delete has left are unlinked under the new name.
func TestRenameToARestoredListHandsOnStaleShards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		from, to := harness.Pair(t, rdb, 1000)
		require.NoError(t, to.Restore(ctx, nil))
		_, err := harness.Bare(harness.OneSlot(from).Delete()).Run(ctx)
		require.NoError(t, err)
		_, err = from.RPush(ctx, "x")
		require.NoError(t, err)
		require.NoError(t, from.Rename(ctx, to.Name()))
		assert.Empty(t, harness.KeysOfList(t, from))
		assert.Equal(t, []string{"x"}, rdb.LRange(ctx, to.Name(), 0, -1).Val())
		info, err := to.Info(ctx)
		require.NoError(t, err)
		assert.Zero(t, info.Unswept)
		assert.True(t, info.Restored)
	})
}

// The end that newcomers join is the list's, and comes along.
func TestTransferOfARestoredListTakesTheEndOfNewcomersAlong(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, command := range harness.Transfers {
			for _, restored := range []string{"from", "to"} {
				from, to := harness.Pair(t, rdb, 0)
				values := harness.Numbers(0, 10)
				for i := range values { // so that so few do not fit into one key
					values[i] = fmt.Sprint(values[i], strings.Repeat("x", 20_000))
				}
				_, err := from.RPush(ctx, values...)
				require.NoError(t, err)
				_, err = from.RPop(ctx)
				require.NoError(t, err)
				require.NoError(t, map[string]*shardedlist.ShardedList{"from": from, "to": to}[restored].Restore(ctx, nil))
				require.NoError(t, command(ctx, from, to))
				require.NoError(t, to.Adopt(ctx, nil))
				require.NoError(t, rdb.RPush(ctx, to.Name(), "x").Err())
				require.NoError(t, to.Adopt(ctx, nil), restored)
				assert.Equal(t, append([]string{"x"}, harness.Words(values[:9])...), harness.Content(t, to))
			}
		}
	})
}
