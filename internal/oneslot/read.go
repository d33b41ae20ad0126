package oneslot

import (
	"context"
	"iter"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	llenScript   = script.Load("llen")
	lindexScript = script.Load("lindex")
	lrangeScript = script.Load("lrange")
	lposScript   = script.Load("lpos")
	objectScript = script.Load("object")
	scanScript   = script.Load("scan")
)

// scanStep is the number of elements that All reads at once, and up to a shard more.
const scanStep = 1000

// Length counts the elements.
func (l *List) Length() session.Operation { return l.read(llenScript) }

// rememberLong is how long a list that was not at its plain key is not looked for there.
const rememberLong = time.Second

// MayBeInPlace implements layout.List.
func (l *List) MayBeInPlace() bool { return time.Now().UnixNano() >= l.notInPlaceFor.Load() }

// NotInPlace implements layout.List.
func (l *List) NotInPlace() { l.notInPlaceFor.Store(time.Now().Add(rememberLong).UnixNano()) }

// Exists tells whether there is a list.
func (l *List) Exists(key ...any) session.Operation {
	return orKey(l.read(llenScript, key...), func(_ context.Context, reply any) (any, error) { return reply.(int64) > 0, nil })
}

// Index reads one element.
func (l *List) Index(index any) session.Operation { return l.read(lindexScript, index) }

// Range reads the elements from start to stop.
func (l *List) Range(start, stop any) session.Operation {
	op := l.read(lrangeScript, start, stop)
	op.Finish = func(_ context.Context, reply any) (any, error) { return flatten(reply.([]any)), nil }
	return op
}

// Positions finds elements, as LPOS with these arguments.
func (l *List) Positions(args ...any) session.Operation { return l.read(lposScript, args...) }

// Object returns the reply of OBJECT for the first shard.
func (l *List) Object(key ...any) session.Operation {
	return orKey(l.sessions.Read(objectScript, l.declared, key...), asReplied)
}

func asReplied(_ context.Context, reply any) (any, error) { return reply, nil }

// All yields the elements from left to right. Each step reads whole shards. It first splits those that are too long for that.
func (l *List) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		next, last := "", ""
		for {
			reply, err := l.read(scanScript, next, last, scanStep).Run(ctx)
			if err == nil && reply == nil {
				if err = l.split(ctx); err == nil {
					continue
				}
			}
			if err != nil {
				yield("", err)
				return
			}
			parts := reply.([]any)
			next, last = parts[0].(string), parts[1].(string)
			for _, value := range flatten(parts[2].([]any)) {
				if !yield(value, nil) {
					return
				}
			}
			if next == "" {
				return
			}
		}
	}
}
