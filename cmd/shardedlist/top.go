package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	topInterval   = 2 * time.Second
	shortestPause = 100 * time.Millisecond
)

func (a *app) topCommand() *cobra.Command {
	t := top{app: a, order: "in"}
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Show all lists, live, with what comes in and goes out",
		Long: `Show the lists whose names match a pattern, as ls does, every two seconds, and how many
elements per second came in and went out meanwhile. These rates come from where the ends
of a list are: what is pushed and popped at the same end between two looks is not seen. Of
a list of one shard only the length is known; there the rates have a ~. Those of a queue
are the jobs that were pushed and that ended.

The command only reads. It spends at most a tenth of the time on looks, and a twentieth on
scans for new lists, which also measure memory: where a look or a scan takes long, the next
one comes later.

Keys:
  up, down, j, k          choose a list
  enter                   look inside: elements at both ends
  i o n l s m t           sort by what comes in, goes out, name, length, shards, memory, ttl
  r                       sort the other way round
  q, escape               back to the lists, or quit
  Ctrl-C                  quit

A narrow screen leaves columns out, so that names can be read.

If standard output is no terminal, it prints the lists each time, as ls does, with the two
rates in front. --count ends it.`,
		Example: `  shardedlist top
  shardedlist top 'queue:*' --interval 500ms
  shardedlist top --count 2 --json | tail -n 1`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.interval < shortestPause {
				return usagef("--interval is at least %v", shortestPause)
			}
			if t.count < 0 {
				return usagef("--count is negative")
			}
			if len(args) > 0 {
				t.match = args[0]
			}
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
				t.rdb = rdb
				stdin, ok := a.stdin.(*os.File)
				if ok && isTerminal(a.stdin) && a.format() == pretty && isTerminal(a.stdout) {
					return t.show(ctx, stdin)
				}
				return t.report(ctx)
			})
		},
	}
	a.completes(cmd, first(1), listNames)
	cmd.Flags().DurationVar(&t.interval, "interval", topInterval, "`time` between two looks")
	cmd.Flags().IntVar(&t.count, "count", 0, "end after so `many` looks")
	return cmd
}

// top is what the command top shows.
type top struct {
	app      *app
	rdb      redis.UniversalClient
	match    string
	interval time.Duration
	count    int

	rows    []topRow
	order   string
	reverse bool
	chosen  string   // the name of the list that is marked
	inside  bool     // the screen shows the chosen list
	ends    listEnds // of a list that was looked into
	scanned string   // how far the first scan is
	away    error    // why the server could not be asked
}

// sorted returns the rows in order.
func (t *top) sorted() []topRow {
	rows := slices.Clone(t.rows)
	slices.SortFunc(rows, func(a, b topRow) int {
		order := 0
		switch t.order {
		case "in":
			order = cmp.Compare(b.in, a.in)
		case "out":
			order = cmp.Compare(b.out, a.out)
		default:
			order = orders[t.order](a.Row, b.Row)
		}
		if t.reverse {
			order = -order
		}
		return cmp.Or(order, cmp.Compare(b.Length, a.Length), cmp.Compare(a.Name, b.Name))
	})
	return rows
}

// report prints the lists at each look.
func (t *top) report(ctx context.Context) error {
	m := t.monitor()
	for looks := 1; ; looks++ {
		var err error
		if t.rows, err = m.look(ctx, nil); err != nil {
			return err
		}
		if err := t.print(t.app.stdout); err != nil {
			return err
		}
		if looks == t.count {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(m.pause()):
		}
	}
}

