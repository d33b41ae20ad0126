package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/survey"
)

// change is what adopt and restore have in common: lists change their form, one after the other, in steps.
type change struct {
	what    string // they are doing
	popped  string
	dryRun  bool
	options []shardedlist.Option

	names  func(ctx context.Context, rdb redis.UniversalClient, patterns []string) ([]string, error)
	run    func(list *shardedlist.ShardedList, ctx context.Context, progress func(moved, total int64)) error
	length func(info shardedlist.Info) int64 // for a dry run
}

func (c *change) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.popped, "popped", "", "the `end` at which consumers pop, left or right")
	cmd.Flags().BoolVar(&c.dryRun, "dry-run", false, "print the lists, and change nothing")
}

func (a *app) adoptCommand() *cobra.Command {
	var capacity int
	c := change{what: "adopting", names: plainLists, run: (*shardedlist.ShardedList).Adopt, length: adoptedLength}
	cmd := &cobra.Command{
		Use:   "adopt KEY...",
		Short: "Turn plain Redis lists into sharded ones",
		Long: `Turn plain Redis lists into sharded lists of the same names. Print each key and the length
of its list. A KEY with one of *?[ is a pattern, as KEYS takes it, for plain lists on all
masters, and for lists that an earlier adopt or restore has left half done.

The first step takes microseconds, whatever the length: then the sharded list has all
elements, and the plain key has gone. The elements move to shards while others use the
sharded list. If adopt is interrupted, the list is whole, and another adopt goes on.

If the sharded list has elements already, those of the plain key join one of its ends: the
one that pushes of others show, or the one opposite to pops. If there have been none, and
none come while adopt watches, --popped says where elements are popped.

It ends what restore has begun, or done.`,
		Example: `  shardedlist adopt jobs
  shardedlist adopt --popped left 'queue:*'
  shardedlist adopt --dry-run 'queue:*'`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("capacity") {
				c.options = append(c.options, shardedlist.WithCapacity(capacity))
			}
			return a.change(cmd, args, c)
		},
	}
	c.addFlags(cmd)
	a.completes(cmd, everyOne, plainNames)
	cmd.Flags().IntVar(&capacity, "capacity", 0, "`elements` per full shard of a new list (default: ask the server)")
	return cmd
}

func (a *app) restoreCommand() *cobra.Command {
	c := change{what: "restoring", names: shardedLists, run: (*shardedlist.ShardedList).Restore, length: shardedLength}
	cmd := &cobra.Command{
		Use:   "restore LIST...",
		Short: "Turn sharded lists into plain Redis lists",
		Long: `Turn sharded lists into plain Redis lists at the keys of their names. Print each name and
the length of its list. A LIST with one of *?[ is a pattern, as KEYS takes it, for the
names of the lists on all masters: the command scans their keys.

Others can use the lists meanwhile. From then on, processes that use the library work on
the plain keys, until adopt: start others when restore has ended. If it is interrupted,
the list is whole, and another restore goes on.`,
		Example: `  shardedlist restore jobs
  shardedlist restore --dry-run 'queue:*'`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error { return a.change(cmd, args, c) },
	}
	c.addFlags(cmd)
	a.completesLists(cmd, everyOne)
	return cmd
}

// change changes the form of lists, and prints the name and the length of each.
func (a *app) change(cmd *cobra.Command, args []string, c change) error {
	if c.popped != "" {
		c.options = append(c.options, shardedlist.WithPoppedAt(c.popped))
	}
	return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
		names, err := c.names(ctx, rdb, args)
		for _, name := range names {
			var length int64
			if err == nil {
				length, err = a.changeOne(ctx, rdb, name, c)
			}
			if errors.Is(err, shardedlist.ErrWrongType) {
				err = a.explained(ctx, rdb, cmd.Name(), []string{name}, err)
			}
			if errors.Is(err, shardedlist.ErrPoppedAt) {
				err = fmt.Errorf("%s %q: both the list and the key have elements: give --popped left or --popped right, the end of the consumers",
					cmd.Name(), name)
			}
			if err == nil {
				err = a.printLength(name, length)
			}
		}
		return err
	})
}

