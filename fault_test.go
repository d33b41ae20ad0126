package shardedlist

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strconv"
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

// The long form of the fault tests: go test -run TestExactlyOnce -fault.operations 100000 .
var faultOperations = flag.Int("fault.operations", 4000, "operations of each fault test")

// through connects a client by way of the proxy.
func through(proxy *redistest.Proxy) func(*redis.UniversalOptions) {
	return func(o *redis.UniversalOptions) {
		o.Dialer = proxy.Dial
		o.ReadTimeout = time.Second
	}
}

var faults = map[string]redistest.Faults{
	"1% of replies":        {CutReply: 0.01},
	"10% of replies":       {CutReply: 0.1},
	"50% of replies":       {CutReply: 0.5},
	"10% of requests":      {CutRequest: 0.1},
	"10% within the reply": {CutInReply: 0.1},
	"late requests":        {LateRequest: 0.002, Delay: 1500 * time.Millisecond},
	"everything":           {CutReply: 0.03, CutInReply: 0.03, CutRequest: 0.03, LateRequest: 0.0005, Delay: 1500 * time.Millisecond},
}

// ends are the ways to push and pop at one end each, so that what goes in at one end comes out at the other in order.
var ends = map[string]struct {
	push func(*ShardedList, context.Context, ...any) (int64, error)
	pop  func(*ShardedList, context.Context, int) ([]string, error)
}{
	"RPush LPop": {(*ShardedList).RPush, func(l *ShardedList, ctx context.Context, _ int) ([]string, error) { return single(l.LPop(ctx)) }},
	"LPush RPop": {(*ShardedList).LPush, func(l *ShardedList, ctx context.Context, _ int) ([]string, error) { return single(l.RPop(ctx)) }},
	"RPush LPopCount": {(*ShardedList).RPush, func(l *ShardedList, ctx context.Context, i int) ([]string, error) {
		return l.LPopCount(ctx, 1+i%7)
	}},
	"RPush BLPop": {(*ShardedList).RPush, func(l *ShardedList, ctx context.Context, _ int) ([]string, error) {
		return single(l.BLPop(ctx, 100*time.Millisecond))
	}},
	"LPush BRPop, mixed": {(*ShardedList).LPush, func(l *ShardedList, ctx context.Context, i int) ([]string, error) {
		switch i % 3 {
		case 0:
			return l.RPopCount(ctx, 3)
		case 1:
			return single(l.RPop(ctx))
		}
		return single(l.BRPop(ctx, 100*time.Millisecond))
	}},
}

func single(value string, err error) ([]string, error) {
	if !isDone(err) {
		return nil, err
	}
	return []string{value}, err
}

// Connections break, before a request arrives, after the server has acted, in the middle of a reply, and requests arrive late.
// Yet each element that was pushed comes out once, each producer's in order.
func TestExactlyOnceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster} {
		for fault, rates := range faults {
			for name, end := range ends {
				for _, goroutines := range []int{8, 64} {
					if kind == redistest.Cluster && (goroutines == 8 || !strings.Contains(name, "mixed")) && !t.Failed() && *faultOperations < 10_000 {
						continue // the short form
					}
					t.Run(fmt.Sprintf("%s, %s, %s, %d goroutines", kind, fault, name, goroutines), func(t *testing.T) {
						t.Parallel()
						server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
						rdb := server.Client(t, through(proxy))
						list := newList(t, server.Client(t), WithCapacity(5))
						broken := openList(t, rdb, list.Name(), WithCapacity(5))
						proxy.Set(rates)
						tally := newTally(goroutines / 2)
						tally.run(t, *faultOperations, func(ctx context.Context, value string) error {
							_, err := end.push(broken, ctx, value)
							return err
						}, func(ctx context.Context, i int) ([]string, error) { return end.pop(broken, ctx, i) })
						proxy.Set(redistest.Faults{})
						rest, err := list.LRange(t.Context(), 0, -1)
						require.NoError(t, err)
						assert.Empty(t, rest)
						doubled, lost, disordered := tally.verdict()
						cut, _, _, _ := proxy.Counts()
						t.Logf("%d replies cut", cut)
						assert.Zero(t, doubled, "doubled")
						assert.Zero(t, lost, "lost")
						assert.Zero(t, disordered, "out of order")
					})
				}
			}
		}
	}
}

// The server crashes and comes back with what it has acknowledged, and forgets its scripts.
func TestExactlyOnceThroughRestarts(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "appendonly yes", "appendfsync always")
			list := newList(t, server.Client(t), WithCapacity(5))
			var crashes sync.WaitGroup
			tally := newTally(4)
			crashes.Go(func() {
				for i := range 3 {
					awaitPushes(tally, (i+1)*200)
					server.Restart(t)
				}
			})
			tally.run(t, 8000, func(ctx context.Context, value string) error {
				_, err := list.RPush(ctx, value)
				return err
			}, func(ctx context.Context, i int) ([]string, error) {
				return ends["LPush BRPop, mixed"].pop(list, ctx, i)
			})
			crashes.Wait()
			tally.received[0] = append(tally.received[0], content(t, list)...)
			doubled, lost, _ := tally.verdict()
			assert.Zero(t, doubled, "doubled")
			assert.Zero(t, lost, "lost")
		})
	}
}

