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

// timeline is what the list looked like during a demo.
type timeline struct {
	started time.Time
	mu      sync.Mutex
	samples []sample
}

// sample is what the list looked like at a moment.
type sample struct {
	at                  time.Duration
	first, last, shards int64
}

const sampleEvery = 10 * time.Millisecond

// look takes a sample if it is time for one. Whoever has pushed or popped calls it.
func (t *timeline) look(ctx context.Context, list *shardedlist.ShardedList) error {
	if !t.mu.TryLock() {
		return nil // somebody else is looking
	}
	defer t.mu.Unlock()
	if n := len(t.samples); n > 0 && time.Since(t.started)-t.samples[n-1].at < sampleEvery {
		return nil
	}
	info, err := list.Info(ctx)
	if err != nil {
		return err
	}
	t.samples = append(t.samples, sample{time.Since(t.started), info.First, info.Last, info.Shards})
	return nil
}

// peak is the sample with the most shards.
func (t *timeline) peak() sample {
	if len(t.samples) == 0 {
		return sample{}
	}
	return slices.MaxFunc(t.samples, func(a, b sample) int { return cmp.Compare(a.shards, b.shards) })
}

const (
	chartWidth  = 64
	chartHeight = 8
)

// draw draws the number of shards over the time of the demo:
//
//	96 ┤   ▁▂▄▆██▇▅▂
//	   │ ▃▆██████████▅
//	 0 └───────────────
//	   0 s         4.1 s
func (t *timeline) draw(w io.Writer, end time.Duration) {
	most := t.peak().shards
	columns := t.columns(end)
	label := thousands(most)
	for row := int64(chartHeight - 1); row >= 0; row-- {
		margin := strings.Repeat(" ", len(label)) + " │"
		if row == chartHeight-1 {
			margin = label + " ┤"
		}
		line := make([]rune, chartWidth)
		for i, shards := range columns {
			line[i] = block(shards*chartHeight*8/max(most, 1) - row*8)
		}
		fmt.Fprintln(w, strings.TrimRight("  "+margin+string(line), " "))
	}
	fmt.Fprintf(w, "  %*d └%s\n", len(label), 0, strings.Repeat("─", chartWidth))
	fmt.Fprintf(w, "  %*s  0 s%*.1f s\n", len(label), "", chartWidth-5, end.Seconds())
}

// columns are the most shards in each of the equal parts of the time. A part without a sample is as the one before.
func (t *timeline) columns(end time.Duration) (columns [chartWidth]int64) {
	next, now := 0, int64(0)
	for i := range columns {
		columns[i] = now
		for until := end * time.Duration(i+1) / chartWidth; next < len(t.samples) && t.samples[next].at <= until; next++ {
			now = t.samples[next].shards
			columns[i] = max(columns[i], now)
		}
	}
	return columns
}

// block is the character that is filled from below by a number of eighths.
func block(eighths int64) rune {
	return []rune(" ▁▂▃▄▅▆▇█")[min(max(eighths, 0), 8)]
}

// draw draws the row of shards:
//
//	┌─────┬─────┬─────┬─────────────┬─────┬─────┐
//	│ 118 │ 119 │ 120 │  … 88 more  │ 209 │ 210 │
//	└─────┴─────┴─────┴─────────────┴─────┴─────┘
func (s sample) draw(w io.Writer) {
	const ends = 4 // shards drawn at either end
	var cells []string
	for id := s.first; id <= s.last; id++ {
		if s.shards > 2*ends+1 && id == s.first+ends {
			cells = append(cells, "… "+thousands(s.shards-2*ends)+" more …")
			id = s.last - ends
			continue
		}
		cells = append(cells, fmt.Sprint(id))
	}
	var top, middle, bottom []string
	for _, cell := range cells {
		line := strings.Repeat("─", len([]rune(cell))+2)
		top, middle, bottom = append(top, line), append(middle, " "+cell+" "), append(bottom, line)
	}
	fmt.Fprintf(w, "  ┌%s┐\n  │%s│\n  └%s┘\n",
		strings.Join(top, "┬"), strings.Join(middle, "│"), strings.Join(bottom, "┴"))
}

// thousands writes a number as 1,234,567.
func thousands(n int64) string {
	digits := fmt.Sprint(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
