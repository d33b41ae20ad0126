package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/adjust/rmq/v5"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

const (
	queueWorkers = 64 // producers, and as many consumers
	queueSize    = 100
)

// broker moves elements from producers to consumers.
type broker struct {
	name    string
	produce func(ctx context.Context, payload string) error
	// consume starts the consumers, which call got for each element. The function that it returns stops them; by then all
	// elements have arrived.
	consume func(ctx context.Context, got func(payload string)) (stop func() error, err error)
	// fill produces many elements at once, and delay elements that are due at that time. They are nil if no section needs them.
	fill  func(ctx context.Context, payloads []string) error
	delay func(ctx context.Context, due time.Time, payloads []string) error
	close func()
}

// queue measures the throughput from producers to blocking consumers.
func (b *bench) queue(ctx context.Context) error {
	brokers := []func(*server, string) (*broker, error){
		shardedBroker, goRedisBroker, rueidisBroker, asynqBroker, rmqBroker,
	}
	names := make([]string, len(brokers))
	medians, err := b.medians(len(brokers), func(at, round int) ([]figures, error) {
		var run []figures
		for _, processors := range queueProcessors() {
			broker, err := brokers[at](b.server, fmt.Sprintf("queue%d-%d", round, processors))
			if err != nil {
				return nil, err
			}
			names[at] = broker.name
			before := runtime.GOMAXPROCS(processors)
			f, err := b.move(ctx, broker, pick(b, 200*time.Millisecond, 2*time.Second))
			runtime.GOMAXPROCS(before)
			broker.close()
			if err != nil {
				return nil, fmt.Errorf("%s: %w", broker.name, err)
			}
			run = append(run, f)
		}
		return run, b.server.clear(ctx)
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		b.results.Queue = append(b.results.Queue, clientResult{name, medians[i][0]})
		if len(medians[i]) > 1 {
			b.results.QueueApart = append(b.results.QueueApart, clientResult{name, medians[i][1]})
		}
	}
	return nil
}

// queueProcessors are the numbers of processors that the clients use: all, and all but one, which the server has for itself.
func queueProcessors() []int {
	all := runtime.NumCPU()
	if all == 1 {
		return []int{all}
	}
	return []int{all, all - 1}
}

func (r *report) queue(clients, apart []clientResult) {
	r.section("Producers to blocking consumers", fmt.Sprintf(`%d producers push values of %d bytes for a fixed time, one per
call. %[1]d consumers block and pop from the start. The measurement ends when the last value has arrived. asynq and rmq do
more per element: both track the elements in work, and asynq stores a record of each task. They poll every millisecond, more
often than by default. *Ratio* is the throughput of shardedlist divided by that of the client.`, queueWorkers, queueSize))
	r.moved(clients, fmt.Sprintf("Producers to consumers, %d to %[1]d", queueWorkers), "Producers to consumers")
	if len(apart) > 0 {
		r.note(`The same, while the clients leave one processor to the server (GOMAXPROCS), as clients on another machine do:`)
		r.moved(apart, fmt.Sprintf("Producers to consumers, %d to %[1]d, the server has a processor", queueWorkers),
			"Producers to consumers, the server has a processor")
	}
}

// moved adds a table of clients, of which the first is ours, and what it says to the summary and the targets.
func (r *report) moved(clients []clientResult, figure, target string) {
	t := r.table("", "client", "elements/s", "server CPU", "allocs", "ratio")
	own := clients[0]
	for _, c := range clients {
		ratio := ""
		if c.Client != ours {
			ratio = times(own.Ops / c.Ops)
			r.compare(figure, c.Client, count(own.Ops)+" against "+count(c.Ops)+" per second", own.Ops/c.Ops)
		}
		t.row(c.Client, r.ops(c.figures), micros(c.CPU), fmt.Sprintf("%.1f", c.Allocs), ratio)
		if want := map[string]float64{"go-redis": 4, "rueidis": 5}[c.Client]; want > 0 {
			got := own.Ops / c.Ops
			r.target(target+", against RPUSH and BLPOP with "+c.Client, fmt.Sprintf("≥ %.0f×", want), times(got), got >= want)
		}
	}
}

// move sends elements through the broker for the duration d and waits until all have arrived.
func (b *bench) move(ctx context.Context, broker *broker, d time.Duration) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var produced, got atomic.Int64
	stop, err := broker.consume(ctx, func(string) { got.Add(1) })
	if err != nil {
		return figures{}, err
	}

	start, payload := time.Now(), text(queueSize)
	produce := func(ctx context.Context) error {
		err := broker.produce(ctx, payload)
		if err == nil {
			produced.Add(1)
		}
		return err
	}
	f, err := load(ctx, b.server, queueWorkers, d, produce)
	if err != nil {
		return f, errors.Join(err, stop())
	}
	total := produced.Load()
	cpu, err := b.server.cpu(ctx)
	if err != nil {
		return f, err
	}
	for got.Load() < total && ctx.Err() == nil {
		time.Sleep(200 * time.Microsecond)
	}
	elapsed := time.Since(start)
	after, err := b.server.cpu(ctx)
	if err != nil {
		return f, err
	}
	if err := stop(); err != nil {
		return f, err
	}
	f.Ops = float64(total) / elapsed.Seconds()
	f.CPU += (after - cpu) / time.Duration(max(total, 1))
	return f, ctx.Err()
}

