package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// damaged is a list of that many elements, three in a shard.
func damaged(t *testing.T, rdb redis.UniversalClient, elements int) *shardedlist.ShardedList {
	return harness.NewSharded(t, rdb, 3, harness.Numbers(0, elements))
}

func loseMeta(t *testing.T, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
	require.NoError(t, rdb.Del(t.Context(), harness.Keys(list).Meta).Err())
}

func push(t *testing.T, list *shardedlist.ShardedList, from, to int) {
	_, err := list.RPush(t.Context(), harness.Numbers(from, to)...)
	require.NoError(t, err)
}

func words(from, to int) []string { return harness.Words(harness.Numbers(from, to)) }

// Shards without a meta become the list again, with what others have pushed since where the caller says.
func TestRepairOfAListWithoutMeta(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, test := range []struct {
			name        string
			since, most int // elements pushed since
			options     shardedlist.RepairOptions
			want        []string
		}{
			{"nothing since", 0, 1, shardedlist.RepairOptions{}, words(0, 40)},
			{"a few since, which come after", 2, 1, shardedlist.RepairOptions{Before: true}, append(words(0, 40), words(100, 102)...)},
			{"a few since, which come before", 2, 1, shardedlist.RepairOptions{After: true}, append(words(100, 102), words(0, 40)...)},
			{"many since, which come after", 20, 1, shardedlist.RepairOptions{Before: true}, append(words(0, 40), words(100, 120)...)},
			{"many since, which come before", 20, 1, shardedlist.RepairOptions{After: true}, append(words(100, 120), words(0, 40)...)},
		} {
			t.Run(test.name, func(t *testing.T) {
				list := damaged(t, rdb, 40)
				_, err := list.Expire(t.Context(), 1e12)
				require.NoError(t, err)
				loseMeta(t, rdb, list)
				if test.since > 0 {
					push(t, list, 100, 100+test.since)
					before := harness.Content(t, list)
					report, err := list.Repair(t.Context(), shardedlist.RepairOptions{})
					require.ErrorIs(t, err, shardedlist.ErrBroken)
					require.Len(t, report, 2)
					assert.Contains(t, report[0], "14 shards with 40 elements")
					assert.Contains(t, report[1], "begun anew")
					assert.Equal(t, before, harness.Content(t, list))
				}
				dry := test.options
				dry.DryRun = true
				for range 2 {
					_, err = list.Repair(t.Context(), dry)
					require.ErrorIs(t, err, shardedlist.ErrBroken)
				}
				report, err := list.Repair(t.Context(), test.options)
				require.NoError(t, err, report)
				require.Len(t, report, 2)
				assert.Equal(t, test.want, harness.Content(t, list))
				assert.NoError(t, list.Check(t.Context()))
				report, err = list.Repair(t.Context(), test.options)
				require.NoError(t, err)
				assert.Empty(t, report, "it is whole")
				ttl, err := list.TTL(t.Context())
				require.NoError(t, err)
				assert.Negative(t, ttl)
				for _, want := range test.want {
					value, err := list.LPop(t.Context())
					require.NoError(t, err)
					require.Equal(t, want, value)
				}
			})
		}
		list := harness.NewList(t, rdb)
		report, err := list.Repair(t.Context(), shardedlist.RepairOptions{})
		require.NoError(t, err)
		assert.Empty(t, report, "there never was one")
		_, err = list.Repair(t.Context(), shardedlist.RepairOptions{Before: true, After: true})
		require.ErrorIs(t, err, shardedlist.ErrRepair)
	})
}

