package survey

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/scan"
	"github.com/shardedlist/shardedlist/internal/script"
)

// ErrLost says that there are shards under a name, and no meta knows them.
var ErrLost = fmt.Errorf("%w: no meta knows its shards", layout.ErrBroken)

// findLost returns the names of the lists whose shards no meta knows, and how many shards each has lost, as far as one scan of the keys shows it:
// a list that is created, deleted or renamed meanwhile may be among them. Check tells for sure.
func findLost(ctx context.Context, rdb redis.UniversalClient) (map[string]int, error) {
	shards, keys, metas := map[string]int{}, map[string]string{}, []string{} // by the prefix of their keys; one of the keys
	for page, err := range scan.Pages(ctx, rdb, scan.Filter{Pattern: "*{*}*:#*", Type: "list"}, scan.Filter{Pattern: "*{*}*:meta", Type: "hash"}) {
		if err != nil {
			return nil, err
		}
		for _, key := range page.Keys[0] {
			if prefix, ok := oneslot.ShardPrefix(key); ok {
				shards[prefix]++
				keys[prefix] = key
			}
		}
		metas = append(metas, page.Keys[1]...)
	}
	for some := range slices.Chunk(metas, 100) {
		pipe := rdb.Pipeline()
		replies := make([]*redis.SliceCmd, len(some))
		for i, meta := range some {
			replies[i] = pipe.HMGet(ctx, meta, "layout", "stale")
		}
		if _, err := pipe.Exec(ctx); err != nil && !script.IsForbidden(err) {
			return nil, err
		}
		for i, meta := range some {
			if replies[i].Err() != nil { // the user may not use the list, whose shards keepLasting removes
				continue
			}
			layout, _ := replies[i].Val()[0].(string)
			stale, _ := replies[i].Val()[1].(string)
			for _, prefix := range append(stalePrefixes(stale), prefixIn(layout, strings.TrimSuffix(meta, "meta"))) {
				delete(keys, prefix)
			}
		}
	}
	if err := keepLasting(ctx, rdb, keys); err != nil {
		return nil, err
	}
	lost := map[string]int{}
	for prefix := range keys {
		if name, ok := oneslot.NameOf(prefix[:strings.LastIndexByte(prefix, '#')] + "meta"); ok {
			lost[name] += shards[prefix]
		}
	}
	return lost, nil
}

// keepLasting removes the keys that are not there, those that the user may not use, and those that expire soon: what a COPY is copying has no
// meta until it is done.
func keepLasting(ctx context.Context, rdb redis.UniversalClient, keys map[string]string) error {
	for some := range slices.Chunk(slices.Collect(maps.Keys(keys)), 100) {
		pipe := rdb.Pipeline()
		lives := make([]*redis.DurationCmd, len(some))
		for i, prefix := range some {
			lives[i] = pipe.PTTL(ctx, keys[prefix])
		}
		if _, err := pipe.Exec(ctx); err != nil && !script.IsForbidden(err) {
			return err
		}
		for i, prefix := range some {
			if left, err := lives[i].Result(); err != nil || left != -1 && left <= oneslot.CopyLife {
				delete(keys, prefix)
			}
		}
	}
	return nil
}

// prefixIn returns the prefix of the shards' keys that a field layout names, see lua/shared/pointers.lua.
func prefixIn(layout, stem string) string {
	words := strings.SplitN(layout, " ", 6)
	last := words[len(words)-1]
	if strings.HasPrefix(layout, "3!") { // an end shard is aside, see lua/shared/aside.lua
		return prefixIn(last, stem)
	}
	if strings.HasSuffix(last, ":") {
		return last
	}
	return stem + last + ":"
}

// stalePrefixes returns those that a field stale names, see lua/shared/stale.lua.
func stalePrefixes(text string) (prefixes []string) {
	for text != "" {
		words := strings.SplitN(text, " ", 4)
		length, err := strconv.Atoi(words[min(2, len(words)-1)])
		if err != nil || len(words) < 4 || length > len(words[3]) {
			break
		}
		prefixes, text = append(prefixes, words[3][:length]), words[3][length:]
	}
	return prefixes
}
