package shardedlist

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/value"
)

// LPush inserts the values at the left end, one after the other, so that the last one becomes the leftmost, and returns
// the length of the list after it: LPUSH.
//
// Values are what go-redis takes: strings, byte slices, numbers, bools, times, durations, encoding.BinaryMarshaler, and a
// lone []string or []any for its elements. There is no value that may not be pushed.
//
// It is atomic, whatever number of shards the values fill: all of them or none, next to each other. A call with more than
// 262,144 values or 64 MiB is split into atomic parts of at most that size; an error then comes with the length after the
// last part that was pushed. It costs O(values).
//
// It returns ErrNoValues or ErrValue, with nothing sent, ErrWrongType or ErrLayout for a list that is not one of ours, and
// the server's own errors. An error that the server replied with, out of memory for one, changed nothing.
//
// It is done once: if a reply is lost, it is repeated under its number until the deadline of ctx, or for ten seconds if it has
// none, and for thirty at the most. If it is given up before its outcome is known, the error is ErrOutcomeUnknown; a ctx that ends
// while a push is in flight does so only if the server does not answer for another half a second. Callers at the same end that find
// a push in flight share the next one; each has a result of its own.
func (l *ShardedList) LPush(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.push(ctx, layout.Left, values)
	return length, l.wrap("lpush", err)
}

// RPush is LPush at the right end, where the last value becomes the rightmost: RPUSH.
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

// LPushX is LPush for a list that has elements. If it has none, nothing is pushed and the length is 0: LPUSHX.
//
// Like all methods of this family it is done once, as LPush is, but callers do not share operations. A call that LPush would
// split is split likewise, and ends with the first part that finds the list empty. Its errors are those of LPush.
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
