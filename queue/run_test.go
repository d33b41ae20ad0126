package queue

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// A handler may take longer than the lease: the heartbeat extends it.
func TestAHandlerMayOutliveTheFirstLease(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t), Lease(3*time.Second))
		_, err := q.Push(ctx, "long")
		require.NoError(t, err)
		attempts := make(chan int, 10)
		c := consume(t, q, 2, func(ctx context.Context, job *Job) error {
			attempts <- job.Attempt
			first, err := leaseEnd(q, job)
			eventually(t, func() bool {
				end, err := leaseEnd(q, job)
				return err == nil && end >= first+q.lease.Milliseconds() || ctx.Err() != nil
			})
			return errors.Join(err, ctx.Err())
		})
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 1 })
		require.NoError(t, c.end())
		assert.Len(t, attempts, 1)
	})
}

// A consumer that is not heard of loses its jobs: its handler is told, another does the job, and what the first makes of it counts no
// more.
func TestAHandlerIsToldThatItsLeaseHasEnded(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx, q := t.Context(), newQueue(t, server.Client(t), Lease(MinLease))
			_, err := q.Push(ctx, "job")
			require.NoError(t, err)
			started, told, again := make(chan struct{}), make(chan error, 1), make(chan *Job, 1)
			c := consume(t, q, 2, func(ctx context.Context, job *Job) error {
				if job.Attempt > 1 {
					again <- job
					return nil
				}
				close(started)
				<-ctx.Done()
				told <- context.Cause(ctx)
				job = <-again // while the other one runs
				again <- job
				return ErrDead
			})
			<-started
			server.Pause()
			require.ErrorIs(t, <-told, ErrLeaseLost)
			server.Resume()
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 1 })
			require.NoError(t, c.end())
			assert.Equal(t, 2, (<-again).Attempt)
			stats, err := q.Stats(ctx)
			require.NoError(t, err)
			assert.Equal(t, Stats{Done: 1}, stats)
		})
	}
}

// A process that gets a job again ends the lease that it had before, though it believes that this lasts.
func TestAJobThatComesBackEndsTheOldLease(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t), Lease(time.Hour))
		_, err := q.Push(ctx, "job")
		require.NoError(t, err)
		first, old, again, told := make(chan *Job, 1), make(chan context.Context, 1), make(chan error, 1), make(chan struct{})
		c := consume(t, q, 2, func(ctx context.Context, job *Job) error {
			switch {
			case string(job.Payload) == "wake up":
				return nil
			case job.Attempt > 1:
				again <- context.Cause(<-old)
				<-told
				return nil
			}
			old <- ctx
			first <- job
			<-ctx.Done()
			close(told)
			return nil
		})
		job := <-first
		require.NoError(t, q.one.Client().ZAdd(ctx, q.keys.times, redis.Z{Score: -1, Member: job.member}).Err()) // it ended in 1970
		_, err = q.Push(ctx, "wake up")
		require.NoError(t, err)
		require.ErrorIs(t, <-again, ErrLeaseLost)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 2 })
		require.NoError(t, c.end())
	})
}

// When Run has to return, handlers finish within the grace; then they are told, and what they do not finish goes back to the queue
// without that attempt.
func TestRunGivesBackWhatIsNotDone(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		q := newQueue(t, server.Client(t), Grace(100*time.Millisecond), Lease(3*time.Second))
		_, err := q.PushMany(ctx, []any{"finishes", "is told", "hangs", "is told, and finishes"})
		require.NoError(t, err)
		running, hangs := make(chan struct{}, 4), make(chan struct{})
		defer close(hangs)
		stopping := make(chan struct{})
		c := consume(t, q, 4, func(ctx context.Context, job *Job) error {
			running <- struct{}{}
			switch string(job.Payload) {
			case "finishes":
				<-stopping
			case "is told":
				<-ctx.Done()
				return context.Cause(ctx)
			case "is told, and finishes":
				<-ctx.Done()
			case "hangs":
				<-hangs
			}
			return nil
		})
		for range 4 {
			<-running
		}
		c.stop()
		close(stopping)
		require.ErrorIs(t, c.end(), ErrUnfinished)
		left := check(t, q)
		assert.Equal(t, []string{"is told"}, left.delayed)
		assert.Equal(t, []string{"hangs"}, left.leased)
		seen := make(chan Job, 2)
		c = consume(t, q, 4, func(_ context.Context, job *Job) error { seen <- *job; return nil })
		assert.Equal(t, 1, (<-seen).Attempt)
		hung := <-seen // its lease has ended
		assert.Equal(t, "hangs", string(hung.Payload))
		assert.Equal(t, 2, hung.Attempt)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 4 })
		require.NoError(t, c.end())
		assert.Equal(t, places{}, check(t, q))
	})
}

