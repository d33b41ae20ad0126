package commands

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stalled is a client of a server that no longer answers, and the proxy in between. The lists of the names exist, and the client has
// used them.
func stalled(t *testing.T, readTimeout time.Duration, names ...string) (redis.UniversalClient, *redistest.Proxy) {
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	rdb := server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) { o.ReadTimeout = readTimeout })
	for _, name := range names {
		list, err := shardedlist.New(rdb, name)
		require.NoError(t, err)
		_, err = list.RPush(t.Context(), "a", "b", "c")
		require.NoError(t, err)
	}
	proxy.Set(redistest.Faults{DropReply: 1, DropRequest: 1})
	t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
	return rdb, proxy
}

// slowFirst are the calls whose own goroutine sends while the server answers: the first one that it does not answer waits for
// ReadTimeout.
var slowFirst = map[string]bool{"rpush": true, "lpop": true}

// The bounds are multiples of what is promised, which only a hang breaks: the client itself would wait for a minute.
func TestACallWhoseContextEndsReturnsSoon(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, list *shardedlist.ShardedList) error{
		"rpush": func(ctx context.Context, list *shardedlist.ShardedList) error {
			_, err := list.RPush(ctx, "x")
			return err
		},
		"lpop": func(ctx context.Context, list *shardedlist.ShardedList) error { _, err := list.LPop(ctx); return err },
		"lset": func(ctx context.Context, list *shardedlist.ShardedList) error { return list.LSet(ctx, 0, "x") },
		"expire": func(ctx context.Context, list *shardedlist.ShardedList) error {
			_, err := list.Expire(ctx, time.Hour)
			return err
		},
		"lmove": func(ctx context.Context, list *shardedlist.ShardedList) error {
			_, err := list.LMove(ctx, list, "LEFT", "RIGHT")
			return err
		},
		"blpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
			_, err := list.BLPop(ctx, 0)
			return err
		},
		"blmove": func(ctx context.Context, list *shardedlist.ShardedList) error {
			_, err := list.BLMove(ctx, list, "LEFT", "RIGHT", 0)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			readTimeout := time.Minute
			if slowFirst[name] {
				readTimeout = time.Second
			}
			rdb, _ := stalled(t, readTimeout, "jobs")
			list, err := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(100))
			require.NoError(t, err)
			for _, cancels := range []bool{true, false} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				want := context.DeadlineExceeded
				if cancels {
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(100*time.Millisecond, cancel)
					want = context.Canceled
				}
				start := time.Now()
				if err := call(ctx, list); slowFirst[name] {
					assert.Error(t, err) // it may be that of the connection
				} else {
					assert.ErrorIs(t, err, want)
				}
				assert.Less(t, time.Since(start), 5*time.Second)
				cancel()
			}
		})
	}
}

// A caller without a deadline, behind one who has much time, hears after about ten seconds.
func TestACallersOwnTimeCounts(t *testing.T) {
	t.Parallel()
	rdb, _ := stalled(t, time.Minute, "jobs")
	list, err := shardedlist.New(rdb, "jobs")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	var leads atomic.Bool
	go func() {
		leads.Store(true)
		_, _ = list.RPush(ctx, "leads")
	}()
	require.Eventually(t, leads.Load, time.Minute, time.Millisecond)
	start := time.Now()
	_, err = list.RPush(context.Background(), "x")
	assert.Error(t, err)
	assert.Less(t, time.Since(start), 25*time.Second)
}

// Four lists that cannot be served do not make a pipeline wait four times.
func TestAPipelineHasOneDeadline(t *testing.T) {
	t.Parallel()
	rdb, _ := stalled(t, 200*time.Millisecond, "q1", "q2", "q3", "q4")
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("q*"), shardedlist.WithCapacity(10)))
	start := time.Now()
	_, err := rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for _, key := range []string{"q1", "q2", "q3", "q4"} {
			pipe.RPush(t.Context(), key, "x")
		}
		return nil
	})
	assert.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
	assert.Less(t, time.Since(start), 25*time.Second)
}

