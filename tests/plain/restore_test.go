package plain

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRestore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(8))
		values := harness.Numbered(3001)
		_, err := list.RPush(ctx, values...)
		require.NoError(t, err)
		_, err = list.Expire(ctx, time.Hour)
		require.NoError(t, err)
		_, left, err := harness.Inside(list).RestoreStep(ctx, true, "")
		require.NoError(t, err)
		require.Positive(t, left)
		info, err := list.Info(ctx)
		require.NoError(t, err)
		assert.True(t, info.Restoring)
		require.NoError(t, list.Check(ctx))
		assert.Equal(t, harness.Words(values), harness.Content(t, list))
		all := 0
		for value, err := range list.All(ctx) {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(all), value)
			all++
		}
		assert.Equal(t, 3001, all)

		before := int64(0)
		var total int64
		require.NoError(t, list.Restore(ctx, func(moved, all int64) {
			assert.LessOrEqual(t, moved-before, int64(1000), "a step is bounded")
			before, total = moved, all
		}))
		assert.Equal(t, total, before)
		assert.Equal(t, harness.Words(values), rdb.LRange(ctx, list.Name(), 0, -1).Val())
		assert.InDelta(t, time.Hour, rdb.TTL(ctx, list.Name()).Val(), float64(time.Minute))
		info, err = list.Info(ctx)
		require.NoError(t, err)
		assert.True(t, info.Restored)
		assert.EqualValues(t, 3001, info.Length)
		assert.EqualValues(t, 3001, info.Unsplit)
		assert.Zero(t, info.Newcomers)
		require.NoError(t, list.Check(ctx))
		require.NoError(t, list.Restore(ctx, nil), "it is one")
		assert.ElementsMatch(t, []string{harness.Keys(list).Meta}, harness.KeysOfList(t, list), "nothing is left but what says so")
	})
}

// What has been restored is the plain list for every process that uses the library, whatever becomes of it, until Adopt.
func TestARestoredListIsThePlainList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		hooked := server.Client(t)
		hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(list.Name())))
		_, err := list.RPush(ctx, "a", "b", "c")
		require.NoError(t, err)
		require.NoError(t, list.Restore(ctx, nil))
		plain := func() []string { return rdb.LRange(ctx, list.Name(), 0, -1).Val() }

		require.NoError(t, hooked.RPush(ctx, list.Name(), "d").Err())
		_, err = list.LPush(ctx, "0")
		require.NoError(t, err)
		assert.Equal(t, []string{"0", "a", "b", "c", "d"}, plain())
		require.NoError(t, list.LSet(ctx, 1, "A"))
		_, err = list.LInsertAfter(ctx, "A", "AA")
		require.NoError(t, err)
		_, err = list.LRem(ctx, 0, "b")
		require.NoError(t, err)
		require.NoError(t, list.LTrim(ctx, 1, -1))
		assert.Equal(t, []string{"A", "AA", "c", "d"}, plain())
		assert.Equal(t, []string{"A", "AA", "c", "d"}, harness.Content(t, list))
		moved, err := list.LMove(ctx, list, "LEFT", "RIGHT")
		require.NoError(t, err)
		assert.Equal(t, "A", moved)

		set, err := list.Expire(ctx, time.Hour)
		require.NoError(t, err)
		assert.True(t, set)
		set, err = list.ExpireNX(ctx, time.Minute)
		require.NoError(t, err)
		assert.False(t, set)
		assert.InDelta(t, time.Hour, rdb.TTL(ctx, list.Name()).Val(), float64(time.Minute))
		set, err = list.Persist(ctx)
		require.NoError(t, err)
		assert.True(t, set)
		assert.EqualValues(t, -1, rdb.TTL(ctx, list.Name()).Val())

		values, err := list.LPopCount(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, []string{"AA", "c", "d", "A"}, values)
		assert.Zero(t, rdb.Exists(ctx, list.Name()).Val())
		require.NoError(t, hooked.RPush(ctx, list.Name(), "e").Err())
		assert.Equal(t, []string{"e"}, plain(), "also after it was empty")
		existed, err := list.Del(ctx)
		require.NoError(t, err)
		assert.True(t, existed)
		assert.Zero(t, rdb.Exists(ctx, list.Name()).Val())
		_, err = list.RPush(ctx, "f")
		require.NoError(t, err)
		assert.Equal(t, []string{"f"}, plain(), "and after it was deleted")

		popped := make(chan string, 1)
		require.NoError(t, rdb.Del(ctx, list.Name()).Err())
		go func() { popped <- hooked.BLPop(ctx, time.Minute, list.Name()).Val()[1] }()
		harness.Armed(t, list)
		_, err = list.RPush(ctx, "g")
		require.NoError(t, err)
		assert.Equal(t, "g", <-popped)
		go func() { popped <- hooked.BLPop(ctx, time.Minute, list.Name()).Val()[1] }()
		harness.Armed(t, list)
		require.NoError(t, rdb.RPush(ctx, list.Name(), "h").Err())
		assert.Equal(t, "h", <-popped, "which a process without the library has pushed")

		require.NoError(t, rdb.RPush(ctx, list.Name(), "i", "j").Err())
		require.NoError(t, list.Adopt(ctx, nil))
		assert.Zero(t, rdb.Exists(ctx, list.Name()).Val())
		assert.Equal(t, []string{"i", "j"}, harness.Content(t, list))
		require.NoError(t, list.Check(ctx))
	})
}

