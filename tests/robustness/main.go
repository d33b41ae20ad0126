// Command robustness tries to break shardedlist. Processes with many clients use lists on real servers, while a seeded schedule breaks
// connections, servers and clients. It records every call and checks the records: short histories for an order of the calls that
// explains their results, long ones for elements lost, duplicated or out of order.
//
//	cd tests/robustness && go run . -duration 2m -faults all -seed 1
//
// It exits with 1 if a promise was broken. It writes to the directory of -out the result of each scenario, a fault on a server, when
// that ends, and histories that break a promise. An interrupt ends the scenarios under way early; they are still checked.
//
// The seed repeats the faults and the pauses between them, which request or reply of which connection breaks, and what each client
// calls. It does not repeat how the machine interleaves the calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

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
	context.AfterFunc(ctx, cancel) // a second signal ends the program at once
	violations, err := run(ctx, os.Args[1:])
	removeAhead()
	if err != nil {
		fmt.Fprintln(os.Stderr, "robustness:", err)
		os.Exit(2)
	}
	if violations > 0 {
		os.Exit(1)
	}
}

// settings are the command-line flags.
type settings struct {
	duration, each  time.Duration
	parallel        int
	faults, servers string
	clients         string
	seed            uint64
	out, document   string
	join            bool
}

func run(ctx context.Context, args []string) (violations int, err error) {
	var s settings
	flags := flag.NewFlagSet("robustness", flag.ContinueOnError)
	flags.DurationVar(&s.duration, "duration", 2*time.Minute, "how long the whole run takes, without starting servers and checking; divided evenly among the scenarios")
	flags.DurationVar(&s.each, "each", 0, "how long to try each fault with each kind of clients, divided evenly among its servers; replaces -duration")
	flags.IntVar(&s.parallel, "parallel", 1, "how many scenarios run at a time, each with its own servers and processes")
	flags.StringVar(&s.faults, "faults", "all", "the `faults` to try: "+names())
	flags.StringVar(&s.servers, "servers", "all", "the `servers` to try them on: "+kindNames())
	flags.StringVar(&s.clients, "clients", "all", "how the `clients` call: "+strings.Join(allClients, ","))
	flags.Uint64Var(&s.seed, "seed", 1, "the seed of the schedule and of the calls")
	flags.StringVar(&s.out, "out", "out", "the `directory` for results, and for histories that break a promise")
	flags.StringVar(&s.document, "o", "", "the Markdown `file` to write, such as ../../docs/reliability.md, and one of its rows beside it; an interrupted run writes what it has")
	flags.BoolVar(&s.join, "join", false, "also write the results of scenarios that this run does not try, from -out or else from the rows beside the file of -o")
	if err := flags.Parse(args); err != nil {
		return 0, err
	}
	scenarios, err := selectScenarios(s.faults, s.servers, s.clients)
	if err != nil {
		return 0, err
	}
	s.prepare(scenarios)
	fmt.Println(heading)
	rows, err := s.runAll(ctx, scenarios)
	for _, r := range rows {
		if r.Violation != "" {
			violations++
		}
	}
	if s.document == "" {
		return violations, err
	}
	if s.join {
		saved, failure1 := earlierRows(s.out)
		written, _ := os.ReadFile(beside(s.document)) // there may be none
		onPage, failure2 := parseRows(string(written))
		rows, err = join(rows, append(saved, unbroken(onPage)...)), errors.Join(err, failure1, failure2)
	}
	return violations, errors.Join(err, write(s.document, rows, s.command(), machine()))
}

// prepare gives each scenario its seed and its time.
func (s *settings) prepare(scenarios []*scenario) {
	servers := map[[2]string]int{}
	for _, sc := range scenarios {
		servers[[2]string{sc.fault.name, sc.clients}]++
	}
	for _, sc := range scenarios {
		sc.seed, sc.out = mix(s.seed, sc.fault.name, string(sc.kind), sc.clients), s.out
		span := s.duration * time.Duration(s.parallel) / time.Duration(len(scenarios))
		if s.each > 0 {
			span = s.each / time.Duration(servers[[2]string{sc.fault.name, sc.clients}])
		}
		sc.span = max(span.Round(time.Second), time.Second)
		sc.row = row{
			Fault: sc.fault.name, Server: string(sc.kind), Clients: sc.clients,
			Command: fmt.Sprintf("go run . -faults %s -servers '%s' -clients %s -seed %d -each %v", sc.fault.name, sc.kind, sc.clients, s.seed, sc.span),
		}
	}
}