// Where shards of two lists have been left, the caller says which of them is the list.
func TestRepairAmongGenerations(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := damaged(t, rdb, 30)
		loseMeta(t, rdb, list)
		push(t, list, 100, 110)
		loseMeta(t, rdb, list)
		report, err := list.Repair(t.Context(), shardedlist.RepairOptions{})
		require.ErrorIs(t, err, shardedlist.ErrBroken)
		require.Len(t, report, 3)
		_, err = list.Repair(t.Context(), shardedlist.RepairOptions{Generation: "none"})
		require.ErrorIs(t, err, shardedlist.ErrBroken)
		for i, line := range report[:2] {
			name, _, _ := strings.Cut(strings.TrimPrefix(line, "generation "), ":")
			many := strings.Contains(line, "with 30 elements")
			_, err = list.Repair(t.Context(), shardedlist.RepairOptions{Generation: name, After: true})
			if i == 0 {
				require.ErrorIs(t, err, shardedlist.ErrBroken, "the other one is still stray")
			} else {
				require.NoError(t, err)
				want := append(words(100, 110), words(0, 30)...)
				if !many {
					want = append(words(0, 30), words(100, 110)...)
				}
				assert.Equal(t, want, harness.Content(t, list))
			}
		}
	})
}

// Whatever shards are missing, or have lost elements, what is left comes together in order, and is a list like any other.
func TestRepairOfGaps(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		const elements = 60
		shards := elements / 3
		for seed := range uint64(30) {
			random := rand.New(rand.NewPCG(seed, 5))
			list := damaged(t, rdb, elements)
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			want, lost := []string{}, 0
			for i := range shards {
				key, values := harness.Shard(list, t.Context(), info.First+int64(i)), words(3*i, 3*i+3)
				switch damage := random.IntN(6); {
				case damage == 0 || seed == 29:
					require.NoError(t, rdb.Del(t.Context(), key).Err())
					lost++
				case damage == 1 && i > 0 && i < shards-1:
					require.NoError(t, rdb.LPop(t.Context(), key).Err())
					want = append(want, values[1:]...)
					lost++
				case damage == 2 && i > 0 && i < shards-1:
					require.NoError(t, rdb.RPush(t.Context(), key, "more").Err())
					want = append(append(want, values...), "more")
					lost++
				default:
					want = append(want, values...)
				}
			}
			dry, err := list.Repair(t.Context(), shardedlist.RepairOptions{DryRun: true})
			require.ErrorIs(t, err, shardedlist.ErrBroken)
			require.Len(t, dry, lost)
			report, err := list.Repair(t.Context(), shardedlist.RepairOptions{})
			require.NoError(t, err, "seed %d: %v", seed, report)
			require.Len(t, report, lost)
			require.Equal(t, want, harness.Content(t, list), "seed %d", seed)
			for i, element := range want {
				value, err := list.LIndex(t.Context(), int64(i))
				require.NoError(t, err)
				require.Equal(t, element, value)
			}
			if len(want) > 10 {
				removed, err := list.LRem(t.Context(), 0, want[len(want)/2])
				require.NoError(t, err)
				_, err = list.LInsertBefore(t.Context(), want[len(want)/3], "new")
				require.NoError(t, err)
				require.NoError(t, list.Check(t.Context()))
				length, err := list.LLen(t.Context())
				require.NoError(t, err)
				require.EqualValues(t, len(want)+1-int(removed), length)
			}
			for range len(want) + 1 {
				if _, err := list.RPop(t.Context()); err == redis.Nil {
					break
				}
				require.NoError(t, err)
			}
		}
	})
}

// dying lets so many commands pass, and then none.
type dying struct {
	left atomic.Int64
	died func() // may be nil
}

func (d *dying) DialHook(next redis.DialHook) redis.DialHook { return next }
func (d *dying) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (d *dying) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.left.Add(-1) < 0 {
			if d.died != nil {
				d.died()
			}
			cmd.SetErr(context.Canceled)
			return context.Canceled
		}
		return next(ctx, cmd)
	}
}

