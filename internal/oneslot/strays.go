package oneslot

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

var straysScript = script.Load("strays")

const (
	scanKeys  = 1000 // keys that one SCAN looks at
	strayStep = 100  // shards that one script looks at, and may unlink
	maxRanges = 50   // ranges of ids in a summary
)

// strays are the ids of stray shards, in order, by the prefix of their keys.
type strays map[string][]int64

// DeleteStrays unlinks the shards that no meta knows, and returns their number. It may run twice.
func (l *List) DeleteStrays(ctx context.Context) (deleted int64, err error) {
	found, err := l.strays(ctx, "unlink")
	for _, ids := range found {
		deleted += int64(len(ids))
	}
	return deleted, err
}

// strays finds, and with "unlink" unlinks, the shards under the list's name that no meta knows. It looks at all keys of the server that
// holds the list, twice. If it fails, it also returns what it has found so far.
func (l *List) strays(ctx context.Context, how string) (strays, error) {
	master, err := l.home(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := l.sessions.Read(straysScript, l.declared, "", "", 0).Run(ctx); err != nil { // there may be no list of this layout
		return nil, err
	}
	shards, err := l.scanShards(ctx, master)
	if err != nil {
		return nil, err
	}
	if err := l.leaveRenamed(ctx, master, shards); err != nil {
		return nil, err
	}
	began := time.Now()
	found, err := l.notKnown(ctx, "", shards, began)
	if err != nil || len(found) == 0 {
		return found, err
	}
	// A list that was renamed during the last scan has its new meta throughout this one.
	if err := l.leaveRenamed(ctx, master, found); err != nil || how == "" {
		return found, err
	}
	if err := l.isHome(ctx, master); err != nil { // or the meta of a list that was renamed may be elsewhere
		return nil, err
	}
	return l.notKnown(ctx, how, found, began)
}

// home returns the server that holds the list. After the slot has moved, a cluster client may not know yet: then it asks all masters.
func (l *List) home(ctx context.Context) (master redis.Cmdable, err error) {
	cluster, isCluster := l.Client().(*redis.ClusterClient)
	holds := func(ctx context.Context, node redis.Cmdable) bool {
		err := node.Exists(ctx, l.keys.Meta).Err()
		return err == nil || script.IsReply(err) && !redis.HasErrorPrefix(err, "MOVED ")
	}
	if master, err = script.Master(ctx, l.Client(), l.keys.Meta); err != nil || !isCluster || holds(ctx, master) {
		return master, err
	}
	var found atomic.Pointer[redis.Client]
	err = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		if holds(ctx, node) {
			found.Store(node)
		}
		return nil
	})
	if node := found.Load(); node != nil {
		return node, nil
	} else if err == nil {
		err = errors.New("no node of the cluster says that it has the slot of the list")
	}
	return nil, err
}

// isHome returns an error unless a server has held all keys of the list since home returned it.
func (l *List) isHome(ctx context.Context, master redis.Cmdable) error {
	if _, isCluster := l.Client().(*redis.ClusterClient); !isCluster {
		return nil
	}
	if err := master.Exists(ctx, l.keys.Meta, l.keys.Prefix+"never").Err(); err != nil { // a slot that moves lacks the second
		return fmt.Errorf("TRYAGAIN the list is moving to another node: %w", err)
	}
	return nil
}

// notKnown returns those of the shards that meta does not know, and with "unlink" unlinks them. Not those that expired soon when it began: the
// shards of one list have one TTL, and all or none of them count.
func (l *List) notKnown(ctx context.Context, how string, shards strays, began time.Time) (strays, error) {
	found := strays{}
	for prefix, ids := range shards {
		for step := range slices.Chunk(ids, strayStep) {
			args := []any{how, prefix, max(0, CopyLife-time.Since(began)).Milliseconds()}
			for _, id := range step {
				args = append(args, id)
			}
			reply, err := l.sessions.Read(straysScript, l.declared, args...).Run(ctx)
			if err != nil {
				return found, err
			}
			for _, word := range reply.([]any) {
				id, err := strconv.ParseInt(word.(string), 10, 64)
				if err != nil {
					return found, err
				}
				found[prefix] = append(found[prefix], id)
			}
		}
	}
	return found, nil
}