func (t *top) print(w io.Writer) error {
	var out bytes.Buffer
	all := columnsOn(math.MaxInt)
	if t.app.format() == pretty {
		fmt.Fprintln(&out, topLine(topHeader, all))
	}
	for _, row := range t.sorted() {
		switch t.app.format() {
		case asJSON:
			object := listObject(row.Row)
			object["in_per_second"], object["out_per_second"], object["exact"] = row.in, row.out, row.exact
			line, err := json.Marshal(object)
			if err != nil {
				return err
			}
			out.Write(append(line, '\n'))
		case pretty:
			fmt.Fprintln(&out, topLine(row.fields(), all))
		default:
			fmt.Fprintf(&out, "%.3f\t%.3f\t%s", row.in, row.out, rawLine(row.Row))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

var (
	topHeader = append([]any{"IN/s", "OUT/s"}, tableHeader...)
	topWidths = []int{9, 9, -9, 10, 8, 8, 8, 7, 5, -23} // of the columns before the name; a negative one aligns left

	// givesWay are the columns that a narrow screen leaves out, in that order, so that names can be read.
	givesWay = []any{"PLACE", "CAPACITY", "SHARDS", "WAITS", "TTL", "MEMORY", "FORM", "OUT/s", "IN/s", "LENGTH"}
)

const nameWidth = 24 // at least, or half of the screen

// columnsOn returns which columns before the name a screen has, which is so wide.
func columnsOn(screen int) (shown []int) {
	room := screen - min(nameWidth, screen/2)
	for i, width := range topWidths {
		shown = append(shown, i)
		room -= max(width, -width) + 1
	}
	for _, title := range givesWay {
		if room >= 0 {
			break
		}
		i := slices.Index(topHeader, title)
		shown = slices.DeleteFunc(shown, func(column int) bool { return column == i })
		room += max(topWidths[i], -topWidths[i]) + 1
	}
	return shown
}

// topLine returns some fields of a row, and its name.
func topLine(fields []any, shown []int) string {
	var line strings.Builder
	for _, i := range shown {
		fmt.Fprintf(&line, "%*s ", topWidths[i], fields[i])
	}
	return line.String() + fmt.Sprint(fields[len(topWidths)])
}

func (r topRow) fields() []any {
	return append([]any{rate(r.in, r.exact), rate(r.out, r.exact)}, tableFields(r.Row)...)
}

// rate is a number per second, with a mark if it is the least that explains what was seen.
func rate(perSecond float64, exact bool) string {
	text := thousands(int64(perSecond + 0.5))
	if perSecond > 0 && perSecond < 10 {
		text = strconv.FormatFloat(perSecond, 'f', 1, 64)
	}
	if !exact && perSecond > 0 {
		return "~" + text
	}
	return text
}

const (
	newScreen = "\x1b[?1049h\x1b[?25l\x1b[?7l" // the terminal's other screen, without a cursor, and long lines are cut
	oldScreen = "\x1b[?7h\x1b[?25h\x1b[?1049l"
	clearAll  = "\x1b[H\x1b[J"
	reverse   = "\x1b[7m"
	noReverse = "\x1b[0m"
)

// show shows the lists on a terminal until somebody quits.
func (t *top) show(ctx context.Context, stdin *os.File) error {
	before, err := term.MakeRaw(int(stdin.Fd()))
	if err != nil {
		return err
	}
	defer func() { // also in a panic
		_, _ = io.WriteString(t.app.stdout, oldScreen)
		_ = term.Restore(int(stdin.Fd()), before)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, _ = io.WriteString(t.app.stdout, newScreen)
	return t.converse(ctx, listen(ctx, stdin).typed)
}

// converse draws the screen after each event. What asks the servers runs beside it, one look at a time, so that keys have their effect at
// once.
func (t *top) converse(ctx context.Context, typed <-chan []byte) error {
	resizes, stop := resized()
	defer stop()
	m, b := t.monitor(), beside{ctx: ctx, events: make(chan func())}
	looks := 0
	var wake <-chan time.Time
	look := func() {
		b.do(func() func() { return t.lookOnce(ctx, m, &b, func() { looks++; wake = time.After(m.pause()) }) })
	}
	look()
	reading := false
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case keys, more := <-typed:
			if !more || t.press(string(keys)) {
				return nil
			}
		case <-resizes:
		case <-wake:
			look()
		case event := <-b.events:
			event()
			if looks > 0 && looks == t.count {
				return nil
			}
		}
		if row, ok := t.wanted(); ok && !reading {
			reading = true
			b.do(func() func() {
				found := readEnds(ctx, t.rdb, row)
				return func() { t.ends, reading = found, false }
			})
		}
		if err := t.draw(); err != nil {
			return err
		}
	}
}

// beside runs functions beside the loop of events, and has the loop call what they return.
type beside struct {
	ctx    context.Context
	events chan func()
}

func (b *beside) do(work func() (then func())) {
	go func() {
		defer func() {
			if reason := recover(); reason != nil { // the loop panics with it, and so the terminal is restored
				b.send(func() { panic(reason) })
			}
		}()
		b.send(work())
	}()
}

func (b *beside) send(event func()) {
	select {
	case b.events <- event:
	case <-b.ctx.Done():
	}
}

// lookOnce looks at the lists, and tells how far the first scan is. It returns what notes the result, and then calls done.
func (t *top) lookOnce(ctx context.Context, m *monitor, b *beside, done func()) (then func()) {
	var told time.Time
	rows, err := m.look(ctx, func(looked, keys int64) {
		if time.Since(told) > shortestPause {
			told = time.Now()
			b.send(func() { t.scanned = fmt.Sprintf("%s of %s keys", thousands(looked), thousands(keys)) })
		}
	})
	return func() {
		if t.away = err; err == nil {
			t.rows = rows
			t.inside = t.inside && t.index(rows) >= 0
		}
		done()
	}
}

// press acts on keys, and reports whether to quit.
func (t *top) press(keys string) (quit bool) {
	for keys != "" {
		key := keys[:1]
		if len(keys) >= 3 && keys[:2] == "\x1b[" {
			key = keys[:3]
		}
		keys = keys[len(key):]
		switch key {
		case "\x03":
			return true
		case "q", "\x1b":
			if !t.inside {
				return true
			}
			t.inside = false
		case "\r":
			t.move(0) // so that the list stays the chosen one when others are sorted before it
			t.inside = len(t.rows) > 0
		case "j", "\x1b[B":
			t.move(1)
		case "k", "\x1b[A":
			t.move(-1)
		case "r":
			t.reverse = !t.reverse
		default:
			if order := map[string]string{"i": "in", "o": "out", "n": "name", "l": "length", "s": "shards", "m": "memory", "t": "ttl"}[key]; order != "" {
				t.order, t.reverse = order, false
			}
		}
	}
	return false
}

// move marks another list.
func (t *top) move(by int) {
	if rows := t.sorted(); len(rows) > 0 {
		t.chosen = rows[max(0, min(t.at(rows)+by, len(rows)-1))].Name
	}
}

// at returns which row is marked.
func (t *top) at(rows []topRow) int { return max(0, t.index(rows)) }

// index returns where the chosen list is, or -1.
func (t *top) index(rows []topRow) int {
	return slices.IndexFunc(rows, func(r topRow) bool { return r.Name == t.chosen })
}

// wanted returns the list that is shown, if its ends are not yet as the last look has found it.
func (t *top) wanted() (row topRow, ok bool) {
	rows := t.sorted()
	if !t.inside || len(rows) == 0 {
		return topRow{}, false
	}
	row = rows[t.at(rows)]
	return row, t.ends.name != row.Name || t.ends.at.Before(row.At)
}

func (t *top) draw() error {
	columns, lines := defaultWidth, 24
	if file, ok := t.app.stdout.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			columns, lines = width, height
		}
	}
	var text []string
	rows := t.sorted()
	marked := -1
	switch {
	case t.away != nil:
		text = []string{"The server does not answer:", printable(t.away.Error())}
	case t.rows == nil:
		text = []string{strings.TrimSpace("scanning " + t.scanned)}
	case t.inside && len(rows) > 0:
		text = t.insideOf(rows[t.at(rows)])
	default:
		text, marked = t.lists(rows, columns, lines)
	}
	var out strings.Builder
	out.WriteString(clearAll)
	for i, line := range text[:min(len(text), lines)] {
		if i > 0 {
			out.WriteString("\r\n")
		}
		line = cut(line, columns)
		if i == marked {
			line = reverse + line + noReverse
		}
		out.WriteString(line)
	}
	_, err := io.WriteString(t.app.stdout, out.String())
	return err
}

