package commands

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Edits of lists of many full shards, with arguments from all over the list.
func TestEditsOfLongListsAsRedis(t *testing.T) {
	t.Parallel()
	sequences := redistest.Times(1, 3)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for seed := range uint64(sequences) {
			random := rand.New(rand.NewPCG(seed, 1))
			for _, capacity := range []int{3, 64, 512} {
				list := harness.NewList(t, rdb, shardedlist.WithCapacity(capacity))
				m := &harness.Model{T: t, Rdb: rdb, Plain: "plain-" + list.Name()}
				for range redistest.Times(20, 40) {
					if len(m.Values) < 500 {
						values := make([]any, capacity*5+random.IntN(300))
						for i := range values {
							values[i] = fmt.Sprint(random.IntN(60))
						}
						m.Push(list.RPush, rdb.RPush, values[:len(values)/2])
						m.Push(list.LPush, rdb.LPush, values[len(values)/2:])
					}
					m.EditAnywhere(list, random)
					m.Values = rdb.LRange(t.Context(), m.Plain, 0, -1).Val()
					m.Verify(list)
				}
				require.NoError(t, rdb.Del(t.Context(), m.Plain).Err())
			}
		}
	})
}

func TestEditsWithExtremeArgumentsAsRedis(t *testing.T) {
	t.Parallel()
	extremes := []int64{math.MinInt64 + 1, -1 << 53, -1, 0, 1, 1<<53 + 1, math.MaxInt64}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, values := range [][]any{{}, {"a", "b", "a", "c", "a", "b"}} {
			for _, a := range extremes {
				for _, b := range extremes {
					list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
					m := &harness.Model{T: t, Rdb: rdb, Plain: "plain-" + list.Name()}
					if len(values) > 0 {
						m.Push(list.RPush, rdb.RPush, values)
					}
					if server.Kind() != redistest.Embedded || b < 1<<20 { // miniredis makes room for as many as COUNT says
						m.Positions(list, "a", b, redis.LPosArgs{Rank: a})
						m.Positions(list, "a", b, redis.LPosArgs{Rank: -1, MaxLen: a})
					}
					if a == int64(int32(a)) { // Valkey looks at 32 bits of an index
						m.Same(list.LSet(t.Context(), a, b), rdb.LSet(t.Context(), m.Plain, a, b).Err())
					} else {
						require.True(t, session.IsRecorded(harness.Cause(list.LSet(t.Context(), a, b))))
					}
					if server.Kind() != redistest.Embedded || len(values) > 0 { // miniredis removes what LTRIM would leave
						m.Same(list.LTrim(t.Context(), a, b), rdb.LTrim(t.Context(), m.Plain, a, b).Err())
					}
					removed, err := list.LRem(t.Context(), a, "b")
					m.Number(removed, err, rdb.LRem(t.Context(), m.Plain, a, "b"))
					require.Equal(t, rdb.LRange(t.Context(), m.Plain, 0, -1).Val(), harness.Content(t, list), "%d %d", a, b)
					require.NoError(t, list.Check(t.Context()))
				}
			}
		}
	})
}

// Options of LPOS that go-redis does not send, in whatever case and order, are judged by the server.
func TestPositionOptionsAsRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), "a", "b", "a", "c", "a")
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(t.Context(), "plain-"+list.Name(), "a", "b", "a", "c", "a").Err())
		empty := harness.NewList(t, rdb)
		for _, options := range []string{
			"a", "a RANK 0", "a rank -1 COUNT 0", "a COUNT 2 COUNT 1", "a RANK", "a RANK x", "a MAXLEN -1", "a COUNT -1",
			"a SIDE 1", "z", "z COUNT 0", "a maxlen 3 rank -2", "a maxlen 2 rank -2",
		} {
			var words []any
			for _, word := range strings.Fields(options) {
				words = append(words, word)
			}
			for _, target := range []*shardedlist.ShardedList{list, empty} {
				want, wantErr := rdb.Do(t.Context(), append([]any{"lpos", "plain-" + target.Name()}, words...)...).Result()
				got, err := harness.OneSlot(target).Positions(words...).Run(t.Context())
				if err == nil && got == nil {
					err = redis.Nil
				}
				assert.Equal(t, want, got, options)
				assert.Equal(t, wantErr, err, options)
			}
		}
	})
}

func TestAnEditOfABadValueSendsNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		for _, edit := range []func(any) error{
			func(bad any) error { _, err := list.LPushX(t.Context(), "good", bad); return err },
			func(bad any) error { _, err := list.RPushX(t.Context(), "good", bad); return err },
			func(bad any) error { return list.LSet(t.Context(), 0, bad) },
			func(bad any) error { _, err := list.LInsertBefore(t.Context(), bad, "good"); return err },
			func(bad any) error { _, err := list.LInsertAfter(t.Context(), "good", bad); return err },
			func(bad any) error { _, err := list.LRem(t.Context(), 0, bad); return err },
		} {
			assert.ErrorIs(t, edit(struct{}{}), shardedlist.ErrValue)
			assert.ErrorIs(t, edit([]string{"a list"}), shardedlist.ErrValue)
		}
		_, err := list.LPushX(t.Context())
		assert.ErrorIs(t, err, shardedlist.ErrNoValues)
		assert.Empty(t, harness.KeysOfList(t, list))
	})
}

func TestAPushOntoAnExistingListIsSplitAsAnyOther(t *testing.T) {
	t.Parallel()
	list := harness.NewList(t, redistest.Shared(t, redistest.Redis).Client(t))
	length, err := list.LPushX(t.Context(), harness.Numbers(0, harness.MaxCallValues+5)...)
	require.NoError(t, err)
	require.Zero(t, length)
	_, err = list.RPush(t.Context(), "first")
	require.NoError(t, err)
	length, err = list.RPushX(t.Context(), harness.Numbers(0, harness.MaxCallValues+5)...)
	require.NoError(t, err)
	assert.EqualValues(t, harness.MaxCallValues+6, length)
	last, err := list.LIndex(t.Context(), -1)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(harness.MaxCallValues+4), last)
}

// Over maxmemory, what adds or replaces elements fails and changes nothing, and what removes some works.
func TestEditsThatRemoveWorkWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for _, opts := range [][]shardedlist.Option{nil, {shardedlist.WithoutExactlyOnce()}} {
			t.Run(fmt.Sprint(kind, len(opts)), func(t *testing.T) {
				t.Parallel()
				rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
				var lists []*shardedlist.ShardedList
				for _, capacity := range []int{1, 2, 7} {
					list := harness.NewList(t, rdb, append(opts, shardedlist.WithCapacity(capacity))...)
					for range 20 {
						_, err := list.RPush(t.Context(), harness.Numbers(0, 10)...)
						require.NoError(t, err)
					}
					lists = append(lists, list)
				}
				require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
				for _, list := range lists {
					before := harness.Snapshot(t, list)
					for name, edit := range map[string]func() error{
						"lpushx":  func() error { _, err := list.LPushX(t.Context(), "new"); return err },
						"rpushx":  func() error { _, err := list.RPushX(t.Context(), harness.Numbers(0, 9)...); return err },
						"lset":    func() error { return list.LSet(t.Context(), 5, strings.Repeat("long", 1000)) },
						"linsert": func() error { _, err := list.LInsertBefore(t.Context(), 5, "new"); return err },
					} {
						assert.ErrorContains(t, edit(), "OOM", name)
						assert.Equal(t, before, harness.Snapshot(t, list), name)
					}

					want := harness.Content(t, list)
					for _, count := range []int64{2, -3, 0} { // each of another value
						removed, err := list.LRem(t.Context(), count, 5-count)
						require.NoError(t, err)
						if count == 0 {
							assert.EqualValues(t, 20, removed)
						} else {
							assert.EqualValues(t, max(count, -count), removed)
						}
						want = without5(want, count)
						assert.Equal(t, want, harness.Content(t, list))
						require.NoError(t, list.Check(t.Context()))
					}
					removed, err := list.LRem(t.Context(), 0, "none")
					require.NoError(t, err)
					assert.Zero(t, removed)
					require.NoError(t, list.LTrim(t.Context(), 20, -30))
					assert.Equal(t, want[20:len(want)-29], harness.Content(t, list))
					require.NoError(t, list.Check(t.Context()))
					index, err := list.LPos(t.Context(), want[30], redis.LPosArgs{})
					require.NoError(t, err)
					assert.LessOrEqual(t, index, int64(10))
					require.NoError(t, list.LTrim(t.Context(), 0, -1))
					require.NoError(t, list.LTrim(t.Context(), 1, 0))
					require.NoError(t, list.LTrim(t.Context(), 1, 0))
					assert.Empty(t, harness.KeysOfList(t, list))
				}
			})
		}
	}
}

