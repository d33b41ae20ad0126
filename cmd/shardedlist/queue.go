package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist/queue"
)

// peeked is how many jobs peek and dead print by default.
const peeked = 10

func (a *app) queueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue COMMAND",
		Short: "Look at a queue of jobs, and manage it",
		Long: `Look at a queue of jobs, as the package queue keeps it, and manage it.

A job is printed in one line: its id, how often it was tried, a time, why it failed last, and its
payload, separated by tabs. The time is when it was pushed, or, if it is delayed or leased, when
it is due or its lease ends. For an element that no queue wrote, the missing fields are empty.
With --json, a line is a JSON object; a payload that is no UTF-8 is in base64 there.`,
		Example: `  shardedlist queue stats mail
  shardedlist queue peek mail 5 --state delayed
  shardedlist queue retry mail --all`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			return usagef("unknown command %q for %q", args[0], cmd.CommandPath())
		},
	}
	cmd.AddCommand(a.queueStatsCommand(), a.queuePeekCommand(), a.queueDeadCommand(), a.queueRetryCommand(), a.queueCancelCommand(),
		a.queuePauseCommand("pause", "Make all consumers take no more jobs", (*queue.Queue).Pause),
		a.queuePauseCommand("resume", "Let consumers take jobs again", (*queue.Queue).Resume))
	for _, c := range cmd.Commands() {
		a.completes(c, first(1), queueNames)
	}
	return cmd
}

// onQueue runs work on a queue.
func (a *app) onQueue(cmd *cobra.Command, name string, work func(context.Context, *queue.Queue) error, opts ...queue.Option) error {
	return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
		q, err := queue.New(rdb, name, opts...)
		if err != nil {
			return err
		}
		return work(ctx, q)
	})
}

func (a *app) queueStatsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stats QUEUE",
		Short: "Print the numbers of a queue",
		Long: `Print the numbers of a queue:

  waiting  jobs in the list
  delayed  jobs that are due later, or are to be tried again
  leased   jobs that consumers have
  dead     jobs that failed too often, or for good
  done     how often a job was done
  failed   how often an attempt failed and the job was to be tried again
  buried   how often a job died
  paused   true if consumers take no jobs
  oldest   when the next job of the list was pushed, if that is known`,
		Example: "  shardedlist queue stats mail",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onQueue(cmd, args[0], func(ctx context.Context, q *queue.Queue) error {
				s, err := q.Stats(ctx)
				if err != nil {
					return err
				}
				return a.printFields([]field{
					{"waiting", s.Waiting}, {"delayed", s.Delayed}, {"leased", s.Leased}, {"dead", s.Dead},
					{"done", s.Done}, {"failed", s.Failed}, {"buried", s.Buried}, {"paused", s.Paused}, {"oldest", timeText(s.Oldest)},
				})
			})
		},
	}
}

func (a *app) queuePeekCommand() *cobra.Command {
	var state string
	var right bool
	cmd := &cobra.Command{
		Use:   "peek QUEUE [COUNT]",
		Short: "Print jobs without taking them",
		Long: `Print up to COUNT jobs, or 10, without taking them: those that wait, in the order in which they
will be taken; with --state, the delayed by the time at which they are due, the leased by the end of
their leases, or the dead. If there is none, the exit code is 1.`,
		Example: `  shardedlist queue peek mail
  shardedlist queue peek mail 100 --state leased`,
		Args: takes(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var opts []queue.Option
			if right {
				opts = append(opts, queue.PopRight())
			}
			return a.peek(cmd, args, queue.State(state), opts...)
		},
	}
	cmd.Flags().StringVar(&state, "state", string(queue.Waiting), "`state` of the jobs: waiting, delayed, leased or dead")
	cmd.Flags().BoolVar(&right, "right", false, "consumers take jobs from the right end of the list")
	return cmd
}

func (a *app) queueDeadCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "dead QUEUE [COUNT]",
		Short:   "Print dead jobs",
		Long:    "Print up to COUNT dead jobs, or 10, those that died first at first. If there is none, the exit code is 1.",
		Example: "  shardedlist queue dead mail",
		Args:    takes(1, 2),
		RunE:    func(cmd *cobra.Command, args []string) error { return a.peek(cmd, args, queue.Dead) },
	}
}