// lists returns the lines of all lists that fit on the screen, and which one is marked.
func (t *top) lists(rows []topRow, columns, lines int) (text []string, marked int) {
	var length int64
	var in, out float64
	for _, row := range rows {
		length, in, out = length+row.Length, in+row.in, out+row.out
	}
	order := t.order
	if t.reverse {
		order += ", reversed"
	}
	text = append(text, fmt.Sprintf("%s lists, %s elements, %s/s in, %s/s out, by %s", thousands(int64(len(rows))), thousands(length),
		rate(in, true), rate(out, true), order))
	shown := columnsOn(columns)
	text = append(text, topLine(topHeader, shown))
	room := max(1, lines-len(text)-1)
	first := max(0, min(t.at(rows)-room/2, len(rows)-room))
	for i, row := range rows[first:min(len(rows), first+room)] {
		if first+i == t.at(rows) {
			marked = len(text)
		}
		text = append(text, topLine(row.fields(), shown))
	}
	return append(text, "enter: look inside   i o n l s m t: sort   r: reverse   q: quit"), marked
}

// insideOf returns the lines of one list: its numbers, and elements at both ends.
func (t *top) insideOf(row topRow) (text []string) {
	text = []string{
		fmt.Sprintf("%s   %s, %s in %s, %s", printable(row.Name), row.Form, plural(row.Length, "element"), plural(row.Shards, "shard"), humanBytes(row.Bytes)),
		fmt.Sprintf("%s/s in, %s/s out, TTL %s, %s", rate(row.in, row.exact), rate(row.out, row.exact), humanTTL(row.TTL), place(row.Row)),
		notes(row.Row),
	}
	switch {
	case t.ends.name != row.Name:
		return append(text, "", "q: back")
	case t.ends.err != nil:
		return append(text, printable(t.ends.err.Error()), "", "q: back")
	}
	for i, element := range t.ends.left {
		text = append(text, elementLine(int64(i), element))
	}
	if len(t.ends.right) > 0 {
		text = append(text, "")
	}
	for i, element := range t.ends.right {
		text = append(text, elementLine(row.Length-int64(len(t.ends.right)-i), element))
	}
	return append(text, "", "q: back")
}

func elementLine(index int64, element string) string {
	return fmt.Sprintf("%12s  %s", thousands(index), quoted(element[:min(len(element), insideWidth)]))
}

// cut returns as much of a line as fits.
func cut(line string, columns int) string {
	runes := []rune(line)
	return string(runes[:min(len(runes), columns)])
}
