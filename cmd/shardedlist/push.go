package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

func (a *app) pushCommand(name string, ops ends) *cobra.Command {
	end := ops.name
	var capacity int
	cmd := &cobra.Command{
		Use:   name + " LIST [VALUE...]",
		Short: "Push values onto the " + end + " end and print the length",
		Long: "Push values onto the " + end + ` end of a list, one after the other, and print its length.

Without values, push the lines of standard input as they arrive, in atomic batches of
up to ` + fmt.Sprintf("%d lines or %d MiB", batchValues, batchBytes>>20) + `. A line may be empty and may hold any bytes. The last line
needs no newline, but lrange prints one after every element. With -0, elements end with
NUL bytes instead of newlines.

Put values that begin with a dash after --. Negative numbers do not need this.`,
		Example: "  shardedlist " + name + ` jobs one two three
  shardedlist ` + name + ` --capacity 1000 jobs one
  shardedlist ` + name + ` logs < access.log
  find . -print0 | shardedlist ` + name + ` -0 files
  shardedlist ` + name + ` options -- --verbose`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && isTerminal(a.stdin) {
				return errors.New("no values: pass some, or pipe lines in")
			}
			return takes(1, anyNumber)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var options []shardedlist.Option
			if cmd.Flags().Changed("capacity") {
				options = append(options, shardedlist.WithCapacity(capacity))
			}
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				length, err := a.push(ctx, list, ops, args[1:])
				if err != nil {
					return err
				}
				return a.printInteger(length)
			}, options...)
		},
	}
	cmd.Flags().IntVar(&capacity, "capacity", 0, "`elements` per shard of a new list (default: the server's setting, or 512)")
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w (put values that begin with a dash after --)", err)
	})
	a.addNullFlag(cmd)
	a.completesLists(cmd, first(1))
	return cmd
}

func (a *app) push(ctx context.Context, list *shardedlist.ShardedList, ops ends, values []string) (length int64, err error) {
	if len(values) > 0 {
		return ops.push(list, ctx, values)
	}
	length, pushed, err := a.pushInput(ctx, list, ops)
	switch {
	case err != nil && pushed > 0 && ctx.Err() != nil:
		fmt.Fprintf(a.stderr, "shardedlist: interrupted after %d values were pushed\n", pushed)
	case err != nil && pushed > 0:
		err = fmt.Errorf("%w (after %d values were pushed)", err, pushed)
	case err == nil && pushed == 0:
		return list.LLen(ctx)
	}
	return length, err
}

// pushInput pushes the elements from standard input.
func (a *app) pushInput(ctx context.Context, list *shardedlist.ShardedList, ops ends) (length, pushed int64, err error) {
	bar := a.progress("pushing", remaining(a.stdin), true)
	defer bar.done()
	for batch, err := range batches(interruptible{ctx, a.stdin}, a.delimiter(), batchValues) {
		if err != nil {
			return length, pushed, err
		}
		if length, err = ops.push(list, ctx, batch); err != nil {
			return length, pushed, err
		}
		pushed += int64(len(batch))
		for _, value := range batch {
			bar.add(1, len(value)+1)
		}
	}
	return length, pushed, nil
}
