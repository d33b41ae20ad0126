package harness

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/stretchr/testify/require"
)

// BreakScript is the variable that makes FuzzOperations run a script with a bug.
const BreakScript = "SHARDEDLIST_BREAK_SCRIPT"

// Model runs the same operation on all three lists. Each client has a handle of its own on the sharded list.
type Model struct {
	T       testing.TB
	Handles []*shardedlist.ShardedList
	Rdb     redis.UniversalClient
	Plain   string
	Values  []string
	pushed  int
	Pad     string // in front of each value
}

// RunModel carries out the operations that the bytes of a tape stand for.
func RunModel(t testing.TB, clients []redis.UniversalClient, capacity int, tape []byte) {
	m := NewModel(t, clients, capacity)
	defer m.Rdb.Del(context.Background(), m.Plain)
	defer func() { _, _ = m.Handles[0].Del(context.Background()) }()
	for ; len(tape) >= 4; tape = tape[4:] {
		m.Step(m.Handles[int(tape[0])%len(m.Handles)], tape[1], int(tape[2])%12, int64(int8(tape[3]))/8)
	}
}

// NewModel returns the three lists, with a handle on the sharded list for each client. The capacity is by size if it is 0.
func NewModel(t testing.TB, clients []redis.UniversalClient, capacity int) *Model {
	m := &Model{T: t, Rdb: clients[0]}
	with := func(capacity int, options ...shardedlist.Option) []shardedlist.Option {
		if capacity > 0 {
			options = append(options, shardedlist.WithCapacity(capacity))
		}
		return options
	}
	m.Handles = []*shardedlist.ShardedList{NewList(t, clients[0], with(capacity, shardedlist.WithPoppedAt("LEFT"))...)}
	name := m.Handles[0].Name()
	m.Plain = "plain-" + name
	for i, rdb := range clients[1:] {
		m.Handles = append(m.Handles, OpenList(t, rdb, name, with(capacity+i, shardedlist.WithPoppedAt("RIGHT"), PastLua)...))
	}
	return m
}

func (m *Model) Step(list *shardedlist.ShardedList, operation byte, count int, index int64) {
	t, ctx := m.T, m.T.Context()
	switch operation %= 12 + Edits; operation {
	case 0, 1:
		values := m.Fresh(count%3 + 1)
		m.Push(list.LPush, m.Rdb.LPush, values)
		m.Apply(history.Call{Name: "lpush", Values: Words(values)})
	case 2, 3:
		values := m.Fresh(count + 1)
		m.Push(list.RPush, m.Rdb.RPush, values)
		m.Apply(history.Call{Name: "rpush", Values: Words(values)})
	case 4:
		value, err := list.LPop(ctx)
		m.One(value, err, m.Rdb.LPop(ctx, m.Plain), m.Take("lpop", 1))
	case 5:
		value, err := list.RPop(ctx)
		m.One(value, err, m.Rdb.RPop(ctx, m.Plain), m.Take("rpop", 1))
	case 6:
		values, err := list.LPopCount(ctx, count)
		m.Several(values, err, m.Rdb.LPopCount(ctx, m.Plain, count), "lpop", count)
	case 7:
		values, err := list.RPopCount(ctx, count)
		m.Several(values, err, m.Rdb.RPopCount(ctx, m.Plain, count), "rpop", count)
	case 8:
		value, err := list.BLPop(ctx, time.Microsecond)
		m.One(value, err, m.Rdb.LPop(ctx, m.Plain), m.Take("lpop", 1))
	case 9:
		value, err := list.BRPop(ctx, time.Microsecond)
		m.One(value, err, m.Rdb.RPop(ctx, m.Plain), m.Take("rpop", 1))
	case 10:
		value, err := list.LIndex(ctx, index)
		want, wantErr := m.Rdb.LIndex(ctx, m.Plain, index).Result()
		require.Equal(t, wantErr, err)
		require.Equal(t, want, value)
		values, err := list.LRange(ctx, index, index+int64(count))
		require.NoError(t, err)
		require.Equal(t, m.Rdb.LRange(ctx, m.Plain, index, index+int64(count)).Val(), values)
	case 11:
		switch {
		case count > 6:
			m.PlainPush(list, m.Fresh(3*(count-6)))
			m.Verify(list)
			return
		case count > 5:
			require.NoError(t, list.Adopt(ctx, nil))
			return
		case count > 4:
			_, _, err := Inside(list).AdoptStep(ctx, true, "")
			require.NoError(t, err)
			m.Verify(list)
			return
		case count > 2:
			require.NoError(t, list.Restore(ctx, nil))
			m.Verify(list)
			require.Equal(t, append([]string{}, m.Values...), append([]string{}, m.Rdb.LRange(ctx, list.Name(), 0, -1).Val()...))
			return
		case count > 0:
			_, _, err := Inside(list).RestoreStep(ctx, true, "")
			require.NoError(t, err)
			m.Verify(list)
			return
		}
		existed, err := list.Del(ctx)
		require.NoError(t, err)
		require.Equal(t, m.Rdb.Del(ctx, m.Plain).Val() == 1, existed)
		m.Values = nil
	default:
		m.Edit(list, operation-12, count, index)
	}
	m.Verify(list)
}

