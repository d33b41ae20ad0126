// Command compare compares the core figures of two versions of the library on this machine:
//
//	cd tests/bench && go run ./compare main HEAD
//
// A version is a git revision, or a directory if it starts with "." or "/": "../.." is the working tree. The benchmark of the
// current directory is built against both, so both need the public API that it uses. The versions alternate within each
// section of each round, so that drift of the machine affects both alike. Every measurement has a new redis-server.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const module = "github.com/shardedlist/shardedlist"

// figure names one figure.
type figure struct{ name, unit string }

// comparison has the values of each figure by round, before and after.
type comparison struct {
	order  []figure
	values map[figure]*[2][]float64
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "`number` of measurements of each figure and version")
	duration := flags.Duration("d", 2500*time.Millisecond, "duration of each measurement")
	only := flags.String("sections", "", "`sections` to run, such as \"hook-1 wakeup\", instead of all")
	path := flags.String("redis-server", "redis-server", "the server `program`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 2 || *rounds < 1 {
		return errors.New("usage: go run ./compare [-rounds 5] [-d 2.5s] [-sections all] [-redis-server redis-server] <before> <after>")
	}
	dir, err := os.MkdirTemp("", "shardedlist-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	var programs [2]string
	for i, version := range flags.Args() {
		if programs[i], err = build(ctx, version, filepath.Join(dir, strconv.Itoa(i))); err != nil {
			return fmt.Errorf("%s: %w", version, err)
		}
	}
	sections, err := output(ctx, programs[0], "-core", "list")
	if err != nil {
		return err
	}
	if *only != "" {
		sections = *only
	}
	c := comparison{values: map[figure]*[2][]float64{}}
	for round := range *rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d ", round+1, *rounds)
		for i, section := range strings.Fields(sections) {
			for turn := range programs {
				version := (i + round + turn) % 2 // either may be first
				text, err := output(ctx, programs[version], "-core", section, "-d", duration.String(), "-redis-server", *path)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", flags.Arg(version), section, err)
				}
				if err := c.add(version, text); err != nil {
					return err
				}
			}
			fmt.Fprint(os.Stderr, ".")
		}
		fmt.Fprintln(os.Stderr)
	}
	fmt.Printf("before: %s, after: %s, %d rounds of %v\n\n", flags.Arg(0), flags.Arg(1), *rounds, *duration)
	c.print()
	return nil
}

// build builds the benchmark against that version of the library and returns the program. dir becomes its scratch directory.
func build(ctx context.Context, version, dir string) (program string, err error) {
	root, err := checkOut(ctx, version, dir)
	if err != nil {
		return "", err
	}
	modfile := filepath.Join(dir, "bench.mod")
	for from, to := range map[string]string{"go.mod": modfile, "go.sum": filepath.Join(dir, "bench.sum")} {
		text, err := os.ReadFile(from)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", err
		}
	}
	if _, err = output(ctx, "go", "mod", "edit", "-replace="+module+"="+root, modfile); err != nil {
		return "", err
	}
	program = filepath.Join(dir, "bench")
	_, err = output(ctx, "go", "build", "-modfile="+modfile, "-mod=mod", "-buildvcs=false", "-o", program, ".")
	return program, err
}

// checkOut returns the directory with the library's source.
func checkOut(ctx context.Context, version, dir string) (root string, err error) {
	root = filepath.Join(dir, "source")
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	if strings.HasPrefix(version, ".") || filepath.IsAbs(version) {
		return filepath.Abs(version)
	}
	archive := filepath.Join(dir, "source.tar")
	if _, err := output(ctx, "git", "-C", "../..", "archive", "--format=tar", "-o", archive, version); err != nil {
		return "", err
	}
	_, err = output(ctx, "tar", "-xf", archive, "-C", root)
	return root, err
}

// output runs a program and returns its standard output. On cancellation it lets the program stop its server.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	text, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(failed.Stderr)))
	}
	return string(text), err
}

// add adds the figures that the benchmark printed.
func (c *comparison) add(version int, text string) error {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			return fmt.Errorf("unexpected output %q", line)
		}
		value, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return err
		}
		f := figure{fields[0], fields[2]}
		if c.values[f] == nil {
			c.values[f] = &[2][]float64{}
			c.order = append(c.order, f)
		}
		c.values[f][version] = append(c.values[f][version], value)
	}
	return nil
}

func (c *comparison) print() {
	fmt.Printf("%-36s %-13s %10s %10s %6s  %-11s  %5s\n", "figure", "unit", "before", "after", "ratio", "spread", "best")
	for _, f := range c.order {
		before, after := c.values[f][0], c.values[f][1]
		ratios := make([]float64, len(before))
		for i := range ratios {
			ratios[i] = after[i] / before[i]
		}
		fmt.Printf("%-36s %-13s %10s %10s %6.3f  %.3f–%.3f  %.3f  %s\n", f.name, f.unit,
			show(median(before)), show(median(after)), median(ratios), slices.Min(ratios), slices.Max(ratios),
			f.best(after)/f.best(before), verdict(f, ratios))
	}
	fmt.Print(`
before and after are medians. ratio is the median of the rounds' ratios after/before, spread their lowest and highest.
best is the ratio of the best values, which other load on the machine affects least.
A figure is worse or better if all rounds agree and the ratio differs from 1 by more than 2 %. By chance alone, five
rounds of equal versions agree on one figure in sixteen: repeat the comparison before you act on a single one.
More is better for ops/s, less for all others.
`)
}

func (f figure) moreIsBetter() bool { return f.unit == "ops/s" }

func (f figure) best(values []float64) float64 {
	if f.moreIsBetter() {
		return slices.Max(values)
	}
	return slices.Min(values)
}

// verdict returns "worse" or "better" if every round says so, or "".
func verdict(f figure, ratios []float64) string {
	words := [2]string{"worse", "better"} // if more, if less
	if f.moreIsBetter() {
		words = [2]string{"better", "worse"}
	}
	switch {
	case slices.Min(ratios) > 1 && median(ratios) > 1.02:
		return words[0]
	case slices.Max(ratios) < 1 && median(ratios) < 0.98:
		return words[1]
	}
	return ""
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

func show(value float64) string {
	if value >= 1000 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.2f", value)
}
