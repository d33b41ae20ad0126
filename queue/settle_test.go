package queue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
)

// A copy of a settle that arrives late changes nothing, whatever has become of the jobs and of their unique keys.
func TestALateCopyOfASettleChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		_, err := q.PushMany(ctx, []any{"done", "fails", "given back"})
		require.NoError(t, err)
		_, err = q.Push(ctx, "unique", Unique("key", time.Hour))
		require.NoError(t, err)
		_, claims := take(t, q, 4)
		verdicts := []verdict{{done: true}, {delay: time.Hour, counts: true, reason: "it failed"}, {}, {done: true}}
		endings := make([]ending, len(claims))
		for i, c := range claims {
			endings[i] = ending{claim: c, verdict: verdicts[i]}
		}
		held, err := q.settleAll(ctx, endings)
		require.NoError(t, err)
		require.Equal(t, "1111", held)

		other, err := q.Push(ctx, "another", Unique("key", time.Hour))
		require.NoError(t, err)
		jobs, _ := take(t, q, 1)
		require.Equal(t, "given back", string(jobs[0].Payload))
		before, err := q.Stats(ctx)
		require.NoError(t, err)
		held, err = q.settleAll(ctx, endings)
		require.NoError(t, err)
		assert.Equal(t, "0000", held)
		after, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.Equal(t, before, after)
		assert.EqualValues(t, 2, after.Done)
		assert.EqualValues(t, 1, after.Failed)
		id, err := q.Push(ctx, "a third", Unique("key", time.Hour))
		assert.ErrorIs(t, err, ErrDuplicate)
		assert.Equal(t, other, id)
		delayed, err := q.Peek(ctx, Delayed, 10)
		require.NoError(t, err)
		require.Len(t, delayed, 1)
		assert.Equal(t, 1, delayed[0].Attempt)
		assert.Equal(t, "it failed", delayed[0].LastError)
	})
}

// A unique key that somebody has overwritten is not the job's, and does not keep it from ending.
func TestAJobEndsThoughItsUniqueKeyIsOfAnotherType(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		q := newQueue(t, rdb)
		for i := range 3 {
			_, err := q.Push(ctx, "job", Unique(fmt.Sprint(i), time.Hour))
			require.NoError(t, err)
		}
		_, claims := take(t, q, 3)
		unique := q.keys.state + ":unique:" + claims[1].unique
		require.NoError(t, rdb.Del(ctx, unique).Err())
		require.NoError(t, rdb.RPush(ctx, unique, "x").Err())
		for _, c := range claims[:2] {
			require.NoError(t, q.settle(ctx, c, verdict{done: true}))
		}
		require.NoError(t, q.settle(ctx, claims[2], verdict{dead: true}))
		assert.EqualValues(t, 1, rdb.LLen(ctx, unique).Val())
		require.NoError(t, rdb.Del(ctx, unique).Err())
	})
}

// Handlers are called while the leases of others are being settled, though not for ever.
func TestHandlersAreCalledWhileOthersAreSettled(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const workers = 3
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		_, err := q.PushMany(ctx, numbered(5*workers))
		require.NoError(t, err)
		rdb, gate := server.Client(t), &settleGate{open: make(chan struct{})}
		rdb.AddHook(gate)
		var called, running, most atomic.Int64
		c := consume(t, openQueue(t, rdb, q.Name()), workers, func(context.Context, *Job) error {
			for now := running.Add(1); ; {
				old := most.Load()
				if now <= old || most.CompareAndSwap(old, now) {
					break
				}
			}
			called.Add(1)
			running.Add(-1)
			return nil
		})
		eventually(t, func() bool { return called.Load() == 3*workers && gate.waiting.Load() > 0 })
		stats, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 3*workers, stats.Leased)
		assert.Zero(t, stats.Done)
		close(gate.open)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 5*workers })
		require.NoError(t, c.end())
		assert.LessOrEqual(t, most.Load(), int64(workers))
	})
}

