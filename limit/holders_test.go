package limit

import (
	"context"
	"errors"
	"os"
	"os/exec"
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

func newSemaphore(t testing.TB, rdb redis.UniversalClient, name string, n int64, lease time.Duration, options ...Option) *Semaphore {
	t.Helper()
	s, err := NewSemaphore(rdb, name, n, lease, options...)
	require.NoError(t, err)
	return s
}

// newSleeper returns a semaphore with a client of its own, as of another process. Who waits for it sleeps until it is woken: no
// BLPOP ends in time to hide a wake-up that is lost.
func newSleeper(t testing.TB, server *redistest.Server, name string, n int64) *Semaphore {
	t.Helper()
	rdb := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = -1 })
	s := newSemaphore(t, rdb, name, n, time.Hour)
	s.holders.queue.slice = time.Hour
	return s
}

// With 20 clients, there are never more holders than shares: each writes itself down on the server while it holds one.
func TestASemaphoreNeverHasMoreHoldersThanShares(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		name := newName(t, rdb)
		inside := "{" + name + "}inside" // a counter of the server's own
		const shares = 4
		var most, full, held atomic.Int64
		var running sync.WaitGroup
		for range 20 {
			client := server.Client(t)
			s := newSemaphore(t, client, name, shares, patience)
			for i := range 3 {
				running.Go(func() {
					for range 8 {
						acquire := s.Acquire
						if i == 0 {
							acquire = s.TryAcquire
						}
						p, err := acquire(soon(t))
						if errors.Is(err, ErrNotAcquired) {
							full.Add(1)
							continue
						}
						if !assert.NoError(t, err) {
							return
						}
						now := client.Eval(soon(t), "redis.call('PEXPIRE', KEYS[1], 60000) return redis.call('INCR', KEYS[1])", []string{inside}).Val()
						for old := most.Load(); now.(int64) > old && !most.CompareAndSwap(old, now.(int64)); old = most.Load() {
						}
						held.Add(1)
						assert.NoError(t, client.Decr(soon(t), inside).Err())
						assert.NoError(t, p.Release(soon(t)))
					}
				})
			}
		}
		running.Wait()
		rdb.Del(soon(t), inside)
		assert.LessOrEqual(t, most.Load(), int64(shares))
		assert.Greater(t, most.Load(), int64(1))
		assert.GreaterOrEqual(t, held.Load(), int64(320), "each Acquire gets a share")
		assert.Greater(t, full.Load(), int64(0))
	})
}

// A caller who waits is woken by a release, and not by the end of the lease.
func TestAReleaseWakesWhoWaits(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSleeper(t, server, newName(t, rdb), 1)
		other := newSleeper(t, server, s.holders.name, 1)
		held, err := s.TryAcquire(soon(t))
		require.NoError(t, err)
		for range 10 {
			got := make(chan *Permit)
			go func() {
				p, err := other.Acquire(soon(t))
				assert.NoError(t, err)
				got <- p
			}()
			blocked(t, rdb, other.holders)
			require.NoError(t, held.Release(soon(t)))
			began := time.Now()
			held = <-got
			require.NotNil(t, held)
			assert.Less(t, time.Since(began), 10*time.Second)
			checkKeys(t, rdb, s.holders.name)
			s, other = other, s
		}
		require.NoError(t, held.Release(soon(t)))
	})
}

// Two processes wait. The release of one share wakes one of them, and the next release the other, since a call that was woken
// arms again. The release of two shares at once wakes both, since a call that was woken rings on if it leaves a share.
func TestOneWakeUpLeadsToTheNext(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSemaphore(t, rdb, newName(t, rdb), 2, time.Hour)
		for _, atOnce := range []bool{false, true} {
			first, err := s.TryAcquire(soon(t))
			require.NoError(t, err)
			second, err := s.TryAcquire(soon(t))
			require.NoError(t, err)
			got := make(chan *Permit, 2)
			for range 2 {
				other := newSleeper(t, server, s.holders.name, 2)
				go func() {
					p, err := other.Acquire(soon(t))
					assert.NoError(t, err)
					got <- p
				}()
				blocked(t, rdb, other.holders)
			}
			if atOnce {
				held, _, err := s.holders.release(soon(t), false, first.id, second.id)
				require.NoError(t, err)
				require.Equal(t, int64(2), held)
				first.end(nil)
				second.end(nil)
			} else {
				require.NoError(t, first.Release(soon(t)))
				p := <-got
				require.NotNil(t, p)
				got <- p
				require.NoError(t, second.Release(soon(t)))
			}
			for range 2 {
				p := <-got
				require.NotNil(t, p)
				require.NoError(t, p.Release(soon(t)))
			}
		}
	})
}

