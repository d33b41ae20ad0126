package spread

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/script"
)

var shardsScript = script.Load("spread_shards")

// address names a shard: ids begin anew with each generation.
type address struct{ generation, id int64 }

func (a address) compare(b address) int {
	return cmp.Or(cmp.Compare(a.generation, b.generation), cmp.Compare(a.id, b.id))
}

const (
	scanFields = 1000 // shards of a part that one HSCAN returns, about
	strayLooks = 3    // how often a shard must look stray: pointers move meanwhile
)

// Strays names the shards that the pointers do not, and that no delete has left: those that a failover has put outside, or all of a list
// whose pointers are lost.
func (l *List) Strays(ctx context.Context) (names []string, err error) {
	p, err := l.readMeta(ctx, false)
	if err != nil {
		return nil, err
	}
	parts := int64(l.config.Parts)
	if p != nil {
		parts = p.parts
	}
	found, err := l.strays(ctx, parts)
	for _, a := range found {
		names = append(names, fmt.Sprintf("shard %d of generation %d", a.id, a.generation))
	}
	return names, err
}

func (l *List) strays(ctx context.Context, parts int64) (found []address, err error) {
	for look := range strayLooks {
		if look == 0 {
			found, err = l.shardsOf(ctx, parts)
		} else {
			found, err = l.still(ctx, parts, found)
		}
		if err != nil {
			return nil, err
		}
		p, err := l.readMeta(ctx, false)
		if err != nil {
			return nil, err
		}
		found = slices.DeleteFunc(found, func(a address) bool { return p.names(a) })
		if len(found) == 0 {
			break
		}
	}
	slices.SortFunc(found, address.compare)
	return slices.Compact(found), nil // HSCAN may return one twice
}

// names reports whether a shard is one of the list, or of one that was deleted and is yet to be unlinked.
func (p *pointers) names(a address) bool {
	if p == nil {
		return false
	}
	if a.generation == p.generation {
		return a.id >= p.ids[left] && a.id <= p.ids[right]
	}
	for words := strings.Fields(p.old); len(words) >= 3; words = words[3:] {
		var generation, first, last int64
		_, err := fmt.Sscan(strings.Join(words[:3], " "), &generation, &first, &last)
		if err == nil && a.generation == generation && a.id >= first && a.id <= last {
			return true
		}
	}
	return false
}

// shardsOf returns all shards in the parts of the list.
func (l *List) shardsOf(ctx context.Context, parts int64) (all []address, err error) {
	for part := range parts {
		for cursor := "0"; ; {
			var some []address
			if cursor, some, err = l.shardsIn(ctx, l.partOf(part, parts), cursor, scanFields); err != nil {
				return nil, err
			}
			if all = append(all, some...); cursor == "0" {
				break
			}
		}
	}
	return all, nil
}

// shardsIn sends the script for some shards of a part. Unlike HSCAN, it never reads from a replica.
func (l *List) shardsIn(ctx context.Context, part Part, args ...any) (cursor string, all []address, err error) {
	reply, err := l.run(ctx, l.sessions.Read(shardsScript, []any{part.Meta}, args...))
	if err != nil {
		return "", nil, err
	}
	words := reply.([]any)
	fields := words[1].([]any)
	for i := 0; i < len(fields); i += 2 {
		if a, ok := parseAddress(fields[i].(string)); ok {
			all = append(all, a)
		}
	}
	return words[0].(string), all, nil
}

func parseAddress(field string) (a address, ok bool) {
	generation, id, ok := strings.Cut(field, ".")
	var err1, err2 error
	a.generation, err1 = strconv.ParseInt(generation, 10, 64)
	a.id, err2 = strconv.ParseInt(id, 10, 64)
	return a, ok && err1 == nil && err2 == nil
}

// still returns those of the shards that are there.
func (l *List) still(ctx context.Context, parts int64, shards []address) (found []address, err error) {
	fields := map[Part][]any{}
	for _, a := range shards {
		part := l.partOf(a.id, parts)
		fields[part] = append(fields[part], fmt.Sprintf("%d.%d", a.generation, a.id))
	}
	for part, all := range fields {
		for some := range slices.Chunk(all, scanFields) {
			_, there, err := l.shardsIn(ctx, part, append([]any{""}, some...)...)
			if err != nil {
				return nil, err
			}
			found = append(found, there...)
		}
	}
	return found, nil
}
