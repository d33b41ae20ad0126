package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// take leases up to so many jobs, and does not extend their leases.
func take(t *testing.T, q *Queue, count int) (jobs []*Job, claims []claim) {
	t.Helper()
	s := &source{Queue: q, name: "test"}
	reply, err := s.Pop(count, blocking.No, "").Run(t.Context())
	require.NoError(t, err)
	elements, _ := s.Read(reply)
	for _, element := range elements {
		job, c, err := leased(element, s.leaseName)
		require.NoError(t, err)
		jobs, claims = append(jobs, job), append(claims, c)
	}
	return jobs, claims
}

// A lease has a name that no other lease has, also if the attempt goes back: whoever had the job before cannot settle it.
func TestALeaseThatHasEndedIsNoneForEver(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		id, err := q.Push(ctx, "job")
		require.NoError(t, err)
		var claims []claim
		again := func() {
			jobs, more := take(t, q, 1)
			assert.Equal(t, 1, jobs[0].Attempt)
			claims = append(claims, more...)
		}
		again()
		require.NoError(t, q.settle(ctx, claims[0], verdict{})) // given back
		again()
		require.NoError(t, q.settle(ctx, claims[1], verdict{dead: true}))
		require.NoError(t, q.Retry(ctx, id))
		again()
		for _, old := range claims[:2] {
			for _, v := range []verdict{{done: true}, {dead: true}, {counts: true}} {
				require.ErrorIs(t, q.settle(ctx, old, v), ErrLeaseLost)
			}
		}
		require.NoError(t, q.settle(ctx, claims[2], verdict{done: true}))
	})
}

// If the envelopes of jobs are gone, as after an eviction, the jobs that are left are taken all the same.
func TestAMissingEnvelopeLosesNoOtherJob(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		q := newQueue(t, rdb)
		_, err := q.Push(ctx, "gone", In(time.Millisecond))
		require.NoError(t, err)
		_, err = q.PushMany(ctx, numbered(3))
		require.NoError(t, err)
		require.NoError(t, rdb.Del(ctx, q.keys.jobs).Err())
		eventually(t, func() bool {
			jobs, claims := take(t, q, 10)
			for _, c := range claims {
				assert.NoError(t, q.settle(ctx, c, verdict{done: true}))
			}
			return len(jobs) == 0
		})
		stats, err := q.Stats(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 3, stats.Done)
		eventually(t, func() bool { take(t, q, 10); return rdb.ZCard(ctx, q.keys.times).Val() == 0 })
	})
}

// The clock of the server may be set back: tokens come all the same.
func TestTokensComeThoughTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		q := newQueue(t, rdb, Rate(100, time.Second))
		consume(t, q, 3, func(context.Context, *Job) error { return nil })
		for _, jobs := range []int64{20, 40} { // the second time, the server knows by which limits the bucket counts
			ahead := time.Now().Add(time.Hour).UnixMicro()
			require.NoError(t, rdb.HSet(ctx, q.keys.state, "tat", ahead).Err())
			_, err := q.PushMany(ctx, numbered(20))
			require.NoError(t, err)
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == jobs })
		}
	})
}

// One take copies some megabytes at most, also if the first job is a small one.
func TestATakeIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t))
		payload := strings.Repeat("x", 1<<20)
		_, err := q.Push(ctx, "small")
		require.NoError(t, err)
		for range 8 {
			_, err := q.Push(ctx, payload, In(time.Millisecond))
			require.NoError(t, err)
			_, err = q.Push(ctx, payload)
			require.NoError(t, err)
		}
		for left := 17; left > 0; {
			jobs, claims := take(t, q, 100)
			left -= len(jobs)
			assert.LessOrEqual(t, len(jobs), 5)
			for _, c := range claims {
				require.NoError(t, q.settle(ctx, c, verdict{done: true}))
			}
		}
	})
}

