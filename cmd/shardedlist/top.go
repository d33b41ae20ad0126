package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/shardedlist/shardedlist/internal/survey"
)

const (
	topInterval    = 2 * time.Second
	shortestPause  = 100 * time.Millisecond
	insideElements = 10  // that are shown of each end of a list
	insideBytes    = 200 // of each
)

func (a *app) topCommand() *cobra.Command {
	t := top{app: a, order: "in"}
	cmd := &cobra.Command{
		Use:   "top [PATTERN]",
		Short: "Show all lists, live, with what comes in and goes out",
		Long: `Show the lists whose names match a pattern, as ls does, every two seconds, and how many
elements per second came in and went out meanwhile. These rates come from where the ends
of a list are: what is pushed and popped at the same end between two looks is not seen. Of
a short list only the length is known; there the rates have a ~. Those of a queue are the
jobs that were pushed and that ended.

Keys:
  up, down, j, k          choose a list
  enter                   look inside: elements at both ends
  i o n l s m t           sort by what comes in, goes out, name, length, shards, memory, ttl
  r                       sort the other way round
  q, escape               back to the lists, or quit
  Ctrl-C                  quit

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
	chosen  string // the name of the list that is marked
	inside  bool   // the screen shows the chosen list
	away    error  // why the server could not be asked
}

// topRow is a list, and its elements per second since the look before.
type topRow struct {
	survey.Row
	in, out float64
	exact   bool
}

// look asks the servers. last is what the look before has found.
func (t *top) look(ctx context.Context, last []topRow) (rows []topRow, err error) {
	before := map[string]survey.Row{}
	for _, row := range last {
		before[row.Name] = row.Row
	}
	for row, err := range survey.Rows(ctx, t.rdb, survey.Options{Match: t.match}) {
		if err != nil {
			return nil, err
		}
		next := topRow{Row: row}
		if was, found := before[row.Name]; found {
			in, out, exact := survey.Flow(was, row)
			seconds := max(row.At.Sub(was.At).Seconds(), 1e-3)
			next.in, next.out, next.exact = float64(in)/seconds, float64(out)/seconds, exact
		}
		rows = append(rows, next)
	}
	return rows, nil
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
	for looks := 1; ; looks++ {
		rows, err := t.look(ctx, t.rows)
		if err != nil {
			return err
		}
		t.rows = rows
		if err := t.print(t.app.stdout); err != nil {
			return err
		}
		if looks == t.count {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(t.interval):
		}
	}
}

func (t *top) print(w io.Writer) error {
	var out bytes.Buffer
	if t.app.format() == pretty {
		fmt.Fprintf(&out, topLine, topHeader...)
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
			out.WriteString(row.line())
		default:
			fmt.Fprintf(&out, "%.3f\t%.3f\t%s", row.in, row.out, rawLine(row.Row))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

const topLine = "%9s %9s " + tableLine

var topHeader = append([]any{"IN/s", "OUT/s"}, tableHeader...)

func (r topRow) line() string {
	return fmt.Sprintf(topLine, append([]any{rate(r.in, r.exact), rate(r.out, r.exact)}, tableFields(r.Row)...)...)
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
	newScreen = "\x1b[?1049h\x1b[?25l" // the terminal's other screen, without a cursor
	oldScreen = "\x1b[?25h\x1b[?1049l"
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
		_ = term.Restore(int(stdin.Fd()), before)
		_, _ = io.WriteString(t.app.stdout, oldScreen)
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, _ = io.WriteString(t.app.stdout, newScreen)
	typed, looks := listen(ctx, stdin).typed, make(chan looked, 1)
	look := func(last []topRow) {
		rows, err := t.look(ctx, last)
		looks <- looked{rows, err}
	}
	go look(nil)
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case keys, more := <-typed:
			if !more || t.press(string(keys)) {
				return nil
			}
		case got := <-looks:
			if t.away = got.err; got.err == nil {
				t.rows = got.rows
			}
			if n++; n == t.count {
				return nil
			}
			last := t.rows
			time.AfterFunc(t.interval, func() { look(last) })
		}
		if err := t.draw(ctx); err != nil {
			return err
		}
	}
}

// looked is the result of a look.
type looked struct {
	rows []topRow
	err  error
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
func (t *top) at(rows []topRow) int {
	return max(0, slices.IndexFunc(rows, func(r topRow) bool { return r.Name == t.chosen }))
}

func (t *top) draw(ctx context.Context) error {
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
	case t.inside && len(rows) > 0:
		text = t.lookInside(ctx, rows[t.at(rows)])
	default:
		text, marked = t.lists(rows, lines)
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
func (t *top) lists(rows []topRow, lines int) (text []string, marked int) {
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
	text = append(text, strings.TrimSuffix(fmt.Sprintf(topLine, topHeader...), "\n"))
	room := max(1, lines-len(text)-1)
	first := max(0, min(t.at(rows)-room/2, len(rows)-room))
	for i, row := range rows[first:min(len(rows), first+room)] {
		if first+i == t.at(rows) {
			marked = len(text)
		}
		text = append(text, strings.TrimSuffix(row.line(), "\n"))
	}
	return append(text, "enter: look inside   i o n l s m t: sort   r: reverse   q: quit"), marked
}

// lookInside returns the lines of one list: its numbers, and elements at both ends.
func (t *top) lookInside(ctx context.Context, row topRow) (text []string) {
	text = []string{
		fmt.Sprintf("%s   %s, %s elements in %s shards, %s", printable(row.Name), row.Form, thousands(row.Length), thousands(row.Shards), humanBytes(row.Bytes)),
		fmt.Sprintf("%s/s in, %s/s out, TTL %s, %s", rate(row.in, row.exact), rate(row.out, row.exact), humanTTL(row.TTL), place(row.Row)), "",
	}
	list, err := shardedlist.New(t.rdb, row.Name, watching(row.Name)...)
	if err != nil {
		return append(text, err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, t.interval)
	defer cancel()
	left, err := list.LRange(ctx, 0, insideElements-1)
	first := max(row.Length-insideElements, int64(len(left)))
	var right []string
	if err == nil && first < row.Length {
		right, err = list.LRange(ctx, first-row.Length, -1)
	}
	if err != nil {
		return append(text, printable(err.Error()))
	}
	for i, element := range left {
		text = append(text, fmt.Sprintf("%12s  %s", thousands(int64(i)), quoted(element[:min(len(element), insideBytes)])))
	}
	if len(right) > 0 {
		text = append(text, "")
	}
	for i, element := range right {
		text = append(text, fmt.Sprintf("%12s  %s", thousands(first+int64(i)), quoted(element[:min(len(element), insideBytes)])))
	}
	return append(text, "", "q: back")
}

// cut returns as much of a line as fits.
func cut(line string, columns int) string {
	runes := []rune(line)
	return string(runes[:min(len(runes), columns)])
}
