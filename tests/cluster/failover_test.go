package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var replicated = []redistest.Kind{redistest.Sentinel, redistest.ReplicatedCluster}

// An orderly failover loses nothing, so nothing is lost, doubled or out of order for those who use the list meanwhile.
func TestExactlyOnceThroughFailovers(t *testing.T) {
	t.Parallel()
	for _, kind := range replicated {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(5))
			var over atomic.Bool
			var failovers sync.WaitGroup
			traffic := harness.NewTraffic(4)
			failovers.Go(func() {
				traffic.AwaitPushes(harness.FaultOperations() / 8)
				server.Failover(t, harness.Keys(list).Slot())
				over.Store(true)
			})
			traffic.Run(t, harness.FaultOperations(), over.Load, func(ctx context.Context, value string) error {
				for {
					_, err := list.LPush(ctx, value)
					if err == nil || errors.Is(err, shardedlist.ErrOutcomeUnknown) || ctx.Err() != nil {
						return err
					}
				}
			}, func(ctx context.Context, i int) ([]string, error) {
				return harness.Ends["LPush BRPop, mixed"].Pop(list, ctx, i)
			})
			failovers.Wait()
			assert.Empty(t, harness.Content(t, list))
			traffic.AssertOnceInOrder(t)
		})
	}
}

// A master crashes before its replica has received the last it did. What is undone is just that, the end of its history: the
// last pushes, position by position, and the last pops. What was acknowledged WithReplicas stays, but for what came with
// ErrNotReplicated.
func TestACrashUndoesNoMoreThanWasNotReplicated(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range replicated {
		for name, options := range map[string][]shardedlist.Option{
			"plain":         {shardedlist.WithCapacity(5)},
			"with replicas": {shardedlist.WithCapacity(5), shardedlist.WithReplicas(1, 50*time.Millisecond)},
		} {
			t.Run(fmt.Sprintf("%s, %s", kind, name), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, kind)
				rdb, tag := server.Client(t), "{"+harness.UniqueName(t)+"}"
				load := &load{
					pushes: harness.OpenList(t, rdb, tag+"pushes", options...),
					pops:   harness.OpenList(t, rdb, tag+"pops", options...),
				}
				load.fill(t, rdb, 100_000)
				load.start(t)
				load.await(t, 500, 100)
				server.Crash(t, harness.Keys(load.pushes).Slot(), func(replica *redistest.Server) {
					replica.Pause()
					// More than the connection to the replica holds: what follows stays here.
					ballast := strings.Repeat("x", 1<<20)
					for range 32 {
						require.NoError(t, rdb.Set(t.Context(), tag+"ballast", ballast, 0).Err())
					}
					load.await(t, 20, 20)
				})
				load.await(t, 500, 100)
				load.stop()
				load.check(t)
			})
		}
	}
}

// load pushes onto one list and pops from another until it is stopped. Producer 0 of the ledger has filled the list to pop from.
type load struct {
	pushes, pops *shardedlist.ShardedList
	filled       int
	ledger       ledger.Ledger
	stopped      atomic.Bool
	workers      sync.WaitGroup
}

const loadWorkers = 4

// fill makes elements to pop, the first at the right end, and waits until the replica has them.
func (l *load) fill(t *testing.T, rdb redis.UniversalClient, elements int) {
	l.filled, l.ledger.Complete = elements, true
	var values []string
	for i := range elements {
		values = append(values, ledger.Name(0, i))
	}
	list := harness.OpenList(t, rdb, l.pops.Name(), shardedlist.WithCapacity(500), shardedlist.WithReplicas(1, 2500*time.Millisecond))
	for part := range slices.Chunk(values, 10_000) { // so that the wait for the replica suffices
		_, err := list.LPush(t.Context(), part)
		require.NoError(t, err)
	}
}