// A plain list with elements is the queue, and old producers go on pushing to it.
func TestAQueueTakesOverAPlainList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, right := range []bool{false, true} {
			name := t.Name()
			var opts []Option
			push := rdb.RPush
			if right {
				name, opts, push = name+"-right", []Option{PopRight()}, rdb.LPush
			}
			require.NoError(t, push(ctx, name, numbered(100)...).Err())
			q := openQueue(t, rdb, name, opts...)
			got := make(chan string, 300)
			c := consume(t, q, 1, func(_ context.Context, job *Job) error { got <- string(job.Payload); return nil })
			for i := range 100 {
				assert.Equal(t, numbered(i + 1)[i], <-got)
			}
			_, err := q.Push(ctx, "new")
			require.NoError(t, err)
			assert.Equal(t, "new", <-got)
			require.NoError(t, push(ctx, name, "old").Err())
			assert.Equal(t, "old", <-got)
			require.NoError(t, c.end())
			assert.Equal(t, places{}, check(t, q))
		}
	})
}

func TestBadUse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Embedded)
	ctx, rdb := t.Context(), server.Client(t)
	for name, opts := range map[string][]Option{
		"rate 0":            {Rate(0, time.Second)},
		"rate in no time":   {Rate(1, 0)},
		"rate too high":     {Rate(math.MaxInt64, time.Millisecond)},
		"burst 0":           {Rate(1, time.Second), Burst(0)},
		"burst alone":       {Burst(5)},
		"concurrency 0":     {Concurrency(0)},
		"lease too short":   {Lease(MinLease - 1)},
		"lease too long":    {Lease(math.MaxInt64)},
		"no attempts":       {Attempts(0)},
		"too many attempts": {Attempts(MaxAttempts + 1)},
		"no backoff":        {Backoff(nil)},
		"grace":             {Grace(-1)},
	} {
		_, err := New(rdb, "bad", opts...)
		require.ErrorIs(t, err, ErrOption, name)
	}
	_, err := New(nil, "bad")
	require.ErrorIs(t, err, shardedlist.ErrNilClient)
	_, err = New(rdb, "")
	require.ErrorIs(t, err, shardedlist.ErrEmptyName)

	q := openQueue(t, rdb, "bad")
	for name, opts := range map[string][]PushOption{
		"in and at":    {In(time.Second), At(time.Now())},
		"unique for 0": {Unique("x", 0)},
	} {
		_, err = q.Push(ctx, "job", opts...)
		require.ErrorIs(t, err, ErrOption, name)
	}
	_, err = q.PushMany(ctx, numbered(2), Unique("x", time.Second))
	require.ErrorIs(t, err, ErrOption)
	_, err = New(rdb, "queue", List(shardedlist.WithParts(4)))
	require.ErrorIs(t, err, shardedlist.ErrSpread)
	for _, payload := range []any{7, nil, make([]byte, MaxPayload+1)} {
		_, err = q.Push(ctx, payload)
		require.ErrorIs(t, err, ErrPayload)
	}
	require.ErrorIs(t, q.Run(ctx, 0, func(context.Context, *Job) error { return nil }), ErrWorkers)
	require.ErrorIs(t, q.Run(ctx, 1, nil), ErrWorkers)
	assert.Empty(t, server.Miniredis().Keys())
}

