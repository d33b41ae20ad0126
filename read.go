package shardedlist

import (
	"context"
	"iter"

	"github.com/redis/go-redis/v9"
)

// LLen returns the number of elements: LLEN. It returns 0 if the list does not exist. It is O(1). See [ShardedList] for errors.
func (l *ShardedList) LLen(ctx context.Context) (int64, error) {
	return resultOf[int64](ctx, l, "llen", l.list.Length())
}

// LIndex returns the element at an index: LINDEX. It returns redis.Nil if there is no such element.
//
// It is O(capacity) at any index, whatever the number of shards. In Redis, LINDEX is O(length).
func (l *ShardedList) LIndex(ctx context.Context, index int64) (string, error) {
	element, err := l.list.Index(index).Run(ctx)
	if err == nil && element == nil {
		return "", redis.Nil
	}
	value, _ := element.(string)
	return value, l.wrap("lindex", err)
}

// LRange returns the elements from start to stop, both included: LRANGE. Indices beyond the ends are no error. If there is no
// element in the range, it returns none.
//
// It is one atomic step, O(elements returned + capacity) at any index, and blocks the server for that long. To read a long
// list, use All, which takes small steps.
func (l *ShardedList) LRange(ctx context.Context, start, stop int64) ([]string, error) {
	return resultOf[[]string](ctx, l, "lrange", l.list.Range(start, stop))
}

// All returns the elements from left to right. It reads about a thousand elements at a time, so that no step blocks the server
// for long and no reply is large. It has no Redis command: it is to LRange what SCAN is to KEYS.
//
// Each step is atomic, but not the whole. All returns an element that stays in the list the whole time exactly once, and in its
// place. It may or may not return an element that is pushed or popped meanwhile. If LInsert or LRem runs meanwhile, All may
// miss an element that it moves between shards, or return it twice. All ends however fast other clients push.
//
// A list that was a plain one is split into shards first, as by Adopt. One that is still a plain list, or is being restored, is read
// as by repeated calls of LRange: what others pop from the left meanwhile moves the rest. If Restore begins while All runs, All fails
// with ErrReversed.
//
// If a step fails, All yields the error as the last pair.
func (l *ShardedList) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for value, err := range l.list.All(ctx) {
			if !yield(value, l.wrap("all", err)) {
				return
			}
		}
	}
}

// LPos returns the index of the leftmost element that equals the value: LPOS. It returns redis.Nil if there is none.
//
// If Rank is n, LPos returns the index of the nth match. A negative Rank counts matches from the right end. If MaxLen is set,
// LPos compares at most that many elements.
//
// It is O(elements compared), as in Redis. Of a list of more than 50,000 elements, it compares as many in a step, so that other clients need
// not wait. The index is that of the moment of the last step, whatever others have changed meanwhile.
func (l *ShardedList) LPos(ctx context.Context, value string, args redis.LPosArgs) (index int64, err error) {
	found, err := l.list.Positions(posArgs([]any{value}, args)...).Run(ctx)
	if err == nil && found == nil {
		return 0, redis.Nil
	}
	index, _ = found.(int64)
	return index, l.wrap("lpos", err)
}

// LPosCount returns the indices of the first count matches in the order found, or of all matches if count is 0: LPOS with
// COUNT. If there are none, it returns an empty slice. Otherwise it is like LPos.
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

// posArgs appends the arguments of LPOS that go-redis sends: it leaves out those that are 0.
func posArgs(words []any, args redis.LPosArgs) []any {
	if args.Rank != 0 {
		words = append(words, "rank", args.Rank)
	}
	if args.MaxLen != 0 {
		words = append(words, "maxlen", args.MaxLen)
	}
	return words
}
