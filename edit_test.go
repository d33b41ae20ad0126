package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// insertAt inserts next to the element at an index, if there is one.
func insertAt(ctx context.Context, list *ShardedList, index int64) error {
	pivot, err := list.LIndex(ctx, index)
	if err == nil {
		_, err = list.LInsertAfter(ctx, pivot, "new")
	}
	return ignoreNil(err)
}

// removeAt removes what equals the element at an index, if there is one.
func removeAt(ctx context.Context, list *ShardedList, index int64) error {
	value, err := list.LIndex(ctx, index)
	if err == nil {
		_, err = list.LRem(ctx, 0, value)
	}
	return ignoreNil(err)
}

// ignoreRefusal drops an error that tells what the list holds.
func ignoreRefusal(err error) error {
	if session.IsRecorded(cause(err)) {
		return nil
	}
	return err
}

// cause is the error that the server replied with.
func cause(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return reply
	}
	return err
}

// edits is the number of operations that model.edit knows.
const edits = 12 // the last one, of LPOS, changes nothing

// edit runs an edit on the sharded list and on the plain one. Their values are few, so that many are equal.
func (m *model) edit(list *ShardedList, operation byte, count int, index int64) {
	ctx, key := m.t.Context(), m.plain
	letter := func(i int) string { return string(rune('a' + (i%3+3)%3)) }
	value := letter(int(index))
	pivot := value
	if len(m.values) > 0 {
		pivot = m.values[(int(index)%len(m.values)+len(m.values))%len(m.values)]
	}
	letters := make([]any, count%6+1)
	for i := range letters {
		letters[i] = letter(i * int(index))
	}
	args := redis.LPosArgs{Rank: index % 4, MaxLen: int64(count)}
	switch operation {
	case 0:
		length, err := list.LPushX(ctx, letters...)
		m.number(length, err, m.rdb.LPushX(ctx, key, letters...))
	case 1, 2:
		length, err := list.RPushX(ctx, letters...)
		m.number(length, err, m.rdb.RPushX(ctx, key, letters...))
	case 3:
		m.same(list.LSet(ctx, index, letter(count)), m.rdb.LSet(ctx, key, index, letter(count)).Err())
	case 4, 5:
		length, err := list.LInsertBefore(ctx, pivot, letter(count))
		m.number(length, err, m.rdb.LInsertBefore(ctx, key, pivot, letter(count)))
	case 6, 7:
		length, err := list.LInsertAfter(ctx, pivot, letter(count))
		m.number(length, err, m.rdb.LInsertAfter(ctx, key, pivot, letter(count)))
	case 8:
		op := []string{"BEFORE", "After", "beside", ""}[count%4]
		length, err := list.LInsert(ctx, op, value, pivot)
		m.number(length, err, m.rdb.LInsert(ctx, key, op, value, pivot))
	case 9:
		removed, err := list.LRem(ctx, int64(count-6), pivot)
		m.number(removed, err, m.rdb.LRem(ctx, key, int64(count-6), pivot))
	case 10:
		start, stop := index/6, int64(-1-count%4)
		if count == 0 {
			stop = -index
		}
		m.same(list.LTrim(ctx, start, stop), m.rdb.LTrim(ctx, key, start, stop).Err())
	case 11:
		m.positions(list, pivot, int64(count%4), args)
	}
	m.values = m.rdb.LRange(ctx, key, 0, -1).Val()
}

// positions compares LPOS.
func (m *model) positions(list *ShardedList, value string, count int64, args redis.LPosArgs) {
	ctx := m.t.Context()
	index, err := list.LPos(ctx, value, args)
	m.number(index, err, m.rdb.LPos(ctx, m.plain, value, args))
	indices, err := list.LPosCount(ctx, value, count, args)
	want, wantErr := m.rdb.LPosCount(ctx, m.plain, value, count, args).Result()
	m.same(err, wantErr)
	if wantErr == nil {
		require.Equal(m.t, want, indices)
	}
}

