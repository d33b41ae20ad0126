package shardedlist

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// operations are all methods that change a list, by name. The list they are run on has the capacity 2.
var operations = map[string]func(ctx context.Context, list *ShardedList) error{
	"lpush": func(ctx context.Context, list *ShardedList) error { _, err := list.LPush(ctx, "new"); return err },
	"rpush": func(ctx context.Context, list *ShardedList) error { _, err := list.RPush(ctx, "new"); return err },
	"lpush many": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LPush(ctx, numbers(0, 7)...)
		return err
	},
	"rpush many": func(ctx context.Context, list *ShardedList) error {
		_, err := list.RPush(ctx, numbers(0, 7)...)
		return err
	},
	"lpop": func(ctx context.Context, list *ShardedList) error { _, err := list.LPop(ctx); return ignoreNil(err) },
	"rpop": func(ctx context.Context, list *ShardedList) error { _, err := list.RPop(ctx); return ignoreNil(err) },
	"lpop many": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LPopCount(ctx, 5)
		return ignoreNil(err)
	},
	"rpop many": func(ctx context.Context, list *ShardedList) error {
		_, err := list.RPopCount(ctx, 5)
		return ignoreNil(err)
	},
	"lpop all": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LPopCount(ctx, 100)
		return ignoreNil(err)
	},
	"blpop": func(ctx context.Context, list *ShardedList) error {
		_, err := list.BLPop(ctx, 5*time.Millisecond)
		return ignoreNil(err)
	},
	"brpop": func(ctx context.Context, list *ShardedList) error {
		_, err := list.BRPop(ctx, 5*time.Millisecond)
		return ignoreNil(err)
	},
	"lmove": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LMove(ctx, beside(list), "LEFT", "RIGHT")
		return ignoreNil(err)
	},
	"lmovem": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LMoveM(ctx, beside(list), "RIGHT", "LEFT", redis.LMoveMArgs{Count: 5})
		return ignoreNil(err)
	},
	"rotate": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LMove(ctx, list, "RIGHT", "LEFT")
		return ignoreNil(err)
	},
	"rotate many": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LMoveM(ctx, list, "LEFT", "RIGHT", redis.LMoveMArgs{Count: 4})
		return ignoreNil(err)
	},
	"turn around": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LMoveM(ctx, list, "LEFT", "LEFT", redis.LMoveMArgs{Count: 3, Order: redis.LMoveMOBO})
		return ignoreNil(err)
	},
	"blmove": func(ctx context.Context, list *ShardedList) error {
		_, err := list.BLMove(ctx, beside(list), "LEFT", "LEFT", 5*time.Millisecond)
		return ignoreNil(err)
	},
	"lmpop": func(ctx context.Context, list *ShardedList) error {
		_, _, err := LMPop(ctx, "LEFT", 3, list, beside(list))
		return ignoreNil(err)
	},
	"blmpop": func(ctx context.Context, list *ShardedList) error {
		_, _, err := BLMPop(ctx, 5*time.Millisecond, "RIGHT", 3, list, beside(list))
		return ignoreNil(err)
	},
	"del":       func(ctx context.Context, list *ShardedList) error { _, err := list.Del(ctx); return err },
	"delstrays": func(ctx context.Context, list *ShardedList) error { _, err := list.DelStrays(ctx); return err },
	"lpushx": func(ctx context.Context, list *ShardedList) error {
		_, err := list.LPushX(ctx, numbers(0, 3)...)
		return err
	},
	"rpushx":  func(ctx context.Context, list *ShardedList) error { _, err := list.RPushX(ctx, "new"); return err },
	"lset":    func(ctx context.Context, list *ShardedList) error { return ignoreRefusal(list.LSet(ctx, 2, "new")) },
	"linsert": func(ctx context.Context, list *ShardedList) error { return insertAt(ctx, list, 1) },
	"linsert to the right": func(ctx context.Context, list *ShardedList) error {
		return insertAt(ctx, list, -2)
	},
	"lrem": func(ctx context.Context, list *ShardedList) error { return removeAt(ctx, list, 2) },
	"lrem from the right": func(ctx context.Context, list *ShardedList) error {
		return removeAt(ctx, list, -3)
	},
	"ltrim":         func(ctx context.Context, list *ShardedList) error { return list.LTrim(ctx, 1, -2) },
	"ltrim to one":  func(ctx context.Context, list *ShardedList) error { return list.LTrim(ctx, 3, 3) },
	"ltrim to none": func(ctx context.Context, list *ShardedList) error { return list.LTrim(ctx, 1, 0) },
	"expire": func(ctx context.Context, list *ShardedList) error {
		_, err := list.Expire(ctx, time.Hour)
		return err
	},
	"expire at once": func(ctx context.Context, list *ShardedList) error { _, err := list.Expire(ctx, 0); return err },
	"persist":        func(ctx context.Context, list *ShardedList) error { _, err := list.Persist(ctx); return err },
	"rename": func(ctx context.Context, list *ShardedList) error {
		_, err := list.RenameNX(ctx, "{"+list.Name()+"}renamed")
		return ignoreRefusal(err)
	},
	"script rpush": func(ctx context.Context, list *ShardedList) error {
		return NewScript("return rpush('new')").Run(ctx, list, nil).Err()
	},
	"script push many": func(ctx context.Context, list *ShardedList) error {
		return NewScript("return {lpush(unpack(ARGV)), rpush('new')}").Run(ctx, list, nil, numbers(0, 7)...).Err()
	},
	"script": func(ctx context.Context, list *ShardedList) error {
		return NewScript("return 'nothing changed'").Run(ctx, list, nil).Err()
	},
	"copy": func(ctx context.Context, list *ShardedList) error {
		_, err := list.Copy(ctx, "{"+list.Name()+"}copy", true)
		return err
	},
}

