package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shardedlist/shardedlist"
)

// memory measures what an element takes on the server.
func (b *bench) memory(ctx context.Context) error {
	elements := pick(b, 100_000, 2_000_000)
	r := &b.report
	r.section("Memory", fmt.Sprintf(`Growth of the server's used_memory, without its buffers for clients, by a list of %s
elements, divided by their number.`, count(elements)))
	t := r.table("", "list", "elements", "bytes an element", "against the plain list")
	for _, size := range []int{16, 100} {
		plain, err := b.bytesPerElement(ctx, elements, size, 0)
		if err != nil {
			return err
		}
		t.row("plain", fmt.Sprintf("%d bytes", size), fmt.Sprintf("%.2f", plain), "")
		for _, capacity := range []int{128, 512} {
			own, err := b.bytesPerElement(ctx, elements, size, capacity)
			if err != nil {
				return err
			}
			list := fmt.Sprintf("%s, capacity %d", ours, capacity)
			t.row(list, fmt.Sprintf("%d bytes", size), fmt.Sprintf("%.2f", own), fmt.Sprintf("%.3f×", own/plain))
			if size == 100 {
				what := fmt.Sprintf("Memory of elements of 100 bytes, capacity %d, against a plain list", capacity)
				r.target(what, "≤ 1.01×", fmt.Sprintf("%.3f×", own/plain), own/plain <= 1.01)
			}
			tick()
		}
	}
	return nil
}

// bytesPerElement fills a list, a plain one if the capacity is 0.
func (b *bench) bytesPerElement(ctx context.Context, elements, size, capacity int) (float64, error) {
	l := list{fill: b.server.fillPlain("plain")}
	if capacity > 0 {
		rdb := b.server.client()
		defer rdb.Close()
		own := sharded(rdb, "sharded", shardedlist.WithCapacity(capacity))
		l.fill = func(ctx context.Context, values ...any) error {
			_, err := own.RPush(ctx, values...)
			return err
		}
	}
	if err := b.server.clear(ctx); err != nil {
		return 0, err
	}
	before, err := b.server.used(ctx)
	if err != nil {
		return 0, err
	}
	if err := fillWith(ctx, l, elements, size); err != nil {
		return 0, err
	}
	after, err := b.server.used(ctx)
	return (after - before) / float64(elements), err
}

// used is the memory that the server uses, its buffers for clients excepted.
func (s *server) used(ctx context.Context) (float64, error) {
	all, err := s.number(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	buffers, err := s.number(ctx, "memory", "mem_clients_normal")
	return all - buffers, err
}

// length measures whether an operation costs more on a longer list. The lists take turns.
func (b *bench) length(ctx context.Context) error {
	lengths := pick(b, []int{1000, 100_000}, []int{1000, 1_000_000, 50_000_000})
	const size = 16
	rdb := b.server.client()
	defer rdb.Close()
	kinds := []peer{
		{ours, func(key string) list { return shardedPeer(rdb, "sharded"+key) }},
		{"go-redis", func(key string) list { return b.server.goRedisPeer(rdb, "plain"+key) }},
	}
	type column struct {
		peer   string
		length int
		do     func(context.Context) error
		runs   []figures
	}
	var columns []*column
	for _, length := range lengths {
		for _, p := range kinds {
			l, value := p.open(fmt.Sprint(length)), text(size)
			if err := fillWith(ctx, l, length, size); err != nil {
				return err
			}
			columns = append(columns, &column{peer: p.name, length: length, do: func(ctx context.Context) error {
				if err := l.push(ctx, value); err != nil {
					return err
				}
				return l.pop(ctx)
			}})
			tick()
		}
	}
	for range 1 + 2*b.runs { // the first is to warm up; more runs, because the differences are small
		for _, c := range columns {
			f, err := load(ctx, b.server, 1, pick(b, 50*time.Millisecond, time.Second), c.do)
			if err != nil {
				return err
			}
			c.runs = append(c.runs, f)
		}
		tick()
	}

	r := &b.report
	r.section("Cost and length", fmt.Sprintf(`One goroutine pushes and pops elements of %d bytes in turn. Server time for one
RPush and one LPop, by the length of the list; medians of %d runs.`, size, 2*b.runs))
	t := r.table("", "client", "elements", "server", "both calls, p50", "against the shortest list")
	base := map[string]figures{}
	for _, c := range columns {
		f := median(c.runs[1:])
		if c.length == lengths[0] {
			base[c.peer] = f
		}
		ratio := float64(f.cpu) / float64(base[c.peer].cpu)
		t.row(c.peer, count(c.length), micros(f.cpu), micros(f.p50), times(ratio))
		if c.peer == ours && c.length == lengths[len(lengths)-1] {
			what := fmt.Sprintf("Server time of a push and a pop, at %s elements against %s", count(c.length), count(lengths[0]))
			r.target(what, "≤ 1.1×", times(ratio), ratio <= 1.1)
		}
	}
	return nil
}
