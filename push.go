package shardedlist

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/value"
)

// LPush inserts the values at the left end, one after the other, so that the last value becomes the leftmost element. It
// returns the length of the list after the push: LPUSH.
//
// A value is what go-redis accepts: a string, byte slice, number, bool, time, duration or [encoding.BinaryMarshaler]. If the
// only value is a []string or []any, its elements are pushed. Any bytes are allowed.
//
// A push adds all values or none, next to each other, over any number of shards. It is O(values). A push above 262,144 values
// or 64 MiB is split into atomic parts of at most that size; in a list that is spread over many slots, one above 4 times the
// capacity or 1 MiB is. If a part fails, the parts before it stay applied, and LPush returns the error and the length after the
// last part that succeeded.
//
// LPush is applied exactly once. Goroutines that call LPush while one is in flight share the next operation. Before anything is
// sent, LPush returns ErrNoValues if there is no value, and ErrValue if go-redis cannot encode one. See [ShardedList] for
// retries, cancellation and other errors.
func (l *ShardedList) LPush(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.push(ctx, layout.Left, values)
	return length, l.wrap("lpush", err)
}

// RPush is LPush at the right end. The last value becomes the rightmost element: RPUSH.
func (l *ShardedList) RPush(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.push(ctx, layout.Right, values)
	return length, l.wrap("rpush", err)
}

func (l *ShardedList) push(ctx context.Context, end layout.End, values []any) (length int64, err error) {
	values, err = value.Spread(l.list.Client(), values)
	if err != nil {
		return 0, err
	}
	return l.list.Push(ctx, end, values)
}

// LPushX is LPush for a list that has elements. If the list is empty, it pushes nothing and returns 0: LPUSHX.
//
// It is applied exactly once, but callers do not share operations. If it is split, it stops at a part that finds the list
// empty.
func (l *ShardedList) LPushX(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.pushX(ctx, layout.Left, values)
	return length, l.wrap("lpushx", err)
}

// RPushX is LPushX at the right end: RPUSHX.
func (l *ShardedList) RPushX(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.pushX(ctx, layout.Right, values)
	return length, l.wrap("rpushx", err)
}

func (l *ShardedList) pushX(ctx context.Context, end layout.End, values []any) (length int64, err error) {
	values, err = value.Spread(l.list.Client(), values)
	if err != nil {
		return 0, err
	}
	result, err := l.list.PushX(end, values).Run(ctx)
	length, _ = result.(int64)
	return length, err
}