// without5 removes count elements that equal 5-count, as LREM does.
func without5(values []string, count int64) []string {
	value, most, removed := fmt.Sprint(5-count), max(count, -count), int64(0)
	turn := func(values []string) []string {
		if count < 0 {
			slices.Reverse(values)
		}
		return values
	}
	return turn(slices.DeleteFunc(turn(slices.Clone(values)), func(candidate string) bool {
		if candidate != value || most > 0 && removed == most {
			return false
		}
		removed++
		return true
	}))
}

// A removal costs what moves to the nearer end, not the length of the list; a trim, nothing of the kind.
func TestEditsCostWhatMoves(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(10))
	harness.OneSlot(list).SearchStep = 50_000
	_, err := list.RPush(t.Context(), harness.Numbers(0, 100_000)...)
	require.NoError(t, err)
	for _, test := range []struct {
		edit func(i int) error
		most int
	}{
		{func(i int) error { _, err := list.LInsertBefore(t.Context(), 100+i, "x"); return err }, 70},
		{func(i int) error { _, err := list.LRem(t.Context(), 1, 100+i); return err }, 100},
		{func(i int) error { _, err := list.LRem(t.Context(), -1, 99_900+i); return err }, 100},
		{func(i int) error { return list.LSet(t.Context(), 50_000, "x") }, 10},
		{func(i int) error { return list.LTrim(t.Context(), 1000, 99_000) }, 2 * 220},
	} {
		require.NoError(t, test.edit(0))
		require.NoError(t, list.LSet(t.Context(), 0, "the scripts are loaded"))
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		require.NoError(t, test.edit(1))
		total := 0
		for _, calls := range harness.Without(harness.CommandCalls(t, rdb), "config|resetstat", "info") {
			total += calls
		}
		assert.LessOrEqual(t, total, test.most)
	}
}

func TestATrimOfALongListSweepsAllItLeaves(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		length := 120_000
		if server.Kind() == redistest.Embedded { // it is slow
			length = 12_000
		}
		for name, keep := range map[string][2]int{
			"left": {0, 5}, "right": {length - 7, length}, "middle": {length / 2, length/2 + 25}, "one": {77, 78}, "none": {length, length},
		} {
			list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(10))
			_, err := list.LPush(t.Context(), "first")
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), harness.Numbers(1, length)...)
			require.NoError(t, err)
			require.NoError(t, list.LTrim(t.Context(), int64(keep[0]), int64(keep[1]-1)), name)
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			assert.Zero(t, info.Unswept)
			assert.EqualValues(t, keep[1]-keep[0], info.Length)
			assert.LessOrEqual(t, len(harness.KeysOfList(t, list)), (keep[1]-keep[0])/10+3, name)
		}
	})
}

