package main

import (
	"context"
	"fmt"
	"time"
)

// pairs measures a caller that pushes a value and pops one, in turn. On an empty list, each push creates the list and each pop
// removes it, as where consumers keep up.
func (b *bench) pairs(ctx context.Context) error {
	c, err := b.server.openPeers()
	if err != nil {
		return err
	}
	defer c.stop()
	peers := c.peers[:2] // ours and go-redis
	for _, rest := range []int{0, 3} {
		medians, err := b.medians(len(peers), func(at, _ int) ([]figures, error) {
			f, err := b.pairsOn(ctx, peers[at].open(fmt.Sprintf("bench:pairs:%d", rest)), rest)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", peers[at].name, err)
			}
			return []figures{f}, nil
		})
		if err != nil {
			return err
		}
		for i, p := range peers {
			b.results.Pairs = append(b.results.Pairs, pairsResult{rest, p.name, medians[i][0]})
		}
	}
	return nil
}

// pairsOn measures pairs on a list of rest elements.
func (b *bench) pairsOn(ctx context.Context, l list, rest int) (figures, error) {
	value := text(100)
	for range rest {
		if err := l.push(ctx, value); err != nil {
			return figures{}, err
		}
	}
	f, err := load(ctx, b.server, 1, pick(b, 60*time.Millisecond, 2*time.Second), func(ctx context.Context) error {
		if err := l.push(ctx, value); err != nil {
			return err
		}
		return l.pop(ctx)
	})
	if err != nil {
		return f, err
	}
	return f, l.empty(ctx)
}

// pairsResult is one client's median; a call is a push and a pop.
type pairsResult struct {
	Rest   int    `json:"elements"` // in the list
	Client string `json:"client"`
	figures
}

func (r *report) pairs(pairs []pairsResult) {
	r.section("A push and a pop in turn", `One goroutine pushes a value of 100 bytes and pops one, in turn. On an empty list each push creates the list, and
each pop removes it, as where consumers keep up with producers. *Ratio* is the number of pairs of shardedlist divided by that of go-redis.`)
	t := r.table("", "list", "client", "pairs/s", "p50", "server CPU", "ratio")
	for i := 0; i < len(pairs); i += 2 {
		own, plain := pairs[i], pairs[i+1]
		name := "empty list"
		if own.Rest > 0 {
			name = fmt.Sprintf("list of %d", own.Rest)
		}
		ratio := own.Ops / plain.Ops
		t.row(name, own.Client, r.ops(own.figures), micros(own.P50), micros(own.CPU), "")
		t.row(name, plain.Client, r.ops(plain.figures), micros(plain.P50), micros(plain.CPU), times(ratio))
		r.compare("RPush and LPop in turn, 1 goroutine, "+name, "go-redis", "", ratio)
		if own.Rest == 0 {
			r.target("RPush and LPop in turn, empty list, against go-redis", "≥ 0.55×", times(ratio), ratio >= 0.55)
		}
	}
}