// Restore of what is empty, plain, or beside newcomers.
func TestRestoreFromEveryState(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		require.NoError(t, list.Restore(ctx, nil))
		_, err := list.RPush(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, []string{"a"}, rdb.LRange(ctx, list.Name(), 0, -1).Val())

		list = harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		require.NoError(t, rdb.RPush(ctx, list.Name(), "a", "b", "c").Err())
		require.NoError(t, list.Restore(ctx, nil))
		assert.Equal(t, []string{"a", "b", "c"}, rdb.LRange(ctx, list.Name(), 0, -1).Val())
		assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, list))

		list = harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		require.NoError(t, rdb.RPush(ctx, list.Name(), "a", "b", "c").Err())
		require.NoError(t, list.Adopt(ctx, nil))
		require.NoError(t, rdb.RPush(ctx, list.Name(), "d", "e").Err())
		require.ErrorIs(t, list.Restore(ctx, nil), shardedlist.ErrPoppedAt)
		assert.Equal(t, []string{"d", "e"}, rdb.LRange(ctx, list.Name(), 0, -1).Val())
		require.NoError(t, harness.OpenList(t, rdb, list.Name(), shardedlist.WithPoppedAt("LEFT")).Restore(ctx, nil))
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, rdb.LRange(ctx, list.Name(), 0, -1).Val())

		require.NoError(t, rdb.Set(ctx, list.Name(), "text", 0).Err())
		_, err = list.RPush(ctx, "a")
		require.ErrorIs(t, err, shardedlist.ErrWrongType)
		require.NoError(t, rdb.Del(ctx, list.Name()).Err())
		list = harness.NewList(t, rdb)
		require.NoError(t, rdb.Set(ctx, list.Name(), "text", 0).Err())
		require.ErrorIs(t, list.Restore(ctx, nil), shardedlist.ErrWrongType)
		require.NoError(t, rdb.Del(ctx, list.Name()).Err())
	})
}

// Adopt of a restored list whose meta is still needed, for a dedup record or for shards that are to be swept.
func TestAdoptOfARestoredListThatKeepsItsMeta(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(1))
		call := script.NewCall(script.Load("push"), []any{harness.Keys(list).Meta}, 10)
		call.Args = append(call.Args, "@"+harness.UniqueName(t), 1, 60_000, "R", 1, "a")
		_, err := (&script.Runner{Client: rdb}).Run(ctx, call)
		require.NoError(t, err)
		_, err = list.RPush(ctx, harness.Numbered(200)...)
		require.NoError(t, err)
		_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(ctx)
		require.NoError(t, err)
		_, err = list.RPush(ctx, "b", "c")
		require.NoError(t, err)
		require.NoError(t, list.Restore(ctx, nil))
		require.NoError(t, list.Adopt(ctx, nil))
		assert.Equal(t, []string{"b", "c"}, harness.Content(t, list))
		require.NoError(t, list.Check(ctx))
		require.NoError(t, list.Restore(ctx, nil))
		_, err = list.LPopCount(ctx, 2)
		require.NoError(t, err)
		require.NoError(t, list.Adopt(ctx, nil))
		_, err = list.RPush(ctx, "d", "e", "f")
		require.NoError(t, err)
		assert.Equal(t, []string{"d", "e", "f"}, harness.Content(t, list))
		assert.Zero(t, rdb.Exists(ctx, list.Name()).Val())
		require.NoError(t, list.Check(ctx))
	})
}

