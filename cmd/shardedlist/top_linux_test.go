package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
)

// A look inside shows a list as it is, newcomers among it, and leaves a plain list a plain one.
func TestTopLooksInside(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	ctx, rdb := t.Context(), server.Client(t)
	list, err := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(1))
	require.NoError(t, err)
	_, err = list.RPush(ctx, "a", "b")
	require.NoError(t, err)
	require.NoError(t, rdb.RPush(ctx, "jobs", "new").Err())
	require.NoError(t, rdb.RPush(ctx, "plain", "p").Err())
	p := typeInto(t, ctx, "top", "--redis", server.Addr(), "--interval", "100ms")
	p.expect("2 lists")
	p.keys("n\r")
	p.expect(`2  "new"`)
	p.keys("qj\r")
	p.expect("plain   plain, 1 element in")
	p.expect(`0  "p"`)
	p.keys("\x03")
	assert.Equal(t, exitOK, <-p.ended)
	assert.EqualValues(t, 1, rdb.LLen(ctx, "plain").Val())
}

// Who looks inside a list sees that one until it is gone, also if another one is sorted before it meanwhile.
func TestTopStaysInsideTheList(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	ctx, rdb := t.Context(), server.Client(t)
	push := func(name string, elements int) {
		list, err := shardedlist.New(rdb, name)
		require.NoError(t, err)
		_, err = list.RPush(ctx, make([]string, elements))
		require.NoError(t, err)
	}
	shown := &top{rdb: rdb, order: "length"}
	m, b := &monitor{rdb: rdb}, &beside{ctx: ctx, events: make(chan func(), 100)}
	look := func() { shown.lookOnce(ctx, m, b, func() {})() }
	push("a", 1)
	push("b", 2)
	look()
	assert.False(t, shown.press("\r"))
	push("a", 2)
	look()
	row, _ := shown.wanted()
	assert.Equal(t, "b", row.Name)
	require.NoError(t, rdb.FlushAll(ctx).Err())
	push("a", 1)
	look()
	assert.False(t, shown.inside)
}

// A large element is not fetched again and again with its neighbours.
func TestTopFetchesFewLargeElements(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	ctx, rdb := t.Context(), server.Client(t)
	list, err := shardedlist.New(rdb, t.Name())
	require.NoError(t, err)
	for range 5 {
		_, err = list.RPush(ctx, make([]byte, 1<<20))
		require.NoError(t, err)
	}
	m := &monitor{rdb: rdb, match: t.Name()}
	rows, err := m.look(ctx, nil)
	require.NoError(t, err)
	found := readEnds(ctx, rdb, rows[0])
	require.NoError(t, found.err)
	assert.Len(t, found.left, 1)
	assert.Len(t, found.right, 1)
}

// The screen is drawn again when its size changes, not only at the next look.
func TestTopFitsTheTerminal(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t)
	for i := range 30 {
		list, err := shardedlist.New(rdb, fmt.Sprintf("list %02d", i))
		require.NoError(t, err)
		_, err = list.RPush(t.Context(), "a")
		require.NoError(t, err)
	}
	p := typeInto(t, t.Context(), "top", "--redis", server.Addr(), "--interval", "1h")
	p.expect("list 29")
	p.expect("q: quit")
	require.NoError(t, unix.IoctlSetWinsize(int(p.control.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 5, Col: 30}))
	require.NoError(t, unix.Kill(os.Getpid(), unix.SIGWINCH)) // as the kernel does if it is the program's terminal
	p.expect("\x1b[H\x1b[J30 lists, 30 elements, 0/s in,\r\n    LENGTH NAME\r\n\x1b[7m         1 list 00\x1b[0m\r\n")
	p.expect("\r\nenter: look inside   i o n l s")
	p.keys("q")
	assert.Equal(t, exitOK, <-p.ended)
}

// A narrow screen leaves columns out, and not the names.
func TestTopShowsNamesOnAnyScreen(t *testing.T) {
	t.Parallel()
	for screen, want := range map[int]string{
		132: "     IN/s     OUT/s FORM          LENGTH   SHARDS CAPACITY   MEMORY     TTL WAITS PLACE                   NAME",
		80:  "     IN/s     OUT/s FORM          LENGTH   MEMORY NAME",
		40:  "    LENGTH NAME",
		10:  "NAME",
		1:   "NAME",
	} {
		assert.Equal(t, want, topLine(topHeader, columnsOn(screen)), screen)
	}
}

