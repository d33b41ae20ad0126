package limit

import (
	"context"
	"maps"
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

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// admission is what a limiter admitted, at a time by the server's clock.
type admission struct {
	at time.Time
	n  int64
}

// spans returns the most that was admitted within any span of a length that begins at an admission.
func mostIn(span time.Duration, admissions []admission) (most int64) {
	slices.SortFunc(admissions, byTime)
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

// demand calls ask from many goroutines over 20 clients for a while, and returns what was admitted and what was refused.
func demand(t *testing.T, server *redistest.Server, create func(rdb redis.UniversalClient) func(ctx context.Context, n int64) (Decision, error)) (admissions, refusals []admission) {
	t.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	until := time.Now().Add(demandFor)
	for range 20 {
		ask := create(server.Client(t))
		for range 3 {
			running.Go(func() {
				for time.Now().Before(until) {
					n := 1 + rand.Int64N(2)
					d, err := ask(t.Context(), n)
					if !assert.NoError(t, err) {
						return
					}
					mu.Lock()
					if d.Allowed {
						admissions = append(admissions, admission{d.At, n})
					} else {
						refusals = append(refusals, admission{d.At, n})
					}
					mu.Unlock()
				}
			})
		}
	}
	running.Wait()
	slices.SortFunc(admissions, byTime)
	require.NotEmpty(t, refusals)
	return admissions, refusals
}

func byTime(a, b admission) int { return a.at.Compare(b.at) }

// longestPause returns how long there was no demand at most: it depends on the machine.
func longestPause(lists ...[]admission) (longest time.Duration) {
	all := slices.Concat(lists...)
	slices.SortFunc(all, byTime)
	for i := 1; i < len(all); i++ {
		longest = max(longest, all[i].at.Sub(all[i-1].at))
	}
	return longest
}

// assertUsed checks that 95 % of what may be admitted was, if there was demand all the time. Whether each refusal was needed is
// checked in any case.
func assertUsed(t *testing.T, used int64, may float64, pause time.Duration) {
	t.Helper()
	t.Logf("%d of %.0f used, no demand for up to %v", used, may, pause)
	if pause < window/50 {
		assert.GreaterOrEqual(t, float64(used), may*0.95)
	}
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

// With 20 clients, no window admits more than it may, a call is refused only if its window is full, and windows within the demand
// are used up.
func TestAFixedWindowAdmitsWhatItMayAndNoMore(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newName(t, server.Client(t))
		admissions, refusals := demand(t, server, func(rdb redis.UniversalClient) func(context.Context, int64) (Decision, error) {
			w, err := NewFixedWindow(rdb, name, perWindow, window)
			require.NoError(t, err)
			return w.AllowN
		})
		counts := map[time.Time]int64{}
		for _, a := range admissions {
			counts[a.at.Truncate(window)] += a.n
		}
		var sum int64
		for _, count := range counts {
			assert.LessOrEqual(t, count, int64(perWindow))
			sum += count
		}
		for _, r := range refusals {
			begin := r.at.Truncate(window)
			require.Greater(t, total(between(admissions, begin, r.at.Add(1)))+r.n, int64(perWindow))
		}
		// The first and the last window may be partly outside of the demand.
		assertUsed(t, sum, float64(len(counts)-2)*perWindow, longestPause(admissions, refusals))
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

// With 20 clients, no span admits more than it may, wherever it begins, a call is refused only if the span is full, and what may
// be admitted is used.
func TestASlidingWindowAdmitsWhatItMayAndNoMore(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newName(t, server.Client(t))
		admissions, refusals := demand(t, server, func(rdb redis.UniversalClient) func(context.Context, int64) (Decision, error) {
			w, err := NewSlidingWindow(rdb, name, perWindow, window)
			require.NoError(t, err)
			return w.AllowN
		})
		assert.LessOrEqual(t, mostIn(window, admissions), int64(perWindow))
		for _, r := range refusals {
			require.Greater(t, total(between(admissions, r.at.Add(1-window), r.at.Add(1)))+r.n, int64(perWindow))
		}
		first := admissions[0].at
		spans := admissions[len(admissions)-1].at.Sub(first) / window
		used := total(between(admissions, first, first.Add(spans*window)))
		assertUsed(t, used, float64(spans)*perWindow, longestPause(admissions, refusals))
	})
}

// With 20 clients, no span admits more than the burst and what comes in meanwhile, a call is refused only if there are too few
// tokens, and what comes in is used.
func TestATokenBucketAdmitsWhatItMayAndNoMore(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newName(t, server.Client(t))
		const rate, burst = 130, 20 // a second
		admissions, refusals := demand(t, server, func(rdb redis.UniversalClient) func(context.Context, int64) (Decision, error) {
			b, err := NewTokenBucket(rdb, name, rate, time.Second, burst)
			require.NoError(t, err)
			return b.AllowN
		})
		tokens := assertConforms(t, admissions, rate, burst)
		for _, r := range refusals {
			last, _ := slices.BinarySearchFunc(admissions, admission{at: r.at.Add(1)}, byTime)
			if last > 0 { // the tokens of that moment
				got := min(burst, tokens[last-1]+r.at.Sub(admissions[last-1].at).Seconds()*rate)
				require.Less(t, got, float64(r.n)+0.01)
			}
		}
		lasted := admissions[len(admissions)-1].at.Sub(admissions[0].at)
		assertUsed(t, total(admissions), burst+rate*lasted.Seconds(), longestPause(admissions, refusals))
	})
}