// A consumer that waits is no reason to lose what Adopt finds.
func TestAdoptOfARestoredListForWhichSomebodyWaits(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb)
		require.NoError(t, list.Restore(ctx, nil))
		popped := make(chan string, 2)
		for range 2 {
			go func() {
				value, err := list.BLPop(ctx, time.Minute)
				assert.NoError(t, err)
				popped <- value
			}()
		}
		harness.Armed(t, list)
		require.NoError(t, list.Adopt(ctx, nil))
		_, err := list.RPush(ctx, "a")
		require.NoError(t, err)
		assert.Equal(t, "a", <-popped)
		require.NoError(t, list.Restore(ctx, nil))
		harness.Armed(t, list)
		require.NoError(t, rdb.RPush(ctx, list.Name(), "b").Err()) // which rings nobody
		_, err = list.RPush(ctx, "c")
		require.NoError(t, err)
		assert.Equal(t, "b", <-popped)
	})
}

// Names that look like what the pointers of a restored list have.
func TestRenameOfAListWithAnEqualsSign(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, tag := t.Context(), server.Client(t), "{"+harness.UniqueName(t)+"}"
		list := harness.OpenList(t, rdb, "="+tag+"=", shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, "a", "b", "c")
		require.NoError(t, err)
		require.NoError(t, list.Rename(ctx, "="+tag+"b="))
		renamed := harness.OpenList(t, rdb, "="+tag+"b=")
		assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, renamed))
		require.NoError(t, renamed.Restore(ctx, nil))
		assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, renamed))
		assert.Equal(t, []string{"a", "b", "c"}, rdb.LRange(ctx, renamed.Name(), 0, -1).Val())
	})
}

// A list that is renamed while it is being restored is an ordinary one.
func TestRenameOfAListThatIsBeingRestored(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, tag := t.Context(), server.Client(t), "{"+harness.UniqueName(t)+"}"
		list := harness.OpenList(t, rdb, tag+"a", shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, harness.Numbered(3000)...)
		require.NoError(t, err)
		_, _, err = harness.Inside(list).RestoreStep(ctx, true, "")
		require.NoError(t, err)
		require.NoError(t, list.Rename(ctx, tag+"b"))
		renamed := harness.OpenList(t, rdb, tag+"b")
		info, err := renamed.Info(ctx)
		require.NoError(t, err)
		assert.False(t, info.Restoring)
		_, _, err = harness.Inside(list).RestoreStep(ctx, false, "")
		require.ErrorContains(t, err, "REVERSED")
		all := 0
		for value, err := range renamed.All(ctx) {
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(all), value)
			all++
		}
		assert.Equal(t, 3000, all)
		require.NoError(t, renamed.Check(ctx))
	})
}

// All that began on shards does not go on when there are none.
func TestAllOfAListThatIsRestoredMeanwhile(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, harness.Numbered(3000)...)
		require.NoError(t, err)
		first := true
		for _, err = range list.All(ctx) {
			if first {
				first = false
				require.NoError(t, list.Restore(ctx, nil))
			}
		}
		require.ErrorIs(t, err, shardedlist.ErrReversed)
	})
}

// A list that is emptied while it is being restored leaves nothing behind once it is an ordinary one again.
func TestAdoptOfAListEmptiedWhileItIsRestored(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, waits := range []bool{false, true} {
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(2), shardedlist.WithPoppedAt("LEFT"))
			_, err := list.RPush(ctx, harness.Numbered(3000)...)
			require.NoError(t, err)
			_, _, err = harness.Inside(list).RestoreStep(ctx, true, "")
			require.NoError(t, err)
			values, err := list.LPopCount(ctx, 3000)
			require.NoError(t, err)
			require.Len(t, values, 3000)
			if waits {
				_, err = list.BLPop(ctx, 100*time.Millisecond)
				require.ErrorIs(t, err, redis.Nil)
			}
			require.NoError(t, list.Adopt(ctx, nil))
			require.NoError(t, list.Check(ctx))
		}
	})
}

