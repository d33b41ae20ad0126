package oneslot

import (
	"context"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
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
	op := l.operation(linsertScript, 4)
	op.Append(where, pivot, value, l.capacity.word())
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
func (l *List) Delete(key ...any) session.Operation {
	return orKey(l.read(delScript, key...), func(ctx context.Context, reply any) (any, error) {
		flags := reply.([]any)
		l.sweep(ctx, flags[1])
		return flags[0] == int64(1), nil
	})
}

// orKey is an operation of which the script may have replied for the key, where there is no list.
func orKey(op session.Operation, finish func(ctx context.Context, reply any) (any, error)) session.Operation {
	op.Finish = func(ctx context.Context, reply any) (any, error) {
		if parts, ok := reply.([]any); ok && parts[0] == "KEY" {
			return layout.OfKey{Reply: parts[1]}, nil
		}
		return finish(ctx, reply)
	}
	return op
}

// sweep unlinks the shards that an operation removed from the list, if its reply says that there are any. If it is interrupted,
// later operations continue.
func (l *List) sweep(ctx context.Context, unswept any) {
	pace := sweepPace{shards: minSweep}
	for unswept == int64(1) {
		start := time.Now()
		unswept, _ = l.read(sweepScript, pace.shards).Run(ctx)
		pace.adapt(time.Since(start))
	}
}

const (
	minSweep = 20
	maxSweep = 320
	// sweepTime is how much longer a step may take than a quick one, since other clients of the server wait meanwhile.
	sweepTime = 400 * time.Microsecond
)

// sweepPace is how many shards a step of a sweep unlinks. How long that takes depends on the elements and on the server.
type sweepPace struct {
	shards   int
	quickest time.Duration // of all steps: the network's part in them
}

// adapt doubles the step if the last one took little time, and halves it if it took much.
func (p *sweepPace) adapt(took time.Duration) {
	if p.quickest == 0 || took < p.quickest {
		p.quickest = took
	}
	switch beyond := took - p.quickest; {
	case beyond > sweepTime:
		p.shards = max(minSweep, p.shards/2)
	case beyond < sweepTime/2:
		p.shards = min(maxSweep, p.shards*2)
	}
}
