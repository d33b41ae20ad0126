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
		Long: "Remove COUNT elements (default 1) from the " + end + ` end of a list and print them in that
order. If the list has fewer elements, remove all. If it is empty, the exit code is 1.

` + fmt.Sprintf("One atomic step removes up to %d elements. A larger COUNT takes several steps, and\neach prints its elements before the next begins.", page),
		Example: "  shardedlist " + name + ` jobs
  shardedlist ` + name + ` jobs 100 | xargs -n 1 process
  while job=$(shardedlist ` + name + ` jobs); do process "$job"; done`,
		Args: takes(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			count, err := parseCount(args[1:], 1)
			if err != nil {
				return err
			}
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				return a.popPages(ctx, list, pop, count)
			})
		},
	}
	a.addNullFlag(cmd)
	return cmd
}

// popPages pops and prints one page at a time, which bounds the elements that are popped but not yet printed.
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
		Long: "Remove an element from the " + end + ` end of a list and print it. If the list is empty, wait
up to TIMEOUT seconds, for example 2.5. Without TIMEOUT, or if it is 0, wait forever.
If the wait times out, the exit code is 1.`,
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

// parseTimeout parses seconds and rounds them up, because 0 waits forever.
func parseTimeout(arg string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(arg, 64)
	if err != nil || !(seconds >= 0 && seconds < math.MaxInt64/float64(time.Second)) {
		return 0, usagef("invalid timeout %q: want seconds, at least 0", arg)
	}
	return time.Duration(math.Ceil(seconds*1000)) * time.Millisecond, nil
}

// parseCount reads the optional argument COUNT.
func parseCount(args []string, otherwise int) (int, error) {
	if len(args) == 0 {
		return otherwise, nil
	}
	count, err := strconv.Atoi(args[0])
	if err != nil || count < 0 {
		return 0, usagef("invalid count %q: want an integer of at least 0", args[0])
	}
	return count, nil
}