// A list that is restored while shards of an earlier one are still to be swept stays restored once they are.
func TestARestoredListThatHasSweptStaysRestored(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(1))
		_, err := list.RPush(ctx, harness.Numbers(0, 300)...)
		require.NoError(t, err)
		_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(ctx) // and no sweep after it
		require.NoError(t, err)
		_, err = list.RPush(ctx, "a")
		require.NoError(t, err)
		for left := int64(1); left > 0; {
			_, left, err = harness.Inside(list).RestoreStep(ctx, true, "")
			require.NoError(t, err)
		}
		info, err := list.Info(ctx)
		require.NoError(t, err)
		require.True(t, info.Restored)
		require.Positive(t, info.Unswept)
		for i := range 20 {
			_, err = list.LPop(ctx) // also of the empty list
			require.Equal(t, i > 0, err == redis.Nil)
		}
		info, err = list.Info(ctx)
		require.NoError(t, err)
		assert.Zero(t, info.Unswept)
		assert.True(t, info.Restored)
		_, err = list.RPush(ctx, "b")
		require.NoError(t, err)
		assert.EqualValues(t, 1, rdb.LLen(ctx, list.Name()).Val(), "it is the plain list")
	})
}

// What is pushed onto the shard that is becoming the plain list stays there: to carve it would undo what has been restored.
func TestPushesDoNotUndoARestore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(8))
		_, err := list.RPush(ctx, harness.Numbers(0, 3000)...)
		require.NoError(t, err)
		_, left, err := harness.Inside(list).RestoreStep(ctx, true, "")
		require.NoError(t, err)
		require.Positive(t, left)
		before, err := list.Info(ctx)
		require.NoError(t, err)
		require.True(t, before.Restoring)
		for range 40 {
			_, err = list.LPush(ctx, "new")
			require.NoError(t, err)
			_, err = list.RPush(ctx, "new")
			require.NoError(t, err)
		}
		after, err := list.Info(ctx)
		require.NoError(t, err)
		assert.LessOrEqual(t, after.Shards, before.Shards+40/8, "only those of the end that is not becoming longer")
		require.NoError(t, list.Check(ctx))
	})
}

// An error of Adopt ends no Restore.
func TestAdoptThatFailsLeavesTheListAsItIs(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		require.NoError(t, rdb.RPush(ctx, list.Name(), harness.Numbered(3000)...).Err())
		require.NoError(t, list.Adopt(ctx, nil))
		_, _, err := harness.Inside(list).RestoreStep(ctx, true, "")
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(ctx, list.Name(), "a").Err())
		require.ErrorIs(t, list.Adopt(ctx, nil), shardedlist.ErrPoppedAt)
		info, err := list.Info(ctx)
		require.NoError(t, err)
		assert.True(t, info.Restoring)
		require.NoError(t, rdb.Del(ctx, list.Name()).Err())
		_, _, err = harness.Inside(list).RestoreStep(ctx, false, "")
		require.NoError(t, err)
	})
}

// Who is overtaken by the way back, or forth, is told so, and the list is whole.
func TestAdoptAndRestoreAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(4))
		_, err := list.RPush(ctx, harness.Numbered(5000)...)
		require.NoError(t, err)
		first := true
		err = list.Restore(ctx, func(int64, int64) {
			if first {
				first = false
				require.NoError(t, list.Adopt(ctx, nil))
			}
		})
		require.ErrorIs(t, err, shardedlist.ErrReversed)
		assert.Equal(t, harness.Words(harness.Numbered(5000)), harness.Content(t, list))
		require.NoError(t, list.Check(ctx))

		require.NoError(t, list.Restore(ctx, nil))
		first = true
		err = list.Adopt(ctx, func(int64, int64) {
			if first {
				first = false
				require.NoError(t, list.Restore(ctx, nil))
			}
		})
		require.ErrorIs(t, err, shardedlist.ErrReversed)
		assert.Equal(t, harness.Words(harness.Numbered(5000)), rdb.LRange(ctx, list.Name(), 0, -1).Val())
	})
}

