package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardedlist/shardedlist/queue"
)

// delayedPush are the times of a push to a queue that has delayed jobs.
type delayedPush struct {
	Delayed int           `json:"delayed"`   // that are there already
	Server  time.Duration `json:"server_ns"` // of one call
	P50     time.Duration `json:"p50_ns"`
}

// jobsLate are the times from when jobs are due to when their handlers are called. A handler that is called early is late by a
// negative time.
type jobsLate struct {
	Client    string        `json:"client"`
	PerSecond int           `json:"per_second"`
	First     time.Duration `json:"earliest_ns"`
	P50       time.Duration `json:"p50_ns"`
	P99       time.Duration `json:"p99_ns"`
	Max       time.Duration `json:"max_ns"`
}

const fewDelayed = 10

func someDay() queue.PushOption { return queue.In(time.Hour + rand.N(time.Hour)) }

// jobsDelayed measures pushes to a queue that has few delayed jobs, and to one that has many, in turns.
func (b *bench) jobsDelayed(ctx context.Context) error {
	r, source := b.results.Jobs, &payloads{}
	rdb := b.server.client()
	defer rdb.Close()
	queues := map[int]*queue.Queue{}
	for _, delayed := range []int{fewDelayed, r.Waiting} {
		q, err := queue.New(rdb, fmt.Sprint("delayed", delayed))
		if err != nil {
			return err
		}
		for left := delayed; left > 0; left -= 100 {
			if _, err := q.PushMany(ctx, anyOf(source.many(min(left, 100))), someDay()); err != nil {
				return err
			}
		}
		queues[delayed] = q
		tick()
	}
	var err error
	if r.PlainPushes, err = b.pushTimes(ctx, queues, func() []queue.PushOption { return nil }); err != nil {
		return err
	}
	r.Pushes, err = b.pushTimes(ctx, queues, func() []queue.PushOption { return []queue.PushOption{someDay()} })
	return err
}

// pushTimes measures pushes to queues by how many delayed jobs they have.
func (b *bench) pushTimes(ctx context.Context, queues map[int]*queue.Queue, options func() []queue.PushOption) (pushes []delayedPush, err error) {
	server, p50 := map[int][]time.Duration{}, map[int][]time.Duration{}
	counts := slices.Sorted(maps.Keys(queues))
	for range 1 + 2*b.runs { // one to warm up; twice the runs, because the differences are small
		for _, delayed := range counts {
			perCall, median, err := b.pushTime(ctx, queues[delayed], options)
			if err != nil {
				return nil, err
			}
			server[delayed], p50[delayed] = append(server[delayed], perCall), append(p50[delayed], median)
		}
	}
	for _, delayed := range counts {
		pushes = append(pushes, delayedPush{delayed, quantile(server[delayed][1:], 0.5), quantile(p50[delayed][1:], 0.5)})
	}
	return pushes, nil
}

// pushTime returns the time that pushes take the server, and the median of their calls.
func (b *bench) pushTime(ctx context.Context, q *queue.Queue, options func() []queue.PushOption) (perCall, median time.Duration, err error) {
	calls, source := pick(b, 100, 2000), &payloads{}
	if err := b.server.control.ConfigResetStat(ctx).Err(); err != nil {
		return 0, 0, err
	}
	var h histogram
	for range calls {
		payload, start := source.next(), time.Now()
		if _, err := q.Push(ctx, payload, options()...); err != nil {
			return 0, 0, err
		}
		h.add(time.Since(start))
	}
	perCall, scripts, err := b.server.callTime(ctx, "fcall")
	if err == nil && scripts < calls {
		err = fmt.Errorf("the server counted %d scripts", scripts)
	}
	return perCall, h.quantile(0.5), err
}

