package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var (
	largeSizes   = []int{10 << 10, 100 << 10}
	largeCallers = []int{1, 8, 64}
)

// large measures RPush and LPop of single large values.
func (b *bench) large(ctx context.Context) error {
	c, err := b.server.openPeers()
	if err != nil {
		return err
	}
	defer c.stop()
	for _, size := range largeSizes {
		for _, goroutines := range largeCallers {
			pushes, pops := make([][]figures, 2), make([][]figures, 2)
			for range b.runs {
				for i, p := range c.peers[:2] { // ours and go-redis
					push, pop, err := b.pushAndPop(ctx, p, size, goroutines, pick(b, 30*time.Millisecond, 300*time.Millisecond))
					if err != nil {
						return fmt.Errorf("%s: %w", p.name, err)
					}
					pushes[i], pops[i] = append(pushes[i], push), append(pops[i], pop)
				}
			}
			tick()
			for i, p := range c.peers[:2] {
				b.results.Large = append(b.results.Large,
					throughputResult{singleOps[0], size, goroutines, p.name, median(pushes[i])},
					throughputResult{singleOps[1], size, goroutines, p.name, median(pops[i])})
			}
		}
	}
	return nil
}

func (r *report) large(t throughputs) {
	r.section("Large values", `As above, with values that fill the network rather than the server's time for commands. *Ratio* is the throughput of
shardedlist divided by that of go-redis.`)
	rows := r.table("", "operation", "bytes", "goroutines", "shardedlist ops/s", "go-redis", "ratio")
	for _, size := range largeSizes {
		want := map[int]float64{10 << 10: 0.8, 100 << 10: 0.6}[size]
		for _, op := range singleOps {
			var ahead, behind []float64
			for _, goroutines := range largeCallers {
				own, plain := t.of(op, size, goroutines, ours), t.of(op, size, goroutines, "go-redis")
				ratio := own.Ops / plain.Ops
				rows.row(op, count(size), goroutines, count(own.Ops), count(plain.Ops), times(ratio))
				if ratio >= 1 {
					ahead = append(ahead, ratio)
				} else {
					behind = append(behind, ratio)
				}
			}
			what := fmt.Sprintf("%s of %s bytes, 1 to 64 goroutines", op, count(size))
			r.compare(what, "go-redis", "", ahead...)
			r.compare(what, "go-redis", "", behind...)
			worst := slices.Min(slices.Concat(behind, ahead))
			r.target(fmt.Sprintf("%s of %s bytes, against go-redis", op, count(size)), fmt.Sprintf("≥ %.1f×", want), times(worst), worst >= want)
		}
	}
}