func (a *app) printLength(name string, length int64) error {
	if a.json {
		_, err := fmt.Fprintf(a.stdout, "{\"name\":%s,\"length\":%d}\n", jsonString(name), length)
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%s\t%d\n", printable(name), length)
	return err
}

// changeOne changes the form of a list, and returns its length.
func (a *app) changeOne(ctx context.Context, rdb redis.UniversalClient, name string, c change) (int64, error) {
	list, err := shardedlist.New(rdb, name, c.options...)
	if err != nil {
		return 0, err
	}
	info, err := list.Info(ctx)
	switch {
	case err == nil && !isThere(info): // to restore it would leave a mark
		return 0, notThereError{fmt.Errorf("there is no list %q", name)}
	case c.dryRun:
		return c.length(info), err
	}
	p := a.progress(c.what+" "+printable(name), unknown, false)
	before := int64(0)
	err = c.run(list, ctx, func(moved, total int64) {
		p.outOf(total)
		p.add(int(moved-before), 0)
		before = moved
	})
	p.done()
	if err != nil {
		return 0, err
	}
	return list.LLen(ctx)
}

func adoptedLength(info shardedlist.Info) int64 { return info.Length + info.Newcomers }

func shardedLength(info shardedlist.Info) int64 {
	if info.Restored {
		return 0
	}
	return info.Length
}

// plainLists returns the keys, and for each pattern those of the lists that match it and have something to adopt.
func plainLists(ctx context.Context, rdb redis.UniversalClient, patterns []string) ([]string, error) {
	return namesOf(patterns, func(pattern string, add func(name string)) error {
		for row, err := range survey.Rows(ctx, rdb, survey.Options{Match: pattern, WithoutBytes: true}) {
			if err != nil {
				return err
			}
			if canAdopt(row) {
				add(row.Name)
			}
		}
		return nil
	})
}

// canAdopt reports whether adopt has something to do: there is a plain list, or what is left of one, or restore has begun or done it.
func canAdopt(row survey.Row) bool {
	return row.Newcomers > 0 || slices.Contains([]survey.Form{survey.Plain, survey.Adopted, survey.Restoring, survey.Restored}, row.Form)
}

// shardedLists returns the names, and for each pattern those of the sharded lists that match it.
func shardedLists(ctx context.Context, rdb redis.UniversalClient, patterns []string) ([]string, error) {
	return namesOf(patterns, func(pattern string, add func(name string)) error {
		matches := shardedlist.Match(pattern)
		return onMasters(ctx, rdb, func(ctx context.Context, node redis.Cmdable) error {
			keys := node.ScanType(ctx, 0, "*:meta", scanCount, "hash").Iterator()
			for keys.Next(ctx) {
				name, found := oneslot.NameOf(keys.Val())
				if !found || !matches(name) {
					continue
				}
				isList, err := node.HExists(ctx, keys.Val(), "layout").Result()
				if err != nil {
					return err
				}
				if isList {
					add(name)
				}
			}
			return keys.Err()
		})
	})
}

const scanCount = 1000 // keys that a SCAN looks at

// namesOf returns the words that are no patterns, and what find adds for the others, sorted. Several masters may add at once.
func namesOf(words []string, find func(pattern string, add func(name string)) error) (names []string, err error) {
	var mu sync.Mutex
	add := func(name string) {
		mu.Lock()
		defer mu.Unlock()
		names = append(names, name)
	}
	for _, word := range words {
		if !strings.ContainsAny(word, "*?[") {
			add(word)
		} else if err := find(word, add); err != nil {
			return nil, err
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func onMasters(ctx context.Context, rdb redis.UniversalClient, work func(ctx context.Context, node redis.Cmdable) error) error {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return work(ctx, node) })
	}
	return work(ctx, rdb)
}
