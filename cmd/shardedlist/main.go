// Command shardedlist runs list commands on sharded lists, as redis-cli does on Redis lists. Its demo checks that no element
// is lost, duplicated or out of order.
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
	logging.Disable()                  // go-redis also returns its errors
	signal.Ignore(syscall.SIGPIPE)     // a write to a closed pipe fails, and the program clears the progress bar
	cobra.EnableCommandSorting = false // the help keeps the order of rootCommand

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills the program
	os.Exit(execute(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// execute runs the program and returns its exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{args: args, stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(hideMinus(args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return a.exit(ctx, root.ExecuteContext(ctx))
}

// app is one run of the program.
type app struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer

	address string // the flag --redis
	null    bool   // the flag --null
	started bool   // the command line is valid
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "shardedlist",
		Short: "Redis lists of any size, stored as many small Redis lists",
		Long: `Redis lists of any size, stored as many small Redis lists.

Each list command does what the Redis command of that name does. Elements are lines.
With -0, they end with NUL bytes.

Server addresses, for --redis or the variable REDIS_URL:
  redis://USER:PASSWORD@HOST:PORT/DATABASE          or HOST:PORT; rediss:// for TLS
  unix://USER:PASSWORD@/PATH/TO/SOCKET?db=DATABASE  or /PATH/TO/SOCKET
  redis://HOST:PORT?addr=HOST:PORT&addr=HOST:PORT   or HOST:PORT,HOST:PORT: a cluster
  redis://HOST:PORT?master_name=NAME                the master that Sentinel monitors
One cluster node is enough to find the others.

Exit codes:
  0    success
  1    no element (empty list, no such index, timeout), or check or demo found a fault
  2    usage error
  3    any other error: connection, server, file
  130  interrupted, for example by Ctrl-C
  141  the reader of the output closed the pipe`,
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
	root.PersistentFlags().StringVar(&a.address, "redis", "", "address of the `server` (default $REDIS_URL or "+defaultAddress+")")
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
		a.adoptCommand(),
		a.restoreCommand(),
		a.queueCommand(),
		a.webCommand(),
	)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Example = "  shardedlist help lpop"
	help.Args = func(_ *cobra.Command, args []string) error { // cobra's own answer to a wrong command goes past exit
		_, _, err := root.Find(args)
		return err
	}
	return root
}

func version() string {
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "(devel)"
}

const anyNumber = math.MaxInt

// takes returns a check that the number of arguments is from least to most.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("wrong number of arguments; usage: shardedlist %s", cmd.Use)
		}
		return nil
	}
}

// hideMinus keeps cobra from parsing negative numbers as flags. It prefixes them with a NUL byte, which no process argument
// can contain. showMinus removes the prefix.
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