// The terminal is as it was after a signal, and after a panic, also one of a goroutine.
func TestTopRestoresTheTerminal(t *testing.T) {
	t.Run("signal", func(t *testing.T) {
		server := redistest.Shared(t, redistest.Redis)
		ctx, cancel := context.WithCancelCause(t.Context())
		p := typeInto(t, ctx, "top", "nothing*", "--redis", server.Addr())
		p.expect("0 lists")
		cancel(signalError{unix.SIGTERM})
		assert.Equal(t, exitTerminated, <-p.ended)
		p.expect("\x1b[?7h\x1b[?25h\x1b[?1049l")
		after, err := unix.IoctlGetTermios(int(p.control.Fd()), unix.TCGETS)
		require.NoError(t, err)
		assert.Equal(t, p.before, after)
	})
	t.Run("panic", func(t *testing.T) {
		control, terminal := openPTY(t)
		defer func() { _ = control.Close() }()
		before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		require.NoError(t, err)
		broken := &top{app: &app{stdout: terminal}, match: "list", interval: time.Hour, order: "in"} // without a client
		assert.Panics(t, func() { _ = broken.show(t.Context(), terminal) })
		after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
		require.NoError(t, err)
		assert.Equal(t, before, after)
		_, _ = control.WriteString("\n") // ends the last read of the keyboard
	})
}

// Between scans, only lists that are known are looked at, and where a look takes long, the next one comes later.
func TestTopScansSeldom(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	ctx, rdb := t.Context(), server.Client(t)
	push := func(name string) *shardedlist.ShardedList {
		list, err := shardedlist.New(rdb, name)
		require.NoError(t, err)
		_, err = list.RPush(ctx, "a", "b")
		require.NoError(t, err)
		return list
	}
	push("stays")
	goes := push("goes")
	m := &monitor{rdb: rdb, interval: time.Millisecond}
	names := func() (names []string) {
		rows, err := m.look(ctx, nil)
		require.NoError(t, err)
		for _, row := range rows {
			assert.Positive(t, row.Bytes, "as it was measured last")
			names = append(names, row.Name)
		}
		return names
	}
	assert.ElementsMatch(t, []string{"stays", "goes"}, names())
	m.scanTook = time.Hour
	push("new")
	_, err := goes.Del(ctx)
	require.NoError(t, err)
	assert.Equal(t, []string{"stays"}, names())
	scans := rdb.Info(ctx, "commandstats").Val()
	assert.Equal(t, []string{"stays"}, names())
	assert.Equal(t, calls(scans, "scan"), calls(rdb.Info(ctx, "commandstats").Val(), "scan"))
	m.scanTook = 0
	assert.ElementsMatch(t, []string{"stays", "new"}, names())
	m.lookTook = time.Second
	assert.Equal(t, 9*time.Second, m.pause())
}

// calls is how often a command was called, as INFO COMMANDSTATS has it.
func calls(stats, command string) (n int) {
	for line := range strings.Lines(stats) {
		_, _ = fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &n)
	}
	return n
}

// On a terminal, ls shows how far it is, and wipes that away before it prints lists.
func TestLsOnATerminal(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	ctx, rdb := t.Context(), server.Client(t)
	list, err := shardedlist.New(rdb, "broken", shardedlist.WithCapacity(1))
	require.NoError(t, err)
	_, err = list.RPush(ctx, "a", "b", "c")
	require.NoError(t, err)
	shards, err := rdb.Keys(ctx, "{broken}:#*:1").Result()
	require.NoError(t, err)
	require.NoError(t, rdb.Del(ctx, shards[0], shards[0][:len(shards[0])-1]+"2").Err())
	waits, err := shardedlist.New(rdb, "waits")
	require.NoError(t, err)
	harness.Arm(t, waits)
	terminal, screen := openTerminal(t)
	assert.Equal(t, exitOK, execute(ctx, []string{"ls", "--sort", "name", "--redis", server.Addr()}, terminal, terminal, terminal))
	shown := screen()
	assert.Regexp(t, `unknown .*  broken  \(list is broken: .*\)\r\n`, shown)
	assert.Regexp(t, `sharded +0 .* yes .*  waits  \(a consumer looked \d s ago\)\r\n[ \r]*$`, shown)
}
