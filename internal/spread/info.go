package spread

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

// infoSamples is the number of shards that Info measures.
const infoSamples = 16

// Info describes how the list is stored.
func (l *List) Info(ctx context.Context) (info layout.Info, err error) {
	info.Slot, info.Last = script.Slot(l.config.Meta), -1
	p, first, last, err := l.bounds(ctx)
	if err != nil || p == nil {
		return info, err
	}
	info.Parts, info.Capacity = p.parts, p.capacity
	info.First, info.Last, info.Length = first.id, last.id, last.borders[right]-first.borders[left]
	info.Armed, err = l.armed(ctx, p, first, last)
	if err != nil {
		return info, err
	}
	info.Bytes, err = l.estimateBytes(ctx, p, first.id, last.id)
	return info, err
}

// armed reports whether the list is empty, and the next push wakes consumers.
func (l *List) armed(ctx context.Context, p *pointers, first, last *shard) (bool, error) {
	if first.id != last.id || first.borders[left] != first.borders[right] {
		return false, nil
	}
	state, err := l.Client().HGet(ctx, l.part(p, first.id).Meta, fmt.Sprintf("%d.%d", p.generation, first.id)).Result()
	if err == redis.Nil {
		return false, nil
	}
	return Waits(state), err
}

// estimateBytes measures the end shards and some shards evenly between them, and extrapolates.
func (l *List) estimateBytes(ctx context.Context, p *pointers, first, last int64) (int64, error) {
	shards := last - first + 1
	samples := min(shards, infoSamples)
	keys := make([]string, samples)
	for i := range keys {
		id := first + int64(i)*(shards-1)/max(1, samples-1)
		keys[i] = l.part(p, id).Shard(p.generation, id)
	}
	sizes, err := script.MemoryUsage(ctx, l.Client(), keys)
	if err != nil {
		return 0, err
	}
	var ends, between, counted int64
	for i, bytes := range sizes {
		if i == 0 || i == len(sizes)-1 {
			ends += bytes
		} else {
			between += bytes
			counted++
		}
	}
	return ends + between*(shards-2)/max(1, counted), nil
}

// maxNamed is how many stray shards Check names.
const maxNamed = 20

// Check verifies the list, shard by shard: positions go on from one to the next, and shards between the ends are closed and have elements.
// There are no shards but those that the pointers name.
func (l *List) Check(ctx context.Context) error {
	var breaches []error
	breach := func(format string, args ...any) {
		breaches = append(breaches, fmt.Errorf("%w: %s", layout.ErrBroken, fmt.Sprintf(format, args...)))
	}
	strays, err := l.Strays(ctx)
	if err != nil {
		return err
	}
	for i, name := range strays {
		if i == maxNamed {
			breach("the pointers do not name %d more", len(strays)-i)
			break
		}
		breach("the pointers do not name %s", name)
	}
	p, first, last, err := l.bounds(ctx)
	if err != nil || p == nil {
		return errors.Join(append(breaches, err)...)
	}
	next := first.borders[right]
	for id := first.id + 1; id < last.id; id++ {
		s, err := l.look(ctx, p, id, "L", 1, 0)
		switch {
		case err != nil:
			return err
		case s == nil:
			breach("shard %d is missing", id)
			return errors.Join(breaches...)
		case s.borders[left] != next:
			breach("shard %d begins at position %d, and not at %d", id, s.borders[left], next)
		case s.borders[left] == s.borders[right] && !l.replaces(ctx, p, id):
			breach("shard %d between the ends has no elements", id)
		case s.open[left] || s.open[right]:
			breach("shard %d between the ends is open", id)
		}
		next = s.borders[right]
	}
	if first.id != last.id && last.borders[left] != next {
		breach("shard %d begins at position %d, and not at %d", last.id, last.borders[left], next)
	}
	return errors.Join(breaches...)
}

// replaces reports whether a repair has made the shard for one that was lost.
func (l *List) replaces(ctx context.Context, p *pointers, id int64) bool {
	var mark int64
	_, states, err := l.shardsIn(ctx, l.part(p, id), &mark, "", fmt.Sprintf("%d.%d", p.generation, id))
	return err == nil && len(states) == 1 && states[0].epoch == 0
}
