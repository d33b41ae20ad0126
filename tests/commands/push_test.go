package commands

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestValuesAreEncodedAsGoRedisEncodesThem(t *testing.T) {
	t.Parallel()
	text, number := "text", int32(-7)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for name, values := range map[string][]any{
			"strings":    {"", "a", text, &text},
			"bytes":      {[]byte{}, []byte{0, 0xff, '\r', '\n'}},
			"integers":   {1, int8(-1), int16(2), int64(-1 << 63), uint64(1<<64 - 1), uintptr(3), number, &number},
			"floats":     {1.5, float32(0.1), 1e300, 1e-7},
			"bools":      {true, false},
			"times":      {time.Unix(1, 5).UTC(), 3 * time.Second},
			"nils":       {nil, (*int)(nil), (*string)(nil), "x"},
			"marshalers": {marshaler{text: "binary"}, &marshaler{text: "pointer"}, net.IPv4(1, 2, 3, 4)},
			"lone slice": {[]string{"a", "b", "c"}},
			"lone any":   {[]any{"a", 1, true}},
			"lone map":   {map[string]any{"field": "value"}},
			"lone struct": {struct {
				A string `redis:"a"`
			}{"value"}},
			"lone marshal":  {marshaler{text: "alone"}},
			"a megabyte":    {strings.Repeat("x", 1<<20), bytes.Repeat([]byte{0}, 3<<20)},
			"lone time":     {time.Unix(9, 0).UTC()},
			"lone duration": {time.Minute},
		} {
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			plain := "plain-" + list.Name()
			length, err := list.RPush(t.Context(), values...)
			require.NoError(t, err, name)
			want, err := rdb.RPush(t.Context(), plain, values...).Result()
			require.NoError(t, err, name)
			assert.Equal(t, want, length, name)
			assert.Equal(t, rdb.LRange(t.Context(), plain, 0, -1).Val(), harness.Content(t, list), name)
		}
	})
}

type marshaler struct {
	text string
	err  error
}

func (m marshaler) MarshalBinary() ([]byte, error) { return []byte(m.text), m.err }

func TestAPushOfABadValueSendsNothing(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		for _, test := range []struct {
			values []any
			want   error
		}{
			{nil, shardedlist.ErrNoValues},
			{[]any{[]string{}}, shardedlist.ErrNoValues},
			{[]any{nil}, shardedlist.ErrNoValues}, // go-redis sends this as an RPUSH without values, which Redis refuses
			{[]any{"good", struct{}{}}, shardedlist.ErrValue},
			{[]any{"good", []string{"nested"}}, shardedlist.ErrValue},
			{[]any{make(chan int)}, shardedlist.ErrValue},
			{[]any{"good", marshaler{err: broken}}, shardedlist.ErrValue},
			{[]any{"good", marshaler{err: broken}}, broken},
		} {
			_, err := list.RPush(t.Context(), test.values...)
			assert.ErrorIs(t, err, test.want)
			_, err = list.LPush(t.Context(), test.values...)
			assert.ErrorIs(t, err, test.want)
		}
		assert.Empty(t, harness.KeysOfList(t, list))
	})
}

func TestAPushLeavesTheCallersSliceAlone(t *testing.T) {
	t.Parallel()
	list := harness.NewList(t, redistest.Shared(t, redistest.Embedded).Client(t))
	values := []any{"a", marshaler{text: "b"}, 3}
	_, err := list.RPush(t.Context(), values...)
	require.NoError(t, err)
	assert.Equal(t, []any{"a", marshaler{text: "b"}, 3}, values)
}

func TestAHundredThousandValuesInOneCall(t *testing.T) {
	t.Parallel()
	values := harness.Numbers(0, 100_000)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		if server.Kind() == redistest.Cluster { // on a busy machine a script of seconds makes a server refuse all others
			server = redistest.Start(t, redistest.Cluster)
		}
		for _, capacity := range []int{1, 7, 512, shardedlist.MaxCapacity} {
			if (server.Kind() != redistest.Redis || !redistest.Long()) && capacity != 512 {
				continue // it takes seconds for so many calls, or for so long a shard
			}
			list := harness.NewList(t, server.Client(t, harness.Patient), shardedlist.WithCapacity(capacity))
			_, err := list.RPush(t.Context(), "first")
			require.NoError(t, err)
			length, err := list.RPush(t.Context(), values...)
			require.NoError(t, err)
			assert.EqualValues(t, 100_001, length)
			popped, err := list.LPopCount(t.Context(), 100_001)
			require.NoError(t, err)
			assert.Equal(t, append([]string{"first"}, harness.Words(values)...), popped)
			assert.Empty(t, harness.KeysOfList(t, list))

			length, err = list.LPush(t.Context(), values...)
			require.NoError(t, err)
			assert.EqualValues(t, 100_000, length)
			popped, err = list.RPopCount(t.Context(), 200_000)
			require.NoError(t, err)
			assert.Equal(t, harness.Words(values), popped)
		}
	})
}