// runAll runs the scenarios, saves their rows, and returns them in order. A scenario that fails does not stop the others.
func (s *settings) runAll(ctx context.Context, scenarios []*scenario) (rows []row, err error) {
	var mu sync.Mutex
	ran := map[*scenario]row{}
	var group errgroup.Group
	group.SetLimit(s.parallel)
	for _, sc := range scenarios {
		group.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			r, failure := runLonger(ctx, sc)
			mu.Lock()
			defer mu.Unlock()
			if failure != nil {
				err = errors.Join(err, fmt.Errorf("%s on %s by %s: %w", sc.fault.name, sc.kind, sc.clients, failure))
				fmt.Printf("\nFAILED: %s on %s by %s: %v\n\n", sc.fault.name, sc.kind, sc.clients, failure)
				return nil
			}
			fmt.Println(r.line())
			if r.Violation != "" {
				fmt.Printf("\nBROKEN: %s\nrepeat: %s\n\n", r.Violation, r.Command)
			}
			ran[sc] = r
			if failure := r.save(s.out); failure != nil {
				err = errors.Join(err, failure)
			}
			return nil
		})
	}
	_ = group.Wait()
	for _, sc := range scenarios {
		if r, ok := ran[sc]; ok {
			rows = append(rows, r)
		}
	}
	if ctx.Err() != nil {
		err = errors.Join(err, fmt.Errorf("interrupted: %d of %d were tried", len(rows), len(scenarios)))
	}
	return rows, err
}

// runLonger runs a scenario, and again with more time if it was too short to show anything, as on a busy machine.
func runLonger(ctx context.Context, sc *scenario) (r row, err error) {
	for again := 2; ; again-- {
		r, err = sc.run(ctx)
		if !sc.inconclusive || again == 0 || err != nil || ctx.Err() != nil {
			return r, err
		}
		fmt.Printf("%s on %s by %s has shown nothing in %v and takes longer: %s\n", sc.fault.name, sc.kind, sc.clients, sc.span, r.Violation)
		sc = sc.longer()
	}
}

// command returns the command line that the document names.
func (s *settings) command() string {
	length := fmt.Sprintf("-duration %v", s.duration)
	if s.each > 0 {
		length = fmt.Sprintf("-each %v", s.each)
	}
	if s.join {
		length += " -join"
	}
	return fmt.Sprintf("go run . %s -parallel %d -faults %s -servers '%s' -clients %s -seed %d -o ../../docs/reliability.md", length, s.parallel, s.faults, s.servers, s.clients, s.seed)
}

// mix returns a seed for each scenario, so that one can be repeated without the others.
func mix(seed uint64, words ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed, words)
	return h.Sum64()
}

func selectScenarios(only, servers, clients string) (scenarios []*scenario, err error) {
	wanted, on, by := strings.Split(only, ","), strings.Split(servers, ","), strings.Split(clients, ",")
	for _, f := range faults {
		if !slices.Contains(wanted, f.name) && only != "all" {
			continue
		}
		kinds := slices.DeleteFunc(slices.Clone(f.kinds), func(kind redistest.Kind) bool { return servers != "all" && !slices.Contains(on, string(kind)) })
		if f.needs != nil && len(kinds) > 0 {
			if err := f.needs(); err != nil && only == "all" {
				fmt.Fprintf(os.Stderr, "%s on %v is left out: %v\n", f.name, kinds, err)
				continue
			} else if err != nil {
				return nil, fmt.Errorf("%s on %v: %w", f.name, kinds, err)
			}
		}
		for _, kind := range kinds {
			for _, how := range f.clients() {
				if clients == "all" || slices.Contains(by, how) {
					scenarios = append(scenarios, &scenario{fault: f, kind: kind, clients: how, rate: 120})
				}
			}
		}
	}
	if len(scenarios) == 0 {
		return nil, fmt.Errorf("no fault of %q on a server of %q by clients of %q; there are %s on %s by %s", only, servers, clients, names(), kindNames(), strings.Join(allClients, ","))
	}
	return scenarios, nil
}

func names() string {
	var all []string
	for _, f := range faults {
		all = append(all, f.name)
	}
	return strings.Join(slices.Compact(all), ",")
}

func kindNames() string {
	return strings.Join([]string{string(redistest.Redis), string(redistest.Valkey), string(redistest.Cluster),
		string(redistest.ReplicatedCluster), string(redistest.Sentinel)}, ",")
}
