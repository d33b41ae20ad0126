package exactlyonce

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whichever of its keys holds something else, an operation that meets it fails, and everything is as before.
func TestAWrongTypeIsAnErrorThatChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		foreign := map[string]func(list *shardedlist.ShardedList) string{
			"meta":       func(list *shardedlist.ShardedList) string { return harness.Keys(list).Meta },
			"bell":       func(list *shardedlist.ShardedList) string { return harness.Keys(list).Bell },
			"first":      func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), -1) },
			"middle":     func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), 0) },
			"last":       func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), 1) },
			"next right": func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), 2) },
			"next left":  func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), -2) },
			"far right":  func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), 4) },
			"far left":   func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), -4) },
		}
		met := map[string]bool{}
		for what, key := range foreign {
			for name, operate := range harness.Operations {
				for _, armed := range []bool{false, true} {
					if armed && what != "bell" && server.Kind() != redistest.Redis {
						continue // it takes long
					}
					list, err := shardedlist.New(rdb, fmt.Sprintf("%s %s %s %t", harness.UniqueName(t), what, name, armed), shardedlist.WithCapacity(2))
					require.NoError(t, err)
					if armed {
						harness.Arm(t, list)
					} else {
						_, err = list.LPush(t.Context(), "a", "b")
						require.NoError(t, err)
						_, err = list.RPush(t.Context(), "c", "d", "e", "f")
						require.NoError(t, err)
					}
					require.NoError(t, rdb.Set(t.Context(), key(list), "foreign", 0).Err())
					before := harness.Snapshot(t, list)
					err = operate(t.Context(), list)
					if err == nil {
						continue // it had no business with that key
					}
					met[what] = true
					assert.ErrorIs(t, err, shardedlist.ErrWrongType, "%s with a foreign %s", name, what)
					assert.Equal(t, before, harness.Snapshot(t, list), "%s with a foreign %s", name, what)
				}
			}
		}
		assert.Len(t, met, len(foreign), "each key is read by an operation: %v", slices.Collect(maps.Keys(met)))
	})
}

func TestAnUnknownLayoutIsAnErrorThatChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for name, meta := range map[string]map[string]any{
			"newer":  {"layout": "4 0 0 2 0 prefix"},
			"longer": {"layout": "30 0 0 2 0 prefix"},
			"older":  {"first": 0, "last": 0, "cap": 2},
			"no one": {"field": "value"},
		} {
			list, err := shardedlist.New(rdb, harness.UniqueName(t)+name, shardedlist.WithCapacity(2))
			require.NoError(t, err)
			require.NoError(t, rdb.HSet(t.Context(), harness.Keys(list).Meta, meta).Err())
			before := harness.Snapshot(t, list)
			for what, operate := range harness.Operations {
				assert.ErrorIs(t, operate(t.Context(), list), shardedlist.ErrLayout, what)
			}
			_, err = list.LLen(t.Context())
			assert.ErrorIs(t, err, shardedlist.ErrLayout)
			_, err = list.LIndex(t.Context(), 0)
			assert.ErrorIs(t, err, shardedlist.ErrLayout)
			_, err = list.LRange(t.Context(), 0, -1)
			assert.ErrorIs(t, err, shardedlist.ErrLayout)
			_, err = list.Info(t.Context())
			assert.ErrorIs(t, err, shardedlist.ErrLayout)
			assert.ErrorIs(t, list.Check(t.Context()), shardedlist.ErrLayout)
			assert.Equal(t, before, harness.Snapshot(t, list))
		}
	})
}

// A server forgets its scripts when it restarts, fails over, or is told to.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Embedded, redistest.Redis, redistest.Cluster, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			list := harness.NewList(t, redistest.Start(t, kind).Client(t), shardedlist.WithCapacity(2))
			flush := func() {
				for _, node := range harness.NodesOf(t, list) {
					require.NoError(t, node.ScriptFlush(t.Context()).Err())
				}
			}
			for _, operate := range harness.Operations {
				flush()
				require.NoError(t, operate(t.Context(), list))
			}
			_, err := list.Del(t.Context())
			require.NoError(t, err)
			result := harness.BlockingPop(t, list, t.Context(), 0)
			harness.Asleep(t, list)
			flush()
			_, err = list.RPush(t.Context(), "x")
			require.NoError(t, err)
			assert.Equal(t, harness.Got("x"), <-result)
			assert.NoError(t, list.Check(t.Context()))
		})
	}
}

