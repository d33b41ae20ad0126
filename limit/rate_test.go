package limit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// admission is what a limiter admitted, at a time by the server's clock.
type admission struct {
	at time.Time
	n  int64
}

// spans returns the most that was admitted within any span of a length that begins at an admission.
func mostIn(span time.Duration, admissions []admission) (most int64) {
	slices.SortFunc(admissions, func(a, b admission) int { return a.at.Compare(b.at) })
	var sum int64
	from := 0
	for _, a := range admissions {
		sum += a.n
		for a.at.Sub(admissions[from].at) >= span {
			sum -= admissions[from].n
			from++
		}
		most = max(most, sum)
	}
	return most
}

// demand calls ask from many goroutines over 20 clients for a while, and returns what was admitted.
func demand(t *testing.T, server *redistest.Server, last time.Duration, create func(rdb redis.UniversalClient) func(ctx context.Context) (admission, bool, error)) []admission {
	t.Helper()
	var mu sync.Mutex
	var admissions []admission
	var running sync.WaitGroup
	until := time.Now().Add(last)
	for range 20 {
		ask := create(server.Client(t))
		for range 3 {
			running.Go(func() {
				for time.Now().Before(until) {
					got, allowed, err := ask(t.Context())
					if !assert.NoError(t, err) {
						return
					}
					if allowed {
						mu.Lock()
						admissions = append(admissions, got)
						mu.Unlock()
					}
				}
			})
		}
	}
	running.Wait()
	return admissions
}

func total(admissions []admission) (n int64) {
	for _, a := range admissions {
		n += a.n
	}
	return n
}

// between returns the admissions from one time on until before another.
func between(admissions []admission, from, to time.Time) (within []admission) {
	for _, a := range admissions {
		if !a.at.Before(from) && a.at.Before(to) {
			within = append(within, a)
		}
	}
	return within
}

const (
	window    = 500 * time.Millisecond
	perWindow = 60
	demandFor = 2500 * time.Millisecond
)

// With 20 clients, no window admits more than it may, and those that lie within the demand are used up.
func TestAFixedWindowAdmitsWhatItMayAndNoMore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newName(t, server.Client(t))
		admissions := demand(t, server, demandFor, func(rdb redis.UniversalClient) func(context.Context) (admission, bool, error) {
			w, err := NewFixedWindow(rdb, name, perWindow, window)
			require.NoError(t, err)
			return func(ctx context.Context) (admission, bool, error) {
				n := 1 + rand.Int64N(2)
				d, err := w.AllowN(ctx, n)
				return admission{d.At, n}, d.Allowed, err
			}
		})
		counts := map[time.Time]int64{}
		for _, a := range admissions {
			counts[a.at.Truncate(window)] += a.n
		}
		require.GreaterOrEqual(t, len(counts), 4)
		var sum int64
		for _, count := range counts {
			assert.LessOrEqual(t, count, int64(perWindow))
			sum += count
		}
		// The first and the last window may be partly outside of the demand.
		assert.GreaterOrEqual(t, sum, int64(float64(len(counts)-2)*perWindow*0.95))
	})
}

// At the border of two windows, a fixed window admits twice as many within a moment, as documented. A sliding window does not.
func TestOnlyAFixedWindowHasADoubleBurst(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		name := newName(t, rdb)
		const span = time.Second
		fixed, err := NewFixedWindow(rdb, name, 10, span)
		require.NoError(t, err)
		sliding, err := NewSlidingWindow(rdb, name, 10, span)
		require.NoError(t, err)
		burst := func(allow func(context.Context) (Decision, error)) (admissions []admission) {
			for range 15 {
				d, err := allow(soon(t))
				require.NoError(t, err)
				if d.Allowed {
					admissions = append(admissions, admission{d.At, 1})
				}
			}
			return admissions
		}
		var ofFixed, ofSliding []admission
		for deadline := time.Now().Add(patience); ; { // until both bursts meet the border of two windows
			now := serverTime(t, rdb, fixed.state())
			border := now.Truncate(span).Add(span)
			<-time.After(border.Sub(now) - span/10)
			ofFixed, ofSliding = burst(fixed.Allow), burst(sliding.Allow)
			<-time.After(border.Sub(serverTime(t, rdb, fixed.state())))
			ofFixed, ofSliding = append(ofFixed, burst(fixed.Allow)...), append(ofSliding, burst(sliding.Allow)...)
			if mostIn(span/2, ofFixed) == 20 {
				break
			}
			require.True(t, time.Now().Before(deadline), "the machine is too slow to burst within half a second")
			<-time.After(span) // the sliding window is empty then
		}
		assert.Equal(t, int64(10), mostIn(span, ofSliding))
	})
}

