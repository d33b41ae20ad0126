package limit

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(redistest.Main(m))
}

// patience bounds what only a hang would break.
const patience = time.Minute

// soon returns a context for calls that must not hang.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// newName returns a name that no other test uses. When the test ends, each key of that name must have a TTL.
func newName(t testing.TB, rdb redis.UniversalClient) string {
	name := "limit-" + uuid.NewString()
	t.Cleanup(func() { checkKeys(t, rdb, name) })
	return name
}

// keysOf returns the keys of all limiters of a name.
func keysOf(t testing.TB, rdb redis.UniversalClient, name string) (keys []string) {
	t.Helper()
	var mu sync.Mutex
	look := func(ctx context.Context, node *redis.Client) error {
		found, err := node.Keys(ctx, "{"+name+"}*").Result()
		mu.Lock()
		defer mu.Unlock()
		keys = append(keys, found...)
		return err
	}
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		require.NoError(t, cluster.ForEachMaster(context.Background(), look))
	} else {
		require.NoError(t, look(context.Background(), rdb.(*redis.Client)))
	}
	return keys
}

// checkKeys fails the test if a key has no TTL.
func checkKeys(t testing.TB, rdb redis.UniversalClient, name string) {
	t.Helper()
	for _, key := range keysOf(t, rdb, name) {
		ttl, err := rdb.PTTL(context.Background(), key).Result()
		require.NoError(t, err)
		assert.NotEqual(t, time.Duration(-1), ttl, "%s has no TTL", key)
	}
}

// blocked waits until the BLPOP of who waits is with the server, and the semaphore is armed.
func blocked(t testing.TB, rdb redis.UniversalClient, h *holders) {
	t.Helper()
	require.Eventually(t, func() bool {
		h.queue.mu.Lock()
		defer h.queue.mu.Unlock()
		return h.queue.emptied != nil && rdb.ZScore(context.Background(), h.state(), "armed").Err() == nil
	}, patience, time.Millisecond)
}

func TestBadArgumentsAreErrorsThatChangeNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		var none *redis.Client
		name := newName(t, rdb)
		second := time.Second
		for what, create := range map[string]func() (any, error){
			"fixed, limit":        func() (any, error) { return NewFixedWindow(rdb, name, 0, second) },
			"fixed, length":       func() (any, error) { return NewFixedWindow(rdb, name, 1, 0) },
			"fixed, too long":     func() (any, error) { return NewFixedWindow(rdb, name, 1, maxSpan+1) },
			"fixed, name":         func() (any, error) { return NewFixedWindow(rdb, "", 1, second) },
			"fixed, client":       func() (any, error) { return NewFixedWindow(nil, name, 1, second) },
			"fixed, nil client":   func() (any, error) { return NewFixedWindow(none, name, 1, second) },
			"sliding, limit":      func() (any, error) { return NewSlidingWindow(rdb, name, -1, second) },
			"sliding, too much":   func() (any, error) { return NewSlidingWindow(rdb, name, maxLog+1, second) },
			"sliding, length":     func() (any, error) { return NewSlidingWindow(rdb, name, 1, -second) },
			"sliding, name":       func() (any, error) { return NewSlidingWindow(rdb, "", 1, second) },
			"bucket, rate":        func() (any, error) { return NewTokenBucket(rdb, name, 0, second, 1) },
			"bucket, rate > 1/µs": func() (any, error) { return NewTokenBucket(rdb, name, 1001, time.Millisecond, 1) },
			"bucket, burst":       func() (any, error) { return NewTokenBucket(rdb, name, 1, second, 0) },
			"bucket, eternity":    func() (any, error) { return NewTokenBucket(rdb, name, 1, maxSpan, 2) },
			"bucket, client":      func() (any, error) { return NewTokenBucket(nil, name, 1, second, 1) },
			"day, number":         func() (any, error) { return NewDailyCap(rdb, name, 0, time.UTC) },
			"day, location":       func() (any, error) { return NewDailyCap(rdb, name, 1, nil) },
			"semaphore, number":   func() (any, error) { return NewSemaphore(rdb, name, 0, second) },
			"semaphore, lease":    func() (any, error) { return NewSemaphore(rdb, name, 1, time.Millisecond) },
			"lock, name":          func() (any, error) { return NewLock(rdb, "", second) },
		} {
			_, err := create()
			assert.ErrorIs(t, err, ErrLimit, what)
			assert.ErrorContains(t, err, "limit: ", what)
		}
		fixed, err := NewFixedWindow(rdb, name, 3, second)
		require.NoError(t, err)
		sliding, err := NewSlidingWindow(rdb, name, 3, second)
		require.NoError(t, err)
		bucket, err := NewTokenBucket(rdb, name, 1, second, 3)
		require.NoError(t, err)
		for _, n := range []int64{0, -1, 4} {
			for _, allow := range []func(context.Context, int64) (Decision, error){fixed.AllowN, sliding.AllowN, bucket.AllowN} {
				_, err := allow(soon(t), n)
				assert.ErrorIs(t, err, ErrLimit)
				assert.ErrorContains(t, err, fmt.Sprintf("%q", name))
			}
			assert.ErrorIs(t, sliding.WaitN(soon(t), n), ErrLimit)
			assert.ErrorIs(t, bucket.WaitN(soon(t), n), ErrLimit)
		}
		assert.Empty(t, keysOf(t, rdb, name))
	})
}

