package main

import (
	"context"
	"fmt"
	"time"

	"github.com/shardedlist/shardedlist"
)

// memory measures the server's memory per element.
func (b *bench) memory(ctx context.Context) error {
	elements := pick(b, 100_000, 2_000_000)
	result := &memoryResult{Elements: elements}
	for _, size := range []int{16, 100} {
		for _, capacity := range []int{0, 128, 512} {
			bytes, err := b.bytesPerElement(ctx, elements, size, capacity)
			if err != nil {
				return err
			}
			result.Lists = append(result.Lists, memoryFigure{size, capacity, bytes})
			tick()
		}
	}
	b.results.Memory = result
	return nil
}

type memoryResult struct {
	Elements int            `json:"elements"`
	Lists    []memoryFigure `json:"lists"`
}

type memoryFigure struct {
	Size     int     `json:"element_bytes"`
	Capacity int     `json:"capacity,omitempty"` // 0 is a plain list
	Bytes    float64 `json:"bytes_per_element"`
}

func (r *report) memory(m *memoryResult) {
	r.section("Memory", fmt.Sprintf(`Growth of the server's used_memory, client buffers excluded, divided by the length of the
list: %s elements. Each measurement runs once.`, count(m.Elements)))
	t := r.table("", "list", "element", "bytes per element", "against the plain list")
	var plain float64
	for _, f := range m.Lists {
		size := fmt.Sprintf("%d bytes", f.Size)
		if f.Capacity == 0 {
			plain = f.Bytes
			t.row("plain", size, fmt.Sprintf("%.2f", f.Bytes), "")
			continue
		}
		ratio := f.Bytes / plain
		t.row(fmt.Sprintf("%s, capacity %d", ours, f.Capacity), size, fmt.Sprintf("%.2f", f.Bytes), fmt.Sprintf("%.3f×", ratio))
		r.compare(fmt.Sprintf("Memory per element of %d bytes, capacity %d", f.Size, f.Capacity), "a plain list",
			fmt.Sprintf("%.2f against %.2f bytes", f.Bytes, plain), 1/ratio)
		if f.Size == 100 {
			r.target(fmt.Sprintf("Memory of 100-byte elements, capacity %d, against a plain list", f.Capacity),
				"≤ 1.01×", fmt.Sprintf("%.3f×", ratio), ratio <= 1.01)
		}
	}
}

// bytesPerElement fills a list and returns its memory per element. Capacity 0 is a plain list.
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

// used returns used_memory without the client buffers.
func (s *server) used(ctx context.Context) (float64, error) {
	all, err := s.number(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	buffers, err := s.number(ctx, "memory", "mem_clients_normal")
	return all - buffers, err
}

// length measures whether operations cost more on longer lists. The lists alternate.
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
	for range 1 + 2*b.runs { // one to warm up; twice the runs, because the differences are small
		for _, c := range columns {
			f, err := load(ctx, b.server, 1, pick(b, 50*time.Millisecond, time.Second), c.do)
			if err != nil {
				return err
			}
			c.runs = append(c.runs, f)
		}
		tick()
	}

	result := &lengthResult{Runs: 2 * b.runs}
	for _, c := range columns {
		result.Lists = append(result.Lists, lengthFigure{c.length, clientResult{c.peer, median(c.runs[1:])}})
	}
	b.results.Length = result
	return nil
}

type lengthResult struct {
	Runs  int            `json:"runs"`
	Lists []lengthFigure `json:"lists"`
}

type lengthFigure struct {
	Elements int `json:"elements"`
	clientResult
}

func (r *report) length(l *lengthResult) {
	r.section("Cost by length", fmt.Sprintf(`One goroutine alternately pushes and pops an element of 16 bytes. *Server CPU* is for
one RPush and one LPop. Medians of %d runs.`, l.Runs))
	t := r.table("", "client", "elements", "server CPU", "p50 of both calls", "server CPU against the shortest list")
	shortest := map[string]lengthFigure{}
	var first, longest lengthFigure
	for _, f := range l.Lists {
		if _, found := shortest[f.Client]; !found {
			shortest[f.Client] = f
		}
		t.row(f.Client, count(f.Elements), r.cpu(f.figures), micros(f.P50), times(float64(f.CPU)/float64(shortest[f.Client].CPU)))
		if f.Client == ours {
			first, longest = shortest[ours], f
		}
	}
	ratio := float64(longest.CPU) / float64(first.CPU)
	r.target(fmt.Sprintf("Server CPU of a push and a pop, %s elements against %s", count(longest.Elements), count(first.Elements)),
		"≤ 1.1×", times(ratio), ratio <= 1.1)
}