// scanShards returns all shards under the list's name.
func (l *List) scanShards(ctx context.Context, master redis.Cmdable) (strays, error) {
	shards := strays{}
	err := scan(ctx, master, l.keys.Glob(), func(key string) error {
		suffix, ours := strings.CutPrefix(key, l.keys.Prefix)
		if !ours || !shardSuffix.MatchString(suffix) {
			return nil
		}
		prefix := key[:strings.LastIndexByte(key, ':')+1]
		id, err := strconv.ParseInt(key[len(prefix):], 10, 64)
		if err == nil {
			shards[prefix] = append(shards[prefix], id)
		}
		return nil
	})
	for prefix, ids := range shards {
		slices.Sort(ids)
		shards[prefix] = slices.Compact(ids) // SCAN may find a key twice
	}
	return shards, err
}

var shardSuffix = regexp.MustCompile(`^(?:` + shardForm + `)$`)

// ShardPrefix returns the prefix of the shards of a list, if a key has the form of one.
func ShardPrefix(key string) (prefix string, ok bool) {
	if !shardSuffix.MatchString(key[strings.LastIndex(key, ":#")+1:]) {
		return "", false
	}
	return key[:strings.LastIndexByte(key, ':')+1], true
}

// leaveRenamed removes the shards of lists that were created under this name and have been renamed.
func (l *List) leaveRenamed(ctx context.Context, master redis.Cmdable, shards strays) error {
	if len(shards) == 0 {
		return nil
	}
	return scan(ctx, master, "*:meta", func(key string) error {
		if key == l.keys.Meta {
			return nil // the script reads it
		}
		var fields []any
		err := script.Retry(ctx, func() (err error) {
			fields, err = master.HMGet(ctx, key, "layout", "stale").Result()
			return err
		})
		if err != nil && !redis.HasErrorPrefix(err, "WRONGTYPE ") {
			return err
		}
		for _, field := range fields {
			text, _ := field.(string)
			if !strings.HasSuffix(text, ":") { // an identity, without the prefix of the list that has it
				text = strings.TrimSuffix(key, "meta") + text[strings.LastIndexByte(text, ' ')+1:] + ":"
			}
			maps.DeleteFunc(shards, func(prefix string, _ []int64) bool { return strings.Contains(text, prefix) })
		}
		return nil
	})
}

// scan calls do with each key that matches a pattern, some perhaps twice.
func scan(ctx context.Context, master redis.Cmdable, pattern string, do func(key string) error) error {
	for cursor, first := uint64(0), true; first || cursor != 0; first = false {
		var keys []string
		var next uint64
		err := script.Retry(ctx, func() (err error) {
			keys, next, err = master.Scan(ctx, cursor, pattern, scanKeys).Result()
			return err
		})
		if err != nil {
			return err
		}
		cursor = next
		for _, key := range keys {
			if err := do(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// String writes the ids as ranges, and their number.
func (s strays) String() string {
	var texts []string
	for _, prefix := range slices.Sorted(maps.Keys(s)) {
		texts = append(texts, summary(s[prefix]))
	}
	return strings.Join(texts, ", ")
}

// summary writes ids, which are in order, as ranges and their number.
func summary(ids []int64) string {
	var ranges []string
	for from := 0; from < len(ids); {
		to := from
		for to+1 < len(ids) && ids[to+1] == ids[to]+1 {
			to++
		}
		switch {
		case len(ranges) == maxRanges:
			return fmt.Sprintf("%s … (%d in all)", strings.Join(ranges, ", "), len(ids))
		case from == to:
			ranges = append(ranges, strconv.FormatInt(ids[from], 10))
		default:
			ranges = append(ranges, fmt.Sprintf("%d..%d", ids[from], ids[to]))
		}
		from = to + 1
	}
	return fmt.Sprintf("%s (%d in all)", strings.Join(ranges, ", "), len(ids))
}
