package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardedlist/shardedlist/queue"
)

// jobsResult are the figures of package queue and of libraries that acknowledge jobs, too.
type jobsResult struct {
	Waiting     int               `json:"waiting"`                // in the longer queue
	Rates       []jobsRate        `json:"rates"`                  // of the short queue, ours first, and then of the longer one
	Memory      []jobsMemory      `json:"memory"`                 // the plain list first, then ours
	Pushes      []delayedPush     `json:"pushes"`                 // of delayed jobs, few of them there first
	PlainPushes []delayedPush     `json:"plain_pushes,omitempty"` // of jobs that are not delayed
	Late        []jobsLate        `json:"late"`                   // ours first for each rate
	Limits      []jobsLimit       `json:"limits"`                 // by Rate
	Concurrency []jobsConcurrency `json:"concurrency"`            // by Concurrency
	Begin       []wakeupLatency   `json:"begin"`                  // ours first
}

type jobsRate struct {
	Waiting int     `json:"waiting"`
	Pushed  float64 `json:"pushed_per_second,omitempty"`
	clientResult
}

type jobsMemory struct {
	Client string  `json:"client"`
	Bytes  float64 `json:"bytes_per_job"`
}

// jobBrokers are the libraries to compare.
var jobBrokers = []func(*server, string) (*broker, error){queueBroker, asynqBroker, rmqBroker, machineryBroker}

func queueBroker(s *server, key string) (*broker, error) {
	producer, consumer := s.client(), s.client()
	in, err := queue.New(producer, key)
	if err != nil {
		return nil, err
	}
	out, err := queue.New(consumer, key)
	if err != nil {
		return nil, err
	}
	fill := func(ctx context.Context, payloads []string, options ...queue.PushOption) error {
		_, err := in.PushMany(ctx, anyOf(payloads), options...)
		return err
	}
	return &broker{
		name: ours,
		produce: func(ctx context.Context, payload string) error {
			_, err := in.Push(ctx, payload)
			return err
		},
		fill: func(ctx context.Context, payloads []string) error { return fill(ctx, payloads) },
		delay: func(ctx context.Context, due time.Time, payloads []string) error {
			return fill(ctx, payloads, queue.At(due))
		},
		consume: func(ctx context.Context, got func(string)) (func() error, error) {
			return runQueue(ctx, out, queueWorkers, func(_ context.Context, job *queue.Job) error {
				got(string(job.Payload))
				return nil
			}), nil
		},
		close: func() { _, _ = producer.Close(), consumer.Close() },
	}, nil
}

// runQueue runs the queue until stop is called.
func runQueue(ctx context.Context, q *queue.Queue, workers int, handler queue.Handler) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- q.Run(ctx, workers, handler) }()
	return func() error {
		cancel()
		return <-failed
	}
}

func anyOf(values []string) []any {
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = value
	}
	return all
}

// payloads makes payloads of queueSize bytes, no two of them equal: rmq finds a job by its payload to remove it.
type payloads struct{ made atomic.Int64 }

func (p *payloads) next() string {
	number := strconv.FormatInt(p.made.Add(1), 10)
	return number + strings.Repeat("x", queueSize-len(number))
}

func (p *payloads) many(count int) []string {
	all := make([]string, count)
	for i := range all {
		all[i] = p.next()
	}
	return all
}

// distinct makes a broker produce other payloads than it is given.
func distinct(from *broker, p *payloads) *broker {
	b := *from
	b.produce = func(ctx context.Context, _ string) error { return from.produce(ctx, p.next()) }
	return &b
}

// jobs measures package queue.
func (b *bench) jobs(ctx context.Context) error {
	b.results.Jobs = &jobsResult{Waiting: pick(b, 10_000, 1_000_000)}
	for _, measure := range []func(*bench, context.Context) error{
		(*bench).jobsFromEmpty, (*bench).jobsBegin, (*bench).jobsLate, (*bench).jobsUnderRates, (*bench).jobsUnderConcurrency,
		(*bench).jobsDelayed, (*bench).jobsWaiting,
	} {
		if err := measure(b, ctx); err != nil {
			return err
		}
		if err := b.server.clear(ctx); err != nil {
			return err
		}
	}
	return nil
}