// Restore is interrupted and loses replies, while processes with the hook go on, and those without it come back. There is one queue at
// every moment.
func TestRestoreOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server, proxy := t.Context(), redistest.Shared(t, kind), redistest.NewProxy(t)
			const total = 20_000
			calm := server.Client(t)
			list := harness.NewList(t, calm, shardedlist.WithCapacity(16))
			_, err := list.RPush(ctx, harness.Numbered(total)...)
			require.NoError(t, err)
			popped, want := migrate(t, server, proxy, list.Name(), total, (*shardedlist.ShardedList).Restore)
			for {
				value, err := calm.LPop(ctx, list.Name()).Result()
				if err == redis.Nil {
					break
				}
				require.NoError(t, err)
				popped = append(popped, value)
			}
			assert.Equal(t, want, popped)
		})
	}
}

func TestRestoreWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.Start(t, kind)
			rdb := server.Client(t)
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(8))
			_, err := list.RPush(ctx, harness.Numbered(500)...)
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
			require.Error(t, rdb.RPush(ctx, list.Name(), "x").Err(), "memory is full")
			require.NoError(t, list.Restore(ctx, nil))
			value, err := list.LPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, "0", value)
			_, err = list.RPush(ctx, "x")
			require.ErrorContains(t, err, "OOM")
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
			assert.Equal(t, harness.Words(harness.Numbered(500))[1:], rdb.LRange(ctx, list.Name(), 0, -1).Val())
		})
	}
}

// A step takes some elements of a shard that is larger than it may move. What is pushed at that end meanwhile, with the library or
// without, stays on the shard that took them.
func TestPushesBesideAShardThatIsPartlyRestored(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, end := range []string{"l", "r"} {
			for _, watches := range []bool{true, false} {
				list := harness.NewList(t, rdb, shardedlist.WithCapacity(2000))
				hooked := server.Client(t)
				hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(list.Name()), shardedlist.WithCapacity(2000)))
				other := map[string]string{"l": "r", "r": "l"}[end]
				require.NoError(t, hooked.Do(ctx, append([]any{end + "push", list.Name()}, harness.Numbers(0, 7500)...)...).Err())
				require.NoError(t, hooked.Do(ctx, other+"pop", list.Name(), 1999).Err())
				moved, _, err := harness.Inside(list).RestoreStep(ctx, true, "")
				require.NoError(t, err)
				require.EqualValues(t, 1000, moved)
				require.True(t, rdb.HExists(ctx, harness.Keys(list).Meta, "part").Val())
				require.NoError(t, hooked.Do(ctx, end+"pop", list.Name(), 2499).Err())
				pusher := rdb
				if watches {
					pusher = hooked
				}
				require.NoError(t, pusher.Do(ctx, append([]any{end + "push", list.Name()}, harness.Numbers(0, 2500)...)...).Err())
				want := harness.Content(t, list)
				require.Len(t, want, 7500-1999-2499+2500)
				require.NoError(t, list.Restore(ctx, func(int64, int64) { require.NoError(t, list.Check(ctx)) }))
				assert.Equal(t, want, rdb.LRange(ctx, list.Name(), 0, -1).Val())
			}
		}
	})
}

// The part lacks more elements than the end shard beside it has.
func TestAdoptFillsThePartFromAShortEnd(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for end, other := range map[string]string{"l": "r", "r": "l"} {
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(2000))
			hooked := server.Client(t)
			hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(list.Name()), shardedlist.WithCapacity(2000)))
			require.NoError(t, hooked.Do(ctx, append([]any{end + "push", list.Name()}, harness.Numbers(0, 7500)...)...).Err())
			require.NoError(t, hooked.Do(ctx, other+"pop", list.Name(), 1999).Err())
			_, _, err := harness.Inside(list).RestoreStep(ctx, true, "")
			require.NoError(t, err)
			require.NoError(t, hooked.Do(ctx, end+"pop", list.Name(), 2400).Err()) // of 2,500
			want := harness.Content(t, list)
			require.Len(t, want, 7500-1999-2400)
			require.True(t, rdb.HExists(ctx, harness.Keys(list).Meta, "part").Val())
			require.NoError(t, list.Adopt(ctx, nil))
			require.NoError(t, list.Check(ctx))
			assert.Equal(t, want, harness.Content(t, list))
		}
	})
}

