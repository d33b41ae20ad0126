package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/hook"
)

// shell reads commands, and prints their replies as redis-cli does. Commands on lists go to sharded lists, all others to the server.
type shell struct {
	app   *app
	hosts string
	first redis.UniversalClient // behind Sentinel, the clients after it dial through it
	lists redis.UniversalClient // with the hook
	raw   *direct
	multi bool // in a transaction of the raw connection,
	torn  bool // of which a command was refused here

	out      io.Writer
	keyboard *keyboard // nil without a terminal
}

func (a *app) shellCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "shell",
		Short: "Type commands, as in redis-cli",
		Long: `Type commands, with the quotes and escapes of redis-cli, and see the replies as it shows
them. Commands on lists, and those on keys of any type such as DEL and EXPIRE, apply to
sharded lists. All others go to the server as they are, on one connection, so that SELECT
works. The exceptions are SUBSCRIBE, MONITOR and their like, which are refused, and a
transaction, which holds commands of the server only; a cluster has none here.

The arrow keys fetch earlier lines, of which ~/.shardedlist_history or the file in the
variable SHARDEDLIST_HISTFILE keeps the last ` + strconv.Itoa(maxHistory) + `, but none with a password. Tab completes
commands and the names of lists. Ctrl-C ends a command that waits, and loses no element;
elsewhere it ends the shell, as Ctrl-D, exit and quit do. A number in front of a command
repeats it.

If standard input is no terminal, commands are read from there, one per line.`,
		Example: `  shardedlist shell
  echo 'lrange "my list" 0 -1' | shardedlist shell`,
		Args: takes(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			rdb, hosts, err := a.connect(cmd.Context())
			if err != nil {
				return err
			}
			s := &shell{app: a, hosts: hosts, first: rdb, out: a.stdout}
			s.use(rdb)
			defer s.close()
			if file, ok := a.stdin.(*os.File); ok && isTerminal(a.stdin) {
				return s.converse(cmd.Context(), file)
			}
			return s.readCommands(cmd.Context())
		},
	}
}

// use makes the shell work on that client, and on one raw connection to the same server.
func (s *shell) use(rdb redis.UniversalClient) {
	s.leave()
	protocol := 2
	if s.app.json {
		protocol = 3 // as redis-cli, so that maps are objects
	}
	s.lists, s.raw = rdb, newDirect(rdb, protocol)
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*")))
}

// leave closes what the shell works on, but for the first client.
func (s *shell) leave() {
	if s.lists == nil {
		return
	}
	s.raw.close()
	if s.lists != s.first {
		_ = s.lists.Close()
	}
}

func (s *shell) close() {
	s.leave()
	_ = s.first.Close()
}

// readCommands runs the commands of standard input, one per line.
func (s *shell) readCommands(ctx context.Context) error {
	input := bufio.NewReader(interruptible{ctx, s.app.stdin})
	for {
		line, err := readElement(input, '\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.line(ctx, line); err != nil {
			return endOfShell(err)
		}
	}
}

// converse runs the commands that are typed on a terminal.
func (s *shell) converse(ctx context.Context, stdin *os.File) error {
	before, err := term.MakeRaw(int(stdin.Fd()))
	if err != nil {
		return err
	}
	defer func() { _ = term.Restore(int(stdin.Fd()), before) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.keyboard = listen(ctx, stdin)
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{s.keyboard, s.app.stdout}, "")
	screen.History = openHistory(historyFile())
	screen.AutoCompleteCallback = (&completer{shell: s, ctx: ctx}).complete
	s.out = screen
	for {
		if columns, ok := terminalWidth(s.app.stdout); ok {
			_ = screen.SetSize(columns, 1000) // the height is not used
		}
		screen.SetPrompt(s.prompt())
		line, err := screen.ReadLine()
		if err == nil {
			err = s.line(ctx, line)
		}
		if err != nil {
			_, _ = screen.Write([]byte("\n"))
			return endOfShell(err)
		}
	}
}

// errQuit ends the shell.
var errQuit = errors.New("quit")

func endOfShell(err error) error {
	if err == errQuit || err == io.EOF {
		return nil
	}
	return err
}

// prompt is the server and, if it is not the first, the database.
func (s *shell) prompt() string {
	host, _, _ := strings.Cut(s.hosts, ",")
	if strings.HasPrefix(host, "/") {
		host = "redis " + host
	}
	if single, ok := s.lists.(*redis.Client); ok && single.Options().DB != 0 {
		host += fmt.Sprintf("[%d]", single.Options().DB)
	}
	if s.multi {
		host += "(TX)"
	}
	return host + "> "
}

// line runs the command of a line, and prints the reply.
func (s *shell) line(ctx context.Context, line string) error {
	words, ok := splitWords(line)
	if !ok {
		_, err := fmt.Fprintln(s.out, "Invalid argument(s)")
		return err
	}
	times := 1
	if n, err := strconv.Atoi(first(1)(append(words, ""))[0]); err == nil && len(words) > 1 {
		if times = n; n < 1 {
			_, err := fmt.Fprintln(s.out, "Invalid repeat command option value.")
			return err
		}
		words = words[1:]
	}
	if len(words) == 0 {
		return nil
	}
	switch strings.ToLower(words[0]) {
	case "quit", "exit":
		return errQuit
	case "help", "?":
		_, err := fmt.Fprint(s.out, shellHelp())
		return err
	case "clear":
		_, err := io.WriteString(s.out, "\x1b[H\x1b[2J")
		return err
	}
	for range times {
		if err := s.run(ctx, words); err != nil {
			return err
		}
	}
	return nil
}

