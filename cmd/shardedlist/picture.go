package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/shardedlist/shardedlist"
)

// timeline records the shards of the list during a demo.
type timeline struct {
	started time.Time
	mu      sync.Mutex
	samples []sample
}

// sample is the state of the list at one time.
type sample struct {
	at                  time.Duration
	first, last, shards int64
}

const sampleInterval = 10 * time.Millisecond

// look takes a sample if one is due. Producers and consumers call it after each operation.
func (t *timeline) look(ctx context.Context, list *shardedlist.ShardedList) error {
	if !t.mu.TryLock() {
		return nil // another goroutine takes the sample
	}
	defer t.mu.Unlock()
	if n := len(t.samples); n > 0 && time.Since(t.started)-t.samples[n-1].at < sampleInterval {
		return nil
	}
	info, err := list.Info(ctx)
	if err != nil {
		return err
	}
	t.samples = append(t.samples, sample{time.Since(t.started), info.First, info.Last, info.Shards})
	return nil
}

// peak returns the sample with the most shards.
func (t *timeline) peak() sample {
	if len(t.samples) == 0 {
		return sample{}
	}
	return slices.MaxFunc(t.samples, func(a, b sample) int { return cmp.Compare(a.shards, b.shards) })
}

const (
	chartHeight   = 8
	minChartWidth = 16
)

// draw draws the number of shards over time, in lines of the given width:
//
//	96 ┤   ▁▂▄▆██▇▅▂
//	   │ ▃▆██████████▅
//	 0 └───────────────
//	   0 s         4.1 s
func (t *timeline) draw(w io.Writer, end time.Duration, width int) {
	most := t.peak().shards
	label := thousands(most)
	width = max(width-len("  ")-len(label)-len(" |")-len(" "), minChartWidth)
	columns := t.columns(end, width)
	for row := int64(chartHeight - 1); row >= 0; row-- {
		margin := strings.Repeat(" ", len(label)) + " │"
		if row == chartHeight-1 {
			margin = label + " ┤"
		}
		line := make([]rune, width)
		for i, shards := range columns {
			line[i] = block(shards*chartHeight*8/max(most, 1) - row*8)
		}
		fmt.Fprintln(w, strings.TrimRight("  "+margin+string(line), " "))
	}
	fmt.Fprintf(w, "  %*d └%s\n", len(label), 0, strings.Repeat("─", width))
	fmt.Fprintf(w, "  %*s  0 s%*.1f s\n", len(label), "", width-5, end.Seconds())
}

// columns splits the time into n equal parts and returns the most shards in each. A part without a sample repeats the
// last one.
func (t *timeline) columns(end time.Duration, n int) []int64 {
	columns := make([]int64, n)
	next, now := 0, int64(0)
	for i := range columns {
		columns[i] = now
		until := time.Duration(float64(end) * float64(i+1) / float64(n))
		for ; next < len(t.samples) && t.samples[next].at <= until; next++ {
			now = t.samples[next].shards
			columns[i] = max(columns[i], now)
		}
	}
	return columns
}

// block returns the character that is filled from below by a number of eighths.
func block(eighths int64) rune {
	return []rune(" ▁▂▃▄▅▆▇█")[min(max(eighths, 0), 8)]
}

// draw draws the shards, as many from both ends as lines of the given width hold:
//
//	┌─────┬─────┬─────────────┬─────┬─────┐
//	│ 118 │ 119 │ … 88 more … │ 208 │ 209 │
//	└─────┴─────┴─────────────┴─────┴─────┘
func (s sample) draw(w io.Writer, width int) {
	cells := s.cells(1)
	for ends := int64(2); 2*ends < s.shards+2; ends++ {
		wider := s.cells(ends)
		if rowWidth(wider) > width {
			break
		}
		cells = wider
	}
	var top, middle, bottom []string
	for _, cell := range cells {
		line := strings.Repeat("─", len([]rune(cell))+2)
		top, middle, bottom = append(top, line), append(middle, " "+cell+" "), append(bottom, line)
	}
	fmt.Fprintf(w, "  ┌%s┐\n  │%s│\n  └%s┘\n",
		strings.Join(top, "┬"), strings.Join(middle, "│"), strings.Join(bottom, "┴"))
}

// cells returns the ids of the shards, with a count in place of those that are not among the first or last few.
func (s sample) cells(ends int64) (cells []string) {
	for id := s.first; id <= s.last; id++ {
		if s.shards > 2*ends+1 && id == s.first+ends {
			cells = append(cells, "… "+thousands(s.shards-2*ends)+" more …")
			id = s.last - ends
			continue
		}
		cells = append(cells, fmt.Sprint(id))
	}
	return cells
}

// rowWidth returns the columns of a drawn row of cells.
func rowWidth(cells []string) int {
	width := len("  |")
	for _, cell := range cells {
		width += len([]rune(cell)) + len("  |")
	}
	return width
}

// plural is a number of things, of which several have an s.
func plural(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}

// thousands formats a number like 1,234,567.
func thousands(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
