package spread

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowToWait is a hook for a process whose waiters take their time between two rounds: meanwhile the list moves on.
type slowToWait struct{}

func (slowToWait) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (slowToWait) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (slowToWait) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(rand.N(2 * time.Millisecond))
		return next(ctx, cmds)
	}
}

// openPatient opens a list as a process of its own whose waiters are woken by the bell only: the end of a slice would hide that a wake-up
// was lost.
func openPatient(t *testing.T, server *redistest.Server, name string) *shardedlist.ShardedList {
	rdb := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Minute })
	rdb.AddHook(slowToWait{})
	list := harness.OpenList(t, rdb, name)
	harness.Inside(list).(*detect.List).Many().MaxSlice = 10 * time.Minute
	return list
}

// Nobody sleeps while a spread list has elements, though it moves to another part with each.
func TestNoWakeUpIsLostWhereASpreadListMoves(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for _, parts := range []int{2, 3, 64} {
			for _, batch := range []int{1, 3} {
				for _, end := range []string{"right end", "both ends"} {
					t.Run(fmt.Sprint(parts, " parts, pushes of ", batch, " at the ", end), func(t *testing.T) {
						wakeAtBothEnds(t, server, batch, end, shardedlist.WithParts(parts), shardedlist.WithCapacity(1))
					})
				}
			}
		}
	})
}

// wakeAtBothEnds has several processes wait at both ends of a list, each of them for as many elements as it gets, while others push there.
// Each waiter takes one element: who is not woken in time is woken by nobody.
func wakeAtBothEnds(t *testing.T, server *redistest.Server, batch int, end string, options ...shardedlist.Option) {
	const processes, producers, rounds, pushes = 4, 2, 20, 6
	elements := producers * pushes * batch
	list := harness.NewList(t, server.Client(t), options...)
	_, err := list.RPush(t.Context(), "first") // makes it: consumers have no options
	require.NoError(t, err)
	_, err = list.RPop(t.Context())
	require.NoError(t, err)
	var consumers [processes]*shardedlist.ShardedList
	for i := range consumers {
		consumers[i] = openPatient(t, server, list.Name())
	}
	var lists [producers]*shardedlist.ShardedList // one of them would send pushes together
	for i := range lists {
		lists[i] = harness.OpenList(t, server.Client(t), list.Name())
	}
	moved := int64(0) // the first position, as far as it came: a list that was empty for long begins anew
	for range rounds {
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		var waiters, pushers sync.WaitGroup
		var asleep atomic.Int64
		for i := range elements {
			waiters.Go(func() {
				pop := []func(context.Context, time.Duration) (string, error){consumers[i%processes].BLPop, consumers[i%processes].BRPop}[i/processes%2]
				if _, err := pop(ctx, 0); err != nil {
					asleep.Add(1)
				}
			})
		}
		for i, list := range lists {
			pushers.Go(func() {
				push := list.RPush
				if end == "both ends" && i%2 == 0 {
					push = list.LPush
				}
				for range pushes {
					_, err := push(t.Context(), harness.Numbers(0, batch)...)
					assert.NoError(t, err)
				}
			})
		}
		pushers.Wait()
		waiters.Wait()
		stop()
		require.Zero(t, asleep.Load(), "waiters that nobody woke")
		info, err := list.Info(t.Context())
		require.NoError(t, err)
		moved = max(moved, info.First)
	}
	if end == "right end" {
		assert.Greater(t, moved, int64(rounds/2), "the list has not moved")
	}
}
