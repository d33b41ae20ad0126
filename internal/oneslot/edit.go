package oneslot

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	lsetScript    = script.Load("lset")
	linsertScript = script.Load("linsert")
	lremScript    = script.Load("lrem")
	ltrimScript   = script.Load("ltrim")
	delScript     = script.Load("del")
	sweepScript   = script.Load("sweep")
)

// Set replaces an element.
func (l *List) Set(index, value any) session.Operation {
	op := l.operation(lsetScript, 2)
	op.Append(index, value)
	return op
}

// Insert inserts a value "before" or "after" the leftmost element that equals the pivot.
func (l *List) Insert(where, pivot, value any) session.Operation {
	op := l.operation(linsertScript, 3)
	op.Append(where, pivot, value)
	op.Orders = []*session.Order{&l.left.order, &l.right.order}
	return op
}

// Remove removes elements that equal a value.
func (l *List) Remove(count, value any) session.Operation {
	op := l.operation(lremScript, 2)
	op.Append(count, value)
	return op
}

// Trim keeps the elements from start to stop. It then unlinks the removed shards in bounded steps.
func (l *List) Trim(start, stop any) session.Operation {
	op := l.operation(ltrimScript, 2)
	op.Append(start, stop)
	op.Finish = func(ctx context.Context, unswept any) (any, error) {
		l.sweep(ctx, unswept)
		return "OK", nil
	}
	return op
}

// Delete deletes the list, and then unlinks its shards in bounded steps. It may run twice.
func (l *List) Delete() session.Operation {
	op := l.sessions.Read(delScript, l.declared)
	op.Finish = func(ctx context.Context, reply any) (any, error) {
		flags := reply.([]any)
		l.sweep(ctx, flags[1])
		return flags[0] == int64(1), nil
	}
	return op
}

// sweep unlinks the shards that an operation removed from the list, if its reply says that there are any. If it is interrupted,
// later operations continue.
func (l *List) sweep(ctx context.Context, unswept any) {
	for unswept == int64(1) {
		unswept, _ = l.read(sweepScript).Run(ctx)
	}
}
