package oneslot

import (
	"context"
	"slices"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/value"
)

// A push with more values or bytes than this is sent in several atomic parts.
const (
	maxPushValues = 1 << 18
	maxPushBytes  = 64 << 20
)

var pushScript = script.Load("push")

// Push pushes encoded values, together with other callers at that end.
func (l *List) Push(ctx context.Context, side layout.End, values []any) (length int64, err error) {
	if err := l.Prepare(ctx); err != nil {
		return 0, err
	}
	var shortfall error
	for len(values) > 0 {
		pushed, count, err := l.at(side).pushPart(ctx, values, false)
		if !script.IsDone(err) {
			return length, err
		}
		if err != nil {
			shortfall = err
		}
		length, values = pushed, values[count:]
	}
	return length, shortfall
}

// pushPart pushes as many of the values as go into one atomic operation, and returns how many that are. putsBack says that they were
// popped there.
func (e *end) pushPart(ctx context.Context, values []any, putsBack bool) (length int64, count int, err error) {
	r := batch.NewRequest()
	count, r.Bytes = nextPart(values)
	r.Values, r.Count, r.PutsBack = values[:count], count, putsBack
	err = e.pusher.Do(ctx, r)
	if !script.IsDone(err) {
		return 0, count, err
	}
	length = r.Length
	r.Recycle()
	return length, count, err
}

// nextPart returns how many of the values go into the next part, and their bytes.
func nextPart(values []any) (count, bytes int) {
	return value.Part(values, maxPushValues, maxPushBytes)
}

// Pushes returns how pushes at an end are combined.
func (l *List) Pushes(side layout.End) *batch.Kind { return &l.at(side).pushes }

func (e *end) joinPushes(requests []*batch.Request) session.Operation {
	count, bytes, plain := 0, 0, e.list.plain
	for _, r := range requests {
		bytes += r.Bytes
		if count += r.Count; r.PutsBack {
			plain = e.list.putsBack
		}
	}
	op := e.list.sessions.Operation(pushScript, e.list.declared, 2+count, plain...)
	op.Orders = e.orders
	op.Elements, op.Values, op.PutsBack = e.pushed, count, batch.PutsBack(requests)
	op.Append(e.word, e.list.capacity.word())
	for _, r := range requests {
		op.Append(r.Values...)
	}
	if op.PutsBack == 0 && e.suitsAside(count, bytes) {
		op.Aside = e.pushAside(op.Args()[2:], bytes)
	}
	return op
}

// countPushed returns the number of elements that a push has pushed: none onto a list that it was not to create.
func countPushed(op *session.Operation, reply any) int {
	if reply == int64(0) {
		return 0
	}
	return op.Values
}

// sharePush gives each caller the length after its own values.
func sharePush(requests []*batch.Request, reply any) (surplus []string) {
	length := reply.(int64)
	for _, r := range slices.Backward(requests) {
		r.Length = length
		length -= int64(r.Count)
	}
	return nil
}

// PushX pushes encoded values onto a list that has elements: it passes no capacity to create one with. Values above the limits
// go in further parts.
func (l *List) PushX(side layout.End, values []any) session.Operation {
	count, _ := nextPart(values)
	op := l.operation(pushScript, 2+count)
	op.Append(string(side), "")
	op.Append(values[:count]...)
	op.Orders = l.at(side).orders
	op.Elements, op.Values = countPushed, count
	if rest := values[count:]; len(rest) > 0 {
		op.Finish = func(ctx context.Context, reply any) (any, error) {
			if reply == int64(0) {
				return reply, nil
			}
			length, err := l.PushX(side, rest).Run(ctx)
			if !script.IsDone(err) {
				return reply, err
			}
			return length, err
		}
	}
	return op
}
