package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// blocker is a list with one client that pushes and another that blocks.
type blocker struct {
	name  string
	push  func(ctx context.Context, values ...any) error
	pop   func(ctx context.Context) error
	popDB *redis.Client
}

// blockers returns the lists to compare and a function that closes their clients.
func (b *bench) blockers(key string, connections int) (blockers []blocker, stop func()) {
	pusher, ownPopper := b.server.client(), b.server.client()
	popper := b.server.client(poolSize(connections))
	in, out := sharded(pusher, key+":sharded"), sharded(ownPopper, key+":sharded")
	plain := key + ":plain"
	stop = func() { _, _, _ = pusher.Close(), ownPopper.Close(), popper.Close() }
	return []blocker{
		{
			name: ours,
			push: func(ctx context.Context, values ...any) error {
				_, err := in.RPush(ctx, values...)
				return err
			},
			pop: func(ctx context.Context) error {
				_, err := out.BLPop(ctx, 0)
				return err
			},
			popDB: ownPopper,
		},
		{
			name:  "go-redis",
			push:  func(ctx context.Context, values ...any) error { return pusher.RPush(ctx, plain, values...).Err() },
			pop:   func(ctx context.Context) error { return popper.BLPop(ctx, 0, plain).Err() },
			popDB: popper,
		},
	}, stop
}

// untilBlocked waits until the server reports that many blocked clients.
func (s *server) untilBlocked(ctx context.Context, clients int) error {
	for {
		blocked, err := s.number(ctx, "clients", "blocked_clients")
		if err != nil || int(blocked) == clients {
			return err
		}
	}
}

// wakeup measures the time from the call of a push to the return of the blocked pop. The clients alternate.
func (b *bench) wakeup(ctx context.Context) error {
	blockers, stop := b.blockers("wakeup", 1)
	defer stop()
	rounds, turn := pick(b, 200, 5000), 100
	p50, p99 := make([][]time.Duration, len(blockers)), make([][]time.Duration, len(blockers)) // of each run
	for range b.runs {
		latencies := make([][]time.Duration, len(blockers))
		for range rounds / turn {
			for i, p := range blockers {
				got, err := b.wakeUps(ctx, p, turn)
				if err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				latencies[i] = append(latencies[i], got...)
			}
			tick()
		}
		for i := range blockers {
			p50[i], p99[i] = append(p50[i], quantile(latencies[i], 0.5)), append(p99[i], quantile(latencies[i], 0.99))
		}
	}
	result := &wakeupResult{Rounds: rounds}
	for i, p := range blockers {
		result.Clients = append(result.Clients, wakeupLatency{p.name, quantile(p50[i], 0.5), spreadOf(p50[i]), quantile(p99[i], 0.5)})
	}
	b.results.Wakeup = result
	return nil
}

type wakeupResult struct {
	Rounds  int             `json:"rounds"` // of each run
	Clients []wakeupLatency `json:"clients"`
}

type wakeupLatency struct {
	Client    string        `json:"client"`
	P50       time.Duration `json:"p50_ns"`
	P50Spread float64       `json:"p50_spread,omitempty"`
	P99       time.Duration `json:"p99_ns"`
}

func (r *report) wakeup(w *wakeupResult) {
	r.section("Wake-up of a blocked consumer", fmt.Sprintf(`One client blocks; when the server reports it as blocked, another
pushes one value of 100 bytes. The latency is from the call of RPush to the return of BLPop, over %s wake-ups.`,
		count(w.Rounds)))
	t := r.table("", "client", "p50", "p99", "p50 against go-redis")
	own, plain := w.Clients[0], w.Clients[1]
	for _, c := range w.Clients {
		t.row(c.Client, r.withSpread(micros(c.P50), c.P50Spread), micros(c.P99), times(float64(c.P50)/float64(plain.P50)))
	}
	ratio := float64(own.P50) / float64(plain.P50)
	r.compare("Wake-up of a blocked consumer, p50", "go-redis", micros(own.P50)+" against "+micros(plain.P50), 1/ratio)
	r.target("Wake-up of a blocked consumer, p50, against BLPOP", "≤ 1.2×", times(ratio), ratio <= 1.2)
}

