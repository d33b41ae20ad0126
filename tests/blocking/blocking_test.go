package blocking

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestABlockedPopTakesWhatIsPushed(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		consumer := harness.NewList(t, rdb, shardedlist.WithCapacity(1))
		producer := harness.OpenList(t, server.Client(t), consumer.Name(), shardedlist.WithCapacity(1))
		for i, push := range []func(context.Context, ...any) (int64, error){producer.RPush, producer.LPush} {
			result := harness.BlockingPop(t, consumer, t.Context(), 0)
			harness.Blocked(t, consumer)
			length, err := push(t.Context(), i)
			require.NoError(t, err)
			assert.EqualValues(t, 1, length)
			assert.Equal(t, harness.Got(strconv.Itoa(i)), <-result)
		}
		value := make(chan string)
		go func() {
			v, _ := consumer.BRPop(context.Background(), 0)
			value <- v
		}()
		_, err := producer.RPush(t.Context(), "from the right")
		require.NoError(t, err)
		assert.Equal(t, "from the right", <-value)
	})
}

func TestABlockedPopOfAFilledListReturnsAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 5)...)
		require.NoError(t, err)
		value, err := list.BLPop(t.Context(), time.Nanosecond)
		require.NoError(t, err)
		assert.Equal(t, "0", value)
		value, err = list.BRPop(t.Context(), 0)
		require.NoError(t, err)
		assert.Equal(t, "4", value)
	})
}

func TestABlockedPopTimesOut(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		for _, timeout := range []time.Duration{time.Nanosecond, time.Millisecond, 50 * time.Millisecond, 2500 * time.Millisecond} {
			start := time.Now()
			_, err := list.BLPop(t.Context(), timeout)
			assert.Equal(t, redis.Nil, err)
			assert.GreaterOrEqual(t, time.Since(start), timeout)
		}
		_, err := list.BLPop(t.Context(), -1)
		assert.ErrorIs(t, err, shardedlist.ErrNegativeTimeout)
		_, err = list.BRPop(t.Context(), -1)
		assert.ErrorIs(t, err, shardedlist.ErrNegativeTimeout)
	})
}

// One caller's short wait must neither end another's nor wait for it.
func TestWaitersOfDifferentTimeouts(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		long := harness.BlockingPop(t, list, t.Context(), 0)
		harness.Blocked(t, list)
		for range 3 {
			_, err := list.BLPop(t.Context(), 3*time.Millisecond)
			assert.Equal(t, redis.Nil, err)
		}
		_, err := list.RPush(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, harness.Got("x"), <-long)
	})
}

func TestCallersAreServedInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(3))
		var results []<-chan harness.Popped
		for range 20 {
			results = append(results, harness.BlockingPop(t, list, t.Context(), 0))
		}
		for i := 0; i < 20; i += 4 {
			_, err := list.RPush(t.Context(), harness.Numbers(i, i+4)...)
			require.NoError(t, err)
		}
		for i, result := range results {
			assert.Equal(t, harness.Got(strconv.Itoa(i)), <-result)
		}
	})
}

// While the list has elements for all, callers share operations with those that do not wait. Then they wait as before.
func TestWhoNeedNotWaitPopsAsOthersDo(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(3))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 5)...)
		require.NoError(t, err)
		pop := func(want string) {
			t.Helper()
			value, err := list.BLPop(t.Context(), time.Minute)
			require.NoError(t, err)
			assert.Equal(t, want, value)
		}
		pop("0")
		require.Eventually(t, func() bool { return !harness.Left(list).Serving() }, 10*time.Second, 100*time.Microsecond)
		before := list.Stats().Operations
		pop("1")
		pop("2")
		ctx, cancel := context.WithCancel(t.Context())
		value, err := list.BLPop(ctx, 0)
		require.NoError(t, err)
		assert.Equal(t, "3", value)
		cancel()
		_, err = list.BLPop(ctx, 0)
		assert.ErrorIs(t, err, context.Canceled)
		pop("4")
		after := list.Stats().Operations
		assert.Equal(t, before.BlockingPop, after.BlockingPop)
		assert.Equal(t, before.Pop+4, after.Pop)

		start := time.Now()
		_, err = list.BLPop(t.Context(), 50*time.Millisecond)
		assert.Equal(t, redis.Nil, err)
		assert.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond)
		first := harness.BlockingPop(t, list, t.Context(), 0)
		second := harness.BlockingPop(t, list, t.Context(), 0)
		_, err = list.RPush(t.Context(), "a", "b")
		require.NoError(t, err)
		assert.Equal(t, harness.Got("a"), <-first)
		assert.Equal(t, harness.Got("b"), <-second)
	})
}

// A pop that callers share ends with a shard. Those who have got nothing pop again, and never hear that the list is empty.
func TestNobodyFindsAListEmptyThatIsNot(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) { popsOfManyCallers(t, server.Client(t)) })
}