// A reader that sees any element of a call must see them all, next to each other.
func TestAPushOfManyValuesIsAtomic(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(3))
		const size = 10
		ctx, stop := context.WithCancel(t.Context())
		failed := make(chan error, 2)
		for _, push := range []func(context.Context, ...any) (int64, error){list.LPush, list.RPush} {
			go func() {
				for ctx.Err() == nil {
					if _, err := push(context.Background(), harness.Numbers(0, size)...); err != nil {
						failed <- err
						return
					}
				}
				failed <- nil
			}()
		}
		for range 200 {
			popped, err := list.LPopCount(t.Context(), size)
			if err == redis.Nil {
				continue
			}
			require.NoError(t, err)
			require.Len(t, popped, size)
			ascending, descending := harness.Words(harness.Numbers(0, size)), []string{"9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}
			require.True(t, assert.ObjectsAreEqual(ascending, popped) || assert.ObjectsAreEqual(descending, popped), popped)
		}
		stop()
		require.NoError(t, <-failed)
		require.NoError(t, <-failed)
		length, err := list.LLen(t.Context())
		require.NoError(t, err)
		assert.Zero(t, length%size)
	})
}

func TestAGiantPushIsSplit(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	list := harness.NewList(t, redistest.Shared(t, redistest.Redis).Client(t))
	length, err := list.RPush(t.Context(), harness.Numbers(0, harness.MaxCallValues+5)...)
	require.NoError(t, err)
	assert.EqualValues(t, harness.MaxCallValues+5, length)
	popped, err := list.LPopCount(t.Context(), harness.MaxCallValues+9)
	require.NoError(t, err)
	assert.Equal(t, harness.Words(harness.Numbers(0, harness.MaxCallValues+5)), popped)
}

func TestAPushOfOneValueTakesThreeCallsOrFewer(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(1000))
	_, err := list.RPush(t.Context(), harness.Numbers(0, 2500)...)
	require.NoError(t, err)
	for name, push := range map[string]func(context.Context, ...any) (int64, error){"rpush": list.RPush, "lpush": list.LPush} {
		_, err = push(t.Context(), "the script is loaded, and the shard made")
		require.NoError(t, err)
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		for i := range 100 {
			_, err := push(t.Context(), i)
			require.NoError(t, err)
		}
		calls := harness.CommandCalls(t, rdb)
		assert.Equal(t, map[string]int{"call": 100, "exists": 100, "hget": 100, "llen": 100, name + "x": 100, "getrange": 100, "set": 100}, harness.Without(calls, "config|resetstat", "info"))
	}
}

// A push that creates the list reads no key that cannot exist.
func TestAFirstPushTakesFourCalls(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.NewList(t, rdb)
	create := func() {
		_, err := list.RPush(t.Context(), "x")
		require.NoError(t, err)
	}
	create() // the script is loaded, and the session has a record
	var calls map[string]int
	for range 2 {
		_, err := list.Del(t.Context())
		require.NoError(t, err)
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		create()
		calls = harness.Without(harness.CommandCalls(t, rdb), "config|resetstat", "info", "getrange", "set")
	}
	assert.Equal(t, map[string]int{"call": 1, "hget": 1, "exists": 1, "llen": 1, "rpush": 1}, calls)
}

// A caller whose context ends while its push is in flight hears what became of it: code that repeats a push which failed would
// do it twice.
func TestACancelledPushHearsItsOutcome(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		const callers, calls = 8, 300
		var pushed, cancelled atomic.Int64
		var group sync.WaitGroup
		for c := range callers {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(c), 0))
				for range calls {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(1000))*time.Microsecond)
					called := time.Now()
					_, err := list.RPush(ctx, "x")
					cancel()
					switch {
					case err == nil:
						pushed.Add(1)
					case time.Since(called) < session.LeaveGrace: // else the machine has stalled
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
						cancelled.Add(1)
					}
				}
			})
		}
		group.Wait()
		length, err := list.LLen(t.Context())
		require.NoError(t, err)
		unheard := callers*calls - pushed.Load() - cancelled.Load()
		assert.GreaterOrEqual(t, length, pushed.Load())
		assert.LessOrEqual(t, length, pushed.Load()+unheard)
		assert.Positive(t, cancelled.Load())
		assert.Less(t, unheard, int64(callers*calls/10), "the machine has stalled for most of the time")
	})
}