// A trim or Del whose client dies leaves shards on both sides of the list, or on one. Others neither see nor keep them, also
// when the list grows into them.
func TestLaterEditsFinishAnInterruptedTrim(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	later := map[string]func(m *harness.Model, list *shardedlist.ShardedList, i int){
		"lpush": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			m.Push(list.LPush, m.Rdb.LPush, m.Fresh(30))
		},
		"rpush": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			m.Push(list.RPush, m.Rdb.RPush, m.Fresh(30))
		},
		"lpushx": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			length, err := list.LPushX(m.T.Context(), i)
			m.Number(length, err, m.Rdb.LPushX(m.T.Context(), m.Plain, i))
		},
		"linsert": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			for _, pivot := range []string{m.Values[0], m.Values[len(m.Values)-1]} {
				length, err := list.LInsertAfter(m.T.Context(), pivot, i)
				m.Number(length, err, m.Rdb.LInsertAfter(m.T.Context(), m.Plain, pivot, i))
				length, err = list.LInsertBefore(m.T.Context(), pivot, i)
				m.Number(length, err, m.Rdb.LInsertBefore(m.T.Context(), m.Plain, pivot, i))
			}
		},
		"lrem": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			value := m.Values[len(m.Values)/2]
			removed, err := list.LRem(m.T.Context(), 0, value)
			m.Number(removed, err, m.Rdb.LRem(m.T.Context(), m.Plain, 0, value))
		},
		"ltrim": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			m.Same(list.LTrim(m.T.Context(), 1, -2), m.Rdb.LTrim(m.T.Context(), m.Plain, 1, -2).Err())
		},
		"lset": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			m.Same(list.LSet(m.T.Context(), 0, i), m.Rdb.LSet(m.T.Context(), m.Plain, 0, i).Err())
		},
		"lpop": func(m *harness.Model, list *shardedlist.ShardedList, i int) {
			value, err := list.LPop(m.T.Context())
			m.Same(err, m.Rdb.LPop(m.T.Context(), m.Plain).Err())
			assert.NotEmpty(m.T, value)
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const length = 400 // shards: more than a few steps sweep
		middle, end := int64(length/2), int64(length)
		for name, operate := range later {
			for _, keep := range [][2]int64{{middle - 20, middle + 30}, {0, 50}, {end - 50, -1}, {middle - 20, middle - 21}} {
				for _, capacity := range []int{1, 2} {
					if capacity == 2 && (server.Kind() != redistest.Redis || !redistest.Long()) {
						continue // it takes long
					}
					list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(capacity))
					m := &harness.Model{T: t, Rdb: server.Client(t), Plain: "plain-" + list.Name()}
					m.Push(list.RPush, m.Rdb.RPush, m.Fresh(length*capacity/2))
					m.Push(list.LPush, m.Rdb.LPush, m.Fresh(length*capacity/2))
					_, err := harness.Bare(harness.OneSlot(list).Trim(keep[0], keep[1])).Run(t.Context()) // and no sweep after it
					require.NoError(t, err)
					require.NoError(t, m.Rdb.LTrim(t.Context(), m.Plain, keep[0], keep[1]).Err())
					if keep[0] > keep[1] && keep[1] > 0 {
						m.Push(list.RPush, m.Rdb.RPush, m.Fresh(45))
						pushed, err := list.LLen(t.Context())
						require.NoError(t, err)
						require.EqualValues(t, 45, pushed)
					}
					require.Greater(t, len(harness.KeysOfList(t, list)), length/2)
					for i := range 20 {
						m.Values = m.Rdb.LRange(t.Context(), m.Plain, 0, -1).Val()
						operate(m, list, i)
						require.Equal(t, m.Rdb.LRange(t.Context(), m.Plain, 0, -1).Val(), harness.Content(t, list))
					}
					info, err := list.Info(t.Context())
					require.NoError(t, err)
					assert.Zero(t, info.Unswept, name)
					assert.Len(t, harness.KeysOfList(t, list), int(info.Shards)+1, name)
				}
			}
		}
	})
}

// Replies are lost, and each edit happens once: after each, the list is what a plain one is that the network is spared.
func TestEditsAreDoneOnceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		// All but LPos, which go-redis repeats a few times.
		for _, rates := range []redistest.Faults{{CutReply: 0.4}, {CutInReply: 0.4}, {CutRequest: 0.3, CutReply: 0.1}} {
			proxy, rdb := redistest.NewProxy(t), server.Client(t)
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(3))
			broken := harness.OpenList(t, server.Client(t, harness.Through(proxy)), list.Name())
			t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
			m := &harness.Model{T: t, Rdb: rdb, Plain: "plain-" + list.Name()}
			m.Push(list.RPush, rdb.RPush, m.Fresh(20))
			proxy.Set(rates)
			random := rand.New(rand.NewPCG(7, 7))
			for range 30 {
				m.Edit(broken, byte(random.IntN(harness.Edits-1)), random.IntN(12), random.Int64N(32)-16)
				m.Verify(list)
				if len(m.Values) < 5 {
					m.Push(list.RPush, rdb.RPush, m.Fresh(10))
				}
			}
		}
	})
}