// jobsLate measures how late delayed jobs begin.
func (b *bench) jobsLate(ctx context.Context) error {
	peers := []struct {
		name string
		open func(*server, string) (*broker, error)
	}{
		{ours, queueBroker},
		{"asynq", asynqBroker},
		{"asynq, looking every 10 ms", asynqWith(10 * time.Millisecond)},
	}
	for _, perSecond := range pick(b, []int{500}, []int{1000, 10_000}) {
		runs := make([][]jobsLate, len(peers))
		for round := range b.runs {
			for i := range peers {
				i = (i + round) % len(peers)
				late, err := b.lateness(ctx, peers[i].open, perSecond)
				if err != nil {
					return fmt.Errorf("%s: %w", peers[i].name, err)
				}
				runs[i] = append(runs[i], late)
			}
			tick()
		}
		for i, p := range peers {
			of := func(figure func(jobsLate) time.Duration) time.Duration {
				var values []time.Duration
				for _, run := range runs[i] {
					values = append(values, figure(run))
				}
				return quantile(values, 0.5)
			}
			b.results.Jobs.Late = append(b.results.Jobs.Late, jobsLate{
				p.name, perSecond,
				of(func(l jobsLate) time.Duration { return l.First }), of(func(l jobsLate) time.Duration { return l.P50 }),
				of(func(l jobsLate) time.Duration { return l.P99 }), of(func(l jobsLate) time.Duration { return l.Max }),
			})
		}
	}
	return nil
}

// lateness pushes jobs that are due evenly over some seconds, and then waits for them.
func (b *bench) lateness(ctx context.Context, open func(*server, string) (*broker, error), perSecond int) (l jobsLate, err error) {
	broker, err := open(b.server, "late")
	if err != nil {
		return l, err
	}
	defer broker.close()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	perStep, step := max(1, perSecond/1000), time.Second/time.Duration(min(perSecond, 1000))
	steps := pick(b, 1, 3) * min(perSecond, 1000)
	first := time.Now().Add(time.Second + time.Duration(steps*perStep)*time.Second/3000).Truncate(time.Millisecond)
	err = together(steps, func(i int) error {
		due := first.Add(time.Duration(i) * step)
		payload := strconv.FormatInt(due.UnixMilli(), 10)
		payload += strings.Repeat("x", queueSize-len(payload))
		payloads := make([]string, perStep)
		for i := range payloads {
			payloads[i] = payload
		}
		return broker.delay(ctx, due, payloads)
	})
	if err == nil && time.Now().After(first) {
		err = errors.New("the first job was due before the last was pushed")
	}
	if err != nil {
		return l, err
	}

	var mu sync.Mutex
	var late []time.Duration
	var got atomic.Int64
	stop, err := broker.consume(ctx, func(payload string) {
		now := time.Now()
		number, _, _ := strings.Cut(payload, "x")
		due, _ := strconv.ParseInt(number, 10, 64)
		mu.Lock()
		late = append(late, now.Sub(time.UnixMilli(due)))
		mu.Unlock()
		got.Add(1)
	})
	if err != nil {
		return l, err
	}
	for int(got.Load()) < steps*perStep && err == nil {
		err = sleep(ctx, time.Millisecond)
	}
	if err := errors.Join(err, stop()); err != nil {
		return l, err
	}
	l.First, l.P50, l.P99, l.Max = quantile(late, 0), quantile(late, 0.5), quantile(late, 0.99), quantile(late, 1)
	return l, b.server.clear(ctx)
}

