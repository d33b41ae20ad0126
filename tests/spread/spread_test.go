package spread

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/spread"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A spread list does what a list does, over any number of shards and parts.
func TestSpreadList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for _, parts := range []int{1, 3, 64} {
			for _, capacity := range []int{1, 2, 7} {
				t.Run(fmt.Sprint(parts, " parts of ", capacity), func(t *testing.T) {
					ctx, list := t.Context(), harness.NewList(t, server.Client(t), shardedlist.WithParts(parts), shardedlist.WithCapacity(capacity))
					_, err := list.LPop(ctx)
					require.ErrorIs(t, err, redis.Nil)
					for i := range int64(30) {
						length, err := list.RPush(ctx, i)
						require.NoError(t, err)
						require.Equal(t, 2*i+1, length)
						length, err = list.LPush(ctx, -i-1)
						require.NoError(t, err)
						require.Equal(t, 2*i+2, length)
					}
					length, err := list.LLen(ctx)
					require.NoError(t, err)
					require.EqualValues(t, 60, length)
					require.NoError(t, list.Check(ctx))
					for i := range int64(60) {
						value, err := list.LIndex(ctx, i)
						require.NoError(t, err)
						require.Equal(t, fmt.Sprint(i-30), value)
						value, err = list.LIndex(ctx, -1-i)
						require.NoError(t, err)
						require.Equal(t, fmt.Sprint(29-i), value)
					}
					for i := range int64(30) {
						value, err := list.LPop(ctx)
						require.NoError(t, err)
						require.Equal(t, fmt.Sprint(i-30), value)
						value, err = list.RPop(ctx)
						require.NoError(t, err)
						require.Equal(t, fmt.Sprint(29-i), value)
					}
					_, err = list.RPop(ctx)
					require.ErrorIs(t, err, redis.Nil)
					existed, err := list.Del(ctx)
					require.NoError(t, err)
					assert.False(t, existed)
				})
			}
		}
	})
}

// Consumers that wait hear of every push, though the list moves to another part with each.
func TestSpreadListWakesConsumers(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		list := harness.NewList(t, server.Client(t), shardedlist.WithParts(5), shardedlist.WithCapacity(1))
		producer := harness.OpenList(t, server.Client(t), list.Name())
		got := make(chan string)
		go func() {
			for {
				value, err := list.BLPop(ctx, 0)
				if err != nil {
					close(got)
					return
				}
				got <- value
			}
		}()
		for i := range 100 {
			_, err := producer.RPush(ctx, i, -i)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i), <-got)
			require.Equal(t, fmt.Sprint(-i), <-got)
		}
	})
}

// spreadModel is a list as callers of a spread one know it: the length that a push returns is not promised.
func spreadModel() porcupine.Model {
	model := history.Model
	model.Step = func(state, input, output any) (bool, any) {
		call, outcome := input.(history.Call), output.(history.Outcome)
		if strings.HasSuffix(call.Name, "push") && outcome.Fate == ledger.Done {
			_, result := history.Apply(state.([]string), call)
			outcome.Number = result.Number
		}
		return history.Model.Step(state, call, outcome)
	}
	return model
}

// stalePointers is a hook for a client that acts on pointers which others have moved meanwhile: replies with them come late.
type stalePointers struct{ delayed atomic.Int64 }

func (s *stalePointers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *stalePointers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *stalePointers) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); redistest.IsCall(cmd.Name()) && strings.HasSuffix(fmt.Sprint(args[3]), "}:meta") {
			s.delayed.Add(1)
			time.Sleep(rand.N(3 * time.Millisecond))
		}
		return err
	}
}

// Handles with pointers that others have moved meanwhile push and pop at both ends, wait, and are cancelled: there is an order of all
// calls that explains what each of them saw.
func TestSpreadListInExactOrder(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		var connections []redis.UniversalClient
		var stale stalePointers
		for i := range 5 {
			connections = append(connections, server.Client(t))
			if i%2 == 1 {
				connections[i].AddHook(&stale)
			}
		}
		defer func() { assert.Greater(t, stale.delayed.Load(), int64(20)) }()
		var order harness.Order
		defer order.Decided(t)
		for seed := range uint64(32) {
			name := harness.NewList(t, connections[0]).Name()
			options := []shardedlist.Option{shardedlist.WithParts([]int{1, 2, 3, 64}[seed%4]), shardedlist.WithCapacity([]int{1, 2, 3, 7}[seed/4%4])}
			calls, stalled := harness.Hammer(t, connections, name, seed, options...)
			if stalled {
				continue
			}
			operations := history.Operations(calls)
			order.Check(t, spreadModel(), operations, seed)
		}
	})
}