// A copy of an edit that was refused, or had nothing to do, changes nothing when it arrives late.
func TestALateCopyOfARefusedEditDoesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), "a", "b", "c")
		require.NoError(t, err)
		for name, o := range map[string]session.Operation{
			"lset":    harness.OneSlot(list).Set(3, "late"),
			"linsert": harness.OneSlot(list).Insert("before", "d", "late"),
			"lrem":    harness.OneSlot(list).Remove(0, "d"),
		} {
			n := harness.OneSlot(list).Sessions().New()
			n.Begin()
			outcome := n.Do(t.Context(), script.Deadline(t.Context()), o)
			_, pushErr := list.RPush(t.Context(), "d")
			require.NoError(t, pushErr)
			assert.Equal(t, outcome, n.Do(t.Context(), script.Deadline(t.Context()), o), name)
			assert.Equal(t, []string{"a", "b", "c", "d"}, harness.Content(t, list), name)
			_, err = list.RPop(t.Context())
			require.NoError(t, err)
		}
		other := harness.NewList(t, server.Client(t))
		n := harness.OneSlot(other).Sessions().New()
		for _, o := range []session.Operation{harness.OneSlot(other).PushX(layout.Left, []any{"late"}), harness.OneSlot(other).Set(0, "late")} {
			n.Begin()
			for range 2 {
				outcome := n.Do(t.Context(), script.Deadline(t.Context()), o)
				assert.NoError(t, harness.IgnoreRefusal(outcome.Err))
				_, err := other.Del(t.Context())
				require.NoError(t, err)
				_, err = other.RPush(t.Context(), "a")
				require.NoError(t, err)
			}
			assert.Equal(t, []string{"a"}, harness.Content(t, other))
			_, err := other.Del(t.Context())
			require.NoError(t, err)
		}
	})
}

// A slot moves to and fro while elements are inserted and removed all over the list: each comes and goes once, and the others
// stay as they are.
func TestEditsWhileASlotMoves(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(3))
	base := harness.Numbers(0, 40)
	_, err := list.RPush(t.Context(), base...)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const editors, each = 3, 60
	var running atomic.Int32
	for e := range editors {
		running.Add(1)
		handle := harness.OpenList(t, server.Client(t), list.Name())
		go func() {
			defer running.Add(-1)
			random := rand.New(rand.NewPCG(uint64(e), 0))
			for i := range each {
				value := fmt.Sprint(e, "-", i)
				for range 3 {
					length, err := handle.LInsert(ctx, []string{"before", "after"}[i%2], random.IntN(40), value)
					assert.NoError(t, err)
					assert.Positive(t, length)
				}
				for removed := int64(0); removed < 3 && ctx.Err() == nil; {
					n, err := handle.LRem(ctx, random.Int64N(5)-2, value)
					if !assert.NoError(t, err) {
						return
					}
					removed += n
				}
			}
		}()
	}
	home, err := server.SlotOwner(t.Context(), harness.Keys(list).Slot())
	require.NoError(t, err)
	moves, keys := 0, 0
	for running.Load() > 0 && ctx.Err() == nil {
		moves++
		require.NoError(t, server.MoveSlot(t.Context(), harness.Keys(list).Slot(), (home+moves)%3, func(moved int) { keys += min(moved, 1) }))
	}
	t.Logf("the slot moved %d times, with %d keys", moves, keys)
	assert.GreaterOrEqual(t, moves, 2)
	assert.Greater(t, keys, moves*len(base)/3, "all shards at least")
	assert.Equal(t, harness.Words(base), harness.Content(t, list))
}
