// Command shardedlist works on sharded lists from a shell, as redis-cli does on lists, and demonstrates that they keep
// every element and its order.
package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
)

func main() {
	logging.Disable()                  // go-redis reports its errors to the caller as well
	signal.Ignore(syscall.SIGPIPE)     // a closed pipe is a failed write, after which there is still a bar to wipe away
	cobra.EnableCommandSorting = false // the help lists the commands as rootCommand does

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program there and then
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs the program and returns its exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(hideMinus(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.exit(ctx, root.ExecuteContext(ctx))
}

// app is one run of the program.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	address string // of the server, the flag --redis
	null    bool   // NUL ends an element, not a newline: the flag --null
	started bool   // the command line was understood
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "shardedlist",
		Short: "Redis lists of any size, kept as a row of small ones",
		Long: `Redis lists of any size, kept as a row of small ones.

The commands on a list do what the Redis commands of the same name do. Elements are
read and written one a line, or ended by NUL bytes with -0.

Servers, for --redis or the variable REDIS_URL:
  redis://USER:PASSWORD@HOST:PORT/DATABASE          or HOST:PORT; rediss:// for TLS
  unix://USER:PASSWORD@/PATH/TO/SOCKET?db=DATABASE  or /PATH/TO/SOCKET
  redis://HOST:PORT?addr=HOST:PORT&addr=HOST:PORT   or HOST:PORT,HOST:PORT: a cluster
  redis://HOST:PORT?master_name=NAME                the master that a sentinel watches
One node of a cluster is enough to find the others.

Exit codes:
  0    done
  1    nothing there: an empty list, no such index, the timeout; or check or demo found a fault
  2    the command line is wrong
  3    anything else went wrong: the connection, the server, a file
  130  interrupted, by Ctrl-C for one
  141  whoever read the output has gone`,
		Example: `  shardedlist demo
  cat access.log | shardedlist rpush logs
  shardedlist lrange logs 0 -1 > copy.log
  shardedlist --redis redis://:secret@example.com blpop jobs 2.5`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(_ *cobra.Command, args []string) {
			a.started = true
			showMinus(args)
		},
	}
	root.PersistentFlags().StringVar(&a.address, "redis", "", "the `server` (default $REDIS_URL or "+defaultAddress+")")
	root.AddCommand(
		a.demoCommand(),
		a.pushCommand("lpush", "left", (*shardedlist.ShardedList).LPush),
		a.pushCommand("rpush", "right", (*shardedlist.ShardedList).RPush),
		a.popCommand("lpop", "left", (*shardedlist.ShardedList).LPopCount),
		a.popCommand("rpop", "right", (*shardedlist.ShardedList).RPopCount),
		a.blockingPopCommand("blpop", "left", (*shardedlist.ShardedList).BLPop),
		a.blockingPopCommand("brpop", "right", (*shardedlist.ShardedList).BRPop),
		a.llenCommand(),
		a.lindexCommand(),
		a.lrangeCommand(),
		a.delCommand(),
		a.infoCommand(),
		a.checkCommand(),
	)
	return root
}

func version() string {
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "(devel)"
}

const anyNumber = math.MaxInt

// takes has a command line checked for its number of arguments, from least to most.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("wrong number of arguments, it is: shardedlist %s", cmd.Use)
		}
		return nil
	}
}

// hideMinus keeps negative numbers from being taken for flags. It puts a NUL byte in front, which no argument of a process
// can hold, and showMinus takes it away again.
func hideMinus(args []string) []string {
	hidden := make([]string, len(args))
	for i, arg := range args {
		if len(arg) > 1 && arg[0] == '-' && (arg[1] >= '1' && arg[1] <= '9' || strings.HasPrefix(arg, "-0.")) {
			arg = "\x00" + arg
		}
		hidden[i] = arg
	}
	return hidden
}

func showMinus(args []string) {
	for i, arg := range args {
		args[i] = strings.TrimPrefix(arg, "\x00")
	}
}
