package shardedlist

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// The long form of the fault tests: go test -run TestExactlyOnce -fault.operations 100000 .
var (
	faultOperations = flag.Int("fault.operations", 2000, "operations of each fault test")
	faultPatience   = flag.Duration("fault.patience", 5*time.Minute, "how long the traffic of a fault test may take, and the fault to strike")
)

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
						traffic := newTraffic(goroutines / 2)
						traffic.run(t, *faultOperations, strikes(proxy), func(ctx context.Context, value string) error {
							_, err := end.push(broken, ctx, value)
							return err
						}, func(ctx context.Context, i int) ([]string, error) { return end.pop(broken, ctx, i) })
						proxy.Set(redistest.Faults{})
						rest, err := list.LRange(t.Context(), 0, -1)
						require.NoError(t, err)
						assert.Empty(t, rest)
						t.Logf("%d faults struck", proxy.Strikes())
						traffic.assertOnceInOrder(t, broken)
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
			var restarts atomic.Int64
			var crashes sync.WaitGroup
			traffic := newTraffic(4)
			crashes.Go(func() {
				for i := range 3 {
					traffic.awaitPushes((i + 1) * 200)
					server.Restart(t)
					restarts.Add(1)
				}
			})
			traffic.run(t, 8000, func() bool { return restarts.Load() == 3 }, func(ctx context.Context, value string) error {
				_, err := list.RPush(ctx, value)
				return err
			}, func(ctx context.Context, i int) ([]string, error) {
				return ends["LPush BRPop, mixed"].pop(list, ctx, i)
			})
			crashes.Wait()
			traffic.PopValues(ledger.Rest, content(t, list)...)
			traffic.assertOnce(t)
		})
	}
}

// The server forgets its scripts again and again, while replies are lost.
func TestExactlyOnceWhileScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Start(t, kind), redistest.NewProxy(t) // flushes would disturb others
			flushing := server.Client(t)
			list := newList(t, flushing, WithCapacity(5))
			broken := openList(t, server.Client(t, through(proxy)), list.Name(), WithCapacity(5))
			t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
			proxy.Set(redistest.Faults{CutReply: 0.1})
			traffic := newTraffic(4)
			var flushed atomic.Int64
			var flushes sync.WaitGroup
			flushes.Go(func() {
				for i := range 50 {
					traffic.awaitPushes(i * *faultOperations / 200)
					if assert.NoError(t, flushing.ScriptFlush(t.Context()).Err()) { // of all masters
						flushed.Add(1)
					}
				}
			})
			struck := strikes(proxy)
			traffic.run(t, *faultOperations, func() bool { return flushed.Load() == 50 && struck() }, func(ctx context.Context, value string) error {
				_, err := broken.LPush(ctx, value)
				return err
			}, func(ctx context.Context, i int) ([]string, error) {
				return ends["LPush BRPop, mixed"].pop(broken, ctx, i)
			})
			flushes.Wait()
			assert.Empty(t, content(t, list))
			traffic.assertOnceInOrder(t)
		})
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
	traffic := newTraffic(4)
	traffic.run(t, 4000, strikes(proxy), func(ctx context.Context, value string) error {
		return rdb.RPush(ctx, key, value).Err()
	}, func(ctx context.Context, _ int) ([]string, error) { return single(rdb.LPop(ctx, key).Result()) })
	tally := traffic.Tally()
	assert.NoError(t, traffic.Evidence())
	t.Logf("%d replies cut: %d doubled, %d lost", proxy.Strikes(), tally.Doubled, tally.Lost)
	assert.Positive(t, tally.Doubled)
	assert.Positive(t, tally.Lost)
}

// traffic is producers that push to lists and consumers that pop from them, and the ledger of what they did.
type traffic struct {
	ledger.Ledger
	workers int // producers, and as many consumers
}

func newTraffic(workers int) *traffic { return &traffic{workers: workers} }

// strikes reports whether faults of the proxy have struck.
func strikes(proxy *redistest.Proxy) (struck func() bool) {
	return func() bool { return proxy.Strikes() > 0 }
}

// run lets the producers push until the fault has struck, that many operations at least, and the consumers pop until the list stays
// empty after the last push.
func (y *traffic) run(t *testing.T, operations int, struck func() bool, push func(context.Context, string) error, pop func(context.Context, int) ([]string, error)) {
	each := operations / 2 / y.workers
	ctx, cancel := context.WithTimeout(t.Context(), *faultPatience)
	defer cancel()
	var producers, consumers sync.WaitGroup
	var producing atomic.Bool
	producing.Store(true)
	for p := range y.workers {
		producers.Go(func() {
			for i := 0; (i < each || !struck()) && ctx.Err() == nil; i++ {
				value, fate := ledger.Name(p, i), ledger.Done
				if err := push(ctx, value); errors.Is(err, ErrOutcomeUnknown) {
					fate = ledger.Unknown
				} else if err != nil {
					fate = ledger.Refused
					t.Logf("push of %s: %v", value, err)
				}
				y.Push(ledger.Pushed{Producer: p, First: i, Count: 1, Fate: fate})
			}
		})
		consumers.Go(func() {
			for i, empty := 0, 0; empty < 3 && ctx.Err() == nil; i++ {
				last := !producing.Load()
				values, err := pop(ctx, i)
				y.PopValues(p, values...)
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
	assert.True(t, struck(), "the fault has not struck")
}

// awaitPushes waits until a number of pushes has been acknowledged.
func (y *traffic) awaitPushes(number int) {
	end := time.Now().Add(*faultPatience)
	for pushed, _ := y.Counts(); pushed < number && time.Now().Before(end); pushed, _ = y.Counts() {
		time.Sleep(time.Millisecond)
	}
}

// assertOnce checks that each element that was pushed came out once, and that most were pushed and popped.
func (y *traffic) assertOnce(t *testing.T) ledger.Tally {
	t.Helper()
	assert.NoError(t, y.Evidence())
	tally := y.Tally()
	assert.Zero(t, tally.Doubled, "doubled: %s", tally.Example)
	assert.Zero(t, tally.Invented, "invented: %s", tally.Example)
	assert.Zero(t, tally.Lost, "lost: %s", tally.Example)
	return tally
}

// assertOnceInOrder checks that each element that was pushed came out once, each producer's in order; unless a client has put elements back,
// since callers whose time was up had taken them.
func (y *traffic) assertOnceInOrder(t *testing.T, clients ...*ShardedList) {
	t.Helper()
	tally, back := y.assertOnce(t), int64(0)
	for _, c := range clients {
		back += c.Stats().PutBack
	}
	if back > 0 {
		t.Logf("%d elements went back, and %d are out of order", back, tally.Misplaced)
		return
	}
	assert.Zero(t, tally.Misplaced, "out of order")
}
