package oneslot

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

var (
	llenScript   = script.Load("llen")
	lindexScript = script.Load("lindex")
	lrangeScript = script.Load("lrange")
	lposScript   = script.Load("lpos")
	objectScript = script.Load("object")
	scanScript   = script.Load("scan")
)

// What All reads at once, and up to a shard more: so many elements, or fewer if they are large. It does not know how large the first are.
const (
	scanStep  = 1000
	scanFirst = 16
	scanBytes = 256 << 10
)

// Length counts the elements.
func (l *List) Length() session.Operation { return l.shared(l.read(llenScript), "llen") }

// shared returns a read that callers who ask the same share while it stands alone.
func (l *List) shared(op session.Operation, question string) session.Operation {
	alone := op
	op.Alone = func(ctx context.Context) (any, error) { return l.reads.Do(ctx, question, alone.Run) }
	return op
}

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
func (l *List) Index(index any) session.Operation {
	return l.shared(l.read(lindexScript, index), fmt.Sprint("lindex ", index))
}

// Range reads the elements from start to stop.
func (l *List) Range(start, stop any) session.Operation {
	op := l.read(lrangeScript, start, stop)
	op.Finish = func(_ context.Context, reply any) (any, error) { return flatten(reply.([]any)), nil }
	return l.shared(op, fmt.Sprint("lrange ", start, "\x00", stop)) // of words with such a byte, none is a number
}

// Positions finds elements, as LPOS with these arguments.
func (l *List) Positions(args ...any) session.Operation {
	what := search{value: args[0], direction: 1, enough: 1}
	rank := int64(1)
	for i := 1; i+1 < len(args); i += 2 {
		n, _ := strconv.ParseInt(fmt.Sprint(args[i+1]), 10, 64) // the server checks it before the first step
		switch strings.ToLower(fmt.Sprint(args[i])) {
		case "rank":
			rank = max(n, -n)
			if n < 0 {
				what.direction = -1
			}
		case "count":
			what.enough = n
		case "maxlen":
			what.compare = n
		}
	}
	if what.enough > 0 {
		what.enough = max(what.enough+rank-1, 0) // all, if that is beyond an int64
	}
	return l.inSteps(what, func(known string) session.Operation { return l.read(lposScript, append([]any{known}, args...)...) })
}

// Object returns the reply of OBJECT for the first shard.
func (l *List) Object(key ...any) session.Operation {
	return orKey(l.sessions.Read(objectScript, l.declared, key...), asReplied)
}

func asReplied(_ context.Context, reply any) (any, error) { return reply, nil }

// All yields the elements from left to right. Each step reads whole shards. It first splits those that are too long for that.
func (l *List) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		r := reader{list: l}
		for {
			values, err := r.step(ctx)
			if err != nil {
				yield("", err)
				return
			}
			for _, value := range values {
				if !yield(value, nil) {
					return
				}
			}
			if r.next == "" {
				return
			}
		}
	}
}

// reader reads a list in steps.
type reader struct {
	list       *List
	next, last string   // where to go on, and where to end, see scan.lua
	known      pointers // as they were lately
	average    int      // bytes of an element of the last step, or half of what was known before; 0 at first
	byScript   bool     // the list is in a state that only the script knows, or the user may not do without it
}

// step reads some elements.
func (r *reader) step(ctx context.Context) (values []string, err error) {
	defer func() {
		bytes := 0
		for _, value := range values {
			bytes += len(value)
		}
		if len(values) > 0 {
			r.average = max(1, bytes/len(values), r.average/2)
		}
	}()
	if values, ok := r.shards(ctx); ok {
		return values, nil
	}
	for {
		reply, err := r.list.read(scanScript, r.next, r.last, r.enough()).Run(ctx)
		switch {
		case err != nil:
			return nil, err
		case reply != nil:
			parts := reply.([]any)
			r.next, r.last = parts[0].(string), parts[1].(string)
			return flatten(parts[2].([]any)), nil
		}
		if err := r.list.split(ctx); err != nil {
			return nil, err
		}
	}
}

// enough is how many elements a step reads.
func (r *reader) enough() int {
	if r.average == 0 {
		return scanFirst
	}
	return max(1, min(scanStep, scanBytes/r.average))
}

// shards reads the next shards without Lua, which takes ten times as long for an element. The shards are those that the pointers named
// lately; the pointers in the same transaction tell whether they are still.
func (r *reader) shards(ctx context.Context) (values []string, ok bool) {
	from, err := strconv.ParseInt(r.next, 10, 64)
	final, _ := strconv.ParseInt(r.last, 10, 64)
	if err != nil || r.byScript { // the first step, or one of a list that is read by index
		return nil, false
	}
	to := from - 1
	commands := [][]any{{"hmget", r.list.keys.Meta, "layout", "expires", "restores", "part", "caps"}}
	if r.known.shards != "" {
		to = min(final, to+max(1, int64(r.enough())/r.known.capacity))
		for id := from; id <= to; id++ {
			commands = append(commands, []any{"lrange", r.known.shard(id), 0, r.known.capacity})
		}
	}
	replies, err := r.list.runner.Together(ctx, commands...)
	if err != nil {
		r.byScript = true
		return nil, false
	}
	fields := replies[0].([]any)
	text, _ := fields[0].(string)
	now, err := r.list.pointersIn(text)
	if err != nil || now.shards == "" || now.capacity < 1 || slices.ContainsFunc(fields[1:], func(field any) bool { return field != nil }) {
		r.byScript = true
		return nil, false
	}
	known := r.known
	r.known = now
	switch {
	case known.shards == "":
		return r.shards(ctx)
	case known.shards != now.shards || known.capacity != now.capacity:
		return nil, false
	}
	for i, reply := range replies[1:] {
		shard := reply.([]any)
		if id := from + int64(i); id < now.first || id > now.last {
			continue
		}
		if len(shard) == 0 || int64(len(shard)) > now.capacity { // it is missing, or long
			return nil, false
		}
		values = append(values, flatten([]any{shard})...)
	}
	r.list.stats.Operation(stats.Read, 0)
	if final = min(final, now.last); max(to+1, now.first) <= final {
		r.next, r.last = strconv.FormatInt(max(to+1, now.first), 10), strconv.FormatInt(final, 10)
	} else {
		r.next = ""
	}
	return values, true
}
