package commands

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNewRefusesBadInput(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	var noClient *redis.Client
	for _, test := range []struct {
		rdb  redis.UniversalClient
		name string
		opts []shardedlist.Option
		want error
	}{
		{nil, "jobs", nil, shardedlist.ErrNilClient},
		{noClient, "jobs", nil, shardedlist.ErrNilClient},
		{rdb, "", nil, shardedlist.ErrEmptyName},
		{rdb, "jobs", []shardedlist.Option{shardedlist.WithCapacity(0)}, shardedlist.ErrCapacity},
		{rdb, "jobs", []shardedlist.Option{shardedlist.WithCapacity(-1)}, shardedlist.ErrCapacity},
		{rdb, "jobs", []shardedlist.Option{shardedlist.WithCapacity(shardedlist.MaxCapacity + 1)}, shardedlist.ErrCapacity},
		{rdb, "jobs", []shardedlist.Option{shardedlist.WithCapacity(1)}, nil},
		{rdb, "jobs", []shardedlist.Option{shardedlist.WithCapacity(shardedlist.MaxCapacity)}, nil},
		{rdb, "jobs", nil, nil},
	} {
		list, err := shardedlist.New(test.rdb, test.name, test.opts...)
		assert.ErrorIs(t, err, test.want)
		assert.Equal(t, test.want == nil, list != nil)
	}
}

func TestDelTellsWhetherTheListExisted(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		existed, err := list.Del(t.Context())
		require.NoError(t, err)
		assert.False(t, existed)

		_, err = list.RPush(t.Context(), harness.Numbers(0, 9)...)
		require.NoError(t, err)
		existed, err = list.Del(t.Context())
		require.NoError(t, err)
		assert.True(t, existed)
		assert.Empty(t, harness.KeysOfList(t, list))
	})
}

// A Del or a Rename whose client dies right after the atomic step leaves shards without a list. Whatever others then do with the
// list must neither see them nor keep them.
func TestLaterOperationsFinishAnInterruptedDel(t *testing.T) {
	t.Parallel()
	interrupted := map[string]func(t *testing.T, list *shardedlist.ShardedList){
		"del": func(t *testing.T, list *shardedlist.ShardedList) {
			_, err := list.RPush(t.Context(), harness.Numbers(0, 400)...)
			require.NoError(t, err)
			_, err = list.LPopCount(t.Context(), 10) // so that ids do not begin at 0
			require.NoError(t, err)
			_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context()) // and no sweep after it
			require.NoError(t, err)
		},
		"rename": func(t *testing.T, list *shardedlist.ShardedList) { // of three lists onto each other, all with shards to be swept
			prefix := "{" + list.Name() + "}"
			for i, name := range []string{prefix + "a", prefix + "b", prefix + "a"} {
				other, err := shardedlist.New(harness.Client(list), name, shardedlist.WithCapacity(1))
				require.NoError(t, err)
				_, err = other.RPush(t.Context(), harness.Numbers(0, 150)...)
				require.NoError(t, err)
				_, err = harness.Bare(harness.OneSlot(other).Trim(50, 100)).Run(t.Context())
				require.NoError(t, err)
				renaming, err := harness.OneSlot(other).Transfer(layout.Rename, harness.OneSlot(list), true)
				require.NoError(t, err)
				_, err = harness.Bare(renaming).Run(t.Context())
				require.NoError(t, err)
				require.Len(t, harness.Content(t, list), 51, "rename %d", i)
			}
			_, err := harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
			require.NoError(t, err)
		},
	}
	later := map[string]func(ctx context.Context, list *shardedlist.ShardedList, i int) error{
		"rpush": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			_, err := list.RPush(ctx, i)
			return err
		},
		"lpush": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			_, err := list.LPush(ctx, i)
			return err
		},
		"lpush many": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			_, err := list.LPush(ctx, harness.Numbers(0, 300)...) // beyond what one step sweeps, over the stale shards
			return err
		},
		"push and pop": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			if _, err := list.LPush(ctx, i); err != nil {
				return err
			}
			_, err := list.RPop(ctx)
			return err
		},
		"pop of nothing": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			_, err := list.LPop(ctx)
			return harness.IgnoreNil(err)
		},
		"blocking pop": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			_, err := list.BLPop(ctx, time.Millisecond)
			return harness.IgnoreNil(err)
		},
		"rotation": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			if _, err := list.LPush(ctx, harness.Numbers(0, 3)...); err != nil {
				return err
			}
			_, err := list.LMoveM(ctx, list, "RIGHT", "LEFT", redis.LMoveMArgs{Count: int64(i + 1)})
			return err
		},
		"move away": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			if _, err := list.LPush(ctx, i); err != nil {
				return err
			}
			_, err := list.LMove(ctx, harness.Beside(list), "LEFT", "LEFT")
			return err
		},
		"lmpop of nothing": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			_, _, err := shardedlist.LMPop(ctx, "LEFT", 1, list)
			return harness.IgnoreNil(err)
		},
		"del": func(ctx context.Context, list *shardedlist.ShardedList, i int) error {
			_, err := list.Del(ctx)
			return err
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, operate := range later {
			for cut, interrupt := range interrupted {
				t.Run(cut+", "+name, func(t *testing.T) {
					list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(1))
					interrupt(t, list)

					length, err := list.LLen(t.Context())
					require.NoError(t, err)
					require.Zero(t, length)
					require.Empty(t, harness.Content(t, list))
					info, err := list.Info(t.Context())
					require.NoError(t, err)
					require.Greater(t, info.Unswept, int64(200))

					for i := range 20 {
						require.NoError(t, operate(t.Context(), list, i))
						if i%4 == 0 {
							require.NoError(t, list.Check(t.Context()))
						}
					}
					info, err = list.Info(t.Context())
					require.NoError(t, err)
					assert.Zero(t, info.Unswept)
					for _, name := range []string{"a", "b"} {
						assert.Empty(t, harness.KeysOfList(t, harness.OpenList(t, harness.Client(list), "{"+list.Name()+"}"+name)), "of the lists that were renamed")
					}
					shards := 0
					for _, key := range harness.KeysOfList(t, list) {
						if key != harness.Keys(list).Meta && !strings.HasPrefix(key, harness.Keys(list).Bell) && !strings.HasPrefix(key, harness.Keys(harness.Beside(list)).Prefix) {
							shards++
						}
					}
					assert.EqualValues(t, info.Shards, shards)
					assert.Len(t, harness.Content(t, list), int(info.Length))
				})
			}
		}
	})
}

