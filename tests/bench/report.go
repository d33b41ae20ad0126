package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// report is docs/benchmarks.md, what a user decides by, and all figures beside it, with plots.
type report struct {
	results     results
	workloadsTo int // the blocks before this one are the workloads, which stand on the first page
	blocks      []block
	comparisons []comparison
	targets     []target
	plots       map[string][]byte // by file name
	spreads     bool              // a figure has one
}

// block is a part of the report: a paragraph or a table.
type block interface{ render(*bytes.Buffer) }

type paragraph string

type table struct {
	title string
	head  []string
	rows  [][]string
}

// comparison is a row of the summary. With ratios above 1 we are ahead, below 1 behind; all of a row are on the same side.
type comparison struct {
	what, against, figures string
	ratios                 []float64
}

// target is a goal of the maintainers.
type target struct {
	what, want, got string
	met             bool
}

// newReport makes the report of the sections that the results have.
func newReport(from results) *report {
	r := &report{results: from, plots: map[string][]byte{}}
	if from.Workloads != nil {
		r.workloads(from.Workloads)
		r.workloadsTo = len(r.blocks)
	}
	if from.Everyday != nil {
		r.everyday(from.Everyday)
	}
	if from.Keys != nil {
		r.onKeys(from.Keys)
	}
	if from.Throughput != nil {
		r.throughput(from.Throughput)
	}
	if from.Network != nil {
		r.network(from.Network)
	}
	if from.Pairs != nil {
		r.pairs(from.Pairs)
	}
	if from.Many != nil {
		r.many(from.Many)
	}
	if from.Large != nil {
		r.large(from.Large)
	}
	if from.Queue != nil {
		r.queue(from.Queue, from.QueueApart)
	}
	if from.Jobs != nil {
		r.jobs(from.Jobs)
	}
	if from.Calls != nil {
		r.calls(from.Calls)
	}
	if from.Wakeup != nil {
		r.wakeup(from.Wakeup)
	}
	if from.Waits != nil {
		r.waits(from.Waits)
	}
	if from.Blocked != nil {
		r.blocked(from.Blocked)
	}
	if from.Cancel != nil {
		r.cancel(from.Cancel)
	}
	if from.Big != nil {
		r.big(from.Big)
	}
	if from.Huge != nil {
		r.huge(from.Huge)
	}
	if from.Adopt != nil {
		r.adopt(from.Adopt)
	}
	if from.Memory != nil {
		r.memory(from.Memory)
	}
	if from.Length != nil {
		r.length(from.Length)
	}
	if from.Book != nil {
		r.book(from.Book)
	}
	if from.Spread != nil {
		r.spread(from.Spread)
	}
	if from.Reshard != nil {
		r.reshard(from.Reshard)
	}
	return r
}

func (r *report) section(title, text string) {
	r.blocks = append(r.blocks, paragraph("## "+title), paragraph(wrap(text)))
}

func (r *report) note(format string, args ...any) {
	r.blocks = append(r.blocks, paragraph(fmt.Sprintf(format, args...)))
}

func (r *report) table(title string, head ...string) *table {
	t := &table{title: title, head: head}
	r.blocks = append(r.blocks, t)
	return t
}

func (r *report) plot(name, title string, svg []byte) {
	r.plots[name] = svg
	r.note("![%s](%s)", title, name)
}

// compare adds a row to the summary. figures are what the ratio is made of, or empty.
func (r *report) compare(what, against, figures string, ratios ...float64) {
	if len(ratios) > 0 {
		r.comparisons = append(r.comparisons, comparison{what, against, figures, ratios})
	}
}

func (r *report) target(what, want, got string, met bool) {
	r.targets = append(r.targets, target{what, want, got, met})
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

func (r *report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, svg := range r.plots {
		if err := os.WriteFile(filepath.Join(dir, name), svg, 0o644); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "benchmarks.md"), r.render(), 0o644),
		os.WriteFile(filepath.Join(dir, figuresPage), r.renderFigures(), 0o644))
}

const figuresPage = "benchmarks-figures.md"

// render makes the first page.
func (r *report) render() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Benchmarks\n\n[All figures](%s), among them those of every call by itself.\n\n", figuresPage)
	for _, b := range r.blocks[:r.workloadsTo] {
		b.render(&out)
	}
	if len(r.comparisons) > 0 {
		r.renderSummary(&out)
	}
	out.WriteString("## Setup\n\n")
	fmt.Fprintf(&out, "The program in `bench/` measures all figures and writes both pages:\n\n    %s\n\n", r.results.Command)
	fmt.Fprintf(&out, "- Machine: %s. Clients and server share it and connect over loopback.\n", r.results.Machine)
	fmt.Fprintf(&out, "- Versions: %s\n", strings.Join(r.results.Versions, ", "))
	fmt.Fprintf(&out, "- Figures are medians of %d runs, unless the section says otherwise.\n", r.results.Runs)
	if r.spreads {
		fmt.Fprintf(&out, "- ± is half of the range of the runs, as a part of the median, rounded up. "+
			"Most sections measure what is above %.0f %% again, up to %d times.\n", 100*steady, moreRounds)
	}
	if r.results.Short {
		out.WriteString("- **A short run**: small lists and short measurements. The figures are rough.\n")
	}
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}

