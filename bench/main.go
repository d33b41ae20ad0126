// Command bench measures shardedlist beside its peers, on a redis-server that it starts, and writes docs/benchmarks.md:
//
//	cd bench && go run .
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
	server *server
	short  bool
	runs   int
	only   *regexp.Regexp
	path   string // of redis-server
	report report
}

// sections are what is measured, in the order of the report.
var sections = []struct {
	name    string
	measure func(*bench, context.Context) error
}{
	{"throughput", (*bench).throughput},
	{"queue", (*bench).queue},
	{"wakeup", (*bench).wakeup},
	{"blocked", (*bench).blocked},
	{"big", (*bench).big},
	{"memory", (*bench).memory},
	{"length", (*bench).length},
	{"book", (*bench).book},
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	short := flags.Bool("short", false, "small lists and short measurements: it shows that all works, the figures are rough")
	only := flags.String("only", "", "measure only the sections whose `names` match this regular expression")
	runs := flags.Int("runs", 3, "how often each figure is measured; the median counts")
	path := flags.String("redis-server", "redis-server", "the `program` to measure on")
	out := flags.String("o", "../docs", "the `directory` that gets benchmarks.md and the plots")
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

	b := &bench{short: *short, runs: *runs, only: matching, path: *path}
	b.report.command = command(args)
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
	return b.report.write(*out)
}

// onServer measures on a server of its own: one that has held millions of keys is slower, and its memory in pieces.
func (b *bench) onServer(ctx context.Context, measure func(*bench, context.Context) error) (err error) {
	if b.server, err = startServer(ctx, b.path); err != nil {
		return err
	}
	defer b.server.stop()
	return measure(b, ctx)
}

// tick shows that something is happening.
func tick() { fmt.Fprint(os.Stderr, ".") }

// pick returns the first value in a short run, and the second in a full one.
func pick[T any](b *bench, short, full T) T {
	if b.short {
		return short
	}
	return full
}
