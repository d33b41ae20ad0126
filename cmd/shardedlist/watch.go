package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/script"
)

func (a *app) watchCommand() *cobra.Command {
	interval := 0.5
	cmd := &cobra.Command{
		Use:   "watch LIST",
		Short: "Print elements as they are pushed, without taking them",
		Long: `Print the elements that others push to a list, without taking any, until Ctrl-C. Nothing is
printed of what is there at first. The command only reads: newcomers at a plain key beside
the list are printed once an operation of others has taken them in.

It looks at both ends of the list every half a second, or at the --interval, and prints what
is new since the last look: of the right end from left to right, of the left end from right
to left. Elements that are pushed and popped between two looks are missed. So are those that are
inserted in the middle, and those of an end where many more are popped. Which elements are
new, it finds by comparing them, so among equal ones in a row it may miscount. If more than
` + thousands(watchedMost) + ` came between two looks, it prints the last of them. If a list was empty, or all of
its elements have changed, they count as pushed at the right end.

A look takes three short reads, and more only if something was pushed. If the server is away,
it says so, and goes on when the server is back.`,
		Example: `  shardedlist watch jobs
  shardedlist watch jobs --interval 0.1 --json | jq .`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !(interval >= 0.01 && interval <= 3600) {
				return usagef("--interval must be from 0.01 to 3600 seconds")
			}
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
				list, err := shardedlist.New(rdb, args[0])
				if key, _ := foreignKey(ctx, rdb, args[0]); err == nil && key != "" {
					err = shardedlist.ErrWrongType // reads find an empty list beside a key of another type
				}
				if err == nil {
					err = a.watch(ctx, list, time.Duration(interval*float64(time.Second)))
				}
				if errors.Is(err, shardedlist.ErrWrongType) {
					err = a.explained(ctx, rdb, cmd.Name(), args, err)
				}
				return err
			})
		},
	}
	cmd.Flags().Float64Var(&interval, "interval", interval, "`seconds` between two looks")
	a.addNullFlag(cmd)
	a.completesLists(cmd, first(1))
	return cmd
}

const (
	watchedEnd  = 16      // elements of each end that tell whether anything was pushed there
	watchedMost = 100_000 // elements that are compared to find what is new
)

// elements are those of a list.
type elements interface {
	LRange(ctx context.Context, start, stop int64) ([]string, error)
	LLen(ctx context.Context) (int64, error)
}

func (a *app) watch(ctx context.Context, list elements, interval time.Duration) error {
	before, err := look(ctx, list)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for away := false; ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		pushed, now, err := newSince(ctx, list, before)
		switch {
		case err == nil:
			away, before = false, now
			if err := a.printEach(pushed); err != nil {
				return err
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case !passes(err):
			return err
		case !away:
			away = true
			fmt.Fprintln(a.stderr, "shardedlist: trying again:", oneLine(a.withoutAddresses(err.Error()), err))
		}
	}
}

// passes reports whether an error may be gone at the next look: that of a connection, or of a server that fails over or is loading.
func passes(err error) bool {
	for _, known := range []error{shardedlist.ErrWrongType, shardedlist.ErrBroken, shardedlist.ErrLayout} {
		if errors.Is(err, known) {
			return false
		}
	}
	return script.IsTransient(err) || !script.IsReply(err)
}

// printEach prints elements, each as a reply of its own.
func (a *app) printEach(values []string) error {
	out := bufio.NewWriter(a.stdout)
	for _, value := range values {
		a.format().print(out, reply{kind: bulk, text: value}, a.delimiter())
	}
	return out.Flush()
}

// seen are the ends of a list at one moment, or nearly so. Each begins with the outermost element.
type seen struct {
	left, right []string
	length      int64
}

func look(ctx context.Context, list elements) (seen, error) {
	left, err := list.LRange(ctx, 0, watchedEnd-1)
	if err != nil {
		return seen{}, err
	}
	right, err := list.LRange(ctx, -watchedEnd, -1)
	if err != nil {
		return seen{}, err
	}
	slices.Reverse(right)
	length, err := list.LLen(ctx)
	return seen{left, right, length}, err
}

// newSince returns what was pushed since the last look, and what to compare with at the next one.
func newSince(ctx context.Context, list elements, before seen) (pushed []string, now seen, err error) {
	if now, err = look(ctx, list); err != nil {
		return nil, seen{}, err
	}
	grown := now.length - before.length
	right, whole, err := grow(ctx, list, before.right, &now.right, grown, func(n int64) (start, stop int64) { return -n, -1 })
	if err != nil {
		return nil, seen{}, err
	}
	slices.Reverse(right)
	if whole {
		return right, now, nil // nothing of before is left
	}
	left, whole, err := grow(ctx, list, before.left, &now.left, grown-int64(len(right)), func(n int64) (start, stop int64) { return 0, n - 1 })
	if whole {
		left = nil // they may have been there, behind those that were popped
	}
	slices.Reverse(left)
	return append(right, left...), now, err
}

// grow returns the elements of an end that are before those which were there before, the outermost first. It looks at more of the list
// until it finds some of those: at not much more if the list has not grown, since then they were probably popped. whole tells that
// it has looked at all, and found none. The end is as it was at the last of these looks, so that the next one goes on there.
func grow(ctx context.Context, list elements, before []string, end *[]string, grown int64, of func(n int64) (start, stop int64),
) (pushed []string, whole bool, err error) {
	now := *end
	defer func() { *end = slices.Clone(now[:min(len(now), watchedEnd)]) }()
	most := int64(watchedMost)
	if grown <= 0 {
		most = 8 * watchedEnd
	}
	for n := int64(watchedEnd); ; {
		switch at := find(now, before, int64(len(now)) < n); {
		case at >= 0:
			return slices.Clone(now[:at]), false, nil
		case int64(len(now)) < n || n == watchedMost:
			return slices.Clone(now), true, nil
		case n == most:
			return nil, false, nil
		}
		n = min(n*8, most)
		start, stop := of(n)
		if now, err = list.LRange(ctx, start, stop); err != nil {
			return nil, false, err
		}
		if start < 0 {
			slices.Reverse(now)
		}
	}
}

// find returns how many elements were put in front of what was there before, of which the first may be gone, and, if all of the list is
// here, the last; or -1 if nothing of it is there.
func find(now, before []string, all bool) int {
	for gone := range before {
		rest := before[gone:]
		for at := range now {
			common := min(len(rest), len(now)-at)
			if (common == len(rest) || all) && slices.Equal(now[at:at+common], rest[:common]) {
				return at
			}
		}
	}
	return -1
}