// The server forgets its scripts again and again, while replies are lost.
func TestExactlyOnceWhileScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
			flushing := server.Client(t)
			list := newList(t, flushing, WithCapacity(5))
			broken := openList(t, server.Client(t, through(proxy)), list.Name(), WithCapacity(5))
			t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
			proxy.Set(redistest.Faults{CutReply: 0.1})
			tally := newTally(4)
			var flushes sync.WaitGroup
			flushes.Go(func() {
				for i := range 50 {
					awaitPushes(tally, i**faultOperations/200)
					assert.NoError(t, flushing.ScriptFlush(t.Context()).Err()) // of all masters
				}
			})
			tally.run(t, *faultOperations, func(ctx context.Context, value string) error {
				_, err := broken.LPush(ctx, value)
				return err
			}, func(ctx context.Context, i int) ([]string, error) {
				return ends["LPush BRPop, mixed"].pop(broken, ctx, i)
			})
			flushes.Wait()
			assert.Empty(t, content(t, list))
			doubled, lost, disordered := tally.verdict()
			assert.Zero(t, doubled, "doubled")
			assert.Zero(t, lost, "lost")
			assert.Zero(t, disordered, "out of order")
		})
	}
}

// awaitPushes waits until a number of pushes has been acknowledged.
func awaitPushes(y *tally, number int) {
	for {
		y.mu.Lock()
		pushed := len(y.pushed)
		y.mu.Unlock()
		if pushed >= number {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A server that acts and does not answer: the callers of a batch try in turn, but none after the server may have forgotten the
// operation.
func TestABatchIsNotRepeatedOnceItMayBeForgotten(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	rdb := server.Client(t, through(proxy), func(o *redis.UniversalOptions) { o.ReadTimeout = 300 * time.Millisecond })
	list, err := New(rdb, "jobs", WithCapacity(5), recordLife(2*time.Second))
	require.NoError(t, err)
	_, err = list.RPush(t.Context(), "first")
	require.NoError(t, err)
	proxy.Set(redistest.Faults{DropReply: 1})
	const callers = 20
	var done sync.WaitGroup
	var failed atomic.Int64
	for i := range callers {
		done.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
			defer cancel()
			if _, err := list.RPush(ctx, i); errors.Is(err, ErrOutcomeUnknown) {
				failed.Add(1)
			}
		})
	}
	done.Wait()
	proxy.Set(redistest.Faults{})
	length, err := list.RPush(t.Context(), "last")
	require.NoError(t, err)
	assert.LessOrEqual(t, length, int64(callers+2))
	assert.Positive(t, failed.Load())
	seen := map[string]int{}
	for _, value := range content(t, list) {
		seen[value]++
		assert.Equal(t, 1, seen[value], value)
	}
	assert.NoError(t, list.Check(t.Context()))
}

// For contrast: a plain list, used through go-redis, doubles and loses about as many elements as replies were cut.
func TestPlainGoRedisDoublesAndLoses(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
	rdb, key := server.Client(t, through(proxy)), uniqueName(t)
	proxy.Set(redistest.Faults{CutReply: 0.1})
	tally := newTally(4)
	tally.run(t, 4000, func(ctx context.Context, value string) error {
		return rdb.RPush(ctx, key, value).Err()
	}, func(ctx context.Context, _ int) ([]string, error) { return single(rdb.LPop(ctx, key).Result()) })
	doubled, lost, _ := tally.verdict()
	cut, _, _, _ := proxy.Counts()
	t.Logf("%d replies cut: %d doubled, %d lost", cut, doubled, lost)
	assert.Positive(t, doubled)
	assert.Positive(t, lost)
}

// tally is what producers pushed and consumers popped.
type tally struct {
	workers  int // producers, and as many consumers
	mu       sync.Mutex
	pushed   map[string]bool
	unknown  map[string]bool
	received [][]string
}

func newTally(workers int) *tally {
	return &tally{workers: workers, pushed: map[string]bool{}, unknown: map[string]bool{}, received: make([][]string, workers)}
}

// run lets the producers push, and the consumers pop until the list stays empty after the last push.
func (y *tally) run(t *testing.T, operations int, push func(context.Context, string) error, pop func(context.Context, int) ([]string, error)) {
	each := operations / 2 / y.workers
	var producers, consumers sync.WaitGroup
	var producing atomic.Bool
	producing.Store(true)
	for p := range y.workers {
		producers.Go(func() {
			for i := range each {
				value := fmt.Sprintf("%02d-%06d", p, i)
				err := push(t.Context(), value)
				y.mu.Lock()
				switch {
				case err == nil:
					y.pushed[value] = true
				case errors.Is(err, ErrOutcomeUnknown):
					y.unknown[value] = true
				default:
					t.Logf("push of %s: %v", value, err)
				}
				y.mu.Unlock()
			}
		})
		consumers.Go(func() {
			for i, empty := 0, 0; empty < 3; i++ {
				last := !producing.Load()
				values, err := pop(t.Context(), i)
				y.received[p] = append(y.received[p], values...)
				if err == nil || !last {
					empty = 0
				} else if err == redis.Nil {
					empty++
				}
			}
		})
	}
	producers.Wait()
	producing.Store(false)
	consumers.Wait()
}

// verdict counts elements that came out more often than they were pushed, that were acknowledged and did not come out, and
// that a consumer got after a later one of the same producer.
func (y *tally) verdict() (doubled, lost, disordered int) {
	seen := map[string]int{}
	for _, values := range y.received {
		last := map[string]int{}
		for _, value := range values {
			seen[value]++
			producer, digits, _ := strings.Cut(value, "-")
			number, _ := strconv.Atoi(digits)
			if previous, ok := last[producer]; ok && number < previous {
				disordered++
			}
			last[producer] = number
		}
	}
	for value, times := range seen {
		if times > 1 || !y.pushed[value] && !y.unknown[value] {
			doubled++
		}
	}
	for value := range y.pushed {
		if seen[value] == 0 {
			lost++
		}
	}
	return doubled, lost, disordered
}
