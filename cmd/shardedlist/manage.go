package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

func (a *app) delCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "del LIST",
		Short:   "Delete the list",
		Long:    "Delete a list, and print 1, or 0 if there was none.",
		Example: "  shardedlist del logs",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				existed, err := list.Del(ctx)
				if err != nil {
					return err
				}
				deleted := 0
				if existed {
					deleted = 1
				}
				_, err = fmt.Fprintln(a.stdout, deleted)
				return err
			})
		},
	}
}

func (a *app) infoCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info LIST",
		Short: "Print how the list is stored",
		Long: `Print how a list is stored:

  name      the list's
  length    number of elements
  shards    number of Redis lists that hold them
  first     id of the leftmost shard
  last      id of the rightmost one, less than first if the list is empty
  capacity  elements in a full shard, 0 if the list is empty
  bytes     memory of all shards, estimated; 0 if the server does not tell
  slot      cluster slot of all its keys
  armed     whether consumers were waiting when the list became empty, or since
  unswept   shards of a deleted list that are still to be unlinked, at the most`,
		Example: `  shardedlist info logs
  shardedlist info --json logs | jq .shards`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				info, err := list.Info(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printInfoJSON(info)
				}
				return a.printInfo(info)
			})
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) printInfo(info shardedlist.Info) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, field := range infoFields(info) {
		fmt.Fprintf(table, "%s:\t%v\n", field.key, field.value)
	}
	return table.Flush()
}

func (a *app) printInfoJSON(info shardedlist.Info) error {
	object := map[string]any{}
	for _, field := range infoFields(info) {
		object[field.key] = field.value
	}
	return json.NewEncoder(a.stdout).Encode(object)
}

type field struct {
	key   string
	value any
}

func infoFields(info shardedlist.Info) []field {
	return []field{
		{"name", info.Name},
		{"length", info.Length},
		{"shards", info.Shards},
		{"first", info.First},
		{"last", info.Last},
		{"capacity", info.Capacity},
		{"bytes", info.Bytes},
		{"slot", info.Slot},
		{"armed", info.Armed},
		{"unswept", info.Unswept},
	}
}

func (a *app) checkCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check LIST",
		Short: "Verify how the list is stored",
		Long: `Verify that a list is stored as it should be, and print ok, or else each breach, one a
line, with exit code 1. It walks the server's keys, and may run while the list is in use.`,
		Example: "  shardedlist check logs",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				err := list.Check(ctx)
				if errors.Is(err, shardedlist.ErrBroken) {
					return a.printBreaches(list, err)
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(a.stdout, "ok")
				return err
			})
		},
	}
}

// printBreaches prints what Check found, a line each.
func (a *app) printBreaches(list *shardedlist.ShardedList, breaches error) error {
	text := strings.TrimPrefix(breaches.Error(), fmt.Sprintf("shardedlist: check %q: ", list.Name()))
	text = strings.ReplaceAll(text, shardedlist.ErrBroken.Error()+": ", "")
	if _, err := fmt.Fprintln(a.stdout, text); err != nil {
		return err
	}
	return errNothing
}
