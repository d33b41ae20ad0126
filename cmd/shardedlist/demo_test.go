package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	log := read(t, newAccessLog(700))
	file := filepath.Join(t.TempDir(), "access.log")
	require.NoError(t, os.WriteFile(file, []byte(log), 0o600))
	for _, test := range []struct {
		args  string
		stdin string
		lines int
		from  string
	}{
		{args: "demo --lines 3000", lines: 3000, from: "generated access log, 3,000 lines"},
		{args: "demo --lines 500 --producers 1 --consumers 1 --capacity 1", lines: 500, from: "generated access log, 500 lines"},
		{args: "demo --lines 0", from: "generated access log, 0 lines"},
		{args: "demo --lines 2", stdin: "not read\n", lines: 2, from: "generated access log, 2 lines"},
		{args: "demo --producers 7 --consumers 40 --capacity 3 " + file, lines: 700, from: file},
		{args: "demo", stdin: log, lines: 700, from: "standard input"},
		{args: "demo -", stdin: "a\n\nb", lines: 3, from: "standard input"},
		{args: "demo -", lines: 0, from: "standard input"},
		{args: "demo --lines 300 --backlog 1", lines: 300, from: "generated access log, 300 lines"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			got := <-start(t.Context(), strings.NewReader(test.stdin), strings.Fields(test.args+" --embedded")...)
			assert.Zero(t, got.code)
			assert.Empty(t, withoutProgress(got.err))
			assert.Contains(t, got.out, "Input:    "+test.from+"\nServer:   embedded miniredis (a real server is faster)\n")
			for name, value := range map[string]int{
				"elements in": test.lines, "elements out": test.lines, "lost": 0, "duplicated": 0, "out of order": 0,
			} {
				assert.Regexp(t, fmt.Sprintf(`(?m)^  %s: +%s$`, name, thousands(int64(value))), got.out)
			}
		})
	}
}

func TestDemoAsJSON(t *testing.T) {
	t.Parallel()
	got := <-start(t.Context(), nil, strings.Fields("demo --json --lines 3000 --capacity 10 --embedded")...)
	assert.Zero(t, got.code)
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(got.out), &report))
	for name, value := range map[string]float64{
		"elements_in": 3000, "elements_out": 3000, "lost": 0, "duplicated": 0, "out_of_order": 0, "capacity": 10, "producers": 4, "consumers": 16,
	} {
		assert.Equal(t, value, report[name], name)
	}
	assert.Equal(t, "generated access log, 3,000 lines", report["input"])
	assert.Positive(t, report["elements_per_second"])
	assert.Contains(t, report["shards"], report["most_shards_at_once"])
}

func TestDemoOnAServer(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	got := run(t, server, nil, "demo", "--lines", "2000")
	assert.Zero(t, got.code)
	assert.Contains(t, got.out, "Server:   "+server.Addr()+"\n")
	assertDeleted(t, server)
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	stdin, writer := io.Pipe()
	defer writer.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := start(ctx, stdin, "demo", "-", "--redis", server.Addr())
	_, err := io.WriteString(writer, "one\ntwo\n")
	require.NoError(t, err)
	eventually(t, func() bool { return len(server.Keys()) > 0 })
	cancel()
	got := <-ended
	assert.Equal(t, exitInterrupted, got.code)
	assert.Empty(t, withoutProgress(got.err))
	assert.NotContains(t, got.out, "elements in")
	assertDeleted(t, server)
}

// withoutProgress removes the lines that a slow run prints.
func withoutProgress(stderr string) string {
	return regexp.MustCompile(`(?m)^streaming: .*\n`).ReplaceAllString(stderr, "")
}

// assertDeleted checks that at most keys that expire are left.
func assertDeleted(t *testing.T, server *miniredis.Miniredis) {
	t.Helper()
	for _, key := range server.Keys() {
		assert.Positive(t, server.TTL(key), key)
	}
}