// What looks like an envelope and is none is a payload. What was moved here from the dead begins anew.
func TestElementsThatOthersPushAreJobs(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, q := t.Context(), newQueue(t, server.Client(t), Attempts(1))
		job, err := newJob("x")
		require.NoError(t, err)
		header := job.envelope()[:headerSize]
		for _, element := range []string{header[:20], mark + "\x01" + header[idAt:], mark + "\x02" + header[idAt:] + "\xff\xff", mark + "\x04" + header[idAt:]} {
			_, err = q.List().RPush(ctx, element)
			require.NoError(t, err)
			jobs, claims := take(t, q, 1)
			assert.Equal(t, element, string(jobs[0].Payload))
			require.NoError(t, q.settle(ctx, claims[0], verdict{dead: true, reason: "why"}))
			_, err = q.Dead().LMove(ctx, q.List(), "LEFT", "RIGHT")
			require.NoError(t, err)
			jobs, claims = take(t, q, 1)
			assert.Equal(t, element, string(jobs[0].Payload))
			assert.Equal(t, 1, jobs[0].Attempt)
			require.NoError(t, q.settle(ctx, claims[0], verdict{done: true}))
		}
	})
}

// Large jobs that fail together are not delayed by one script, which reads and writes them all.
func TestASettleIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Redis)
	ctx, rdb := t.Context(), server.Client(t)
	q := newQueue(t, rdb, Backoff(func(int) time.Duration { return time.Hour }))
	const jobs = 24
	for range jobs {
		_, err := q.Push(ctx, strings.Repeat("x", 1<<20))
		require.NoError(t, err)
	}
	sent := &longestCommand{}
	rdb.AddHook(sent)
	var begun atomic.Int64
	together := make(chan struct{})
	c := consume(t, q, jobs, func(context.Context, *Job) error {
		if begun.Add(1) == jobs {
			close(together)
		}
		<-together
		return errors.New("it failed")
	})
	eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Delayed == jobs })
	require.NoError(t, c.end())
	assert.Less(t, sent.arguments.Load(), int64(4*6), "four for each job that a script settles")
}

// longestCommand is a hook that finds out how many arguments a command has at most.
type longestCommand struct{ arguments atomic.Int64 }

func (l *longestCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *longestCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (l *longestCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for size := int64(len(cmd.Args())); ; {
			most := l.arguments.Load()
			if size <= most || l.arguments.CompareAndSwap(most, size) {
				return next(ctx, cmd)
			}
		}
	}
}

// A take that is sent again, as its reply was lost, leaves out the jobs whose envelopes are gone meanwhile.
func TestATakeThatIsSentAgainBearsWithAMissingEnvelope(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		q := newQueue(t, rdb)
		_, err := q.PushMany(ctx, numbered(5))
		require.NoError(t, err)
		s := &source{Queue: q, name: "test"}
		n := q.one.Sessions().Get()
		n.Begin()
		send := func() []string {
			outcome := n.Do(ctx, time.Now().Add(patience), s.Pop(2, blocking.No, ""))
			require.NoError(t, outcome.Err)
			elements, _ := s.Read(outcome.Reply)
			return elements
		}
		require.Len(t, send(), 2)
		require.Len(t, send(), 2, "it was sent again")
		first, _, err := leased(send()[0], s.leaseName)
		require.NoError(t, err)
		require.NoError(t, rdb.HDel(ctx, q.keys.jobs, first.member[:len(first.member)-leaseSize]).Err())
		assert.Len(t, send(), 1)
		assert.NoError(t, rdb.ZRem(ctx, q.keys.times, first.member).Err())
	})
}

// The end of a job that could not be recorded is not passed over in silence.
func TestRunTellsThatTheEndOfAJobCouldNotBeRecorded(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		told := make(chan error, 1)
		q := openQueue(t, rdb, t.Name(), OnError(func(err error) { told <- err }))
		_, err := q.Push(ctx, "job")
		require.NoError(t, err)
		require.NoError(t, rdb.Set(ctx, q.grave.Keys().Meta, "no hash", 0).Err())
		c := consume(t, q, 1, func(context.Context, *Job) error { return ErrDead })
		require.ErrorIs(t, <-told, shardedlist.ErrWrongType)
		require.ErrorIs(t, c.end(), ErrUnfinished)
	})
}