// beside is another list whose keys are among those that snapshot takes for the list's.
func beside(list *ShardedList) *ShardedList {
	other, err := New(list.rdb(), list.keys().Prefix+"beside", WithCapacity(2))
	if err != nil {
		panic(err)
	}
	return other
}

// snapshot is the content of all keys of the list, wherever they are, but those that only wake consumers,
// the dedup records, and the times to live.
func snapshot(t testing.TB, list *ShardedList) map[string]string {
	t.Helper()
	keys := map[string]string{}
	for node, found := range keysByNode(t, list) {
		for _, key := range found {
			value := read(t, node, key)
			if value == "" { // it has expired meanwhile
				continue
			}
			if !strings.HasPrefix(key, list.keys().Bell+":") && !strings.HasPrefix(key, list.keys().Records()) {
				keys[key] = value
			}
		}
	}
	return keys
}

// read returns what a key holds on that very node, also if the node is about to receive the key's slot.
func read(t testing.TB, node *redis.Client, key string) string {
	t.Helper()
	ask := func(args ...any) any {
		reply := asking(t, node, args...)
		require.NoError(t, reply.Err())
		return reply.Val()
	}
	switch kind := ask("type", key); kind {
	case "list":
		return fmt.Sprint(ask("lrange", key, 0, -1))
	case "hash":
		fields := ask("hgetall", key)
		if pairs, ok := fields.([]any); ok { // in RESP2, and in any order
			sorted := map[any]any{}
			for pair := range slices.Chunk(pairs, 2) {
				sorted[pair[0]] = pair[1]
			}
			fields = sorted
		}
		return fmt.Sprint(fields)
	case "string":
		return fmt.Sprint(ask("get", key))
	case "none":
		return ""
	default:
		t.Fatalf("a %s at %q", kind, key)
		return ""
	}
}

// asking sends a command to that very node.
func asking(t testing.TB, node *redis.Client, args ...any) *redis.Cmd {
	pipe := node.Pipeline()
	pipe.Do(t.Context(), "asking")
	reply := pipe.Do(t.Context(), args...)
	_, _ = pipe.Exec(t.Context()) // asking is an error where there is no cluster
	return reply
}