// jobsFromEmpty measures producers and consumers of a queue that is empty at first.
func (b *bench) jobsFromEmpty(ctx context.Context) error {
	names, source := make([]string, len(jobBrokers)), &payloads{}
	medians, err := b.medians(len(jobBrokers), func(at, round int) ([]figures, error) {
		broker, err := jobBrokers[at](b.server, fmt.Sprintf("jobs%d", round))
		if err != nil {
			return nil, err
		}
		names[at] = broker.name
		f, err := b.move(ctx, distinct(broker, source), pick(b, 200*time.Millisecond, 2*time.Second))
		broker.close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", broker.name, err)
		}
		return []figures{f}, b.server.clear(ctx)
	})
	for i, name := range names {
		if err == nil {
			b.results.Jobs.Rates = append(b.results.Jobs.Rates, jobsRate{clientResult: clientResult{name, medians[i][0]}})
		}
	}
	return err
}

// jobsWaiting fills queues, and measures their memory, and their producers and consumers. Jobs wait all the time.
func (b *bench) jobsWaiting(ctx context.Context) error {
	r, source := b.results.Jobs, &payloads{}
	measured := func(name string, fill func(context.Context, []string) error) error {
		before, err := b.server.used(ctx)
		if err != nil {
			return err
		}
		for left := r.Waiting; left > 0; left -= 1000 {
			if err := fill(ctx, source.many(min(left, 1000))); err != nil {
				return err
			}
		}
		after, err := b.server.used(ctx)
		r.Memory = append(r.Memory, jobsMemory{name, (after - before) / float64(r.Waiting)})
		tick()
		return err
	}
	plain := b.server.fillPlain("plain")
	err := measured("plain list", func(ctx context.Context, payloads []string) error { return plain(ctx, anyOf(payloads)...) })
	if err != nil {
		return err
	}
	names := make([]string, len(jobBrokers))
	for i, open := range jobBrokers {
		broker, err := open(b.server, "waiting")
		if err != nil {
			return err
		}
		names[i] = broker.name
		err = measured(broker.name, broker.fill)
		broker.close()
		if err != nil {
			return fmt.Errorf("%s: %w", broker.name, err)
		}
	}
	missing := make([]int, len(jobBrokers)) // until as many wait as at first
	medians, err := b.medians(len(jobBrokers), func(at, _ int) ([]figures, error) {
		var both []figures
		for _, producers := range []int{0, queueWorkers} {
			broker, err := jobBrokers[at](b.server, "waiting")
			if err != nil {
				return nil, err
			}
			for ; missing[at] > 0; missing[at] -= 1000 {
				if err := broker.fill(ctx, source.many(1000)); err != nil {
					return nil, err
				}
			}
			done, pushed, more, err := b.moveSome(ctx, distinct(broker, source), producers, pick(b, 200*time.Millisecond, 2*time.Second))
			broker.close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", broker.name, err)
			}
			missing[at] -= more
			both = append(both, done, pushed)
		}
		return both, nil
	})
	if err != nil {
		return err
	}
	for _, pushing := range []bool{false, true} {
		for i, name := range names {
			rate := jobsRate{Waiting: r.Waiting, clientResult: clientResult{name, medians[i][0]}}
			if pushing {
				rate.figures, rate.Pushed = medians[i][2], medians[i][3].Ops
			}
			r.Rates = append(r.Rates, rate)
		}
	}
	return nil
}