// A connection that does not answer holds up the leases that are settled on it, and no others.
func TestASettleWithoutAnAnswerHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		rdb, gate := server.Client(t), &settleGate{open: make(chan struct{}), only: 1}
		rdb.AddHook(gate)
		consume(t, openQueue(t, rdb, q.Name()), 2, func(context.Context, *Job) error { return nil })
		_, err := q.Push(ctx, "held up")
		require.NoError(t, err)
		eventually(t, func() bool { return gate.waiting.Load() == 1 })
		_, err = q.PushMany(ctx, numbered(10))
		require.NoError(t, err)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 10 && s.Leased == 1 })
		close(gate.open)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 11 })
	})
}

// A Run ends with ErrUnfinished if leases could not be settled in time, and their jobs come back.
func TestRunTellsOfLeasesThatAreNotSettled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	ctx, q := t.Context(), newQueue(t, server.Client(t), Lease(MinLease))
	_, err := q.PushMany(ctx, numbered(4))
	require.NoError(t, err)
	rdb, gate := server.Client(t), &settleGate{open: make(chan struct{})}
	rdb.AddHook(gate)
	c := consume(t, openQueue(t, rdb, q.Name(), Lease(MinLease), Grace(time.Millisecond)), 4, func(context.Context, *Job) error { return nil })
	eventually(t, func() bool { return gate.waiting.Load() > 0 })
	require.ErrorIs(t, c.end(), ErrUnfinished)
	gate.refuse.Store(true)
	close(gate.open)
	done := &tally{}
	consume(t, q, 4, func(_ context.Context, job *Job) error { done.add(job.Payload); return nil })
	eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 4 })
}

// One timer ends the contexts of all handlers whose leases end, each at its time.
func TestLeasesEndAtTheirTimes(t *testing.T) {
	t.Parallel()
	r := &run{leases: map[string]*lease{}}
	r.changed.L = &r.mu
	end := func(id string, left time.Duration) *lease {
		r.mu.Lock()
		defer r.mu.Unlock()
		l := r.leases[id]
		if l == nil {
			l = &lease{claim: claim{member: id + "-lease"}}
			l.ctx, l.end = context.WithCancelCause(t.Context())
			r.leases[id] = l
		}
		r.setEnd(l, time.Now().Add(left))
		return l
	}
	ends := func(l *lease) {
		t.Helper()
		select {
		case <-l.ctx.Done():
			assert.ErrorIs(t, context.Cause(l.ctx), ErrLeaseLost)
		case <-time.After(patience):
			require.Fail(t, "it goes on")
		}
	}
	last, first := end("last", time.Hour), end("first", 20*time.Millisecond)
	ends(first)
	extended := end("extended", 20*time.Millisecond)
	end("extended", time.Hour)
	ends(end("second", 60*time.Millisecond))
	end("last", 20*time.Millisecond)
	ends(last)
	assert.NoError(t, extended.ctx.Err())
	ends(end("ended", -time.Second))
	for _, l := range r.leases {
		r.release(true, ending{claim: l.claim, lease: l})
	}
	assert.Empty(t, r.leases)
}

// settleGate is a hook that holds up what settles leases until it is open, and then may refuse it.
type settleGate struct {
	open    chan struct{}
	only    int64 // how many; 0 means all
	waiting atomic.Int64
	refuse  atomic.Bool
}

func (g *settleGate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *settleGate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (g *settleGate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c, ok := cmd.(*script.Command); ok {
			if _, operation := c.About(); operation == "queue_settle" {
				if number := g.waiting.Add(1); g.only == 0 || number <= g.only {
					<-g.open
				}
				if g.refuse.Load() {
					err := errors.New("refused by the test")
					cmd.SetErr(err)
					return err
				}
			}
		}
		return next(ctx, cmd)
	}
}

// The times of many leases are a skip list, also if there were none before: a listpack would be searched from its start for each.
func TestManyLeasesAreASkipList(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t)
			ctx, q := t.Context(), newQueue(t, rdb)
			_, err := q.PushMany(ctx, numbered(30))
			require.NoError(t, err)
			_, claims := take(t, q, 1) // the first one has more to do
			require.NoError(t, q.settle(ctx, claims[0], verdict{done: true}))
			_, claims = take(t, q, 20)
			assert.Equal(t, "skiplist", rdb.ObjectEncoding(ctx, q.keys.times).Val())
			assert.EqualValues(t, len(claims), rdb.ZCard(ctx, q.keys.times).Val())
		})
	}
}