func TestRunReturnsTheErrorOfAServerThatRefusesForGood(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		require.NoError(t, rdb.Set(ctx, t.Name(), "no list", 0).Err())
		nothing := func(context.Context, *Job) error { return nil }
		require.ErrorIs(t, openQueue(t, rdb, t.Name()).Run(ctx, 1, nothing), shardedlist.ErrWrongType)
		spread, err := shardedlist.New(rdb, t.Name()+"-spread", shardedlist.WithParts(3))
		require.NoError(t, err)
		_, err = spread.RPush(ctx, "x")
		require.NoError(t, err)
		require.ErrorIs(t, openQueue(t, rdb, spread.Name()).Run(ctx, 1, nothing), shardedlist.ErrSpread)
		closed := server.Client(t)
		q := openQueue(t, closed, t.Name()+"-closed")
		require.NoError(t, closed.Close())
		require.Error(t, q.Run(ctx, 1, nothing))
	})
}

func TestPayloadsAreAnyBytes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t), Backoff(func(int) time.Duration { return 0 }))
		job, err := newJob("inside")
		require.NoError(t, err)
		payloads := []string{"", "\x00", mark, mark + "\x00", job.envelope(), string(make([]byte, 1<<20))}
		got := make(chan string)
		consume(t, q, 1, func(_ context.Context, job *Job) error {
			if job.Attempt == 1 {
				return errors.New("\xff is no text\x00")
			}
			got <- string(job.Payload)
			return nil
		})
		for _, payload := range payloads {
			_, err := q.Push(ctx, []byte(payload), Unique(payload, time.Hour))
			require.NoError(t, err)
			assert.Equal(t, payload, <-got)
		}
	})
}

func FuzzParse(f *testing.F) {
	job, _ := newJob("payload")
	f.Add(job.envelope())
	job.unique, job.LastError = "0123456789012345678901234567890123456789", "why"
	f.Add(job.envelope())
	f.Add(mark)
	f.Fuzz(func(t *testing.T, element string) {
		job, err := Parse(element)
		if err != nil {
			assert.ErrorIs(t, err, ErrEnvelope)
			return
		}
		if len(job.LastError) <= errorSize && (job.LastError != "" || element[flagsAt]&hasError == 0) {
			assert.Equal(t, element, job.envelope())
		}
	})
}

func TestPeekShowsJobsInEachState(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, opts := range [][]Option{nil, {PopRight()}} {
			q := newQueue(t, rdb, append(opts, Backoff(func(int) time.Duration { return time.Hour }))...)
			release := make(chan struct{})
			c := consume(t, q, 3, func(_ context.Context, job *Job) error {
				switch string(job.Payload) {
				case "fails":
					return errors.New("why")
				case "dies":
					return ErrDead
				}
				<-release
				return nil
			})
			_, err := q.PushMany(ctx, []any{"fails", "dies"})
			require.NoError(t, err)
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Dead == 1 && s.Delayed == 1 })
			_, err = q.PushMany(ctx, []any{"runs", "runs", "runs"})
			require.NoError(t, err)
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Leased == 3 })
			_, err = q.PushMany(ctx, []any{"first", "second", "third"})
			require.NoError(t, err)
			_, err = q.Push(ctx, "soon", In(time.Minute))
			require.NoError(t, err)
			now := time.Now()
			for state, want := range map[State][]string{
				Waiting: {"first", "second"}, Delayed: {"soon", "fails"}, Leased: {"runs", "runs"}, Dead: {"dies"},
			} {
				jobs, err := q.Peek(ctx, state, 2)
				require.NoError(t, err)
				var payloads []string
				attempts := map[string]int{"fails": 1, "runs": 1, "dies": 1}
				for _, job := range jobs {
					payloads = append(payloads, string(job.Payload))
					assert.Equal(t, attempts[string(job.Payload)], job.Attempt, "%s, %s", state, job.Payload)
					assert.Equal(t, state == Delayed || state == Leased, !job.Due.IsZero())
				}
				assert.Equal(t, want, payloads, state)
				if state == Delayed {
					assert.WithinDuration(t, now.Add(time.Minute), jobs[0].Due, 30*time.Second)
					assert.Equal(t, "why", jobs[1].LastError)
				}
			}
			_, err = q.Peek(ctx, "asleep", 2)
			require.ErrorIs(t, err, ErrOption)
			_, err = q.Peek(ctx, Dead, 0)
			require.ErrorIs(t, err, ErrOption)
			close(release)
			require.NoError(t, c.end())
		}
	})
}

