package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/survey"
)

func (a *app) delCommand() *cobra.Command {
	var onlyStrays bool
	cmd := &cobra.Command{
		Use:   "del LIST...",
		Short: "Delete lists",
		Long: `Delete lists. Print how many of them existed. As in Redis, a key of another type at one of the
names is deleted too.

With --only-strays, keep the lists and delete their stray shards: those that a list lost when
the hash {LIST}:meta was evicted or deleted. Print their number. This scans the keys of the
server. The lists may be in use.`,
		Example: `  shardedlist del logs
  shardedlist del --only-strays logs`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
				if onlyStrays {
					return a.delStrays(ctx, rdb, args)
				}
				return a.runRedis(ctx, rdb, args, append([]string{"del"}, args...))
			})
		},
	}
	a.completesLists(cmd, everyOne)
	cmd.Flags().BoolVar(&onlyStrays, "only-strays", false, "keep the lists, delete their stray shards")
	return cmd
}

func (a *app) delStrays(ctx context.Context, rdb redis.UniversalClient, names []string) error {
	total := int64(0)
	for _, name := range names {
		list, err := shardedlist.New(rdb, name)
		if err != nil {
			return err
		}
		deleted, err := list.DelStrays(ctx)
		if err != nil {
			return a.explained(ctx, rdb, "del", []string{name}, err)
		}
		total += deleted
	}
	return a.printInteger(total)
}

func (a *app) infoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "info LIST",
		Short: "Print how the list is stored",
		Long: `Print how a list is stored. If there is no such list, say so, with exit code 1.

  name       name of the list
  length     number of elements
  shards     number of shards, the Redis lists that hold the elements
  first      id of the leftmost shard
  last       id of the rightmost shard; less than first if the list is empty
  capacity   elements per full shard; 0 if the list is empty or plain
  bytes      estimated memory of all shards; 0 if the server does not report it
  slot       cluster slot of all keys of the list, or of the pointers of one that is spread
  parts      number of parts over which it is spread; 0 if it is in one slot
  armed      true if consumers waited when the list became empty, or since then
  unswept    upper bound of the shards of a deleted list that are not yet unlinked
  unsplit    elements of a plain list that adopt has yet to move to shards
  newcomers  elements at the plain key of that name beside the list
  form       as in ls: sharded, spread, adopted, restoring, restored or plain
  mode       how the server carries out operations: functions, or scripts, and why`,
		Example: `  shardedlist info logs
  shardedlist info --json logs | jq .shards`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				info, err := list.Info(ctx)
				if err != nil {
					return err
				}
				if !isThere(info) {
					return notThereError{fmt.Errorf("there is no list %q", info.Name)}
				}
				return a.printFields(infoFields(info))
			})
		},
	}
	a.completesLists(cmd, first(1))
	return cmd
}

// isThere reports whether anything is stored of a list: elements, or, of an empty one, somebody who waits, what is left to clean up, or
// that it was restored.
func isThere(info shardedlist.Info) bool {
	return info.Length > 0 || info.Armed || info.Unswept > 0 || info.Unsplit > 0 || info.Newcomers > 0 || info.Restoring || info.Restored
}

func infoFields(info shardedlist.Info) []field {
	return []field{
		{"name", shownName(info.Name)},
		{"length", info.Length},
		{"shards", info.Shards},
		{"first", info.First},
		{"last", info.Last},
		{"capacity", info.Capacity},
		{"bytes", info.Bytes},
		{"slot", info.Slot},
		{"parts", info.Parts},
		{"armed", info.Armed},
		{"unswept", info.Unswept},
		{"unsplit", info.Unsplit},
		{"newcomers", info.Newcomers},
		{"form", formOf(info)},
		{"mode", info.Mode},
	}
}

// formOf tells the form in which the list is, as ls does.
func formOf(info shardedlist.Info) survey.Form {
	switch {
	case info.Restored:
		return survey.Restored
	case info.Restoring:
		return survey.Restoring
	case info.Parts > 0:
		return survey.Spread
	case info.Capacity == 0 && info.Length > 0:
		return survey.Plain
	case info.Unsplit > 0:
		return survey.Adopted
	}
	return survey.Sharded
}

