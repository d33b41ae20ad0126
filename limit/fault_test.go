package limit

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
)

// through connects a client by way of the proxy.
func through(proxy *redistest.Proxy) func(*redis.UniversalOptions) {
	return func(o *redis.UniversalOptions) {
		o.Dialer = proxy.Dial
		o.ReadTimeout = time.Second
	}
}

// plenty is more than any test admits.
const plenty = 50_000

// counters are limiters that admit plenty, and how many the server has counted of each.
type counters struct {
	fixed   *FixedWindow
	sliding *SlidingWindow
	bucket  *TokenBucket
	day     *DailyCap
	slots   *Semaphore
}

func newCounters(t testing.TB, rdb redis.UniversalClient, name string) counters {
	t.Helper()
	var c counters
	var err error
	c.fixed, err = NewFixedWindow(rdb, name, plenty, maxSpan)
	require.NoError(t, err)
	c.sliding, err = NewSlidingWindow(rdb, name, plenty, maxSpan)
	require.NoError(t, err)
	c.bucket, err = NewTokenBucket(rdb, name, 1, time.Hour, plenty)
	require.NoError(t, err)
	c.day, err = NewDailyCap(rdb, name, plenty, time.UTC)
	require.NoError(t, err)
	c.slots, err = NewSemaphore(rdb, name, 3, time.Hour)
	require.NoError(t, err)
	return c
}

// counted returns what the server has counted.
func (c counters) counted(t testing.TB, rdb redis.UniversalClient) map[string]int64 {
	t.Helper()
	fixed, err := rdb.HGet(soon(t), c.fixed.state(), "used").Int64()
	require.NoError(t, err)
	sliding, err := rdb.HGet(soon(t), c.sliding.state(), "total").Int64()
	require.NoError(t, err)
	debt := debt(t, rdb, c.bucket)
	day, err := newCounters(t, rdb, c.day.name).day.Count(soon(t))
	require.NoError(t, err)
	slots, err := rdb.ZCount(soon(t), c.slots.holders.state(), "(0", "+inf").Result()
	require.NoError(t, err)
	return map[string]int64{
		"fixed": fixed, "sliding": sliding, "bucket": int64((debt + time.Hour - 1) / time.Hour), "day": day, "slots": slots,
	}
}

// use calls each limiter until enough is true, and at least some times, and requires that no call fails. It returns how many
// were admitted.
func (c counters) use(t testing.TB, who int, enough func() bool) map[string]int64 {
	n := map[string]int64{"fixed": 0, "sliding": 0, "bucket": 0, "day": 0}
	for i := 0; i < 50 || !enough() && i < plenty/100; i++ {
		for kind, allow := range map[string]func(context.Context) (Decision, error){
			"fixed": c.fixed.Allow, "sliding": c.sliding.Allow, "bucket": c.bucket.Allow,
		} {
			d, err := allow(soon(t))
			if assert.NoError(t, err) && assert.True(t, d.Allowed) {
				n[kind]++
			}
		}
		a, err := c.day.Add(soon(t), fmt.Sprintf("%d %d", who, i))
		assert.NoError(t, err)
		assert.True(t, a.New, "it is this call that has added it")
		n["day"]++
		p, err := c.slots.Acquire(soon(t))
		if assert.NoError(t, err) {
			assert.NoError(t, p.Release(soon(t)))
		}
		if t.Failed() {
			break
		}
	}
	return n
}

// used runs use in several goroutines, and compares what they were told with what the server has counted.
func assertCountedOnce(t *testing.T, rdb redis.UniversalClient, workers []counters, enough func() bool) {
	t.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	want := map[string]int64{"slots": 0}
	for who, c := range workers {
		running.Go(func() {
			n := c.use(t, who, enough)
			mu.Lock()
			defer mu.Unlock()
			for kind, n := range n {
				want[kind] += n
			}
		})
	}
	running.Wait()
	require.Eventually(t, func() bool { // a share that was given unheard is released in the background
		return rdb.ZCount(soon(t), workers[0].slots.holders.state(), "(0", "+inf").Val() == 0
	}, patience, time.Millisecond)
	assert.Equal(t, want, workers[0].counted(t, rdb))
}

