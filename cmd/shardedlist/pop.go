package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

type (
	// popCount is LPopCount or RPopCount.
	popCount func(list *shardedlist.ShardedList, ctx context.Context, count int) ([]string, error)
	// blockingPop is BLPop or BRPop.
	blockingPop func(list *shardedlist.ShardedList, ctx context.Context, timeout time.Duration) (string, error)
)

func (a *app) popCommand(name, end string, pop popCount) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " LIST [COUNT]",
		Short: "Remove elements from the " + end + " end and print them",
		Long: "Remove COUNT elements, or one, from the " + end + ` end of a list and print them in that
order. If the list holds fewer, all are removed; if it is empty, the exit code is 1.

` + fmt.Sprintf("Up to %d elements are removed in one atomic step, more in several, each printed\nbefore the next.", page),
		Example: "  shardedlist " + name + ` jobs
  shardedlist ` + name + ` jobs 100 | xargs -n 1 process
  while job=$(shardedlist ` + name + ` jobs); do process "$job"; done`,
		Args: takes(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			count := 1
			if len(args) == 2 {
				var err error
				if count, err = strconv.Atoi(args[1]); err != nil || count < 0 {
					return usagef("the count must be a whole number that is not negative, not %q", args[1])
				}
			}
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				return a.popPages(ctx, list, pop, count)
			})
		},
	}
	a.addNullFlag(cmd)
	return cmd
}

// popPages pops and prints, a page at a time, so that the elements popped and not yet printed are few.
func (a *app) popPages(ctx context.Context, list *shardedlist.ShardedList, pop popCount, count int) error {
	bar := a.outputProgress("popping", int64(count))
	defer bar.done()
	out := a.printer()
	for left := count; ; left -= page {
		values, err := pop(list, ctx, min(left, page))
		if err == redis.Nil && left == count {
			return a.nothing()
		}
		if err != nil && err != redis.Nil {
			return err
		}
		if err := out.print(values...); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
		bar.add(len(values), 0)
		if len(values) < page || left == page {
			return nil
		}
	}
}

func (a *app) blockingPopCommand(name, end string, pop blockingPop) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " LIST [TIMEOUT]",
		Short: "Wait for an element at the " + end + " end, remove it and print it",
		Long: "Remove an element from the " + end + ` end of a list and print it, waiting for one while the
list is empty: for TIMEOUT seconds, which may have a fraction, or for ever if that
is 0 or not named. When the time is up, the exit code is 1.`,
		Example: "  shardedlist " + name + ` jobs
  shardedlist ` + name + ` jobs 2.5
  while job=$(shardedlist ` + name + ` jobs 60); do process "$job"; done`,
		Args: takes(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var timeout time.Duration
			if len(args) == 2 {
				var err error
				if timeout, err = parseTimeout(args[1]); err != nil {
					return err
				}
			}
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				value, err := pop(list, ctx, timeout)
				return a.printOne(value, err)
			})
		},
	}
	a.addNullFlag(cmd)
	return cmd
}

// parseTimeout reads seconds. However little above 0 they are, the timeout is not 0, which would be for ever.
func parseTimeout(arg string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(arg, 64)
	if err != nil || !(seconds >= 0 && seconds < math.MaxInt64/float64(time.Second)) {
		return 0, usagef("the timeout must be a number of seconds that is not negative, not %q", arg)
	}
	return time.Duration(math.Ceil(seconds*1000)) * time.Millisecond, nil
}
