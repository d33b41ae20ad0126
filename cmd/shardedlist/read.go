package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

// page is the most elements in one request to the server.
const page = 10_000

func (a *app) lindexCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lindex LIST INDEX",
		Short: "Print the element at an index",
		Long: `Print the element at an index: 0 is the leftmost, -1 the rightmost. If there is no such
element, the exit code is 1.`,
		Example: `  shardedlist lindex logs 0
  shardedlist lindex logs -1`,
		Args: takes(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			index, err := parseIndex(args[1])
			if err != nil {
				return err
			}
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				value, err := list.LIndex(ctx, index)
				if err != nil {
					return a.orNothing(err)
				}
				return a.printReply(reply{kind: bulk, text: value})
			})
		},
	}
	a.addNullFlag(cmd)
	a.completesLists(cmd, first(1))
	return cmd
}

func (a *app) lrangeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lrange LIST START STOP",
		Short: "Print the elements from one index to another",
		Long: `Print the elements from one index to another, both included: 0 is the leftmost, -1 the
rightmost. Elements end with a newline, or with a NUL byte if -0 is set.

` + fmt.Sprintf(`One atomic step reads up to %d elements. A larger range takes several steps: if the
list changes meanwhile, the output may miss or repeat elements. The whole list, 0 -1,
is different: each element that stays in the list during the read appears exactly once.`, page),
		Example: `  shardedlist lrange logs 0 9
  shardedlist lrange logs -10 -1
  shardedlist lrange logs 0 -1 > copy.log
  shardedlist lrange files 0 -1 -0 | xargs -0 ls -l`,
		Args: takes(3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			start, err := parseIndex(args[1])
			if err != nil {
				return err
			}
			stop, err := parseIndex(args[2])
			if err != nil {
				return err
			}
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				if start == 0 && stop == -1 {
					return a.printAll(ctx, list)
				}
				return a.printRange(ctx, list, start, stop)
			})
		},
	}
	a.addNullFlag(cmd)
	a.completesLists(cmd, first(1))
	return cmd
}

func (a *app) printAll(ctx context.Context, list *shardedlist.ShardedList) error {
	length, err := list.LLen(ctx)
	if err != nil {
		return err
	}
	bar := a.outputProgress("reading", length)
	defer bar.done()
	out := a.printer(length)
	for value, err := range list.All(ctx) {
		if err != nil {
			_ = out.Flush()
			return err
		}
		if err := out.print(value); err != nil {
			return err
		}
		bar.add(1, 0)
		out.printed()
	}
	return out.end()
}

func (a *app) printRange(ctx context.Context, list *shardedlist.ShardedList, start, stop int64) error {
	length, err := list.LLen(ctx)
	if err != nil {
		return err
	}
	first, last := max(fromLeft(start, length), 0), min(fromLeft(stop, length), length-1)
	bar := a.outputProgress("reading", last-first+1)
	defer bar.done()
	out := a.printer(last - first + 1)
	for next := first; next == first || next <= last; next += page {
		if last-first >= page {
			start, stop = next, min(next+page-1, last)
		} // else keep them, so that one step resolves negative indices on the server
		values, err := list.LRange(ctx, start, stop)
		if err != nil {
			_ = out.Flush()
			return err
		}
		if err := out.print(values...); err != nil {
			return err
		}
		bar.add(len(values), 0)
		out.printed()
	}
	return out.end()
}

func fromLeft(index, length int64) int64 {
	if index < 0 {
		return index + length
	}
	return index
}

func parseIndex(arg string) (int64, error) {
	index, err := strconv.ParseInt(arg, 10, 64)
	if err != nil || strconv.FormatInt(index, 10) != arg { // as in Redis, +1 and 01 are none
		return 0, usagef("invalid index %q: want an integer", arg)
	}
	return index, nil
}
