package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const CallsOfClient = 6

// Hammer has each client make some calls on a new list. If the server stalls for so long that a caller leaves without knowing
// whether it took an element, that goes back to its end late, as the design says, and the history is not to be explained.
func Hammer(t *testing.T, connections []redis.UniversalClient, name string, seed uint64, opts ...shardedlist.Option) (calls []history.Record, stalled bool) {
	shared := OpenList(t, connections[0], name, opts...) // by two of the clients
	var mutex sync.Mutex
	var group sync.WaitGroup
	start := time.Now()
	for client, rdb := range connections {
		list := shared
		if client > 1 {
			list = OpenList(t, rdb, name, opts...)
		}
		group.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(client)))
			for i := range CallsOfClient {
				call := history.Call{Name: []string{"lpop", "rpop"}[random.IntN(2)], Count: 1}
				if random.IntN(2) == 0 {
					call = history.Call{Name: []string{"lpush", "rpush"}[random.IntN(2)], Values: []string{fmt.Sprintf("%d-%d", client, i)}}
				}
				called := time.Since(start)
				outcome, err := Perform(list, call, random)
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

// Order looks for orders of calls that explain what each of them saw.
type Order struct{ decided, open int }

// Check fails if there is none. Where a slow machine has let most calls of a history overlap, nobody can tell in time.
func (o *Order) Check(t testing.TB, model porcupine.Model, operations []porcupine.Operation, seed uint64) {
	t.Helper()
	result := porcupine.CheckOperationsTimeout(model, operations, 10*time.Second)
	if result == porcupine.Unknown {
		o.open++
		return
	}
	o.decided++
	require.Equal(t, porcupine.Ok, result, "seed %d: %s", seed, Describe(operations))
}

// Decided fails if too few histories were decided.
func (o *Order) Decided(t testing.TB) {
	t.Helper()
	assert.Greater(t, o.decided, 4*o.open, "histories that are explained")
}

// Describe lists the calls of a history in the order they began, with their times.
func Describe(operations []porcupine.Operation) string {
	slices.SortFunc(operations, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var text strings.Builder
	for _, o := range operations {
		fmt.Fprintf(&text, "\n%9v..%9v client %d %s", time.Duration(o.Call), time.Duration(o.Return), o.ClientId,
			history.Model.DescribeOperation(o.Input, o.Output))
	}
	return text.String()
}

// Perform runs a call, a pop in one of several ways.
func Perform(list *shardedlist.ShardedList, call history.Call, random *rand.Rand) (outcome history.Outcome, err error) {
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
