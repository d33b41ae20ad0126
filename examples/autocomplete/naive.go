package main

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// naiveComplete is Complete, without the details, as in the book. Names are of lower-case letters. It also returns how often it had to
// start again.
func naiveComplete(ctx context.Context, rdb redis.UniversalClient, prefix string) (names []string, again int, err error) {
	last := len(prefix) - 1
	id := "{" + uuid.NewString() // a brace comes right behind z
	before, behind := prefix[:last]+string(prefix[last]-1)+id, prefix+id
	if err := rdb.ZAdd(ctx, namesKey, redis.Z{Member: before}, redis.Z{Member: behind}).Err(); err != nil {
		return nil, 0, err
	}
	for {
		var found *redis.StringSliceCmd
		err := rdb.Watch(ctx, func(tx *redis.Tx) error {
			from, err := tx.ZRank(ctx, namesKey, before).Result()
			if err != nil {
				return err
			}
			to, err := tx.ZRank(ctx, namesKey, behind).Result()
			if err != nil {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.ZRem(ctx, namesKey, before, behind)
				found = pipe.ZRange(ctx, namesKey, from, min(from+most-1, to-2))
				return nil
			})
			return err
		}, namesKey)
		if err == nil {
			ofOthers := func(name string) bool { return strings.Contains(name, "{") }
			return slices.DeleteFunc(found.Val(), ofOthers), again, nil
		}
		if err != redis.TxFailedErr {
			return nil, again, err
		}
		again++
	}
}
