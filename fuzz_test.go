package shardedlist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
)

// The sharded list against two oracles, the deque of internal/history and a plain Redis list on the same server: whatever the sequence of
// operations, and whichever client runs them, all three give the same results.
func TestModel(t *testing.T) {
	t.Parallel()
	steps, seeds := 150, 2
	if testing.Short() {
		steps, seeds = 50, 1
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for seed := range uint64(seeds) {
			random := rand.New(rand.NewPCG(seed, 0))
			tape := make([]byte, steps*4)
			for i := range tape {
				tape[i] = byte(random.Uint32())
			}
			for _, capacity := range []int{1, 2, 3, 7} {
				runModel(t, []redis.UniversalClient{server.Client(t), server.Client(t)}, capacity, tape)
			}
		}
	})
}

// Steps that move fewer elements than a shard holds: three, of this size.
func TestModelOfLargeElements(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey, redistest.Cluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb, parts := redistest.Shared(t, kind).Client(t), 0
			for seed := range uint64(4) {
				random := rand.New(rand.NewPCG(seed, 1))
				m := newModel(t, []redis.UniversalClient{rdb, rdb}, 4+int(seed)%3, seed%2 == 0)
				m.pad = strings.Repeat("-", 80_000)
				m.push(m.handles[0].RPush, rdb.RPush, m.fresh(40))
				m.values = rdb.LRange(t.Context(), m.plain, 0, -1).Val()
				for range 60 {
					operation := []int{0, 2, 4, 5, 6, 7, 11, 11, 11, 12 + random.IntN(edits)}[random.IntN(10)]
					m.step(m.handles[random.IntN(2)], byte(operation), random.IntN(12), random.Int64N(60)-30)
					if rdb.HExists(t.Context(), m.handles[0].keys().Meta, "part").Val() {
						parts++
					}
				}
				rdb.Del(t.Context(), m.plain)
			}
			assert.Greater(t, parts, 20, "shards of which a step has moved only some elements")
		})
	}
}

func FuzzOperations(f *testing.F) {
	rdb := redistest.Shared(f, redistest.Embedded).Client(f)
	f.Add(uint8(0), []byte("push, pop, push, pop, and so on"))
	f.Add(uint8(2), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23})
	f.Fuzz(func(t *testing.T, capacity uint8, tape []byte) {
		if len(tape) > 400 {
			return
		}
		runModel(t, []redis.UniversalClient{rdb, rdb}, 1+int(capacity)%9, tape)
	})
}

// model runs the same operation on all three lists. Each client has a handle of its own on the sharded list.
type model struct {
	t       testing.TB
	handles []*ShardedList
	rdb     redis.UniversalClient
	plain   string
	watches bool // the handles watch the plain key
	values  []string
	pushed  int
	pad     string // in front of each value
}

func runModel(t testing.TB, clients []redis.UniversalClient, capacity int, tape []byte) {
	m := newModel(t, clients, capacity, len(tape) > 0 && tape[0] >= 128)
	defer m.rdb.Del(context.Background(), m.plain)
	defer func() { _, _ = m.handles[0].Del(context.Background()) }()
	for ; len(tape) >= 4; tape = tape[4:] {
		m.step(m.handles[int(tape[0])%len(m.handles)], tape[1], int(tape[2])%12, int64(int8(tape[3]))/8)
	}
}

func newModel(t testing.TB, clients []redis.UniversalClient, capacity int, watches bool) *model {
	m := &model{t: t, rdb: clients[0], watches: watches}
	watch := WithoutPlain()
	if m.watches {
		watch = WithPlain()
	}
	m.handles = []*ShardedList{newList(t, clients[0], WithCapacity(capacity), WithPoppedAt("LEFT"), watch)}
	name := m.handles[0].Name()
	m.plain = "plain-" + name
	for i, rdb := range clients[1:] {
		m.handles = append(m.handles, openList(t, rdb, name, WithCapacity(capacity+i), WithPoppedAt("RIGHT"), watch, pastLua))
	}
	return m
}

func (m *model) step(list *ShardedList, operation byte, count int, index int64) {
	t, ctx := m.t, m.t.Context()
	switch operation %= 12 + edits; operation {
	case 0, 1:
		values := m.fresh(count%3 + 1)
		m.push(list.LPush, m.rdb.LPush, values)
		m.apply(history.Call{Name: "lpush", Values: words(values)})
	case 2, 3:
		values := m.fresh(count + 1)
		m.push(list.RPush, m.rdb.RPush, values)
		m.apply(history.Call{Name: "rpush", Values: words(values)})
	case 4:
		value, err := list.LPop(ctx)
		m.one(value, err, m.rdb.LPop(ctx, m.plain), m.take("lpop", 1))
	case 5:
		value, err := list.RPop(ctx)
		m.one(value, err, m.rdb.RPop(ctx, m.plain), m.take("rpop", 1))
	case 6:
		values, err := list.LPopCount(ctx, count)
		m.several(values, err, m.rdb.LPopCount(ctx, m.plain, count), "lpop", count)
	case 7:
		values, err := list.RPopCount(ctx, count)
		m.several(values, err, m.rdb.RPopCount(ctx, m.plain, count), "rpop", count)
	case 8:
		value, err := list.BLPop(ctx, time.Microsecond)
		m.one(value, err, m.rdb.LPop(ctx, m.plain), m.take("lpop", 1))
	case 9:
		value, err := list.BRPop(ctx, time.Microsecond)
		m.one(value, err, m.rdb.RPop(ctx, m.plain), m.take("rpop", 1))
	case 10:
		value, err := list.LIndex(ctx, index)
		want, wantErr := m.rdb.LIndex(ctx, m.plain, index).Result()
		require.Equal(t, wantErr, err)
		require.Equal(t, want, value)
		values, err := list.LRange(ctx, index, index+int64(count))
		require.NoError(t, err)
		require.Equal(t, m.rdb.LRange(ctx, m.plain, index, index+int64(count)).Val(), values)
	case 11:
		switch {
		case count > 6:
			m.plainPush(list, m.fresh(3*(count-6)))
			m.verify(list)
			return
		case count > 5:
			require.NoError(t, list.Adopt(ctx, nil))
			return
		case count > 4:
			_, _, err := list.list.AdoptStep(ctx, true)
			require.NoError(t, err)
			m.verify(list)
			return
		case count > 2:
			require.NoError(t, list.Restore(ctx, nil))
			m.verify(list)
			require.Equal(t, append([]string{}, m.values...), append([]string{}, m.rdb.LRange(ctx, list.Name(), 0, -1).Val()...))
			return
		case count > 0:
			_, _, err := list.list.RestoreStep(ctx, true)
			require.NoError(t, err)
			m.verify(list)
			return
		}
		existed, err := list.Del(ctx)
		require.NoError(t, err)
		require.Equal(t, m.rdb.Del(ctx, m.plain).Val() == 1, existed)
		m.values = nil
	default:
		m.edit(list, operation-12, count, index)
	}
	m.verify(list)
}

