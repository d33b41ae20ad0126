package oneslot

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

var (
	lmoveScript = script.Load("lmove")
	lmpopScript = script.Load("lmpop")
)

// move is the blocking.Source of a move from one list to another.
type move struct {
	source
	how layout.Move
	to  *List
}

func (m *move) orders() []*session.Order { return m.to.at(m.how.To).orders }

// Move moves elements from an end of the list to an end of another, or of itself.
func (l *List) Move(to layout.List, how layout.Move) (*blocking.Call, error) {
	lists, err := several([]layout.List{l, to})
	if err != nil {
		return nil, err
	}
	m := &move{source{lists[:1]}, how, lists[1]}
	return &blocking.Call{Source: m, Sessions: l.sessions, Count: how.Count, Prepare: m.to.Prepare, Orders: m.orders()}, nil
}

func (m *move) Pop(count int, wait blocking.Wait, release string) session.Operation {
	op := operationOn([]*List{m.lists[0], m.to}, lmoveScript, 8)
	op.Append(string(m.how.From), string(m.how.To), m.to.capacity.word(), count, m.how.Exactly, m.how.OneByOne, string(wait), release)
	op.Orders, op.Elements = m.orders(), countPopped
	return op
}

// firstOf is the blocking.Source of a pop from the first of several lists that has elements. The number of that list, counted
// from 1, precedes the elements.
type firstOf struct {
	source
	side layout.End
}

// PopFirst pops from the first of the lists that has elements.
func (l *List) PopFirst(lists []layout.List, side layout.End, count int) (*blocking.Call, error) {
	ours, err := several(lists)
	if err != nil {
		return nil, err
	}
	f := &firstOf{source{ours}, side}
	prepare := func(context.Context) error { return nil }
	call := &blocking.Call{Source: f, Sessions: ours[0].sessions, Count: count, Prepare: prepare, Reclaimer: f}
	if count == 1 {
		call.Together = f.together
	}
	return call, nil
}

// together waits for one element in the queue of all who wait on these lists.
func (f *firstOf) together(ctx context.Context, timeout time.Duration) ([]string, error) {
	var name strings.Builder
	name.WriteString(string(f.side))
	for _, l := range f.lists {
		fmt.Fprintf(&name, " %p", l)
	}
	element, err := f.lists[0].together.Pop(ctx, timeout, name.String(), func() *blocking.Queue {
		each := eachOf{f}
		return blocking.NewQueue(each, f.lists[0].sessions, each.popNow, each.reclaim, each.mayWait)
	})
	if !script.IsDone(err) {
		return nil, err
	}
	number, value, _ := strings.Cut(element, " ")
	return []string{number, value}, err
}

// eachOf is a firstOf whose elements have the number of their list before them.
type eachOf struct{ *firstOf }

func (e eachOf) Read(reply any) (elements []string, exhausted bool) {
	elements, exhausted = e.firstOf.Read(reply)
	return numbered(elements), exhausted && len(elements) == 0 // those behind the first that has some may have more
}

// numbered puts the number that precedes the elements before each of them.
func numbered(elements []string) []string {
	if len(elements) == 0 {
		return nil
	}
	each := make([]string, len(elements)-1)
	for i, value := range elements[1:] {
		each[i] = elements[0] + " " + value
	}
	return each
}

func (e eachOf) popNow(ctx context.Context) (string, error) {
	found, err := (&blocking.Call{Source: e.firstOf, Sessions: e.lists[0].sessions, Count: 1,
		Prepare: func(context.Context) error { return nil }, Reclaimer: e.firstOf}).Run(ctx)
	if !script.IsDone(err) {
		return "", err
	}
	return numbered(found)[0], err
}

// reclaim puts elements back, each into its list.
func (e eachOf) reclaim(elements []string) {
	popped := map[int][]string{}
	for _, element := range elements {
		word, value, _ := strings.Cut(element, " ")
		if number, err := strconv.Atoi(word); err == nil {
			popped[number] = append(popped[number], value)
		}
	}
	for number, values := range popped {
		go e.lists[number-1].at(e.side).putBack(values)
	}
}

// mayWait returns the error of a caller that begins to wait while the key of one of the lists holds another type.
func (e eachOf) mayWait(ctx context.Context) error {
	_, err := e.lists[0].Client().Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, l := range e.lists {
			_ = p.Process(ctx, script.NewCommand(ctx, "llen", l.config.Name))
		}
		return nil
	})
	return err
}

func (f *firstOf) Pop(count int, wait blocking.Wait, release string) session.Operation {
	op := operationOn(f.lists, lmpopScript, 4)
	op.Append(string(f.side), count, string(wait), release)
	op.Reclaimer, op.Elements = f, countPoppedFirst
	if wait != blocking.No {
		op.Kind = stats.BlockingPop
	}
	return op
}

// countPoppedFirst is countPopped without the number of the list.
func countPoppedFirst(op *session.Operation, reply any) int { return max(0, countPopped(op, reply)-1) }

// Reclaim puts the elements of a reply back into their list.
func (f *firstOf) Reclaim(reply any) {
	if elements, _ := readPop(reply); len(elements) > 0 {
		if number, err := strconv.Atoi(elements[0]); err == nil {
			f.lists[number-1].at(f.side).putBack(elements[1:])
		}
	}
}

// source waits on several lists, for one caller. The first list has the dedup record and the release key.
type source struct{ lists []*List }

func (s source) Read(reply any) (elements []string, exhausted bool) { return readPop(reply) }

func (s source) Block(n *session.Session, pop session.Operation, release string, slice time.Duration) (session.Outcome, error) {
	var ringing []*List
	for _, l := range s.lists {
		if l.config.StaysPlain {
			defer l.lookOut(release)()
		} else {
			ringing = append(ringing, l)
		}
	}
	return block(n, pop, ringing, release, slice)
}

func (s source) Find(context.Context) (bool, error)     { return false, nil }
func (s source) ReleaseKey() string                     { return s.lists[0].releaseKey() }
func (s source) Release(key string)                     { s.lists[0].release(key) }
func (s source) Slice(deadline time.Time) time.Duration { return s.lists[0].slice(deadline) }
