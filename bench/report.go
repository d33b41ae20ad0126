package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// report is docs/benchmarks.md in the making, and the plots that it shows.
type report struct {
	command  string
	versions []string // "name version"
	machine  string
	short    bool
	runs     int

	blocks  []block
	targets []target
	plots   map[string][]byte // by file name
}

// block is a piece of the report: text, or a table.
type block interface{ render(*bytes.Buffer) }

type paragraph string

type table struct {
	title string
	head  []string
	rows  [][]string
}

// target is what the library promises, and what was measured.
type target struct {
	what, want, got string
	reached         bool
}

func (r *report) section(title, text string) {
	r.blocks = append(r.blocks, paragraph("## "+title), paragraph(text))
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
	if r.plots == nil {
		r.plots = map[string][]byte{}
	}
	r.plots[name] = svg
	r.note("![%s](%s)", title, name)
}

func (r *report) target(what, want, got string, reached bool) {
	r.targets = append(r.targets, target{what, want, got, reached})
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, c := range cells {
		row[i] = fmt.Sprint(c)
	}
	t.rows = append(t.rows, row)
}

// describe notes the machine and the versions of all that takes part.
func (b *bench) describe(ctx context.Context) error {
	r := &b.report
	r.short, r.runs = b.short, b.runs
	r.machine = fmt.Sprintf("%s, %d cores, %s/%s", processor(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH)
	info, err := b.server.info(ctx, "server")
	if err != nil {
		return err
	}
	version := info["redis_version"]
	if valkey := info["valkey_version"]; valkey != "" {
		version = valkey + " (Valkey)"
	}
	r.versions = []string{"Redis " + version, strings.Replace(runtime.Version(), "go", "Go ", 1)}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			if peerModule.MatchString(module.Path) {
				r.versions = append(r.versions, module.Path+" "+module.Version)
			}
		}
	}
	return nil
}

var peerModule = regexp.MustCompile(`/(go-redis/v9|rueidis|asynq|rmq/v5)$`)

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

// command is how this run can be repeated. Where files are on this machine is nobody's business.
func command(args []string) string {
	shown := []string{"cd bench && go run ."}
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(args[i], "=")
		if name := strings.TrimLeft(name, "-"); name == "o" || name == "redis-server" {
			if !joined {
				i++
			}
			continue
		}
		shown = append(shown, args[i])
	}
	return strings.Join(shown, " ")
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
	return os.WriteFile(filepath.Join(dir, "benchmarks.md"), r.render(), 0o644)
}

func (r *report) render() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# Benchmarks\n\nWritten by the program in `bench/`:\n\n    %s\n\n", r.command)
	fmt.Fprintf(&out, "- Machine: %s. Clients and server share it, over loopback.\n", r.machine)
	fmt.Fprintf(&out, "- Versions: %s\n", strings.Join(r.versions, ", "))
	fmt.Fprintf(&out, "- Each figure is the median of its runs, where nothing else is said. Runs: %d.\n", r.runs)
	if r.short {
		out.WriteString("- **A short run**: small lists and short measurements. The figures are rough.\n")
	}
	out.WriteString("\n")
	if len(r.targets) > 0 {
		out.WriteString("## Targets\n\n")
		t := &table{head: []string{"what", "target", "measured", ""}}
		for _, g := range r.targets {
			t.row(g.what, g.want, g.got, map[bool]string{true: "reached", false: "**missed**"}[g.reached])
		}
		t.render(&out)
		out.WriteString("Where values of several sizes are measured, the worst of them counts.\n\n")
	}
	for _, b := range r.blocks {
		b.render(&out)
	}
	return append(bytes.TrimRight(out.Bytes(), "\n"), '\n')
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

// How figures are written.

func count[N int | float64](n N) string {
	digits := fmt.Sprintf("%.0f", math.Round(float64(n)))
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
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
	switch {
	case math.IsNaN(ratio) || math.IsInf(ratio, 0):
		return "–"
	case ratio >= 10:
		return count(ratio) + "×"
	}
	return fmt.Sprintf("%.2f×", ratio)
}