// Connections break, requests arrive late, and every element comes out once, each producer's in order.
func TestSpreadListExactlyOnceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster} {
		for fault, rates := range harness.Faults {
			for _, name := range []string{"RPush LPopCount", "LPush BRPop, mixed"} {
				if !redistest.Long() && fault != "everything" && (kind == redistest.Cluster || !strings.Contains(name, "mixed")) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, %s", kind, fault, name), func(t *testing.T) {
					t.Parallel()
					server, proxy, end := redistest.Shared(t, kind), redistest.NewProxy(t), harness.Ends[name]
					list := harness.NewList(t, server.Client(t), shardedlist.WithParts(4), shardedlist.WithCapacity(5))
					broken := harness.OpenList(t, server.Client(t, harness.Through(proxy)), list.Name(), shardedlist.WithParts(4), shardedlist.WithCapacity(5))
					proxy.Set(rates)
					traffic := harness.NewTraffic(8)
					traffic.Run(t, harness.FaultOperations(), harness.Strikes(proxy), func(ctx context.Context, value string) error {
						_, err := end.Push(broken, ctx, value)
						return err
					}, func(ctx context.Context, i int) ([]string, error) { return end.Pop(broken, ctx, i) })
					proxy.Set(redistest.Faults{})
					rest, err := list.LRange(t.Context(), 0, -1)
					require.NoError(t, err)
					assert.Empty(t, rest)
					traffic.AssertOnceInOrder(t)
				})
			}
		}
	}
}

// The slots of the parts and of the pointers move to other nodes and back, all the time.
func TestSpreadListWhileSlotsMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(5))
	meta := harness.Keys(list).Meta
	slots := []int{script.Slot(meta)}
	for part := range 3 {
		slots = append(slots, script.Slot(spread.PartOf(list.Name(), part, 3).Meta))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var moves atomic.Int64
	var mover sync.WaitGroup
	mover.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			assert.NoError(t, server.MoveSlot(t.Context(), slots[i%len(slots)], i/len(slots)%3, nil))
			moves.Add(1)
		}
	})
	traffic := harness.NewTraffic(4)
	traffic.Run(t, harness.FaultOperations(), func() bool { return moves.Load() > 20 }, func(ctx context.Context, value string) error {
		_, err := list.LPush(ctx, value)
		return err
	}, func(ctx context.Context, i int) ([]string, error) {
		return harness.Ends["LPush BRPop, mixed"].Pop(list, ctx, i)
	})
	cancel()
	mover.Wait()
	assert.Empty(t, harness.Content(t, list), "consumers leave when the list stays empty")
	traffic.AssertOnceInOrder(t)
}

