package spread

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

var popScript = script.Load("spread_pop")

// What a pop is told that is over. Anything else says where it goes on.
const (
	toldEnough = "OK"
	toldEmpty  = "EMPTY"
	beyond     = "AT" // enough, and the border is there
)

// What it is told of a list that is to expire, or has expired.
const (
	drained = "DRAINED"
	expired = "EXPIRED"
)

// goesOn tells whether a pop goes on elsewhere.
func goesOn(told string) bool {
	return told != toldEnough && told != toldEmpty && !strings.HasPrefix(told, beyond+" ")
}

// Pop pops up to count elements, from one shard after another. It shares operations with other callers at that end. If it cannot go on to
// the next shard, it returns what it has.
func (l *List) Pop(ctx context.Context, side layout.End, count int) (popped []string, err error) {
	return l.at(side).popAll(ctx, count, false)
}

// popAll is Pop. For hurries see batch.Request.
func (e *end) popAll(ctx context.Context, count int, hurries bool) (popped []string, err error) {
	if count < 0 {
		return nil, layout.ErrNegativeCount
	}
	var shortfall error
	for len(popped) < count {
		elements, more, err := e.popPart(ctx, count-len(popped), hurries)
		if popped == nil {
			popped = elements
		} else {
			popped = append(popped, elements...)
		}
		switch {
		case errors.Is(err, script.ErrNotReplicated) && len(elements) > 0:
			shortfall = err
		case !script.IsDone(err) && len(popped) == 0:
			return nil, err
		}
		if !more {
			break
		}
	}
	return popped, shortfall
}

// popPart pops from one shard, and reports whether there may be more.
func (e *end) popPart(ctx context.Context, count int, hurries bool) (elements []string, more bool, err error) {
	p, err := e.list.find(ctx, false)
	if err != nil || p == nil {
		return nil, false, err
	}
	r := batch.NewRequest()
	r.Count, r.Hurries = min(count, int(maxPushFull*p.capacity)), hurries
	if err = e.poper.Do(ctx, r); !script.IsDone(err) {
		return nil, false, err
	}
	elements, told := r.Elements, r.Told
	r.Recycle()
	if at, found := strings.CutPrefix(told, beyond+" "); found {
		if border, err := strconv.ParseInt(at, 10, 64); err == nil {
			e.note(border)
		}
	}
	if isDrained(told) {
		looked := make(chan struct{})
		go func() {
			e.lookInward(told)
			close(looked)
		}()
		select {
		case <-looked:
			return elements, true, err
		case <-ctx.Done():
			go e.putBack(elements)
			return nil, false, ctx.Err()
		}
	}
	if goesOn(told) {
		if followed := e.list.follow(ctx, e.side, told); followed != nil {
			return elements, false, followed
		}
	}
	return elements, told != toldEmpty, err
}

func isDrained(told string) bool { return strings.HasPrefix(told, drained+" ") }

// inwardFor is how long a pop looks inward, if servers do not answer.
const inwardFor = 10 * time.Second

// lookInward looks whether there is anything left of a list that is to expire, after a pop has taken the last element of a shard. If there
// is not, the shard where it ends finds out that the expiry is void: the elements that are pushed next are not to expire. So it comes before
// the pop returns.
func (e *end) lookInward(told string) {
	ctx, cancel := context.WithTimeout(context.Background(), inwardFor)
	defer cancel()
	for goesOn(told) {
		if e.list.follow(ctx, e.side, told) != nil {
			return
		}
		p, err := e.list.find(ctx, false)
		if err != nil || p == nil {
			return
		}
		reply, err := e.pop(p, 0, blocking.No, "").Run(ctx)
		if !script.IsDone(err) {
			return
		}
		_, told, _ = readPop(reply)
	}
}

// popOne pops one element for a caller that waits, or would.
func (e *end) popOne(ctx context.Context) (string, error) {
	elements, err := e.popAll(ctx, 1, true)
	switch {
	case !script.IsDone(err):
		return "", err
	case len(elements) == 0:
		return "", redis.Nil
	}
	return elements[0], err
}

func (e *end) joinPops(requests []*batch.Request) session.Operation {
	count := 0
	for _, r := range requests {
		count += r.Count
	}
	return e.pop(e.list.last.Load(), count, blocking.No, "")
}