func (m *model) number(number int64, err error, plain *redis.IntCmd) {
	m.same(err, plain.Err())
	require.Equal(m.t, plain.Val(), number)
}

// same compares the errors that the server replied with, redis.Nil as callers do.
func (m *model) same(err, want error) {
	m.t.Helper()
	if want == nil || want == redis.Nil {
		require.Equal(m.t, want, err)
		return
	}
	require.EqualError(m.t, cause(err), want.Error())
}

// Edits of lists of many full shards, with arguments from all over the list.
func TestEditsOfLongListsAsRedis(t *testing.T) {
	t.Parallel()
	sequences := 3
	if testing.Short() {
		sequences = 1
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for seed := range uint64(sequences) {
			random := rand.New(rand.NewPCG(seed, 1))
			for _, capacity := range []int{3, 64, 512} {
				list := newList(t, rdb, WithCapacity(capacity))
				m := &model{t: t, rdb: rdb, plain: "plain-" + list.Name()}
				for range 40 {
					if len(m.values) < 500 {
						values := make([]any, capacity*5+random.IntN(300))
						for i := range values {
							values[i] = fmt.Sprint(random.IntN(60))
						}
						m.push(list.RPush, rdb.RPush, values[:len(values)/2])
						m.push(list.LPush, rdb.LPush, values[len(values)/2:])
					}
					m.editAnywhere(list, random)
					m.values = rdb.LRange(t.Context(), m.plain, 0, -1).Val()
					m.verify(list)
				}
				require.NoError(t, rdb.Del(t.Context(), m.plain).Err())
			}
		}
	})
}

func (m *model) editAnywhere(list *ShardedList, random *rand.Rand) {
	ctx, key := m.t.Context(), m.plain
	value := fmt.Sprint(random.IntN(60))
	index := random.Int64N(4000) - 2000
	switch random.IntN(8) {
	case 0:
		m.same(list.LSet(ctx, index, "set"), m.rdb.LSet(ctx, key, index, "set").Err())
	case 1, 2:
		for range 20 { // several into the same region
			length, err := list.LInsert(ctx, "before", value, "new")
			m.number(length, err, m.rdb.LInsert(ctx, key, "before", value, "new"))
		}
	case 3, 4:
		count := random.Int64N(21) - 10
		removed, err := list.LRem(ctx, count, value)
		m.number(removed, err, m.rdb.LRem(ctx, key, count, value))
	case 5: // a run of equal elements, as long as several shards
		for _, push := range []string{"run", value, "run"} {
			run := strings.Fields(strings.Repeat(push+" ", 1+random.IntN(700)))
			length, err := list.RPushX(ctx, run)
			m.number(length, err, m.rdb.RPushX(ctx, key, run))
		}
		count := random.Int64N(2000) - 1000
		removed, err := list.LRem(ctx, count, "run")
		m.number(removed, err, m.rdb.LRem(ctx, key, count, "run"))
	case 6:
		start, stop := random.Int64N(200), -random.Int64N(200)
		m.same(list.LTrim(ctx, start, stop), m.rdb.LTrim(ctx, key, start, stop).Err())
	case 7:
		m.positions(list, value, random.Int64N(50), redis.LPosArgs{Rank: random.Int64N(30) - 15, MaxLen: random.Int64N(3000)})
	}
}

