package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

// demo streams lines through a list, from several producers to several blocking consumers, and checks that each line
// arrives once and in order.
type demo struct {
	app        *app
	producers  int
	consumers  int
	capacity   int
	maxBacklog int
	lines      int // of the generated access log
	embedded   bool

	list     *shardedlist.ShardedList
	ledger   *lineLedger
	timeline *timeline
	progress *progress
	backlog  chan struct{} // holds one value for each line in the list
	took     time.Duration
}

func (a *app) demoCommand() *cobra.Command {
	d := &demo{app: a}
	cmd := &cobra.Command{
		Use:   "demo [FILE]",
		Short: "Stream a log through a list and check that nothing is lost",
		Long: `Stream lines through a sharded list: several producers push a few lines at a time,
several consumers take them out with blocking pops. The lines come from FILE, from
standard input if it is a pipe or FILE is -, or else from a generated access log.

Each element carries the number of its producer and a sequence number. The report
counts the elements that are lost, duplicated or out of order. If any of these counts
is not 0, the exit code is 1. The report also draws the number of shards over time.

The demo starts a redis-server or valkey-server from PATH on a free port of the
loopback interface, without persistence, and stops it at the end. If neither is
installed, it uses an embedded server, which is slower. With --redis, it uses that
server, under a new list name, and deletes the list at the end. It ignores REDIS_URL.

With --json, the report is one JSON object; "shards" are the most of each sixtieth of the
time.`,
		Example: `  shardedlist demo
  shardedlist demo access.log --producers 8 --consumers 32
  shardedlist demo --lines 1000000 --capacity 100 --backlog 20000
  zcat access.log.*.gz | shardedlist demo --redis redis://127.0.0.1:6379`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := d.checkFlags(); err != nil {
				return err
			}
			return d.run(cmd.Context(), args, cmd.Flags().Changed("lines"))
		},
	}
	cmd.Flags().IntVar(&d.producers, "producers", 4, "`number` of goroutines that push")
	cmd.Flags().IntVar(&d.consumers, "consumers", 16, "`number` of goroutines that pop")
	cmd.Flags().IntVar(&d.capacity, "capacity", shardedlist.DefaultCapacity, "`elements` per shard")
	cmd.Flags().IntVar(&d.maxBacklog, "backlog", 250_000, "`elements` in the list at which producers wait")
	cmd.Flags().IntVar(&d.lines, "lines", 200_000, "`number` of lines of the generated access log")
	cmd.Flags().BoolVar(&d.embedded, "embedded", false, "use the embedded server even if a real one is installed")
	return cmd
}

func (d *demo) checkFlags() error {
	switch {
	case min(d.producers, d.consumers, d.maxBacklog) < 1:
		return usagef("--producers, --consumers and --backlog must be at least 1")
	case d.lines < 0:
		return usagef("--lines must not be negative")
	case d.embedded && d.app.address != "":
		return usagef("--embedded and --redis exclude each other")
	}
	return nil
}

func (d *demo) run(ctx context.Context, args []string, generated bool) error {
	input, err := d.open(ctx, args, generated)
	if err != nil {
		return err
	}
	defer input.close()
	server, err := d.openServer(ctx)
	if err != nil {
		return err
	}
	defer server.stop()
	d.list, err = shardedlist.New(server.rdb, "demo-"+rand.Text(), shardedlist.WithCapacity(d.capacity))
	if err != nil {
		return err
	}
	setup := []field{
		{"input", input.name}, {"server", server.name}, {"producers", d.producers}, {"consumers", d.consumers},
		{"capacity", d.capacity}, {"backlog", d.maxBacklog},
	}
	if !d.app.json {
		if err := d.printSetup(input.name, server.name); err != nil {
			return err
		}
	}
	d.ledger = newLedger(d.producers)
	d.backlog = make(chan struct{}, d.maxBacklog)
	d.timeline = &timeline{started: time.Now()}
	d.progress = d.app.lineProgress("streaming", input.total, input.inBytes)

	err = d.stream(ctx, input)
	d.progress.done()
	if !server.temporary {
		err = errors.Join(err, d.delete(ctx))
	}
	if err != nil {
		return err
	}
	if d.app.json {
		return d.reportJSON(setup)
	}
	return d.report()
}

// delete deletes the list, also after Ctrl-C.
func (d *demo) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := d.list.Del(ctx)
	return err
}

func (d *demo) printSetup(input, server string) error {
	_, err := fmt.Fprintf(d.app.stdout, `Input:    %s
Server:   %s
Workers:  %d producers, %d consumers
Shards:   %s elements each

`, input, server, d.producers, d.consumers, thousands(int64(d.capacity)))
	return err
}

// figure is a number of the report.
type figure struct {
	name  string
	value int64
}

func (d *demo) figures() []figure {
	found := d.ledger.Tally()
	return []figure{
		{"elements in", int64(found.Pushed)},
		{"elements out", int64(found.Popped)},
		{"lost", int64(found.Lost)},
		{"duplicated", int64(found.Doubled)},
		{"out of order", int64(found.Misplaced)},
		{"elements per second", int64(float64(found.Popped) / d.took.Seconds())},
		{"most shards at once", d.timeline.peak().shards},
	}
}

// verdict is the error of a demo that found a fault.
func (d *demo) verdict() error {
	if found := d.ledger.Tally(); !found.OK() {
		return errNothing
	}
	return nil
}

// reportJSON prints the setup, the counts and the shards over time as one JSON object.
func (d *demo) reportJSON(setup []field) error {
	const moments = 60
	report := append(setup, field{"seconds", d.took.Seconds()}, field{"shards", d.timeline.columns(d.took, moments)})
	for _, f := range d.figures() {
		report = append(report, field{strings.ReplaceAll(f.name, " ", "_"), f.value})
	}
	return cmp.Or(d.app.printFields(report), d.verdict())
}

// report prints the counts and the pictures.
func (d *demo) report() error {
	peak := d.timeline.peak()
	out := bufio.NewWriter(d.app.stdout)
	for _, f := range d.figures() {
		fmt.Fprintf(out, "  %-20s %12s\n", f.name+":", thousands(f.value))
	}
	fmt.Fprintf(out, "\nProducers wait at %s elements in the list (--backlog), about %s shards.\n",
		thousands(int64(d.maxBacklog)), thousands(int64((d.maxBacklog-1)/d.capacity+1)))
	width := d.app.outputWidth()
	fmt.Fprint(out, "\nShards over time:\n\n")
	d.timeline.draw(out, d.took, width)
	if peak.shards > 0 {
		fmt.Fprintf(out, "\nThe shards at the peak, after %.1f s:\n\n", peak.at.Seconds())
		peak.draw(out, width)
	}
	return cmp.Or(out.Flush(), d.verdict())
}