// endOfQueue stops the consumer that receives it.
const endOfQueue = "end"

// consumers starts goroutines that pop until they receive endOfQueue.
func consumers(pop func() (string, error), end func() error, got func(string)) (stop func() error) {
	var group sync.WaitGroup
	var failure atomic.Pointer[error]
	for range queueWorkers {
		group.Go(func() {
			for {
				value, err := pop()
				if err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				if value == endOfQueue {
					return
				}
				got(value)
			}
		})
	}
	return func() error {
		for range queueWorkers {
			if err := end(); err != nil {
				return err
			}
		}
		group.Wait()
		if err := failure.Load(); err != nil {
			return *err
		}
		return nil
	}
}

func shardedBroker(s *server, key string) (*broker, error) {
	producer, consumer := s.client(), s.client()
	in, out := sharded(producer, key), sharded(consumer, key)
	produce := func(ctx context.Context, payload string) error {
		_, err := in.RPush(ctx, payload)
		return err
	}
	return &broker{
		name:    ours,
		produce: produce,
		consume: func(ctx context.Context, got func(string)) (func() error, error) {
			pop := func() (string, error) { return out.BLPop(ctx, 0) }
			return consumers(pop, func() error { return produce(ctx, endOfQueue) }, got), nil
		},
		close: func() { _, _ = producer.Close(), consumer.Close() },
	}, nil
}

func goRedisBroker(s *server, key string) (*broker, error) {
	producer, consumer := s.client(poolSize(queueWorkers)), s.client(poolSize(queueWorkers))
	produce := func(ctx context.Context, payload string) error { return producer.RPush(ctx, key, payload).Err() }
	return &broker{
		name:    "go-redis",
		produce: produce,
		consume: func(ctx context.Context, got func(string)) (func() error, error) {
			pop := func() (string, error) { return second(consumer.BLPop(ctx, 0, key).Result()) }
			return consumers(pop, func() error { return produce(ctx, endOfQueue) }, got), nil
		},
		close: func() { _, _ = producer.Close(), consumer.Close() },
	}, nil
}

func rueidisBroker(s *server, key string) (*broker, error) {
	client, err := rueidis.NewClient(s.rueidis())
	if err != nil {
		return nil, err
	}
	produce := func(ctx context.Context, payload string) error {
		return client.Do(ctx, client.B().Rpush().Key(key).Element(payload).Build()).Error()
	}
	return &broker{
		name:    "rueidis",
		produce: produce,
		consume: func(ctx context.Context, got func(string)) (func() error, error) {
			pop := func() (string, error) {
				return second(client.Do(ctx, client.B().Blpop().Key(key).Timeout(0).Build()).AsStrSlice())
			}
			return consumers(pop, func() error { return produce(ctx, endOfQueue) }, got), nil
		},
		close: client.Close,
	}, nil
}

