package shardedlist

import (
	"context"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/survey"
)

// Scan yields the names of the lists that have elements and match a pattern of KEYS, such as "queue:*" or "*", as SCAN with TYPE list yields
// those of Redis's lists. It finds lists on all masters of a cluster, and on all servers of a ring that are up.
//
// A list that has elements all the time is yielded, once, unless its cluster slot moves meanwhile. The order is not defined. Every
// list of Redis is one, also if this library has not written it. Hashes of yours whose keys look like those
// of a list are not, either. A list that is broken is yielded, also
// if there are only shards that no meta knows; see [ShardedList.Check].
//
// It is O(keys of the servers), in steps of some thousand keys, and one O(1) step for each list, many of which share a round trip. A
// pattern without *, ? and [ is looked up at once. It remembers the names that it has found. If it fails, it ends with the error.
func Scan(ctx context.Context, rdb redis.UniversalClient, match string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if isNil(rdb) {
			yield("", ErrNilClient)
			return
		}
		options := survey.Options{Match: match, WithoutBytes: true}
		for row, err := range survey.Rows(ctx, rdb, options) {
			switch {
			case err != nil:
				yield("", fmt.Errorf("shardedlist: scan: %w", err))
				return
			case row.Again, row.Length == 0 && row.Err == nil:
				continue
			}
			if !yield(row.Name, nil) {
				return
			}
		}
	}
}
