package shardedlist

import (
	"context"
	"iter"

	"github.com/redis/go-redis/v9"
)

// LLen returns the number of elements: LLEN. It is 0 for a list that does not exist. It costs O(1), whatever the number of
// shards. It returns ErrWrongType or ErrLayout for a list that is not one of ours, and the server's own errors.
func (l *ShardedList) LLen(ctx context.Context) (int64, error) {
	return resultOf[int64](ctx, l, "llen", l.list.Length())
}

// LIndex returns the element at a zero-based index, a negative one counting from the right end, where -1 is the last
// element: LINDEX. It returns redis.Nil if there is no such element.
//
// It costs O(1) in the number of shards, and O(capacity) within the shard that holds the element, where LINDEX itself costs
// O(length). Its errors are those of LLen.
func (l *ShardedList) LIndex(ctx context.Context, index int64) (string, error) {
	element, err := l.list.Index(index).Run(ctx)
	if err == nil && element == nil {
		return "", redis.Nil
	}
	value, _ := element.(string)
	return value, l.wrap("lindex", err)
}

// LRange returns the elements from start to stop, both included, zero-based, negative ones counting from the right end:
// LRANGE. Indices beyond the ends are no error; a list without elements there gives none.
//
// It costs O(elements returned + capacity), wherever in the list they are, in one atomic step that holds the server for as
// long. All reads a long list in bounded steps. Its errors are those of LLen.
func (l *ShardedList) LRange(ctx context.Context, start, stop int64) ([]string, error) {
	return resultOf[[]string](ctx, l, "lrange", l.list.Range(start, stop))
}

// All returns the elements from left to right, in steps of about a thousand elements, so that no step stalls the server
// and no large reply gathers in memory. There is no Redis command for it; it is to LRange what SCAN is to KEYS.
//
// Each step is atomic, the whole is not. An element that is in the list all the while is returned exactly once and in its
// place; one that is pushed or popped meanwhile may be returned or not. While LInsert or LRem move elements from shard to shard,
// one of those may be missed or returned twice. It ends, however fast others push.
//
// After an error, which is the sequence's last pair, it stops. Its errors are those of LLen.
func (l *ShardedList) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for value, err := range l.list.All(ctx) {
			if !yield(value, l.wrap("all", err)) {
				return
			}
		}
	}
}

// LPos returns the index of the leftmost element that equals the value, or redis.Nil if there is none: LPOS. With a Rank it is
// the index of the match of that rank, a negative one counting matches from the right end. With a MaxLen only so many
// elements are compared.
//
// It costs O(elements compared), as in Redis, in one atomic step. The server's errors are those of LPOS; the others are those
// of LLen.
func (l *ShardedList) LPos(ctx context.Context, value string, args redis.LPosArgs) (index int64, err error) {
	found, err := l.list.Positions(posArgs([]any{value}, args)...).Run(ctx)
	if err == nil && found == nil {
		return 0, redis.Nil
	}
	index, _ = found.(int64)
	return index, l.wrap("lpos", err)
}

// LPosCount returns the indices of the first count matches, or of all if count is 0, in the order they are found: LPOS with a
// COUNT. If there are none it returns none. It is otherwise LPos.
func (l *ShardedList) LPosCount(ctx context.Context, value string, count int64, args redis.LPosArgs) ([]int64, error) {
	found, err := resultOf[[]any](ctx, l, "lpos", l.list.Positions(posArgs([]any{value, "count", count}, args)...))
	if err != nil {
		return nil, err
	}
	indices := make([]int64, len(found))
	for i, index := range found {
		indices[i] = index.(int64)
	}
	return indices, nil
}

// posArgs adds to the arguments of LPOS what go-redis adds: what is 0 is left out.
func posArgs(words []any, args redis.LPosArgs) []any {
	if args.Rank != 0 {
		words = append(words, "rank", args.Rank)
	}
	if args.MaxLen != 0 {
		words = append(words, "maxlen", args.MaxLen)
	}
	return words
}
