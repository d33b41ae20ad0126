package shardedlist

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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
)

type popped struct {
	value string
	err   error
}

// blockingPop runs a BLPop and returns where its result will be, once the caller is among the waiters.
func blockingPop(t testing.TB, list *ShardedList, ctx context.Context, timeout time.Duration) <-chan popped {
	t.Helper()
	before := list.left().Waiting()
	result := make(chan popped, 1)
	go func() {
		value, err := list.BLPop(ctx, timeout)
		result <- popped{value, err}
	}()
	require.Eventually(t, func() bool { return list.left().Waiting() > before }, 10*time.Second, 100*time.Microsecond)
	return result
}

// blocked waits until the waiters' pipeline is on its way to block, or does.
func blocked(t testing.TB, list *ShardedList) {
	t.Helper()
	require.Eventually(t, list.left().Blocked, 10*time.Second, 100*time.Microsecond)
}

// asleep waits until the server has a client blocked in BLPOP.
func asleep(t testing.TB, list *ShardedList) {
	t.Helper()
	blocked(t, list)
	require.Eventually(t, func() bool {
		for _, node := range nodesOf(t, list) {
			info, err := node.Info(t.Context(), "clients").Result()
			if err != nil || !strings.Contains(info, "blocked_clients:0") { // the embedded server does not tell
				return true
			}
		}
		return false
	}, 10*time.Second, time.Millisecond)
}

func TestABlockedPopTakesWhatIsPushed(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		consumer := newList(t, rdb, WithCapacity(1))
		producer := openList(t, server.Client(t), consumer.Name(), WithCapacity(1))
		for i, push := range []func(context.Context, ...any) (int64, error){producer.RPush, producer.LPush} {
			result := blockingPop(t, consumer, t.Context(), 0)
			blocked(t, consumer)
			length, err := push(t.Context(), i)
			require.NoError(t, err)
			assert.EqualValues(t, 1, length)
			assert.Equal(t, popped{strconv.Itoa(i), nil}, <-result)
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
		list := newList(t, server.Client(t), WithCapacity(2))
		_, err := list.RPush(t.Context(), numbers(0, 5)...)
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
		list := newList(t, server.Client(t))
		for _, timeout := range []time.Duration{time.Nanosecond, time.Millisecond, 50 * time.Millisecond, 2500 * time.Millisecond} {
			start := time.Now()
			_, err := list.BLPop(t.Context(), timeout)
			assert.Equal(t, redis.Nil, err)
			assert.GreaterOrEqual(t, time.Since(start), timeout)
		}
		_, err := list.BLPop(t.Context(), -1)
		assert.ErrorIs(t, err, ErrNegativeTimeout)
		_, err = list.BRPop(t.Context(), -1)
		assert.ErrorIs(t, err, ErrNegativeTimeout)
	})
}

// One caller's short wait must neither end another's nor wait for it.
func TestWaitersOfDifferentTimeouts(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := newList(t, server.Client(t))
		long := blockingPop(t, list, t.Context(), 0)
		blocked(t, list)
		for range 3 {
			_, err := list.BLPop(t.Context(), 3*time.Millisecond)
			assert.Equal(t, redis.Nil, err)
		}
		_, err := list.RPush(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, popped{"x", nil}, <-long)
	})
}

func TestCallersAreServedInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := newList(t, server.Client(t), WithCapacity(3))
		var results []<-chan popped
		for range 20 {
			results = append(results, blockingPop(t, list, t.Context(), 0))
		}
		for i := 0; i < 20; i += 4 {
			_, err := list.RPush(t.Context(), numbers(i, i+4)...)
			require.NoError(t, err)
		}
		for i, result := range results {
			assert.Equal(t, popped{strconv.Itoa(i), nil}, <-result)
		}
	})
}

