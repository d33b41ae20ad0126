package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

var (
	valueSizes      = []int{16, 100, 1024}
	goroutineCounts = []int{1, 8, 64, 512}
	singleOps       = []string{"RPush", "LPop"}
)

// throughputResult is one client's median for one operation, value size and number of goroutines.
type throughputResult struct {
	Op         string `json:"op"`
	Size       int    `json:"value_bytes"`
	Goroutines int    `json:"goroutines"`
	Client     string `json:"client"`
	figures
}

// throughput measures RPush and LPop of single values. Each round measures every client in every configuration, and a
// different client starts each round, so that drift of the machine affects all of them alike.
func (b *bench) throughput(ctx context.Context) error {
	c, err := b.server.openPeers()
	if err != nil {
		return err
	}
	defer c.stop()

	type cell struct {
		op               string
		size, goroutines int
		client           string
	}
	runs := map[cell][]figures{}
	for round := range b.runs {
		for _, size := range valueSizes {
			for _, goroutines := range goroutineCounts {
				for i := range c.peers {
					p := c.peers[(i+round)%len(c.peers)]
					run, err := b.pushAndPop(ctx, p, size, goroutines, pick(b, 60*time.Millisecond, time.Second))
					if err != nil {
						return fmt.Errorf("%s: %w", p.name, err)
					}
					for i, op := range singleOps {
						at := cell{op, size, goroutines, p.name}
						runs[at] = append(runs[at], run[i])
					}
				}
				tick()
			}
		}
	}
	for _, op := range singleOps {
		for _, size := range valueSizes {
			for _, goroutines := range goroutineCounts {
				for _, p := range c.peers {
					f := median(runs[cell{op, size, goroutines, p.name}])
					b.results.Throughput = append(b.results.Throughput, throughputResult{op, size, goroutines, p.name, f})
				}
			}
		}
	}
	return nil
}

// pushAndPop measures pushes to a list and then pops from it, the singleOps. It fills the list in between, in case pops are faster.
func (b *bench) pushAndPop(ctx context.Context, p peer, size, goroutines int, d time.Duration) ([]figures, error) {
	l, value := p.open(fmt.Sprintf("bench:%d:%d", size, goroutines)), text(size)
	pushOne := func(ctx context.Context) error { return l.push(ctx, value) }

	if _, err := load(ctx, b.server, goroutines, d/5, pushOne); err != nil { // warm up
		return nil, err
	}
	push, err := load(ctx, b.server, goroutines, d, pushOne)
	if err != nil {
		return nil, err
	}
	if err := fillWith(ctx, l, int(push.Ops*d.Seconds()), size); err != nil {
		return nil, err
	}
	if _, err := load(ctx, b.server, goroutines, d/5, l.pop); err != nil {
		return nil, err
	}
	pop, err := load(ctx, b.server, goroutines, d, l.pop)
	if err != nil {
		return nil, err
	}
	return []figures{push, pop}, l.empty(ctx)
}

// throughputs looks up results.
type throughputs []throughputResult

func (t throughputs) clients() (names []string) {
	for _, r := range t {
		if !slices.Contains(names, r.Client) {
			names = append(names, r.Client)
		}
	}
	return names
}

func (t throughputs) of(op string, size, goroutines int, client string) figures {
	for _, r := range t {
		if r.Op == op && r.Size == size && r.Goroutines == goroutines && r.Client == client {
			return r.figures
		}
	}
	return figures{}
}

// fastest returns the highest throughput that another client reaches.
func (t throughputs) fastest(op string, size, goroutines int) (f figures) {
	for _, client := range t.clients() {
		if other := t.of(op, size, goroutines, client); client != ours && other.Ops > f.Ops {
			f = other
		}
	}
	return f
}

// goRedisIsFastest reports whether plain go-redis is the fastest other client at every operation and value size.
func (t throughputs) goRedisIsFastest(goroutines int) bool {
	for _, op := range singleOps {
		for _, size := range valueSizes {
			if t.fastest(op, size, goroutines) != t.of(op, size, goroutines, "go-redis") {
				return false
			}
		}
	}
	return true
}

func (r *report) throughput(t throughputs) {
	r.section("Single values", `Each goroutine pushes or pops one value per call, as fast as it can. *Server CPU* is the CPU time of
redis-server per call, *allocs* the allocations of the client per call. *Ratio* is the throughput of shardedlist divided by
that of the client.`)
	for _, op := range singleOps {
		r.throughputPlot(op, t)
	}
	for _, op := range singleOps {
		for _, size := range valueSizes {
			rows := r.table(fmt.Sprintf("%s, %s bytes", op, count(size)),
				"goroutines", "client", "ops/s", "p50", "p99", "server CPU", "allocs", "ratio")
			for _, goroutines := range goroutineCounts {
				own := t.of(op, size, goroutines, ours)
				for _, client := range t.clients() {
					f, ratio := t.of(op, size, goroutines, client), ""
					if client != ours {
						ratio = times(own.Ops / f.Ops)
					}
					rows.row(goroutines, client, r.ops(f), micros(f.P50), micros(f.P99), micros(f.CPU),
						fmt.Sprintf("%.1f", f.Allocs), ratio)
				}
			}
		}
	}
	r.compareThroughput(t)
	r.throughputTargets(t)
}