// No step moves more than 1,000 elements or 256 KiB, however much a shard holds, nor does what others do between the steps. The server
// itself tells, by MONITOR. Adopt of what is half restored keeps to it, too.
func TestStepsOverLargeShardsAreBounded(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	sizes := map[string]struct {
		capacity, number int
		size             func(i int) int
	}{
		"many in a shard": {20_000, 50_000, func(int) int { return 5 }},
		"large elements":  {512, 2000, func(int) int { return 10_000 }},
		"of all sizes":    {512, 3000, func(i int) int { return []int{5, 5, 300, 3000, 30_000, 5, 5}[i/40%7] }},
	}
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for name, c := range sizes {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				t.Parallel()
				ctx, server := t.Context(), redistest.Start(t, kind)
				rdb := server.Client(t)
				list := harness.NewList(t, rdb, shardedlist.WithCapacity(c.capacity), shardedlist.WithPoppedAt("LEFT"))
				want := make([]string, c.number)
				for i := range want {
					want[i] = fmt.Sprintf("%0*d", c.size(i), i)
				}
				for values := range slices.Chunk(want, 500) {
					_, err := list.RPush(ctx, values)
					require.NoError(t, err)
				}
				hooked := server.Client(t)
				hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(list.Name())))
				steps := 0
				beside := func(int64, int64) {
					steps++
					element := fmt.Sprint("new", steps)
					assert.Equal(t, want[0], hooked.LPop(ctx, list.Name()).Val())
					assert.EqualValues(t, len(want), hooked.RPush(ctx, list.Name(), element).Val())
					want = append(want[1:], element)
					middle := int64(len(want) / 2)
					assert.Equal(t, want[middle], hooked.LIndex(ctx, list.Name(), middle).Val())
				}
				stop := watchMoves(t, rdb.(*redis.Client))
				for range 3 {
					moved, left, err := harness.Inside(list).RestoreStep(ctx, true, "")
					require.NoError(t, err)
					require.Positive(t, moved)
					require.Positive(t, left)
				}
				require.NoError(t, list.Adopt(ctx, beside))
				require.NoError(t, list.Check(ctx))
				interrupted, cancel := context.WithCancel(ctx)
				require.ErrorIs(t, list.Restore(interrupted, func(int64, int64) { cancel() }), context.Canceled)
				require.NoError(t, list.Restore(ctx, beside))
				scripts, elements, bytes := stop()
				assert.Greater(t, scripts, steps)
				assert.LessOrEqual(t, elements, 1001, "elements moved by a script, and one pushed")
				assert.LessOrEqual(t, bytes, 1<<18+10)
				assert.Equal(t, want, rdb.LRange(ctx, list.Name(), 0, -1).Val())
			})
		}
	}
}

// watchMoves counts the elements that scripts push from then on. The returned function ends that, and returns how many scripts ran, and
// how many elements and bytes one of them has pushed at the most.
func watchMoves(t *testing.T, rdb *redis.Client) func() (scripts, elements, bytes int) {
	t.Helper()
	conn, err := net.Dial("tcp", rdb.Options().Addr)
	require.NoError(t, err)
	_, err = conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	lines := bufio.NewReader(conn)
	ready, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", ready)
	var scripts, elements, bytes int
	done := make(chan struct{})
	go func() {
		defer close(done)
		n, size := 0, 0
		for {
			line, err := lines.ReadString('\n')
			if !assert.NoError(t, err) {
				return
			}
			words := strings.Split(line, `" "`)
			_, command, _ := strings.Cut(words[0], `] "`)
			switch strings.ToLower(command) {
			case "evalsha", "fcall":
				scripts, n, size = scripts+1, 0, 0
			case "lpush", "rpush":
				n += len(words) - 2
				size += len(strings.Join(words[2:], "")) - len("\"\r\n")
			case "echo":
				return
			}
			elements, bytes = max(elements, n), max(bytes, size)
		}
	}()
	return func() (int, int, int) {
		require.NoError(t, rdb.Echo(t.Context(), "end").Err())
		<-done
		require.NoError(t, conn.Close())
		return scripts, elements, bytes
	}
}