// A repair that dies at any step is done by the next one, while others push and pop: nothing is lost, and nothing comes twice.
func TestRepairDiesWhileOthersPushAndPop(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, d := server.Client(t), &dying{}
		mortal := server.Client(t)
		mortal.AddHook(d)
		died := 0
		for round := range 12 {
			list := damaged(t, rdb, 90)
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			want := map[string]bool{}
			for _, value := range words(0, 90) {
				want[value] = true
			}
			for _, shard := range []int{7, 8, 20} {
				require.NoError(t, rdb.Del(t.Context(), harness.Shard(list, t.Context(), info.First+int64(shard))).Err())
				for _, value := range words(3*shard, 3*shard+3) {
					delete(want, value)
				}
			}
			if round%2 == 0 {
				loseMeta(t, rdb, list)
			}
			broken := harness.OpenList(t, mortal, list.Name(), shardedlist.WithCapacity(3))
			var mutex sync.Mutex
			popped := []string{}
			var group sync.WaitGroup
			for c := range 2 {
				group.Go(func() {
					for i := range 15 {
						value := fmt.Sprintf("new %d-%d", c, i)
						if _, err := list.RPush(t.Context(), value); err == nil {
							mutex.Lock()
							want[value] = true
							mutex.Unlock()
						}
						if value, err := list.LPop(t.Context()); err == nil {
							mutex.Lock()
							popped = append(popped, value)
							mutex.Unlock()
						}
					}
				})
			}
			for at := int64(3 + round); ; at += 5 {
				d.left.Store(at)
				_, err := broken.Repair(t.Context(), shardedlist.RepairOptions{Before: true})
				if err == nil {
					break
				}
				require.ErrorIs(t, err, context.Canceled)
				died++
			}
			group.Wait()
			d.left.Store(1 << 40)
			_, err = broken.Repair(t.Context(), shardedlist.RepairOptions{Before: true})
			require.NoError(t, err)
			popped = append(popped, harness.Content(t, list)...)
			slices.Sort(popped)
			all := []string{}
			for value := range want {
				all = append(all, value)
			}
			slices.Sort(all)
			require.Equal(t, all, popped)
		}
		assert.Greater(t, died, 12)
	})
}

// step carries out a step of a repair.
func step(t *testing.T, list *shardedlist.ShardedList, args ...any) any {
	call := script.NewCall(script.Load("repair"), []any{harness.Keys(list).Meta}, len(args))
	call.Args = append(call.Args, args...)
	reply, err := (&script.Runner{Client: harness.Client(list)}).Run(t.Context(), call)
	require.NoError(t, err)
	return reply
}

// A step that arrives twice, or after others have changed the list, changes nothing.
func TestLateStepsOfARepair(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := damaged(t, rdb, 30)
		info, err := list.Info(t.Context())
		require.NoError(t, err)
		prefix := strings.TrimSuffix(harness.Shard(list, t.Context(), 0), "0")
		loseMeta(t, rdb, list)
		attach := []any{"attach", prefix, info.First, info.Last, 3, "", "2"}
		for range 2 {
			assert.EqualValues(t, 1, step(t, list, attach...), "the second one finds what the first has done")
		}
		for _, id := range []int64{info.First, info.First + 1, info.Last} {
			assert.EqualValues(t, 0, step(t, list, "join", prefix, id, "L"), "the list has it")
		}
		assert.Equal(t, words(0, 30), harness.Content(t, list))
		_, err = list.LPopCount(t.Context(), 10)
		require.NoError(t, err)
		assert.Empty(t, step(t, list, "close", info.First+1, info.First+1, 10), "the list does not begin there any more")
		assert.Empty(t, step(t, list, "close", info.Last+1, info.Last+2, 10))
		assert.Equal(t, words(10, 30), harness.Content(t, list))
	})
}

// Gaps of any width are closed, also those that lie across two steps of the search for them.
func TestRepairOfWideGaps(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, gap := range [][2]int{{999, 1001}, {499, 501}, {200, 1100}, {0, 700}, {800, 1300}} {
			list := harness.NewSharded(t, rdb, 1, harness.Numbers(0, 1300))
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			var keys []string
			for i := gap[0]; i < gap[1]; i++ {
				keys = append(keys, harness.Shard(list, t.Context(), info.First+int64(i)))
			}
			require.NoError(t, rdb.Del(t.Context(), keys...).Err())
			report, err := list.Repair(t.Context(), shardedlist.RepairOptions{})
			require.NoError(t, err)
			assert.Len(t, report, len(keys))
			assert.Equal(t, append(words(0, gap[0]), words(gap[1], 1300)...), harness.Content(t, list))
		}
	})
}

