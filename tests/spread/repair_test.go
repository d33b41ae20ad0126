package spread

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/spread"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// takenBack returns a function that sets the pointers of the list to what they are now.
func takenBack(t *testing.T, list *shardedlist.ShardedList) func() {
	t.Helper()
	rdb, meta := harness.Client(list), harness.Keys(list).Meta
	before, err := rdb.HGet(t.Context(), meta, "layout").Result()
	require.NoError(t, err)
	return func() { require.NoError(t, rdb.HSet(t.Context(), meta, "layout", before).Err()) }
}

func generationOf(t *testing.T, list *shardedlist.ShardedList) (generation int64) {
	t.Helper()
	var layout, parts, capacity int64
	_, err := fmt.Sscan(harness.Client(list).HGet(t.Context(), harness.Keys(list).Meta, "layout").Val(), &layout, &parts, &capacity, &generation)
	require.NoError(t, err)
	return generation
}

// whole requires that a list is sound, and has these elements whichever way they are read.
func whole(t *testing.T, list *shardedlist.ShardedList, want []string) {
	t.Helper()
	require.NoError(t, list.Check(t.Context()))
	length, err := list.LLen(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, len(want), length)
	require.Equal(t, want, harness.Content(t, list))
	all, err := list.LRange(t.Context(), 0, -1)
	require.NoError(t, err)
	require.Equal(t, want, all)
	for i := range want {
		value, err := list.LIndex(t.Context(), int64(i))
		require.NoError(t, err)
		require.Equal(t, want[i], value)
	}
}

// Shards that a failover of the pointers has put outside are a part of the list again, whatever the pointers say.
func TestRepairOfPointersThatWereTakenBack(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, capacity := range []int{1, 3} {
			list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(capacity))
			_, err := list.RPush(ctx, "0")
			require.NoError(t, err)
			takeBack := takenBack(t, list)
			for i := 1; i < 10; i++ {
				_, err = list.RPush(ctx, fmt.Sprint(i))
				require.NoError(t, err)
				_, err = list.LPush(ctx, fmt.Sprint(-i))
				require.NoError(t, err)
			}
			_, err = list.LPopCount(ctx, 3)
			require.NoError(t, err)
			takeBack()
			require.ErrorIs(t, list.Check(ctx), shardedlist.ErrBroken)

			other := harness.OpenList(t, rdb, list.Name())
			require.NoError(t, harness.ErrorOf(other.Repair(ctx, shardedlist.RepairOptions{})))
			whole(t, other, harness.Words(harness.Numbers(-6, 10)))
			for i := -6; i < 10; i++ {
				value, err := other.LPop(ctx)
				require.NoError(t, err)
				require.Equal(t, fmt.Sprint(i), value)
			}
			_, err = other.RPop(ctx)
			require.Equal(t, redis.Nil, err)
		}
	})
}

// Shards that have been popped since are missing between the pointers: those behind them can be read all the same.
func TestRepairOfPointersFromBeforePops(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		for i := range 10 {
			_, err := list.RPush(ctx, i)
			require.NoError(t, err)
		}
		takeBack := takenBack(t, list)
		for i := range 10 {
			_, err := list.RPush(ctx, 10+i)
			require.NoError(t, err)
		}
		_, err := list.LPopCount(ctx, 9)
		require.NoError(t, err)
		takeBack()

		other := harness.OpenList(t, rdb, list.Name())
		require.NoError(t, harness.ErrorOf(other.Repair(ctx, shardedlist.RepairOptions{})))
		whole(t, other, harness.Words(harness.Numbers(9, 20)))
		value, err := other.LPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, "9", value)
		whole(t, other, harness.Words(harness.Numbers(10, 20)))
	})
}

