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
	for _, c := range []struct {
		name, prefix string
		rdb          *redis.Client
	}{{ours, "many:sharded:", hooked}, {"go-redis", "many:plain:", plain}} {
		var rounds []manyFigures
		for range b.runs {
			f, err := b.manyLists(ctx, c.rdb, c.prefix, result.Lists)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			rounds = append(rounds, f)
			tick()
		}
		f := manyFigures{Client: c.name, Bytes: middleOf(rounds, func(f manyFigures) float64 { return f.Bytes })}
		f.Pushes = middleOf(rounds, func(f manyFigures) float64 { return f.Pushes })
		f.Pops = middleOf(rounds, func(f manyFigures) float64 { return f.Pops })
		result.Clients = append(result.Clients, f)
	}
	b.results.Many = result
	return nil
}

type manyResult struct {
	Lists   int           `json:"lists"`
	Clients []manyFigures `json:"clients"`
}

type manyFigures struct {
	Client string  `json:"client"`
	Pushes float64 `json:"pushes_per_second"`
	Pops   float64 `json:"pops_per_second"`
	Bytes  float64 `json:"bytes_per_list"` // after the pushes
}

// manyLists uses lists on a server that it clears before.
func (b *bench) manyLists(ctx context.Context, rdb *redis.Client, prefix string, lists int) (f manyFigures, err error) {
	if err := b.server.clear(ctx); err != nil {
		return f, err
	}
	before, err := b.server.used(ctx)
	if err != nil {
		return f, err
	}
	value := text(manyValueSize)
	each := func(do func(ctx context.Context, key string) error) (float64, error) {
		var next atomic.Int64
		start := time.Now()
		_, err := load(ctx, b.server, manyCallers, time.Hour, func(ctx context.Context) error {
			i := next.Add(1)
			if i > int64(lists) {
				return errEmpty
			}
			return do(ctx, fmt.Sprintf("%s%05d", prefix, i))
		})
		return float64(lists) / time.Since(start).Seconds(), err
	}
	f.Pushes, err = each(func(ctx context.Context, key string) error { return rdb.RPush(ctx, key, value).Err() })
	if err != nil {
		return f, err
	}
	after, err := b.server.used(ctx)
	if err != nil {
		return f, err
	}
	f.Bytes = float64(after-before) / float64(lists)
	f.Pops, err = each(func(ctx context.Context, key string) error {
		if err := rdb.LPop(ctx, key).Err(); err != nil { // no list is empty
			return err
		}
		return nil
	})
	return f, err
}

func (r *report) many(m *manyResult) {
	r.section("Many short lists", fmt.Sprintf(`%s keys, to each of which a value of %d bytes is pushed, and then popped, by %d goroutines. shardedlist is used through its
hook. *Memory* is that of the server after the pushes. It includes the dedup records of shardedlist, which expire after a minute.`,
		count(m.Lists), manyValueSize, manyCallers))
	t := r.table("", "client", "pushes/s", "pops/s", "memory per list")
	own, plain := m.Clients[0], m.Clients[1]
	for _, c := range m.Clients {
		t.row(c.Client, count(c.Pushes), count(c.Pops), fmt.Sprintf("%.0f bytes", c.Bytes))
	}
	pushes, pops, bytes := own.Pushes/plain.Pushes, own.Pops/plain.Pops, own.Bytes/plain.Bytes
	r.compare("A push to each of many lists, through the hook", "go-redis", "", pushes)
	r.compare("A pop from each of many lists, through the hook", "go-redis", "", pops)
	r.compare("Memory of many lists of one element", "plain lists", fmt.Sprintf("%.0f against %.0f bytes", own.Bytes, plain.Bytes), 1/bytes)
	r.target("Pushes to many lists, against go-redis", "≥ 0.50×", times(pushes), pushes >= 0.5)
	r.target("Pops from many lists, against go-redis", "≥ 0.50×", times(pops), pops >= 0.5)
	r.target("Memory of many lists of one element", "≤ 1.30×", times(bytes), bytes <= 1.3)
}
