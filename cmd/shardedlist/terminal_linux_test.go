package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

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
		"lrange l 0 -1":  {exitOK, ""},
		"rpush l":        {exitUsage, "shardedlist: no values: name some, or pipe lines in\r\n"},
		"rpush other a":  {exitOK, "1\r\n"},
		"lrange l - foo": {exitUsage, "shardedlist: an index must be a whole number, not \"-\"\r\n"},
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
	assert.Zero(t, execute(t.Context(), []string{"demo", "--lines", "30000"}, nil, &stdout, terminal))
	shown := screen()
	assert.Regexp(t, `streaming +\d+% \|.*\(\d+/30000, \d+ elements/s\)`, shown)
	_, last, _ := strings.Cut(shown, "\r")
	assert.Empty(t, strings.TrimSpace(last[strings.LastIndex(last, "\r"):]), "it is wiped away")
	assert.NotContains(t, stdout.String(), "streaming")
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
