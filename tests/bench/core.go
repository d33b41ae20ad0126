package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist"
)

// coreSections measure shardedlist alone, by its public API, so that two versions of it can be compared. Each prints a few
// figures within a few times the duration.
var coreSections = []struct {
	name    string
	measure func(*bench, context.Context, time.Duration) error
}{
	{"throughput-1", coreThroughput(1)},
	{"throughput-8", coreThroughput(8)},
	{"throughput-64", coreThroughput(64)},
	{"throughput-512", coreThroughput(512)},
	{"server-time", (*bench).coreServerTime},
	{"wakeup", (*bench).coreWakeup},
	{"queue", (*bench).coreQueue},
	{"hook-1", coreHook(1)},
	{"hook-64", coreHook(64)},
}

func (b *bench) core(ctx context.Context, name string, d time.Duration) error {
	var names []string
	for _, section := range coreSections {
		names = append(names, section.name)
		if section.name == name {
			return b.onServer(ctx, func(b *bench, ctx context.Context) error { return section.measure(b, ctx, d) })
		}
	}
	if name != "list" {
		return fmt.Errorf("no core section %q, only %s", name, strings.Join(names, ", "))
	}
	fmt.Println(strings.Join(names, "\n"))
	return nil
}

// printCore prints one figure: its name, value and unit.
func printCore(name string, value float64, unit string) {
	fmt.Printf("%s\t%g\t%s\n", name, value, unit)
}

func inMicros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func coreThroughput(goroutines int) func(*bench, context.Context, time.Duration) error {
	return func(b *bench, ctx context.Context, d time.Duration) error {
		rdb := b.server.client()
		defer rdb.Close()
		open := func(key string) list { return shardedPeer(rdb, key) }
		run, err := b.pushAndPop(ctx, peer{ours, open}, 100, goroutines, d)
		if err != nil {
			return err
		}
		for i, f := range run {
			name := singleOps[i] + ", " + callers(goroutines)
			printCore(name, f.Ops, "ops/s")
			printCore(name, inMicros(f.CPU), "µs server CPU")
			printCore(name, f.Allocs, "allocs")
		}
		return nil
	}
}

// coreServerTime measures the server's time per call by INFO commandstats.
func (b *bench) coreServerTime(ctx context.Context, d time.Duration) error {
	rdb := b.server.client()
	defer rdb.Close()
	const length = 100_000
	l, value := sharded(rdb, "server-time"), text(100)
	fill := func(ctx context.Context, values ...any) error {
		_, err := l.RPush(ctx, values...)
		return err
	}
	if err := fillWith(ctx, list{fill: fill}, length, len(value)); err != nil {
		return err
	}
	eight := []any{value, value, value, value, value, value, value, value}
	for _, c := range []struct {
		name string
		call func(i int64) error
	}{
		{"RPush of 1 value", func(int64) error { return fill(ctx, value) }},
		{"LPop of 1 value", func(int64) error { _, err := l.LPop(ctx); return err }},
		{"RPush of 8 values", func(int64) error { return fill(ctx, eight...) }},
		{"LPopCount of 8 values", func(int64) error { _, err := l.LPopCount(ctx, 8); return err }},
		{"LIndex in the middle", func(i int64) error { _, err := l.LIndex(ctx, length/2+i*7%1000); return err }},
	} {
		perCall, err := b.server.scriptTime(ctx, d/2, c.call)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		printCore("Server time of "+c.name, perCall, "µs")
	}
	return nil
}

// scriptTime calls for the duration d and returns the server's time in scripts and functions per call, in microseconds.
func (s *server) scriptTime(ctx context.Context, d time.Duration, call func(i int64) error) (float64, error) {
	for i := range int64(100) { // warm up
		if err := call(i); err != nil {
			return 0, err
		}
	}
	if err := s.control.ConfigResetStat(ctx).Err(); err != nil {
		return 0, err
	}
	var calls int64
	for end := time.Now().Add(d); calls == 0 || time.Now().Before(end); calls++ {
		if err := call(calls); err != nil {
			return 0, err
		}
	}
	var total time.Duration
	var counted int
	for _, command := range []string{"eval", "evalsha", "eval_ro", "evalsha_ro", "fcall", "fcall_ro"} {
		perCall, n, err := s.callTime(ctx, command)
		if err != nil {
			return 0, err
		}
		total += perCall * time.Duration(n)
		counted += n
	}
	if int64(counted) < calls {
		return 0, fmt.Errorf("%d calls ran %d scripts", calls, counted)
	}
	return inMicros(total) / float64(calls), nil
}

func (b *bench) coreWakeup(ctx context.Context, d time.Duration) error {
	blockers, stop := b.blockers("wakeup", 1)
	defer stop()
	var latencies []time.Duration
	for end := time.Now().Add(d); len(latencies) == 0 || time.Now().Before(end); {
		got, err := b.wakeUps(ctx, blockers[0], 100)
		if err != nil {
			return err
		}
		latencies = append(latencies, got...)
	}
	printCore("Wake-up of a blocked consumer, p50", inMicros(quantile(latencies, 0.5)), "µs")
	return nil
}

func (b *bench) coreQueue(ctx context.Context, d time.Duration) error {
	broker, err := shardedBroker(b.server, "queue")
	if err != nil {
		return err
	}
	defer broker.close()
	f, err := b.move(ctx, broker, d)
	if err != nil {
		return err
	}
	printCore(fmt.Sprintf("Producers to consumers, %d to %[1]d", queueWorkers), f.Ops, "ops/s")
	return nil
}

func coreHook(goroutines int) func(*bench, context.Context, time.Duration) error {
	return func(b *bench, ctx context.Context, d time.Duration) error {
		rdb := b.server.client()
		defer rdb.Close()
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("hooked*")))
		value := text(100)
		push := func(ctx context.Context) error { return rdb.RPush(ctx, "hooked", value).Err() }
		if _, err := load(ctx, b.server, goroutines, d/5, push); err != nil {
			return err
		}
		f, err := load(ctx, b.server, goroutines, d, push)
		if err != nil {
			return err
		}
		printCore("RPush by the hook, "+callers(goroutines), f.Ops, "ops/s")
		return nil
	}
}
