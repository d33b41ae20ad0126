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

// ends are the operations at one end of a list.
type ends struct {
	name    string // of the end
	push    func(list *shardedlist.ShardedList, ctx context.Context, values ...any) (int64, error)
	pop     func(list *shardedlist.ShardedList, ctx context.Context, count int) ([]string, error)
	waitPop func(list *shardedlist.ShardedList, ctx context.Context, timeout time.Duration) (string, error)
}

var (
	leftEnd  = ends{"left", (*shardedlist.ShardedList).LPush, (*shardedlist.ShardedList).LPopCount, (*shardedlist.ShardedList).BLPop}
	rightEnd = ends{"right", (*shardedlist.ShardedList).RPush, (*shardedlist.ShardedList).RPopCount, (*shardedlist.ShardedList).BRPop}
)

// back returns what puts elements back at the end.
func (e ends) back(list *shardedlist.ShardedList) func(ctx context.Context, values []string) error {
	return func(ctx context.Context, values []string) error {
		_, err := e.push(list, ctx, values)
		return err
	}
}

func (a *app) popCommand(name string, ops ends) *cobra.Command {
	end := ops.name
	cmd := &cobra.Command{
		Use:   name + " LIST [COUNT]",
		Short: "Remove elements from the " + end + " end and print them",
		Long: "Remove COUNT elements (default 1) from the " + end + ` end of a list and print them in that
order. If the list has fewer elements, remove all. If it is empty, the exit code is 1.

` + fmt.Sprintf("One atomic step removes up to %d elements. A larger COUNT takes several steps, and\neach prints its elements before the next begins. What cannot be printed is put back.", page),
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
				if len(args) == 1 {
					return a.popOne(ctx, list, ops)
				}
				return a.popPages(ctx, list, ops, count)
			})
		},
	}
	a.addNullFlag(cmd)
	a.completesLists(cmd, first(1))
	return cmd
}

// popOne pops and prints one element, as a reply that is no array.
func (a *app) popOne(ctx context.Context, list *shardedlist.ShardedList, ops ends) error {
	values, err := ops.pop(list, ctx, 1)
	if err != nil {
		return a.orNothing(err)
	}
	err = a.printReply(reply{kind: bulk, text: values[0]})
	return a.putBack(ctx, ops.back(list), values, err)
}

// popPages pops and prints one page at a time, which bounds the elements that are popped but not yet printed.
func (a *app) popPages(ctx context.Context, list *shardedlist.ShardedList, ops ends, count int) error {
	bar := a.outputProgress("popping", int64(count))
	defer bar.done()
	var out *printer
	for left := count; ; left -= page {
		values, err := ops.pop(list, ctx, min(left, page))
		if err == redis.Nil && left == count {
			return a.nothing()
		}
		if err != nil && err != redis.Nil {
			return err
		}
		if out == nil {
			length, err := a.lengthBehind(ctx, list, count, values)
			if err != nil {
				return a.putBack(ctx, ops.back(list), values, err)
			}
			out = a.printer(length)
		}
		last := len(values) < page || left == page
		if err = out.print(values...); err == nil && last {
			err = out.end()
		} else if err == nil {
			err = out.Flush()
		}
		if printed := out.printed(); err != nil {
			return a.putBack(ctx, ops.back(list), values[printed:], err)
		}
		bar.add(len(values), 0)
		if last {
			return nil
		}
	}
}

// lengthBehind returns how many elements will be printed in all, which is needed only to number them.
func (a *app) lengthBehind(ctx context.Context, list *shardedlist.ShardedList, count int, values []string) (int64, error) {
	if a.format() != pretty || len(values) < page || count == page {
		return int64(len(values)), nil
	}
	length, err := list.LLen(ctx)
	return min(int64(count), int64(len(values))+length), err
}

// orNothing is the end of a command on the error that says that there is no element, and on any other.
func (a *app) orNothing(err error) error {
	if err == redis.Nil {
		return a.nothing()
	}
	return err
}

func (a *app) blockingPopCommand(name string, ops ends) *cobra.Command {
	cmd := &cobra.Command{
		Use:   name + " LIST... [TIMEOUT]",
		Short: "Wait for an element at the " + ops.name + " end, remove it and print it",
		Long: "Remove an element from the " + ops.name + ` end of a list and print it. If the list is empty, wait
up to TIMEOUT seconds, for example 2.5. Without TIMEOUT, or if it is 0, wait forever.
If the wait times out, the exit code is 1.

With several lists, of which the first that has an element counts, TIMEOUT must be there,
and the name of the list is printed first, as Redis replies.`,
		Example: "  shardedlist " + name + ` jobs
  shardedlist ` + name + ` jobs 2.5
  shardedlist ` + name + ` urgent jobs 0
  while job=$(shardedlist ` + name + ` jobs 60); do process "$job"; done`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			var timeout time.Duration
			last := len(args) - 1
			if last > 0 {
				var err error
				if timeout, err = parseTimeout(args[last]); err != nil {
					return err
				}
			}
			if last > 1 {
				return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
					return a.runRedis(ctx, rdb, args[:last], append([]string{name}, args...))
				})
			}
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				value, err := ops.waitPop(list, ctx, timeout)
				if err != nil {
					return a.orNothing(err)
				}
				err = a.printReply(reply{kind: bulk, text: value})
				return a.putBack(ctx, ops.back(list), []string{value}, err)
			})
		},
	}
	a.addNullFlag(cmd)
	a.completesLists(cmd, everyOne)
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
	if err != nil || count < 0 || strconv.Itoa(count) != args[0] { // as in Redis, +1 and 01 are none
		return 0, usagef("invalid count %q: want an integer of at least 0", args[0])
	}
	return count, nil
}
