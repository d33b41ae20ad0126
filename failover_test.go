package shardedlist

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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

var replicated = []redistest.Kind{redistest.Sentinel, redistest.ReplicatedCluster}

// An orderly failover loses nothing, so nothing is lost, doubled or out of order for those who use the list meanwhile.
func TestExactlyOnceThroughFailovers(t *testing.T) {
	t.Parallel()
	for _, kind := range replicated {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			list := newList(t, server.Client(t), WithCapacity(5))
			var failovers sync.WaitGroup
			tally := newTally(4)
			failovers.Go(func() {
				awaitPushes(tally, *faultOperations/8)
				server.Failover(t, list.keys().Slot())
			})
			tally.run(t, *faultOperations, func(ctx context.Context, value string) error {
				for {
					_, err := list.LPush(ctx, value)
					if err == nil || errors.Is(err, ErrOutcomeUnknown) {
						return err
					}
				}
			}, func(ctx context.Context, i int) ([]string, error) {
				return ends["LPush BRPop, mixed"].pop(list, ctx, i)
			})
			failovers.Wait()
			assert.Empty(t, content(t, list))
			doubled, lost, disordered := tally.verdict()
			assert.Zero(t, doubled, "doubled")
			assert.Zero(t, lost, "lost")
			assert.Zero(t, disordered, "out of order")
		})
	}
}

// A master crashes before its replica has received the last it did. What is undone is just that, the end of its history: the
// last pushes, position by position, and the last pops. What was acknowledged WithReplicas stays, but for what came with
// ErrNotReplicated.
func TestACrashUndoesNoMoreThanWasNotReplicated(t *testing.T) {
	t.Parallel()
	for _, kind := range replicated {
		for name, options := range map[string][]Option{
			"plain":         {WithCapacity(5)},
			"with replicas": {WithCapacity(5), WithReplicas(1, 50*time.Millisecond)},
		} {
			t.Run(fmt.Sprintf("%s, %s", kind, name), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, kind)
				rdb, tag := server.Client(t), "{"+uniqueName(t)+"}"
				load := &load{
					pushes: openList(t, rdb, tag+"pushes", options...),
					pops:   openList(t, rdb, tag+"pops", options...),
				}
				load.fill(t, rdb, 100_000)
				load.start(t)
				load.await(t, 500, 100)
				server.Crash(t, load.pushes.keys().Slot(), func(replica *redistest.Server) {
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
				load.checkPushes(t)
				load.checkPops(t)
			})
		}
	}
}

// load pushes onto one list and pops from another until it is stopped.
type load struct {
	pushes, pops *ShardedList
	filled       []string // what the list to pop from begins with

	stopped     atomic.Bool
	workers     sync.WaitGroup
	mu          sync.Mutex
	pushed      []acknowledged
	unknown     []string
	popped      map[string][]bool // by element, whether each time it came without ErrNotReplicated
	pushedCount int
	poppedCount int
}

// acknowledged is a push that was.
type acknowledged struct {
	value    string
	position int64
	certain  bool // without ErrNotReplicated
}

const loadWorkers = 4

// fill makes elements to pop, and waits until the replica has them.
func (l *load) fill(t *testing.T, rdb redis.UniversalClient, elements int) {
	l.popped = map[string][]bool{}
	for i := range elements {
		l.filled = append(l.filled, fmt.Sprintf("%06d", i))
	}
	list := openList(t, rdb, l.pops.Name(), WithCapacity(500), WithReplicas(1, time.Second))
	_, err := list.RPush(t.Context(), l.filled)
	require.NoError(t, err)
}