// A wake-up reaches whoever waits, however many do in however many processes, and one release after the other: nobody is left
// waiting beside a free share.
func TestNoWakeUpIsLost(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		name := newName(t, server.Client(t))
		var running sync.WaitGroup
		for range 5 {
			s := newSleeper(t, server, name, 2)
			for range 4 {
				running.Go(func() {
					for range 5 {
						p, err := s.Acquire(soon(t))
						if assert.NoError(t, err) {
							assert.NoError(t, p.Release(soon(t)))
						}
					}
				})
			}
		}
		running.Wait()
	})
}

// A release while others wait gives them the share in the order in which they came, if they wait through one value.
func TestWaitersOfOneValueAreServedInOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSemaphore(t, rdb, newName(t, rdb), 1, time.Hour)
		held, err := s.TryAcquire(soon(t))
		require.NoError(t, err)
		served := make(chan int)
		var running sync.WaitGroup
		for i := range 10 {
			running.Go(func() {
				p, err := s.Acquire(soon(t))
				assert.NoError(t, err)
				served <- i
				assert.NoError(t, p.Release(soon(t)))
			})
			require.Eventually(t, func() bool {
				s.holders.queue.mu.Lock()
				defer s.holders.queue.mu.Unlock()
				return s.holders.queue.waiting.Len() == i+1
			}, patience, time.Millisecond)
		}
		require.NoError(t, held.Release(soon(t)))
		for i := range 10 {
			assert.Equal(t, i, <-served)
		}
		running.Wait()
	})
}

// Who is cancelled while waiting returns soon. It holds nothing, takes no wake-up along, and leaves no goroutine, see TestMain.
func TestACancelledAcquireLeavesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSleeper(t, server, newName(t, rdb), 1)
		held, err := s.TryAcquire(soon(t))
		require.NoError(t, err)
		for range 5 {
			ctx, cancel := context.WithCancel(t.Context())
			errs := make(chan error)
			for range 3 {
				go func() {
					_, err := s.Acquire(ctx)
					errs <- err
				}()
			}
			blocked(t, rdb, s.holders)
			began := time.Now()
			cancel()
			for range 3 {
				assert.ErrorIs(t, <-errs, context.Canceled)
			}
			assert.Less(t, time.Since(began), 10*time.Second)
		}
		require.Eventually(t, func() bool {
			s.holders.queue.mu.Lock()
			defer s.holders.queue.mu.Unlock()
			return !s.holders.queue.serving
		}, patience, time.Millisecond)
		assert.Equal(t, []string{s.holders.state()}, keysOf(t, rdb, s.holders.name))
		holders, err := rdb.ZCount(soon(t), s.holders.state(), "(0", "+inf").Result()
		require.NoError(t, err)
		assert.Equal(t, int64(1), holders)
		require.NoError(t, held.Release(soon(t)))
		held, err = s.TryAcquire(soon(t))
		require.NoError(t, err, "nobody else holds the share")
		require.NoError(t, held.Release(soon(t)))
		_, err = s.Acquire(canceled())
		assert.ErrorIs(t, err, context.Canceled)
		_, err = s.TryAcquire(canceled())
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// holderVariable makes the test process a holder that is to be killed.
const holderVariable = "LIMIT_TEST_HOLDER"

func TestHolderProcess(t *testing.T) {
	addr, name, child := strings.Cut(os.Getenv(holderVariable), " ")
	if !child {
		t.Skip("it is for TestAKilledHolderFreesItsShare")
	}
	s := newSemaphore(t, redis.NewClient(&redis.Options{Addr: addr}), name, 1, 2*time.Second)
	_, err := s.TryAcquire(t.Context())
	require.NoError(t, err)
	_, _ = os.Stdout.WriteString("held\n")
	select {}
}

