package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }

// patience is longer than anything takes that does not hang.
const patience = time.Minute

// newQueue opens a queue of its own for a test, and checks its keys at the end.
func newQueue(t *testing.T, rdb redis.UniversalClient, opts ...Option) *Queue {
	t.Helper()
	q := openQueue(t, rdb, fmt.Sprintf("%s-%d", t.Name(), queues.Add(1)), opts...)
	t.Cleanup(func() { check(t, q) })
	return q
}

var queues atomic.Int64

// sleeper returns a client with which a consumer does not look at the queue for patience, unless it is woken or has a reason: see
// sleeps.
func sleeper(t *testing.T, server *redistest.Server) redis.UniversalClient {
	return server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 3 * patience })
}

// sleeps makes a queue with such a client sleep for so long.
func sleeps(q *Queue) *Queue {
	q.one.MaxSlice = patience
	return q
}

func openQueue(t *testing.T, rdb redis.UniversalClient, name string, opts ...Option) *Queue {
	t.Helper()
	q, err := New(rdb, name, opts...)
	require.NoError(t, err)
	return q
}

// places is where the jobs of a queue are, by their payloads.
type places struct{ waiting, delayed, leased, dead []string }

// check verifies that each job of a queue is in one place, and that its keys agree with each other. It returns where they are.
func check(t *testing.T, q *Queue) places {
	t.Helper()
	ctx, rdb := context.Background(), q.one.Client()
	var p places
	seen := map[string]string{}
	add := func(place *[]string, where, element string) {
		job, err := Parse(element)
		if err != nil {
			*place = append(*place, element)
			return
		}
		assert.Empty(t, seen[job.ID], "%s is also %s", job.ID, where)
		seen[job.ID] = where
		*place = append(*place, string(job.Payload))
	}
	for _, of := range []struct {
		list  *shardedlist.ShardedList
		place *[]string
		where string
	}{{q.list, &p.waiting, "waiting"}, {q.dead, &p.dead, "dead"}} {
		require.NoError(t, of.list.Check(ctx))
		for element, err := range of.list.All(ctx) {
			require.NoError(t, err)
			add(of.place, of.where, element)
		}
	}
	times, err := rdb.ZRangeWithScores(ctx, q.keys.times, 0, -1).Result()
	require.NoError(t, err)
	jobs, err := rdb.HGetAll(ctx, q.keys.jobs).Result()
	require.NoError(t, err)
	assert.Len(t, times, len(jobs))
	for _, z := range times {
		member := z.Member.(string)
		envelope, found := jobs[member[:16]]
		require.True(t, found, "%x has no envelope", member)
		assert.Equal(t, envelope[idAt:attemptAt], member[:16])
		assert.Equal(t, z.Score > 0, member[16:] == strings.Repeat("\x00", leaseSize))
		if z.Score < 0 {
			add(&p.leased, "leased", envelope)
		} else {
			add(&p.delayed, "delayed", envelope)
		}
	}
	return p
}

// consumer runs a queue until it is stopped, or the test ends.
type consumer struct {
	stop context.CancelFunc
	done chan error
}

func consume(t *testing.T, q *Queue, workers int, handler Handler) *consumer {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &consumer{stop, make(chan error, 1)}
	go func() { c.done <- q.Run(ctx, workers, handler) }()
	t.Cleanup(func() { c.end() })
	return c
}

func (c *consumer) end() error {
	c.stop()
	err := <-c.done
	c.done <- err
	return err
}

// eventually waits until a condition holds, which something else brings about.
func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, 5*time.Millisecond)
}

// tally counts how often each payload was done.
type tally struct {
	mu   sync.Mutex
	done map[string]int
}

// add returns how many payloads there are by now, and whether this is a new one.
func (y *tally) add(payload []byte) (payloads int, first bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.done == nil {
		y.done = map[string]int{}
	}
	y.done[string(payload)]++
	return len(y.done), y.done[string(payload)] == 1
}

func (y *tally) len() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.done)
}

func (y *tally) all() map[string]int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return maps.Clone(y.done)
}

func numbered(n int) (payloads []any) {
	for i := range n {
		payloads = append(payloads, fmt.Sprint(i))
	}
	return payloads
}

func TestJobsAreDoneOnceAndInOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		before := time.Now().Truncate(time.Millisecond)
		first, err := q.Push(ctx, "0")
		require.NoError(t, err)
		ids, err := q.PushMany(ctx, numbered(100)[1:])
		require.NoError(t, err)
		stats, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 100, stats.Waiting)
		assert.WithinRange(t, stats.Oldest, before, time.Now())

		var order []string
		var got []Job
		c := consume(t, q, 1, func(_ context.Context, job *Job) error {
			order = append(order, string(job.Payload))
			got = append(got, *job)
			return nil
		})
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 100 })
		require.NoError(t, c.end())
		assert.Equal(t, numbered(100), anys(order))
		assert.Equal(t, first, got[0].ID)
		assert.Equal(t, ids[98], got[99].ID)
		assert.Equal(t, 1, got[50].Attempt)
		assert.WithinRange(t, got[50].PushedAt, before, time.Now())
		assert.Equal(t, places{}, check(t, q))
	})
}

func anys(words []string) (values []any) {
	for _, word := range words {
		values = append(values, word)
	}
	return values
}

// A consumer that waits is woken by a push, also by one that knows nothing of queues, and its elements are jobs.
func TestAPushWakesAConsumer(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), sleeps(newQueue(t, sleeper(t, server)))
		got := make(chan Job)
		consume(t, q, 3, func(_ context.Context, job *Job) error { got <- *job; return nil })
		list, err := shardedlist.New(server.Client(t), q.Name())
		require.NoError(t, err)
		for range 5 {
			eventually(t, func() bool { armed, err := q.armed(ctx); return err == nil && armed })
			_, err = q.Push(ctx, "job")
			require.NoError(t, err)
			assert.Equal(t, "job", string((<-got).Payload))
			eventually(t, func() bool { armed, err := q.armed(ctx); return err == nil && armed })
			_, err = list.RPush(ctx, "plain")
			require.NoError(t, err)
			job := <-got
			assert.Equal(t, "plain", string(job.Payload))
			assert.Equal(t, 1, job.Attempt)
			assert.Zero(t, job.PushedAt)
			assert.Len(t, job.ID, 36)
		}
	})
}

// armed reports whether a consumer waits for a push.
func (q *Queue) armed(ctx context.Context) (bool, error) {
	waits, err := q.one.Client().HExists(ctx, q.keys.state, "waits").Result()
	return waits, err
}

func TestADelayedJobComesAtItsTime(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), sleeps(newQueue(t, sleeper(t, server)))
		got := make(chan string)
		consume(t, q, 1, func(_ context.Context, job *Job) error { got <- string(job.Payload); return nil })
		eventually(t, func() bool { armed, err := q.armed(ctx); return err == nil && armed })
		start := time.Now()
		dues := []time.Duration{100 * time.Millisecond, time.Second, 2 * time.Second} // far apart, for pushes that take long
		_, err := q.Push(ctx, "third", At(start.Add(dues[2])))
		require.NoError(t, err)
		_, err = q.Push(ctx, "first", In(dues[0])) // earlier than what the consumer waits for
		require.NoError(t, err)
		_, err = q.PushMany(ctx, []any{"second"}, In(dues[1]))
		require.NoError(t, err)
		for i, want := range []string{"first", "second", "third"} {
			assert.Equal(t, want, <-got)
			assert.GreaterOrEqual(t, time.Since(start), dues[i]-time.Millisecond)
		}
		_, err = q.Push(ctx, "past", At(start))
		require.NoError(t, err)
		assert.Equal(t, "past", <-got)
	})
}

