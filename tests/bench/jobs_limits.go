package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/monitor"
	"github.com/shardedlist/shardedlist/queue"
)

const (
	limitConsumers = 20 // each with a client of its own
	limitWorkers   = 50 // of each
	limitJobs      = 10 // of Concurrency
)

// limitHandlers are how long the handlers of a queue with a Concurrency take.
var limitHandlers = []time.Duration{5 * time.Millisecond, 50 * time.Millisecond}

// jobsLimit are figures of a queue with a Rate.
type jobsLimit struct {
	Rate     int64   `json:"rate"` // in a second
	Burst    int64   `json:"burst"`
	Used     float64 `json:"used"`           // share of the rate
	Most     int     `json:"most_in_second"` // that were leased in any second
	Commands float64 `json:"commands_per_second"`
}

// jobsConcurrency are figures of a queue with a Concurrency.
type jobsConcurrency struct {
	Consumers int           `json:"consumers"`
	Workers   int           `json:"workers"` // of each
	Handler   time.Duration `json:"handler_ns"`
	Ops       float64       `json:"jobs_per_second"`
	Used      float64       `json:"used"`   // jobs per second as a share of what the limit and the handler allow
	Busy      float64       `json:"busy"`   // handlers that run on average, as a share of the limit
	Leased    float64       `json:"leased"` // jobs that are leased on average, by the server's record, as a share of the limit
	Most      int64         `json:"most"`   // handlers that ran at once
}

// consumersOf runs the handler in so many consumers of a queue, and waits until stop is called.
func (b *bench) consumersOf(ctx context.Context, name string, consumers, workers int, handler queue.Handler, options ...queue.Option) (stop func() error, err error) {
	var clients []*redis.Client
	var stops []func() error
	for range consumers {
		rdb := b.server.client()
		clients = append(clients, rdb)
		q, err := queue.New(rdb, name, options...)
		if err != nil {
			return nil, err
		}
		stops = append(stops, runQueue(ctx, q, workers, handler))
	}
	return func() error {
		failures := make([]error, len(stops))
		var group sync.WaitGroup
		for i, stop := range stops {
			group.Go(func() { failures[i] = stop() })
		}
		group.Wait()
		for _, rdb := range clients {
			_ = rdb.Close()
		}
		return errors.Join(failures...)
	}, nil
}

func (b *bench) fillQueue(ctx context.Context, name string, jobs int) error {
	rdb, source := b.server.client(), &payloads{}
	defer rdb.Close()
	q, err := queue.New(rdb, name)
	if err == nil {
		_, err = q.PushMany(ctx, anyOf(source.many(jobs)))
	}
	return err
}

// jobsUnderRates measures how much of a Rate consumers use together.
func (b *bench) jobsUnderRates(ctx context.Context) error {
	for _, rate := range []int64{100, 2000} {
		var used, commands []float64
		var most []int
		for range b.runs {
			u, m, c, err := b.underRate(ctx, rate, pick(b, time.Second, 5*time.Second))
			if err != nil {
				return err
			}
			used, most, commands = append(used, u), append(most, m), append(commands, c)
			tick()
		}
		b.results.Jobs.Limits = append(b.results.Jobs.Limits,
			jobsLimit{rate, max(1, rate/10), quantile(used, 0.5), slices.Max(most), quantile(commands, 0.5)})
	}
	return nil
}