// Connections break before a request arrives, and after the server has acted, and requests arrive late. Each call counts once
// all the same, and is told so.
func TestACallCountsOnceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		for fault, rates := range map[string]redistest.Faults{
			"replies":             {CutReply: 0.1},
			"half of the replies": {CutReply: 0.5},
			"requests":            {CutRequest: 0.1},
			"late requests":       {LateRequest: 0.002, Delay: 1500 * time.Millisecond},
		} {
			t.Run(string(kind)+", "+fault, func(t *testing.T) {
				t.Parallel()
				server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
				rdb := server.Client(t)
				name := newName(t, rdb)
				var workers []counters
				for range 3 {
					workers = append(workers, newCounters(t, server.Client(t, through(proxy)), name))
				}
				proxy.Set(rates)
				assertCountedOnce(t, rdb, workers, func() bool { return proxy.Strikes() >= int64(redistest.Times(2, 10)) })
				t.Logf("%d faults struck", proxy.Strikes())
			})
		}
	}
}

// An orderly failover loses nothing.
func TestACallCountsOnceThroughAFailover(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range []redistest.Kind{redistest.Sentinel, redistest.ReplicatedCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			rdb := server.Client(t)
			name := newName(t, rdb)
			var workers []counters
			for range 3 {
				workers = append(workers, newCounters(t, server.Client(t), name))
			}
			var over atomic.Bool
			var failover sync.WaitGroup
			failover.Go(func() {
				require.Eventually(t, func() bool {
					used, err := rdb.HGet(soon(t), workers[0].fixed.state(), "used").Int64()
					return err == nil && used > 10
				}, patience, time.Millisecond)
				server.Failover(t, script.Slot(workers[0].fixed.state()))
				over.Store(true)
			})
			assertCountedOnce(t, rdb, workers, over.Load)
			failover.Wait()
			assert.True(t, over.Load())
		})
	}
}

// The faults of a broken network make a counter of plain commands count twice, because go-redis repeats what has no reply.
func TestAPlainCounterCountsTwiceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	rdb := server.Client(t, through(proxy))
	proxy.Set(redistest.Faults{CutReply: 0.1})
	var told int64
	for range 300 {
		if err := rdb.Incr(soon(t), "plain").Err(); err == nil {
			told++
		}
	}
	proxy.Set(redistest.Faults{})
	counted, err := server.Client(t).Get(soon(t), "plain").Int64()
	require.NoError(t, err)
	assert.Greater(t, counted, told)
}

// One reply is lost for sure, that of a call which the server has admitted: the caller gets the recorded reply.
func TestALostReplyIsRepeated(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for what, operate := range everyCall(t, rdb) {
			l, call := operate()
			lost := &loseReply{}
			rdb.AddHook(lost)
			lost.next.Store(true)
			assert.NoError(t, call(soon(t)), what)
			assert.False(t, lost.next.Load(), "%s: the fault has struck", what)
			for _, key := range keysOf(t, rdb, l.name) {
				switch key {
				case l.prefix + "meta":
					assert.Equal(t, int64(1), countIn(t, rdb, l), what)
				}
			}
		}
	})
}

// countIn returns how many the server has counted.
func countIn(t testing.TB, rdb redis.UniversalClient, l *limiter) int64 {
	t.Helper()
	switch l.kind {
	case "fixed":
		return must(rdb.HGet(soon(t), l.state(), "used").Int64())
	case "sliding":
		return must(rdb.HGet(soon(t), l.state(), "total").Int64())
	case "bucket":
		return int64((debt(t, rdb, &TokenBucket{reserver{counter: &counter{limiter: l}}}) + time.Hour - 1) / time.Hour)
	}
	return must(rdb.ZCount(soon(t), l.state(), "(0", "+inf").Result())
}

func must(n int64, err error) int64 {
	if err != nil {
		panic(err)
	}
	return n
}

// loseReply is a hook that loses the reply to one script that the server has carried out.
type loseReply struct{ next atomic.Bool }

