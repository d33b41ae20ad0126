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
			peers := c.peers[:2] // ours and go-redis
			medians, err := b.medians(len(peers), func(at, _ int) ([]figures, error) {
				run, err := b.pushAndPop(ctx, peers[at], size, goroutines, pick(b, 30*time.Millisecond, 300*time.Millisecond))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", peers[at].name, err)
				}
				return run, nil
			})
			if err != nil {
				return err
			}
			for i, p := range peers {
				for at, op := range singleOps {
					b.results.Large = append(b.results.Large, throughputResult{op, size, goroutines, p.name, medians[i][at]})
				}
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
				rows.row(op, count(size), goroutines, r.ops(own), r.ops(plain), times(ratio))
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