// Whichever of its keys holds something else, an operation that meets it fails, and everything is as before.
func TestAWrongTypeIsAnErrorThatChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		foreign := map[string]func(list *ShardedList) string{
			"meta":       func(list *ShardedList) string { return list.keys().Meta },
			"bell":       func(list *ShardedList) string { return list.keys().Bell },
			"first":      func(list *ShardedList) string { return list.shard(context.Background(), -1) },
			"middle":     func(list *ShardedList) string { return list.shard(context.Background(), 0) },
			"last":       func(list *ShardedList) string { return list.shard(context.Background(), 1) },
			"next right": func(list *ShardedList) string { return list.shard(context.Background(), 2) },
			"next left":  func(list *ShardedList) string { return list.shard(context.Background(), -2) },
			"far right":  func(list *ShardedList) string { return list.shard(context.Background(), 4) },
			"far left":   func(list *ShardedList) string { return list.shard(context.Background(), -4) },
		}
		met := map[string]bool{}
		for what, key := range foreign {
			for name, operate := range operations {
				for _, armed := range []bool{false, true} {
					if armed && what != "bell" && server.Kind() != redistest.Redis {
						continue // it takes long
					}
					list, err := New(rdb, fmt.Sprintf("%s %s %s %t", uniqueName(t), what, name, armed), WithCapacity(2))
					require.NoError(t, err)
					if armed {
						arm(t, list)
					} else {
						_, err = list.LPush(t.Context(), "a", "b")
						require.NoError(t, err)
						_, err = list.RPush(t.Context(), "c", "d", "e", "f")
						require.NoError(t, err)
					}
					require.NoError(t, rdb.Set(t.Context(), key(list), "foreign", 0).Err())
					before := snapshot(t, list)
					err = operate(t.Context(), list)
					if err == nil {
						continue // it had no business with that key
					}
					met[what] = true
					assert.ErrorIs(t, err, ErrWrongType, "%s with a foreign %s", name, what)
					assert.Equal(t, before, snapshot(t, list), "%s with a foreign %s", name, what)
				}
			}
		}
		assert.Len(t, met, len(foreign), "each key is read by an operation: %v", slices.Collect(maps.Keys(met)))
	})
}

func TestAnUnknownLayoutIsAnErrorThatChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for name, meta := range map[string]map[string]any{
			"newer":  {"layout": "4 0 0 2 0 prefix"},
			"longer": {"layout": "30 0 0 2 0 prefix"},
			"older":  {"first": 0, "last": 0, "cap": 2},
			"no one": {"field": "value"},
		} {
			list, err := New(rdb, uniqueName(t)+name, WithCapacity(2))
			require.NoError(t, err)
			require.NoError(t, rdb.HSet(t.Context(), list.keys().Meta, meta).Err())
			before := snapshot(t, list)
			for what, operate := range operations {
				assert.ErrorIs(t, operate(t.Context(), list), ErrLayout, what)
			}
			_, err = list.LLen(t.Context())
			assert.ErrorIs(t, err, ErrLayout)
			_, err = list.LIndex(t.Context(), 0)
			assert.ErrorIs(t, err, ErrLayout)
			_, err = list.LRange(t.Context(), 0, -1)
			assert.ErrorIs(t, err, ErrLayout)
			_, err = list.Info(t.Context())
			assert.ErrorIs(t, err, ErrLayout)
			assert.ErrorIs(t, list.Check(t.Context()), ErrLayout)
			assert.Equal(t, before, snapshot(t, list))
		}
	})
}

// A server forgets its scripts when it restarts, fails over, or is told to.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Embedded, redistest.Redis, redistest.Cluster, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			list := newList(t, redistest.Start(t, kind).Client(t), WithCapacity(2))
			flush := func() {
				for _, node := range nodesOf(t, list) {
					require.NoError(t, node.ScriptFlush(t.Context()).Err())
				}
			}
			for _, operate := range operations {
				flush()
				require.NoError(t, operate(t.Context(), list))
			}
			_, err := list.Del(t.Context())
			require.NoError(t, err)
			result := blockingPop(t, list, t.Context(), 0)
			asleep(t, list)
			flush()
			_, err = list.RPush(t.Context(), "x")
			require.NoError(t, err)
			assert.Equal(t, popped{"x", nil}, <-result)
			assert.NoError(t, list.Check(t.Context()))
		})
	}
}

