package queue

import (
	"context"
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

// begins records when jobs were taken, by the clock of the server: the end of their leases tells.
type begins struct {
	q     *Queue
	mu    sync.Mutex
	times []int64 // Unix milliseconds
}

func (b *begins) add(job *Job) error {
	end, err := leaseEnd(b.q, job)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.times = append(b.times, end-b.q.lease.Milliseconds())
	}
	return err
}

// leaseEnd returns the end of a job's lease, as a Unix time in milliseconds.
func leaseEnd(q *Queue, job *Job) (int64, error) {
	score, err := q.one.Client().ZScore(context.Background(), q.keys.times, job.member).Result()
	return int64(-score), err
}

// most returns the most jobs that were taken within so many milliseconds.
func (b *begins) most(window int64) (most int) {
	slices.Sort(b.times)
	for i, first := range b.times {
		after, _ := slices.BinarySearch(b.times, first+window)
		most = max(most, after-i)
	}
	return most
}

// Many processes with many workers do not exceed the rate in any window, and use it.
func TestTheRateHoldsOverAllProcesses(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, limit := range []struct {
		name        string
		rate, burst int64
		jobs        int
	}{{"100 a second", 100, 0, 300}, {"2000 a second, burst 50", 2000, 50, 3000}} {
		t.Run(limit.name, func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, server *redistest.Server) {
				if server.Kind() == redistest.Embedded && limit.rate > 100 {
					t.Skip("miniredis is too slow for that many")
				}
				ctx := t.Context()
				options := []Option{Rate(limit.rate, time.Second), Lease(time.Hour)} // no heartbeat changes when leases end
				if limit.burst > 0 {
					options = append(options, Burst(limit.burst))
				}
				q := newQueue(t, server.Client(t), options...)
				_, err := q.PushMany(ctx, numbered(limit.jobs))
				require.NoError(t, err)
				b := &begins{q: q}
				for range 20 {
					consume(t, openQueue(t, server.Client(t), q.Name(), options...), 50, func(_ context.Context, job *Job) error {
						assert.NoError(t, b.add(job))
						return nil
					})
				}
				eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == int64(limit.jobs) })
				b.mu.Lock()
				defer b.mu.Unlock()
				for _, window := range []int64{10, 100, 1000} {
					assert.LessOrEqual(t, int64(b.most(window)), limit.rate*window/1000+q.burst+1, "in %d ms", window)
				}
				took := time.Duration(b.times[len(b.times)-1]-b.times[0]) * time.Millisecond
				used := float64(limit.jobs) / (took.Seconds()*float64(limit.rate) + float64(q.burst))
				t.Logf("%.1f %% of the rate was used", 100*used) // docs/benchmarks.md has the figure of an idle machine
			})
		})
	}
}

// Without Burst, a consumer that is a tenth of the period late loses no tokens, or one that is 100 ms late.
func TestTheBurstOfARate(t *testing.T) {
	t.Parallel()
	for _, rate := range []struct {
		n     int64
		per   time.Duration
		burst int64
	}{
		{1, time.Hour, 1}, {10, time.Minute, 1}, {600, time.Minute, 60}, {1, time.Second, 1}, {10, time.Second, 1},
		{19, time.Second, 2}, {1000, time.Second, 100}, {10, 100 * time.Millisecond, 10}, {1, 2 * time.Millisecond, 50},
	} {
		s := defaults()
		require.NoError(t, Rate(rate.n, rate.per)(&s))
		require.NoError(t, s.check())
		assert.Equal(t, rate.burst, s.burst, "%d in %v", rate.n, rate.per)
	}
}