// Over maxmemory, pushes fail and change nothing, and whatever takes elements out works.
func TestPopKeepsWorkingWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "maxmemory-policy noeviction")
			rdb := server.Client(t).(*redis.Client)
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			_, err := list.RPush(t.Context(), harness.Numbers(0, 100)...)
			require.NoError(t, err)
			doomed := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			_, err = doomed.RPush(t.Context(), harness.Numbers(0, 1000)...)
			require.NoError(t, err)
			empty := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			for _, operate := range harness.Operations { // the scripts are loaded
				require.NoError(t, operate(t.Context(), harness.NewList(t, rdb, shardedlist.WithCapacity(2))))
			}
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())

			for name, operate := range harness.Operations {
				if !strings.Contains(name, "push") {
					continue
				}
				for _, target := range []*shardedlist.ShardedList{list, empty} {
					before := harness.Snapshot(t, target)
					assert.ErrorContains(t, operate(t.Context(), target), "OOM", name)
					assert.Equal(t, before, harness.Snapshot(t, target), name)
				}
			}
			require.NoError(t, list.Check(t.Context()))

			for i, pop := range []func(context.Context) (string, error){
				list.LPop, list.LPop, list.LPop,
				func(ctx context.Context) (string, error) { return list.BLPop(ctx, 0) },
			} {
				value, err := pop(t.Context())
				require.NoError(t, err)
				assert.Equal(t, fmt.Sprint(i), value)
			}
			values, err := list.RPopCount(t.Context(), 50)
			require.NoError(t, err)
			assert.Len(t, values, 50)
			values, err = list.LPopCount(t.Context(), 100)
			require.NoError(t, err)
			assert.Equal(t, harness.Words(harness.Numbers(4, 50)), values)
			assert.Empty(t, harness.KeysOfList(t, list))

			// Waiting and giving up work too.
			_, err = list.BLPop(t.Context(), 10*time.Millisecond)
			assert.Equal(t, redis.Nil, err)
			ctx, cancel := context.WithCancel(t.Context())
			result := harness.BlockingPop(t, list, ctx, 0)
			harness.Asleep(t, list)
			cancel()
			assert.ErrorIs(t, (<-result).Err, context.Canceled)

			// The sweep of a Del that was cut short, where it meets only gaps.
			_, err = harness.Bare(harness.OneSlot(doomed).Delete()).Run(t.Context())
			require.NoError(t, err)
			for id := int64(100); id < 400; id++ {
				require.NoError(t, rdb.Del(t.Context(), harness.Shard(doomed, t.Context(), id)).Err())
			}
			for range 20 {
				_, err = doomed.LPop(t.Context())
				require.Equal(t, redis.Nil, err)
			}
			again := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			_, err = again.RPush(t.Context(), harness.Numbers(0, 1000)...)
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			doomed = again

			existed, err := doomed.Del(t.Context())
			require.NoError(t, err)
			assert.True(t, existed)
			assert.Empty(t, harness.KeysOfList(t, doomed))

			// And a waiter gets what is pushed once there is room.
			result = harness.BlockingPop(t, list, t.Context(), 0)
			harness.Asleep(t, list)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			_, err = list.LPush(t.Context(), "room")
			require.NoError(t, err)
			assert.Equal(t, harness.Got("room"), <-result)
		})
	}
}

func TestRestartWithAppendOnlyFile(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "appendonly yes", "appendfsync always")
			list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(3))
			result := harness.BlockingPop(t, list, t.Context(), 0)
			harness.Asleep(t, list)
			_, err := list.RPush(t.Context(), harness.Numbers(0, 100)...)
			require.NoError(t, err)
			require.Equal(t, harness.Got("0"), <-result)
			_, err = list.RPop(t.Context())
			require.NoError(t, err)
			server.Restart(t)
			assert.Equal(t, harness.Words(harness.Numbers(1, 99)), harness.Content(t, list))
			value, err := list.LPop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "1", value)
			require.NoError(t, list.Check(t.Context()))
		})
	}
}

// While a server loads its data set, operations wait for it.
func TestAPassingErrorIsRetriedUntilTheDeadline(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t, func(o *redis.UniversalOptions) { o.MaxRetries = -1 }).(*redis.Client)
	list := harness.NewList(t, rdb)
	require.NoError(t, rdb.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err()) // a replica is read-only
	refused := func(patience time.Duration) bool {                               // unless the deadline cuts an attempt short
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := list.RPush(ctx, "x")
		require.Error(t, err)
		return redis.HasErrorPrefix(err, "READONLY")
	}
	for patience := 50 * time.Millisecond; !refused(patience); patience *= 2 {
		require.Less(t, patience, time.Minute)
	}

	done := make(chan error)
	go func() {
		_, err := list.RPush(t.Context(), "x")
		done <- err
	}()
	result := harness.BlockingPop(t, list, t.Context(), 0)
	require.NoError(t, rdb.Do(t.Context(), "replicaof", "no", "one").Err())
	assert.NoError(t, <-done)
	assert.Equal(t, harness.Got("x"), <-result)
}

// A consumer that may have consumed a wake-up passes it on by a woken pop of nothing, also while memory is full.
func TestAWakeUpIsPassedOnWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
			list := harness.NewList(t, rdb)
			_, err := list.RPush(t.Context(), "a", "b")
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			_, err = harness.OneSlot(list).Source(layout.Left).Pop(0, blocking.Woken, "").Run(t.Context())
			assert.NoError(t, err)
			assert.EqualValues(t, 1, rdb.LLen(t.Context(), harness.Keys(list).Bell).Val(), "dummies in the bell")
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		})
	}
}