// Over maxmemory, pushes fail and change nothing, and whatever takes elements out works.
func TestPopKeepsWorkingWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "maxmemory-policy noeviction")
			rdb := server.Client(t).(*redis.Client)
			list := newList(t, rdb, WithCapacity(2))
			_, err := list.RPush(t.Context(), numbers(0, 100)...)
			require.NoError(t, err)
			doomed := newList(t, rdb, WithCapacity(2))
			_, err = doomed.RPush(t.Context(), numbers(0, 1000)...)
			require.NoError(t, err)
			empty := newList(t, rdb, WithCapacity(2))
			for _, operate := range operations { // the scripts are loaded
				require.NoError(t, operate(t.Context(), newList(t, rdb, WithCapacity(2))))
			}
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())

			for name, operate := range operations {
				if !strings.Contains(name, "push") {
					continue
				}
				for _, target := range []*ShardedList{list, empty} {
					before := snapshot(t, target)
					assert.ErrorContains(t, operate(t.Context(), target), "OOM", name)
					assert.Equal(t, before, snapshot(t, target), name)
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
			assert.Equal(t, words(numbers(4, 50)), values)
			assert.Empty(t, keysOfList(t, list))

			// Waiting and giving up work too.
			_, err = list.BLPop(t.Context(), 10*time.Millisecond)
			assert.Equal(t, redis.Nil, err)
			ctx, cancel := context.WithCancel(t.Context())
			result := blockingPop(t, list, ctx, 0)
			asleep(t, list)
			cancel()
			assert.ErrorIs(t, (<-result).err, context.Canceled)

			// The sweep of a Del that was cut short, where it meets only gaps.
			_, err = bare(doomed.slot().Delete()).Run(t.Context())
			require.NoError(t, err)
			for id := int64(100); id < 400; id++ {
				require.NoError(t, rdb.Del(t.Context(), doomed.shard(t.Context(), id)).Err())
			}
			for range 20 {
				_, err = doomed.LPop(t.Context())
				require.Equal(t, redis.Nil, err)
			}
			again := newList(t, rdb, WithCapacity(2))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			_, err = again.RPush(t.Context(), numbers(0, 1000)...)
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			doomed = again

			existed, err := doomed.Del(t.Context())
			require.NoError(t, err)
			assert.True(t, existed)
			assert.Empty(t, keysOfList(t, doomed))

			// And a waiter gets what is pushed once there is room.
			result = blockingPop(t, list, t.Context(), 0)
			asleep(t, list)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			_, err = list.LPush(t.Context(), "room")
			require.NoError(t, err)
			assert.Equal(t, popped{"room", nil}, <-result)
		})
	}
}

func TestRestartWithAppendOnlyFile(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "appendonly yes", "appendfsync always")
			list := newList(t, server.Client(t), WithCapacity(3))
			result := blockingPop(t, list, t.Context(), 0)
			asleep(t, list)
			_, err := list.RPush(t.Context(), numbers(0, 100)...)
			require.NoError(t, err)
			require.Equal(t, popped{"0", nil}, <-result)
			_, err = list.RPop(t.Context())
			require.NoError(t, err)
			server.Restart(t)
			assert.Equal(t, words(numbers(1, 99)), content(t, list))
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
	list := newList(t, rdb)
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
	result := blockingPop(t, list, t.Context(), 0)
	require.NoError(t, rdb.Do(t.Context(), "replicaof", "no", "one").Err())
	assert.NoError(t, <-done)
	assert.Equal(t, popped{"x", nil}, <-result)
}

// A consumer that may have consumed a wake-up passes it on by a woken pop of nothing, also while memory is full.
func TestAWakeUpIsPassedOnWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
			list := newList(t, rdb)
			_, err := list.RPush(t.Context(), "a", "b")
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			_, err = list.slot().Source(layout.Left).Pop(0, blocking.Woken, "").Run(t.Context())
			assert.NoError(t, err)
			assert.EqualValues(t, 1, rdb.LLen(t.Context(), list.keys().Bell).Val(), "dummies in the bell")
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		})
	}
}