// verify compares the whole list.
func (m *model) verify(list *ShardedList) {
	t, ctx := m.t, m.t.Context()
	length, err := list.LLen(ctx)
	require.NoError(t, err)
	require.EqualValues(t, len(m.values), length)
	require.Equal(t, append([]string{}, m.values...), content(t, list))
	require.NoError(t, list.Check(ctx))
}

// fresh are values not pushed before.
func (m *model) fresh(count int) []any {
	values := make([]any, count)
	for i := range values {
		values[i] = fmt.Sprint(m.pad, "v", m.pushed)
		m.pushed++
	}
	return values
}

// plainPush has a process push to the plain key, as it does without this library. Handles that do not watch the key adopt the values.
func (m *model) plainPush(list *ShardedList, values []any) {
	t, ctx := m.t, m.t.Context()
	if !m.watches {
		require.NoError(t, list.Adopt(ctx, nil)) // it may have been restored
	}
	require.NoError(t, m.rdb.RPush(ctx, list.Name(), values...).Err())
	left := list.newcomersJoinLeft(ctx)
	if !m.watches {
		known := list.pointer(ctx, digit) > "1"
		_, _, err := list.list.AdoptStep(ctx, true)
		require.NoError(t, err)
		left = left || !known && list != m.handles[0]
	}
	if !left {
		m.rdb.RPush(ctx, m.plain, values...)
		m.apply(history.Call{Name: "rpush", Values: words(values)})
		return
	}
	slices.Reverse(values)
	m.rdb.LPush(ctx, m.plain, values...)
	m.apply(history.Call{Name: "lpush", Values: words(values)})
}

func (m *model) push(sharded func(context.Context, ...any) (int64, error), plain func(context.Context, string, ...any) *redis.IntCmd, values []any) {
	length, err := sharded(m.t.Context(), values...)
	require.NoError(m.t, err)
	require.Equal(m.t, plain(m.t.Context(), m.plain, values...).Val(), length)
}

func (m *model) one(value string, err error, plain *redis.StringCmd, model []string) {
	require.Equal(m.t, plain.Err(), err)
	require.Equal(m.t, plain.Val(), value)
	if err == nil {
		require.Equal(m.t, model, []string{value})
	}
}

func (m *model) several(values []string, err error, plain *redis.StringSliceCmd, pop string, count int) {
	require.Equal(m.t, plain.Err(), err)
	if err == nil {
		require.Equal(m.t, plain.Val(), values)
		require.Equal(m.t, m.take(pop, count), values)
	}
}

// take pops from the model.
func (m *model) take(pop string, count int) []string {
	return append([]string{}, m.apply(history.Call{Name: pop, Count: count}).Values...)
}

func (m *model) apply(call history.Call) (result history.Outcome) {
	m.values, result = history.Apply(m.values, call)
	return result
}

func FuzzNamesAndValues(f *testing.F) {
	rdb := redistest.Shared(f, redistest.Embedded).Client(f)
	for i, name := range hostileNames[:len(hostileNames)-2] {
		f.Add(name, hostileNames[(i+7)%len(hostileNames)], []byte(name))
	}
	f.Fuzz(func(t *testing.T, name, other string, value []byte) {
		if name == "" || other == "" || name == other {
			return
		}
		for _, key := range ownedKeys(name) {
			require.NotContains(t, ownedKeys(other), key)
			require.Equal(t, oneslot.KeysOf(name).Slot(), script.Slot(key), "of %q", key)
		}
		list := openList(t, rdb, name, WithCapacity(2))
		defer func() { _, _ = list.Del(context.Background()) }()
		length, err := list.RPush(t.Context(), value, string(value), value)
		require.NoError(t, err)
		require.EqualValues(t, 3, length)
		empty, err := openList(t, rdb, other).LLen(t.Context())
		require.NoError(t, err)
		require.Zero(t, empty)
		for _, pop := range []func(context.Context) (string, error){list.LPop, list.RPop, list.RPop} {
			popped, err := pop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, value, []byte(popped))
		}
	})
}