// While the list has elements for all, callers share operations with those that do not wait. Then they wait as before.
func TestWhoNeedNotWaitPopsAsOthersDo(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := newList(t, server.Client(t), WithCapacity(3))
		_, err := list.RPush(t.Context(), numbers(0, 5)...)
		require.NoError(t, err)
		pop := func(want string) {
			t.Helper()
			value, err := list.BLPop(t.Context(), time.Minute)
			require.NoError(t, err)
			assert.Equal(t, want, value)
		}
		pop("0")
		require.Eventually(t, func() bool { return !list.left().Serving() }, 10*time.Second, 100*time.Microsecond)
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
		first := blockingPop(t, list, t.Context(), 0)
		second := blockingPop(t, list, t.Context(), 0)
		_, err = list.RPush(t.Context(), "a", "b")
		require.NoError(t, err)
		assert.Equal(t, popped{"a", nil}, <-first)
		assert.Equal(t, popped{"b", nil}, <-second)
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
	rdb := redistest.Shared(t, redistest.Redis).Client(t, through(proxy))
	proxy.Set(redistest.Faults{CutReply: 0.2})
	popsOfManyCallers(t, rdb)
	assert.Positive(t, proxy.Strikes(), "replies that were cut")
}

// popsOfManyCallers pops all elements of a list from each end: each once, in order for each caller, and no call finds it empty.
func popsOfManyCallers(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	const callers, each = 50, 20
	list := newList(t, rdb, WithCapacity(7))
	for _, end := range []struct {
		push func(context.Context, ...any) (int64, error)
		pop  func(context.Context) (string, error)
	}{{list.RPush, list.LPop}, {list.LPush, list.RPop}} {
		_, err := end.push(t.Context(), numbers(0, callers*each)...)
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
		assert.Empty(t, content(t, list))
	}
}

// However long the server would keep the BLPOP, a cancelled caller returns, and what is pushed next is for others.
func TestCancellationReturnsAndLosesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := newList(t, server.Client(t))
		reason := fmt.Errorf("reason")
		for _, cancelled := range []int{1, 5} {
			ctx, cancel := context.WithCancelCause(t.Context())
			var results []<-chan popped
			for range cancelled {
				results = append(results, blockingPop(t, list, ctx, 0))
			}
			asleep(t, list)
			cancel(reason)
			for _, result := range results {
				got := <-result
				assert.ErrorIs(t, got.err, context.Canceled)
				assert.ErrorContains(t, got.err, "shardedlist: blpop")
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
		assert.Equal(t, []string{"x"}, content(t, list))
	})
}

func TestADeadlineEndsTheWait(t *testing.T) {
	t.Parallel()
	list := newList(t, redistest.Shared(t, redistest.Redis).Client(t))
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
		list := newList(t, rdb, WithCapacity(1))
		producer := openList(t, server.Client(t), list.Name())
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
		assert.Empty(t, content(t, list))
		assert.Greater(t, cancelled.Load(), int64(consumers))
	})
}

// Several processes, here clients, wait on one list: nobody sleeps while there are elements.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	longSlices := func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Minute }
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newList(t, server.Client(t), WithCapacity(2)).Name()
		const processes, each = 5, 200
		var left atomic.Int64
		left.Store(processes * each)
		received := make(chan string, processes*each)
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var group sync.WaitGroup
		for range processes {
			consumer := openList(t, server.Client(t, longSlices), name)
			consumer.slot().MaxSlice = 10 * time.Minute // the end of a slice would hide that a wake-up was lost
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
			producer := openList(t, server.Client(t), name, WithCapacity(2))
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
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
			list := newList(t, rdb)
			_, err := list.RPush(t.Context(), "a", "b", "c")
			require.NoError(t, err)
			popped, err := list.LPopCount(t.Context(), 2)
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			var done sync.WaitGroup
			done.Go(func() { list.slot().PutBack(layout.Left, popped) })
			_, err = list.LPop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, popped1("a"), <-blockingPopNow(list))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
			done.Wait()
			// The pop that was in flight for the caller may have taken it, and brings it back.
			require.Eventually(t, func() bool { return slices.Equal([]string{"b"}, content(t, list)) }, 10*time.Second, time.Millisecond)
		})
	}
}