func TestDelOfAMillionElementsTakesBoundedSteps(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t).(*redis.Client)
	list := harness.NewList(t, rdb)
	for i := 0; i < 1_000_000; i += 100_000 {
		_, err := list.RPush(t.Context(), harness.Numbers(i, i+100_000)...)
		require.NoError(t, err)
	}
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())

	reply, err := harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(1)}, reply)
	calls := harness.CommandCalls(t, rdb)
	assert.LessOrEqual(t, calls["unlink"], 100)
	assert.Less(t, calls["unlink"]+calls["exists"]+calls["hset"]+calls["llen"], 220)

	existed, err := list.Del(t.Context())
	require.NoError(t, err)
	assert.False(t, existed)
	assert.Empty(t, harness.KeysOfList(t, list))
	calls = harness.CommandCalls(t, rdb)
	assert.LessOrEqual(t, calls["unlink"], 320*calls["call"], "steps grow while they are fast")
}

// The capacity belongs to the list, whoever pushes.
func TestTheListKeepsTheCapacityItWasCreatedWith(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		creator := harness.NewList(t, rdb, shardedlist.WithCapacity(3))
		other, err := shardedlist.New(rdb, creator.Name(), shardedlist.WithCapacity(100))
		require.NoError(t, err)

		_, err = creator.RPush(t.Context(), harness.Numbers(0, 4)...)
		require.NoError(t, err)
		_, err = other.RPush(t.Context(), harness.Numbers(4, 10)...)
		require.NoError(t, err)
		info, err := other.Info(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, info.Capacity)
		assert.EqualValues(t, 4, info.Shards)

		_, err = other.LPopCount(t.Context(), 10)
		require.NoError(t, err)
		_, err = other.RPush(t.Context(), harness.Numbers(0, 101)...)
		require.NoError(t, err)
		info, err = creator.Info(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 100, info.Capacity, "a list that was empty is created again")
	})
}