// A process that is killed while it holds a share, and refreshes it, frees it within a lease.
func TestAKilledHolderFreesItsShare(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t)
	s := newSemaphore(t, rdb, newName(t, rdb), 1, 2*time.Second)
	holder := exec.Command(os.Args[0], "-test.run", "^TestHolderProcess$")
	holder.Env = append(os.Environ(), holderVariable+"="+server.Addr()+" "+s.holders.name)
	out, err := holder.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, holder.Start())
	defer holder.Process.Kill()
	var line [5]byte
	_, err = out.Read(line[:])
	require.NoError(t, err)
	require.Equal(t, "held\n", string(line[:]))

	// It is refreshed: after more than a lease, it still holds the share.
	first, err := rdb.ZRangeWithScores(soon(t), s.holders.state(), 0, 0).Result()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return serverTime(t, rdb, s.holders.state()).UnixMicro() > int64(first[0].Score)
	}, patience, 10*time.Millisecond)
	_, err = s.TryAcquire(soon(t))
	assert.ErrorIs(t, err, ErrNotAcquired)

	require.NoError(t, holder.Process.Kill())
	_ = holder.Wait()
	killed := serverTime(t, rdb, s.holders.state())
	p, err := s.Acquire(soon(t))
	require.NoError(t, err)
	began := time.UnixMicro(int64(rdb.ZScore(soon(t), s.holders.state(), p.id).Val())).Add(-2 * time.Second)
	assert.Less(t, began.Sub(killed), 2*time.Second+500*time.Millisecond, "within a lease, and what the machine needs to wake up")
	assert.NoError(t, p.Release(soon(t)))
}

// The key of a semaphore with many holders goes a second after the last lease: its TTL does not grow with the number of calls.
func TestManyHoldersDoNotKeepTheKey(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSemaphore(t, rdb, newName(t, rdb), 100, time.Minute, WithoutRefresh())
		for range 60 {
			p, err := s.Acquire(soon(t))
			require.NoError(t, err)
			defer func() { require.NoError(t, p.Release(soon(t))) }()
		}
		ttl := rdb.PTTL(soon(t), s.holders.state()).Val()
		assert.Greater(t, ttl, 30*time.Second)
		assert.LessOrEqual(t, ttl, time.Minute+time.Second)
	})
}

// A permit whose lease has ended by the time of the reply is lost at once.
func TestAReplyThatComesAfterTheLeaseIsOfALostPermit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Embedded)
	rdb := server.Client(t)
	s := newSemaphore(t, rdb, newName(t, rdb), 1, time.Second)
	for range 1000 {
		p := newPermit(s.holders, "late", acquired{sent: time.Now().Add(-2 * time.Second)})
		<-p.ctx.Done()
		assert.ErrorIs(t, context.Cause(p.ctx), ErrLost)
	}
}

// A permit that is not refreshed in time is lost: its context ends, with the cause, and what is done with it fails.
func TestALostPermitSaysSo(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSemaphore(t, rdb, newName(t, rdb), 1, 3*time.Second, WithoutRefresh())
		p, err := s.TryAcquire(soon(t))
		require.NoError(t, err)
		require.NoError(t, p.Refresh(soon(t)))
		next, err := s.Acquire(soon(t))
		require.NoError(t, err)
		<-p.Context().Done()
		assert.ErrorIs(t, context.Cause(p.Context()), ErrLost)
		assert.ErrorIs(t, p.Refresh(soon(t)), ErrLost)
		assert.ErrorIs(t, p.Release(soon(t)), ErrLost)

		require.NoError(t, next.Release(soon(t)))
		assert.ErrorIs(t, context.Cause(next.Context()), context.Canceled)
		assert.ErrorIs(t, next.Release(soon(t)), ErrLost, "it was released before")

		// The server has lost it: the next refresh finds out.
		kept := newSemaphore(t, rdb, newName(t, rdb), 1, time.Minute)
		p, err = kept.TryAcquire(soon(t))
		require.NoError(t, err)
		require.NoError(t, rdb.Del(soon(t), kept.holders.state()).Err())
		assert.ErrorIs(t, p.Refresh(soon(t)), ErrLost)
		assert.ErrorIs(t, context.Cause(p.Context()), ErrLost)
	})
}

