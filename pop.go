package shardedlist

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// LPop removes and returns the leftmost element: LPOP. It returns redis.Nil if the list is empty.
//
// It is O(1), and works while the memory of the server is full. It is applied exactly once. Goroutines that call LPop or
// LPopCount while one is in flight share the next operation. An element that LPop takes for a caller that gave up goes back to
// the left end. See [ShardedList] for retries, cancellation and errors.
func (l *ShardedList) LPop(ctx context.Context) (string, error) {
	value, err := l.popOne(ctx, layout.Left)
	return value, l.wrap("lpop", err)
}

// RPop is LPop at the right end: RPOP.
func (l *ShardedList) RPop(ctx context.Context) (string, error) {
	value, err := l.popOne(ctx, layout.Right)
	return value, l.wrap("rpop", err)
}

// LPopCount removes up to count elements from the left end and returns them in the order popped: LPOP with a count. It returns
// redis.Nil if the list is empty. If count is 0 and the list is not empty, it returns an empty slice.
//
// It is atomic over any number of shards, and O(count). A pop above 262,144 elements is split into atomic parts of that size.
// If a part fails, LPopCount returns the error together with the elements of the parts before it. It returns ErrNegativeCount
// if count is below 0, before anything is sent. Otherwise it is like LPop.
func (l *ShardedList) LPopCount(ctx context.Context, count int) ([]string, error) {
	values, err := l.popCount(ctx, layout.Left, count)
	return values, l.wrap("lpop", err)
}

// RPopCount is LPopCount at the right end. The rightmost element comes first: RPOP with a count.
func (l *ShardedList) RPopCount(ctx context.Context, count int) ([]string, error) {
	values, err := l.popCount(ctx, layout.Right, count)
	return values, l.wrap("rpop", err)
}

func (l *ShardedList) popOne(ctx context.Context, end layout.End) (string, error) {
	values, err := l.list.Pop(ctx, end, 1)
	switch {
	case !isDone(err):
		return "", err
	case len(values) == 0:
		return "", redis.Nil
	}
	return values[0], err
}

func (l *ShardedList) popCount(ctx context.Context, end layout.End, count int) ([]string, error) {
	if count == 0 {
		length, err := l.list.Length().Run(ctx)
		switch {
		case err != nil:
			return nil, err
		case length == int64(0):
			return nil, redis.Nil
		}
		return []string{}, nil
	}
	values, err := l.list.Pop(ctx, end, count)
	if isDone(err) && len(values) == 0 {
		return nil, redis.Nil
	}
	return values, err
}