// A consumer comes at the time of a job, or of a token, also if the server looks at its timers once a second.
func TestAnIdleServerDoesNotMakeConsumersLate(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "hz 1")
			ctx, done := t.Context(), make(chan struct{})
			handler := func(context.Context, *Job) error { done <- struct{}{}; return nil }
			q := newQueue(t, server.Client(t))
			c := consume(t, q, 1, handler)
			start := time.Now()
			for range 20 {
				_, err := q.Push(ctx, "job", In(60*time.Millisecond))
				require.NoError(t, err)
				<-done
			}
			assert.Less(t, time.Since(start), 10*time.Second) // and 20 s and more if the server has to wake it
			require.NoError(t, c.end())

			limited := newQueue(t, server.Client(t), Rate(20, time.Second), Burst(1))
			_, err := limited.PushMany(ctx, numbered(20))
			require.NoError(t, err)
			consume(t, limited, 1, handler)
			start = time.Now()
			for range 20 {
				<-done
			}
			assert.Less(t, time.Since(start), 10*time.Second)
		})
	}
}

func TestAJobThatIsDueInCenturiesIsLookedAtEachHour(t *testing.T) {
	t.Parallel()
	s := &source{}
	_, _ = s.Read([]any{int64(1) << 62, int64(0), "lease"})
	assert.WithinDuration(t, time.Now().Add(time.Hour), s.look, time.Minute)
}

// Run bears with errors that pass by themselves, and tells of them.
func TestRunBearsWithARefusalThatPasses(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx, rdb, told := t.Context(), server.Client(t), make(chan error, 1)
			q := newQueue(t, rdb, OnError(func(err error) {
				select {
				case told <- err:
				default:
				}
			}))
			_, err := q.Push(ctx, "job")
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(ctx, "min-replicas-to-write", "1").Err())
			done := make(chan struct{})
			c := consume(t, q, 1, func(context.Context, *Job) error { close(done); return nil })
			require.ErrorContains(t, <-told, "NOREPLICAS")
			require.NoError(t, rdb.ConfigSet(ctx, "min-replicas-to-write", "0").Err())
			<-done
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 1 })
			require.NoError(t, c.end())
		})
	}
}

// badError is an error whose text cannot be had.
type badError struct{}

func (e *badError) Error() string { return *(*string)(nil) }

// A handler may change its job, return an error that is none, or have a backoff that panics: the queue has what it needs itself.
func TestHandlersCannotHarmTheQueue(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		var backoffs atomic.Int64
		q := newQueue(t, server.Client(t), Backoff(func(int) time.Duration {
			if backoffs.Add(1) == 1 {
				panic("in the backoff")
			}
			return 0
		}))
		id, err := q.Push(ctx, "payload", Unique("x", time.Hour))
		require.NoError(t, err)
		attempts := make(chan Job, 3)
		consume(t, q, 1, func(_ context.Context, job *Job) error {
			seen := *job
			seen.Payload = append([]byte(nil), job.Payload...)
			attempts <- seen
			copy(job.Payload, "changed")
			attempt := job.Attempt
			*job = Job{ID: "none", Attempt: 99}
			if attempt < 3 {
				return (*badError)(nil)
			}
			return nil
		})
		for i := range 3 {
			job := <-attempts
			assert.Equal(t, id, job.ID)
			assert.Equal(t, "payload", string(job.Payload))
			assert.Equal(t, i+1, job.Attempt)
		}
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 1 })
		_, err = q.Push(ctx, "again", Unique("x", time.Hour), In(time.Hour))
		require.NoError(t, err)
	})
}

// A job that cannot be settled is told of, and its worker does another one.
func TestAJobThatCannotBeSettledHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		told, done := make(chan error, 1), make(chan struct{})
		q := openQueue(t, rdb, t.Name(), OnError(func(err error) { told <- err }))
		require.NoError(t, rdb.Set(ctx, q.grave.Keys().Meta, "no list", 0).Err())
		_, err := q.PushMany(ctx, []any{"dies", "is done"})
		require.NoError(t, err)
		consume(t, q, 1, func(_ context.Context, job *Job) error {
			if string(job.Payload) == "dies" {
				return ErrDead
			}
			close(done)
			return nil
		})
		require.ErrorContains(t, <-told, "another type")
		<-done
	})
}