// A permit is refreshed by itself: it outlives several leases.
func TestAPermitIsRefreshedByItself(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSemaphore(t, rdb, newName(t, rdb), 1, 2*time.Second)
		p, err := s.TryAcquire(soon(t))
		require.NoError(t, err)
		began := serverTime(t, rdb, s.holders.state())
		require.Eventually(t, func() bool {
			end := time.UnixMicro(int64(rdb.ZScore(soon(t), s.holders.state(), p.id).Val()))
			return end.Sub(began) > 5*time.Second
		}, patience, 10*time.Millisecond)
		assert.NoError(t, p.Context().Err())
		assert.NoError(t, p.Release(soon(t)))
	})
}

// An acquisition that is sent again, because its reply was lost, is the same one: it takes no second share, and has its token.
// After the release it takes none.
func TestARepeatedAcquisitionIsTheSame(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s := newSemaphore(t, rdb, newName(t, rdb), 2, time.Minute)
		l, err := NewLock(rdb, s.holders.name, time.Minute)
		require.NoError(t, err)
		first, err := s.holders.acquire(soon(t), waitsNot, "a")
		require.NoError(t, err)
		require.Equal(t, []string{"a"}, first.given)
		again, err := s.holders.acquire(soon(t), waitsNot, "a", "b", "c")
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, again.given)
		_, _, err = s.holders.release(soon(t), true, "a", "b")
		require.NoError(t, err)
		late, err := s.holders.acquire(soon(t), waitsNot, "a", "c")
		require.NoError(t, err)
		assert.Equal(t, []string{"c"}, late.given)

		locked, err := l.holders.acquire(soon(t), waitsNot, "a")
		require.NoError(t, err)
		relocked, err := l.holders.acquire(soon(t), waitsNot, "a")
		require.NoError(t, err)
		assert.Equal(t, locked.token, relocked.token)
		_, _, err = l.holders.release(soon(t), true, "a")
		require.NoError(t, err)
		next, err := l.holders.acquire(soon(t), waitsNot, "b")
		require.NoError(t, err)
		assert.Greater(t, next.token, locked.token, "the fence does not touch the token")
	})
}

// Fencing tokens grow from holder to holder, in however many processes, also after the key is gone.
func TestFencingTokensGrow(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		name := newName(t, rdb)
		var last int64 // guarded by the lock itself
		var running sync.WaitGroup
		for range 10 {
			l, err := NewLock(server.Client(t), name, time.Minute)
			require.NoError(t, err)
			for range 2 {
				running.Go(func() {
					for i := range 5 {
						h, err := l.Lock(soon(t))
						if !assert.NoError(t, err) {
							return
						}
						assert.Greater(t, h.Token(), last)
						last = h.Token()
						if i == 2 { // the key is lost, as by an eviction; nobody else may hold the lock then
							assert.NoError(t, rdb.ZRem(soon(t), l.holders.state(), "token").Err())
						}
						assert.NoError(t, h.Unlock(soon(t)))
					}
				})
			}
		}
		running.Wait()
		l, err := NewLock(rdb, name, time.Minute)
		require.NoError(t, err)
		h, err := l.TryLock(soon(t))
		require.NoError(t, err)
		_, err = l.TryLock(soon(t))
		assert.ErrorIs(t, err, ErrNotAcquired)
		assert.NoError(t, h.Unlock(soon(t)))

		// The clock is set back, by less than the key remembers: the tokens go on from the last.
		ahead := serverTime(t, rdb, l.holders.state()).Add(time.Minute).UnixMicro()
		require.NoError(t, rdb.ZAdd(soon(t), l.holders.state(), redis.Z{Score: -float64(ahead), Member: "token"}).Err())
		h, err = l.TryLock(soon(t))
		require.NoError(t, err)
		assert.Equal(t, ahead+1, h.Token())
		assert.NoError(t, h.Unlock(soon(t)))
		ttl := rdb.PTTL(soon(t), l.holders.state()).Val()
		assert.Greater(t, ttl, tokenLife-time.Minute)
	})
}