func TestDemoWhereAPushIsLost(t *testing.T) {
	t.Parallel()
	redis := miniredis.RunT(t)
	pushes := 0
	redis.Server().SetPreHook(func(peer *server.Peer, command string, args ...string) bool {
		if command == "MULTI" { // so all values pass through the script
			peer.WriteError("ERR unknown command 'MULTI'")
			return true
		}
		if command != "EVALSHA" || len(args) < 10 || args[7] != "R" { // behind the plain key and the session's arguments
			return false
		}
		pushes++
		if pushes != 3 {
			return false
		}
		peer.WriteInt(1) // as if done
		return true
	})
	got := run(t, redis, nil, "demo", "--lines", "1000", "--producers", "1")
	assert.Equal(t, exitNothing, got.code)
	assert.Regexp(t, `(?m)^  elements in: +1,000$`, got.out)
	assert.Regexp(t, `(?m)^  elements out: +950$`, got.out)
	assert.Regexp(t, `(?m)^  lost: +50$`, got.out)
	assert.Empty(t, withoutProgress(got.err))

	pushes = 0
	got = run(t, redis, nil, "demo", "--json", "--lines", "1000", "--producers", "1")
	assert.Equal(t, exitNothing, got.code)
	assert.Contains(t, got.out, `"lost":50,`)
}

func TestDemoStatesTheBacklog(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	got := run(t, miniredis.RunT(t), nil, "demo", "--lines", "20000", "--backlog", "950", "--capacity", "100")
	assert.Zero(t, got.code)
	assert.Contains(t, got.out, "\nProducers wait at 950 elements in the list (--backlog), about 10 shards.\n")
	most := regexp.MustCompile(`most shards at once: +(\d+)`).FindStringSubmatch(got.out)
	require.NotNil(t, most)
	shards, err := strconv.Atoi(most[1])
	require.NoError(t, err)
	assert.LessOrEqual(t, shards, 11, "one more than full shards hold, as the list begins within one")
}

func TestDemoShowsProgressWithoutATerminal(t *testing.T) {
	t.Parallel()
	stdin, input := io.Pipe()
	output, stderr := io.Pipe()
	var stdout bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- execute(t.Context(), []string{"demo", "-", "--embedded"}, stdin, &stdout, stderr)
		_ = stderr.Close()
	}()
	_, err := io.WriteString(input, strings.Repeat("a line\n", 1234))
	require.NoError(t, err)
	limit := time.AfterFunc(time.Minute, func() { _ = input.Close() }) // ends a demo that prints nothing
	defer limit.Stop()
	lines := bufio.NewScanner(output)
	seen := false
	for !seen && lines.Scan() {
		t.Log(lines.Text())
		assert.Regexp(t, `^streaming: [\d,]+ elements in \d+ s$`, lines.Text())
		seen = strings.HasPrefix(lines.Text(), "streaming: 1,234 elements in ")
	}
	assert.True(t, seen)
	require.NoError(t, input.Close())
	_, _ = io.Copy(io.Discard, output)
	assert.Zero(t, <-ended)
	assert.NotContains(t, stdout.String(), "streaming")
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		total   int64
		inBytes bool
		want    string
	}{
		{200_000, false, "streaming: 120,000 elements (60 %) in 4 s"},
		{6_000_000, true, "streaming: 120,000 elements (50 %) in 4 s"},
		{unknown, true, "streaming: 120,000 elements in 4 s"},
	} {
		p := newProgress(io.Discard, false, "streaming", test.total, test.inBytes)
		p.started = p.started.Add(-4 * time.Second)
		p.add(120_000, 3_000_000)
		assert.Equal(t, test.want, p.line())
	}
}

// What the ledger counts is shown in internal/ledger; here, that the demo reports it.
func TestDemoReportsWhatIsWrong(t *testing.T) {
	t.Parallel()
	type pop struct{ consumer, producer, number int }
	for _, test := range []struct {
		name string
		pops []pop
		want ledger.Tally
		ok   bool
	}{
		{"all well", []pop{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}}, ledger.Tally{}, true},
		{"interleaved", []pop{{0, 1, 0}, {1, 0, 0}, {1, 1, 1}, {0, 0, 1}, {0, 1, 2}}, ledger.Tally{}, true},
		{"one consumer was slow", []pop{{0, 0, 1}, {1, 0, 0}, {0, 1, 2}, {1, 1, 0}, {1, 1, 1}}, ledger.Tally{}, true},
		{"lost", []pop{{0, 0, 0}, {0, 1, 0}, {0, 1, 2}}, ledger.Tally{Lost: 2}, false},
		{"doubled", []pop{{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 1, 1}, {0, 1, 2}}, ledger.Tally{Doubled: 1}, false},
		{"lost and doubled", []pop{{0, 0, 0}, {0, 0, 0}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}}, ledger.Tally{Lost: 1, Doubled: 1}, false},
		{"reordered", []pop{{0, 0, 1}, {0, 0, 0}, {0, 1, 0}, {0, 1, 1}, {0, 1, 2}}, ledger.Tally{Misplaced: 1}, false},
		{"nothing", nil, ledger.Tally{Lost: 5}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(2)
			elements := [2][]string{{l.push(0, "a"), l.push(0, "a b")}, {l.push(1, ""), l.push(1, "d"), l.push(1, "e")}}
			for _, p := range test.pops {
				_, err := l.pop(p.consumer, elements[p.producer][p.number])
				require.NoError(t, err)
			}

			var stdout, stderr bytes.Buffer
			d := demo{app: &app{stdout: &stdout, stderr: &stderr}, ledger: l, timeline: &timeline{}, took: time.Second, capacity: 1, maxBacklog: 1}
			code := d.app.exit(t.Context(), d.report())
			assert.Equal(t, test.ok, code == exitOK)
			for name, value := range map[string]int{
				"elements in": 5, "elements out": len(test.pops),
				"lost": test.want.Lost, "duplicated": test.want.Doubled, "out of order": test.want.Misplaced,
			} {
				assert.Regexp(t, fmt.Sprintf(`(?m)^  %s: +%d$`, name, value), stdout.String())
			}
		})
	}
}

