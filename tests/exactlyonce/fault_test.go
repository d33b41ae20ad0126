package exactlyonce

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Connections break, before a request arrives, after the server has acted, in the middle of a reply, and requests arrive late.
// Yet each element that was pushed comes out once, each producer's in order.
func TestExactlyOnceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster} {
		for fault, rates := range harness.Faults {
			for name, end := range harness.Ends {
				for _, goroutines := range []int{8, 64} {
					mixed := strings.Contains(name, "mixed")
					if kind == redistest.Cluster && (!mixed || goroutines == 8) {
						continue // its nodes see what a server sees
					}
					if !redistest.Long() && (!mixed && fault != "everything" || mixed == (goroutines == 8)) {
						continue
					}
					t.Run(fmt.Sprintf("%s, %s, %s, %d goroutines", kind, fault, name, goroutines), func(t *testing.T) {
						t.Parallel()
						server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
						rdb := server.Client(t, harness.Through(proxy))
						list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(5))
						broken := harness.OpenList(t, rdb, list.Name(), shardedlist.WithCapacity(5))
						proxy.Set(rates)
						traffic := harness.NewTraffic(goroutines / 2)
						traffic.Run(t, harness.FaultOperations(), harness.Strikes(proxy), func(ctx context.Context, value string) error {
							_, err := end.Push(broken, ctx, value)
							return err
						}, func(ctx context.Context, i int) ([]string, error) { return end.Pop(broken, ctx, i) })
						proxy.Set(redistest.Faults{})
						rest, err := list.LRange(t.Context(), 0, -1)
						require.NoError(t, err)
						assert.Empty(t, rest)
						t.Logf("%d faults struck", proxy.Strikes())
						traffic.AssertOnceInOrder(t, broken)
					})
				}
			}
		}
	}
}

// The server crashes and comes back with what it has acknowledged, and forgets its scripts.
func TestExactlyOnceThroughRestarts(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "appendonly yes", "appendfsync always")
			list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(5))
			var restarts atomic.Int64
			var crashes sync.WaitGroup
			traffic := harness.NewTraffic(4)
			crashes.Go(func() {
				for i := range 3 {
					traffic.AwaitPushes((i + 1) * 200)
					server.Restart(t)
					restarts.Add(1)
				}
			})
			traffic.Run(t, 8000, func() bool { return restarts.Load() == 3 }, func(ctx context.Context, value string) error {
				_, err := list.RPush(ctx, value)
				return err
			}, func(ctx context.Context, i int) ([]string, error) {
				return harness.Ends["LPush BRPop, mixed"].Pop(list, ctx, i)
			})
			crashes.Wait()
			traffic.PopValues(ledger.Rest, harness.Content(t, list)...)
			traffic.AssertOnce(t)
		})
	}
}

// The server forgets its scripts again and again, while replies are lost.
func TestExactlyOnceWhileScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Start(t, kind), redistest.NewProxy(t) // flushes would disturb others
			flushing := server.Client(t)
			list := harness.NewList(t, flushing, shardedlist.WithCapacity(5))
			broken := harness.OpenList(t, server.Client(t, harness.Through(proxy)), list.Name(), shardedlist.WithCapacity(5))
			t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
			proxy.Set(redistest.Faults{CutReply: 0.1})
			traffic := harness.NewTraffic(4)
			var flushed atomic.Int64
			var flushes sync.WaitGroup
			flushes.Go(func() {
				for i := range 50 {
					traffic.AwaitPushes(i * harness.FaultOperations() / 200)
					if assert.NoError(t, flushing.ScriptFlush(t.Context()).Err()) { // of all masters
						flushed.Add(1)
					}
				}
			})
			struck := harness.Strikes(proxy)
			traffic.Run(t, harness.FaultOperations(), func() bool { return flushed.Load() == 50 && struck() }, func(ctx context.Context, value string) error {
				_, err := broken.LPush(ctx, value)
				return err
			}, func(ctx context.Context, i int) ([]string, error) {
				return harness.Ends["LPush BRPop, mixed"].Pop(broken, ctx, i)
			})
			flushes.Wait()
			assert.Empty(t, harness.Content(t, list))
			traffic.AssertOnceInOrder(t)
		})
	}
}

// A server that acts and does not answer: the callers of a batch try in turn, but none after the server may have forgotten the
// operation.
func TestABatchIsNotRepeatedOnceItMayBeForgotten(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	rdb := server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) { o.ReadTimeout = 300 * time.Millisecond })
	list, err := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(5), harness.RecordLife(2*time.Second))
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
			if _, err := list.RPush(ctx, i); errors.Is(err, shardedlist.ErrOutcomeUnknown) {
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
	for _, value := range harness.Content(t, list) {
		seen[value]++
		assert.Equal(t, 1, seen[value], value)
	}
	assert.NoError(t, list.Check(t.Context()))
}

// For contrast: a plain list, used through go-redis, doubles and loses about as many elements as replies were cut.
func TestPlainGoRedisDoublesAndLoses(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
	rdb, key := server.Client(t, harness.Through(proxy)), harness.UniqueName(t)
	proxy.Set(redistest.Faults{CutReply: 0.1})
	traffic := harness.NewTraffic(4)
	traffic.Run(t, 4000, harness.Strikes(proxy), func(ctx context.Context, value string) error {
		return rdb.RPush(ctx, key, value).Err()
	}, func(ctx context.Context, _ int) ([]string, error) { return harness.Single(rdb.LPop(ctx, key).Result()) })
	tally := traffic.Tally()
	assert.NoError(t, traffic.Evidence())
	t.Logf("%d replies cut: %d doubled, %d lost", proxy.Strikes(), tally.Doubled, tally.Lost)
	assert.Positive(t, tally.Doubled)
	assert.Positive(t, tally.Lost)
}