func TestEditsWithExtremeArgumentsAsRedis(t *testing.T) {
	t.Parallel()
	extremes := []int64{math.MinInt64 + 1, -1 << 53, -1, 0, 1, 1<<53 + 1, math.MaxInt64}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, values := range [][]any{{}, {"a", "b", "a", "c", "a", "b"}} {
			for _, a := range extremes {
				for _, b := range extremes {
					list := newList(t, rdb, WithCapacity(2))
					m := &model{t: t, rdb: rdb, plain: "plain-" + list.Name()}
					if len(values) > 0 {
						m.push(list.RPush, rdb.RPush, values)
					}
					if server.Kind() != redistest.Embedded || b < 1<<20 { // miniredis makes room for as many as COUNT says
						m.positions(list, "a", b, redis.LPosArgs{Rank: a})
						m.positions(list, "a", b, redis.LPosArgs{Rank: -1, MaxLen: a})
					}
					if a == int64(int32(a)) { // Valkey looks at 32 bits of an index
						m.same(list.LSet(t.Context(), a, b), rdb.LSet(t.Context(), m.plain, a, b).Err())
					} else {
						require.True(t, session.IsRecorded(cause(list.LSet(t.Context(), a, b))))
					}
					if server.Kind() != redistest.Embedded || len(values) > 0 { // miniredis removes what LTRIM would leave
						m.same(list.LTrim(t.Context(), a, b), rdb.LTrim(t.Context(), m.plain, a, b).Err())
					}
					removed, err := list.LRem(t.Context(), a, "b")
					m.number(removed, err, rdb.LRem(t.Context(), m.plain, a, "b"))
					require.Equal(t, rdb.LRange(t.Context(), m.plain, 0, -1).Val(), content(t, list), "%d %d", a, b)
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
		list := newList(t, rdb, WithCapacity(2))
		_, err := list.RPush(t.Context(), "a", "b", "a", "c", "a")
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(t.Context(), "plain-"+list.Name(), "a", "b", "a", "c", "a").Err())
		empty := newList(t, rdb)
		for _, options := range []string{
			"a", "a RANK 0", "a rank -1 COUNT 0", "a COUNT 2 COUNT 1", "a RANK", "a RANK x", "a MAXLEN -1", "a COUNT -1",
			"a SIDE 1", "z", "z COUNT 0", "a maxlen 3 rank -2", "a maxlen 2 rank -2",
		} {
			var words []any
			for _, word := range strings.Fields(options) {
				words = append(words, word)
			}
			for _, target := range []*ShardedList{list, empty} {
				want, wantErr := rdb.Do(t.Context(), append([]any{"lpos", "plain-" + target.Name()}, words...)...).Result()
				got, err := target.slot().Positions(words...).Run(t.Context())
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
		list := newList(t, server.Client(t))
		for _, edit := range []func(any) error{
			func(bad any) error { _, err := list.LPushX(t.Context(), "good", bad); return err },
			func(bad any) error { _, err := list.RPushX(t.Context(), "good", bad); return err },
			func(bad any) error { return list.LSet(t.Context(), 0, bad) },
			func(bad any) error { _, err := list.LInsertBefore(t.Context(), bad, "good"); return err },
			func(bad any) error { _, err := list.LInsertAfter(t.Context(), "good", bad); return err },
			func(bad any) error { _, err := list.LRem(t.Context(), 0, bad); return err },
		} {
			assert.ErrorIs(t, edit(struct{}{}), ErrValue)
			assert.ErrorIs(t, edit([]string{"a list"}), ErrValue)
		}
		_, err := list.LPushX(t.Context())
		assert.ErrorIs(t, err, ErrNoValues)
		assert.Empty(t, keysOfList(t, list))
	})
}

func TestAPushOntoAnExistingListIsSplitAsAnyOther(t *testing.T) {
	t.Parallel()
	list := newList(t, redistest.Shared(t, redistest.Redis).Client(t))
	length, err := list.LPushX(t.Context(), numbers(0, maxCallValues+5)...)
	require.NoError(t, err)
	require.Zero(t, length)
	_, err = list.RPush(t.Context(), "first")
	require.NoError(t, err)
	length, err = list.RPushX(t.Context(), numbers(0, maxCallValues+5)...)
	require.NoError(t, err)
	assert.EqualValues(t, maxCallValues+6, length)
	last, err := list.LIndex(t.Context(), -1)
	require.NoError(t, err)
	assert.Equal(t, fmt.Sprint(maxCallValues+4), last)
}

// Over maxmemory, what adds or replaces elements fails and changes nothing, and what removes some works.
func TestEditsThatRemoveWorkWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		for _, opts := range [][]Option{nil, {WithoutExactlyOnce()}} {
			t.Run(fmt.Sprint(kind, len(opts)), func(t *testing.T) {
				t.Parallel()
				rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
				var lists []*ShardedList
				for _, capacity := range []int{1, 2, 7} {
					list := newList(t, rdb, append(opts, WithCapacity(capacity))...)
					for range 20 {
						_, err := list.RPush(t.Context(), numbers(0, 10)...)
						require.NoError(t, err)
					}
					lists = append(lists, list)
				}
				require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
				for _, list := range lists {
					before := snapshot(t, list)
					for name, edit := range map[string]func() error{
						"lpushx":  func() error { _, err := list.LPushX(t.Context(), "new"); return err },
						"rpushx":  func() error { _, err := list.RPushX(t.Context(), numbers(0, 9)...); return err },
						"lset":    func() error { return list.LSet(t.Context(), 5, strings.Repeat("long", 1000)) },
						"linsert": func() error { _, err := list.LInsertBefore(t.Context(), 5, "new"); return err },
					} {
						assert.ErrorContains(t, edit(), "OOM", name)
						assert.Equal(t, before, snapshot(t, list), name)
					}

					want := content(t, list)
					for _, count := range []int64{2, -3, 0} { // each of another value
						removed, err := list.LRem(t.Context(), count, 5-count)
						require.NoError(t, err)
						if count == 0 {
							assert.EqualValues(t, 20, removed)
						} else {
							assert.EqualValues(t, max(count, -count), removed)
						}
						want = without5(want, count)
						assert.Equal(t, want, content(t, list))
						require.NoError(t, list.Check(t.Context()))
					}
					removed, err := list.LRem(t.Context(), 0, "none")
					require.NoError(t, err)
					assert.Zero(t, removed)
					require.NoError(t, list.LTrim(t.Context(), 20, -30))
					assert.Equal(t, want[20:len(want)-29], content(t, list))
					require.NoError(t, list.Check(t.Context()))
					index, err := list.LPos(t.Context(), want[30], redis.LPosArgs{})
					require.NoError(t, err)
					assert.LessOrEqual(t, index, int64(10))
					require.NoError(t, list.LTrim(t.Context(), 0, -1))
					require.NoError(t, list.LTrim(t.Context(), 1, 0))
					require.NoError(t, list.LTrim(t.Context(), 1, 0))
					assert.Empty(t, keysOfList(t, list))
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
	list := newList(t, rdb, WithCapacity(10))
	_, err := list.RPush(t.Context(), numbers(0, 100_000)...)
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
		for _, calls := range without(commandCalls(t, rdb), "config|resetstat", "info") {
			total += calls
		}
		assert.LessOrEqual(t, total, test.most)
	}
}

func TestATrimOfALongListSweepsAllItLeaves(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		length := 120_000
		if server.Kind() == redistest.Embedded { // it is slow
			length = 12_000
		}
		for name, keep := range map[string][2]int{
			"left": {0, 5}, "right": {length - 7, length}, "middle": {length / 2, length/2 + 25}, "one": {77, 78}, "none": {length, length},
		} {
			list := newList(t, server.Client(t), WithCapacity(10))
			_, err := list.LPush(t.Context(), "first")
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), numbers(1, length)...)
			require.NoError(t, err)
			require.NoError(t, list.LTrim(t.Context(), int64(keep[0]), int64(keep[1]-1)), name)
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			assert.Zero(t, info.Unswept)
			assert.EqualValues(t, keep[1]-keep[0], info.Length)
			assert.LessOrEqual(t, len(keysOfList(t, list)), (keep[1]-keep[0])/10+3, name)
		}
	})
}

