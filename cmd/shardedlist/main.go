// Command shardedlist runs list commands on sharded lists, as redis-cli does on Redis lists. Its demo checks that no element
// is lost, duplicated or out of order.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"
)

func main() {
	logging.Disable()              // go-redis also returns its errors
	signal.Ignore(syscall.SIGPIPE) // a write to a closed pipe fails, and the program clears the progress bar
	os.Exit(execute(untilSignal(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func init() {
	cobra.EnableCommandSorting = false // the help keeps the order of rootCommand
	cobra.EnableCaseInsensitive = true // LLEN is llen
}

// untilSignal returns a context that ends with the first signal to interrupt or to terminate the program, which is its cause. The
// second one kills the program.
func untilSignal() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		got := <-signals
		signal.Stop(signals)
		cancel(signalError{got.(syscall.Signal)})
	}()
	return ctx
}

// execute runs the program and returns its exit code.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{args: args, stdin: stdin, stdout: stdout, stderr: stderr}
	root := a.rootCommand()
	root.SetArgs(hideMinus(args))
	root.SetIn(stdin)
	help := &helpWriter{Writer: stdout}
	root.SetOut(help)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if help.err != nil {
		a.started, err = true, help.err // it is no mistake in the command line
	}
	return a.exit(ctx, err)
}

// helpWriter writes what cobra prints, the help and the version, and keeps the error, which cobra does not.
type helpWriter struct {
	io.Writer
	err error
}

func (w *helpWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.err = errors.Join(w.err, err)
	return n, err
}

// app is one run of the program.
type app struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer

	address string // the flag --redis
	null    bool   // the flag --null
	json    bool   // the flag --json
	raw     bool   // the flag --raw
	noRaw   bool   // the flag --no-raw
	started bool   // the command line is valid
}

func (a *app) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "shardedlist",
		Short: "Redis lists of any size, stored as many small Redis lists",
		Long: `Redis lists of any size, stored as many small Redis lists.

Each list command does what the Redis command of that name does. On a terminal, replies look
as redis-cli shows them. Elsewhere an element is a line, byte for byte; with -0, it ends with a
NUL byte. With --json, replies are JSON, and an element that is not UTF-8 is {"base64":"..."}.

Server addresses, for --redis or the variable REDIS_URL:
  redis://USER:PASSWORD@HOST:PORT/DATABASE          or HOST:PORT; rediss:// for TLS
  unix://USER:PASSWORD@/PATH/TO/SOCKET?db=DATABASE  or /PATH/TO/SOCKET
  redis://HOST:PORT?addr=HOST:PORT&addr=HOST:PORT   or HOST:PORT,HOST:PORT: a cluster
  redis://HOST:PORT?master_name=NAME                the master that Sentinel monitors
One cluster node is enough to find the others. With Sentinel, USER:PASSWORD are Sentinel's;
those of the master are &username=USER&password=PASSWORD.

Exit codes:
  0    success
  1    no element (empty list, no such index, timeout), no such list, or check or demo found
       a fault
  2    usage error
  3    any other error: connection, server, file
  130  interrupted, for example by Ctrl-C; 143 if terminated by SIGTERM
  141  the reader of the output closed the pipe`,
		Example: `  shardedlist demo
  cat access.log | shardedlist rpush logs
  shardedlist lrange logs 0 -1 > copy.log
  shardedlist shell
  shardedlist --redis redis://:secret@example.com blpop jobs 2.5`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, args []string) error {
			a.started = true
			showMinus(args)
			if a.json && cmd.HasParent() && cmd.Parent().Name() == "completion" {
				return usagef("--json: a script for a shell is no JSON")
			}
			return a.checkFormat()
		},
	}
	root.SuggestionsMinimumDistance = 1 // with two slips, foo is top
	flags := root.PersistentFlags()
	flags.StringVar(&a.address, "redis", "", "address of the `server` (default $REDIS_URL or "+defaultAddress+")")
	flags.BoolVar(&a.json, "json", false, "print JSON")
	flags.BoolVar(&a.raw, "raw", false, "print elements as they are, also on a terminal")
	flags.BoolVar(&a.noRaw, "no-raw", false, "quote and number elements, also if this is no terminal")
	a.addGroups(root)
	addVersion(root)
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Example = "  shardedlist help lpop"
	help.Args = func(_ *cobra.Command, args []string) error { // cobra's own answer to a wrong command goes past exit
		_, _, err := root.Find(args)
		return err
	}
	return root
}

// addGroups adds the commands, in the groups of the help.
func (a *app) addGroups(root *cobra.Command) {
	var lists, keys []*cobra.Command
	for _, c := range redisCommands {
		if strings.Contains(keyCommands, " "+c.name()+" ") {
			keys = append(keys, a.redisCommand(c))
		} else {
			lists = append(lists, a.redisCommand(c))
		}
	}
	for _, group := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"start", "Start here:", []*cobra.Command{a.demoCommand(), a.shellCommand()}},
		{"lists", "Commands of Redis on lists, in upper or lower case:", append([]*cobra.Command{
			a.pushCommand("lpush", leftEnd), a.pushCommand("rpush", rightEnd),
			a.popCommand("lpop", leftEnd), a.popCommand("rpop", rightEnd),
			a.blockingPopCommand("blpop", leftEnd), a.blockingPopCommand("brpop", rightEnd),
			a.lindexCommand(), a.lrangeCommand(),
		}, lists...)},
		{"keys", "Commands of Redis on lists and other keys:", append([]*cobra.Command{a.delCommand()}, keys...)},
		{"operate", "Look at lists, and manage them:", []*cobra.Command{
			a.lsCommand(), a.topCommand(),
			a.infoCommand(), a.checkCommand(), a.repairCommand(), a.doctorCommand(), a.adoptCommand(), a.restoreCommand(), a.queueCommand(), a.watchCommand(), a.webCommand(), a.scriptCommand(),
			a.functionsCommand(),
		}},
	} {
		root.AddGroup(&cobra.Group{ID: group.id, Title: group.title})
		for _, cmd := range group.commands {
			cmd.GroupID = group.id
			root.AddCommand(cmd)
		}
	}
}

// keyCommands are those that apply to keys of any type.
const keyCommands = " unlink exists touch type expire pexpire expireat pexpireat ttl pttl expiretime pexpiretime persist rename renamenx copy object memory "

const anyNumber = math.MaxInt

// takes returns a check that the number of arguments is from least to most.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return fmt.Errorf("wrong number of arguments; usage: %s %s", cmd.Parent().CommandPath(), cmd.Use)
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
