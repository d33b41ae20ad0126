package shardedlist

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// LPushX is LPush for a list that has elements. If it has none, nothing is pushed and the length is 0: LPUSHX.
//
// Like all methods of this family it is done once, as LPush is, but callers do not share operations. A call that LPush would
// split is split likewise, and ends with the first part that finds the list empty. Its errors are those of LPush.
func (l *ShardedList) LPushX(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.pushX(ctx, left, values)
	return length, l.wrap("lpushx", err)
}

// RPushX is LPushX at the right end: RPUSHX.
func (l *ShardedList) RPushX(ctx context.Context, values ...any) (length int64, err error) {
	length, err = l.pushX(ctx, right, values)
	return length, l.wrap("rpushx", err)
}

func (l *ShardedList) pushX(ctx context.Context, end side, values []any) (length int64, err error) {
	values, err = l.encode(ctx, values)
	for isDone(err) && len(values) > 0 {
		var pushed int64
		size, _ := callSize(values)
		if pushed, err = integer(l.edit(ctx, l.pushXOperation(end, values[:size]))); !isDone(err) {
			break
		}
		if length, values = pushed, values[size:]; length == 0 {
			break
		}
	}
	return length, err
}

// pushXOperation pushes values onto a list that has elements: it names no capacity to create one with.
func (l *ShardedList) pushXOperation(end side, values []any) operation {
	o := l.operation(pushScript, 2+len(values))
	o.args = append(append(o.args, string(end), ""), values...)
	return o
}

// LSet replaces the element at a zero-based index, a negative one counting from the right end: LSET. The server's error is
// "ERR no such key" if the list is empty, and "ERR index out of range" if there is no such element.
//
// It costs O(1) in the number of shards, and O(capacity) within the shard that holds the element. The value is encoded as by
// LPush. Its other errors are those of LPush.
func (l *ShardedList) LSet(ctx context.Context, index int64, value any) error {
	values, err := encodeEach([]any{value})
	if err == nil {
		_, err = l.edit(ctx, l.setOperation(index, values[0]))
	}
	return l.wrap("lset", err)
}

func (l *ShardedList) setOperation(index, value any) operation {
	o := l.operation(lsetScript, 2)
	o.args = append(o.args, index, value)
	return o
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
	values, err := encodeEach([]any{pivot, value})
	if err == nil {
		length, err = integer(l.edit(ctx, l.insertOperation(op, values[0], values[1])))
	}
	return length, l.wrap("linsert", err)
}

func (l *ShardedList) insertOperation(op, pivot, value any) operation {
	o := l.operation(linsertScript, 3)
	o.args = append(o.args, op, pivot, value)
	return o
}

// LRem removes elements that equal the value, and returns how many: LREM. It removes the count leftmost ones, or the rightmost
// ones if count is negative, or all if it is 0.
//
// It costs O(elements searched), as in Redis. Gaps are then closed from the nearer end of the list, which costs O(elements that
// move): up to as many as were removed from each shard on the way, and none twice. It works on a server whose memory is
// full. Its other errors are those of LPush.
func (l *ShardedList) LRem(ctx context.Context, count int64, value any) (removed int64, err error) {
	values, err := encodeEach([]any{value})
	if err == nil {
		removed, err = integer(l.edit(ctx, l.remOperation(count, values[0])))
	}
	return removed, l.wrap("lrem", err)
}

func (l *ShardedList) remOperation(count, value any) operation {
	o := l.operation(lremScript, 2)
	o.args = append(o.args, count, value)
	return o
}

// LTrim keeps the elements from start to stop, both included, zero-based, negative ones counting from the right end, and drops
// all others: LTRIM. Indices beyond the ends are no error; if there are no elements between them, the list is deleted.
//
// The others are gone in one atomic step of constant cost, whatever their number. Their shards are then unlinked in bounded
// steps, before LTrim returns, or by later operations, as by Del. It works on a server whose memory is full. Its errors are
// those of LPush.
func (l *ShardedList) LTrim(ctx context.Context, start, stop int64) error {
	unswept, err := l.edit(ctx, l.trimOperation(start, stop))
	if isDone(err) {
		l.sweep(ctx, unswept)
	}
	return l.wrap("ltrim", err)
}

func (l *ShardedList) trimOperation(start, stop any) operation {
	o := l.operation(ltrimScript, 2)
	o.args = append(o.args, start, stop)
	return o
}

// LPos returns the index of the leftmost element that equals the value, or redis.Nil if there is none: LPOS. With a Rank it is
// the index of the match of that rank, a negative one counting matches from the right end. With a MaxLen only so many
// elements are compared.
//
// It costs O(elements compared), as in Redis, in one atomic step. The server's errors are those of LPOS; the others are those
// of LLen.
func (l *ShardedList) LPos(ctx context.Context, value string, args redis.LPosArgs) (index int64, err error) {
	index, err = integer(l.run(ctx, lposScript, posArgs([]any{value}, args)...))
	return index, l.wrap("lpos", err)
}

// LPosCount returns the indices of the first count matches, or of all if count is 0, in the order they are found: LPOS with a
// COUNT. If there are none it returns none. It is otherwise LPos.
func (l *ShardedList) LPosCount(ctx context.Context, value string, count int64, args redis.LPosArgs) ([]int64, error) {
	reply, err := l.run(ctx, lposScript, posArgs([]any{value, "count", count}, args)...)
	if err != nil {
		return nil, l.wrap("lpos", err)
	}
	found := reply.([]any)
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

// integer reads a reply that is a number.
func integer(reply any, err error) (int64, error) {
	if !isDone(err) {
		return 0, err
	}
	return reply.(int64), err
}
