// Command robustness tries to break shardedlist. Processes full of clients use lists on real servers, while connections, servers,
// clients and the order of things are broken from a seeded schedule. Every call is recorded, and the records are checked: short
// histories for an order of the calls that explains their results, long ones for elements lost, doubled or out of order.
//
//	cd robustness && go run . -duration 2m -faults all -seed 1
//
// It exits with 1 if a promise was not kept, and leaves what it saw in the directory of -out. The seed repeats the schedule and
// what the clients do, not how the machine interleaves them.
package main

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

func main() {
	if os.Getenv(workerEnv) != "" {
		if err := work(); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(2)
		}
		return
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	violations, err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "robustness:", err)
		os.Exit(2)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (violations int, err error) {
	flags := flag.NewFlagSet("robustness", flag.ContinueOnError)
	duration := flags.Duration("duration", 2*time.Minute, "how long all of it takes, about")
	only := flags.String("faults", "all", "the `faults` to try: "+names())
	servers := flags.String("servers", "all", "the `servers` to try them on: "+kindNames())
	seed := flags.Uint64("seed", 1, "what the schedule and the calls are drawn from")
	out := flags.String("out", "out", "the `directory` for histories that break a promise")
	document := flags.String("o", "", "the Markdown `file` to write, ../docs/reliability.md for one")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	cells, err := selectCells(*only, *servers)
	if err != nil {
		return 0, err
	}
	span := max(*duration/time.Duration(len(cells)), time.Second)
	var rows []row
	fmt.Println(heading)
	for _, c := range cells {
		c.seed, c.span, c.out = mix(*seed, c.fault.name, string(c.kind)), span, *out
		r, err := c.run(ctx)
		if err != nil {
			return violations, fmt.Errorf("%s on %s: %w", c.fault.name, c.kind, err)
		}
		r.Command = fmt.Sprintf("go run . -faults %s -servers '%s' -seed %d -duration %v", c.fault.name, c.kind, *seed, span.Round(time.Second))
		fmt.Println(r.line())
		if r.Violation != "" {
			violations++
			fmt.Printf("\nBROKEN: %s\nrepeat: %s\n\n", r.Violation, r.Command)
		}
		rows = append(rows, r)
	}
	if *document != "" {
		err = os.WriteFile(*document, page(rows, fmt.Sprintf("go run . -duration %v -faults %s -servers '%s' -seed %d -o ../docs/reliability.md",
			*duration, *only, *servers, *seed)), 0o644)
	}
	return violations, err
}

// mix makes a seed of its own for each cell, so that one can be repeated without the others.
func mix(seed uint64, words ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed, words)
	return h.Sum64()
}

func selectCells(only, servers string) (cells []*cell, err error) {
	wanted, on := strings.Split(only, ","), strings.Split(servers, ",")
	for _, f := range faults {
		if !slices.Contains(wanted, f.name) && only != "all" {
			continue
		}
		for _, kind := range f.kinds {
			if servers == "all" || slices.Contains(on, string(kind)) {
				cells = append(cells, &cell{fault: f, kind: kind})
			}
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("no fault of %q on a server of %q; there are %s on %s", only, servers, names(), kindNames())
	}
	return cells, nil
}

func names() string {
	var all []string
	for _, f := range faults {
		all = append(all, f.name)
	}
	return strings.Join(all, ",")
}

func kindNames() string {
	return strings.Join([]string{string(redistest.Redis), string(redistest.Valkey), string(redistest.Cluster),
		string(redistest.ReplicatedCluster), string(redistest.Sentinel)}, ",")
}