// jobsBegin measures the time from the call of a push to that of the handler, when all workers wait. The libraries alternate.
func (b *bench) jobsBegin(ctx context.Context) error {
	rounds, source := pick(b, 50, 1000), &payloads{}
	p50, p99 := make([][]time.Duration, len(jobBrokers)), make([][]time.Duration, len(jobBrokers))
	names := make([]string, len(jobBrokers))
	for range b.runs {
		for i, open := range jobBrokers {
			broker, err := open(b.server, "begin")
			if err != nil {
				return err
			}
			names[i] = broker.name
			latencies, err := b.begins(ctx, distinct(broker, source), rounds)
			broker.close()
			if err == nil {
				err = b.server.clear(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", broker.name, err)
			}
			p50[i], p99[i] = append(p50[i], quantile(latencies, 0.5)), append(p99[i], quantile(latencies, 0.99))
		}
		tick()
	}
	for i, name := range names {
		b.results.Jobs.Begin = append(b.results.Jobs.Begin, wakeupLatency{name, quantile(p50[i], 0.5), spreadOf(p50[i]), quantile(p99[i], 0.5)})
	}
	return nil
}

func (b *bench) begins(ctx context.Context, broker *broker, rounds int) (latencies []time.Duration, err error) {
	begun := make(chan time.Time, 1)
	stop, err := broker.consume(ctx, func(string) { begun <- time.Now() })
	if err != nil {
		return nil, err
	}
	for range rounds {
		if err = sleep(ctx, 3*time.Millisecond); err != nil { // until the job before is done, and the workers wait again
			break
		}
		for at := time.Now().Add(rand.N(2 * time.Millisecond)); time.Now().Before(at); { // timers that poll would be in step with a timer
			runtime.Gosched()
		}
		start := time.Now()
		if err = broker.produce(ctx, ""); err != nil {
			break
		}
		select {
		case at := <-begun:
			latencies = append(latencies, at.Sub(start))
		case <-time.After(10 * time.Second):
			err = errors.New("not begun within 10 s")
		}
		if err != nil {
			break
		}
	}
	return latencies, errors.Join(err, stop())
}

func (r *report) jobsTimes(j *jobsResult) {
	t := r.table("Time from the push of a lone job to the call of its handler", "client", "p50", "p99", "p50 of package queue against it")
	own := j.Begin[0]
	for _, c := range j.Begin {
		ratio := ""
		if c.Client != ours {
			ratio = times(float64(own.P50) / float64(c.P50))
			r.compare("Push of a lone job to the call of its handler, p50", c.Client, micros(own.P50)+" against "+micros(c.P50), float64(c.P50)/float64(own.P50))
		}
		t.row(c.Client, r.withSpread(micros(c.P50), c.P50Spread), micros(c.P99), ratio)
	}

	if len(j.PlainPushes) > 0 {
		r.pushes("Push of a job that is not delayed by one goroutine", "Server time of a push", "≤ 1.1×", 1.1, j.PlainPushes)
	}
	r.pushes("Push of a delayed job by one goroutine", "Server time of the push of a delayed job", "≤ 1.2×", 1.2, j.Pushes)
	r.note("%s", wrap(`A push of a job that is not delayed does not look at the delayed ones. That of a delayed job finds its place among them,
in a sorted set, which has more levels the longer it is: the difference is the time of ZADD. The jobs are due at random times.`))

	t = r.table("Begin of delayed jobs after they are due", "jobs due per second", "client", "earliest", "p50", "p99", "latest")
	for _, l := range j.Late {
		t.row(count(l.PerSecond), l.Client, signed(l.First), signed(l.P50), signed(l.P99), signed(l.Max))
		if l.Client == ours {
			r.target(fmt.Sprintf("Begin of delayed jobs after they are due, %s per second, latest", count(l.PerSecond)), "≤ 50 ms", millis(l.Max), l.Max <= 50*time.Millisecond)
		}
	}
	r.note("%s", wrap(`The jobs are pushed first, and are due evenly over three seconds. asynq looks for jobs that are due every five seconds by default.
It keeps the time in whole seconds, so some begin up to a second early. rmq has no delayed jobs.`))
}

// pushes writes a table of pushes, and the target for how many times the server time is that many delayed jobs cost.
func (r *report) pushes(title, what, target string, most float64, pushes []delayedPush) {
	few, many := pushes[0], pushes[1]
	ratio := func(a, b time.Duration) float64 { return float64(a) / float64(b) }
	t := r.table(title, "delayed jobs", "server time", "p50 of the call")
	for _, p := range pushes {
		t.row(count(p.Delayed), micros(p.Server), micros(p.P50))
	}
	server := ratio(many.Server, few.Server)
	r.note("Against %s delayed jobs, %s take %s the server time, and %s the time of the call.", count(few.Delayed), count(many.Delayed),
		times(server), times(ratio(many.P50, few.P50)))
	r.target(fmt.Sprintf("%s, %s delayed against %s", what, count(many.Delayed), count(few.Delayed)), target, times(server), server <= most)
}

func signed(d time.Duration) string {
	if d < 0 {
		return "−" + millis(-d)
	}
	return millis(d)
}
