package shardedlist

import (
	"context"

	encoding "github.com/shardedlist/shardedlist/internal/value"
)

// LSet replaces the element at a zero-based index, a negative one counting from the right end: LSET. The server's error is
// "ERR no such key" if the list is empty, and "ERR index out of range" if there is no such element.
//
// It costs O(1) in the number of shards, and O(capacity) within the shard that holds the element. The value is encoded as by
// LPush. Its other errors are those of LPush.
func (l *ShardedList) LSet(ctx context.Context, index int64, value any) error {
	values, err := encoding.Each([]any{value})
	if err == nil {
		_, err = l.list.Set(index, values[0]).Run(ctx)
	}
	return l.wrap("lset", err)
}

// LInsertBefore inserts the value before the leftmost element that equals the pivot, and returns the length of the list after
// it, -1 if there is no such element, or 0 if the list is empty: LINSERT BEFORE.
//
// It costs O(elements up to the pivot), as in Redis, and then O(shards from there to the nearer end), each of which hands one
// element on to the next. Its errors are those of LPush.
func (l *ShardedList) LInsertBefore(ctx context.Context, pivot, value any) (length int64, err error) {
	return l.LInsert(ctx, "before", pivot, value)
}

// LInsertAfter is LInsertBefore for the place behind the pivot: LINSERT AFTER.
func (l *ShardedList) LInsertAfter(ctx context.Context, pivot, value any) (length int64, err error) {
	return l.LInsert(ctx, "after", pivot, value)
}

// LInsert is LInsertBefore or LInsertAfter, as op says, "before" or "after" in whatever case: LINSERT. For any other op, the
// server's error is "ERR syntax error".
func (l *ShardedList) LInsert(ctx context.Context, op string, pivot, value any) (length int64, err error) {
	values, err := encoding.Each([]any{pivot, value})
	if err != nil {
		return 0, l.wrap("linsert", err)
	}
	return resultOf[int64](ctx, l, "linsert", l.list.Insert(op, values[0], values[1]))
}

// LRem removes elements that equal the value, and returns how many: LREM. It removes the count leftmost ones, or the rightmost
// ones if count is negative, or all if it is 0.
//
// It costs O(elements searched), as in Redis. Gaps are then closed from the nearer end of the list, which costs O(elements that
// move): up to as many as were removed from each shard on the way, and none twice. It works on a server whose memory is
// full. Its other errors are those of LPush.
func (l *ShardedList) LRem(ctx context.Context, count int64, value any) (removed int64, err error) {
	values, err := encoding.Each([]any{value})
	if err != nil {
		return 0, l.wrap("lrem", err)
	}
	return resultOf[int64](ctx, l, "lrem", l.list.Remove(count, values[0]))
}

// LTrim keeps the elements from start to stop, both included, zero-based, negative ones counting from the right end, and drops
// all others: LTRIM. Indices beyond the ends are no error; if there are no elements between them, the list is deleted.
//
// The others are gone in one atomic step of constant cost, whatever their number. Their shards are then unlinked in bounded
// steps, before LTrim returns, or by later operations, as by Del. It works on a server whose memory is full. Its errors are
// those of LPush.
func (l *ShardedList) LTrim(ctx context.Context, start, stop int64) error {
	_, err := l.list.Trim(start, stop).Run(ctx)
	return l.wrap("ltrim", err)
}
