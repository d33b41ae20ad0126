package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
)

func (a *app) adoptCommand() *cobra.Command {
	var popped string
	var capacity int
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "adopt KEY...",
		Short: "Turn plain Redis lists into sharded ones",
		Long: `Turn plain Redis lists into sharded lists of the same names. Print each key and the length
of its list. A KEY with one of *?[ is a pattern, as KEYS takes it, for plain lists on all
masters.

The first step takes microseconds, whatever the length: then the sharded list has all
elements, and the plain key has gone. The elements move to shards while others use the
sharded list. If adopt is interrupted, the list is whole, and another adopt goes on.

If the sharded list has elements already, those of the plain key join one of its ends.
--popped says which is the other one.`,
		Example: `  shardedlist adopt jobs
  shardedlist adopt --popped left 'queue:*'
  shardedlist adopt --dry-run 'queue:*'`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			var options []shardedlist.Option
			if popped != "" {
				options = append(options, shardedlist.WithPoppedAt(popped))
			}
			if cmd.Flags().Changed("capacity") {
				options = append(options, shardedlist.WithCapacity(capacity))
			}
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
				names, err := plainLists(ctx, rdb, args)
				for _, name := range names {
					if err == nil {
						err = a.adopt(ctx, rdb, name, dryRun, options)
					}
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&popped, "popped", "", "the `end` at which consumers pop, left or right")
	cmd.Flags().IntVar(&capacity, "capacity", 0, "`elements` per full shard of a new list (default: ask the server)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the plain lists, and change nothing")
	return cmd
}

// adopt adopts a plain list, and prints its key and the length of the list.
func (a *app) adopt(ctx context.Context, rdb redis.UniversalClient, name string, dryRun bool, options []shardedlist.Option) error {
	list, err := shardedlist.New(rdb, name, options...)
	if err != nil {
		return err
	}
	var length int64
	if dryRun {
		length, err = rdb.LLen(ctx, name).Result()
	} else {
		p := a.progress("adopting "+name, unknown, false)
		before := int64(0)
		err = list.Adopt(ctx, func(moved, total int64) {
			p.bar.ChangeMax64(max(total, 1))
			p.add(int(moved-before), 0)
			before = moved
		})
		p.done()
		if err == nil {
			length, err = list.LLen(ctx)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(a.stdout, "%s\t%d\n", name, length)
	}
	return err
}

// plainLists returns the keys, and for each pattern those of the plain lists that match it, but for those that sharded lists are
// stored in.
func plainLists(ctx context.Context, rdb redis.UniversalClient, patterns []string) (names []string, err error) {
	for _, pattern := range patterns {
		if !strings.ContainsAny(pattern, "*?[") {
			names = append(names, pattern)
			continue
		}
		var mu sync.Mutex
		err = onMasters(ctx, rdb, func(ctx context.Context, node redis.Cmdable) error {
			keys := node.ScanType(ctx, 0, pattern, 1000, "list").Iterator()
			for keys.Next(ctx) {
				if meta, _ := oneslot.Owner(keys.Val()); meta == "" {
					mu.Lock()
					names = append(names, keys.Val())
					mu.Unlock()
				}
			}
			return keys.Err()
		})
		if err != nil {
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
