package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	for args, want := range map[string]struct {
		code   int
		screen string
	}{
		"lpop l":         {exitNothing, "(nil)\r\n"},
		"lindex l 0":     {exitNothing, "(nil)\r\n"},
		"blpop l 0.01":   {exitNothing, "(nil)\r\n"},
		"lrange l 0 -1":  {exitOK, "(empty array)\r\n"},
		"rpush l":        {exitUsage, "shardedlist: no values: pass some, or pipe lines in\r\n"},
		"rpush other a":  {exitOK, "(integer) 1\r\n"},
		"lrange l - foo": {exitUsage, "shardedlist: invalid index \"-\": want an integer\r\n"},
	} {
		terminal, screen := openTerminal(t)
		code := execute(t.Context(), append(strings.Fields(args), "--redis", server.Addr()), terminal, terminal, terminal)
		assert.Equal(t, want.code, code, args)
		assert.Equal(t, want.screen, screen(), args)
	}
}

func TestProgressBar(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	terminal, screen := openTerminal(t)
	var stdout bytes.Buffer
	assert.Zero(t, execute(t.Context(), []string{"demo", "--lines", "30000", "--embedded"}, nil, &stdout, terminal))
	shown := screen()
	assert.Regexp(t, `streaming +\d+% \|.*\(\d+/30000, \d+ elements/s\)`, shown)
	_, last, _ := strings.Cut(shown, "\r")
	assert.Empty(t, strings.TrimSpace(last[strings.LastIndex(last, "\r"):]), "it is wiped away")
	assert.NotContains(t, stdout.String(), "streaming")
}

func TestWidth(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, columns := range []int{60, 132} {
		terminal, screen := openTerminal(t)
		require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(columns)}))
		assert.Zero(t, execute(t.Context(), []string{"demo", "--lines", "10000", "--capacity", "20", "--embedded"}, nil, terminal, terminal))
		shown := screen()

		_, axis, _ := strings.Cut(shown, "  0 └")
		axis, _, _ = strings.Cut(axis, "\r")
		_, label, _ := strings.Cut(shown, "over time:")
		label, _, _ = strings.Cut(strings.TrimSpace(label), " ")
		assert.Equal(t, columns-1, utf8.RuneCountInString("  "+label+" └"+axis), "the chart")

		_, row, _ := strings.Cut(shown, "\n  ┌")
		row, _, _ = strings.Cut(row, "\r")
		width := utf8.RuneCountInString("  ┌" + row)
		assert.LessOrEqual(t, width, columns, "the row of shards")
		assert.Greater(t, width, columns-20, "the row of shards")

		bar := ""
		for _, part := range strings.Split(shown, "\r") {
			if strings.HasPrefix(part, "streaming") {
				bar = part
			}
		}
		require.NotEmpty(t, bar)
		assert.LessOrEqual(t, utf8.RuneCountInString(bar), columns, "the bar")
		assert.Greater(t, utf8.RuneCountInString(bar), columns-5, "the bar")
	}
}

func TestWidthWithoutATerminal(t *testing.T) {
	t.Parallel()
	terminal, screen := openTerminal(t) // does not know its size
	for _, stdout := range []any{&bytes.Buffer{}, terminal} {
		_, ok := terminalWidth(stdout)
		assert.False(t, ok)
		assert.Equal(t, defaultWidth, (&app{stdout: stdout.(io.Writer)}).outputWidth())
	}
	screen()
	for _, shards := range []int64{0, 1, 9, 10, 1_000_000} {
		var got strings.Builder
		s := sample{at: time.Second, first: 1, last: shards, shards: shards}
		(&timeline{samples: []sample{s}}).draw(&got, 2*time.Second, defaultWidth)
		s.draw(&got, defaultWidth)
		for line := range strings.Lines(got.String()) {
			assert.Less(t, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")), defaultWidth+1, line)
		}
	}
}

// openTerminal returns a terminal and a function that closes it and returns what it showed.
func openTerminal(t *testing.T) (terminal *os.File, screen func() string) {
	t.Helper()
	control, terminal := openPTY(t)
	shown := make(chan string)
	go func() {
		all, _ := io.ReadAll(control) // ends with an error, as terminals do
		shown <- string(all)
	}()
	return terminal, func() string {
		_ = terminal.Close()
		defer func() { _ = control.Close() }()
		return <-shown
	}
}

// openPTY returns both ends of a terminal.
func openPTY(t *testing.T) (control, terminal *os.File) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	return control, terminal
}