// second takes the element from a reply of BLPOP.
func second(reply []string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return reply[1], nil
}

func asynqBroker(s *server, key string) (*broker, error) { return asynqWith(0)(s, key) }

// asynqWith returns a broker that looks for tasks that are due once per interval. 0 is the default of asynq, 5 s.
func asynqWith(interval time.Duration) func(*server, string) (*broker, error) {
	return func(s *server, key string) (*broker, error) { return openAsynq(s, key, interval) }
}

func openAsynq(s *server, key string, interval time.Duration) (*broker, error) {
	connection := asynq.RedisClientOpt{Addr: s.addr, PoolSize: 2 * queueWorkers}
	client := asynq.NewClient(connection)
	enqueue := func(ctx context.Context, payload string, options ...asynq.Option) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("move", []byte(payload)), append(options, asynq.Queue(key))...)
		return err
	}
	return &broker{
		name:    "asynq",
		produce: func(ctx context.Context, payload string) error { return enqueue(ctx, payload) },
		fill: func(ctx context.Context, payloads []string) error {
			return together(len(payloads), func(i int) error { return enqueue(ctx, payloads[i]) })
		},
		delay: func(ctx context.Context, due time.Time, payloads []string) error {
			return together(len(payloads), func(i int) error { return enqueue(ctx, payloads[i], asynq.ProcessAt(due)) })
		},
		consume: func(ctx context.Context, got func(string)) (func() error, error) {
			workers := asynq.NewServer(connection, asynq.Config{
				Concurrency:              queueWorkers,
				Queues:                   map[string]int{key: 1},
				TaskCheckInterval:        time.Millisecond,
				DelayedTaskCheckInterval: interval,
				LogLevel:                 asynq.FatalLevel,
			})
			err := workers.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
				got(string(task.Payload()))
				return nil
			}))
			return func() error { workers.Shutdown(); return nil }, err
		},
		close: func() { _ = client.Close() },
	}, nil
}

func rmqBroker(s *server, key string) (*broker, error) {
	log.SetOutput(io.Discard) // rmq logs the end of its heartbeat
	rdb := s.client(poolSize(2 * queueWorkers))
	connection, err := rmq.OpenConnectionWithRedisClient("bench", redis.Cmdable(rdb), nil)
	if err != nil {
		return nil, err
	}
	queue, err := connection.OpenQueue(key)
	if err != nil {
		return nil, err
	}
	return &broker{
		name:    "rmq",
		produce: func(_ context.Context, payload string) error { return queue.Publish(payload) },
		fill:    func(_ context.Context, payloads []string) error { return queue.Publish(payloads...) },
		consume: func(_ context.Context, got func(string)) (func() error, error) {
			if err := queue.StartConsuming(10*queueWorkers, time.Millisecond); err != nil {
				return nil, err
			}
			for range queueWorkers {
				_, err := queue.AddConsumerFunc("consumer", func(d rmq.Delivery) {
					got(d.Payload())
					_ = d.Ack() // repeats what fails
				})
				if err != nil {
					return nil, err
				}
			}
			return func() error { <-connection.StopAllConsuming(); return nil }, nil
		},
		close: func() { _ = rdb.Close() },
	}, nil
}

// together calls do for 0 to count-1, from queueWorkers goroutines.
func together(count int, do func(i int) error) error {
	var group sync.WaitGroup
	var next atomic.Int64
	var failure atomic.Pointer[error]
	for range queueWorkers {
		group.Go(func() {
			for failure.Load() == nil {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if err := do(i); err != nil {
					failure.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return *err
	}
	return nil
}