// With 20 clients, no span admits more than it may, wherever it begins, and what may be admitted is used.
func TestASlidingWindowAdmitsWhatItMayAndNoMore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newName(t, server.Client(t))
		admissions := demand(t, server, demandFor, func(rdb redis.UniversalClient) func(context.Context) (admission, bool, error) {
			w, err := NewSlidingWindow(rdb, name, perWindow, window)
			require.NoError(t, err)
			return func(ctx context.Context) (admission, bool, error) {
				n := 1 + rand.Int64N(2)
				d, err := w.AllowN(ctx, n)
				return admission{d.At, n}, d.Allowed, err
			}
		})
		assert.LessOrEqual(t, mostIn(window, admissions), int64(perWindow))
		first := admissions[0].at
		spans := admissions[len(admissions)-1].at.Sub(first) / window
		require.GreaterOrEqual(t, spans, time.Duration(3))
		used := total(between(admissions, first, first.Add(spans*window)))
		assert.GreaterOrEqual(t, used, int64(float64(spans)*perWindow*0.95))
	})
}

// With 20 clients, no span admits more than the burst and what comes in meanwhile, and what comes in is used.
func TestATokenBucketAdmitsWhatItMayAndNoMore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newName(t, server.Client(t))
		const rate, burst = 130, 20 // a second
		admissions := demand(t, server, demandFor, func(rdb redis.UniversalClient) func(context.Context) (admission, bool, error) {
			b, err := NewTokenBucket(rdb, name, rate, time.Second, burst)
			require.NoError(t, err)
			return func(ctx context.Context) (admission, bool, error) {
				n := 1 + rand.Int64N(2)
				d, err := b.AllowN(ctx, n)
				return admission{d.At, n}, d.Allowed, err
			}
		})
		assertConforms(t, admissions, rate, burst)
		lasted := admissions[len(admissions)-1].at.Sub(admissions[0].at)
		assert.GreaterOrEqual(t, float64(total(admissions)), (burst+rate*lasted.Seconds())*0.95)
	})
}

// assertConforms checks that a bucket of a rate a second allows the admissions, by an own count of its tokens.
func assertConforms(t *testing.T, admissions []admission, rate, burst float64) {
	t.Helper()
	slices.SortFunc(admissions, func(a, b admission) int { return a.at.Compare(b.at) })
	tokens := burst
	for i, a := range admissions {
		if i > 0 {
			tokens = min(burst, tokens+a.at.Sub(admissions[i-1].at).Seconds()*rate)
		}
		tokens -= float64(a.n)
		require.GreaterOrEqual(t, tokens, -1e-6, "admission %d", i)
	}
}

// waitingLimiters are the limiters that callers wait for: 100 a second, of which 10 at once.
func waitingLimiters(t *testing.T, rdb redis.UniversalClient, name string) map[string]*reserver {
	b, err := NewTokenBucket(rdb, name, 100, time.Second, 10)
	require.NoError(t, err)
	w, err := NewSlidingWindow(rdb, name, 10, 100*time.Millisecond)
	require.NoError(t, err)
	return map[string]*reserver{"bucket": &b.reserver, "sliding": &w.reserver}
}

// Callers who wait get times of their own: what is admitted is what may be, no time is left out, and nobody returns before the
// time.
func TestWhoWaitsIsServedAtTheRate(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for kind := range waitingLimiters(t, rdb, "x") {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				name := newName(t, rdb)
				var mu sync.Mutex
				var admissions []admission
				var running sync.WaitGroup
				for range 20 {
					r := waitingLimiters(t, server.Client(t), name)[kind]
					for range 9 { // all at once, so that somebody waits all the time
						running.Go(func() {
							at, err := r.reserve(soon(t), 1)
							now := serverTime(t, rdb, r.state())
							assert.NoError(t, err)
							assert.False(t, now.Before(at), "not before its time")
							mu.Lock()
							admissions = append(admissions, admission{at, 1})
							mu.Unlock()
						})
					}
				}
				running.Wait()
				require.Len(t, admissions, 180)
				if kind == "bucket" {
					assertConforms(t, admissions, 100, 10)
				} else {
					assert.LessOrEqual(t, mostIn(100*time.Millisecond, admissions), int64(10))
				}
				lasted := admissions[179].at.Sub(admissions[0].at).Seconds()
				assert.LessOrEqual(t, lasted, 1.7/0.95, "180 calls take 1.7 s if none of the rate is left out")
			})
		}
	})
}

// Each call that reaches the server gets a time after those of the calls before it, however many it is for.
func TestTimesAreGivenInOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for kind, r := range waitingLimiters(t, rdb, newName(t, rdb)) {
			var last time.Time
			for i := range 40 {
				reply, err := r.take(1+rand.Int64N(10), patience).Run(soon(t))
				require.NoError(t, err)
				d, _, err := readVerdict(reply)
				require.NoError(t, err)
				require.True(t, d.Allowed)
				at := d.At.Add(d.RetryAfter)
				require.False(t, at.Before(last), "%s, call %d", kind, i)
				last = at
			}
			d, err := r.Allow(soon(t))
			require.NoError(t, err)
			assert.False(t, d.Allowed, "nobody overtakes them")
			assert.Zero(t, d.Remaining)
		}
	})
}