func TestLedgerKnowsItsElements(t *testing.T) {
	t.Parallel()
	l := newLedger(2)
	element := l.push(1, " a line ")
	line, err := l.pop(0, element)
	require.NoError(t, err)
	assert.Equal(t, " a line ", line)
	for _, strange := range []string{"", "a line", "0.0 too many", "1.-1 ", "1.1 ", "2.0 ", "-1.0 ", "1.x ", "1.0"} {
		_, err := l.pop(0, strange)
		assert.Error(t, err, strange)
	}
}

func TestPicture(t *testing.T) {
	t.Parallel()
	line := &timeline{samples: []sample{
		{at: 0, shards: 1},
		{at: time.Second, shards: 8, first: 3, last: 10},
		{at: 3 * time.Second, shards: 20, first: 5, last: 24},
		{at: 4 * time.Second, shards: 4, first: 21, last: 24},
	}}
	var got strings.Builder
	line.draw(&got, 4*time.Second, 71)
	line.peak().draw(&got, 60)
	line.samples[1].draw(&got, 60)
	gap := func(n int) string { return strings.Repeat(" ", n) }
	bar := func(n int) string { return strings.Repeat("█", n) }
	assert.Equal(t, "  20 ┤"+gap(47)+bar(17)+"\n"+
		strings.Repeat("     │"+gap(47)+bar(17)+"\n", 3)+
		"     │"+gap(15)+strings.Repeat("▁", 32)+bar(17)+"\n"+
		strings.Repeat("     │"+gap(15)+bar(49)+"\n", 2)+
		"     │"+strings.Repeat("▃", 15)+bar(49)+"\n",
		strings.Join(strings.SplitAfter(got.String(), "\n")[:8], ""))
	assert.Equal(t, ""+
		"   0 └"+strings.Repeat("─", 64)+"\n"+
		"      0 s                                                        4.0 s\n"+
		"  ┌───┬───┬───┬───┬─────────────┬────┬────┬────┬────┐\n"+
		"  │ 5 │ 6 │ 7 │ 8 │ … 12 more … │ 21 │ 22 │ 23 │ 24 │\n"+
		"  └───┴───┴───┴───┴─────────────┴────┴────┴────┴────┘\n"+
		"  ┌───┬───┬───┬───┬───┬───┬───┬────┐\n"+
		"  │ 3 │ 4 │ 5 │ 6 │ 7 │ 8 │ 9 │ 10 │\n"+
		"  └───┴───┴───┴───┴───┴───┴───┴────┘\n",
		strings.Join(strings.SplitAfter(got.String(), "\n")[8:], ""))
}

func TestAccessLog(t *testing.T) {
	t.Parallel()
	log := read(t, newAccessLog(1000))
	assert.Equal(t, log, read(t, newAccessLog(1000)), "it is always the same")
	lines := strings.Split(strings.TrimSuffix(log, "\n"), "\n")
	assert.Len(t, lines, 1000)
	for _, line := range lines {
		assert.Regexp(t, `^\d+(\.\d+){3} - \S+ \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "(GET|POST) \S+ HTTP/[12]\.\d" \d{3} \d+ "\S+" ".+"$`, line)
	}
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456", 1234567: "1,234,567"} {
		assert.Equal(t, want, thousands(n))
	}
}
