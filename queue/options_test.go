package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// Processes may have different options. Those of the process that takes a job count: its lease, attempts and concurrency. What others
// have taken counts towards it.
func TestTheOptionsOfWhoTakesAJobCount(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		q := newQueue(t, rdb)
		strict := openQueue(t, server.Client(t), q.Name(), Concurrency(1), Lease(time.Minute), Attempts(1))
		loose := openQueue(t, server.Client(t), q.Name(), Concurrency(3), Lease(time.Hour), Attempts(2))
		_, err := q.PushMany(ctx, numbered(5))
		require.NoError(t, err)

		var claims []claim
		for _, c := range []struct {
			q    *Queue
			want int
		}{{strict, 1}, {strict, 0}, {loose, 2}, {strict, 0}, {loose, 0}} {
			now, err := c.q.one.Client().Eval(ctx, "return redis.call('TIME')[1]", []string{q.keys.times}).Int64()
			require.NoError(t, err)
			jobs, got := take(t, c.q, 5)
			require.Len(t, jobs, c.want)
			for _, job := range jobs {
				end, err := leaseEnd(c.q, job)
				require.NoError(t, err)
				assert.WithinDuration(t, time.Unix(now, 0).Add(c.q.lease), time.UnixMilli(end), 30*time.Second)
			}
			claims = append(claims, got...)
		}
		for _, claim := range claims {
			require.NoError(t, q.settle(ctx, claim, verdict{done: true}))
		}

		fails := func(context.Context, *Job) error { return errors.New("it fails") }
		c := consume(t, loose, 1, fails)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Failed == 2 })
		require.NoError(t, c.end())
		assert.Empty(t, check(t, q).dead)
		consume(t, strict, 1, fails)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Dead == 2 })
	})
}

// Processes that take from different ends lose nothing: each takes what is at its end, and pushes to the other.
func TestProcessesMayTakeFromDifferentEnds(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		right := openQueue(t, server.Client(t), q.Name(), PopRight())
		_, err := q.PushMany(ctx, []any{"c", "d"})
		require.NoError(t, err)
		_, err = right.PushMany(ctx, []any{"b", "a"})
		require.NoError(t, err)
		for _, c := range []struct {
			q    *Queue
			want string
		}{{right, "d"}, {q, "a"}, {right, "c"}, {q, "b"}} {
			jobs, claims := take(t, c.q, 1)
			require.Len(t, jobs, 1)
			assert.Equal(t, c.want, string(jobs[0].Payload))
			require.NoError(t, c.q.settle(ctx, claims[0], verdict{done: true}))
		}
		assert.Equal(t, places{}, check(t, q))
	})
}

// An element that is larger than any payload that Push takes is a job, too, and may fail.
func TestAnElementThatIsTooLargeForPushIsAJob(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t)
			ctx, large := t.Context(), make([]byte, MaxPayload+1)
			q := newQueue(t, rdb, Attempts(2), Backoff(func(int) time.Duration { return 0 }))
			_, err := q.Push(ctx, large)
			require.ErrorIs(t, err, ErrPayload)
			require.NoError(t, rdb.RPush(ctx, q.Name(), large).Err())
			consume(t, q, 1, func(_ context.Context, job *Job) error {
				assert.Len(t, job.Payload, len(large))
				return errors.New("it fails")
			})
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Failed == 1 && s.Dead == 1 })
		})
	}
}