func (e *end) pop(p *pointers, count int, wait blocking.Wait, release string) session.Operation {
	op := e.operation(p, popScript, 3)
	op.Append(count, string(wait), release)
	op.Reclaimer, op.Elements = e, countPopped
	if wait != blocking.No {
		op.Kind = stats.BlockingPop
	}
	return op
}

// sharePop gives the elements to the callers in their order, and returns those of callers that have gone. Those who get fewer than they
// want learn what the shard has told.
func sharePop(requests []*batch.Request, reply any) (surplus []string) {
	elements, word, _ := readPop(reply)
	for _, r := range requests {
		if r.Gone() {
			continue
		}
		part := min(r.Count, len(elements))
		r.Elements, elements = elements[:part:part], elements[part:]
		if r.Told = word; part == r.Count && !strings.HasPrefix(word, beyond) && !isDrained(word) {
			r.Told = toldEnough
		}
	}
	return elements
}

// countPopped returns the number of elements that a pop has popped.
func countPopped(_ *session.Operation, reply any) int {
	if _, alone := reply.(string); alone {
		return 1
	}
	return len(reply.([]any)[2].([]any))
}

// readPop reads the reply of a pop: the elements, what the shard has told, and whether they were popped now and not read from the record.
func readPop(reply any) (elements []string, word string, now bool) {
	if alone, _ := reply.(string); alone != "" {
		word, element, _ := strings.Cut(alone, "=")
		return []string{element}, word, true
	}
	parts := reply.([]any)
	values := parts[2].([]any)
	elements = make([]string, len(values))
	for i, v := range values {
		elements[i] = v.(string)
	}
	return elements, parts[1].(string), parts[0] == int64(0)
}

// BlockingPop waits for an element in the queue of that end.
func (l *List) BlockingPop(ctx context.Context, side layout.End, timeout time.Duration) (string, error) {
	return l.at(side).waiters.Pop(ctx, timeout)
}

// An end is the blocking.Source of the callers that wait at it.
var _ blocking.Source = (*end)(nil)

// Find goes where the last operation was told to go, or reads the pointers again if they are old.
func (e *end) Find(ctx context.Context) (moved bool, err error) {
	before := e.attempt.Load()
	if told := e.told.Swap(nil); told != nil {
		if err := e.list.follow(ctx, e.side, *told); err != nil {
			e.told.Store(told)
			return false, err
		}
		before = nil
	}
	p, err := e.list.find(ctx, true)
	switch {
	case err != nil:
		return false, err
	case p == nil:
		return false, ErrOneSlot
	}
	e.attempt.Store(p)
	return !before.sameAs(p), nil
}

// Pop returns the operation that pops up to count elements, where Find has found them.
func (e *end) Pop(count int, wait blocking.Wait, release string) session.Operation {
	return e.pop(e.attempt.Load(), count, wait, release)
}

// Read also notes where to go on.
func (e *end) Read(reply any) (elements []string, exhausted bool) {
	elements, word, now := readPop(reply)
	switch {
	case isDrained(word):
		e.lookInward(word)
	case goesOn(word):
		e.told.Store(&word)
	}
	return elements, now && word == toldEmpty
}

// Reclaim puts back the elements of a pop's reply.
func (e *end) Reclaim(reply any) {
	elements, _, _ := readPop(reply)
	e.putBack(elements)
}

func (e *end) Block(s *session.Session, pop session.Operation, release string, slice time.Duration) (session.Outcome, error) {
	return blocking.Block(s, pop, slice, blocking.Place{Bells: []string{strings.TrimSuffix(pop.Key(), "meta") + "bell"}, Release: release})
}

// ReleaseKey returns a key beside the bell.
func (e *end) ReleaseKey() string {
	p := e.attempt.Load()
	return e.list.part(p, p.ids[e.side]).release(uuid.NewString())
}

func (e *end) Release(key string) { blocking.Release(e.list.sessions, key) }

func (e *end) Slice(deadline time.Time) time.Duration {
	return blocking.Slice(e.list.runner, e.list.MaxSlice, deadline)
}

// putBack returns popped elements that no caller takes to the end they came from.
func (e *end) putBack(popped []string) {
	e.waiters.PutBack(popped, func(ctx context.Context, values []any) (count int, err error) {
		_, count, err = e.pushPart(ctx, values, true)
		return count, err
	})
}
