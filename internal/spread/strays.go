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

// DeleteStrays deletes those that Strays names, and returns their number.
func (l *List) DeleteStrays(ctx context.Context) (deleted int64, err error) {
	p, err := l.readMeta(ctx, false)
	if err != nil {
		return 0, err
	} else if p == nil {
		p = &pointers{parts: int64(l.config.Parts)}
	}
	found, err := l.strays(ctx, p.parts)
	if err != nil {
		return 0, err
	}
	for _, a := range found {
		old := *p
		old.word = retiredWord(a.generation)
		reply, err := l.run(ctx, l.onShard(&old, retireScript, a.id, a.id))
		if err != nil {
			return deleted, err
		}
		deleted += reply.(int64)
	}
	return deleted, nil
}

func (l *List) strays(ctx context.Context, parts int64) (found []address, err error) {
	for look := range strayLooks {
		if look == 0 {
			_, err = l.scan(ctx, parts, func(s state) { found = append(found, s.address) })
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

// state is what a part knows of one of its shards.
type state struct {
	address
	open  [2]bool
	epoch int64 // the newest that the shard has seen
}

// scan calls do for all shards in the parts of the list, for some of them twice. It returns the highest watermark.
func (l *List) scan(ctx context.Context, parts int64, do func(state)) (mark int64, err error) {
	for part := range parts {
		for cursor := "0"; ; {
			next, some, err := l.shardsIn(ctx, l.partOf(part, parts), &mark, cursor, scanFields)
			if err != nil {
				return 0, err
			}
			for _, s := range some {
				do(s)
			}
			if cursor = next; cursor == "0" {
				break
			}
		}
	}
	return mark, nil
}

// shardsIn sends the script for some shards of a part, and raises mark to its watermark. Unlike HSCAN, it never reads from a replica.
func (l *List) shardsIn(ctx context.Context, part Part, mark *int64, args ...any) (cursor string, some []state, err error) {
	reply, err := l.run(ctx, l.sessions.Read(shardsScript, []any{part.Meta}, args...))
	if err != nil {
		return "", nil, err
	}
	words := reply.([]any)
	fields := words[1].([]any)
	for i := 0; i < len(fields); i += 2 {
		if s, ok := parseState(fields[i].(string), fields[i+1].(string)); ok {
			some = append(some, s)
		}
	}
	if here, err := strconv.ParseInt(words[2].(string), 10, 64); err == nil {
		*mark = max(*mark, here)
	}
	return words[0].(string), some, nil
}

// parseState reads a field of a part and its value.
func parseState(field, value string) (s state, ok bool) {
	if _, err := fmt.Sscanf(field, "%d.%d", &s.generation, &s.id); err != nil {
		return s, false
	}
	var flags string
	var epochs [2]int64
	if _, err := fmt.Sscan(value, &flags, &epochs[left], &epochs[right]); err != nil || len(flags) != 4 {
		return s, true // Check tells that it is broken
	}
	s.open = [2]bool{flags[0] == '1', flags[1] == '1'}
	s.epoch = max(epochs[left], epochs[right])
	return s, true
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
			var mark int64
			_, there, err := l.shardsIn(ctx, part, &mark, append([]any{""}, some...)...)
			if err != nil {
				return nil, err
			}
			for _, s := range there {
				found = append(found, s.address)
			}
		}
	}
	return found, nil
}
