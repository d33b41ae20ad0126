package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
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
	for _, columns := range []int{60, 132} {
		terminal, screen := openTerminal(t)
		require.NoError(t, unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: uint16(columns)}))
		assert.Zero(t, execute(t.Context(), []string{"demo", "--lines", "30000", "--capacity", "20", "--embedded"}, nil, terminal, terminal))
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
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	require.NoError(t, unix.IoctlSetPointerInt(int(control.Fd()), unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(int(control.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
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