func (b *bench) wakeUps(ctx context.Context, p blocker, turns int) ([]time.Duration, error) {
	woken := make(chan time.Time, 1)
	failed := make(chan error, 1)
	go func() {
		for range turns {
			if err := p.pop(ctx); err != nil {
				failed <- err
				return
			}
			woken <- time.Now()
		}
	}()
	var latencies []time.Duration
	value := text(100)
	for range turns {
		if err := b.server.untilBlocked(ctx, 1); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := p.push(ctx, value); err != nil {
			return nil, err
		}
		select {
		case end := <-woken:
			latencies = append(latencies, end.Sub(start))
		case err := <-failed:
			return nil, err
		case <-time.After(10 * time.Second):
			return nil, fmt.Errorf("not woken within 10 s")
		}
	}
	return latencies, nil
}

// blocked measures many goroutines that are blocked in BLPop at once.
func (b *bench) blocked(ctx context.Context) error {
	goroutines := pick(b, 1000, 10000)
	result := &blockedResult{Goroutines: goroutines}
	blockers, stop := b.blockers("blocked", goroutines)
	defer stop()
	for _, p := range blockers {
		connections, served, err := b.blockMany(ctx, p, goroutines)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		result.Clients = append(result.Clients, blockedClient{p.name, connections, served})
		tick()
	}
	b.results.Blocked = result
	return nil
}

type blockedResult struct {
	Goroutines int             `json:"goroutines"`
	Clients    []blockedClient `json:"clients"`
}

type blockedClient struct {
	Client      string        `json:"client"`
	Connections int           `json:"connections"`
	Served      time.Duration `json:"served_ns"`
}

func (r *report) blocked(b *blockedResult) {
	goroutines := count(b.Goroutines)
	r.section("Many blocked consumers", fmt.Sprintf(`%s goroutines block in BLPop on one list. Then one RPush pushes %[1]s
values. Each measurement runs once.`, goroutines))
	t := r.table("", "client", "connections", "until all are served")
	own, plain := b.Clients[0], b.Clients[1]
	for _, c := range b.Clients {
		t.row(c.Client, count(c.Connections), millis(c.Served))
	}
	r.compare("Connections of "+goroutines+" blocked consumers", "go-redis",
		count(own.Connections)+" against "+count(plain.Connections), float64(plain.Connections)/float64(own.Connections))
	r.compare("Time to serve "+goroutines+" blocked consumers", "go-redis",
		millis(own.Served)+" against "+millis(plain.Served), float64(plain.Served)/float64(own.Served))
	r.target(fmt.Sprintf("Connections of %s goroutines blocked in BLPop", goroutines), "≤ 2", count(own.Connections),
		own.Connections <= 2)
}

func (b *bench) blockMany(ctx context.Context, p blocker, goroutines int) (connections int, served time.Duration, err error) {
	var group sync.WaitGroup
	var started atomic.Int64
	var failure atomic.Pointer[error]
	for range goroutines {
		group.Go(func() {
			started.Add(1)
			if err := p.pop(ctx); err != nil {
				failure.CompareAndSwap(nil, &err)
			}
		})
	}
	// Our callers share one connection, so the server reports one blocked client.
	blocked := goroutines
	if p.name == ours {
		blocked = 1
	}
	for started.Load() < int64(goroutines) {
		time.Sleep(time.Millisecond)
	}
	if err := b.server.untilBlocked(ctx, blocked); err != nil {
		return 0, 0, err
	}
	if err := sleep(ctx, pick(b, 100*time.Millisecond, time.Second)); err != nil {
		return 0, 0, err
	}
	connections = int(p.popDB.PoolStats().TotalConns)
	values := make([]any, goroutines)
	for i := range values {
		values[i] = text(100)
	}
	start := time.Now()
	if err := p.push(ctx, values...); err != nil {
		return 0, 0, err
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return 0, 0, *err
	}
	return connections, time.Since(start), nil
}