func TestNobodyFindsAListEmptyWhoseRepliesAreCut(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t)
	rdb := redistest.Shared(t, redistest.Redis).Client(t, harness.Through(proxy))
	proxy.Set(redistest.Faults{CutReply: 0.2})
	popsOfManyCallers(t, rdb)
	assert.Positive(t, proxy.Strikes(), "replies that were cut")
	proxy.Set(redistest.Faults{}) // for the check of the list
}

// popsOfManyCallers pops all elements of a list from each end: each once, in order for each caller, and no call finds it empty.
func popsOfManyCallers(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	const callers, each = 50, 20
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(7))
	for _, end := range []struct {
		push func(context.Context, ...any) (int64, error)
		pop  func(context.Context) (string, error)
	}{{list.RPush, list.LPop}, {list.LPush, list.RPop}} {
		_, err := end.push(t.Context(), harness.Numbers(0, callers*each)...)
		require.NoError(t, err)
		var group sync.WaitGroup
		var seen sync.Map
		for range callers {
			group.Go(func() {
				last := -1
				for range each {
					value, err := end.pop(t.Context())
					at, _ := strconv.Atoi(value)
					_, twice := seen.LoadOrStore(at, true)
					if !assert.NoError(t, err) || !assert.False(t, twice, value) || !assert.Greater(t, at, last) {
						return
					}
					last = at
				}
			})
		}
		group.Wait()
		assert.Empty(t, harness.Content(t, list))
	}
}

// However long the server would keep the BLPOP, a cancelled caller returns, and what is pushed next is for others.
func TestCancellationReturnsAndLosesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		reason := fmt.Errorf("reason")
		for _, cancelled := range []int{1, 5} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var results []<-chan harness.Popped
			for range cancelled {
				results = append(results, harness.BlockingPop(t, list, ctx, 0))
			}
			harness.Asleep(t, list)
			cancel(reason)
			for _, result := range results {
				got := <-result
				assert.ErrorIs(t, got.Err, context.Canceled)
				assert.ErrorContains(t, got.Err, "shardedlist: blpop")
			}
			_, err := list.RPush(t.Context(), "x")
			require.NoError(t, err)
			value, err := list.LPop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "x", value)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := list.RPush(t.Context(), "x")
		require.NoError(t, err)
		_, err = list.BLPop(ctx, 0)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, []string{"x"}, harness.Content(t, list))
	})
}

func TestADeadlineEndsTheWait(t *testing.T) {
	t.Parallel()
	list := harness.NewList(t, redistest.Shared(t, redistest.Redis).Client(t))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := list.BLPop(ctx, 0)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

// Cancellations strike at any moment, of one, some or all waiters, while elements come in; each element is received
// exactly once, in order, or still there.
func TestCancellationAtAnyMoment(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		consumers, rdb := 6, server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(1))
		producer := harness.OpenList(t, server.Client(t), list.Name())
		const elements = 2000
		var received ledger.Ledger
		var done, cancelled atomic.Int64
		var stalled atomic.Bool // for longer than callers who leave wait: what they leave comes back late
		var group sync.WaitGroup
		for c := range consumers {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(c), 0))
				for done.Load() < elements {
					called := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(2000))*time.Microsecond)
					value, err := list.BLPop(ctx, time.Duration(random.IntN(3000)+1)*time.Microsecond)
					cancel()
					if time.Since(called) >= session.LeaveGrace {
						stalled.Store(true)
					}
					if err != nil {
						if err != redis.Nil {
							assert.ErrorIs(t, err, context.DeadlineExceeded)
							cancelled.Add(1)
						}
						continue
					}
					received.PopValues(c, value)
					done.Add(1)
				}
			})
		}
		for i := range elements {
			_, err := producer.RPush(t.Context(), ledger.Name(0, i))
			require.NoError(t, err)
			received.Push(ledger.Pushed{First: i, Count: 1, Fate: ledger.Done})
		}
		group.Wait()
		tally := received.Tally()
		if stalled.Load() {
			tally.Misplaced = 0
		}
		assert.Equal(t, ledger.Tally{Pushed: elements, Popped: elements}, tally)
		assert.Empty(t, harness.Content(t, list))
		assert.Greater(t, cancelled.Load(), int64(consumers))
	})
}

