package shardedlist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
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
		for seed := range uint64(50) {
			run := func() ([]history.Record, bool) {
				return hammer(t, connections, newList(t, connections[0]).Name(), seed, WithCapacity(1))
			}
			calls, stalled := run()
			for stalled {
				calls, stalled = run()
			}
			explained, made = explained+len(calls), made+clients*callsOfClient
			operations := history.Operations(calls)
			require.Equal(t, porcupine.Ok, porcupine.CheckOperationsTimeout(history.Model, operations, time.Minute), "seed %d: %s", seed, describe(operations))
		}
		assert.Less(t, explained, made, "some were cancelled")
		assert.Greater(t, 2*explained, made, "most were not")
	})
}

const callsOfClient = 6

// hammer has each client make some calls on a new list. If the server stalls for so long that a caller leaves without knowing
// whether it took an element, that goes back to its end late, as the design says, and the history is not to be explained.
func hammer(t *testing.T, connections []redis.UniversalClient, name string, seed uint64, opts ...Option) (calls []history.Record, stalled bool) {
	shared := openList(t, connections[0], name, opts...) // by two of the clients
	var mutex sync.Mutex
	var group sync.WaitGroup
	start := time.Now()
	for client, rdb := range connections {
		list := shared
		if client > 1 {
			list = openList(t, rdb, name, opts...)
		}
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			for i := range callsOfClient {
				call := history.Call{Name: []string{"lpop", "rpop"}[random.IntN(2)], Count: 1}
				if random.IntN(2) == 0 {
					call = history.Call{Name: []string{"lpush", "rpush"}[random.IntN(2)], Values: []string{fmt.Sprintf("%d-%d", client, i)}}
				}
				called := time.Since(start)
				outcome, err := perform(list, call, random)
				returned := time.Since(start)
				mutex.Lock()
				if !errors.Is(err, context.DeadlineExceeded) {
					assert.NoError(t, err)
					calls = append(calls, history.Record{Client: client, Call: call, Start: int64(called), End: int64(returned), Outcome: outcome})
				} else if returned-called >= session.LeaveGrace {
					stalled = true
				} // else it was given up: it took nothing
				mutex.Unlock()
			}
		})
	}
	group.Wait()
	return calls, stalled
}

// describe lists the calls of a history in the order they began, with their times.
func describe(operations []porcupine.Operation) string {
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var text strings.Builder
	for _, o := range operations {
		fmt.Fprintf(&text, "\n%9v..%9v client %d %s", time.Duration(o.Call), time.Duration(o.Return), o.ClientId,
			history.Model.DescribeOperation(o.Input, o.Output))
	}
	return text.String()
}

// perform runs a call, a pop in one of several ways.
func perform(list *ShardedList, call history.Call, random *rand.Rand) (outcome history.Outcome, err error) {
	ctx := context.Background()
	pop, wait, push := list.LPop, list.BLPop, list.LPush
	if call.Name[0] == 'r' {
		pop, wait, push = list.RPop, list.BRPop, list.RPush
	}
	outcome.Fate = ledger.Done
	if call.Name == "lpush" || call.Name == "rpush" {
		outcome.Number, err = push(ctx, call.Values[0])
		return outcome, err
	}
	var value string
	if random.IntN(3) == 0 {
		value, err = pop(ctx)
	} else {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(random.IntN(8000))*time.Microsecond)
		defer cancel()
		value, err = wait(ctx, time.Duration(1+random.IntN(8))*time.Millisecond)
	}
	switch err {
	case nil:
		outcome.Values = []string{value}
	case redis.Nil:
		err = nil
	}
	return outcome, err
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
	list := newList(t, rdb, WithCapacity(1))
	source := list.slot().Source(layout.Left)
	reply, err := source.Pop(1, blocking.First, "").Run(ctx)
	require.NoError(t, err)
	values, _ := source.Read(reply)
	require.Empty(t, values)
	_, err = list.RPush(ctx, "a")
	require.NoError(t, err)
	_, err = list.LPush(ctx, "b")
	require.NoError(t, err)
	key, s := source.ReleaseKey(), list.slot().Sessions().New()
	s.Begin()
	outcome, err := source.Block(s, source.Pop(1, blocking.Woken, key), key, time.Second)
	require.NoError(t, err)
	values, _ = source.Read(outcome.Reply)
	assert.Equal(t, []string{"b"}, values)
	assert.Equal(t, []string{"a"}, content(t, list))
}
