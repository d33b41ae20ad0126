// Package detect opens a list whose layout is found out by using it: in one slot, or spread over many.
//
// Lists of both layouts have their pointers in one key, so the first operation tells. The package knows which layout the list had the last
// time. It does not know how either stores elements.
package detect

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/spread"
)

// maxTries limits how often one call finds that the list has got the other layout meanwhile.
const maxTries = 4

// List is a list of either layout. Methods that it does not define are those of a list in one slot, and fail with layout.ErrSpread on
// one that is spread.
type List struct {
	*oneslot.List
	config oneslot.Config
	parts  int

	opened sync.Once // many, when it is needed
	many   *spread.List

	seen atomic.Pointer[seen] // nil before anything was
}

// seen is the layout that the list had.
type seen struct {
	spread bool
	at     time.Time
}

// oneSlotFor is for how long a list is taken to be in one slot that a push would make a spread one if it were gone.
const oneSlotFor = time.Second

// New opens a list. A push makes it in so many parts, or in one slot if there are none. It sends nothing.
func New(config oneslot.Config, parts int) *List {
	one := oneslot.New(config)
	config.Stats = one.Stats()
	return &List{List: one, config: config, parts: parts}
}

// Many returns the list as one over many slots.
func (l *List) Many() *spread.List {
	l.opened.Do(func() {
		one, config := l.List, l.config
		l.many = spread.New(spread.Config{
			Runner: config.Runner, Name: config.Name, Meta: one.Keys().Meta, Parts: l.parts, Capacity: one.Capacity,
			Plain: one.Plain(), WithoutDedup: config.WithoutDedup, RecordLife: config.RecordLife,
			Stats: config.Stats,
		})
	})
	return l.many
}

// Sibling returns the list of another name with the same options.
func (l *List) Sibling(name string) layout.List {
	config := l.config
	config.Name, config.Stats = name, l.Stats().Sibling(name)
	sibling := New(config, l.parts)
	sibling.ExpiryGrace, sibling.SearchStep = l.ExpiryGrace, l.SearchStep
	return sibling
}

// Spread reports whether operations take several steps, so that they cannot be sent in a pipeline.
func (l *List) Spread() (maybe, surely bool) {
	last := l.seen.Load()
	return l.beginsSpread(), last != nil && last.spread
}

// beginsSpread reports whether an operation begins with the layout over many slots.
func (l *List) beginsSpread() bool {
	switch last := l.seen.Load(); {
	case last == nil:
		return l.parts > 0
	case !last.spread && l.parts > 0:
		return time.Since(last.at) > oneSlotFor
	default:
		return last.spread
	}
}

// otherLayout reports whether an operation has failed because the list has the other layout, and notes it. A plain list that is one with
// the list is in one slot.
func (l *List) otherLayout(err error) bool {
	spreads := errors.Is(layout.ErrorOf(err), layout.ErrSpread)
	plain := errors.Is(layout.ErrorOf(err), layout.ErrPlainList)
	if !spreads && !plain && !errors.Is(err, spread.ErrOneSlot) {
		return false
	}
	l.seen.Store(&seen{spreads, time.Now()})
	return true
}

// either calls one or many, depending on the layout, until the list has that layout.
func either[T any](l *List, one, many func() (T, error)) (result T, err error) {
	for range maxTries {
		do := one
		if l.beginsSpread() {
			do = many
		}
		if result, err = do(); !l.otherLayout(err) || tookEffect(result) {
			break
		}
	}
	return result, err
}

// tookEffect tells whether a part of a call was done.
func tookEffect(result any) bool {
	switch result := result.(type) {
	case int64:
		return result != 0
	case []string:
		return len(result) > 0
	}
	return false
}

// operation is either for operations.
func (l *List) operation(one, many func() session.Operation) session.Operation {
	otherwise := func(ctx context.Context, err error) (any, error) {
		if !l.otherLayout(err) {
			return nil, err
		}
		return either(l, func() (any, error) { return one().Run(ctx) }, func() (any, error) { return many().Run(ctx) })
	}
	op := one
	if l.beginsSpread() {
		op = many
	}
	result := op()
	result.Otherwise = otherwise
	return result
}

func (l *List) Push(ctx context.Context, end layout.End, values []any) (int64, error) {
	return either(l,
		func() (int64, error) { return l.List.Push(ctx, end, values) },
		func() (int64, error) { return l.Many().Push(ctx, end, values) })
}

func (l *List) Pop(ctx context.Context, end layout.End, count int) ([]string, error) {
	return either(l,
		func() ([]string, error) { return l.List.Pop(ctx, end, count) },
		func() ([]string, error) { return l.Many().Pop(ctx, end, count) })
}

func (l *List) BlockingPop(ctx context.Context, end layout.End, timeout time.Duration) (string, error) {
	began := time.Now()
	left := func() time.Duration {
		if timeout <= 0 {
			return timeout
		}
		return max(timeout-time.Since(began), time.Millisecond)
	}
	return either(l,
		func() (string, error) { return l.List.BlockingPop(ctx, end, left()) },
		func() (string, error) { return l.Many().BlockingPop(ctx, end, left()) })
}

// Waiters returns the callers blocked at an end.
func (l *List) Waiters(end layout.End) *blocking.Queue {
	if l.beginsSpread() {
		return l.Many().Waiters(end)
	}
	return l.List.Waiters(end)
}