func popped1(value string) popped { return popped{value, nil} }

func blockingPopNow(list *ShardedList) <-chan popped {
	result := make(chan popped, 1)
	go func() {
		value, err := list.BLPop(context.Background(), 0)
		result <- popped{value, err}
	}()
	return result
}

func TestTheLongestTimeoutsThereAre(t *testing.T) {
	t.Parallel()
	list := newList(t, redistest.Shared(t, redistest.Embedded).Client(t))
	result := blockingPop(t, list, t.Context(), math.MaxInt64)
	blocked(t, list)
	_, err := list.RPush(t.Context(), "x")
	require.NoError(t, err)
	assert.Equal(t, popped{"x", nil}, <-result)
}

func TestTenThousandWaitersShareOneConnection(t *testing.T) {
	t.Parallel()
	shareOneConnection(t, redistest.Redis)
	shareOneConnection(t, redistest.Valkey)
	shareOneConnection(t, redistest.Redis, WithParts(64), WithCapacity(100))
}

func shareOneConnection(t *testing.T, kind redistest.Kind, options ...Option) {
	server := redistest.Start(t, kind)
	list := newList(t, server.Client(t), options...)
	admin := server.Client(t)
	const callers = 10_000
	results := make(chan popped, callers)
	for range callers {
		go func() {
			value, err := list.BLPop(context.Background(), 0)
			results <- popped{value, err}
		}()
	}
	require.Eventually(t, func() bool { return list.left().Waiting() == callers }, 30*time.Second, time.Millisecond)
	asleep(t, list)
	assert.LessOrEqual(t, list.rdb().PoolStats().TotalConns, uint32(2))
	clients, err := admin.ClientList(t.Context()).Result()
	require.NoError(t, err)
	blocked := 0
	for line := range strings.Lines(clients) {
		if slices.Contains(strings.Fields(line), "cmd=blpop") {
			blocked++
		}
	}
	assert.Equal(t, 1, blocked)

	producer := openList(t, admin, list.Name(), options...)
	_, err = producer.RPush(t.Context(), numbers(0, callers)...)
	require.NoError(t, err)
	seen := map[string]bool{}
	for range callers {
		result := <-results
		require.NoError(t, result.err)
		seen[result.value] = true
	}
	assert.Len(t, seen, callers)
}

// When the last caller has gone, nothing serves the queue: the server has no blocked client and hears nothing more. The tests of this
// package end with a check that no goroutine is left.
func TestNothingRunsWhenNobodyWaits(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			admin, list := server.Client(t).(*redis.Client), newList(t, server.Client(t))
			ctx, cancel := context.WithCancel(t.Context())
			var results []<-chan popped
			for range 10 {
				results = append(results, blockingPop(t, list, ctx, 0))
			}
			asleep(t, list)
			cancel()
			for _, result := range results {
				assert.ErrorIs(t, (<-result).err, context.Canceled)
			}
			require.Eventually(t, func() bool { return !list.left().Serving() }, 10*time.Second, time.Millisecond)
			assert.Zero(t, list.left().Waiting())
			assert.False(t, list.left().Blocked())

			require.NoError(t, admin.ConfigResetStat(t.Context()).Err())
			time.Sleep(100 * time.Millisecond) // nothing is to happen
			assert.Empty(t, without(commandCalls(t, admin), "config|resetstat", "info"))
			assert.Contains(t, admin.Info(t.Context(), "clients").Val(), "blocked_clients:0\r\n")
		})
	}
}

