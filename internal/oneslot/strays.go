package oneslot

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/script"
)

var straysScript = script.Load("strays")

const (
	scanKeys  = 1000 // keys that one SCAN looks at
	strayStep = 100  // shards that one script looks at, and may unlink
	maxRanges = 50   // ranges of ids in a summary
)

// DeleteStrays unlinks the shards that meta does not know, and returns their number. It may run twice.
func (l *List) DeleteStrays(ctx context.Context) (int64, error) {
	ids, err := l.strays(ctx, "unlink")
	return int64(len(ids)), err
}

// strays finds, and with "unlink" unlinks, the shards that meta does not know, and returns their ids in order. It looks at all keys
// of the server that holds the list. If it fails, it also returns what it has found so far.
func (l *List) strays(ctx context.Context, how string) (ids []int64, err error) {
	node, err := script.Master(ctx, l.Client(), l.keys.Meta)
	if err != nil {
		return nil, err
	}
	var shards []any
	look := func() error {
		reply, err := l.read(straysScript, append([]any{how}, shards...)...).Run(ctx)
		if err != nil {
			return err
		}
		for _, word := range reply.([]any) {
			id, err := strconv.ParseInt(word.(string), 10, 64)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		shards = shards[:0]
		return nil
	}
	if err := look(); err != nil { // at no shard: whether meta can be read, before the long search
		return nil, err
	}
	keys := node.Scan(ctx, 0, l.keys.Glob(), scanKeys).Iterator()
	for err == nil && keys.Next(ctx) {
		if id, ok := l.keys.ShardID(keys.Val()); ok {
			shards = append(shards, id)
		}
		if len(shards) == strayStep {
			err = look()
		}
	}
	if err == nil {
		err = keys.Err()
	}
	if err == nil && len(shards) > 0 {
		err = look()
	}
	slices.Sort(ids)
	return slices.Compact(ids), err // SCAN may find a key twice
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