// Several processes, here clients, wait on one list: nobody sleeps while there are elements.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	longSlices := func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Minute }
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2)).Name()
		const processes, each = 5, 200
		var left atomic.Int64
		left.Store(processes * each)
		received := make(chan string, processes*each)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var group sync.WaitGroup
		for range processes {
			consumer := harness.OpenList(t, server.Client(t, longSlices), name)
			harness.OneSlot(consumer).MaxSlice = 10 * time.Minute // the end of a slice would hide that a wake-up was lost
			for range 3 {
				group.Go(func() {
					for {
						value, err := consumer.BLPop(ctx, 0)
						if err != nil {
							return
						}
						received <- value
						if left.Add(-1) == 0 {
							stop()
						}
					}
				})
			}
			producer := harness.OpenList(t, server.Client(t), name, shardedlist.WithCapacity(2))
			group.Go(func() {
				for i := 0; i < each; i += 2 {
					_, err := producer.RPush(t.Context(), i, i+1)
					assert.NoError(t, err)
					if i%20 == 0 { // a plain pop now and then, and what it took goes back
						if value, err := producer.LPop(t.Context()); err == nil {
							_, err = producer.LPush(t.Context(), value)
							assert.NoError(t, err)
						}
					}
				}
			})
		}
		group.Wait()
		assert.Len(t, received, processes*each)
	})
}

// A caller has gone, the element that is then taken for it finds no taker, and the server has no room to take it back.
func TestAnElementThatCannotGoBackGoesToWhoWaits(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
			list := harness.NewList(t, rdb)
			_, err := list.RPush(t.Context(), "a", "b", "c")
			require.NoError(t, err)
			popped, err := list.LPopCount(t.Context(), 2)
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			var done sync.WaitGroup
			done.Go(func() { harness.OneSlot(list).PutBack(layout.Left, popped) })
			_, err = list.LPop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, harness.Got("a"), <-blockingPopNow(list))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			done.Wait()
			// The pop that was in flight for the caller may have taken it, and brings it back.
			require.Eventually(t, func() bool { return slices.Equal([]string{"b"}, harness.Content(t, list)) }, 10*time.Second, time.Millisecond)
		})
	}
}

func blockingPopNow(list *shardedlist.ShardedList) <-chan harness.Popped {
	result := make(chan harness.Popped, 1)
	go func() {
		value, err := list.BLPop(context.Background(), 0)
		result <- harness.Popped{Value: value, Err: err}
	}()
	return result
}

func TestTheLongestTimeoutsThereAre(t *testing.T) {
	t.Parallel()
	list := harness.NewList(t, redistest.Shared(t, redistest.Embedded).Client(t))
	result := harness.BlockingPop(t, list, t.Context(), math.MaxInt64)
	harness.Blocked(t, list)
	_, err := list.RPush(t.Context(), "x")
	require.NoError(t, err)
	assert.Equal(t, harness.Got("x"), <-result)
}

func TestTenThousandWaitersShareOneConnection(t *testing.T) {
	t.Parallel()
	shareOneConnection(t, redistest.Redis)
	shareOneConnection(t, redistest.Valkey)
	shareOneConnection(t, redistest.Redis, shardedlist.WithParts(64), shardedlist.WithCapacity(100))
}

func shareOneConnection(t *testing.T, kind redistest.Kind, options ...shardedlist.Option) {
	server := redistest.Start(t, kind)
	list := harness.NewList(t, server.Client(t), options...)
	admin := server.Client(t)
	const callers = 10_000
	results := make(chan harness.Popped, callers)
	for range callers {
		go func() {
			value, err := list.BLPop(context.Background(), 0)
			results <- harness.Popped{Value: value, Err: err}
		}()
	}
	require.Eventually(t, func() bool { return harness.Left(list).Waiting() == callers }, 30*time.Second, time.Millisecond)
	harness.Asleep(t, list)
	assert.LessOrEqual(t, harness.Client(list).PoolStats().TotalConns, uint32(2))
	clients, err := admin.ClientList(t.Context()).Result()
	require.NoError(t, err)
	blocked := 0
	for line := range strings.Lines(clients) {
		if slices.Contains(strings.Fields(line), "cmd=blpop") {
			blocked++
		}
	}
	assert.Equal(t, 1, blocked)

	producer := harness.OpenList(t, admin, list.Name(), options...)
	_, err = producer.RPush(t.Context(), harness.Numbers(0, callers)...)
	require.NoError(t, err)
	seen := map[string]bool{}
	for range callers {
		result := <-results
		require.NoError(t, result.Err)
		seen[result.Value] = true
	}
	assert.Len(t, seen, callers)
}