// An error of the server is in the chain, and says what was done to which limiter. It changes nothing.
func TestAWrongTypeIsAnErrorThatChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for what, operate := range everyCall(t, rdb) {
			l, call := operate()
			key := l.state()
			if l.kind == "day" {
				key = (&DailyCap{l, 5, time.UTC}).key(dayOf(serverTime(t, rdb, key), time.UTC))
			}
			require.NoError(t, rdb.RPush(soon(t), key, "x").Err())
			require.NoError(t, rdb.Expire(soon(t), key, time.Hour).Err())
			err := call(soon(t))
			assert.ErrorContains(t, err, "WRONGTYPE", what)
			assert.ErrorContains(t, err, fmt.Sprintf("%s %q", l.kind, l.name), what)
			assert.Equal(t, []string{"x"}, rdb.LRange(soon(t), key, 0, -1).Val(), what)
			assert.Equal(t, []string{key}, keysOf(t, rdb, l.name), what)
		}
	})
}

// everyCall returns one call of each kind, each on a new limiter.
func everyCall(t *testing.T, rdb redis.UniversalClient) map[string]func() (*limiter, func(context.Context) error) {
	t.Helper()
	allow := func(allow func(context.Context) (Decision, error)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := allow(ctx)
			return err
		}
	}
	return map[string]func() (*limiter, func(context.Context) error){
		"fixed": func() (*limiter, func(context.Context) error) {
			w, err := NewFixedWindow(rdb, newName(t, rdb), 5, time.Hour)
			require.NoError(t, err)
			return w.limiter, allow(w.Allow)
		},
		"sliding": func() (*limiter, func(context.Context) error) {
			w, err := NewSlidingWindow(rdb, newName(t, rdb), 5, time.Hour)
			require.NoError(t, err)
			return w.limiter, allow(w.Allow)
		},
		"sliding, wait": func() (*limiter, func(context.Context) error) {
			w, err := NewSlidingWindow(rdb, newName(t, rdb), 5, time.Hour)
			require.NoError(t, err)
			return w.limiter, w.Wait
		},
		"bucket": func() (*limiter, func(context.Context) error) {
			b, err := NewTokenBucket(rdb, newName(t, rdb), 1, time.Hour, 5)
			require.NoError(t, err)
			return b.limiter, allow(b.Allow)
		},
		"bucket, wait": func() (*limiter, func(context.Context) error) {
			b, err := NewTokenBucket(rdb, newName(t, rdb), 1, time.Hour, 5)
			require.NoError(t, err)
			return b.limiter, b.Wait
		},
		"day": func() (*limiter, func(context.Context) error) {
			c, err := NewDailyCap(rdb, newName(t, rdb), 5, time.UTC)
			require.NoError(t, err)
			return c.limiter, func(ctx context.Context) error {
				_, err := c.Add(ctx, "member")
				return err
			}
		},
		"semaphore, try": func() (*limiter, func(context.Context) error) {
			s, err := NewSemaphore(rdb, newName(t, rdb), 5, time.Minute, WithoutRefresh())
			require.NoError(t, err)
			return s.holders.limiter, func(ctx context.Context) error {
				p, err := s.TryAcquire(ctx)
				if err == nil {
					t.Cleanup(func() { p.end(nil) })
				}
				return err
			}
		},
		"semaphore": func() (*limiter, func(context.Context) error) {
			s, err := NewSemaphore(rdb, newName(t, rdb), 5, time.Minute, WithoutRefresh())
			require.NoError(t, err)
			return s.holders.limiter, func(ctx context.Context) error {
				p, err := s.Acquire(ctx)
				if err == nil {
					t.Cleanup(func() { p.end(nil) })
				}
				return err
			}
		},
		"lock": func() (*limiter, func(context.Context) error) {
			l, err := NewLock(rdb, newName(t, rdb), time.Minute, WithoutRefresh())
			require.NoError(t, err)
			return l.holders.limiter, func(ctx context.Context) error {
				h, err := l.TryLock(ctx)
				if err == nil {
					t.Cleanup(func() { h.end(nil) })
				}
				return err
			}
		},
	}
}

