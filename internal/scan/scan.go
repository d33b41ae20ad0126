// Package scan finds keys: on a server, on all masters of a cluster, and on the servers of a ring, in bounded steps.
//
// The package knows SCAN. It does not know what the keys are for.
package scan

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

// count is how many keys a SCAN looks at: a server takes well under a millisecond for them.
const count = 1000

// Filter says which keys are wanted.
type Filter struct {
	Pattern string // as for KEYS
	Type    string // as of TYPE
}

// Page is what one step has found.
type Page struct {
	Keys   [][]string // for each filter; a key may be found twice
	Looked int64      // how many keys the step has looked at, about
}

// Pages yields the keys that are there all the time, and match a filter. A step is one pipeline with one SCAN for each filter. Masters
// are scanned at the same time, each by one step after the other, and by none while the caller is busy. If one of them fails, the others
// are scanned nevertheless, and then the error is yielded.
func Pages(ctx context.Context, rdb redis.UniversalClient, filters ...Filter) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan Page)
		var err error
		go func() {
			defer close(pages)
			err = EachMaster(ctx, rdb, func(ctx context.Context, master redis.UniversalClient) error {
				return scanOne(ctx, master, filters, pages)
			})
		}()
		defer func() {
			cancel()
			for range pages { // until the goroutine has ended
			}
		}()
		for page := range pages {
			if !yield(page, nil) {
				return
			}
		}
		if err != nil {
			yield(Page{}, err)
		}
	}
}

// EachMaster calls do for each server that holds keys, several at a time.
func EachMaster(ctx context.Context, rdb redis.UniversalClient, do func(ctx context.Context, master redis.UniversalClient) error) error {
	each := func(ctx context.Context, master *redis.Client) error { return do(ctx, master) }
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, each)
	case *redis.Ring:
		return rdb.ForEachShard(ctx, each)
	}
	return do(ctx, rdb)
}

// scanOne sends what there is on one server.
func scanOne(ctx context.Context, master redis.UniversalClient, filters []Filter, pages chan<- Page) error {
	cursors := make([]string, len(filters))
	for i := range cursors {
		cursors[i] = "0"
	}
	for step := 0; ; step++ {
		page := Page{Keys: make([][]string, len(filters)), Looked: count}
		var pending bool
		err := script.Retry(ctx, func() (err error) {
			pending, err = scanStep(ctx, master, filters, cursors, step == 0, &page)
			return err
		})
		if err != nil {
			return err
		}
		select {
		case pages <- page:
		case <-ctx.Done():
			return ctx.Err()
		}
		if !pending {
			return nil
		}
	}
}

// scanStep moves all cursors by one SCAN, and reports whether there is more.
func scanStep(ctx context.Context, master redis.UniversalClient, filters []Filter, cursors []string, first bool, page *Page) (pending bool, err error) {
	pipe := master.Pipeline()
	cmds := make([]*script.Command, len(filters))
	for i, f := range filters {
		if cursors[i] != "0" || first {
			cmds[i] = script.NewCommand(ctx, "scan", cursors[i], "match", f.Pattern, "count", count, "type", f.Type)
			_ = pipe.Process(ctx, cmds[i])
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return false, err
	}
	for i, cmd := range cmds {
		if cmd == nil {
			continue
		}
		if cursors[i], page.Keys[i], err = readScan(cmd.Val()); err != nil {
			return false, err
		}
		pending = pending || cursors[i] != "0"
	}
	return pending, nil
}

func readScan(reply any) (cursor string, keys []string, err error) {
	fields, ok := reply.([]any)
	if !ok || len(fields) != 2 {
		return "", nil, fmt.Errorf("SCAN replied %q", fmt.Sprint(reply))
	}
	cursor, _ = fields[0].(string)
	if _, err := strconv.ParseUint(cursor, 10, 64); err != nil {
		return "", nil, fmt.Errorf("SCAN replied with the cursor %q", cursor)
	}
	found, _ := fields[1].([]any)
	for _, key := range found {
		if key, ok := key.(string); ok {
			keys = append(keys, key)
		}
	}
	return cursor, keys, nil
}

// Size returns how many keys there are, also beside an error: on the servers that answered.
func Size(ctx context.Context, rdb redis.UniversalClient) (int64, error) {
	var size atomic.Int64
	err := EachMaster(ctx, rdb, func(ctx context.Context, master redis.UniversalClient) error {
		keys, err := master.DBSize(ctx).Result()
		size.Add(keys)
		return err
	})
	return size.Load(), err
}