// Processes that are replaced one by one have different limits for a while. Neither refills the bucket of the other: together they begin
// no more than the larger burst, while no tokens arrive. When the old ones are gone, the rate is the new one, at once.
func TestTwoLimitsShareABucket(t *testing.T) {
	t.Parallel()
	for _, limits := range []struct {
		name    string
		one, by []Option
		most    int
	}{
		{"two bursts", []Option{Rate(60, time.Hour), Burst(60)}, []Option{Rate(60, time.Hour), Burst(1)}, 61},
		{"the smaller first", []Option{Rate(60, time.Hour), Burst(1)}, []Option{Rate(60, time.Hour), Burst(60)}, 61},
		{"two rates", []Option{Rate(30, time.Hour), Burst(50)}, []Option{Rate(60, time.Hour), Burst(7)}, 51},
		{"the same rate by another period", []Option{Rate(24, 24*time.Hour)}, []Option{Rate(1, time.Hour)}, 3},
	} {
		t.Run(limits.name, func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, server *redistest.Server) {
				ctx := t.Context()
				q := newQueue(t, server.Client(t), append(limits.one, Lease(time.Hour))...)
				by := openQueue(t, server.Client(t), q.Name(), append(limits.by, Lease(time.Hour))...)
				_, err := q.PushMany(ctx, numbered(500))
				require.NoError(t, err)
				taken := 0
				for range 10 {
					for _, q := range []*Queue{q, by} {
						jobs, _ := take(t, q, 100)
						taken += len(jobs)
					}
				}
				assert.LessOrEqual(t, taken, limits.most)
				assert.GreaterOrEqual(t, taken, int(max(q.burst, by.burst)))
				faster := openQueue(t, server.Client(t), q.Name(), Rate(1000, time.Second), Burst(100))
				eventually(t, func() bool { jobs, _ := take(t, faster, 100); return len(jobs) > 0 })
			})
		})
	}
}

// Many processes never run more jobs at once than the concurrency, by the record of the server, and use it.
func TestTheConcurrencyHoldsOverAllProcesses(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		q := newQueue(t, server.Client(t), Concurrency(7))
		var running, most atomic.Int64
		reached := make(chan struct{})
		var over sync.WaitGroup
		var once sync.Once
		watching, stop := context.WithCancel(ctx)
		over.Go(func() {
			rdb := server.Client(t)
			for watching.Err() == nil {
				leased, err := rdb.ZCount(ctx, q.keys.times, "-inf", "(0").Result()
				if assert.NoError(t, err) {
					most.Store(max(most.Load(), leased))
				}
			}
		})
		for range 5 {
			consume(t, openQueue(t, server.Client(t), q.Name(), Concurrency(7)), 50, func(context.Context, *Job) error {
				now := running.Add(1)
				defer running.Add(-1)
				assert.LessOrEqual(t, now, int64(7))
				if now == 7 {
					once.Do(func() { close(reached) })
				}
				<-reached // so that none of the seven is left unused
				return nil
			})
		}
		_, err := q.PushMany(ctx, numbered(300))
		require.NoError(t, err)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 300 })
		stop()
		over.Wait()
		assert.Equal(t, int64(7), most.Load())
	})
}

// A consumer that waits for the concurrency is woken when a job of another process ends, and that process holds the job for long.
func TestAJobThatEndsWakesWhoWaitsForTheConcurrency(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		q := newQueue(t, server.Client(t), Concurrency(1))
		first, release, second := make(chan struct{}), make(chan struct{}), make(chan string)
		one := consume(t, q, 1, func(context.Context, *Job) error { close(first); <-release; return nil })
		_, err := q.PushMany(ctx, numbered(1))
		require.NoError(t, err)
		<-first
		_, err = q.Push(ctx, "next")
		require.NoError(t, err)
		other := sleeps(openQueue(t, sleeper(t, server), q.Name(), Concurrency(1)))
		consume(t, other, 1, func(_ context.Context, job *Job) error { second <- string(job.Payload); return nil })
		eventually(t, func() bool {
			waits, err := q.one.Client().HGet(ctx, q.keys.state, "waits").Result()
			return err == nil && waits == "limit"
		})
		go func() { _ = one.end() }() // so that the other process has to take the job
		close(release)
		assert.Equal(t, "next", <-second)
	})
}

// Consumers with few workers wake each other: nobody polls, whatever they wait for, and all jobs are done.
func TestConsumersWakeEachOther(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]Option{
		"no limits":       nil,
		"concurrency":     {Concurrency(2)},
		"rate":            {Rate(500, time.Second), Burst(2)},
		"both":            {Rate(500, time.Second), Concurrency(3)},
		"one after other": {Concurrency(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, server *redistest.Server) {
				s := scenario{jobs: 300, producers: 2, consumers: 5, workers: 1, sleeps: true, options: options}
				s.client = func() redis.UniversalClient { return sleeper(t, server) }
				assert.Zero(t, doubles(s.short().run(t)))
			})
		})
	}
}
