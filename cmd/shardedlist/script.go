package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/value"
)

func (a *app) scriptCommand() *cobra.Command {
	var ldb bool
	cmd := &cobra.Command{
		Use:   "script COMMAND [ARG...]",
		Short: "Print the script that a command would run, to read or to debug",
		Long: `Print the Lua script that the library would run for a command on lists, with the keys and
the arguments that it would send, and do not run it. The comment at the top of it is how
to run it as EVAL on the server that has the keys. With --ldb, it is how to run it in the
debugger of redis-cli, which changes nothing. A password is not printed: redis-cli takes it
from the variable REDISCLI_AUTH.

The script is whole: what it requires is in it. Arguments are those of one session, made
for this file: run as EVAL a second time, the script of a push or pop finds the record of
the first, and returns its reply. Of a command that takes several scripts, as many do on a
list that is spread over slots, the first is printed. With --json, the command, how to run it,
the keys, the arguments and the script are the fields of an object.

With --ldb, empty arguments follow those of the script, and its first line removes them: the
debugger of Redis 7 and Valkey loses the source of a long script that has few arguments. Do
not debug on a Valkey 9 that others use: a session disturbs their scripts.`,
		Example: `  shardedlist script rpush jobs a b --ldb > push.lua && head -n 4 push.lua
  shardedlist script lpop jobs`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
				eval, err := captureScript(ctx, rdb, args)
				if err != nil {
					return err
				}
				server, err := cliFlags(ctx, rdb, eval[3])
				if err != nil {
					return err
				}
				return a.printScript(args, eval, server, ldb)
			})
		},
	}
	a.completesLists(cmd, behind(1))
	cmd.Flags().BoolVar(&ldb, "ldb", false, "say how to run the script in the debugger")
	return cmd
}

// captureScript returns the words of the EVAL that a command would send.
func captureScript(ctx context.Context, rdb redis.UniversalClient, words []string) (eval []string, err error) {
	if _, refused := hook.Commands(); !isListCommand(words) && !slices.Contains(refused, strings.ToLower(words[0])) {
		return nil, usagef("%s runs no script on a list", words[0])
	}
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*")))
	if len(words) > 1 {
		_, _ = do(ctx, rdb, []string{"llen", words[1]}) // finds out the layout of the list
	}
	c := &capture{}
	rdb.AddHook(c)
	if cluster, ok := rdb.(*redis.ClusterClient); ok { // some pipelines go to a node past the hooks of the cluster
		_ = cluster.ForEachShard(ctx, func(_ context.Context, node *redis.Client) error {
			node.AddHook(c)
			return nil
		})
	}
	_, err = do(ctx, rdb, words)
	switch {
	case c.eval != nil:
		return c.eval, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", words[0], err)
	}
	return nil, usagef("%s runs no script on a list", words[0])
}

// capture is a hook that keeps the first script that would be sent, and sends none.
type capture struct{ eval []string }

// errCaptured is the reply to a script that is not sent.
const errCaptured rediserr.Error = "ERR the script was not sent"

func (c *capture) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *capture) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := c.take(cmd); err != nil {
			return err
		}
		return next(ctx, cmd)
	}
}

func (c *capture) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var taken error
		for _, cmd := range cmds {
			taken = errors.Join(taken, c.take(cmd))
		}
		if taken == nil {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			if cmd.Err() == nil {
				cmd.SetErr(errCaptured)
			}
		}
		return errCaptured
	}
}

// take returns the error of a command that is a script. It makes the library send the source.
func (c *capture) take(cmd redis.Cmder) error {
	words := cmd.Args()
	err := errCaptured
	switch words[0] {
	case "fcall":
		err = "ERR unknown command 'fcall'"
	case "evalsha":
		err = "NOSCRIPT No matching script"
	case "eval":
		for _, word := range words {
			if len(c.eval) < len(words) {
				c.eval = append(c.eval, value.Text(word))
			}
		}
		if readable := script.Readable(cmd); readable != "" {
			c.eval[1] = readable
		}
	default:
		return nil
	}
	cmd.SetErr(err)
	return err
}