func (l *loseReply) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *loseReply) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && redistest.IsCall(cmd.Name()) && l.next.CompareAndSwap(true, false) {
			cmd.SetErr(context.DeadlineExceeded)
			return errReplyLost
		}
		return err
	}
}

func (l *loseReply) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

var errReplyLost = fmt.Errorf("read: connection reset by peer")

// A caller whose context ends while the server hangs returns soon. What it may have taken unheard is given back, or is said to
// be unknown.
func TestGivingUpOnAServerThatHangs(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t)
	c := newCounters(t, rdb, newName(t, rdb))
	c.use(t, 0, func() bool { return true })
	before := c.counted(t, rdb)
	connect(t, rdb, 6) // a call that waits for its connection to be made has sent nothing, and its outcome is known
	server.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	errs := map[string]chan error{}
	for kind, call := range map[string]func() error{
		"allow":   func() error { _, err := c.fixed.Allow(ctx); return err },
		"sliding": func() error { return c.sliding.Wait(ctx) },
		"bucket":  func() error { return c.bucket.Wait(ctx) },
		"try":     func() error { _, err := c.slots.TryAcquire(ctx); return err },
		"acquire": func() error { _, err := c.slots.Acquire(ctx); return err },
		"day":     func() error { _, err := c.day.Add(ctx, "late"); return err },
	} {
		result := make(chan error, 1)
		errs[kind] = result
		go func() { result <- call() }()
	}
	time.AfterFunc(100*time.Millisecond, cancel)
	<-ctx.Done()
	began := time.Now()
	for kind, err := range errs {
		err := <-err
		assert.ErrorIs(t, err, context.Canceled, kind)
		if kind == "allow" {
			assert.ErrorIs(t, err, ErrOutcomeUnknown)
		}
	}
	assert.Less(t, time.Since(began), 2500*time.Millisecond)
	server.Resume()
	require.Eventually(t, func() bool { return c.counted(t, rdb)["slots"] == 0 }, patience, time.Millisecond)
	p, err := c.slots.Acquire(soon(t))
	require.NoError(t, err)
	require.NoError(t, p.Release(soon(t)))
	before["fixed"]++ // its outcome was said to be unknown
	require.Eventually(t, func() bool {
		after := c.counted(t, rdb)
		return after["fixed"] <= before["fixed"] && after["sliding"] == before["sliding"] && after["bucket"] == before["bucket"]
	}, patience, 10*time.Millisecond, "what the waits took is given back")
}

// connect makes n connections and leaves them idle in the client's pool.
func connect(t *testing.T, rdb redis.UniversalClient, n int) {
	for range n {
		conn := rdb.(*redis.Client).Conn()
		defer func() { require.NoError(t, conn.Close()) }()
		require.NoError(t, conn.Ping(soon(t)).Err())
	}
}

// A slot moves to and fro under load: each call counts once.
func TestASlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	rdb := server.Client(t)
	name := newName(t, rdb)
	var workers []counters
	for range 4 {
		workers = append(workers, newCounters(t, server.Client(t), name))
	}
	slot := script.Slot(workers[0].fixed.state())
	home, err := server.SlotOwner(t.Context(), slot)
	require.NoError(t, err)
	var moves, keys atomic.Int64
	var moving sync.WaitGroup
	moving.Go(func() {
		for i := range 6 {
			if !assert.NoError(t, server.MoveSlot(soon(t), slot, (home+i+1)%3, func(moved int) { keys.Store(max(keys.Load(), int64(moved))) })) {
				break
			}
			moves.Add(1)
		}
		moves.Store(6)
	})
	assertCountedOnce(t, rdb, workers, func() bool { return moves.Load() == 6 })
	moving.Wait()
	assert.Greater(t, keys.Load(), int64(3), "keys moved one by one")
}