// typist types on a terminal, and reads what it shows.
type typist struct {
	t       *testing.T
	control *os.File
	before  *unix.Termios
	ended   chan int

	mu    sync.Mutex
	shown string // and not yet expected
}

// typeInto runs the program on a terminal of 200 columns.
func typeInto(t *testing.T, ctx context.Context, args ...string) *typist {
	control, terminal := openPTY(t)
	require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 200}))
	before, err := unix.IoctlGetTermios(int(control.Fd()), unix.TCGETS)
	require.NoError(t, err)
	typist := &typist{t: t, control: control, before: before, ended: make(chan int, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for {
			text := make([]byte, 4096)
			n, err := control.Read(text)
			typist.mu.Lock()
			typist.shown += string(text[:n])
			typist.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		typist.ended <- execute(ctx, args, terminal, terminal, terminal)
		_ = terminal.Close()
	}()
	t.Cleanup(func() {
		cancel() // if the test has failed
		<-done
		_, _ = control.WriteString("\n") // ends the program's last read
		<-read
		_ = control.Close()
	})
	return typist
}

// keys types.
func (p *typist) keys(keys string) {
	p.t.Helper()
	_, err := p.control.WriteString(keys)
	require.NoError(p.t, err)
}

// expect waits until the terminal shows a text, and forgets what it has shown until then.
func (p *typist) expect(text string) {
	p.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		p.mu.Lock()
		shown := p.shown
		if _, after, found := strings.Cut(shown, text); found {
			p.shown = after
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		require.True(p.t, time.Now().Before(deadline), "%q is not in %q", text, shown)
		time.Sleep(time.Millisecond)
	}
}

func TestTheShellOnATerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history")
	t.Setenv("SHARDEDLIST_HISTFILE", file)
	server := redistest.Start(t, redistest.Redis)
	prompt := server.Addr() + "> "
	p := typeInto(t, t.Context(), "shell", "--redis", server.Addr())
	p.expect(prompt)
	p.keys("rpush jobs one \"two\\n\" tÿ\r")
	p.expect("\r\n(integer) 3\r\n" + prompt)
	p.keys("lrange jobs 0 -1\r")
	p.expect("\r\n1) \"one\"\r\n2) \"two\\n\"\r\n3) \"t\\xc3\\xbf\"\r\n" + prompt)
	p.keys("\x1b[A\x1b[A\r") // the line before the last
	p.expect("rpush jobs one")
	p.expect("\r\n(integer) 6\r\n" + prompt)
	p.keys("lle\t jo\t\r")
	p.expect("LLEN jobs")
	p.expect("\r\n(integer) 6\r\n" + prompt)
	p.keys("clien\t list\t\x7f\x7f\x7f\x7fid\r") // no list is called so
	p.expect("\r\n(integer) ")
	p.expect(prompt)
	p.keys("set word \"a b\"\rget word\r")
	p.expect("\r\nOK\r\n" + prompt)
	p.expect("\r\n\"a b\"\r\n" + prompt)

	p.keys("blpop none 0\r")
	eventually(t, func() bool { return waits(t, server, "blpop") })
	p.keys("\x03")
	p.expect("^C\r\n" + prompt)
	p.keys("bzpopmin none 0\r") // of the server itself
	eventually(t, func() bool { return waits(t, server, "bzpopmin") })
	p.keys("\x03")
	p.expect("^C\r\n" + prompt)
	eventually(t, func() bool { return !waits(t, server, "bzpopmin") })
	p.keys("auth hunter2\rselect 3\rllen jobs\r")
	p.expect("(error) ERR AUTH")
	p.expect("[3]> llen jobs\r\n(integer) 0\r\n")
	p.expect("[3]> ")
	p.keys("half a li\x15") // wiped
	p.keys("\x04")
	assert.Equal(t, exitOK, <-p.ended)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "LLEN jobs\n")
	assert.NotContains(t, string(text), "hunter2")
	stat, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), stat.Mode())

	p = typeInto(t, t.Context(), "shell", "--redis", server.Addr())
	p.expect(prompt)
	p.keys("\x1b[A") // of the session before
	p.expect("llen jobs")
	p.keys("\x15exit\r")
	assert.Equal(t, exitOK, <-p.ended)
	for _, keys := range []string{"QUIT\r", "\x03", "half\x03"} {
		p := typeInto(t, t.Context(), "shell", "--redis", server.Addr())
		p.expect(prompt)
		p.keys(keys)
		assert.Equal(t, exitOK, <-p.ended, keys)
	}
}