// underRate returns the share of the rate that is used once the burst is over, the most jobs that were leased in any second, and the
// commands per second that the server ran. All is by the record of the server.
func (b *bench) underRate(ctx context.Context, rate int64, d time.Duration) (used float64, most int, commands float64, err error) {
	const lead = time.Second // for the burst
	if err := b.fillQueue(ctx, "rate", int(2*float64(rate)*(d+2*lead).Seconds())); err != nil {
		return 0, 0, 0, err
	}
	r := &leases{key: "{rate}:queue:times"}
	stopWatch, err := monitor.Watch(b.server.addr, r.add)
	if err != nil {
		return 0, 0, 0, err
	}
	done := func(context.Context, *queue.Job) error { return nil }
	stop, err := b.consumersOf(ctx, "rate", limitConsumers, limitWorkers, done, queue.Rate(rate, time.Second))
	if err != nil {
		return 0, 0, 0, err
	}
	err = sleep(ctx, lead)
	from, fromErr := b.server.control.Time(ctx).Result()
	before, beforeErr := b.server.number(ctx, "stats", "total_commands_processed")
	err = errors.Join(err, fromErr, beforeErr, sleep(ctx, d))
	after, afterErr := b.server.number(ctx, "stats", "total_commands_processed")
	to, toErr := b.server.control.Time(ctx).Result()
	if err := errors.Join(err, toErr, afterErr, stop(), stopWatch(), r.err, b.server.clear(ctx)); err != nil {
		return 0, 0, 0, err
	}
	seconds := to.Sub(from).Seconds()
	return float64(r.between(from, to)) / (float64(rate) * seconds), r.mostInSecond(), (after - before) / seconds, nil
}

// leases are those that a server gives the jobs of a queue.
type leases struct {
	key   string  // of the ends of the leases
	begun []int64 // when they began, in Unix milliseconds, in that order
	err   error
}

// add records a command: the leases of new jobs are added by their ends, which are negative, and XX extends leases.
func (l *leases) add(c monitor.Command) {
	if len(c.Args) < 4 || c.Args[0] != "ZADD" || c.Args[1] != l.key || c.Args[2] == "XX" {
		return
	}
	for i := 2; i < len(c.Args); i += 2 {
		end, err := strconv.ParseInt(c.Args[i], 10, 64)
		if err != nil {
			l.err = err
		}
		l.begun = append(l.begun, -end-queue.DefaultLease.Milliseconds())
	}
}

func (l *leases) between(from, to time.Time) (count int) {
	for _, at := range l.begun {
		if at >= from.UnixMilli() && at < to.UnixMilli() {
			count++
		}
	}
	return count
}