// A slot is marked as moving, and only some of its keys have moved. New clients use the limiters that exist all the same.
func TestNewClientsUseLimitersWhoseSlotIsStuckInAMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	rdb := server.Client(t)
	name := newName(t, rdb)
	c := newCounters(t, rdb, name)
	want := c.use(t, 0, func() bool { return true })
	held, err := c.slots.TryAcquire(soon(t)) // its key must not be gone
	require.NoError(t, err)
	slot := script.Slot(c.fixed.state())
	home, err := server.SlotOwner(t.Context(), slot)
	require.NoError(t, err)
	moments := 0
	require.NoError(t, server.MoveSlot(soon(t), slot, (home+1)%3, func(moved int) {
		if moved > 8 {
			return
		}
		moments++
		fresh := newCounters(t, server.Client(t), name)
		for kind, allow := range map[string]func(context.Context) (Decision, error){
			"fixed": fresh.fixed.Allow, "sliding": fresh.sliding.Allow, "bucket": fresh.bucket.Allow,
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			d, err := allow(ctx)
			cancel()
			if assert.NoError(t, err, "%s, %d keys moved", kind, moved) && assert.True(t, d.Allowed) {
				want[kind]++
			}
		}
		a, err := fresh.day.Add(soon(t), fmt.Sprint("moved ", moved))
		assert.NoError(t, err)
		assert.True(t, a.New)
		want["day"]++
		p, err := fresh.slots.Acquire(soon(t))
		if assert.NoError(t, err) {
			assert.NoError(t, p.Release(soon(t)))
		}
	}))
	assert.Greater(t, moments, 4)
	require.NoError(t, held.Release(soon(t)))
	want["slots"] = 0
	assert.Equal(t, want, c.counted(t, rdb))
	checkKeys(t, rdb, name)
}

// Calls fail soon if the server cannot be reached: nothing was sent that might have counted.
func TestAServerThatIsAwayIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	var dials atomic.Int64
	rdb := redis.NewClient(&redis.Options{MaxRetries: -1, DialerRetries: 1, Dialer: func(context.Context, string, string) (net.Conn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}})
	t.Cleanup(func() { _ = rdb.Close() })
	day, err := NewDailyCap(rdb, "away", 1, time.UTC)
	require.NoError(t, err)
	slots, err := NewSemaphore(rdb, "away", 1, time.Minute)
	require.NoError(t, err)
	for name, call := range map[string]func(context.Context) error{
		"Add":        func(ctx context.Context) error { _, err := day.Add(ctx, "member"); return err },
		"TryAcquire": func(ctx context.Context) error { _, err := slots.TryAcquire(ctx); return err },
	} {
		before := dials.Load()
		require.ErrorIs(t, call(soon(t)), syscall.ECONNREFUSED, name)
		assert.EqualValues(t, 1+maxReconnects, dials.Load()-before, name)
	}
}

// loseAll is a hook that loses the replies to all scripts of which it is told.
type loseAll struct{ lost atomic.Pointer[func()] }

func (l *loseAll) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *loseAll) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if told := l.lost.Load(); told != nil && err == nil && redistest.IsCall(cmd.Name()) {
			cmd.SetErr(errReplyLost)
			(*told)()
			return errReplyLost
		}
		return err
	}
}

func (l *loseAll) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A caller whose context ends while its call cannot be answered gets the error of the context, also between two attempts.
func TestACancelledCallSaysSoThoughItsReplyWasLost(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		calls := everyCall(t, rdb)
		for _, what := range []string{"refresh", "release"} {
			s := newSemaphore(t, rdb, newName(t, rdb), 1, time.Minute, WithoutRefresh())
			p, err := s.TryAcquire(soon(t))
			require.NoError(t, err)
			t.Cleanup(func() { p.end(nil) })
			call := map[string]func(context.Context) error{"refresh": p.Refresh, "release": p.Release}[what]
			calls[what] = func() (*limiter, func(context.Context) error) { return s.holders.limiter, call }
		}
		lost := &loseAll{}
		rdb.AddHook(lost)
		for what, operate := range calls {
			_, call := operate()
			ctx, cancel := context.WithCancel(soon(t))
			told := func() { cancel() }
			lost.lost.Store(&told)
			assert.ErrorIs(t, call(ctx), context.Canceled, what)
			lost.lost.Store(nil)
		}
	})
}