func (l *List) PushX(end layout.End, values []any) session.Operation {
	return l.operation(
		func() session.Operation { return l.List.PushX(end, values) },
		func() session.Operation { return l.Many().PushX(end, values) })
}

func (l *List) Length() session.Operation {
	return l.operation(l.List.Length, func() session.Operation { return l.Many().Length() })
}

func (l *List) Exists(key ...any) session.Operation {
	return l.operation(func() session.Operation { return l.List.Exists(key...) }, func() session.Operation { return l.Many().Exists() })
}

func (l *List) Delete(key ...any) session.Operation {
	return l.operation(func() session.Operation { return l.List.Delete(key...) }, func() session.Operation { return l.Many().Delete() })
}

func (l *List) Expire(expiry layout.Expiry, key ...any) session.Operation {
	return l.operation(
		func() session.Operation { return l.List.Expire(expiry, key...) },
		func() session.Operation { return l.Many().Expire(expiry) })
}

func (l *List) Lifetime(key ...any) session.Operation {
	return l.operation(func() session.Operation { return l.List.Lifetime(key...) }, func() session.Operation { return l.Many().Lifetime() })
}

func (l *List) Index(index any) session.Operation {
	return l.operation(
		func() session.Operation { return l.List.Index(index) },
		func() session.Operation { return l.Many().Index(index) })
}

func (l *List) Range(start, stop any) session.Operation {
	return l.operation(
		func() session.Operation { return l.List.Range(start, stop) },
		func() session.Operation { return l.Many().Range(start, stop) })
}

func (l *List) Positions(args ...any) session.Operation {
	return l.operation(
		func() session.Operation { return l.List.Positions(args...) },
		func() session.Operation { return l.Many().Positions(args...) })
}

func (l *List) Set(index, value any) session.Operation {
	return l.operation(
		func() session.Operation { return l.List.Set(index, value) },
		func() session.Operation { return l.Many().Set(index, value) })
}

func (l *List) All(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for range maxTries {
			all := l.List.All
			if l.beginsSpread() {
				all = l.Many().All
			}
			other := false
			for element, err := range all(ctx) {
				if other = err != nil && l.otherLayout(err); other {
					break
				}
				if !yield(element, err) {
					return
				}
			}
			if !other {
				return
			}
		}
	}
}

func (l *List) Info(ctx context.Context) (layout.Info, error) {
	return either(l,
		func() (layout.Info, error) { return l.List.Info(ctx) },
		func() (layout.Info, error) { return l.Many().Info(ctx) })
}

func (l *List) Check(ctx context.Context) error {
	_, err := either(l,
		func() (any, error) { return nil, l.List.Check(ctx) },
		func() (any, error) { return nil, l.Many().Check(ctx) })
	return err
}

// DeleteStrays deletes the shards that Check calls stray.
func (l *List) DeleteStrays(ctx context.Context) (int64, error) {
	return either(l,
		func() (int64, error) { return l.List.DeleteStrays(ctx) },
		func() (int64, error) { return l.Many().DeleteStrays(ctx) })
}

func (l *List) Repair(ctx context.Context, how layout.Repair) ([]string, error) {
	return either(l,
		func() ([]string, error) { return l.List.Repair(ctx, how) },
		func() ([]string, error) { return l.Many().Repair(ctx, how) })
}

// The methods below take other lists, of which those in one slot need the layout itself.

func inOneSlot(list layout.List) layout.List {
	if l, ok := list.(*List); ok {
		return l.List
	}
	return list
}

func allInOneSlot(lists []layout.List) []layout.List {
	result := make([]layout.List, len(lists))
	for i, list := range lists {
		result[i] = inOneSlot(list)
	}
	return result
}

func (l *List) Transfer(how layout.Transfer, to layout.List, replace bool) (session.Operation, error) {
	return l.List.Transfer(how, inOneSlot(to), replace)
}

func (l *List) Move(to layout.List, move layout.Move) (*blocking.Call, error) {
	return l.List.Move(inOneSlot(to), move)
}

func (l *List) PopFirst(lists []layout.List, end layout.End, count int) (*blocking.Call, error) {
	return l.List.PopFirst(allInOneSlot(lists), end, count)
}

func (l *List) CountKeys(words []any, lists []layout.List, alone bool) (session.Operation, error) {
	return l.List.CountKeys(words, allInOneSlot(lists), alone)
}

func (l *List) Guard(g layout.Guard) (script.Call, error) {
	g.Lists = allInOneSlot(g.Lists)
	return l.List.Guard(g)
}

func (l *List) Vacant(g layout.Guard) (session.Operation, error) {
	g.Lists = allInOneSlot(g.Lists)
	return l.List.Vacant(g)
}

// InOneSlot returns the list as one in one slot, whose operations fail with layout.ErrSpread if it is not. So does InOneSlot if this client
// would create it so.
func (l *List) InOneSlot() (*oneslot.List, error) {
	if l.parts > 0 {
		return nil, layout.ErrSpread
	}
	return l.List, nil
}

// Script does not create a list that this client would create over many slots.
func (l *List) Script(ctx context.Context, s layout.Script) (session.Operation, error) {
	s.Creates = l.parts == 0
	return l.List.Script(ctx, s)
}
