package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var (
	valueSizes      = []int{16, 100, 1024}
	goroutineCounts = []int{1, 8, 64, 512}
	singleOps       = []string{"RPush", "LPop"}
)

// cell is one operation on one size of value by one number of goroutines.
type cell struct {
	op               string
	size, goroutines int
}

// throughputs are the medians, by cell and peer.
type throughputs map[cell]map[string]figures

// throughput measures RPush and LPop of single values. In every round each peer has its turn at each cell, so that what
// drifts hits all of them alike; the one that begins changes from round to round.
func (b *bench) throughput(ctx context.Context) error {
	c, err := b.server.openPeers()
	if err != nil {
		return err
	}
	defer c.stop()

	runs := map[cell]map[string][]figures{}
	add := func(key cell, peer string, f figures) {
		if runs[key] == nil {
			runs[key] = map[string][]figures{}
		}
		runs[key][peer] = append(runs[key][peer], f)
	}
	for round := range b.runs {
		for _, size := range valueSizes {
			for _, goroutines := range goroutineCounts {
				for i := range c.peers {
					p := c.peers[(i+round)%len(c.peers)]
					push, pop, err := b.pushAndPop(ctx, p, size, goroutines)
					if err != nil {
						return fmt.Errorf("%s: %w", p.name, err)
					}
					add(cell{"RPush", size, goroutines}, p.name, push)
					add(cell{"LPop", size, goroutines}, p.name, pop)
				}
				tick()
			}
		}
	}

	medians := throughputs{}
	for key, byPeer := range runs {
		medians[key] = map[string]figures{}
		for peer, figures := range byPeer {
			medians[key][peer] = median(figures)
		}
	}
	b.reportThroughput(medians, c.peers)
	return nil
}

// pushAndPop measures pushes into a list, and then pops from it, with a reserve in case they are faster.
func (b *bench) pushAndPop(ctx context.Context, p peer, size, goroutines int) (push, pop figures, err error) {
	d := pick(b, 60*time.Millisecond, time.Second)
	l, value := p.open(fmt.Sprintf("bench:%d:%d", size, goroutines)), text(size)
	pushOne := func(ctx context.Context) error { return l.push(ctx, value) }

	if _, err = load(ctx, b.server, goroutines, d/5, pushOne); err != nil { // warm up
		return
	}
	if push, err = load(ctx, b.server, goroutines, d, pushOne); err != nil {
		return
	}
	if err = fillWith(ctx, l, int(push.ops*d.Seconds()), size); err != nil {
		return
	}
	if _, err = load(ctx, b.server, goroutines, d/5, l.pop); err != nil {
		return
	}
	if pop, err = load(ctx, b.server, goroutines, d, l.pop); err != nil {
		return
	}
	return push, pop, l.empty(ctx)
}

func (b *bench) reportThroughput(m throughputs, peers []peer) {
	r := &b.report
	r.section("Single values", `Goroutines push or pop one value a call, as fast as they can. *Server* is the processor time
that redis-server used for one call, *allocs* what the client allocated for one. The last column divides the operations a
second of shardedlist by those of the peer.`)
	for _, op := range singleOps {
		for _, size := range valueSizes {
			t := r.table(fmt.Sprintf("%s, %d bytes", op, size),
				"goroutines", "client", "ops/s", "p50", "p99", "server", "allocs", "shardedlist is")
			for _, goroutines := range goroutineCounts {
				byPeer := m[cell{op, size, goroutines}]
				for _, p := range peers {
					f, ratio := byPeer[p.name], ""
					if p.name != ours {
						ratio = times(byPeer[ours].ops / f.ops)
					}
					t.row(goroutines, p.name, count(f.ops), micros(f.p50), micros(f.p99), micros(f.cpu),
						fmt.Sprintf("%.1f", f.allocs), ratio)
				}
			}
		}
	}
	r.plotThroughput(m, peers)

	for _, op := range singleOps {
		for _, goal := range []struct {
			goroutines int
			plain      bool
			ratio      float64
		}{
			{1, true, 1}, {1, false, 0.9},
			{8, true, 1.2}, {8, false, 1},
			{64, false, 1.5},
			{512, false, 2.5},
		} {
			against := "the fastest peer"
			if goal.plain {
				against = "go-redis"
			}
			got, where := worst(m, op, goal.goroutines, goal.plain)
			r.target(fmt.Sprintf("%s, goroutines: %d, against %s", op, goal.goroutines, against),
				fmt.Sprintf("≥ %.1f×", goal.ratio), times(got)+" "+where, got >= goal.ratio)
		}
	}
}

// worst is the smallest ratio among the sizes of value, of our throughput to that of plain go-redis or of the fastest.
func worst(m throughputs, op string, goroutines int, plain bool) (ratio float64, where string) {
	for i, size := range valueSizes {
		byPeer := m[cell{op, size, goroutines}]
		var rivals []float64
		for name, f := range byPeer {
			if name != ours && (!plain || name == "go-redis") {
				rivals = append(rivals, f.ops)
			}
		}
		if r := byPeer[ours].ops / slices.Max(rivals); i == 0 || r < ratio {
			ratio, where = r, fmt.Sprintf("(%d bytes)", size)
		}
	}
	return ratio, where
}
