// Package survey finds all lists, whatever their form, and tells the main things of each.
//
// It asks little of a server: it scans its keys in steps of a thousand, and asks about some lists at a time, in one pipeline of short
// scripts that change nothing.
package survey

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/scan"
	"github.com/shardedlist/shardedlist/internal/script"
)

const (
	batch = 20                     // lists in a pipeline, which a server carries out at a stretch: about a millisecond
	hurry = 100 * time.Millisecond // for so long a list waits for others to fill the pipeline
)

// Options say what is asked.
type Options struct {
	Match        string // as for KEYS; empty is all
	WithoutBytes bool   // does not measure, which is half of the work
	// Progress is told after each step how many keys were looked at, about, and how many there are. It may be nil.
	Progress func(looked, keys int64)
}

// Rows finds lists, and yields a row for each. A list that is there all the time is found, unless its slot moves meanwhile. None is
// yielded twice, except that a survey of all lists ends with rows of those beside which there are shards that no meta knows. It ends with the first error that concerns more than one list. If a master of several is away, that comes behind the
// lists of the others.
//
// It is O(keys of the server), in steps of a thousand keys, and O(1) for each list. A name without *, ? and [ is looked up at once.
func Rows(ctx context.Context, rdb redis.UniversalClient, o Options) iter.Seq2[Row, error] {
	if o.Match == "*" {
		o.Match = ""
	}
	if o.Match != "" && !strings.ContainsAny(o.Match, `*?[\`) {
		return func(yield func(Row, error) bool) { yieldRows(ctx, rdb, []string{o.Match}, o, yield) }
	}
	return func(tell func(Row, error) bool) {
		var waiting []string
		var since time.Time
		var failed error
		known := &names{found: map[string]bool{}, told: map[string]bool{}, shards: map[string]string{}}
		yield := func(row Row, err error) bool {
			known.explain(row)
			return tell(row, err)
		}
		for names, err := range known.scan(ctx, rdb, o) {
			if failed = err; err != nil {
				break
			}
			if len(waiting) == 0 {
				since = time.Now()
			}
			waiting = append(waiting, names...)
			if len(waiting) < batch && time.Since(since) < hurry {
				continue
			}
			if !yieldRows(ctx, rdb, waiting, o, yield) {
				return
			}
			waiting = nil
		}
		if !yieldRows(ctx, rdb, waiting, o, yield) {
			return
		}
		if failed == nil {
			for row, err := range known.lost(ctx, rdb, o) {
				if failed = err; err != nil || !tell(row, nil) {
					break
				}
			}
		}
		if failed != nil {
			yield(Row{}, failed)
		}
	}
}

// explain notes that a row was yielded, and that its shards are those of a list.
func (n *names) explain(row Row) {
	n.told[row.Name] = true
	delete(n.shards, row.life)
}

// lost yields a row for each list of which there are shards that no meta knows.
func (n *names) lost(ctx context.Context, rdb redis.UniversalClient, o Options) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		lost := map[string]int{}
		err := keepLasting(ctx, rdb, n.shards) // most are gone by now, with lists that have become short
		if err == nil && len(n.shards) > 0 {
			lost, err = findLost(ctx, rdb)
		}
		if err != nil {
			yield(Row{}, err)
			return
		}
		for name, shards := range lost {
			keys := oneslot.KeysOf(name)
			row := Row{Name: name, Slot: keys.Slot(), Node: nodeOf(ctx, rdb, keys.Meta), LookedAgo: -1, At: time.Now()}
			row.fail(fmt.Errorf("%w: %d", ErrLost, shards))
			if n.told[name] {
				rows, err := Look(ctx, rdb, []string{name}, o)
				if err != nil {
					yield(Row{}, err)
					return
				} else if len(rows) == 1 {
					row = rows[0]
				}
				row.Again = true
			}
			row.Strays = int64(shards)
			if !yield(row, nil) {
				return
			}
		}
	}
}

// yieldRows looks at lists, and reports whether to go on.
func yieldRows(ctx context.Context, rdb redis.UniversalClient, names []string, o Options, yield func(Row, error) bool) bool {
	for len(names) > 0 {
		some := names[:min(batch, len(names))]
		names = names[len(some):]
		rows, err := lookAt(ctx, rdb, some, o)
		if err != nil {
			yield(Row{}, err)
			return false
		}
		for _, row := range rows {
			if !yield(row, nil) {
				return false
			}
		}
	}
	return true
}

// Look returns the rows of the lists of these names that are there. Match does not count.
func Look(ctx context.Context, rdb redis.UniversalClient, names []string, o Options) (rows []Row, err error) {
	yieldRows(ctx, rdb, names, o, func(row Row, rowErr error) bool {
		if err = rowErr; err == nil {
			rows = append(rows, row)
		}
		return err == nil
	})
	return rows, err
}

const timesKey = ":queue:times" // of a queue, see lua/shared/jobs.lua

// names are what a scan has found.
type names struct {
	found  map[string]bool
	told   map[string]bool   // those of which a row was yielded
	shards map[string]string // by the prefix of shards' keys of which no row has told: one of the keys
}

// scan yields the names that keys tell of, each once, as many at a time as a step finds. There may be no list of a name.
func (n *names) scan(ctx context.Context, rdb redis.UniversalClient, o Options) iter.Seq2[[]string, error] {
	matches := func(string) bool { return true }
	pattern := "*"
	if o.Match != "" {
		matches, pattern = hook.Match(o.Match), o.Match
	}
	filters := [][]scan.Filter{ // one after the other: a list that becomes short in between leaves a mark, see lua/shared/shrink.lua
		{{Pattern: strings.ToValidUTF8(pattern, "*"), Type: "list"}},
		{{Pattern: "*:meta", Type: "hash"}, {Pattern: "*" + timesKey, Type: "zset"}, {Pattern: "*:short.meta", Type: "string"}},
	}
	return func(yield func([]string, error) bool) {
		var keys, looked int64
		if o.Progress != nil {
			keys, _ = scan.Size(ctx, rdb) // if a master is away, the scan tells
		}
		_, single := rdb.(*redis.Client)
		var failed error
		for half, filters := range filters {
			if failed != nil && single { // of several, others may have answered
				break
			}
			for page, err := range scan.Pages(ctx, rdb, filters...) {
				if err != nil {
					failed = err
					break
				}
				var names []string
				for _, key := range slices.Concat(page.Keys...) {
					if prefix, ok := oneslot.ShardPrefix(key); ok && half == 0 && o.Match == "" {
						n.shards[prefix] = key
					}
					if name := nameOf(key, half); name != "" && matches(name) && !n.found[name] {
						n.found[name] = true
						names = append(names, name)
					}
				}
				if !yield(names, nil) {
					return
				}
				if looked = min(looked+page.Looked, keys*int64(half+1)); o.Progress != nil {
					o.Progress(looked/2, keys)
				}
			}
		}
		if failed != nil {
			yield(nil, failed)
		}
	}
}

// nameOf returns the name of the list that a key tells of, or nothing. Plain lists are found by the first half of the filters.
func nameOf(key string, half int) (name string) {
	prefix, isQueue := strings.CutSuffix(key, timesKey)
	switch {
	case half == 0:
		if _, own := oneslot.Owner(key); !own {
			name = key
		}
	case isQueue:
		name, _ = oneslot.NameOf(prefix + ":meta")
	default:
		name, _, _ = oneslot.Naming(key)
	}
	return name
}

// nodeOf returns the address of the master that has a key, if there are several.
func nodeOf(ctx context.Context, rdb redis.UniversalClient, key string) string {
	if _, single := rdb.(*redis.Client); single {
		return ""
	}
	master, err := script.Master(ctx, rdb, key)
	if client, ok := master.(*redis.Client); ok && err == nil {
		return client.Options().Addr
	}
	return ""
}