// Pointers that are lost are made from the shards, also while memory is full.
func TestRepairOfPointersThatAreLost(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.Start(t, kind)
			rdb := server.Client(t)
			list := harness.NewList(t, rdb, shardedlist.WithParts(5), shardedlist.WithCapacity(2))
			for i := range 20 {
				_, err := list.RPush(ctx, fmt.Sprint(i))
				require.NoError(t, err)
			}
			_, err := list.LPopCount(ctx, 5)
			require.NoError(t, err)
			require.NoError(t, rdb.Del(ctx, harness.Keys(list).Meta).Err())

			other := harness.OpenList(t, rdb, list.Name(), shardedlist.WithParts(5), shardedlist.WithCapacity(2))
			require.ErrorIs(t, other.Check(ctx), shardedlist.ErrBroken)
			for _, node := range server.Nodes() {
				require.NoError(t, node.Client(t).ConfigSet(ctx, "maxmemory", "1").Err())
			}
			require.NoError(t, harness.ErrorOf(other.Repair(ctx, shardedlist.RepairOptions{})))
			for _, node := range server.Nodes() {
				require.NoError(t, node.Client(t).ConfigSet(ctx, "maxmemory", "0").Err())
			}
			whole(t, other, harness.Words(harness.Numbers(5, 20)))
			_, err = other.RPush(ctx, "20")
			require.NoError(t, err)
			whole(t, other, harness.Words(harness.Numbers(5, 21)))
		})
	}
}

// A shard that is lost, with its elements, is replaced: those behind it can be read and popped.
func TestRepairReplacesALostShard(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, harness.Numbers(0, 2)...)
		require.NoError(t, err)
		takeBack := takenBack(t, list)
		for i := 2; i < 12; i++ {
			_, err := list.RPush(ctx, fmt.Sprint(i))
			require.NoError(t, err)
		}
		generation := generationOf(t, list)
		lost := spread.PartOf(list.Name(), 2, 3)
		require.NoError(t, rdb.Del(ctx, lost.Shard(generation, 2), lost.Shard(generation, 5), lost.Meta).Err())
		takeBack()

		other := harness.OpenList(t, rdb, list.Name())
		require.NoError(t, harness.ErrorOf(other.Repair(ctx, shardedlist.RepairOptions{})))
		want := slices.Concat(harness.Words(harness.Numbers(0, 4)), harness.Words(harness.Numbers(6, 10)))
		whole(t, other, want)
		for range 3 {
			value, err := other.RPop(ctx)
			require.NoError(t, err)
			require.Equal(t, want[len(want)-1], value)
			want = want[:len(want)-1]
		}
		for i := range want {
			value, err := other.LPop(ctx)
			require.NoError(t, err)
			require.Equal(t, want[i], value)
		}
	})
}

// Lists that were deleted do not come back.
func TestRepairBringsNoDeletedListBack(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(2), shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, harness.Numbers(0, 2)...)
		require.NoError(t, err)
		_, err = list.RPush(ctx, harness.Numbers(2, 4)...)
		require.NoError(t, err)
		require.NoError(t, harness.ErrorOf(list.Repair(ctx, shardedlist.RepairOptions{}))) // and a sound one stays as it is
		generation := generationOf(t, list)
		for id := range int64(2) { // as a delete closes the ends
			part, field := spread.PartOf(list.Name(), int(id), 2), fmt.Sprintf("%d.%d", generation, id)
			state := rdb.HGet(ctx, part.Meta, field).Val()
			require.NoError(t, rdb.HSet(ctx, part.Meta, field, "000"+state[3:]).Err())
		}
		require.NoError(t, rdb.Del(ctx, harness.Keys(list).Meta).Err())

		other := harness.OpenList(t, rdb, list.Name(), shardedlist.WithParts(2))
		require.ErrorIs(t, harness.ErrorOf(other.Repair(ctx, shardedlist.RepairOptions{})), shardedlist.ErrBroken)
		assert.Empty(t, harness.Content(t, other))
		deleted, err := other.DelStrays(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 2, deleted)
		require.NoError(t, harness.ErrorOf(other.Repair(ctx, shardedlist.RepairOptions{})))
		_, err = other.RPush(ctx, "new")
		require.NoError(t, err)
		whole(t, other, []string{"new"})
	})
}

