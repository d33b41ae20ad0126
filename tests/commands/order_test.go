package commands

import (
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A list of capacity 1, whose ends move with every element, hammered from both ends by blocking and plain clients, some of
// which are cancelled: there is an order of all calls that explains what each of them saw.
func TestExactOrderUnderConcurrency(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const clients = 5
		var connections []redis.UniversalClient
		for range clients {
			connections = append(connections, server.Client(t))
		}
		explained, made := 0, 0
		var order harness.Order
		defer order.Decided(t)
		for seed := range uint64(50) {
			run := func() ([]history.Record, bool) {
				return harness.Hammer(t, connections, harness.NewList(t, connections[0]).Name(), seed, shardedlist.WithCapacity(1))
			}
			calls, stalled := run()
			for stalled {
				calls, stalled = run()
			}
			explained, made = explained+len(calls), made+clients*harness.CallsOfClient
			operations := history.Operations(calls)
			order.Check(t, history.Model, operations, seed)
		}
		assert.Less(t, explained, made, "some were cancelled")
		assert.Greater(t, 2*explained, made, "most were not")
	})
}

// The blocking pop of the book waits on the end shard itself, with a script behind it in the pipeline that drops a dummy
// into that shard if the end has moved. Between looking and blocking, the end moves: then BLPOP takes an element from the
// middle of the list, and the dummy stays among the data. The bell has no wrong shard to wait on.
func TestTheBooksBlockingPopTakesFromTheWrongPlace(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t, redistest.Redis).Client(t)
	ctx, prefix := t.Context(), "{"+t.Name()+"}:"
	shard := func(id int) string { return prefix + strconv.Itoa(id) }
	const dummy = "dummy"
	wake := redis.NewScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then redis.call('LPUSH', KEYS[2], ARGV[2]) end`)
	wakeSHA := wake.Load(ctx, rdb).Val()

	// The consumer looks: the list is empty, its left end is shard 0, there it will wait.
	// Before it gets there, others push a, then b at the left, on a shard of its own.
	require.NoError(t, rdb.RPush(ctx, shard(0), "a").Err())
	require.NoError(t, rdb.RPush(ctx, shard(-1), "b").Err())
	require.NoError(t, rdb.Set(ctx, prefix+"first", -1, 0).Err())
	pipe := rdb.Pipeline()
	wait := pipe.BLPop(ctx, time.Second, shard(0))
	pipe.EvalSha(ctx, wakeSHA, []string{prefix + "first", shard(0)}, 0, dummy)
	_, _ = pipe.Exec(ctx)
	assert.Equal(t, "a", wait.Val()[1], "the element to the right of b")
	assert.Equal(t, []string{dummy}, rdb.LRange(ctx, shard(0), 0, -1).Val(), "a dummy among the data")
	require.NoError(t, rdb.Del(ctx, shard(0), shard(-1), prefix+"first").Err())

	// The same with the bell: the consumer arms the list and is held up; its pipeline takes the leftmost element.
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(1))
	source := harness.OneSlot(list).Source(layout.Left)
	reply, err := source.Pop(1, blocking.First, "").Run(ctx)
	require.NoError(t, err)
	values, _ := source.Read(reply)
	require.Empty(t, values)
	_, err = list.RPush(ctx, "a")
	require.NoError(t, err)
	_, err = list.LPush(ctx, "b")
	require.NoError(t, err)
	key, s := source.ReleaseKey(), harness.OneSlot(list).Sessions().New()
	s.Begin()
	outcome, err := source.Block(s, source.Pop(1, blocking.Woken, key), key, time.Second)
	require.NoError(t, err)
	values, _ = source.Read(outcome.Reply)
	assert.Equal(t, []string{"b"}, values)
	assert.Equal(t, []string{"a"}, harness.Content(t, list))
}