func (r *report) compareThroughput(t throughputs) {
	for _, goroutines := range goroutineCounts {
		plain := func(op string, size int) figures { return t.of(op, size, goroutines, "go-redis") }
		fastest := func(op string, size int) figures { return t.fastest(op, size, goroutines) }
		compare := func(what, against string, other func(string, int) figures, ratio func(own, other figures) float64) {
			r.compareCells(what+", "+callers(goroutines), against, func(op string, size int) float64 {
				return ratio(t.of(op, size, goroutines, ours), other(op, size))
			})
		}
		ops := func(own, other figures) float64 { return own.Ops / other.Ops }
		if t.goRedisIsFastest(goroutines) {
			compare("%s", "go-redis, the fastest other client", plain, ops)
		} else {
			compare("%s", "go-redis", plain, ops)
			compare("%s", "the fastest other client", fastest, ops)
		}
		if goroutines == goroutineCounts[0] || goroutines == goroutineCounts[len(goroutineCounts)-1] {
			compare("Server CPU per %s", "go-redis", plain, func(own, other figures) float64 {
				return float64(other.CPU) / float64(own.CPU)
			})
			compare("Client allocations per %s", "go-redis", plain, func(own, other figures) float64 {
				return other.Allocs / own.Allocs
			})
		}
	}
}

// compareCells adds one row for all operations and value sizes that are on the same side of 1. Where the operations differ in
// the sizes that are ahead, each of them has rows of its own. what has one %s, for the operations.
func (r *report) compareCells(what, against string, ratio func(op string, size int) float64) {
	sizesOn := func(op string, ahead bool) (sizes []int) {
		for _, size := range valueSizes {
			if ratio(op, size) >= 1 == ahead {
				sizes = append(sizes, size)
			}
		}
		return sizes
	}
	groups := [][]string{singleOps}
	if !slices.Equal(sizesOn(singleOps[0], true), sizesOn(singleOps[1], true)) {
		groups = [][]string{singleOps[:1], singleOps[1:]}
	}
	for _, ops := range groups {
		for _, ahead := range []bool{true, false} {
			sizes := sizesOn(ops[0], ahead)
			var ratios []float64
			for _, op := range ops {
				for _, size := range sizes {
					ratios = append(ratios, ratio(op, size))
				}
			}
			row := fmt.Sprintf(what, strings.Join(ops, " and "))
			if len(sizes) < len(valueSizes) {
				row += ", " + listOf(sizes) + " bytes"
			}
			r.compare(row, against, "", ratios...)
		}
	}
}

// listOf returns "16 and 100", say.
func listOf(numbers []int) string {
	var words []string
	for _, n := range numbers {
		words = append(words, count(n))
	}
	return strings.Join(words, " and ") // there are at most two
}

func (r *report) throughputTargets(t throughputs) {
	for _, op := range singleOps {
		for _, goal := range []struct {
			goroutines int
			plain      bool
			ratio      float64
		}{
			{1, true, 0.65},
			{8, false, 0.9},
			{64, false, 1.5},
			{512, false, 2.5},
		} {
			against := "the fastest other client"
			if goal.plain {
				against = "go-redis"
			}
			got, size := worst(t, op, goal.goroutines, goal.plain)
			r.target(fmt.Sprintf("%s, %s, against %s", op, callers(goal.goroutines), against),
				fmt.Sprintf("≥ %.2f×", goal.ratio), fmt.Sprintf("%s (%s bytes)", times(got), count(size)), got >= goal.ratio)
		}
		for _, goroutines := range []int{64, 512} {
			const size = 1024
			got := t.of(op, size, goroutines, ours).Ops / t.fastest(op, size, goroutines).Ops
			r.target(fmt.Sprintf("%s of %s bytes, %s, against the fastest other client", op, count(size), callers(goroutines)),
				"≥ 1.00×", times(got), got >= 1)
		}
	}
}

// worst returns the smallest ratio over the value sizes of our throughput to that of go-redis, or of the fastest client.
func worst(t throughputs, op string, goroutines int, plain bool) (ratio float64, at int) {
	for i, size := range valueSizes {
		other := t.fastest(op, size, goroutines)
		if plain {
			other = t.of(op, size, goroutines, "go-redis")
		}
		if r := t.of(op, size, goroutines, ours).Ops / other.Ops; i == 0 || r < ratio {
			ratio, at = r, size
		}
	}
	return ratio, at
}