// Pointers are taken back and repaired while others push and pop: no element is lost, and none comes twice.
func TestRepairUnderTraffic(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), harness.Numbers(-50, 0)...)
		require.NoError(t, err)
		var (
			group        sync.WaitGroup
			lock         sync.Mutex
			next, broken atomic.Int64
			seen         = map[string]int{}
		)
		pops := func(pop func(context.Context) (string, error)) (bool, error) {
			value, err := pop(t.Context())
			if err == nil {
				lock.Lock()
				seen[value]++
				lock.Unlock()
			}
			return err == nil, harness.IgnoreNil(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			client := harness.OpenList(t, server.Client(t), list.Name())
			group.Go(func() {
				for ctx.Err() == nil {
					_, err := client.RPush(t.Context(), next.Add(1))
					require.NoError(t, err)
					_, err = client.LPush(t.Context(), next.Add(1))
					require.NoError(t, err)
					_, err = pops(client.LPop)
					require.NoError(t, err)
				}
			})
		}
		repairer := harness.OpenList(t, server.Client(t), list.Name())
		struck := 0
		start := time.Now()
		for time.Since(start) < time.Duration(redistest.Times(1, 3))*time.Second || struck == 0 && time.Since(start) < time.Minute {
			takeBack := takenBack(t, list)
			for before := next.Load(); next.Load() < before+20; {
				_, err := list.LLen(t.Context())
				require.NoError(t, err)
			}
			takeBack()
			if errors.Is(repairer.Check(t.Context()), shardedlist.ErrBroken) {
				struck++
			}
			err := harness.ErrorOf(repairer.Repair(t.Context(), shardedlist.RepairOptions{}))
			if err != nil {
				require.ErrorIs(t, err, shardedlist.ErrBroken)
				broken.Add(1)
			}
		}
		cancel()
		group.Wait()
		last := harness.OpenList(t, server.Client(t), list.Name())
		require.NoError(t, harness.ErrorOf(last.Repair(t.Context(), shardedlist.RepairOptions{})))
		for more := true; more; {
			more, err = pops(last.RPop)
			require.NoError(t, err)
		}
		assert.Positive(t, struck, "pointers taken back left shards outside")
		assert.Len(t, seen, int(next.Load())+50)
		for value, times := range seen {
			assert.Equal(t, 1, times, value)
		}
		t.Logf("%d elements, %d repairs left something", len(seen), broken.Load())
	})
}

// afterOnMeta is a hook that does something after the first script on the pointers with so many arguments, or after all of them. The
// client gets the error in place of the reply, if there is one.
type afterOnMeta struct {
	args         int
	always, done bool
	then         func() error
}

func (a *afterOnMeta) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *afterOnMeta) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *afterOnMeta) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		due := a.always || !a.done
		err := next(ctx, cmd)
		if args := cmd.Args(); due && err == nil && len(args) == 4+a.args && strings.HasSuffix(fmt.Sprint(args[3]), "}:meta") {
			a.done = true
			if err = a.then(); err != nil {
				cmd.SetErr(err)
			}
		}
		return err
	}
}

func lost() error { return io.EOF }

// A repair whose first reply is lost goes on.
func TestRepairWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		for i := range 10 {
			_, err := list.RPush(ctx, i)
			require.NoError(t, err)
		}
		require.NoError(t, rdb.Del(ctx, harness.Keys(list).Meta).Err())
		unlucky, hook := server.Client(t), &afterOnMeta{args: 9, then: lost}
		unlucky.AddHook(hook)
		other, err := shardedlist.New(unlucky, list.Name(), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		require.NoError(t, err)
		require.NoError(t, harness.ErrorOf(other.Repair(ctx, shardedlist.RepairOptions{})))
		assert.True(t, hook.done)
		whole(t, harness.OpenList(t, rdb, list.Name()), harness.Words(harness.Numbers(0, 10)))
	})
}
