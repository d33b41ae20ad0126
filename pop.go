package shardedlist

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// LPop removes the leftmost element and returns it: LPOP. It returns redis.Nil if the list is empty.
//
// It costs O(1), and works on a server whose memory is full. It returns ErrWrongType or ErrLayout for a list that is not
// one of ours, and the server's own errors, with nothing changed.
//
// It is done once: if a reply is lost, it is repeated under its number until the deadline of ctx, or for ten seconds if it has
// none, and for thirty at the most. What it took for a caller that has given up goes back to the end it came from, as long as the
// server can be reached within a minute. Callers at the same end that find a pop in flight share the next one.
func (l *ShardedList) LPop(ctx context.Context) (string, error) {
	value, err := l.popOne(ctx, layout.Left)
	return value, l.wrap("lpop", err)
}

// RPop is LPop at the right end: RPOP.
func (l *ShardedList) RPop(ctx context.Context) (string, error) {
	value, err := l.popOne(ctx, layout.Right)
	return value, l.wrap("rpop", err)
}

// LPopCount removes up to count elements from the left end and returns them in the order they are popped: LPOP with a
// count. It returns redis.Nil if the list is empty, and no elements for a count of 0 if it is not.
//
// It is atomic, whatever number of shards the elements come from, and costs O(count). A count above 262,144 is split into
// atomic parts of that size; an error then comes with the elements of the parts that were popped. It returns
// ErrNegativeCount, with nothing sent, and otherwise the errors of LPop.
func (l *ShardedList) LPopCount(ctx context.Context, count int) ([]string, error) {
	values, err := l.popCount(ctx, layout.Left, count)
	return values, l.wrap("lpop", err)
}

// RPopCount is LPopCount at the right end, the rightmost element first: RPOP with a count.
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