// While the slot of a part moves, its keys are on two nodes. After each key that moved, every operation is tried: whether it succeeds or
// fails, the elements are what it says.
func TestErrorsChangeNothingWhileAPartMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	rdb := server.Client(t, func(o *redis.UniversalOptions) { o.MaxRedirects = 1 })
	setups := map[string]func(list *shardedlist.ShardedList) error{
		"one": func(list *shardedlist.ShardedList) error { _, err := list.RPush(t.Context(), 100); return err },
		"two parts": func(list *shardedlist.ShardedList) error {
			_, err := list.RPush(t.Context(), harness.Numbers(100, 103)...)
			return err
		},
		"left behind": func(list *shardedlist.ShardedList) error {
			_, err := list.RPush(t.Context(), harness.Numbers(100, 109)...)
			for range 7 {
				if err == nil {
					_, err = list.LPop(t.Context())
				}
			}
			return err
		},
	}
	push := func(do func(*shardedlist.ShardedList, context.Context, ...any) (int64, error), values ...string) func(context.Context, *shardedlist.ShardedList) ([]string, error) {
		return func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error) {
			all := make([]any, len(values))
			for i, value := range values {
				all[i] = value
			}
			if _, err := do(list, ctx, all...); err != nil {
				return nil, err
			}
			return values, nil
		}
	}
	operations := map[string]struct {
		push, pop func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error)
	}{
		"lpush":      {push: push((*shardedlist.ShardedList).LPush, "a")},
		"rpush":      {push: push((*shardedlist.ShardedList).RPush, "a")},
		"lpush many": {push: push((*shardedlist.ShardedList).LPush, "a", "b", "c")},
		"lpop": {pop: func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error) {
			return harness.Single(list.LPop(ctx))
		}},
		"rpop": {pop: func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error) {
			return harness.Single(list.RPop(ctx))
		}},
		"lpop two": {pop: func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error) {
			return list.LPopCount(ctx, 2)
		}},
		"lpop all": {pop: func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error) {
			return list.LPopCount(ctx, 9)
		}},
		"rpop all": {pop: func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error) {
			return list.RPopCount(ctx, 9)
		}},
		"blpop": {pop: func(ctx context.Context, list *shardedlist.ShardedList) ([]string, error) {
			return harness.Single(list.BLPop(ctx, 5*time.Millisecond))
		}},
	}
	var succeeded, failed int
	for name, operation := range operations {
		for setup, prepare := range setups {
			for part := range 2 {
				list := harness.NewList(t, rdb, shardedlist.WithParts(2), shardedlist.WithCapacity(2))
				require.NoError(t, prepare(list))
				slot := script.Slot(spread.PartOf(list.Name(), part, 2).Meta)
				home, err := server.SlotOwner(t.Context(), slot)
				require.NoError(t, err)
				require.NoError(t, server.MoveSlot(t.Context(), slot, (home+1)%3, func(moved int) {
					expected := elementsOnNodes(t, list)
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
					defer cancel()
					do := operation.push
					if do == nil {
						do = operation.pop
					}
					values, err := do(ctx, list)
					switch {
					case name == "blpop" && errors.Is(err, context.DeadlineExceeded):
						return // it may have popped an element too late, which is put back when the slot has moved
					case harness.IgnoreNil(err) != nil:
						failed++
					default:
						succeeded++
					}
					for _, value := range values {
						if i := slices.Index(expected, value); operation.pop != nil && assert.GreaterOrEqual(t, i, 0, value) {
							expected = slices.Delete(expected, i, i+1)
						} else if operation.push != nil {
							expected = append(expected, value)
						}
					}
					assert.ElementsMatch(t, expected, elementsOnNodes(t, list), "%s %s after %d keys of part %d: %v", name, setup, moved, part, err)
				}))
			}
		}
	}
	t.Logf("%d operations succeeded, %d failed", succeeded, failed)
	assert.Positive(t, succeeded)
	assert.Positive(t, failed)
}

// elementsOnNodes returns the elements in all shards of a spread list, in any order, wherever they are.
func elementsOnNodes(t *testing.T, list *shardedlist.ShardedList) (elements []string) {
	t.Helper()
	shard := regexp.MustCompile(`part\.\d+\.-?\d+$`)
	for _, node := range harness.NodesOf(t, list) {
		for _, key := range node.Keys(t.Context(), "{"+list.Name()+"/*").Val() {
			if shard.MatchString(key) {
				values, err := harness.Asking(t, node, "lrange", key, 0, -1).StringSlice()
				require.NoError(t, err)
				elements = append(elements, values...)
			}
		}
	}
	return elements
}

// What is pushed while a list is deleted again and again is in the list, or is deleted with it, and nothing is left.
func TestSpreadListIsDeletedUnderTraffic(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithParts(4), shardedlist.WithCapacity(2))
		other := harness.OpenList(t, server.Client(t), list.Name(), shardedlist.WithParts(4), shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), "first") // or all deletes may come before the first push
		require.NoError(t, err)
		var group sync.WaitGroup
		for _, l := range []*shardedlist.ShardedList{list, other} {
			group.Go(func() {
				for i := range 300 {
					_, err := l.RPush(t.Context(), i, i, i)
					assert.NoError(t, err)
					_, err = l.LPop(t.Context())
					if err != redis.Nil {
						assert.NoError(t, err)
					}
				}
			})
		}
		deleted := 0
		group.Go(func() {
			for range 30 {
				existed, err := list.Del(t.Context())
				assert.NoError(t, err)
				if existed {
					deleted++
				}
			}
		})
		group.Wait()
		assert.Positive(t, deleted)
		require.NoError(t, list.Check(t.Context()))
		_, err = list.Del(t.Context())
		require.NoError(t, err)
		length, err := other.LLen(t.Context())
		require.NoError(t, err)
		assert.Zero(t, length)
		for _, node := range harness.NodesOf(t, list) {
			for _, key := range node.Keys(t.Context(), "*{"+list.Name()+"*").Val() {
				assert.Positive(t, node.PTTL(t.Context(), key).Val(), "%q expires", key)
				assert.Regexp(t, `:(meta|part\.meta|part\.op:.*|part\.bell.*)$`, key, "no shard is left")
			}
		}
	})
}