// A caller that gives up on a server that does not answer returns all the same, and what the server then hands over goes
// back to where it came from.
func TestGivingUpOnAStalledServer(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			list := newList(t, server.Client(t), WithCapacity(1))
			ctx, cancel := context.WithCancel(t.Context())
			result := blockingPop(t, list, ctx, 0)
			asleep(t, list)
			// A push that the server has received when it stalls: it will wake the consumer, whose caller has gone.
			producer := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 30 * time.Second })
			require.NoError(t, producer.Ping(t.Context()).Err())
			server.Pause()
			pushed := make(chan error)
			go func() {
				_, err := openList(t, producer, list.Name(), WithCapacity(1)).RPush(context.Background(), "a", "b", "c")
				pushed <- err
			}()
			cancelled := time.Now()
			cancel()
			assert.ErrorIs(t, (<-result).err, context.Canceled)
			assertStalled(t, time.Since(cancelled))
			server.Resume()
			require.NoError(t, <-pushed)
			require.Eventually(t, func() bool {
				return slices.Equal([]string{"a", "b", "c"}, content(t, list))
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// assertStalled checks how long a cancelled caller has waited for a server that does not answer: all of its grace, or the server was not
// stalled, and not much longer.
func assertStalled(t testing.TB, waited time.Duration) {
	t.Helper()
	assert.GreaterOrEqual(t, waited, session.LeaveGrace)
	assert.Less(t, waited, 10*session.LeaveGrace)
}

// A woken consumer that dies takes the dummy with it. Another sleeps no longer than its slice.
func TestAWakeUpLostToACrashIsFound(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 200 * time.Millisecond })
		list := newList(t, rdb)
		result := blockingPop(t, list, t.Context(), 0)
		asleep(t, list)
		// The push whose wake-up another consumer took, and died.
		list.setPointer(t.Context(), digit, "0")
		pushed := time.Now()
		_, err := list.RPush(t.Context(), "x")
		require.NoError(t, err)
		assert.Zero(t, rdb.Exists(t.Context(), list.keys().Bell).Val(), "nothing wakes it")
		assert.Equal(t, popped{"x", nil}, <-result)
		assert.Less(t, time.Since(pushed), 5*time.Second, "the slice is 0.1 s")
	})
}

func TestNoGoroutineIsLeftBehind(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	before := goleak.IgnoreCurrent()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	list, err := New(rdb, "jobs")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() { _, _ = list.BLPop(ctx, 0) })
		group.Go(func() { _, _ = list.BRPop(t.Context(), 30*time.Millisecond) })
	}
	blocked(t, list)
	cancel()
	group.Wait()
	require.NoError(t, rdb.Close())
	goleak.VerifyNone(t, before)
}

// arm has a consumer wait for the list in vain, which leaves it armed. Where the consumer's time is up before it has got so far, it
// tries again.
func arm(t testing.TB, list *ShardedList) {
	t.Helper()
	for list.pointer(t.Context(), digit) != "1" {
		_, err := list.BLPop(t.Context(), time.Millisecond)
		require.Equal(t, redis.Nil, err)
	}
}

// A server that does not answer for longer than callers without a deadline wait: those who wait on get what was taken for them,
// before what the list has.
func TestElementsOnTheirWayComeFirst(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	direct := newList(t, server.Client(t))
	behind := server.Client(t, func(o *redis.UniversalOptions) { o.Dialer, o.ReadTimeout = proxy.Dial, 200*time.Millisecond })
	list, err := New(behind, direct.Name())
	require.NoError(t, err)
	_, err = direct.RPush(t.Context(), "0", "a", "b", "c", "d")
	require.NoError(t, err)
	_, err = direct.LPop(t.Context()) // the server knows the script
	require.NoError(t, err)

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
	}, *faultPatience, time.Millisecond, "it is taken")
	_, err = list.BLPop(t.Context(), 0)
	require.Error(t, err, "a caller without a deadline hears of it")
	length, err := direct.LLen(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 3, length, "nothing more is taken before it is known")

	proxy.Set(redistest.Faults{})
	got := <-patient
	require.NoError(t, got.err)
	assert.Equal(t, "a", got.value)
	assert.Equal(t, []string{"b", "c", "d"}, content(t, direct))
	value, err := list.BLPop(t.Context(), 0)
	require.NoError(t, err)
	assert.Equal(t, "b", value)
}