// silent is a hook that answers the first heartbeat only when the test ends.
type silent struct {
	ctx  context.Context
	done atomic.Bool
}

func (s *silent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *silent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (s *silent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); len(args) > 3 && strings.HasSuffix(fmt.Sprint(args[3]), ":times") && s.done.CompareAndSwap(false, true) {
			<-s.ctx.Done()
		}
		return next(ctx, cmd)
	}
}

// A connection that does not answer does not keep the heartbeat from others.
func TestAHeartbeatThatIsNotAnsweredCostsNoLease(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		hook := &silent{ctx: ctx}
		rdb.AddHook(hook)
		q := newQueue(t, rdb, Lease(3*time.Second))
		_, err := q.Push(ctx, "job")
		require.NoError(t, err)
		extended := make(chan error, 1)
		consume(t, q, 1, func(ctx context.Context, job *Job) error {
			first, err := leaseEnd(q, job)
			eventually(t, func() bool {
				end, err := leaseEnd(q, job)
				return err == nil && end > first || ctx.Err() != nil
			})
			extended <- errors.Join(err, ctx.Err())
			return nil
		})
		require.NoError(t, <-extended)
		assert.True(t, hook.done.Load())
	})
}

// A process whose limits are higher does not keep another from being woken.
func TestAProcessWithOtherLimitsDoesNotHideWhoWaits(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		q := newQueue(t, server.Client(t), Concurrency(1))
		_, err := q.PushMany(ctx, numbered(2))
		require.NoError(t, err)
		_, claims := take(t, q, 1)
		done := make(chan struct{})
		consume(t, sleeps(openQueue(t, sleeper(t, server), q.Name(), Concurrency(1))), 1, func(context.Context, *Job) error { close(done); return nil })
		eventually(t, func() bool { return q.one.Client().HGet(ctx, q.keys.state, "waits").Val() == "limit" })
		other := &source{Queue: openQueue(t, server.Client(t), q.Name(), Rate(1, time.Hour)), name: "other"}
		for range 2 { // it takes one, and then has no token
			reply, err := other.Pop(1, blocking.First, "").Run(ctx)
			require.NoError(t, err)
			elements, _ := other.Read(reply)
			for _, element := range elements {
				_, c, err := leased(element, other.leaseName)
				require.NoError(t, err)
				require.NoError(t, q.settle(ctx, c, verdict{counts: true}))
			}
		}
		require.NoError(t, q.settle(ctx, claims[0], verdict{done: true}))
		<-done
	})
}

// held is a hook that holds back the reply of a take until its leases have ended and another consumer has the jobs.
type held struct {
	until chan struct{}
	done  atomic.Bool
}

func (h *held) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *held) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *held) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); err == nil && len(args) > 16 && strings.HasSuffix(fmt.Sprint(args[3]), ":meta") && h.done.CompareAndSwap(false, true) {
			<-h.until
		}
		return err
	}
}

// A consumer that hears of its jobs only when their leases have ended does not begin them.
func TestAReplyThatComesAfterTheLeaseBeginsNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, slow := t.Context(), server.Client(t)
		hook := &held{until: make(chan struct{})}
		slow.AddHook(hook)
		q := newQueue(t, server.Client(t), Lease(MinLease))
		_, err := q.Push(ctx, "job")
		require.NoError(t, err)
		begun := make(chan *Job, 2)
		consume(t, openQueue(t, slow, q.Name(), Lease(MinLease)), 1, func(_ context.Context, job *Job) error { begun <- job; return nil })
		eventually(t, hook.done.Load)
		finish := make(chan struct{})
		consume(t, openQueue(t, server.Client(t), q.Name(), Lease(time.Hour)), 1, func(_ context.Context, job *Job) error {
			begun <- job
			<-finish
			return nil
		})
		assert.Equal(t, 2, (<-begun).Attempt)
		close(hook.until)
		_, err = q.Push(ctx, "next")
		require.NoError(t, err)
		assert.Equal(t, "next", string((<-begun).Payload), "the first consumer is free again, and has not begun the job")
		close(finish)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 2 })
	})
}
