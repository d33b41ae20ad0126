package spread

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/value"
)

// A push with more bytes than this, or more values than this many times the capacity, is sent in several atomic parts: a part goes onto
// one shard, whatever its capacity.
const (
	maxPushBytes = 1 << 20
	maxPushFull  = 4
)

var pushScript = script.Load("spread_push")

// Push pushes encoded values, together with other callers at that end. The length is what this client knows of it.
func (l *List) Push(ctx context.Context, side layout.End, values []any) (length int64, err error) {
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
	for {
		p, err := e.list.find(ctx, true)
		if err != nil {
			return 0, 0, err
		}
		if p == nil {
			return 0, 0, ErrOneSlot // a push makes such a list
		}
		r := batch.NewRequest()
		count, r.Bytes = value.Part(values, int(maxPushFull*p.capacity), maxPushBytes)
		r.Values, r.Count, r.PutsBack = values[:count], count, putsBack
		if err = e.pusher.Do(ctx, r); !script.IsDone(err) {
			return 0, count, err
		}
		length, told := r.Length, r.Told
		r.Recycle()
		switch told {
		case "":
			return length, count, err
		case beyond:
			e.note(length)
			return e.lengthTo(ctx, length), count, err
		}
		if err := e.list.follow(ctx, e.side, told); err != nil {
			return 0, count, err
		}
	}
}

func (e *end) joinPushes(requests []*batch.Request) session.Operation {
	count := 0
	for _, r := range requests {
		count += r.Count
	}
	op := e.operation(e.list.last.Load(), pushScript, count)
	op.Orders = e.orders
	op.Elements, op.Values, op.PutsBack = countPushed, count, batch.PutsBack(requests)
	for _, r := range requests {
		op.Append(r.Values...)
	}
	return op
}

// countPushed returns the number of elements that a push has pushed: none if the shard has told where to go on.
func countPushed(op *session.Operation, reply any) int {
	if told, _ := reply.(string); told != "" && !strings.HasPrefix(told, beyond+" ") {
		op.PutsBack = 0
		return 0
	}
	return op.Values
}

// sharePush gives each caller the length after its own values, or what the shard has told. If that is beyond, the length is the position
// of the border.
func (e *end) sharePush(requests []*batch.Request, reply any) (surplus []string) {
	length, alone := reply.(int64)
	told, step := "", int64(1)
	if !alone {
		told = reply.(string)
		if at, found := strings.CutPrefix(told, beyond+" "); found {
			if _, err := fmt.Sscan(at, &length); err == nil {
				told = beyond
			}
			if e.side == left {
				step = -1
			}
		}
	}
	for _, r := range slices.Backward(requests) {
		r.Length, r.Told = length, told
		length -= step * int64(r.Count)
	}
	return nil
}

// known is what a client knows of the border at an end.
type known struct {
	pointers *pointers // when it was seen
	border   int64
	seen     time.Time
}

// knownFor is for how long a length is computed with a border that this client has seen.
const knownFor = time.Second

// note remembers the border at this end.
func (e *end) note(border int64) {
	if p := e.list.cached.Load(); p != nil {
		e.border.Store(&known{p, border, time.Now()})
	}
}

// lengthTo returns the length of the list from the border at the other end to one at this.
func (e *end) lengthTo(ctx context.Context, border int64) int64 {
	other := &e.list.ends[1-e.side]
	k := other.knownBorder(ctx)
	if k != nil && time.Since(k.seen) > knownFor {
		renewed := *k
		renewed.seen = time.Now()
		if other.border.CompareAndSwap(k, &renewed) { // one caller looks, and nobody waits
			go other.lookAtBorder(context.WithoutCancel(ctx))
		}
	}
	switch {
	case k == nil:
		return 0 // the push is done, and its length is not known
	case e.side == left:
		return k.border - border
	}
	return border - k.border
}

// knownBorder returns what is known of the border since the pointers have moved. If that is nothing, one caller looks, and others wait.
func (e *end) knownBorder(ctx context.Context) *known {
	current := func() *known {
		if k := e.border.Load(); k != nil && k.pointers.sameAs(e.list.cached.Load()) {
			return k
		}
		return nil
	}
	if k := current(); k != nil {
		return k
	}
	select {
	case e.looking <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	defer func() { <-e.looking }()
	if k := current(); k != nil {
		return k
	}
	return e.lookAtBorder(ctx)
}

func (e *end) lookAtBorder(ctx context.Context) *known {
	p := e.list.cached.Load()
	if p == nil {
		return nil
	}
	k := &known{pointers: p, seen: time.Now()}
	s, err := e.list.look(ctx, p, p.ids[e.side], "L", 1, 0)
	switch {
	case err != nil:
		return nil
	case s == nil:
		k.border = p.borders[e.side]
	default:
		k.border = s.borders[e.side]
	}
	e.border.Store(k)
	return k
}

// PushX pushes encoded values onto a list that has elements. Whether it has is found out first.
func (l *List) PushX(side layout.End, values []any) session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		length, err := l.length(ctx)
		if err != nil || length == 0 {
			return length, err
		}
		return l.Push(ctx, side, values)
	})
}