// A trim or Del whose client dies leaves shards on both sides of the list, or on one. Others neither see nor keep them, also
// when the list grows into them.
func TestLaterEditsFinishAnInterruptedTrim(t *testing.T) {
	t.Parallel()
	later := map[string]func(m *model, list *ShardedList, i int){
		"lpush": func(m *model, list *ShardedList, i int) { m.push(list.LPush, m.rdb.LPush, m.fresh(30)) },
		"rpush": func(m *model, list *ShardedList, i int) { m.push(list.RPush, m.rdb.RPush, m.fresh(30)) },
		"lpushx": func(m *model, list *ShardedList, i int) {
			length, err := list.LPushX(m.t.Context(), i)
			m.number(length, err, m.rdb.LPushX(m.t.Context(), m.plain, i))
		},
		"linsert": func(m *model, list *ShardedList, i int) {
			for _, pivot := range []string{m.values[0], m.values[len(m.values)-1]} {
				length, err := list.LInsertAfter(m.t.Context(), pivot, i)
				m.number(length, err, m.rdb.LInsertAfter(m.t.Context(), m.plain, pivot, i))
				length, err = list.LInsertBefore(m.t.Context(), pivot, i)
				m.number(length, err, m.rdb.LInsertBefore(m.t.Context(), m.plain, pivot, i))
			}
		},
		"lrem": func(m *model, list *ShardedList, i int) {
			value := m.values[len(m.values)/2]
			removed, err := list.LRem(m.t.Context(), 0, value)
			m.number(removed, err, m.rdb.LRem(m.t.Context(), m.plain, 0, value))
		},
		"ltrim": func(m *model, list *ShardedList, i int) {
			m.same(list.LTrim(m.t.Context(), 1, -2), m.rdb.LTrim(m.t.Context(), m.plain, 1, -2).Err())
		},
		"lset": func(m *model, list *ShardedList, i int) {
			m.same(list.LSet(m.t.Context(), 0, i), m.rdb.LSet(m.t.Context(), m.plain, 0, i).Err())
		},
		"lpop": func(m *model, list *ShardedList, i int) {
			value, err := list.LPop(m.t.Context())
			m.same(err, m.rdb.LPop(m.t.Context(), m.plain).Err())
			assert.NotEmpty(m.t, value)
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const length = 400 // shards: more than a few steps sweep
		middle, end := int64(length/2), int64(length)
		for name, operate := range later {
			for _, keep := range [][2]int64{{middle - 20, middle + 30}, {0, 50}, {end - 50, -1}, {middle - 20, middle - 21}} {
				for _, capacity := range []int{1, 2} {
					if capacity == 2 && server.Kind() != redistest.Redis {
						continue // it takes long
					}
					list := newList(t, server.Client(t), WithCapacity(capacity))
					m := &model{t: t, rdb: server.Client(t), plain: "plain-" + list.Name()}
					m.push(list.RPush, m.rdb.RPush, m.fresh(length*capacity/2))
					m.push(list.LPush, m.rdb.LPush, m.fresh(length*capacity/2))
					_, err := bare(list.slot().Trim(keep[0], keep[1])).Run(t.Context()) // and no sweep after it
					require.NoError(t, err)
					require.NoError(t, m.rdb.LTrim(t.Context(), m.plain, keep[0], keep[1]).Err())
					if keep[0] > keep[1] && keep[1] > 0 {
						m.push(list.RPush, m.rdb.RPush, m.fresh(45))
						pushed, err := list.LLen(t.Context())
						require.NoError(t, err)
						require.EqualValues(t, 45, pushed)
					}
					require.Greater(t, len(keysOfList(t, list)), length/2)
					for i := range 20 {
						m.values = m.rdb.LRange(t.Context(), m.plain, 0, -1).Val()
						operate(m, list, i)
						require.Equal(t, m.rdb.LRange(t.Context(), m.plain, 0, -1).Val(), content(t, list))
					}
					info, err := list.Info(t.Context())
					require.NoError(t, err)
					assert.Zero(t, info.Unswept, name)
					assert.Len(t, keysOfList(t, list), int(info.Shards)+1, name)
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
			list := newList(t, rdb, WithCapacity(3))
			broken := openList(t, server.Client(t, through(proxy)), list.Name())
			t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
			m := &model{t: t, rdb: rdb, plain: "plain-" + list.Name()}
			m.push(list.RPush, rdb.RPush, m.fresh(20))
			proxy.Set(rates)
			random := rand.New(rand.NewPCG(7, 7))
			for range 30 {
				m.edit(broken, byte(random.IntN(edits-1)), random.IntN(12), random.Int64N(32)-16)
				m.verify(list)
				if len(m.values) < 5 {
					m.push(list.RPush, rdb.RPush, m.fresh(10))
				}
			}
		}
	})
}

// A copy of an edit that was refused, or had nothing to do, changes nothing when it arrives late.
func TestALateCopyOfARefusedEditDoesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := newList(t, server.Client(t), WithCapacity(2))
		_, err := list.RPush(t.Context(), "a", "b", "c")
		require.NoError(t, err)
		for name, o := range map[string]session.Operation{
			"lset":    list.slot().Set(3, "late"),
			"linsert": list.slot().Insert("before", "d", "late"),
			"lrem":    list.slot().Remove(0, "d"),
		} {
			n := list.slot().Sessions().New()
			n.Begin()
			outcome := n.Do(t.Context(), script.Deadline(t.Context()), o)
			_, pushErr := list.RPush(t.Context(), "d")
			require.NoError(t, pushErr)
			assert.Equal(t, outcome, n.Do(t.Context(), script.Deadline(t.Context()), o), name)
			assert.Equal(t, []string{"a", "b", "c", "d"}, content(t, list), name)
			_, err = list.RPop(t.Context())
			require.NoError(t, err)
		}
		other := newList(t, server.Client(t))
		n := other.slot().Sessions().New()
		for _, o := range []session.Operation{other.slot().PushX(layout.Left, []any{"late"}), other.slot().Set(0, "late")} {
			n.Begin()
			for range 2 {
				outcome := n.Do(t.Context(), script.Deadline(t.Context()), o)
				assert.NoError(t, ignoreRefusal(outcome.Err))
				_, err := other.Del(t.Context())
				require.NoError(t, err)
				_, err = other.RPush(t.Context(), "a")
				require.NoError(t, err)
			}
			assert.Equal(t, []string{"a"}, content(t, other))
			_, err := other.Del(t.Context())
			require.NoError(t, err)
		}
	})
}

// A slot moves to and fro while elements are inserted and removed all over the list: each comes and goes once, and the others
// stay as they are.
func TestEditsWhileASlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := newList(t, server.Client(t), WithCapacity(3))
	base := numbers(0, 40)
	_, err := list.RPush(t.Context(), base...)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const editors, each = 3, 60
	var running atomic.Int32
	for e := range editors {
		running.Add(1)
		handle := openList(t, server.Client(t), list.Name())
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
	home, err := server.SlotOwner(t.Context(), list.keys().Slot())
	require.NoError(t, err)
	moves, keys := 0, 0
	for running.Load() > 0 && ctx.Err() == nil {
		moves++
		require.NoError(t, server.MoveSlot(t.Context(), list.keys().Slot(), (home+moves)%3, func(moved int) { keys += min(moved, 1) }))
	}
	t.Logf("the slot moved %d times, with %d keys", moves, keys)
	assert.GreaterOrEqual(t, moves, 2)
	assert.Greater(t, keys, moves*len(base)/3, "all shards at least")
	assert.Equal(t, words(base), content(t, list))
}