// moveSome runs so many producers, and consumers, for the duration d. It returns the figures of what arrives, those of what is pushed,
// and by how many jobs the queue has grown.
func (b *bench) moveSome(ctx context.Context, broker *broker, producers int, d time.Duration) (done, pushed figures, more int, err error) {
	var got, put atomic.Int64
	stop, err := broker.consume(ctx, func(string) { got.Add(1) })
	if err != nil {
		return done, pushed, 0, err
	}
	measure := func() error {
		if err := sleep(ctx, pick(b, 20*time.Millisecond, 300*time.Millisecond)); err != nil { // until it is at full speed
			return err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cpu, err := b.server.cpu(ctx)
		if err != nil {
			return err
		}
		arrived, start := got.Load(), time.Now()
		if producers == 0 {
			err = sleep(ctx, d)
		} else {
			pushed, err = load(ctx, b.server, producers, d, func(ctx context.Context) error {
				put.Add(1)
				return broker.produce(ctx, "")
			})
		}
		count, elapsed := got.Load()-arrived, time.Since(start)
		cpuAfter, cpuErr := b.server.cpu(ctx)
		if err := errors.Join(err, cpuErr); err != nil {
			return err
		}
		runtime.ReadMemStats(&after)
		done.Ops = float64(count) / elapsed.Seconds()
		done.CPU = (cpuAfter - cpu) / time.Duration(max(count, 1))
		done.Allocs = float64(after.Mallocs-before.Mallocs) / float64(max(count, 1))
		return nil
	}
	err = errors.Join(measure(), stop())
	return done, pushed, int(put.Load() - got.Load()), err
}

func (r *report) jobs(j *jobsResult) {
	r.section("Jobs", fmt.Sprintf(`Package queue, two libraries that acknowledge a job after its handler has returned, too, and machinery, which does
not: it removes a job before its handler is called, and a worker that dies loses it. %[1]d goroutines push jobs of %[2]d bytes, one per
call; no two payloads are equal. %[1]d workers call a handler that does nothing. asynq has a Concurrency of %[1]d, rmq %[1]d consumers and a
prefetch limit of %[3]d, and machinery a worker with a concurrency of %[1]d and no result backend. asynq and rmq poll every millisecond, more often
than by default. At 0 jobs waiting, the measurement ends when the last job that was pushed has been done. At %[4]s, which were pushed
before, it counts the jobs that are done in a fixed time: first without producers, and then while those push as fast as they can. asynq, rmq
and machinery fetch jobs one at a time, and each fetch waits behind the calls of all producers. Server CPU and allocs are per job done, and
include what producers cause. *Ratio* is the throughput of package queue divided by that of the library.`,
		queueWorkers, queueSize, 10*queueWorkers, count(j.Waiting)))
	t := r.table("", "jobs waiting", "client", "done/s", "pushed/s meanwhile", "server CPU", "allocs", "ratio")
	var own figures
	for _, c := range j.Rates {
		pushed, ratio := "", ""
		if c.Pushed > 0 {
			pushed = count(c.Pushed)
		}
		if c.Client == ours {
			own = c.figures
		} else {
			got := own.Ops / c.Ops
			ratio = times(got)
			what := fmt.Sprintf("Jobs from push to done, %d producers and workers", queueWorkers)
			if c.Waiting > 0 {
				what = fmt.Sprintf("Jobs done, %d workers, %s waiting", queueWorkers, count(c.Waiting))
			}
			if c.Pushed > 0 {
				what += fmt.Sprintf(", %d producers", queueWorkers)
			}
			r.compare(what, c.Client, count(own.Ops)+" against "+count(c.Ops)+" per second", got)
			r.target(what+", against "+c.Client, "≥ 3×", times(got), got >= 3)
		}
		t.row(count(c.Waiting), c.Client, r.ops(c.figures), pushed, micros(c.CPU), fmt.Sprintf("%.1f", c.Allocs), ratio)
	}
	r.jobsMemory(j)
	r.jobsTimes(j)
	r.jobsLimits(j)
}

func (r *report) jobsMemory(j *jobsResult) {
	t := r.table(fmt.Sprintf("Memory of %s waiting jobs of %d bytes", count(j.Waiting), queueSize), "client", "bytes per job", "against the plain list")
	plain, own := j.Memory[0].Bytes, j.Memory[1].Bytes
	for _, m := range j.Memory {
		t.row(m.Client, fmt.Sprintf("%.1f", m.Bytes), fmt.Sprintf("%.2f×", m.Bytes/plain))
		if m.Client != ours {
			r.compare(fmt.Sprintf("Memory per waiting job of %d bytes", queueSize), m.Client, fmt.Sprintf("%.0f against %.0f bytes", own, m.Bytes), m.Bytes/own)
		}
	}
	r.target(fmt.Sprintf("Memory per waiting job of %d bytes, against a plain list", queueSize), "≤ 1.3×", times(own/plain), own/plain <= 1.3)
}