// A wait whose time would be after the deadline fails at once and takes nothing.
func TestAWaitBeyondItsDeadlineTakesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for kind, r := range slowLimiters(t, rdb, newName(t, rdb)) {
			require.NoError(t, r.WaitN(soon(t), 2))
			before := rdb.HGetAll(soon(t), r.state()).Val()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := r.Wait(ctx)
			assert.NoError(t, ctx.Err(), "it does not wait")
			cancel()
			assert.ErrorIs(t, err, ErrNotAcquired, kind)
			assert.ErrorIs(t, err, context.DeadlineExceeded, kind)
			assert.Equal(t, before, rdb.HGetAll(soon(t), r.state()).Val(), kind)
			assert.ErrorIs(t, r.Wait(ctx), context.Canceled, kind)
		}
	})
}

// slowLimiters admit two calls at once, and further ones at intervals of half an hour or more.
func slowLimiters(t *testing.T, rdb redis.UniversalClient, name string) map[string]*reserver {
	b, err := NewTokenBucket(rdb, name, 2, time.Hour, 2)
	require.NoError(t, err)
	w, err := NewSlidingWindow(rdb, name, 2, time.Hour)
	require.NoError(t, err)
	return map[string]*reserver{"bucket": &b.reserver, "sliding": &w.reserver}
}

// Callers who are cancelled while they wait return soon, and give back what they had, in whatever order they go.
func TestCancelledWaitsAreGivenBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for kind, r := range slowLimiters(t, rdb, newName(t, rdb)) {
			require.NoError(t, r.WaitN(soon(t), 2))
			refused, err := r.Allow(soon(t))
			require.NoError(t, err)
			var canceled atomic.Int64
			var running sync.WaitGroup
			var cancels []context.CancelFunc
			for i := range 12 {
				ctx, cancel := context.WithCancel(t.Context())
				cancels = append(cancels, cancel)
				running.Go(func() {
					if err := r.WaitN(ctx, 1+int64(i%2)); assert.ErrorIs(t, err, context.Canceled, kind) {
						canceled.Add(1)
					}
				})
			}
			require.Eventually(t, func() bool { // all wait
				d, err := r.Allow(soon(t))
				return err == nil && d.RetryAfter > refused.RetryAfter+8*time.Hour ||
					rdb.HGet(soon(t), r.state(), "next").Val() == "14"
			}, patience, time.Millisecond)
			rand.Shuffle(len(cancels), func(i, j int) { cancels[i], cancels[j] = cancels[j], cancels[i] })
			for _, cancel := range cancels {
				cancel()
			}
			running.Wait()
			assert.Equal(t, int64(12), canceled.Load())
			again, err := r.Allow(soon(t))
			require.NoError(t, err)
			assert.False(t, again.Allowed, "what was used is not given back")
			assert.LessOrEqual(t, again.RetryAfter, refused.RetryAfter, kind)
			assert.Greater(t, again.RetryAfter, refused.RetryAfter-time.Minute, kind)
		}
	})
}

// Callers go at random while others wait: what is admitted in the end still is no more than may be.
func TestCancelledWaitsAdmitNoMoreThanMayBe(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for kind := range waitingLimiters(t, rdb, "x") {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				r := waitingLimiters(t, rdb, newName(t, rdb))[kind]
				var mu sync.Mutex
				var admissions []admission
				var canceled atomic.Int64
				var running sync.WaitGroup
				for range 30 {
					running.Go(func() {
						for range 6 {
							ctx, cancel := context.WithCancel(t.Context())
							timer := time.AfterFunc(time.Duration(rand.Int64N(int64(400*time.Millisecond))), cancel)
							n := 1 + rand.Int64N(3)
							at, err := r.reserve(ctx, n)
							if err == nil {
								mu.Lock()
								admissions = append(admissions, admission{at, n})
								mu.Unlock()
							} else {
								assert.ErrorIs(t, err, context.Canceled)
								canceled.Add(1)
							}
							timer.Stop()
							cancel()
						}
					})
				}
				running.Wait()
				require.Greater(t, canceled.Load(), int64(10))
				require.Greater(t, len(admissions), 10)
				if kind == "bucket" {
					assertConforms(t, admissions, 100, 10)
				} else {
					assert.LessOrEqual(t, mostIn(100*time.Millisecond, admissions), int64(10))
				}
			})
		}
	})
}

// An idle log is dropped by its TTL; one in use drops what has left the window.
func TestASlidingLogIsBounded(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		w, err := NewSlidingWindow(rdb, newName(t, rdb), 250, 20*time.Millisecond)
		require.NoError(t, err)
		for range 2000 {
			_, err := w.Allow(soon(t))
			require.NoError(t, err)
		}
		state := rdb.HGetAll(soon(t), w.state()).Val()
		assert.LessOrEqual(t, len(state), 250+100+4)
	})
}