func (a *app) checkCommand() *cobra.Command {
	var parts int
	cmd := &cobra.Command{
		Use:   "check LIST",
		Short: "Verify how the list is stored",
		Long: `Verify the invariants of a stored list. Print ok, or one line per violation with exit
code 1. If there is no such list, say so, with exit code 1 too. The command scans the keys
of the server. The list may be in use. See repair for what can be mended.`,
		Example: `  shardedlist check logs`,
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onList(cmd, args[0], a.check, inParts(parts)...)
		},
	}
	a.completesLists(cmd, first(1))
	cmd.Flags().IntVar(&parts, "parts", 0, "number of `parts` of a list whose meta is lost")
	return cmd
}

// inParts are the options of a list that is, or was, spread over so many parts; 0 if the list itself says it.
func inParts(parts int) []shardedlist.Option {
	if parts == 0 {
		return nil
	}
	return []shardedlist.Option{shardedlist.WithParts(parts)}
}

func (a *app) check(ctx context.Context, list *shardedlist.ShardedList) error {
	err := list.Check(ctx)
	if errors.Is(err, shardedlist.ErrBroken) {
		return a.printBreaches("check", list, err)
	} else if err != nil {
		return err
	}
	info, err := list.Info(ctx)
	if err == nil && !isThere(info) {
		return notThereError{fmt.Errorf("there is no list %q", info.Name)}
	}
	if err != nil {
		return err
	}
	return a.printVerdict("ok")
}

func (a *app) repairCommand() *cobra.Command {
	var options shardedlist.RepairOptions
	var parts int
	cmd := &cobra.Command{
		Use:   "repair LIST",
		Short: "Mend a damaged list",
		Long: `Mend a damaged list. Print what was found and done, and then ok; or what is left, with exit
code 1. The command scans the keys of the server. The list may be in use.

If the hash {LIST}:meta was deleted or evicted, the shards become the list again. If others
have pushed since, say with --before or --after whether what was lost comes before that or
after it. If shards of several lists are found, which may have been deleted at that moment,
say with --generation which of them is the list.

If a shard in the middle is missing, what is behind it moves up. The elements in it are gone.

Of a list that is spread over many slots, what a failover has put outside becomes a part of
it again. If its meta is lost, say with --parts over how many parts the list was spread.`,
		Example: `  shardedlist repair --dry-run logs
  shardedlist repair --before logs`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onList(cmd, args[0], func(ctx context.Context, list *shardedlist.ShardedList) error {
				return a.repair(ctx, list, options)
			}, inParts(parts)...)
		},
	}
	a.completesLists(cmd, first(1))
	cmd.Flags().BoolVar(&options.Before, "before", false, "what was lost comes before what was pushed since")
	cmd.Flags().BoolVar(&options.After, "after", false, "what was lost comes after it")
	cmd.Flags().StringVar(&options.Generation, "generation", "", "the `name` of those shards that are the list")
	cmd.Flags().BoolVar(&options.DryRun, "dry-run", false, "only print what would be done")
	cmd.Flags().IntVar(&parts, "parts", 0, "number of `parts` of a list whose meta is lost")
	return cmd
}

func (a *app) repair(ctx context.Context, list *shardedlist.ShardedList, options shardedlist.RepairOptions) error {
	report, err := list.Repair(ctx, options)
	switch {
	case errors.Is(err, shardedlist.ErrBroken):
		return a.printBreaches("repair", list, err, report...)
	case err != nil:
		return err
	case len(report) == 0:
		return a.check(ctx, list)
	}
	return a.printVerdict(strings.Join(append(report, "ok"), "\n"))
}

// printVerdict prints what check found, in one line or more.
func (a *app) printVerdict(verdict string) error {
	if a.format() == asJSON {
		return json.NewEncoder(a.stdout).Encode(strings.Split(verdict, "\n"))
	}
	_, err := fmt.Fprintln(a.stdout, verdict)
	return err
}

// printBreaches prints one line per violation that an operation has found, behind a report.
func (a *app) printBreaches(operation string, list *shardedlist.ShardedList, breaches error, report ...string) error {
	text := strings.TrimPrefix(breaches.Error(), fmt.Sprintf("shardedlist: %s %q: ", operation, list.Name()))
	text = strings.ReplaceAll(text, shardedlist.ErrBroken.Error()+": ", "")
	text = strings.Join(append(report, text), "\n")
	if err := a.printVerdict(text); err != nil {
		return err
	}
	return errNothing
}
