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
	return l.inSteps(search{value: pivot, direction: 1, enough: 1}, func(known string) session.Operation {
		op := l.operation(linsertScript, 5)
		op.Append(where, pivot, value, l.capacity.word(), known)
		op.Orders = l.bothEnds()
		return op
	})
}

// Remove removes elements that equal a value.
func (l *List) Remove(count int64, value any) session.Operation {
	what := search{value: value, direction: 1, enough: max(count, -count, 0)}
	if count < 0 {
		what.direction = -1
	}
	return l.inSteps(what, func(known string) session.Operation {
		op := l.operation(lremScript, 3)
		op.Append(count, value, known)
		return op
	})
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
	pace := sweepPace()
	for unswept == int64(1) {
		start := time.Now()
		unswept, _ = l.read(sweepScript, pace.size).Run(ctx)
		pace.adapt(time.Since(start))
	}
}

const (
	minSweep = 20
	maxSweep = 320
	// sweepTime is how much longer a step may take than a quick one, since other clients of the server wait meanwhile.
	sweepTime = 400 * time.Microsecond
)

func sweepPace() pace { return pace{size: minSweep, least: minSweep, most: maxSweep, time: sweepTime} }

// pace is the size of a step. How long one takes depends on the elements and on the server.
type pace struct {
	size, least, most int
	time              time.Duration // how much longer a step may take than the quickest one
	tries             int           // of how many steps the quickest counts, since others may wait for the server, too
	quickest          time.Duration // the network's part in all of them
	tried             int
	best              time.Duration // of those that were tried
}

// adapt doubles the step if the last one took little time, and halves it if it took much.
func (p *pace) adapt(took time.Duration) {
	if p.quickest == 0 || took < p.quickest {
		p.quickest = took
	}
	if p.tried++; p.tried == 1 || took < p.best {
		p.best = took
	}
	if p.tried < p.tries {
		return
	}
	p.tried = 0
	switch beyond := p.best - p.quickest; {
	case beyond > p.time:
		p.size = max(p.least, p.size/2)
	case beyond < p.time/2:
		p.size = min(p.most, p.size*2)
	}
}
