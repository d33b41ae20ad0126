package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist/limit"
	"github.com/shardedlist/shardedlist/queue"
)

// peerCall is a call of package limit or queue, and what a library that is used for the same does for it.
type peerCall struct {
	name, peer string
	callers    int
	cpu, rate  float64 // the most of the server that a call may take, and the least rate, as multiples of the peer's; 0 for no goal
	// open returns the two calls, ours first.
	open func(ctx context.Context, s *server, rdb *redis.Client) (calls [2]func(ctx context.Context) error, stop func() error, err error)
}

const (
	manyLimiters = 10_000
	muchRate     = 1_000_000 // a second: admits all
	lockLife     = 10 * time.Second
	lockCallers  = 32
)

// allows returns calls of that many limiters in turn, and of redis_rate with as many keys.
func allows[L interface {
	Allow(context.Context) (limit.Decision, error)
}](limiters int, create func(rdb *redis.Client, name string) (L, error)) func(context.Context, *server, *redis.Client) ([2]func(context.Context) error, func() error, error) {
	return func(_ context.Context, _ *server, rdb *redis.Client) (calls [2]func(context.Context) error, stop func() error, err error) {
		ours, theirs := make([]L, limiters), redis_rate.NewLimiter(rdb)
		for i := range ours {
			if ours[i], err = create(rdb, fmt.Sprint("limit:", i)); err != nil {
				return calls, nil, err
			}
		}
		next := 0
		calls[0] = func(ctx context.Context) error {
			next++
			decision, err := ours[next%limiters].Allow(ctx)
			return errors.Join(err, admitted(decision.Allowed))
		}
		calls[1] = func(ctx context.Context) error {
			next++
			result, err := theirs.Allow(ctx, strconv.Itoa(next%limiters), redis_rate.PerSecond(muchRate))
			return errors.Join(err, admitted(result.Allowed == 1))
		}
		return calls, nil, nil
	}
}

func admitted(allowed bool) error {
	if !allowed {
		return errors.New("a call was not admitted")
	}
	return nil
}

// locks returns calls that take a lock and release it.
func locks(_ context.Context, _ *server, rdb *redis.Client) (calls [2]func(context.Context) error, stop func() error, err error) {
	ours, err := limit.NewLock(rdb, "lock", lockLife)
	theirs := redislock.New(rdb)
	calls[0] = func(ctx context.Context) error {
		held, err := ours.Lock(ctx)
		if err != nil {
			return err
		}
		return held.Unlock(ctx)
	}
	calls[1] = func(ctx context.Context) error {
		lock, err := theirs.Obtain(ctx, "redislock", lockLife, &redislock.Options{RetryStrategy: redislock.LinearBackoff(time.Millisecond)})
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	}
	return calls, nil, err
}

// pushes returns calls that push a job, with options for ours and for asynq's.
func pushes(options func(n int64) ([]queue.PushOption, []asynq.Option)) func(context.Context, *server, *redis.Client) ([2]func(context.Context) error, func() error, error) {
	return func(_ context.Context, s *server, rdb *redis.Client) (calls [2]func(context.Context) error, stop func() error, err error) {
		ours, err := queue.New(rdb, "calls")
		client, payload, n := asynq.NewClient(asynq.RedisClientOpt{Addr: s.addr}), text(100), atomic.Int64{}
		calls[0] = func(ctx context.Context) error {
			with, _ := options(n.Add(1))
			_, err := ours.Push(ctx, payload, with...)
			return err
		}
		calls[1] = func(ctx context.Context) error {
			i := n.Add(1)
			_, with := options(i)
			_, err := client.EnqueueContext(ctx, asynq.NewTask("move", fmt.Append(nil, payload, i)), append(with, asynq.Queue("calls"))...)
			return err
		}
		return calls, client.Close, err
	}
}

// trickle returns calls that push a job and wait until one of idle workers has begun it.
func trickle(ctx context.Context, s *server, _ *redis.Client) (calls [2]func(context.Context) error, stop func() error, err error) {
	var stops []func() error
	stop = func() (err error) {
		for _, each := range stops {
			err = errors.Join(err, each())
		}
		return err
	}
	for i, open := range []func(*server, string) (*broker, error){queueBroker, asynqBroker} {
		broker, err := open(s, "trickle")
		if err != nil {
			return calls, stop, err
		}
		done := make(chan string, 1)
		end, err := broker.consume(ctx, func(payload string) { done <- payload })
		stops = append(stops, func() error { defer broker.close(); return end() })
		if err != nil {
			return calls, stop, err
		}
		calls[i] = func(ctx context.Context) error {
			if err := broker.produce(ctx, text(100)); err != nil {
				return err
			}
			select {
			case <-done:
				return sleep(ctx, trickleEvery)
			case <-time.After(10 * time.Second):
				return errors.New("not begun within 10 s")
			}
		}
	}
	return calls, stop, nil
}

// trickleEvery is the time between two jobs of a trickle: all workers wait again.
const trickleEvery = 20 * time.Millisecond

