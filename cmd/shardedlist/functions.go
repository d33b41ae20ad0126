package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist/internal/scan"
	"github.com/shardedlist/shardedlist/lua"
)

func (a *app) functionsCommand() *cobra.Command {
	var prune bool
	cmd := &cobra.Command{
		Use:   "functions",
		Short: "Print which versions of the library servers have loaded, or delete old ones",
		Long: `Print which versions of the library of functions each master has loaded:

  master     address of the master
  library    name of the library
  functions  number of its functions
  version    current if it is that of this program, or else other

With --prune, delete the others. A process that still runs with one loads it again, and loses
nothing. Servers older than Redis 7 have no functions.`,
		Example: `  shardedlist functions
  shardedlist functions --prune`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error { return a.functions(ctx, rdb, prune) })
		},
	}
	cmd.Flags().BoolVar(&prune, "prune", false, "delete the versions that are not this program's")
	return cmd
}

// functions prints the libraries of all masters, or deletes those of other versions.
func (a *app) functions(ctx context.Context, rdb redis.UniversalClient, prune bool) error {
	var mu sync.Mutex // masters of a cluster are visited at the same time
	return scan.EachMaster(ctx, rdb, func(ctx context.Context, master redis.UniversalClient) error {
		addr := master.(*redis.Client).Options().Addr
		libraries, err := master.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: lua.LibraryPattern}).Result()
		if err != nil {
			return fmt.Errorf("functions: %s: %w", addr, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, library := range libraries {
			version := "other"
			if library.Name == lua.Functions().Name {
				version = "current"
			} else if prune {
				if err := master.FunctionDelete(ctx, library.Name).Err(); err != nil {
					return fmt.Errorf("functions: %s: %w", addr, err)
				}
				version = "deleted"
			}
			err := a.printFields([]field{{"master", addr}, {"library", library.Name}, {"functions", len(library.Functions)}, {"version", version}})
			if err != nil {
				return err
			}
		}
		return nil
	})
}