// The well-known fault: a count and its TTL are two commands, and the client dies in between. The count stays for ever, and so
// does the refusal. Here both are one script, so at no moment is there a key without a TTL.
func TestTheNaiveLimiterRefusesForEverAndTheseDoNot(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, ctx := server.Client(t), soon(t)
		naive := "{naive-" + uuid.NewString() + "}"
		t.Cleanup(func() { rdb.Del(context.Background(), naive) })
		require.NoError(t, rdb.Incr(ctx, naive).Err()) // the client dies here, before EXPIRE
		assert.Equal(t, time.Duration(-1), rdb.TTL(ctx, naive).Val(), "the key never expires")

		// Whatever commands a client of the library manages to send, each leaves a TTL on every key.
		for what, operate := range everyCall(t, rdb) {
			l, call := operate()
			require.NoError(t, call(ctx), what)
			require.NotEmpty(t, keysOf(t, rdb, l.name), what)
			checkKeys(t, rdb, l.name)
		}
	})
}

// Each operation works on a server that has just forgotten all scripts.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Embedded, redistest.Redis, redistest.Cluster, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			rdb := server.Client(t)
			for what, operate := range everyCall(t, rdb) {
				_, call := operate()
				for range 2 {
					for _, node := range server.Nodes() {
						require.NoError(t, node.Client(t).ScriptFlush(soon(t)).Err())
					}
					if strings.HasPrefix(what, "lock") {
						_, call = operate()
					}
					assert.NoError(t, call(soon(t)), what)
				}
			}
		})
	}
}

// Over maxmemory, what admits is refused with the server's error, and changes nothing. What is full says so, what was taken can
// be released and refreshed, and what waits can be given back.
func TestFullMemoryRefusesAndReleases(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t)
			ctx := soon(t)
			for what, operate := range everyCall(t, rdb) { // the scripts are loaded
				_, call := operate()
				require.NoError(t, call(ctx), what)
			}
			semaphore, err := NewSemaphore(rdb, newName(t, rdb), 1, time.Minute, WithoutRefresh())
			require.NoError(t, err)
			held, err := semaphore.TryAcquire(ctx)
			require.NoError(t, err)
			bucket, err := NewTokenBucket(rdb, newName(t, rdb), 1, time.Hour, 1)
			require.NoError(t, err)
			sliding, err := NewSlidingWindow(rdb, newName(t, rdb), 1, time.Hour)
			require.NoError(t, err)
			fixed, err := NewFixedWindow(rdb, newName(t, rdb), 1, time.Hour)
			require.NoError(t, err)
			allows := []func(context.Context) (Decision, error){bucket.Allow, sliding.Allow, fixed.Allow}
			for _, allow := range allows {
				decision, err := allow(ctx)
				require.NoError(t, err)
				require.True(t, decision.Allowed)
			}
			waiting, cancel := context.WithCancel(t.Context()) // without a deadline
			waits := make(chan error)
			for _, wait := range []func(context.Context) error{bucket.Wait, sliding.Wait} {
				go func() { waits <- wait(waiting) }()
			}
			require.Eventually(t, func() bool {
				return rdb.HGet(ctx, sliding.state(), "next").Val() == "3" && debt(t, rdb, bucket) > 90*time.Minute
			}, patience, time.Millisecond)
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())

			for what, operate := range everyCall(t, rdb) {
				l, call := operate()
				assert.ErrorContains(t, call(ctx), "OOM", what)
				assert.Empty(t, keysOf(t, rdb, l.name), what)
			}
			for _, allow := range allows {
				decision, err := allow(ctx)
				assert.NoError(t, err)
				assert.False(t, decision.Allowed)
			}
			cancel()
			for range 2 {
				assert.ErrorIs(t, <-waits, context.Canceled)
			}
			assert.Equal(t, "2", rdb.HGet(ctx, sliding.state(), "next").Val())
			assert.Less(t, debt(t, rdb, bucket), 90*time.Minute)
			_, err = semaphore.TryAcquire(ctx)
			assert.ErrorIs(t, err, ErrNotAcquired)
			assert.NoError(t, held.Refresh(ctx))
			assert.NoError(t, held.Release(ctx))
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
			held, err = semaphore.TryAcquire(ctx)
			require.NoError(t, err)
			assert.NoError(t, held.Release(ctx))
		})
	}
}

// debt returns how long it takes until the bucket is full.
func debt(t testing.TB, rdb redis.UniversalClient, b *TokenBucket) time.Duration {
	t.Helper()
	tat, err := rdb.HGet(context.Background(), b.state(), "tat").Float64()
	if err == redis.Nil {
		return 0
	}
	require.NoError(t, err)
	return time.Duration(tat-float64(serverTime(t, rdb, b.state()).UnixMicro())) * time.Microsecond
}

// serverTime returns the time of the server that has the key.
func serverTime(t testing.TB, rdb redis.UniversalClient, key string) time.Time {
	t.Helper()
	reply, err := rdb.Eval(context.Background(), "return redis.call('TIME')", []string{key}).StringSlice()
	require.NoError(t, err)
	var seconds, micros int64
	_, err = fmt.Sscan(reply[0]+" "+reply[1], &seconds, &micros)
	require.NoError(t, err)
	return time.Unix(seconds, micros*1000)
}