// Other operations do what they do on a plain list, for a client that created the list and for one that only found it.
func TestSpreadListAsAPlainList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for seed := range uint64(5) {
			ctx, rdb := t.Context(), server.Client(t)
			first := harness.NewList(t, rdb, shardedlist.WithParts([]int{1, 3, 64}[seed%3]), shardedlist.WithCapacity([]int{1, 2, 5}[seed/3%3]))
			lists := []*shardedlist.ShardedList{first, harness.OpenList(t, server.Client(t), first.Name())}
			plain := "plain-" + first.Name()
			defer rdb.Del(context.Background(), plain)
			random := rand.New(rand.NewPCG(seed, 0))
			for i := range 60 {
				list, n := lists[random.IntN(2)], int64(random.IntN(20)-10)
				values := harness.Numbered(1 + random.IntN(7))
				if rdb.LLen(ctx, plain).Val() == 0 {
					list = first // another client would create a list in one slot
				}
				switch operation := random.IntN(16); operation {
				case 0, 1, 2:
					_, err := list.LPush(ctx, values...)
					require.NoError(t, err)
					require.NoError(t, rdb.LPush(ctx, plain, values...).Err())
				case 3, 4, 5:
					_, err := list.RPush(ctx, values...)
					require.NoError(t, err)
					require.NoError(t, rdb.RPush(ctx, plain, values...).Err())
				case 6:
					got, err := list.LPopCount(ctx, len(values))
					want, wantErr := rdb.LPopCount(ctx, plain, len(values)).Result()
					require.Equal(t, wantErr, err)
					require.Equal(t, want, got)
				case 7:
					got, err := list.RPopCount(ctx, len(values))
					want, wantErr := rdb.RPopCount(ctx, plain, len(values)).Result()
					require.Equal(t, wantErr, err)
					require.Equal(t, want, got)
				case 8:
					got, err := list.LIndex(ctx, n)
					want, wantErr := rdb.LIndex(ctx, plain, n).Result()
					require.Equal(t, wantErr, err)
					require.Equal(t, want, got)
				case 9:
					got, err := list.LRange(ctx, n, n+5)
					require.NoError(t, err)
					require.Equal(t, rdb.LRange(ctx, plain, n, n+5).Val(), got)
				case 10:
					err := list.LSet(ctx, n, i)
					if wantErr := rdb.LSet(ctx, plain, n, i).Err(); wantErr != nil {
						require.ErrorContains(t, err, wantErr.Error())
					} else {
						require.NoError(t, err)
					}
				case 11:
					args := redis.LPosArgs{Rank: 1 + n/3, MaxLen: int64(random.IntN(9))}
					got, err := list.LPosCount(ctx, "2", int64(random.IntN(3)), args)
					want, wantErr := rdb.LPosCount(ctx, plain, "2", 0, args).Result()
					if wantErr != nil {
						require.ErrorContains(t, err, wantErr.Error())
						break
					}
					require.NoError(t, err)
					if len(got) > 0 {
						require.Equal(t, want[:len(got)], got)
					}
				case 12:
					value, err := list.BLPop(ctx, time.Millisecond)
					want, wantErr := rdb.LPop(ctx, plain).Result()
					require.Equal(t, wantErr, err)
					require.Equal(t, want, value)
				case 14:
					set, err := list.Expire(ctx, time.Hour)
					require.NoError(t, err)
					require.Equal(t, rdb.Expire(ctx, plain, time.Hour).Val(), set)
				case 15:
					removed, err := list.Persist(ctx)
					require.NoError(t, err)
					require.Equal(t, rdb.Persist(ctx, plain).Val(), removed)
				case 13:
					if random.IntN(5) == 0 {
						existed, err := list.Del(ctx)
						require.NoError(t, err)
						require.Equal(t, rdb.Del(ctx, plain).Val() == 1, existed)
					}
				}
				length, err := lists[random.IntN(2)].LLen(ctx)
				require.NoError(t, err)
				require.Equal(t, rdb.LLen(ctx, plain).Val(), length)
				ttl, err := lists[random.IntN(2)].TTL(ctx)
				require.NoError(t, err)
				require.InDelta(t, rdb.TTL(ctx, plain).Val(), ttl, float64(time.Minute))
				require.Equal(t, append([]string{}, rdb.LRange(ctx, plain, 0, -1).Val()...), harness.Content(t, list))
				require.NoError(t, list.Check(ctx))
			}
		}
	})
}