// Whoever may not scan cannot repair, and changes nothing.
func TestRepairWithoutScan(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		server := redistest.Start(t, kind)
		rdb := server.Client(t)
		require.NoError(t, rdb.Do(t.Context(), "acl", "setuser", "worker", "on", ">secret", "~*", "&*", "+@all", "-scan").Err())
		worker := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "worker", Password: "secret"})
		t.Cleanup(func() { assert.NoError(t, worker.Close()) })
		list := damaged(t, rdb, 30)
		loseMeta(t, rdb, list)
		before := rdb.Keys(t.Context(), "*").Val()
		forbidden, err := shardedlist.New(worker, list.Name())
		require.NoError(t, err)
		_, err = forbidden.Repair(t.Context(), shardedlist.RepairOptions{})
		require.ErrorContains(t, err, "NOPERM")
		require.ErrorContains(t, err, "repair")
		assert.ElementsMatch(t, before, rdb.Keys(t.Context(), "*").Val())
		_, err = list.Repair(t.Context(), shardedlist.RepairOptions{})
		require.NoError(t, err)
		assert.Equal(t, words(0, 30), harness.Content(t, list))
	}
}

// before calls a function before each step of a repair.
type before struct{ do func(step string) }

func (b *before) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b *before) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (b *before) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, step := range []string{"join", "attach"} {
			if slices.Contains(cmd.Args(), any(step)) {
				b.do(step)
			}
		}
		return next(ctx, cmd)
	}
}

// While a repair joins shards to a list that was begun anew, others empty it, and begin another one: the rest joins that, in order.
func TestRepairOfAListThatIsEmptiedMeanwhile(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, repairing, b := server.Client(t), server.Client(t), &before{}
		repairing.AddHook(b)
		for _, options := range []shardedlist.RepairOptions{{Before: true}, {After: true}} {
			list := damaged(t, rdb, 40)
			loseMeta(t, rdb, list)
			push(t, list, 100, 120)
			joins, attaches, popped := 0, 0, []string(nil)
			b.do = func(step string) {
				if step == "attach" {
					if attaches++; attaches == 1 {
						push(t, list, 200, 220)
					}
				} else if joins++; joins == 3 {
					var err error
					popped, err = list.LPopCount(t.Context(), 1000)
					require.NoError(t, err)
				}
			}
			_, err := harness.OpenList(t, repairing, list.Name()).Repair(t.Context(), options)
			require.NoError(t, err)
			assert.Equal(t, 1, attaches)
			joined := len(popped) - 20
			require.Positive(t, joined)
			want := append(words(0, 40-joined), words(200, 220)...)
			if options.After {
				want = append(words(200, 220), words(joined, 40)...)
			}
			assert.Equal(t, want, harness.Content(t, list))
		}
	})
}

// What a Del has yet to unlink stays deleted, also if the list was begun anew and is repaired.
func TestRepairBringsNoDeletedElementsBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, since := range []int{0, 1, 10} {
			list := damaged(t, rdb, 600)
			_, err := harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context()) // as if the client had died before it unlinked the shards
			require.NoError(t, err)
			if since > 0 {
				push(t, list, 1000, 1000+since)
			}
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			require.Positive(t, info.Unswept, "there must be something to bring back")
			report, err := list.Repair(t.Context(), shardedlist.RepairOptions{Before: true})
			require.NoError(t, err)
			assert.Empty(t, report)
			assert.Equal(t, append([]string{}, words(1000, 1000+since)...), append([]string{}, harness.Content(t, list)...))
		}
	})
}