func TestCapacityComesFromTheServer(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for setting, want := range map[string]int64{
			"list-max-listpack-size 37": 37,
			"list-max-ziplist-size 41":  41,
			"list-max-ziplist-size 16":  16,
			"list-max-ziplist-size 15":  bySize, // too small for keys
			"list-max-ziplist-size 1":   bySize,
			"list-max-ziplist-size -2":  bySize, // a size in bytes
			`rename-command CONFIG ""`:  bySize, // as managed services do
		} {
			t.Run(string(kind)+" "+setting, func(t *testing.T) {
				t.Parallel()
				if strings.Contains(setting, "listpack") && strings.HasPrefix(redistest.Shared(t, kind).Version(), "Redis 6.") {
					t.Skip("the setting has another name before Redis 7")
				}
				list := harness.NewList(t, redistest.Start(t, kind, setting).Client(t))
				_, err := list.RPush(t.Context(), slices.Repeat([]any{value}, int(want))...)
				require.NoError(t, err)
				info, err := list.Info(t.Context())
				require.NoError(t, err)
				assert.Zero(t, info.Capacity, "it is a plain list")
				_, err = list.RPush(t.Context(), value)
				require.NoError(t, err)
				info, err = list.Info(t.Context())
				require.NoError(t, err)
				assert.Equal(t, want, info.Capacity)
			})
		}
	}
}

// value is one of which so many make 128 KiB.
const bySize = 4096

var value = strings.Repeat("v", 32)

func TestAClientAsksForTheCapacityOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		count := &harness.ConfigFails{}
		rdb := server.Client(t)
		rdb.AddHook(count)
		prefix := harness.UniqueName(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"hooked*")))
		for i := range 5 {
			require.NoError(t, rdb.RPush(t.Context(), fmt.Sprint(prefix, "hooked", i), "a").Err())
			_, err := harness.OpenList(t, rdb, fmt.Sprint(prefix, i)).RPush(t.Context(), "a")
			require.NoError(t, err)
		}
		assert.EqualValues(t, 1, count.Calls.Load())
	})
}

// What the server answers about its capacity is kept. A reply that it cannot tell now is not an answer.
func TestTheServersCapacityIsAskedForUntilItTells(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, "list-max-ziplist-size 37")
	const loading = rediserr.Error("LOADING Redis is loading the dataset in memory")
	for name, tt := range map[string]struct {
		errors []error
		want   []int64 // capacities of lists created in turn
		calls  int64
	}{
		"none":      {nil, []int64{37, 37}, 1},
		"passing":   {[]error{loading, loading, rediserr.Error("BUSY Redis is busy running a script.")}, []int64{37, 37}, 4},
		"cut":       {[]error{io.EOF, io.ErrUnexpectedEOF}, []int64{37, 37}, 3},
		"other":     {[]error{rediserr.Error("ERR not now")}, []int64{bySize, 37, 37}, 2},
		"forbidden": {[]error{rediserr.Error("NOPERM User worker has no permissions to run the 'config|get' command")}, []int64{bySize, bySize}, 1},
		"unknown":   {[]error{rediserr.Error("ERR unknown command 'config', with args beginning with: 'get' ")}, []int64{bySize, bySize}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails := &harness.ConfigFails{Errors: tt.errors}
			rdb := server.Client(t)
			rdb.AddHook(fails)
			list := harness.NewList(t, rdb)
			for _, want := range tt.want {
				_, err := list.RPush(t.Context(), slices.Repeat([]any{value}, int(want)+1)...)
				require.NoError(t, err)
				info, err := list.Info(t.Context())
				require.NoError(t, err)
				assert.Equal(t, want, info.Capacity)
				_, err = list.Del(t.Context())
				require.NoError(t, err)
			}
			assert.Equal(t, tt.calls, fails.Calls.Load())
		})
	}

	t.Run("for ever", func(t *testing.T) {
		t.Parallel()
		rdb := server.Client(t)
		rdb.AddHook(&harness.ConfigFails{Errors: slices.Repeat([]error{loading}, 1000)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := harness.NewList(t, rdb).RPush(ctx, "a")
		assert.ErrorIs(t, err, loading)
		assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown, "nothing was sent")
	})
}

func TestAnEmptyListLeavesNoKeyForLongerThanAMinute(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 7)...)
		require.NoError(t, err)
		_, err = list.RPopCount(t.Context(), 7)
		require.NoError(t, err)
		assert.Empty(t, harness.KeysOfList(t, list))

		// Consumers that waited leave an armed list or a dummy, with a short life.
		harness.Arm(t, list)
		require.NotEmpty(t, harness.KeysOfList(t, list))
		harness.AssertAllExpire(t, list)
		_, err = list.RPush(t.Context(), "rings")
		require.NoError(t, err)
		assert.Zero(t, rdb.Exists(t.Context(), harness.Keys(list).Meta).Val(), "a short list has no meta")
		_, err = list.LPop(t.Context())
		require.NoError(t, err)
		harness.AssertAllExpire(t, list)
	})
}