// Verify compares the whole list, and checks all its shards. Strays, for which a check looks at all keys of the server, stay until the
// test ends, and are found then.
func (m *Model) Verify(list *shardedlist.ShardedList) {
	t, ctx := m.T, m.T.Context()
	length, err := list.LLen(ctx)
	require.NoError(t, err)
	require.EqualValues(t, len(m.Values), length)
	require.Equal(t, append([]string{}, m.Values...), Content(t, list))
	require.NoError(t, OneSlot(list).CheckShards(ctx))
}

// Fresh are values not pushed before.
func (m *Model) Fresh(count int) []any {
	values := make([]any, count)
	for i := range values {
		values[i] = fmt.Sprint(m.Pad, "v", m.pushed)
		m.pushed++
	}
	return values
}

// PlainPush has a process push to the plain key, as it does without this library.
func (m *Model) PlainPush(list *shardedlist.ShardedList, values []any) {
	t, ctx := m.T, m.T.Context()
	require.NoError(t, m.Rdb.RPush(ctx, list.Name(), values...).Err())
	left := NewcomersJoinLeft(list, ctx)
	if !left {
		m.Rdb.RPush(ctx, m.Plain, values...)
		m.Apply(history.Call{Name: "rpush", Values: Words(values)})
		return
	}
	slices.Reverse(values)
	m.Rdb.LPush(ctx, m.Plain, values...)
	m.Apply(history.Call{Name: "lpush", Values: Words(values)})
}

func (m *Model) Push(sharded func(context.Context, ...any) (int64, error), plain func(context.Context, string, ...any) *redis.IntCmd, values []any) {
	length, err := sharded(m.T.Context(), values...)
	require.NoError(m.T, err)
	require.Equal(m.T, plain(m.T.Context(), m.Plain, values...).Val(), length)
}

func (m *Model) One(value string, err error, plain *redis.StringCmd, model []string) {
	require.Equal(m.T, plain.Err(), err)
	require.Equal(m.T, plain.Val(), value)
	if err == nil {
		require.Equal(m.T, model, []string{value})
	}
}

func (m *Model) Several(values []string, err error, plain *redis.StringSliceCmd, pop string, count int) {
	require.Equal(m.T, plain.Err(), err)
	if err == nil {
		require.Equal(m.T, plain.Val(), values)
		require.Equal(m.T, m.Take(pop, count), values)
	}
}

// Take pops from the model.
func (m *Model) Take(pop string, count int) []string {
	return append([]string{}, m.Apply(history.Call{Name: pop, Count: count}).Values...)
}

func (m *Model) Apply(call history.Call) (result history.Outcome) {
	m.Values, result = history.Apply(m.Values, call)
	return result
}

// InsertAt inserts next to the element at an index, if there is one.
func InsertAt(ctx context.Context, list *shardedlist.ShardedList, index int64) error {
	pivot, err := list.LIndex(ctx, index)
	if err == nil {
		_, err = list.LInsertAfter(ctx, pivot, "new")
	}
	return IgnoreNil(err)
}

// RemoveAt removes what equals the element at an index, if there is one.
func RemoveAt(ctx context.Context, list *shardedlist.ShardedList, index int64) error {
	value, err := list.LIndex(ctx, index)
	if err == nil {
		_, err = list.LRem(ctx, 0, value)
	}
	return IgnoreNil(err)
}

// IgnoreRefusal drops an error that tells what the list holds.
func IgnoreRefusal(err error) error {
	if session.IsRecorded(Cause(err)) {
		return nil
	}
	return err
}

// Cause is the error that the server replied with.
func Cause(err error) error {
	var reply redis.Error
	if errors.As(err, &reply) {
		return reply
	}
	return err
}

// Edits is the number of operations that model.edit knows.
const Edits = 12 // the last one, of LPOS, changes nothing