// renderFigures makes the second page.
func (r *report) renderFigures() []byte {
	var out bytes.Buffer
	out.WriteString("# Benchmarks: all figures\n\n[benchmarks.md](benchmarks.md) has the machine, the versions, and the command that measures them.\n\n")
	for _, b := range r.blocks[r.workloadsTo:] {
		b.render(&out)
	}
	r.renderTargets(&out)
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
}

// renderSummary lists where shardedlist is ahead and where it is behind.
func (r *report) renderSummary(out *bytes.Buffer) {
	head := []string{"figure", "compared with", "factor"}
	ahead, behind := &table{head: head}, &table{head: head}
	for _, c := range r.comparisons {
		t, ratios := ahead, slices.Clone(c.ratios)
		if ratios[0] < 1 {
			t = behind
			for i := range ratios {
				ratios[i] = 1 / ratios[i]
			}
		}
		by := factors(ratios)
		if c.figures != "" {
			by += " (" + c.figures + ")"
		}
		t.row(c.what, c.against, by)
	}
	paragraph(wrap(`shardedlist is compared with Go clients on a plain Redis list and with two queue libraries. A factor of 2 means twice the throughput, or
half the time, memory or connections. A range covers the operations of the row and its value sizes: 16, 100 and 1,024
bytes, unless it names them. In parentheses: shardedlist against the other.`)).render(out)
	for _, side := range []struct {
		title string
		rows  *table
	}{{"Ahead", ahead}, {"Behind", behind}} {
		if len(side.rows.rows) > 0 {
			fmt.Fprintf(out, "## %s\n\n", side.title)
			side.rows.render(out)
		}
	}
}

// wrap breaks the text into lines of up to 100 characters.
func wrap(text string) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch width := utf8.RuneCountInString(word); {
		case column == 0:
			column = width
		case column+1+width > 100:
			out.WriteByte('\n')
			column = width
		default:
			out.WriteByte(' ')
			column += 1 + width
		}
		out.WriteString(word)
	}
	return out.String()
}

// factors returns "1.25", or "1.25–2.72" for the lowest and the highest of several.
func factors(ratios []float64) string {
	low, high := factor(slices.Min(ratios)), factor(slices.Max(ratios))
	if low == high {
		return low
	}
	return low + "–" + high
}

func (r *report) renderTargets(out *bytes.Buffer) {
	if len(r.targets) == 0 {
		return
	}
	out.WriteString("## Targets\n\nGoals for the maintainers. With several value sizes, the worst one counts. " +
		"[What bounds the speed](design.md#what-bounds-the-speed) has the profiles of those missed.\n\n")
	t := &table{head: []string{"figure", "target", "measured", ""}}
	for _, g := range r.targets {
		t.row(g.what, g.want, g.got, map[bool]string{true: "met", false: "missed"}[g.met])
	}
	t.render(out)
}

func (p paragraph) render(out *bytes.Buffer) { fmt.Fprintf(out, "%s\n\n", string(p)) }

func (t *table) render(out *bytes.Buffer) {
	if t.title != "" {
		fmt.Fprintf(out, "### %s\n\n", t.title)
	}
	fmt.Fprintf(out, "| %s |\n", strings.Join(t.head, " | "))
	out.WriteString("|" + strings.Repeat("---|", len(t.head)) + "\n")
	for _, row := range t.rows {
		fmt.Fprintf(out, "| %s |\n", strings.Join(row, " | "))
	}
	out.WriteString("\n")
}

// The formats of figures.

func (r *report) ops(f figures) string { return r.withSpread(count(f.Ops), f.OpsSpread) }

func (r *report) cpu(f figures) string { return r.withSpread(micros(f.CPU), f.CPUSpread) }

// withSpread returns "12,345 ± 3 %", say. A figure that was measured once has no spread.
func (r *report) withSpread(figure string, spread float64) string {
	if spread == 0 {
		return figure
	}
	r.spreads = true
	return fmt.Sprintf("%s ± %.0f %%", figure, math.Ceil(100*spread))
}

func count[N int | float64](n N) string {
	digits := fmt.Sprintf("%.0f", math.Round(float64(n)))
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// callers returns "64 goroutines", say.
func callers(goroutines int) string {
	if goroutines == 1 {
		return "1 goroutine"
	}
	return count(goroutines) + " goroutines"
}

func micros(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	switch {
	case us < 10:
		return fmt.Sprintf("%.2f µs", us)
	case us < 1000:
		return fmt.Sprintf("%.0f µs", us)
	}
	return millis(d)
}

func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.2f ms", ms)
	}
	return count(ms) + " ms"
}

func times(ratio float64) string {
	if s := factor(ratio); s != "–" {
		return s + "×"
	}
	return "–"
}

func factor(ratio float64) string {
	switch {
	case math.IsNaN(ratio) || math.IsInf(ratio, 0):
		return "–"
	case ratio >= 10:
		return count(ratio)
	}
	return fmt.Sprintf("%.2f", ratio)
}

func upperFirst(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