var peerCalls = []peerCall{
	{"`TokenBucket.Allow`", "redis_rate", 1, 1.15, 0, allows(1, newBucket)},
	{"`TokenBucket.Allow`, 10,000 of them in turn", "redis_rate", 1, 1.15, 0, allows(manyLimiters, newBucket)},
	{"`FixedWindow.Allow`", "redis_rate", 1, 1.15, 0, allows(1, newWindow)},
	{"`FixedWindow.Allow`, 10,000 of them in turn", "redis_rate", 1, 1.15, 0, allows(manyLimiters, newWindow)},
	{"`SlidingWindow.Allow`, 1,000 calls in the window", "redis_rate", 1, 2, 0, allows(1, newSliding)},
	{"`Lock` and `Unlock`", "redislock", 1, 1.4, 0, locks},
	{"`Lock` and `Unlock` of the same lock", "redislock", lockCallers, 0, 0.8, locks},
	{"`Push`", "asynq", 1, 1, 0, pushes(func(int64) ([]queue.PushOption, []asynq.Option) { return nil, nil })},
	{"`Push` of a delayed job", "asynq", 1, 1.3, 0, pushes(func(int64) ([]queue.PushOption, []asynq.Option) {
		return []queue.PushOption{queue.In(time.Hour)}, []asynq.Option{asynq.ProcessIn(time.Hour)}
	})},
	{"`Push` of a unique job", "asynq", 1, 1.3, 0, pushes(func(n int64) ([]queue.PushOption, []asynq.Option) {
		return []queue.PushOption{queue.Unique(strconv.FormatInt(n, 10), time.Hour)}, []asynq.Option{asynq.Unique(time.Hour)}
	})},
	{fmt.Sprintf("a job every %v for %d idle workers, from push to done", trickleEvery, queueWorkers), "asynq", 1, 2, 0, trickle},
}

func newBucket(rdb *redis.Client, name string) (*limit.TokenBucket, error) {
	return limit.NewTokenBucket(rdb, name, muchRate, time.Second, muchRate)
}

func newWindow(rdb *redis.Client, name string) (*limit.FixedWindow, error) {
	return limit.NewFixedWindow(rdb, name, 1<<40, time.Minute)
}

// newSliding returns a window that has about a thousand calls in it: at a few thousand a second, those of the last fraction of one.
func newSliding(rdb *redis.Client, name string) (*limit.SlidingWindow, error) {
	return limit.NewSlidingWindow(rdb, name, 100_000, 100*time.Millisecond)
}

type peerCallFigures struct {
	Name    string  `json:"name"`
	Peer    string  `json:"peer"`
	Callers int     `json:"callers"`
	CPU     float64 `json:"cpu_goal,omitempty"`
	Rate    float64 `json:"rate_goal,omitempty"`
	Ours    figures `json:"ours"`
	Theirs  figures `json:"theirs"`
}

// calls measures calls of packages limit and queue, and the same of libraries, in turn.
func (b *bench) calls(ctx context.Context) error {
	for _, c := range peerCalls {
		f, err := b.peerCall(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		b.results.Calls = append(b.results.Calls, f)
	}
	return nil
}

func (b *bench) peerCall(ctx context.Context, c peerCall) (f peerCallFigures, err error) {
	rdb := b.server.client(poolSize(workloadConnections))
	defer func() { _ = rdb.Close() }()
	calls, stop, err := c.open(ctx, b.server, rdb)
	if stop != nil {
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err != nil {
		return f, err
	}
	medians, err := b.medians(2, func(at, _ int) ([]figures, error) {
		f, err := load(ctx, b.server, c.callers, pick(b, 50*time.Millisecond, time.Second), calls[at])
		return []figures{f}, err
	})
	if err != nil {
		return f, err
	}
	return peerCallFigures{c.name, c.peer, c.callers, c.cpu, c.rate, medians[0][0], medians[1][0]}, b.server.clear(ctx)
}

func (r *report) calls(rows []peerCallFigures) {
	r.section("Limiters, locks and single jobs", `Calls of packages limit and queue, and what libraries that are used for the same take, in turn. *CPU* is the server's for a call, and *rate* the
number of calls a second divided by that of the library.`)
	t := r.table("", "callers", "call", "library", "rate", "CPU, library", "CPU", "CPU")
	for _, c := range rows {
		cpu, rate := float64(c.Ours.CPU)/float64(c.Theirs.CPU), c.Ours.Ops/c.Theirs.Ops
		t.row(count(c.Callers), c.Name, c.Peer, times(rate), micros(c.Theirs.CPU), micros(c.Ours.CPU), times(cpu))
		if c.CPU > 0 {
			r.target("Server CPU of "+c.Name+", of "+c.Peer, fmt.Sprintf("≤ %.2f×", c.CPU), times(cpu), cpu <= c.CPU)
		}
		if c.Rate > 0 {
			r.target(fmt.Sprintf("Rate of %s, %d callers, of %s", c.Name, c.Callers, c.Peer), fmt.Sprintf("≥ %.2f×", c.Rate), times(rate), rate >= c.Rate)
		}
	}
}