func TestAFailedJobIsTriedAgainAndThenDead(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		var delays []int
		q := newQueue(t, server.Client(t), Attempts(3), Backoff(func(attempt int) time.Duration {
			delays = append(delays, attempt)
			return time.Millisecond
		}))
		id, err := q.Push(ctx, "job")
		require.NoError(t, err)
		var seen []Job
		failures := []func(job *Job) error{
			func(*Job) error { return errors.New("the first time") },
			func(*Job) error { panic("the second time") },
			func(*Job) error { runtime.Goexit(); return nil },
			func(*Job) error { return fmt.Errorf("for good: %w", ErrDead) },
			func(*Job) error { return nil },
		}
		c := consume(t, q, 1, func(_ context.Context, job *Job) error {
			seen = append(seen, *job)
			return failures[len(seen)-1](job)
		})
		dead := func(n int64) func() bool {
			return func() bool { s, err := q.Stats(ctx); return err == nil && s.Dead == n && s.Leased == 0 }
		}
		eventually(t, dead(1))
		assert.Equal(t, places{dead: []string{"job"}}, check(t, q))
		element, err := q.Dead().LIndex(ctx, 0)
		require.NoError(t, err)
		job, err := Parse(element)
		require.NoError(t, err)
		assert.Equal(t, id, job.ID)
		assert.Equal(t, 3, job.Attempt)
		assert.Equal(t, errGoexit.Error(), job.LastError)

		require.NoError(t, q.Retry(ctx, id))
		eventually(t, dead(1))
		eventually(t, func() bool { return len(check(t, q).dead) == 1 })
		require.NoError(t, q.Retry(ctx, id))
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 1 })
		require.NoError(t, c.end())
		require.ErrorIs(t, q.Retry(ctx, id), ErrNotFound)
		assert.Equal(t, []int{1, 2}, delays)
		assert.Equal(t, []int{1, 2, 3, 1, 1}, []int{seen[0].Attempt, seen[1].Attempt, seen[2].Attempt, seen[3].Attempt, seen[4].Attempt})
		assert.Equal(t, "the first time", seen[1].LastError)
		assert.Contains(t, seen[2].LastError, "panic: the second time\n")
		assert.Contains(t, seen[2].LastError, "queue_test.go", "the place of the panic")
		assert.Empty(t, seen[3].LastError)
		stats, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.Equal(t, Stats{Done: 1, Failed: 2, Buried: 2}, stats)
	})
}

func TestAUniqueJobIsPushedOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		first, err := q.Push(ctx, "a", Unique("user:7", time.Hour))
		require.NoError(t, err)
		id, err := q.Push(ctx, "b", Unique("user:7", time.Hour))
		require.ErrorIs(t, err, ErrDuplicate)
		assert.Equal(t, first, id)
		id, err = q.Push(ctx, "c", Unique("user:7", time.Hour), In(time.Hour))
		require.ErrorIs(t, err, ErrDuplicate)
		assert.Equal(t, first, id)
		_, err = q.Push(ctx, "d", Unique("user:8", time.Millisecond))
		require.NoError(t, err)
		eventually(t, func() bool {
			_, err := q.Push(ctx, "e", Unique("user:8", time.Hour)) // its life is over
			return err == nil
		})
		assert.Equal(t, []string{"a", "d", "e"}, check(t, q).waiting)

		c := consume(t, q, 2, func(_ context.Context, job *Job) error {
			if string(job.Payload) == "a" {
				return ErrDead
			}
			return nil
		})
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 2 && s.Dead == 1 })
		require.NoError(t, c.end())
		for _, key := range []string{"user:7", "user:8"} { // both are free
			_, err = q.Push(ctx, "f", Unique(key, time.Hour))
			require.NoError(t, err)
		}
	})
}

func TestCancelRemovesADelayedJob(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		id, err := q.Push(ctx, "later", In(time.Hour), Unique("x", time.Hour))
		require.NoError(t, err)
		require.NoError(t, q.Cancel(ctx, id))
		require.ErrorIs(t, q.Cancel(ctx, id), ErrNotFound)
		_, err = q.Push(ctx, "again", In(time.Hour), Unique("x", time.Hour))
		require.NoError(t, err)
		assert.Equal(t, places{delayed: []string{"again"}}, check(t, q))

		id, err = q.Push(ctx, "now")
		require.NoError(t, err)
		require.ErrorIs(t, q.Cancel(ctx, id), ErrNotFound)
		running, release := make(chan struct{}), make(chan struct{})
		c := consume(t, q, 1, func(context.Context, *Job) error { close(running); <-release; return nil })
		<-running
		require.ErrorIs(t, q.Cancel(ctx, id), ErrRunning)
		close(release)
		require.NoError(t, c.end())
		require.ErrorIs(t, q.Cancel(ctx, "no id"), ErrID)
	})
}

func TestAPausedQueueRunsNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), sleeps(newQueue(t, sleeper(t, server)))
		require.NoError(t, q.Pause(ctx))
		_, err := q.Push(ctx, "job")
		require.NoError(t, err)
		got := make(chan string, 10)
		consume(t, q, 1, func(_ context.Context, job *Job) error { got <- string(job.Payload); return nil })
		eventually(t, func() bool { armed, err := q.armed(ctx); return err == nil && armed })
		stats, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.True(t, stats.Paused)
		assert.EqualValues(t, 1, stats.Waiting)
		assert.Empty(t, got)
		require.NoError(t, q.Resume(ctx))
		assert.Equal(t, "job", <-got)
	})
}