// assertConforms checks that a bucket of a rate a second allows the admissions, by an own count of its tokens. It returns how many
// there were after each.
func assertConforms(t *testing.T, admissions []admission, rate, burst float64) (after []float64) {
	t.Helper()
	slices.SortFunc(admissions, byTime)
	tokens := burst
	for i, a := range admissions {
		if i > 0 {
			tokens = min(burst, tokens+a.at.Sub(admissions[i-1].at).Seconds()*rate)
		}
		tokens -= float64(a.n)
		require.GreaterOrEqual(t, tokens, -1e-6, "admission %d", i)
		after = append(after, tokens)
	}
	return after
}

// waitingLimiters are the limiters that callers wait for: 100 a second, of which 10 at once.
func waitingLimiters(t *testing.T, rdb redis.UniversalClient, name string) map[string]*reserver {
	b, err := NewTokenBucket(rdb, name, 100, time.Second, 10)
	require.NoError(t, err)
	w, err := NewSlidingWindow(rdb, name, 10, 100*time.Millisecond)
	require.NoError(t, err)
	return map[string]*reserver{"bucket": &b.reserver, "sliding": &w.reserver}
}

// Callers who wait get times of their own: what is admitted is what may be, nobody waits longer than needed, and nobody returns
// before the time.
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
				waited := map[time.Time]bool{}
				var running sync.WaitGroup
				for range 20 {
					r := waitingLimiters(t, server.Client(t), name)[kind]
					for range 3 {
						running.Go(func() {
							for range 3 {
								d, err := r.reserve(soon(t), 1)
								after, at := serverTime(t, rdb, r.state()), d.At.Add(d.RetryAfter)
								assert.NoError(t, err)
								assert.False(t, after.Before(at), "not before its time")
								mu.Lock()
								admissions = append(admissions, admission{at, 1})
								waited[at] = d.RetryAfter > 0
								mu.Unlock()
							}
						})
					}
				}
				running.Wait()
				require.Len(t, admissions, 180)
				needed := 0
				if kind == "bucket" {
					for i, tokens := range assertConforms(t, admissions, 100, 10) {
						if waited[admissions[i].at] {
							needed++
							assert.Less(t, tokens, 0.01, "who waited took the token when it came")
						}
					}
				} else {
					assert.LessOrEqual(t, mostIn(100*time.Millisecond, admissions), int64(10))
					for _, a := range admissions {
						if waited[a.at] {
							needed++
							before := between(admissions, a.at.Add(-100*time.Millisecond), a.at)
							assert.GreaterOrEqual(t, len(before), 10-sameTime(admissions, a.at)+1, "a microsecond earlier, the span was full")
						}
					}
				}
				t.Logf("%d waited", needed)
			})
		}
	})
}

// sameTime returns how many were admitted for a moment.
func sameTime(admissions []admission, at time.Time) int {
	return len(between(admissions, at, at.Add(1)))
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
			before := stateOf(t, rdb, r)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := r.Wait(ctx)
			assert.NoError(t, ctx.Err(), "it does not wait")
			cancel()
			assert.ErrorIs(t, err, ErrNotAcquired, kind)
			assert.ErrorIs(t, err, context.DeadlineExceeded, kind)
			assert.Equal(t, before, stateOf(t, rdb, r), kind)
			assert.ErrorIs(t, r.Wait(ctx), context.Canceled, kind)
		}
	})
}

// stateOf returns what a limiter has counted, without the records of calls.
func stateOf(t *testing.T, rdb redis.UniversalClient, r *reserver) map[string]string {
	t.Helper()
	fields, err := rdb.HGetAll(soon(t), r.state()).Result()
	require.NoError(t, err)
	maps.DeleteFunc(fields, func(field, _ string) bool {
		return strings.HasPrefix(field, "op:") || field == "records" || field == "swept"
	})
	return fields
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
			require.Eventually(t, func() bool { // on a slow machine, a call returns before all is given back
				again, err := r.Allow(soon(t))
				return err == nil && again.RetryAfter <= refused.RetryAfter
			}, patience, time.Millisecond, kind)
			again, err := r.Allow(soon(t))
			require.NoError(t, err)
			assert.False(t, again.Allowed, "what was used is not given back")
			assert.Greater(t, again.RetryAfter, refused.RetryAfter-2*patience, kind)
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
							d, err := r.reserve(ctx, n)
							if err == nil {
								mu.Lock()
								admissions = append(admissions, admission{d.At.Add(d.RetryAfter), n})
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

// Dedup records that are not needed any more go when others come: a limiter that many processes use one after the other does not grow.
func TestOldRecordsGo(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, name := server.Client(t), newName(t, server.Client(t))
		const old = 1000
		for i := range 2 * old / 50 {
			w, err := NewFixedWindow(rdb, name, 1<<40, time.Hour)
			require.NoError(t, err)
			d, err := w.Allow(soon(t))
			require.NoError(t, err)
			require.True(t, d.Allowed)
			if i == 0 {
				for k := range old {
					require.NoError(t, rdb.HSet(soon(t), w.state(), "op:@old"+strconv.Itoa(k), "1000:1:1 0 0 0").Err())
				}
			}
		}
		w, err := NewFixedWindow(rdb, name, 1<<40, time.Hour)
		require.NoError(t, err)
		fields, err := rdb.HKeys(soon(t), w.state()).Result()
		require.NoError(t, err)
		left := slices.DeleteFunc(fields, func(field string) bool { return !strings.HasPrefix(field, "op:@old") })
		assert.Less(t, len(left), old/10)
	})
}