// waits tells whether a client waits in a command.
func waits(t *testing.T, server *redistest.Server, command string) bool {
	list, err := server.Client(t).ClientList(t.Context()).Result()
	require.NoError(t, err)
	return regexp.MustCompile(`flags=b .*cmd=` + command).MatchString(list)
}

// A signal ends the shell, whatever it does, and the terminal is as it was.
func TestASignalEndsTheShell(t *testing.T) {
	t.Setenv("SHARDEDLIST_HISTFILE", "")
	server := redistest.Start(t, redistest.Redis)
	for _, line := range []string{"", "blpop none 0\r"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := typeInto(t, ctx, "shell", "--redis", server.Addr())
		p.expect("> ")
		p.keys(line)
		eventually(t, func() bool { return line == "" || waits(t, server, "blpop") })
		cancel(signalError{unix.SIGTERM})
		assert.Equal(t, exitTerminated, <-p.ended)
		after, err := unix.IoctlGetTermios(int(p.control.Fd()), unix.TCGETS)
		require.NoError(t, err)
		assert.Equal(t, p.before, after)
	}
}

func TestTopOnATerminal(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	ctx, rdb := t.Context(), server.Client(t)
	for name, elements := range map[string]int{"many": 3000, "few": 3} {
		list, err := shardedlist.New(rdb, name, shardedlist.WithCapacity(100))
		require.NoError(t, err)
		values := make([]any, elements)
		for i := range values {
			values[i] = fmt.Sprintf("%s %d\x1b[31m", name, i)
		}
		_, err = list.RPush(ctx, values...)
		require.NoError(t, err)
	}
	p := typeInto(t, ctx, "top", "--redis", server.Addr(), "--interval", "100ms")
	p.expect("\x1b[?1049h")
	p.expect("2 lists, 3,003 elements")
	p.expect("by in\r\n")
	p.keys("n")
	p.expect("by name\r\n")
	p.expect("\x1b[7m") // the first is marked
	p.expect("few\x1b[0m\r\n")
	p.expect("many\r\n")
	p.keys("j")
	p.expect("many\x1b[0m\r\n")
	p.keys("r")
	p.expect("by name, reversed\r\n")
	p.keys("\r")
	p.expect("many   sharded, 3,000 elements in 30 shards")
	p.expect(`           0  "many 0\x1b[31m"` + "\r\n")
	p.expect(`       2,999  "many 2999\x1b[31m"` + "\r\n")
	server.Pause()
	p.expect("The server does not answer")
	server.Resume()
	p.expect("many   sharded")
	p.keys("q")
	p.expect("2 lists")
	p.keys("q")
	assert.Equal(t, exitOK, <-p.ended)
	p.expect("\x1b[?25h\x1b[?1049l")
	after, err := unix.IoctlGetTermios(int(p.control.Fd()), unix.TCGETS)
	require.NoError(t, err)
	assert.Equal(t, p.before, after, "the terminal is as it was")
}