// A timeout counts, whatever the server says: it is a replica that takes no pops.
func TestATimeoutCountsOnAReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t).(*redis.Client)
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	require.NoError(t, rdb.ConfigSet(t.Context(), "replica-serve-stale-data", "yes").Err())
	list, err := shardedlist.New(rdb, "jobs")
	require.NoError(t, err)
	for name, wait := range map[string]func() error{
		"blpop": func() error { _, err := list.BLPop(t.Context(), 100*time.Millisecond); return err },
		"blmpop": func() error {
			_, _, err := shardedlist.BLMPop(t.Context(), 100*time.Millisecond, "LEFT", 1, list)
			return err
		},
	} {
		start := time.Now()
		if err := wait(); !errors.Is(err, context.DeadlineExceeded) { // on a busy machine, the last attempt may have no answer
			assert.ErrorContains(t, err, "READONLY", name)
		}
		assert.Less(t, time.Since(start), 8*time.Second, name)
	}
}

func TestAWaitEndsWhenItsClientIsClosed(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	for _, timeout := range []time.Duration{0, time.Minute} {
		rdb := redis.NewClient(&redis.Options{Addr: server.Client(t).(*redis.Client).Options().Addr})
		list, err := shardedlist.New(rdb, harness.UniqueName(t))
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		result := harness.BlockingPop(t, list, ctx, timeout)
		harness.Asleep(t, list)
		start := time.Now()
		require.NoError(t, rdb.Close())
		assert.ErrorIs(t, (<-result).Err, redis.ErrClosed)
		assert.Less(t, time.Since(start), 4*time.Second)
	}
}

// flowing is a list of one element, "c", whose next caller of BLPop need not wait, as far as the client knows.
func flowing(t *testing.T, client func(*redis.UniversalOptions), options ...shardedlist.Option) (*shardedlist.ShardedList, *redistest.Proxy) {
	t.Helper()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	list := harness.NewList(t, server.Client(t, harness.Through(proxy), client), options...)
	_, err := list.RPush(t.Context(), "a", "b", "c")
	require.NoError(t, err)
	for _, want := range []string{"a", "b"} {
		value, err := list.BLPop(t.Context(), 0)
		require.NoError(t, err)
		require.Equal(t, want, value)
		require.Eventually(t, func() bool { return !harness.Left(list).Serving() }, 10*time.Second, 100*time.Microsecond)
	}
	require.Equal(t, int64(1), list.Stats().Operations.Pop, "the second caller need not wait")
	return list, proxy
}

// A caller of BLPop that need not wait, since the list has elements, returns soon if the server stops answering.
func TestACancelledPopThatNeedNotWaitReturnsSoon(t *testing.T) {
	t.Parallel()
	list, proxy := flowing(t, func(o *redis.UniversalOptions) { o.ReadTimeout = time.Minute })
	proxy.Set(redistest.Faults{DropReply: 1, DropRequest: 1})
	defer proxy.Set(redistest.Faults{})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	start := time.Now()
	_, err := list.BLPop(ctx, 0)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Less(t, time.Since(start), 5*time.Second)
}