// cliFlags returns what redis-cli needs, but for a password, to reach the server that has a key.
func cliFlags(ctx context.Context, rdb redis.UniversalClient, key string) (flags []string, err error) {
	master, err := script.Master(ctx, rdb, key)
	if err != nil {
		return nil, err
	}
	options := master.(*redis.Client).Options()
	if options.Network == "unix" {
		flags = append(flags, "-s", options.Addr)
	} else {
		host, port, err := hostOf(ctx, options)
		if err != nil {
			return nil, err
		}
		if host != "127.0.0.1" || port != "6379" {
			flags = append(flags, "-h", host, "-p", port)
		}
	}
	if options.TLSConfig != nil {
		flags = append(flags, "--tls")
	}
	if options.Username != "" {
		flags = append(flags, "--user", options.Username)
	}
	if options.DB != 0 {
		flags = append(flags, "-n", strconv.Itoa(options.DB))
	}
	return flags, nil
}

// hostOf returns where a client connects to. If Sentinel knows, it connects.
func hostOf(ctx context.Context, options *redis.Options) (host, port string, err error) {
	if host, port, err = net.SplitHostPort(options.Addr); err == nil {
		return host, port, nil
	}
	conn, err := options.Dialer(ctx, options.Network, options.Addr)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = conn.Close() }()
	return net.SplitHostPort(conn.RemoteAddr().String())
}

// printScript prints the source behind a comment that says how to run it, by redis-cli with these flags for the server.
func (a *app) printScript(command, eval, server []string, ldb bool) error {
	keys := 0
	if _, err := fmt.Sscan(eval[2], &keys); err != nil {
		return err
	}
	source := strings.TrimSuffix(eval[1], "\n")
	cli := "redis-cli "
	if len(server) > 0 {
		cli += shellWords(server) + " "
	}
	run := cli + "eval \"$(cat FILE)\" " + shellWords(eval[2:])
	if ldb {
		padding := paddingFor(eval)
		run = cli + "--ldb --eval FILE " + shellWords(eval[3:3+keys]) + " , " + shellWords(append(eval[3+keys:], padding...))
		source = fmt.Sprintf("for _ = 1, %d do table.remove(ARGV) end -- see shardedlist script --help\n", len(padding)) + source
	}
	if strings.Contains(run, "\x00") {
		return usagef("an argument has a NUL byte, which no command line can have")
	}
	if a.json {
		return a.printReply(reply{kind: mapping, parts: []reply{
			bulkOf("command"), arrayOf(command), bulkOf("run"), bulkOf(run), bulkOf("keys"), arrayOf(eval[3 : 3+keys]),
			bulkOf("argv"), arrayOf(eval[3+keys:]), bulkOf("script"), bulkOf(source + "\n"),
		}})
	}
	out := bufio.NewWriter(a.stdout)
	fmt.Fprintf(out, "-- %s\n", quotedWords(command))
	fmt.Fprintf(out, "--   %s\n", run)
	fmt.Fprintf(out, "-- KEYS: %s\n-- ARGV: %s\n", quotedWords(eval[3:3+keys]), quotedWords(eval[3+keys:]))
	fmt.Fprintln(out, source)
	return out.Flush()
}

func bulkOf(text string) reply { return reply{kind: bulk, text: text} }

func arrayOf(texts []string) reply {
	r := reply{kind: array}
	for _, text := range texts {
		r.parts = append(r.parts, bulkOf(text))
	}
	return r
}

// paddingFor returns words to add to an EVAL for the debugger. Since Redis 7.0, and in Valkey, the process that is forked for it gives back
// the memory of the command if its words have a page of memory each, on average. The script itself is then gone, or a part of it.
func paddingFor(eval []string) []string {
	const smallestPage = 4096
	length := 0
	for _, word := range eval {
		length += len(word)
	}
	return slices.Repeat([]string{""}, max(length/smallestPage+2-len(eval), 0))
}

// quotedWords are the words as redis-cli shows strings, in one line.
func quotedWords(words []string) string {
	quotedOnes := make([]string, len(words))
	for i, word := range words {
		quotedOnes[i] = asWord(word)
	}
	return strings.Join(quotedOnes, " ")
}

// shellWords are the words as bash reads them, in one line.
func shellWords(words []string) string {
	quotedOnes := make([]string, len(words))
	for i, word := range words {
		switch text := quoted(word); {
		case strings.Contains(word, "\x00"):
			quotedOnes[i] = word
		case text != `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word)+`"`:
			quotedOnes[i] = "$'" + strings.ReplaceAll(text[1:len(text)-1], "'", `\'`) + "'"
		case word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:@%+=/") == "":
			quotedOnes[i] = word
		default:
			quotedOnes[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quotedOnes, " ")
}