// What a spread list does not support fails with an error that says so, and changes nothing.
func TestSpreadListRefuses(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, harness.Numbered(10)...)
		require.NoError(t, err)
		target := "{" + list.Name() + "}2"
		for name, call := range map[string]func() error{
			"LInsert": func() error { _, err := list.LInsertBefore(ctx, "1", "x"); return err },
			"LRem":    func() error { _, err := list.LRem(ctx, 1, "1"); return err },
			"LTrim":   func() error { return list.LTrim(ctx, 0, 1) },
			"Rename":  func() error { return list.Rename(ctx, target) },
			"Copy":    func() error { _, err := list.Copy(ctx, target, false); return err },
			"Restore": func() error { return list.Restore(ctx, nil) },
			"Adopt":   func() error { return list.Adopt(ctx, nil) },
		} {
			require.ErrorIs(t, call(), shardedlist.ErrSpread, name)
		}
		assert.Len(t, harness.Content(t, list), 10)
	})
}

// Through the hook, alone and in a pipeline, commands work on spread lists, whoever created them. A transaction is refused.
func TestHookOnSpreadLists(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, key := t.Context(), "queue:"+harness.UniqueName(t)
		creator, finder := server.Client(t), server.Client(t)
		creator.AddHook(shardedlist.NewHook(creator, shardedlist.Match("queue:*"), shardedlist.WithParts(3), shardedlist.WithCapacity(2)))
		finder.AddHook(shardedlist.NewHook(finder, shardedlist.Match("queue:*")))
		require.EqualValues(t, 3, creator.RPush(ctx, key, "a", "b", "c").Val())
		info, err := harness.OpenList(t, server.Client(t), key).Info(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 3, info.Parts)

		pipe := finder.Pipeline()
		push, length, all, pop := pipe.RPush(ctx, key, "d"), pipe.LLen(ctx, key), pipe.LRange(ctx, key, 0, -1), pipe.LPop(ctx, key)
		other := pipe.Set(ctx, "plain-"+key, 1, time.Minute)
		_, err = pipe.Exec(ctx)
		require.NoError(t, err)
		assert.NoError(t, push.Err())
		assert.EqualValues(t, 4, length.Val())
		assert.Equal(t, []string{"a", "b", "c", "d"}, all.Val())
		assert.Equal(t, "a", pop.Val())
		assert.NoError(t, other.Err())

		tx := finder.TxPipeline()
		tx.RPush(ctx, key, "e")
		_, err = tx.Exec(ctx)
		require.ErrorIs(t, err, shardedlist.ErrUnsupported)
		assert.Equal(t, "list", finder.Type(ctx, key).Val())
		assert.EqualValues(t, 1, finder.Exists(ctx, key).Val())
		assert.Equal(t, "d", finder.RPop(ctx, key).Val())
		assert.EqualValues(t, 1, creator.Del(ctx, key).Val())
		assert.Zero(t, finder.Exists(ctx, key).Val())

		one := "queue:one:" + harness.UniqueName(t)
		require.NoError(t, finder.RPush(ctx, one, "a").Err())
		tx = creator.TxPipeline()
		length = tx.RPush(ctx, one, "b")
		_, err = tx.Exec(ctx)
		require.NoError(t, err, "a list in one slot")
		assert.EqualValues(t, 2, length.Val())
		require.NoError(t, creator.Del(ctx, one).Err())
	})
}