func (l *load) start(t *testing.T) {
	for p := range loadWorkers {
		l.workers.Go(func() {
			for i := 0; !l.stopped.Load(); i++ {
				l.push(t.Context(), fmt.Sprintf("%d-%06d", p, i))
				time.Sleep(time.Millisecond) // there is only so much to pop
			}
		})
		l.workers.Go(func() {
			for i := 0; !l.stopped.Load(); i++ {
				values, err := ends["LPush BRPop, mixed"].pop(l.pops, t.Context(), i)
				l.mu.Lock()
				for _, value := range values {
					l.popped[value] = append(l.popped[value], err == nil)
					l.poppedCount++
				}
				l.mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
}

func (l *load) push(ctx context.Context, value string) {
	for !l.stopped.Load() {
		position, err := l.pushes.RPush(ctx, value)
		l.mu.Lock()
		if isDone(err) {
			l.pushed = append(l.pushed, acknowledged{value, position, err == nil})
			l.pushedCount++
		} else if errors.Is(err, ErrOutcomeUnknown) {
			l.unknown = append(l.unknown, value)
		}
		l.mu.Unlock()
		if isDone(err) || errors.Is(err, ErrOutcomeUnknown) {
			return
		}
	}
}

// await waits until that many more are pushed and popped.
func (l *load) await(t *testing.T, pushes, pops int) {
	l.mu.Lock()
	pushes, pops = l.pushedCount+pushes, l.poppedCount+pops
	l.mu.Unlock()
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.pushedCount >= pushes && l.poppedCount >= pops
	}, time.Minute, time.Millisecond)
}

func (l *load) stop() {
	l.stopped.Store(true)
	l.workers.Wait()
}

// checkPushes compares the list with the positions that were acknowledged.
func (l *load) checkPushes(t *testing.T) {
	at := map[string]int64{}
	for i, value := range content(t, l.pushes) {
		assert.Zero(t, at[value], "%s is there twice", value)
		at[value] = int64(i + 1)
	}
	var undone []int64
	fates := map[string][]bool{} // by producer, whether each of its pushes was kept
	for _, push := range l.pushed {
		producer, _, _ := strings.Cut(push.value, "-")
		fates[producer] = append(fates[producer], at[push.value] > 0)
		if at[push.value] > 0 {
			assert.Equal(t, push.position, at[push.value], push.value)
			continue
		}
		undone = append(undone, push.position)
		assert.False(t, push.certain && l.pushes.slot().Replicas() > 0, "%s was lost", push.value)
	}
	assert.Len(t, at, len(l.pushed)-len(undone)+l.unknownKept(at))
	require.NotEmpty(t, undone)
	slices.Sort(undone)
	assert.Equal(t, int64(len(undone)-1), undone[len(undone)-1]-undone[0], "the pushes undone are not the last before the crash")
	for producer, kept := range fates {
		assert.LessOrEqual(t, len(slices.Compact(kept)), 3, "producer %s: kept, undone, kept again", producer)
	}
	t.Logf("of %d pushes, %d were undone", len(l.pushed), len(undone))
}

func (l *load) unknownKept(at map[string]int64) (kept int) {
	for _, value := range l.unknown {
		if at[value] > 0 {
			kept++
		}
	}
	return kept
}

// checkPops compares what was popped with what was there: all that is not left came out, the last before the crash twice.
func (l *load) checkPops(t *testing.T) {
	left := content(t, l.pops)
	require.Equal(t, l.filled[:len(left)], left)
	var undone []int // the indices of what was popped twice
	for i, value := range l.filled[len(left):] {
		times := l.popped[value]
		assert.NotEmpty(t, times, "%s was lost", value)
		if len(times) > 1 {
			assert.Len(t, times, 2, value)
			assert.False(t, times[0] && l.pops.slot().Replicas() > 0, "the pop of %s was undone", value)
			undone = append(undone, i)
		}
		delete(l.popped, value)
	}
	assert.Empty(t, l.popped, "popped, and still there")
	require.NotEmpty(t, undone)
	assert.Equal(t, len(undone)-1, undone[len(undone)-1]-undone[0], "the pops undone are not the last before the crash")
	t.Logf("of %d pops, %d were undone", l.poppedCount, len(undone))
}