func (l *load) start(t *testing.T) {
	for worker := range loadWorkers {
		l.workers.Go(func() {
			for i := 0; !l.stopped.Load(); i++ {
				l.push(t.Context(), 1+worker, i)
				time.Sleep(time.Millisecond) // there is only so much to pop
			}
		})
		l.workers.Go(func() {
			for i := 0; !l.stopped.Load(); i++ {
				values, err := harness.Ends["LPush BRPop, mixed"].Pop(l.pops, t.Context(), i)
				for _, value := range values {
					_, number, ok := ledger.Parse(value)
					assert.True(t, ok, value)
					l.ledger.Pop(ledger.Popped{Consumer: worker, First: number, Count: 1, Replicated: err == nil})
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// push retries until the push has an outcome.
func (l *load) push(ctx context.Context, producer, number int) {
	for !l.stopped.Load() {
		position, err := l.pushes.RPush(ctx, ledger.Name(producer, number))
		fate := ledger.Done
		if errors.Is(err, shardedlist.ErrOutcomeUnknown) {
			fate = ledger.Unknown
		} else if !script.IsDone(err) {
			continue
		}
		l.ledger.Push(ledger.Pushed{Producer: producer, First: number, Count: 1, Fate: fate, Length: position, Replicated: err == nil})
		return
	}
}

// await waits until that many more are pushed and popped.
func (l *load) await(t *testing.T, pushes, pops int) {
	pushedBefore, poppedBefore := l.ledger.Counts()
	require.Eventually(t, func() bool {
		pushed, popped := l.ledger.Counts()
		return pushed >= pushedBefore+pushes && popped >= poppedBefore+pops
	}, time.Minute, time.Millisecond)
}

func (l *load) stop() {
	l.stopped.Store(true)
	l.workers.Wait()
}

// check compares both lists with what was acknowledged. The crash must have undone something, or it tests nothing.
func (l *load) check(t *testing.T) {
	pushed, popped := l.ledger.Counts()
	assert.NoError(t, l.ledger.Evidence())
	left := harness.Content(t, l.pops)
	slices.Reverse(left)
	for what, undone := range map[string]ledger.Undone{
		"pushes": l.ledger.UndonePushes(harness.Content(t, l.pushes)),
		"pops":   l.ledger.UndonePops(l.filled, left),
	} {
		t.Logf("of %d pushes and %d pops, %d %s were undone", pushed, popped, len(undone.Positions), what)
		assert.NotEmpty(t, undone.Positions, what)
		// Each worker may have had an operation done whose reply the crash cut off.
		assert.LessOrEqual(t, undone.Gaps(), int64(loadWorkers), "the %s undone are not the last before the crash", what)
		if harness.OneSlot(l.pushes).Replicas() > 0 {
			assert.Zero(t, len(undone.Replicated), "%s undone that were replicated", what)
		}
		assert.Empty(t, undone.Torn, "kept, undone, kept and undone again")
		assert.Zero(t, undone.Lost, "%s: lost", what)
		assert.Zero(t, undone.Doubled, "%s: doubled", what)
		assert.Zero(t, undone.Invented, "%s: invented", what)
		assert.Zero(t, undone.Misplaced, "%s: out of order", what)
	}
}

// A list expires at its time, and keeps its elements until then, also if a replica has taken over that was told of it.
func TestExpiryOutlivesAFailover(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range replicated {
		for layout, options := range map[string][]shardedlist.Option{"one slot": {shardedlist.WithCapacity(3)}, "spread": {shardedlist.WithCapacity(3), shardedlist.WithParts(4)}} {
			t.Run(fmt.Sprintf("%s, %s", kind, layout), func(t *testing.T) {
				t.Parallel()
				ctx, server := t.Context(), redistest.Start(t, kind)
				rdb := server.Client(t)
				lasting, ending := harness.NewList(t, rdb, options...), harness.NewList(t, rdb, options...)
				at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
				for _, list := range []*shardedlist.ShardedList{lasting, ending} {
					_, err := list.RPush(ctx, harness.Numbered(100)...)
					require.NoError(t, err)
					set, err := list.PExpireAt(ctx, at)
					require.NoError(t, err)
					require.True(t, set)
				}
				_, err := ending.PExpire(ctx, time.Second)
				require.NoError(t, err)
				server.Failover(t, harness.Keys(lasting).Slot())
				expires, err := lasting.PExpireTime(ctx)
				require.NoError(t, err)
				assert.Equal(t, at.UnixMilli(), int64(expires/time.Millisecond))
				assert.Len(t, harness.Content(t, lasting), 100)
				require.NoError(t, lasting.Check(ctx))
				removed, err := lasting.Persist(ctx)
				require.NoError(t, err)
				assert.True(t, removed)
				harness.Expired(t, ending)
				assert.Empty(t, harness.Content(t, ending))
				_, err = ending.LPush(ctx, "new")
				require.NoError(t, err)
				assert.Equal(t, []string{"new"}, harness.Content(t, ending))
				require.NoError(t, ending.Check(ctx))
			})
		}
	}
}
