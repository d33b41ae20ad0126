package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

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
	return eachMaster(ctx, rdb, func(ctx context.Context, node *redis.Client) error {
		libraries, err := node.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: libraryPattern}).Result()
		if err != nil {
			return fmt.Errorf("functions: %s: %w", node.Options().Addr, err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, library := range libraries {
			state := "other"
			if library.Name == lua.Functions().Name {
				state = "current"
			} else if prune {
				if err := node.FunctionDelete(ctx, library.Name).Err(); err != nil {
					return fmt.Errorf("functions: %s: %w", node.Options().Addr, err)
				}
				state = "deleted"
			}
			if err := a.printFields([]field{
				{"master", node.Options().Addr}, {"library", library.Name}, {"functions", len(library.Functions)}, {"version", state},
			}); err != nil {
				return err
			}
		}
		return nil
	})
}

// libraryPattern matches the names of all versions.
var libraryPattern = lua.Functions().Name[:strings.LastIndexByte(lua.Functions().Name, '_')] + "_*"

// eachMaster visits the masters of a client.
func eachMaster(ctx context.Context, rdb redis.UniversalClient, visit func(context.Context, *redis.Client) error) error {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, visit)
	case *redis.Client:
		return visit(ctx, rdb)
	}
	return fmt.Errorf("functions: not of %T", rdb)
}
