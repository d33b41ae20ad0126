// Command bench measures shardedlist and its peers on a redis-server that it starts. It stores the figures in results.json
// and writes docs/benchmarks.md:
//
//	cd tests/bench && go run .
//
// If qemu-user is installed, nodes run in it while the two ends of a spread list are measured: see slowed.
//
// This writes the page again from the stored figures:
//
//	go run . -from results.json
//
// Command compare in this module compares two versions of the library.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// bench is one run of the benchmark.
type bench struct {
	server  *server
	short   bool
	runs    int
	path    string        // of redis-server
	spare   time.Duration // for further rounds, see medians
	results results
}

// sections are the measurements.
var sections = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{"workloads", (*bench).workloads},
	{"everyday", (*bench).everyday},
	{"keys", (*bench).onKeys},
	{"throughput", (*bench).throughput},
	{"network", (*bench).network},
	{"pairs", (*bench).pairs},
	{"many", (*bench).many},
	{"large", (*bench).large},
	{"queue", (*bench).queue},
	{"jobs", (*bench).jobs},
	{"calls", (*bench).calls},
	{"wakeup", (*bench).wakeup},
	{"waits", (*bench).waits},
	{"blocked", (*bench).blocked},
	{"cancel", (*bench).cancel},
	{"big", (*bench).big},
	{"huge", (*bench).huge},
	{"adopt", (*bench).adopt},
	{"memory", (*bench).memory},
	{"length", (*bench).length},
	{"book", (*bench).book},
	{"spread", (*bench).spread},
	{"reshard", (*bench).reshard},
}

func main() {
	if addr := os.Getenv(callerEnv); addr != "" {
		if err := takeOrders(addr); err != nil {
			fmt.Fprintln(os.Stderr, "caller:", err)
			os.Exit(1)
		}
		return
	}
	if addr := os.Getenv(pingerEnv); addr != "" {
		if err := pingForBenchmark(addr); err != nil {
			fmt.Fprintln(os.Stderr, "pinger:", err)
			os.Exit(1)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	short := flags.Bool("short", false, "small lists and short measurements; the figures are rough")
	only := flags.String("only", "", "measure only the sections whose `names` match this regular expression")
	runs := flags.Int("runs", 3, "`number` of measurements of each figure; the median counts")
	path := flags.String("redis-server", "redis-server", "the server `program`")
	out := flags.String("o", "../../docs", "the `directory` for benchmarks.md, benchmarks-figures.md and the plots")
	data := flags.String("data", "results.json", "the `file` to store the figures in")
	from := flags.String("from", "", "measure nothing and write the report of the figures in this `file`")
	core := flags.String("core", "", "print the figures of this core `section`, or the names of all if it is \"list\"")
	duration := flags.Duration("d", time.Second, "with -core, the duration of each measurement")
	if err := flags.Parse(args); err != nil {
		return err
	}
	matching, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	if *runs < 1 {
		return fmt.Errorf("%d runs", *runs)
	}
	if *from != "" {
		stored, err := loadResults(*from)
		if err != nil {
			return err
		}
		return newReport(stored).write(*out)
	}

	b := &bench{short: *short, runs: *runs, path: *path}
	if *core != "" {
		return b.core(ctx, *core, *duration)
	}
	if err := b.measure(ctx, matching); err != nil {
		return err
	}
	b.results.Command = command(args)
	if err := b.results.save(*data); err != nil {
		return err
	}
	return newReport(b.results).write(*out)
}

// measure measures the sections whose names match.
func (b *bench) measure(ctx context.Context, matching *regexp.Regexp) error {
	if err := b.onServer(ctx, (*bench).describe); err != nil {
		return err
	}
	for _, section := range sections {
		if !matching.MatchString(section.name) {
			continue
		}
		start := time.Now()
		fmt.Fprintf(os.Stderr, "%s ", section.name)
		if err := b.onServer(ctx, section.measure); err != nil {
			return fmt.Errorf("%s: %w", section.name, err)
		}
		fmt.Fprintln(os.Stderr, time.Since(start).Round(time.Second))
	}
	return nil
}

// onServer measures on a new server, because one that has held millions of keys is slower and has fragmented memory.
func (b *bench) onServer(ctx context.Context, measure func(*bench, context.Context) error) (err error) {
	if b.server, err = startServer(ctx, b.path); err != nil {
		return err
	}
	defer b.server.stop()
	return measure(b, ctx)
}

// tick shows progress.
func tick() { fmt.Fprint(os.Stderr, ".") }

// pick returns the first value in a short run, and the second in a full one.
func pick[T any](b *bench, short, full T) T {
	if b.short {
		return short
	}
	return full
}