// peek prints jobs in a state.
func (a *app) peek(cmd *cobra.Command, args []string, state queue.State, opts ...queue.Option) error {
	count, err := parseCount(args[1:], peeked)
	if err != nil {
		return err
	}
	switch state {
	case queue.Waiting, queue.Delayed, queue.Leased, queue.Dead:
	default:
		return usagef("invalid state %q: want waiting, delayed, leased or dead", state)
	}
	return a.onQueue(cmd, args[0], func(ctx context.Context, q *queue.Queue) error {
		if count == 0 {
			return nil
		}
		jobs, err := q.Peek(ctx, state, count)
		if err == nil && len(jobs) == 0 {
			return errNothing
		}
		for _, job := range jobs {
			if err == nil {
				err = a.printJob(job)
			}
		}
		return err
	}, opts...)
}

func (a *app) printJob(job *queue.Job) error {
	at := job.PushedAt
	if !job.Due.IsZero() {
		at = job.Due
	}
	if !a.json {
		_, err := fmt.Fprintf(a.stdout, "%s\t%d\t%s\t%s\t%s\n", job.ID, job.Attempt, timeText(at), inLine(job.LastError), inLine(string(job.Payload)))
		return err
	}
	object := map[string]any{"id": job.ID, "attempt": job.Attempt, "pushed_at": timeText(job.PushedAt), "due": timeText(job.Due), "last_error": job.LastError}
	if utf8.Valid(job.Payload) {
		object["payload"] = string(job.Payload)
	} else {
		object["payload_base64"] = job.Payload
	}
	return json.NewEncoder(a.stdout).Encode(object)
}

// inLine quotes a text that is not printable in one field of a line.
func inLine(text string) string {
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func (a *app) queueRetryCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "retry QUEUE ID...",
		Short: "Let dead jobs be tried again",
		Long: `Let dead jobs be tried again, from the first attempt, and print how many. With --all, all that are
dead now. If one is not there, the exit code is 1, and those before it have been done.`,
		Example: `  shardedlist queue retry mail 01a2c1f0-5472-7703-b3b2-c6ae8ad7d704
  shardedlist queue retry mail --all`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all != (len(args) == 1) {
				return usagef("want ids of jobs, or --all")
			}
			return a.onQueue(cmd, args[0], func(ctx context.Context, q *queue.Queue) error {
				if !all {
					return a.eachJob(ctx, args[1:], q.Retry)
				}
				retried, err := q.RetryAll(ctx)
				return errors.Join(err, a.printInteger(int64(retried)))
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "all dead jobs")
	return cmd
}

func (a *app) queueCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel QUEUE ID...",
		Short: "Remove delayed jobs",
		Long: `Remove jobs that are delayed, or are to be tried again, and print how many. If one is not there, the
exit code is 1, and those before it have been removed.`,
		Example: "  shardedlist queue cancel mail 01a2c1f0-5472-7703-b3b2-c6ae8ad7d704",
		Args:    takes(2, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onQueue(cmd, args[0], func(ctx context.Context, q *queue.Queue) error { return a.eachJob(ctx, args[1:], q.Cancel) })
		},
	}
}

// eachJob calls do for each id, and prints how many calls succeeded.
func (a *app) eachJob(ctx context.Context, ids []string, do func(ctx context.Context, id string) error) error {
	for i, id := range ids {
		err := do(ctx, id)
		if err == nil {
			continue
		}
		printErr := a.printInteger(int64(i))
		if errors.Is(err, queue.ErrNotFound) && printErr == nil {
			return errNothing
		}
		return errors.Join(err, printErr)
	}
	return a.printInteger(int64(len(ids)))
}

func (a *app) queuePauseCommand(use, short string, do func(*queue.Queue, context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:     use + " QUEUE",
		Short:   short,
		Long:    short + ". Jobs that run go on. Print OK.",
		Example: "  shardedlist queue " + use + " mail",
		Args:    takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onQueue(cmd, args[0], func(ctx context.Context, q *queue.Queue) error {
				if err := do(q, ctx); err != nil {
					return err
				}
				return a.printReply(reply{kind: status, text: "OK"})
			})
		},
	}
}

type field struct {
	key   string
	value any
}

// printFields prints names and values, as lines or as a JSON object.
func (a *app) printFields(fields []field) error {
	if a.json {
		object := map[string]any{}
		for _, f := range fields {
			object[f.key] = f.value
		}
		return json.NewEncoder(a.stdout).Encode(object)
	}
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, f := range fields {
		fmt.Fprintf(table, "%s:\t%v\n", f.key, f.value)
	}
	return table.Flush()
}
