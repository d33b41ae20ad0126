package shardedlist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/redistest"
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
func openPatient(t *testing.T, server *redistest.Server, name string) *ShardedList {
	rdb := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Minute })
	rdb.AddHook(slowToWait{})
	list := openList(t, rdb, name)
	list.list.(*detect.List).Many.MaxSlice = 10 * time.Minute
	return list
}

// Nobody sleeps while a spread list has elements, though it moves to another part with each.
func TestNoWakeUpIsLostWhereASpreadListMoves(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, parts := range []int{2, 3, 64} {
			for _, batch := range []int{1, 3} {
				for _, end := range []string{"right end", "both ends"} {
					t.Run(fmt.Sprint(parts, " parts, pushes of ", batch, " at the ", end), func(t *testing.T) {
						wakeAtBothEnds(t, server, batch, end, WithParts(parts), WithCapacity(1))
					})
				}
			}
		}
	})
}

// wakeAtBothEnds has several processes wait at both ends of a list, while others push there. After every few pushes it waits until all is
// popped: no later push wakes who was not.
func wakeAtBothEnds(t *testing.T, server *redistest.Server, batch int, end string, options ...Option) {
	const processes, waiters, producers, rounds, pushes = 3, 4, 2, 30, 6
	list := newList(t, server.Client(t), options...)
	_, err := list.RPush(t.Context(), "first") // makes it: consumers have no options
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() {
		stop()
		group.Wait()
	})
	popped := make(chan string, rounds*producers*pushes*batch+1)
	for range processes {
		consumer := openPatient(t, server, list.Name())
		for i := range waiters {
			group.Go(func() {
				pop := []func(context.Context, time.Duration) (string, error){consumer.BLPop, consumer.BRPop}[i%2]
				for {
					value, err := pop(ctx, 0)
					if err != nil {
						return
					}
					popped <- value
				}
			})
		}
	}
	await := func(elements int) {
		late := time.NewTimer(20 * time.Second)
		defer late.Stop()
		for left := elements; left > 0; left-- {
			select {
			case <-popped:
			case <-late.C:
				require.FailNow(t, "elements for which nobody wakes up", "%d of %d", left, elements)
			}
		}
	}
	await(1)
	var lists [producers]*ShardedList // one of them would send pushes together
	for i := range lists {
		lists[i] = openList(t, server.Client(t), list.Name())
	}
	for range rounds {
		for i, list := range lists {
			group.Go(func() {
				push := list.RPush
				if end == "both ends" && i%2 == 0 {
					push = list.LPush
				}
				for range pushes {
					_, err := push(ctx, numbers(0, batch)...)
					assert.NoError(t, err)
				}
			})
		}
		await(producers * pushes * batch)
	}
	if end == "right end" {
		info, err := list.Info(ctx)
		require.NoError(t, err)
		assert.Greater(t, info.First, int64(rounds), "the list has not moved")
	}
}