// A caller that cancels its wait is not kept until its timeout, as by go-redis, nor for the time that it would give a server that does not
// answer. The bounds are for the quickest of several tries, since a busy machine delays some.
func TestACancelledWaitReturnsSoon(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Shared(t, kind).Client(t)
			hooked := redistest.Shared(t, kind).Client(t)
			hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("*")))
			var lists []*shardedlist.ShardedList
			const timeout = 3 * time.Second
			cancelled := func(wait func(ctx context.Context) error) (took time.Duration) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				at := make(chan time.Time, 1)
				time.AfterFunc(100*time.Millisecond, func() {
					at <- time.Now()
					cancel()
				})
				assert.Error(t, wait(ctx))
				return time.Since(<-at)
			}
			for name, wait := range map[string]func(ctx context.Context) error{
				"blpop": func(ctx context.Context) error { _, err := lists[0].BLPop(ctx, timeout); return err },
				"blmove": func(ctx context.Context) error {
					_, err := lists[0].BLMove(ctx, lists[1], "LEFT", "RIGHT", timeout)
					return err
				},
				"blmpop": func(ctx context.Context) error {
					_, _, err := shardedlist.BLMPop(ctx, timeout, "LEFT", 1, lists...)
					return err
				},
				"hook": func(ctx context.Context) error { return hooked.BLPop(ctx, timeout, lists[0].Name()).Err() },
			} {
				quickest := timeout
				for range 10 {
					lists = newLists(t, rdb, 2, 5) // nobody waits for them
					quickest = min(quickest, cancelled(wait))
				}
				assert.Less(t, quickest, session.LeaveGrace/2, name)
			}
			assert.Greater(t, cancelled(func(ctx context.Context) error { return rdb.BLPop(ctx, timeout, lists[0].Name()).Err() }), timeout/2, "go-redis")
		})
	}
}

// A consumer that is blocked when the server crashes gets what is pushed when it is back.
func TestAWaitGoesOnAfterACrash(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			list := harness.NewList(t, server.Client(t))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			result := harness.BlockingPop(t, list, ctx, 0)
			harness.Asleep(t, list)
			server.Restart(t)
			pushed := time.Now()
			_, err := harness.OpenList(t, server.Client(t), list.Name()).RPush(t.Context(), "x")
			require.NoError(t, err)
			assert.Equal(t, harness.Got("x"), <-result)
			assert.Less(t, time.Since(pushed), 10*time.Second, "the slice is 2 s")
		})
	}
}

// callCounter is a hook that counts commands.
type callCounter struct{ number atomic.Int64 }

func (c *callCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *callCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.number.Add(1)
		return next(ctx, cmd)
	}
}

func (c *callCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// While a slot moves, what is left to sweep may be on another node. That is no reason to ask for ever.
func TestAnExpiryAtOnceDoesNotSpinWhileASlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	name := harness.UniqueName(t)
	list := harness.OpenList(t, server.Client(t), name, shardedlist.WithCapacity(1))
	_, err := list.RPush(t.Context(), harness.Numbers(0, 20)...)
	require.NoError(t, err)
	calls := &callCounter{}
	rdb := server.Client(t)
	rdb.AddHook(calls)
	counted, err := shardedlist.New(rdb, name)
	require.NoError(t, err)
	home, err := server.SlotOwner(t.Context(), harness.Keys(list).Slot())
	require.NoError(t, err)
	tries := 0
	require.NoError(t, server.MoveSlot(t.Context(), harness.Keys(list).Slot(), (home+1)%3, func(moved int) {
		if moved < 3 || moved%4 != 3 {
			return
		}
		tries++
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := counted.PExpire(ctx, 0)
		assert.Less(t, calls.number.Swap(0), int64(300), "%v", err) // what goes on in the background is counted next time
	}))
	assert.Positive(t, tries)
}

// A caller whose context has a deadline waits until then for a server that does not answer, also if the list had elements so far.
func TestAPopThatNeedNotWaitIsAsPatientAsAWait(t *testing.T) {
	t.Parallel()
	list, proxy := flowing(t, func(*redis.UniversalOptions) {}, harness.RecordLife(4*time.Second)) // after half of it, an operation is not repeated
	proxy.Set(redistest.Faults{DropRequest: 1})
	repeats := list.Stats().Repeats
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result := make(chan harness.Popped, 1)
	go func() {
		value, err := list.BLPop(ctx, 0)
		result <- harness.Popped{Value: value, Err: err}
	}()
	require.Eventually(t, func() bool { return harness.Left(list).Waiting() == 1 }, 20*time.Second, time.Millisecond, "it waits in the queue now")
	assert.Greater(t, list.Stats().Repeats, repeats)
	proxy.Set(redistest.Faults{})
	assert.Equal(t, harness.Got("c"), <-result)
}