// mostInSecond counts over spans of 999 ms, because the times are cut to milliseconds: none is of jobs that are a second apart.
func (l *leases) mostInSecond() (most int) {
	first := 0
	for i, at := range l.begun {
		for at-l.begun[first] >= 999 {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

// jobsUnderConcurrency measures how much of a Concurrency one consumer uses, and many together.
func (b *bench) jobsUnderConcurrency(ctx context.Context) error {
	var cases []jobsConcurrency
	for _, handler := range limitHandlers {
		cases = append(cases, jobsConcurrency{Consumers: 1, Workers: queueWorkers, Handler: handler},
			jobsConcurrency{Consumers: limitConsumers, Workers: limitWorkers, Handler: handler})
	}
	for _, c := range cases {
		var ops, busy, leased []float64
		for range b.runs {
			run, err := b.underConcurrency(ctx, c, pick(b, 300*time.Millisecond, 3*time.Second))
			if err != nil {
				return err
			}
			ops, busy, leased, c.Most = append(ops, run.Ops), append(busy, run.Busy), append(leased, run.Leased), max(c.Most, run.Most)
			tick()
		}
		c.Ops, c.Busy, c.Leased = quantile(ops, 0.5), quantile(busy, 0.5), quantile(leased, 0.5)
		c.Used = c.Ops * c.Handler.Seconds() / limitJobs
		b.results.Jobs.Concurrency = append(b.results.Jobs.Concurrency, c)
	}
	return nil
}

func (b *bench) underConcurrency(ctx context.Context, c jobsConcurrency, d time.Duration) (jobsConcurrency, error) {
	if err := b.fillQueue(ctx, "concurrency", int(2*(d+time.Second)/c.Handler*limitJobs)); err != nil {
		return c, err
	}
	var running, most, done, busy atomic.Int64
	stop, err := b.consumersOf(ctx, "concurrency", c.Consumers, c.Workers, func(context.Context, *queue.Job) error {
		begin, now := time.Now(), running.Add(1)
		for {
			seen := most.Load()
			if now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		time.Sleep(c.Handler)
		running.Add(-1)
		done.Add(1)
		busy.Add(int64(time.Since(begin)))
		return nil
	}, queue.Concurrency(limitJobs))
	if err != nil {
		return c, err
	}
	if err := sleep(ctx, 200*time.Millisecond); err != nil {
		return c, err
	}
	start, doneBefore, busyBefore := time.Now(), done.Load(), busy.Load()
	c.Leased, err = b.leased(ctx, "concurrency", d)
	elapsed, doneAfter, busyAfter := time.Since(start), done.Load(), busy.Load()
	c.Ops = float64(doneAfter-doneBefore) / elapsed.Seconds()
	c.Busy = float64(busyAfter-busyBefore) / float64(elapsed) / limitJobs
	c.Most = most.Load()
	return c, errors.Join(err, stop(), b.server.clear(ctx))
}

// leased asks the server every millisecond how many jobs of a queue are leased, and returns the mean as a share of the limit.
func (b *bench) leased(ctx context.Context, name string, d time.Duration) (share float64, err error) {
	rdb := b.server.client()
	defer rdb.Close()
	total, samples := int64(0), 0
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for start := time.Now(); err == nil && time.Since(start) < d; {
		<-ticker.C
		var now int64
		now, err = rdb.ZCount(ctx, "{"+name+"}:queue:times", "-inf", "(0").Result()
		total, samples = total+now, samples+1
	}
	return float64(total) / float64(samples) / limitJobs, err
}

func (r *report) jobsLimits(j *jobsResult) {
	t := r.table(fmt.Sprintf("Rate, %d consumers of %d workers together", limitConsumers, limitWorkers),
		"rate per second", "burst", "used", "most in any second", "server commands per second")
	for _, l := range j.Limits {
		t.row(count(int(l.Rate)), count(int(l.Burst)), percent(l.Used), count(l.Most), count(l.Commands))
		bound := int(l.Rate + l.Burst)
		r.target(fmt.Sprintf("Jobs leased in any second, Rate(%d, time.Second)", l.Rate), fmt.Sprintf("≤ %s", count(bound)), count(l.Most), l.Most <= bound)
	}
	t = r.table(fmt.Sprintf("Concurrency(%d)", limitJobs), "handler", "consumers", "workers of each", "jobs/s", "of the ideal", "handlers running, of the limit", "leased, of the limit", "most at once")
	for _, c := range j.Concurrency {
		t.row(millis(c.Handler), c.Consumers, c.Workers, count(c.Ops), percent(c.Used), percent(c.Busy), percent(c.Leased), c.Most)
		r.target(fmt.Sprintf("Handlers of %s at once in %s, Concurrency(%d)", millis(c.Handler), consumersText(c.Consumers), limitJobs), fmt.Sprintf("≤ %d", limitJobs), fmt.Sprint(c.Most), c.Most <= limitJobs)
		r.target(fmt.Sprintf("Jobs leased to %s with handlers of %s, Concurrency(%d)", consumersText(c.Consumers), millis(c.Handler), limitJobs), "≥ 95 %", percent(c.Leased), c.Leased >= 0.95)
	}
	r.note("%s", wrap(`*Used* is what begins after the first second, which has the burst, as a share of the rate. The ideal of a Concurrency
leaves no time for a job to be settled and the next one to be taken, and a handler sleeps for a little longer than it says.
Under a Rate, the leases count that the server gives, by its clock, as MONITOR tells. *At once* are the handlers.`))
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func consumersText(consumers int) string {
	if consumers == 1 {
		return "1 consumer"
	}
	return count(consumers) + " consumers"
}