// run runs a command, which Ctrl-C interrupts, and prints the reply.
func (s *shell) run(ctx context.Context, words []string) error {
	started := time.Now()
	cancelled, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.keyboard != nil {
		defer s.keyboard.onInterrupt(cancel)()
	}
	r, err := s.send(cancelled, words)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case cancelled.Err() != nil:
		_, err := fmt.Fprintln(s.out, "^C")
		return err
	case err != nil:
		r = reply{kind: failure, text: oneLine(err.Error(), nil)}
	}
	out := bufio.NewWriter(s.out)
	s.app.format().print(out, r, s.app.delimiter())
	if took := time.Since(started); took >= 500*time.Millisecond && s.app.format() == pretty {
		fmt.Fprintf(out, "(%.2fs)\n", took.Seconds())
	}
	if err := out.Flush(); err != nil {
		elements, push := popped(s.lists, words, r)
		return s.app.putBack(ctx, push, elements, err)
	}
	return nil
}

// send sends a command to the lists or to the server.
func (s *shell) send(ctx context.Context, words []string) (reply, error) {
	name := strings.ToLower(words[0])
	if err := s.refuses(name, words); err != nil {
		s.torn = s.multi
		return reply{}, err
	}
	if isListCommand(words) {
		return do(ctx, s.lists, words)
	}
	if name == "exec" && s.torn {
		return s.abort(ctx)
	}
	r, err := s.raw.send(ctx, words)
	if err == nil && r.kind == status {
		s.follow(name, words)
	}
	if name == "exec" || name == "discard" || err != nil {
		s.multi, s.torn = false, false
	}
	return r, err
}

// refuses returns why the shell does not carry a command out.
func (s *shell) refuses(name string, words []string) error {
	_, cluster := s.lists.(*redis.ClusterClient)
	is := func(names ...string) bool { return slices.Contains(names, name) }
	switch {
	case is("subscribe", "psubscribe", "ssubscribe", "monitor", "sync", "psync"):
		return fmt.Errorf("ERR %s has no end: use redis-cli for it", strings.ToUpper(name))
	case is("client") && len(words) > 1 && strings.EqualFold(words[1], "reply"):
		return errors.New("ERR CLIENT REPLY leaves commands without replies: use redis-cli for it")
	case cluster && is("multi", "watch", "select"):
		return fmt.Errorf("ERR %s needs one connection, and this is a cluster", strings.ToUpper(name))
	case s.multi && isListCommand(words):
		return errors.New("ERR a transaction of the shell has no commands on lists: use TxPipeline in Go")
	case s.multi && is("select", "auth"): // commands on lists would not follow
		return fmt.Errorf("ERR a transaction of the shell has no %s", strings.ToUpper(name))
	}
	return nil
}

// abort ends a transaction that is not whole, as the server ends one of which it has refused a command.
func (s *shell) abort(ctx context.Context) (reply, error) {
	s.multi, s.torn = false, false
	if r, err := s.raw.send(ctx, []string{"discard"}); err != nil || r.kind == failure {
		return r, err
	}
	return reply{kind: failure, text: "EXECABORT Transaction discarded because of previous errors."}, nil
}

// isListCommand tells whether a command applies to sharded lists.
func isListCommand(words []string) bool {
	name := strings.ToLower(words[0])
	if name == "object" || name == "memory" {
		return len(words) > 2 && strings.ToLower(words[1]) != "help"
	}
	supported, _ := hook.Commands()
	return slices.Contains(supported, name)
}

// follow has lists be where a command has taken the raw connection.
func (s *shell) follow(name string, words []string) {
	single, ok := s.lists.(*redis.Client)
	if !ok {
		return
	}
	options := *single.Options()
	switch {
	case name == "multi":
		s.multi = true
		return
	case name == "reset":
		s.multi, s.torn = false, false
		options = *s.first.(*redis.Client).Options()
	case name == "select" && len(words) == 2:
		options.DB, _ = strconv.Atoi(words[1])
	case name == "auth" && len(words) > 1:
		options.Username, options.Password = strings.Join(words[1:len(words)-1], ""), words[len(words)-1]
	default:
		return
	}
	options.MaxRetries, options.DialerRetries = -1, 1
	s.use(redis.NewClient(&options))
}

// shellHelp lists the commands on lists.
func shellHelp() string {
	text := "Commands on lists:\n"
	for _, c := range shellCommands() {
		text += "  " + c + "\n"
	}
	return text + "All others go to the server. exit, quit or Ctrl-D ends the shell, Ctrl-C a command that waits.\n"
}

// shellCommands are the names of commands on lists, in upper case.
func shellCommands() []string {
	supported, _ := hook.Commands()
	for i, name := range supported {
		supported[i] = strings.ToUpper(name)
	}
	slices.Sort(supported)
	return supported
}