func TestRetryAllRetriesAllThatAreDead(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		q := newQueue(t, server.Client(t), List(shardedlist.WithCapacity(3)))
		_, err := q.PushMany(ctx, numbered(10))
		require.NoError(t, err)
		c := consume(t, q, 3, func(context.Context, *Job) error { return ErrDead })
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Dead == 10 })
		require.NoError(t, c.end())
		_, err = q.Dead().LPush(ctx, "no envelope")
		require.NoError(t, err)
		retried, err := q.RetryAll(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 10, retried)
		assert.Len(t, check(t, q).delayed, 10)
		assert.Equal(t, []string{"no envelope"}, check(t, q).dead)
	})
}

// A hook on the client of a queue, which matches all keys, does not get in its way.
func TestAQueueWorksOnAClientWithTheHook(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*")))
		q := newQueue(t, rdb, Concurrency(2), Rate(1000, time.Second), Attempts(1))
		require.NoError(t, rdb.RPush(ctx, q.Name(), "plain").Err())
		id, err := q.Push(ctx, "later", In(time.Hour), Unique("x", time.Hour))
		require.NoError(t, err)
		_, err = q.Push(ctx, "dies")
		require.NoError(t, err)
		require.NoError(t, q.Pause(ctx))
		require.NoError(t, q.Resume(ctx))
		done := make(chan string)
		c := consume(t, q, 2, func(_ context.Context, job *Job) error {
			done <- string(job.Payload)
			return map[bool]error{true: errors.New("why")}[string(job.Payload) == "dies"]
		})
		assert.ElementsMatch(t, []string{"plain", "dies"}, []string{<-done, <-done})
		require.NoError(t, c.end())
		_, err = q.RetryAll(ctx)
		require.NoError(t, err)
		require.NoError(t, q.Cancel(ctx, id))
		stats, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.Equal(t, Stats{Delayed: 1, Done: 1, Buried: 1}, stats)
	})
}

// A consumer that has nothing to do waits in a BLPOP, whether the queue is empty, paused, or has jobs for later only.
func TestAnIdleConsumerBlocks(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			rdb := server.Client(t)
			ctx, q := t.Context(), newQueue(t, sleeper(t, server))
			c := consume(t, q, 4, func(context.Context, *Job) error { return nil })
			for _, change := range []func() error{
				func() error { return nil },
				func() error { _, err := q.Push(ctx, "first"); return err },
				func() error { _, err := q.PushMany(ctx, numbered(4)); return err }, // as many as there are workers
				func() error { _, err := q.PushMany(ctx, numbered(100)); return err },
				func() error { _, err := q.Push(ctx, "later", In(time.Hour)); return err },
				func() error { return q.Pause(ctx) },
				func() error { _, err := q.Push(ctx, "paused"); return err },
				func() error { return q.Resume(ctx) },
			} {
				require.NoError(t, change())
				var before int64
				eventually(t, func() bool { // it is blocked, and has been since the last look
					stats, err := rdb.Info(ctx, "clients", "commandstats").Result()
					require.NoError(t, err)
					scripts := redistest.Calls(stats)
					same := scripts == before
					before = scripts
					return same && field(t, stats, `blocked_clients:(\d+)`) == 1
				})
			}
			require.NoError(t, c.end())
		})
	}
}

// field returns the number that a pattern finds in what the server says of itself, or 0.
func field(t *testing.T, text, pattern string) (number int64) {
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found != nil {
		_, err := fmt.Sscan(found[1], &number)
		require.NoError(t, err)
	}
	return number
}