// When the last caller has gone, nothing serves the queue: the server has no blocked client and hears nothing more. The tests of this
// package end with a check that no goroutine is left.
func TestNothingRunsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			admin, list := server.Client(t).(*redis.Client), harness.NewList(t, server.Client(t))
			ctx, cancel := context.WithCancel(t.Context())
			var results []<-chan harness.Popped
			for range 10 {
				results = append(results, harness.BlockingPop(t, list, ctx, 0))
			}
			harness.Asleep(t, list)
			cancel()
			for _, result := range results {
				assert.ErrorIs(t, (<-result).Err, context.Canceled)
			}
			require.Eventually(t, func() bool { return !harness.Left(list).Serving() }, 10*time.Second, time.Millisecond)
			assert.Zero(t, harness.Left(list).Waiting())
			assert.False(t, harness.Left(list).Blocked())

			require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
			time.Sleep(100 * time.Millisecond) // nothing is to happen
			assert.Empty(t, harness.Without(harness.CommandCalls(t, admin), "config|resetstat", "info"))
			assert.Contains(t, admin.Info(t.Context(), "clients").Val(), "blocked_clients:0\r\n")
		})
	}
}

// A caller that gives up on a server that does not answer returns all the same, and what the server then hands over goes
// back to where it came from.
func TestGivingUpOnAStalledServer(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(1))
			ctx, cancel := context.WithCancel(t.Context())
			result := harness.BlockingPop(t, list, ctx, 0)
			harness.Asleep(t, list)
			// A push that the server has received when it stalls: it will wake the consumer, whose caller has gone.
			producer := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 30 * time.Second })
			require.NoError(t, producer.Ping(t.Context()).Err())
			server.Pause()
			pushed := make(chan error)
			go func() {
				_, err := harness.OpenList(t, producer, list.Name(), shardedlist.WithCapacity(1)).RPush(context.Background(), "a", "b", "c")
				pushed <- err
			}()
			cancelled := time.Now()
			cancel()
			assert.ErrorIs(t, (<-result).Err, context.Canceled)
			harness.AssertStalled(t, time.Since(cancelled))
			server.Resume()
			require.NoError(t, <-pushed)
			require.Eventually(t, func() bool {
				return slices.Equal([]string{"a", "b", "c"}, harness.Content(t, list))
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// A woken consumer that dies takes the dummy with it. Another sleeps no longer than its slice.
func TestAWakeUpLostToACrashIsFound(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 200 * time.Millisecond })
		list := harness.NewList(t, rdb)
		var pushed time.Time
		for rings := true; rings; { // a consumer whose slice of 0.1 s has ended in between is armed again
			result := harness.BlockingPop(t, list, t.Context(), 0)
			harness.Asleep(t, list)
			// The push whose wake-up another consumer took, and died.
			harness.SetPointer(list, t.Context(), harness.Digit, "0")
			pushed = time.Now()
			_, err := list.RPush(t.Context(), "x")
			require.NoError(t, err)
			rings = rdb.Exists(t.Context(), harness.Keys(list).Bell).Val() > 0
			assert.Equal(t, harness.Got("x"), <-result)
		}
		assert.Less(t, time.Since(pushed), 5*time.Second, "the slice is 0.1 s")
	})
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	before := goleak.IgnoreCurrent()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	list, err := shardedlist.New(rdb, "jobs")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() { _, _ = list.BLPop(ctx, 0) })
		group.Go(func() { _, _ = list.BRPop(t.Context(), 30*time.Millisecond) })
	}
	harness.Blocked(t, list)
	cancel()
	group.Wait()
	require.NoError(t, rdb.Close())
	goleak.VerifyNone(t, before)
}

// A server that does not answer for longer than callers without a deadline wait: those who wait on get what was taken for them,
// before what the list has.
func TestElementsOnTheirWayComeFirst(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	direct := harness.NewList(t, server.Client(t))
	behind := server.Client(t, func(o *redis.UniversalOptions) { o.Dialer, o.ReadTimeout = proxy.Dial, 200*time.Millisecond })
	list, err := shardedlist.New(behind, direct.Name())
	require.NoError(t, err)
	_, err = direct.RPush(t.Context(), "0", "a", "b", "c", "d")
	require.NoError(t, err)
	_, err = direct.LPop(t.Context()) // the server knows the script
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := list.LLen(t.Context())
		return err == nil
	}, harness.FaultPatience(), time.Millisecond, "the client knows whether that has functions")

	proxy.Set(redistest.Faults{DropReply: 1})
	type result struct {
		value string
		err   error
	}
	patient := make(chan result, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		value, err := list.BLPop(ctx, 0)
		patient <- result{value, err}
	}()
	require.Eventually(t, func() bool {
		length, err := direct.LLen(t.Context())
		return err == nil && length == 3
	}, harness.FaultPatience(), time.Millisecond, "it is taken")
	_, err = list.BLPop(t.Context(), 0)
	require.Error(t, err, "a caller without a deadline hears of it")
	length, err := direct.LLen(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 3, length, "nothing more is taken before it is known")

	proxy.Set(redistest.Faults{})
	got := <-patient
	require.NoError(t, got.err)
	assert.Equal(t, "a", got.value)
	assert.Equal(t, []string{"b", "c", "d"}, harness.Content(t, direct))
	value, err := list.BLPop(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, "b", value)
}
