package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

// demo streams lines through a list, from several producers to several blocking consumers, and checks that each arrives
// once and in its place.
type demo struct {
	app       *app
	producers int
	consumers int
	capacity  int
	lines     int // of the access log

	list     *shardedlist.ShardedList
	ledger   *lineLedger
	timeline *timeline
	bar      *progress
	backlog  chan struct{} // has one for each line in the list
	took     time.Duration
}

func (a *app) demoCommand() *cobra.Command {
	d := &demo{app: a}
	cmd := &cobra.Command{
		Use:   "demo [FILE]",
		Short: "Stream a log through a list and prove that nothing is lost",
		Long: `Stream the lines of FILE, or of standard input if they are piped in or FILE is -, or else of
an access log that it makes up, through a sharded list: several producers push a few
lines at a time, several consumers wait for them in blocking pops.

Each element carries the number of its producer and its own. The report tells how many
came in and out, and how many were lost, doubled or out of order: each 0, or else the
exit code is 1. Then it draws the shards that came and went.

The list is on an embedded server, or on the one that --redis names (REDIS_URL does not
count here). It has a name of its own and is deleted at the end.`,
		Example: `  shardedlist demo
  shardedlist demo access.log --producers 8 --consumers 32
  shardedlist demo --lines 1000000 --capacity 100 --redis redis://127.0.0.1:6379
  zcat access.log.*.gz | shardedlist demo`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if min(d.producers, d.consumers) < 1 || d.lines < 0 {
				return usagef("it takes a producer and a consumer at least, and no negative number of lines")
			}
			return d.run(cmd.Context(), args, cmd.Flags().Changed("lines"))
		},
	}
	cmd.Flags().IntVar(&d.producers, "producers", 4, "`number` of goroutines that push")
	cmd.Flags().IntVar(&d.consumers, "consumers", 16, "`number` of goroutines that pop")
	cmd.Flags().IntVar(&d.capacity, "capacity", shardedlist.DefaultCapacity, "`elements` in a full shard")
	cmd.Flags().IntVar(&d.lines, "lines", 200_000, "`number` of lines of the access log that is made up")
	return cmd
}

func (d *demo) run(ctx context.Context, args []string, madeUp bool) error {
	input, err := d.open(ctx, args, madeUp)
	if err != nil {
		return err
	}
	defer input.close()
	rdb, server, stop, err := d.connect(ctx)
	if err != nil {
		return err
	}
	defer stop()
	d.list, err = shardedlist.New(rdb, "demo-"+rand.Text(), shardedlist.WithCapacity(d.capacity))
	if err != nil {
		return err
	}
	d.ledger = newLedger(d.producers)
	d.backlog = make(chan struct{}, maxBacklog)
	d.timeline = &timeline{started: time.Now()}
	d.bar = d.app.progress("streaming", input.total, input.inBytes)

	err = d.stream(ctx, input)
	d.bar.done()
	if err = errors.Join(err, d.delete(ctx)); err != nil {
		return err
	}
	return d.report(input.name + " by way of " + server)
}

// delete deletes the list, also after Ctrl-C.
func (d *demo) delete(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := d.list.Del(ctx)
	return err
}

// report prints how it went.
func (d *demo) report(what string) error {
	found := d.ledger.Tally()
	peak := d.timeline.peak()
	out := bufio.NewWriter(d.app.stdout)
	fmt.Fprintf(out, "%s\n%d producers, %d consumers, shards of %s elements\n\n",
		what, d.producers, d.consumers, thousands(int64(d.capacity)))
	for _, figure := range []struct {
		name  string
		value int
	}{
		{"elements in", found.Pushed},
		{"elements out", found.Popped},
		{"lost", found.Lost},
		{"doubled", found.Doubled},
		{"out of order", found.Misplaced},
		{"per second", int(float64(found.Popped) / d.took.Seconds())},
		{"most shards at once", int(peak.shards)},
	} {
		fmt.Fprintf(out, "  %-20s %12s\n", figure.name+":", thousands(int64(figure.value)))
	}
	fmt.Fprintln(out, "\nShards over time:")
	fmt.Fprintln(out)
	d.timeline.draw(out, d.took)
	if peak.shards > 0 {
		fmt.Fprintf(out, "\nThe row of shards at its longest, after %.1f s:\n\n", peak.at.Seconds())
		peak.draw(out)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if !found.OK() {
		return errNothing
	}
	return nil
}

// connect returns a client of the server, which it names, and a function to end both.
func (d *demo) connect(ctx context.Context) (rdb redis.UniversalClient, server string, stop func(), err error) {
	if d.app.address != "" {
		rdb, err := connect(ctx, d.app.address)
		if err != nil {
			return nil, "", nil, err
		}
		return rdb, hostOf(d.app.address), func() { _ = rdb.Close() }, nil
	}
	embedded, err := miniredis.Run()
	if err != nil {
		return nil, "", nil, err
	}
	rdb = redis.NewClient(&redis.Options{Addr: embedded.Addr(), MaxRetries: -1})
	return rdb, "an embedded server", func() {
		_ = rdb.Close()
		embedded.Close()
	}, nil
}
