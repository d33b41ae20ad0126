package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
)

const (
	manyCallers   = 32
	manyValueSize = 100
)

// many measures many short lists: a push to each, then a pop from each, through the hook and by plain go-redis.
func (b *bench) many(ctx context.Context) error {
	result := &manyResult{Lists: pick(b, 500, 60_000)}
	hooked, plain := b.server.client(poolSize(manyCallers)), b.server.client(poolSize(manyCallers))
	defer func() { _, _ = hooked.Close(), plain.Close() }()
	hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("many:sharded:*")))
	clients := []struct {
		name, prefix string
		rdb          *redis.Client
		bytes        []float64 // per list
	}{{name: ours, prefix: "many:sharded:", rdb: hooked}, {name: "go-redis", prefix: "many:plain:", rdb: plain}}
	medians, err := b.medians(len(clients), func(at, _ int) ([]figures, error) {
		c := &clients[at]
		run, bytes, err := b.manyLists(ctx, c.rdb, c.prefix, result.Lists)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		c.bytes = append(c.bytes, bytes)
		return run, nil
	})
	if err != nil {
		return err
	}
	for i, c := range clients {
		pushes, pops := medians[i][0], medians[i][1]
		result.Clients = append(result.Clients,
			manyFigures{c.name, pushes.Ops, pushes.OpsSpread, pops.Ops, pops.OpsSpread, quantile(c.bytes, 0.5)})
	}
	b.results.Many = result
	return nil
}

type manyResult struct {
	Lists   int           `json:"lists"`
	Clients []manyFigures `json:"clients"`
}

type manyFigures struct {
	Client       string  `json:"client"`
	Pushes       float64 `json:"pushes_per_second"`
	PushesSpread float64 `json:"pushes_spread,omitempty"`
	Pops         float64 `json:"pops_per_second"`
	PopsSpread   float64 `json:"pops_spread,omitempty"`
	Bytes        float64 `json:"bytes_per_list"` // after the pushes
}

// manyLists uses lists on a server that it clears before. It returns the figures of the pushes and of the pops, and the memory per list.
func (b *bench) manyLists(ctx context.Context, rdb *redis.Client, prefix string, lists int) (run []figures, bytes float64, err error) {
	if err := b.server.clear(ctx); err != nil {
		return nil, 0, err
	}
	before, err := b.server.used(ctx)
	if err != nil {
		return nil, 0, err
	}
	value := text(manyValueSize)
	each := func(do func(ctx context.Context, key string) error) (figures, error) {
		var next atomic.Int64
		return load(ctx, b.server, manyCallers, time.Hour, func(ctx context.Context) error {
			i := next.Add(1)
			if i > int64(lists) {
				return errEmpty
			}
			return do(ctx, fmt.Sprintf("%s%05d", prefix, i))
		})
	}
	pushes, err := each(func(ctx context.Context, key string) error { return rdb.RPush(ctx, key, value).Err() })
	if err != nil {
		return nil, 0, err
	}
	after, err := b.server.used(ctx)
	if err != nil {
		return nil, 0, err
	}
	pops, err := each(func(ctx context.Context, key string) error {
		if err := rdb.LPop(ctx, key).Err(); err != nil { // no list is empty
			return err
		}
		return nil
	})
	return []figures{pushes, pops}, (after - before) / float64(lists), err
}

func (r *report) many(m *manyResult) {
	r.section("Many short lists", fmt.Sprintf(`%s keys, to each of which a value of %d bytes is pushed, and then popped, by %d goroutines. shardedlist is used through its
hook. *Memory* is that of the server after the pushes. It includes the dedup records of shardedlist, which expire after a minute.`,
		count(m.Lists), manyValueSize, manyCallers))
	t := r.table("", "client", "pushes/s", "pops/s", "memory per list")
	own, plain := m.Clients[0], m.Clients[1]
	for _, c := range m.Clients {
		t.row(c.Client, r.withSpread(count(c.Pushes), c.PushesSpread), r.withSpread(count(c.Pops), c.PopsSpread),
			fmt.Sprintf("%.0f bytes", c.Bytes))
	}
	pushes, pops, bytes := own.Pushes/plain.Pushes, own.Pops/plain.Pops, own.Bytes/plain.Bytes
	r.compare("A push to each of many lists, through the hook", "go-redis", "", pushes)
	r.compare("A pop from each of many lists, through the hook", "go-redis", "", pops)
	r.compare("Memory of many lists of one element", "plain lists", fmt.Sprintf("%.0f against %.0f bytes", own.Bytes, plain.Bytes), 1/bytes)
	r.target("Pushes to many lists, against go-redis", "≥ 0.50×", times(pushes), pushes >= 0.5)
	r.target("Pops from many lists, against go-redis", "≥ 0.50×", times(pops), pops >= 0.5)
	r.target("Memory of many lists of one element", "≤ 1.30×", times(bytes), bytes <= 1.3)
}