// A plain list at the name is taken over as a list in one slot, which an option does not change.
func TestAPlainListIsNotSpread(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(3))
		require.NoError(t, rdb.RPush(ctx, list.Name(), "a", "b").Err())
		value, err := list.LPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, "a", value)
		length, err := list.RPush(ctx, "c")
		require.NoError(t, err)
		assert.EqualValues(t, 2, length)

		// Where a spread list was deleted, too.
		deleted := harness.NewList(t, rdb, shardedlist.WithParts(3))
		_, err = deleted.RPush(ctx, harness.Numbered(10)...)
		require.NoError(t, err)
		existed, err := deleted.Del(ctx)
		require.NoError(t, err)
		assert.True(t, existed)
		require.NoError(t, rdb.RPush(ctx, deleted.Name(), "a", "b").Err())
		value, err = deleted.LPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, "a", value)
		length, err = deleted.RPush(ctx, "c")
		require.NoError(t, err)
		assert.EqualValues(t, 2, length)
	})
}

// Where the pointers have a replica, clients wait for it when they move or read them, and go on if it does not answer.
func TestPointersOfASpreadListAreConfirmedByAReplica(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	waits := func(rdb *redis.Client) int {
		found := regexp.MustCompile(`cmdstat_wait:calls=(\d+)`).FindStringSubmatch(rdb.Info(ctx, "commandstats").Val())
		if found == nil {
			return 0
		}
		n, err := strconv.Atoi(found[1])
		require.NoError(t, err)
		return n
	}
	alone := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	_, err := harness.NewList(t, alone, shardedlist.WithParts(3), shardedlist.WithCapacity(2)).RPush(ctx, harness.Numbers(0, 20)...)
	require.NoError(t, err)
	assert.Zero(t, waits(alone), "there is no replica")

	server := redistest.Start(t, redistest.ReplicatedCluster)
	rdb := server.Client(t).(*redis.ClusterClient)
	list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
	master, err := rdb.MasterForKey(ctx, harness.Keys(list).Meta)
	require.NoError(t, err)
	for i := range 40 {
		_, err = list.RPush(ctx, i)
		require.NoError(t, err)
	}
	assert.GreaterOrEqual(t, waits(master), 20, "once when the pointers are read, and once when one has moved")
	for _, node := range server.Nodes() {
		if strings.Contains(node.Client(t).Info(ctx, "replication").Val(), "role:slave") {
			node.Pause()
			defer node.Resume()
		}
	}
	other := harness.OpenList(t, rdb, list.Name())
	for i := range 40 {
		value, err := other.LPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(i), value)
	}
}

// Check names the shards that the pointers do not: what a failover has put outside, and all of a list whose pointers are lost.
func TestCheckNamesStrayShardsOfASpreadList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, 1, 2)
		require.NoError(t, err)
		before := rdb.HGet(ctx, harness.Keys(list).Meta, "layout").Val()
		for i := range 8 {
			_, err = list.RPush(ctx, i)
			require.NoError(t, err)
		}
		require.NoError(t, list.Check(ctx))
		after := rdb.HGet(ctx, harness.Keys(list).Meta, "layout").Val()
		defer func() { // the test leaves no broken list
			require.NoError(t, rdb.HSet(ctx, harness.Keys(list).Meta, "layout", after).Err())
			_, err := list.Del(ctx)
			require.NoError(t, err)
		}()

		require.NoError(t, rdb.HSet(ctx, harness.Keys(list).Meta, "layout", before).Err())
		other := harness.OpenList(t, rdb, list.Name())
		err = other.Check(ctx)
		require.ErrorIs(t, err, shardedlist.ErrBroken)
		assert.ErrorContains(t, err, "the pointers do not name shard 4")

		require.NoError(t, rdb.Del(ctx, harness.Keys(list).Meta).Err())
		require.ErrorIs(t, harness.OpenList(t, rdb, list.Name(), shardedlist.WithParts(3)).Check(ctx), shardedlist.ErrBroken)
	})
}

// Check finds no stray shards while the list changes, nor after a delete that has not been swept.
func TestCheckOfASpreadListUnderTraffic(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(1))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var group sync.WaitGroup
		for _, push := range []func(context.Context, ...any) (int64, error){list.LPush, list.RPush} {
			group.Go(func() {
				for ctx.Err() == nil {
					_, err := push(t.Context(), 1)
					assert.NoError(t, err)
					_, err = list.LPop(t.Context())
					assert.NoError(t, harness.IgnoreNil(err))
				}
			})
		}
		other := harness.OpenList(t, server.Client(t), list.Name())
		for range 30 {
			strays, err := harness.Inside(other).(*detect.List).Many().Strays(t.Context())
			require.NoError(t, err)
			require.Empty(t, strays)
		}
		cancel()
		group.Wait()
		require.NoError(t, list.Check(t.Context()))
	})
}
