package shardedlist

import (
	"context"
	"iter"
)

// scanStep is how many elements All reads at once, a shard more at the most.
const scanStep = 1000

// LLen returns the number of elements: LLEN. It is 0 for a list that does not exist. It costs O(1), whatever the number of
// shards. It returns ErrWrongType or ErrLayout for a list that is not one of ours, and the server's own errors.
func (l *ShardedList) LLen(ctx context.Context) (int64, error) {
	length, err := l.length(ctx)
	return length, l.wrap("llen", err)
}

func (l *ShardedList) length(ctx context.Context) (int64, error) {
	return integer(l.run(ctx, llenScript))
}

// LIndex returns the element at a zero-based index, a negative one counting from the right end, where -1 is the last
// element: LINDEX. It returns redis.Nil if there is no such element.
//
// It costs O(1) in the number of shards, and O(capacity) within the shard that holds the element, where LINDEX itself costs
// O(length). Its errors are those of LLen.
func (l *ShardedList) LIndex(ctx context.Context, index int64) (string, error) {
	reply, err := l.run(ctx, lindexScript, index)
	if err != nil {
		return "", l.wrap("lindex", err)
	}
	return reply.(string), nil
}

// LRange returns the elements from start to stop, both included, zero-based, negative ones counting from the right end:
// LRANGE. Indices beyond the ends are no error; a list without elements there gives none.
//
// It costs O(elements returned + capacity), wherever in the list they are, in one atomic step that holds the server for as
// long. All reads a long list in bounded steps. Its errors are those of LLen.
func (l *ShardedList) LRange(ctx context.Context, start, stop int64) ([]string, error) {
	reply, err := l.run(ctx, lrangeScript, start, stop)
	if err != nil {
		return nil, l.wrap("lrange", err)
	}
	return flatten(reply.([]any)), nil
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
		next, final := "", ""
		for {
			reply, err := l.run(ctx, scanScript, next, final, scanStep)
			if err != nil {
				yield("", l.wrap("all", err))
				return
			}
			parts := reply.([]any)
			next, final = parts[0].(string), parts[1].(string)
			for _, value := range flatten(parts[2].([]any)) {
				if !yield(value, nil) {
					return
				}
			}
			if next == "" {
				return
			}
		}
	}
}
