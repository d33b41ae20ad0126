package shardedlist

import (
	"context"

	encoding "github.com/shardedlist/shardedlist/internal/value"
)

// LSet replaces the element at an index: LSET. The value is encoded as by LPush.
//
// It is O(capacity), whatever the number of shards, and is applied exactly once. It returns ErrValue if go-redis cannot encode
// the value, before anything is sent. The server's error is "ERR no such key" if the list is empty, and "ERR index out of
// range" if there is no such element. See [ShardedList] for retries, cancellation and other errors.
func (l *ShardedList) LSet(ctx context.Context, index int64, value any) error {
	values, err := encoding.Each([]any{value})
	if err == nil {
		_, err = l.list.Set(index, values[0]).Run(ctx)
	}
	return l.wrap("lset", err)
}

// LInsertBefore inserts the value before the leftmost element that equals the pivot. It returns the length of the list after
// that, or -1 if there is no such element, or 0 if the list is empty: LINSERT BEFORE.
//
// It is O(elements up to the pivot), as in Redis, in steps of 50,000 elements like [ShardedList.LPos]; the last step inserts, and is O(shards
// from the pivot to the nearer end), because each of them passes one element on to the next. It is applied exactly once. It returns ErrValue if go-redis cannot encode the
// pivot or the value, before anything is sent. See [ShardedList] for retries, cancellation and other errors.
func (l *ShardedList) LInsertBefore(ctx context.Context, pivot, value any) (length int64, err error) {
	return l.LInsert(ctx, "before", pivot, value)
}

// LInsertAfter inserts the value after the pivot. Otherwise it is like LInsertBefore: LINSERT AFTER.
func (l *ShardedList) LInsertAfter(ctx context.Context, pivot, value any) (length int64, err error) {
	return l.LInsert(ctx, "after", pivot, value)
}

// LInsert is LInsertBefore if op is "before", and LInsertAfter if op is "after", in upper or lower case: LINSERT. For any other
// op, the server's error is "ERR syntax error".
func (l *ShardedList) LInsert(ctx context.Context, op string, pivot, value any) (length int64, err error) {
	values, err := encoding.Each([]any{pivot, value})
	if err != nil {
		return 0, l.wrap("linsert", err)
	}
	return resultOf[int64](ctx, l, "linsert", l.list.Insert(op, values[0], values[1]))
}

// LRem removes elements that equal the value, and returns the number removed: LREM. It removes the first count matches from the
// left end, or from the right end if count is negative, or all matches if count is 0.
//
// It is O(elements searched), as in Redis, in steps of 50,000 elements like [ShardedList.LPos]; the last step removes, and is O(elements
// moved) to fill the gaps from the nearer end of the list. No element moves twice. LRem works while the memory of the server is full, and is applied exactly once. It returns
// ErrValue if go-redis cannot encode the value, before anything is sent. See [ShardedList] for retries, cancellation and other
// errors.
func (l *ShardedList) LRem(ctx context.Context, count int64, value any) (removed int64, err error) {
	values, err := encoding.Each([]any{value})
	if err != nil {
		return 0, l.wrap("lrem", err)
	}
	return resultOf[int64](ctx, l, "lrem", l.list.Remove(count, values[0]))
}

// LTrim keeps the elements from start to stop, both included, and removes all others: LTRIM. Indices beyond the ends are no
// error. If there is no element in the range, LTrim deletes the list.
//
// The other elements are gone after one atomic step, whose cost does not depend on their number: it is O(capacity). LTrim then
// unlinks their shards in further steps, as Del does. If it is interrupted there, later operations unlink the rest. It works
// while the memory of the server is full, and is applied exactly once. See [ShardedList] for retries, cancellation and errors.
func (l *ShardedList) LTrim(ctx context.Context, start, stop int64) error {
	_, err := l.list.Trim(start, stop).Run(ctx)
	return l.wrap("ltrim", err)
}