// Edit runs an edit on the sharded list and on the plain one. Their values are few, so that many are equal.
func (m *Model) Edit(list *shardedlist.ShardedList, operation byte, count int, index int64) {
	ctx, key := m.T.Context(), m.Plain
	letter := func(i int) string { return string(rune('a' + (i%3+3)%3)) }
	value := letter(int(index))
	pivot := value
	if len(m.Values) > 0 {
		pivot = m.Values[(int(index)%len(m.Values)+len(m.Values))%len(m.Values)]
	}
	letters := make([]any, count%6+1)
	for i := range letters {
		letters[i] = letter(i * int(index))
	}
	args := redis.LPosArgs{Rank: index % 4, MaxLen: int64(count)}
	switch operation {
	case 0:
		length, err := list.LPushX(ctx, letters...)
		m.Number(length, err, m.Rdb.LPushX(ctx, key, letters...))
	case 1, 2:
		length, err := list.RPushX(ctx, letters...)
		m.Number(length, err, m.Rdb.RPushX(ctx, key, letters...))
	case 3:
		m.Same(list.LSet(ctx, index, letter(count)), m.Rdb.LSet(ctx, key, index, letter(count)).Err())
	case 4, 5:
		length, err := list.LInsertBefore(ctx, pivot, letter(count))
		m.Number(length, err, m.Rdb.LInsertBefore(ctx, key, pivot, letter(count)))
	case 6, 7:
		length, err := list.LInsertAfter(ctx, pivot, letter(count))
		m.Number(length, err, m.Rdb.LInsertAfter(ctx, key, pivot, letter(count)))
	case 8:
		op := []string{"BEFORE", "After", "beside", ""}[count%4]
		length, err := list.LInsert(ctx, op, value, pivot)
		m.Number(length, err, m.Rdb.LInsert(ctx, key, op, value, pivot))
	case 9:
		removed, err := list.LRem(ctx, int64(count-6), pivot)
		m.Number(removed, err, m.Rdb.LRem(ctx, key, int64(count-6), pivot))
	case 10:
		start, stop := index/6, int64(-1-count%4)
		if count == 0 {
			stop = -index
		}
		m.Same(list.LTrim(ctx, start, stop), m.Rdb.LTrim(ctx, key, start, stop).Err())
	case 11:
		m.Positions(list, pivot, int64(count%4), args)
	}
	m.Values = m.Rdb.LRange(ctx, key, 0, -1).Val()
}

// Positions compares LPOS.
func (m *Model) Positions(list *shardedlist.ShardedList, value string, count int64, args redis.LPosArgs) {
	ctx := m.T.Context()
	index, err := list.LPos(ctx, value, args)
	m.Number(index, err, m.Rdb.LPos(ctx, m.Plain, value, args))
	indices, err := list.LPosCount(ctx, value, count, args)
	want, wantErr := m.Rdb.LPosCount(ctx, m.Plain, value, count, args).Result()
	m.Same(err, wantErr)
	if wantErr == nil {
		require.Equal(m.T, want, indices)
	}
}

func (m *Model) Number(number int64, err error, plain *redis.IntCmd) {
	m.Same(err, plain.Err())
	require.Equal(m.T, plain.Val(), number)
}

// Same compares the errors that the server replied with, redis.Nil as callers do.
func (m *Model) Same(err, want error) {
	m.T.Helper()
	if want == nil || want == redis.Nil {
		require.Equal(m.T, want, err)
		return
	}
	require.EqualError(m.T, Cause(err), want.Error())
}

func (m *Model) EditAnywhere(list *shardedlist.ShardedList, random *rand.Rand) {
	ctx, key := m.T.Context(), m.Plain
	value := fmt.Sprint(random.IntN(60))
	index := random.Int64N(4000) - 2000
	switch random.IntN(8) {
	case 0:
		m.Same(list.LSet(ctx, index, "set"), m.Rdb.LSet(ctx, key, index, "set").Err())
	case 1, 2:
		for range 20 { // several into the same region
			length, err := list.LInsert(ctx, "before", value, "new")
			m.Number(length, err, m.Rdb.LInsert(ctx, key, "before", value, "new"))
		}
	case 3, 4:
		count := random.Int64N(21) - 10
		removed, err := list.LRem(ctx, count, value)
		m.Number(removed, err, m.Rdb.LRem(ctx, key, count, value))
	case 5: // a run of equal elements, as long as several shards
		for _, push := range []string{"run", value, "run"} {
			run := strings.Fields(strings.Repeat(push+" ", 1+random.IntN(700)))
			length, err := list.RPushX(ctx, run)
			m.Number(length, err, m.Rdb.RPushX(ctx, key, run))
		}
		count := random.Int64N(2000) - 1000
		removed, err := list.LRem(ctx, count, "run")
		m.Number(removed, err, m.Rdb.LRem(ctx, key, count, "run"))
	case 6:
		start, stop := random.Int64N(200), -random.Int64N(200)
		m.Same(list.LTrim(ctx, start, stop), m.Rdb.LTrim(ctx, key, start, stop).Err())
	case 7:
		m.Positions(list, value, random.Int64N(50), redis.LPosArgs{Rank: random.Int64N(30) - 15, MaxLen: random.Int64N(3000)})
	}
}
