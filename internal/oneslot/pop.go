package oneslot

import (
	"context"
	"math/bits"
	"sync/atomic"
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

// maxPop is the number of elements above which a pop is split into atomic parts.
const maxPop = 1 << 18

var popScript = script.Load("pop")

// Pop pops up to count elements. It shares operations with other callers at that end.
func (l *List) Pop(ctx context.Context, side layout.End, count int) ([]string, error) {
	if count < 0 {
		return nil, layout.ErrNegativeCount
	}
	var popped []string
	var shortfall error
	for len(popped) < count {
		part := min(count-len(popped), maxPop)
		elements, err := l.at(side).pop(ctx, part, false)
		if popped == nil {
			popped = elements
		} else {
			popped = append(popped, elements...)
		}
		if !script.IsDone(err) {
			return popped, err
		}
		if err != nil && len(elements) > 0 {
			shortfall = err
		}
		if len(elements) < part {
			break
		}
	}
	return popped, shortfall
}

// pop pops up to count elements in one atomic step. For hurries see batch.Request.
func (e *end) pop(ctx context.Context, count int, hurries bool) ([]string, error) {
	for retried := false; ; retried = true {
		r := batch.NewRequest()
		r.Count, r.Retries, r.Retried, r.Hurries = count, count == 1, retried, hurries
		err := e.poper.Do(ctx, r)
		if !script.IsDone(err) {
			return nil, err
		}
		elements, told := r.Elements, r.Told
		r.Recycle()
		if told != again {
			return elements, err
		}
	}
}

// again tells a caller that others have got the last elements of a shard, and that the list has more.
const again = "again"

// popOne pops one element for a caller that waits, or would.
func (e *end) popOne(ctx context.Context) (string, error) {
	elements, err := e.pop(ctx, 1, true)
	switch {
	case !script.IsDone(err):
		return "", err
	case len(elements) == 0:
		return "", redis.Nil
	}
	return elements[0], err
}

// Pops returns how pops at an end are combined.
func (l *List) Pops(side layout.End) *batch.Kind { return &l.at(side).pops }

func (e *end) joinPops(requests []*batch.Request) session.Operation {
	count, allRetry := 0, true
	for _, r := range requests {
		count, allRetry = count+r.Count, allRetry && r.Retries
	}
	if allRetry && count > 1 && e.leaves.suit(count) && e.list.sessions.MayLeave() { // it saves time only then
		return e.Pop(count, blocking.No, part)
	}
	return e.Pop(count, blocking.No, "")
}

// sharePop gives the elements to the callers in their order, and returns those of callers that have gone.
func (e *end) sharePop(requests []*batch.Request, reply any) (surplus []string) {
	elements, _ := e.Read(reply)
	more := tellsMore(reply)
	for _, r := range requests {
		if r.Gone() {
			continue
		}
		own := min(r.Count, len(elements))
		r.Elements, elements = elements[:own:own], elements[own:]
		if more && own < r.Count {
			r.Told = again
		}
	}
	return elements
}

// BlockingPop waits for an element in the queue of that end.
func (l *List) BlockingPop(ctx context.Context, side layout.End, timeout time.Duration) (string, error) {
	return l.at(side).queue().Pop(ctx, timeout)
}

// mayWait returns the error of a caller that begins to wait while the key that the list stands in for holds something.
func (l *List) mayWait(ctx context.Context) error {
	_, err := l.Length().Run(ctx)
	return err
}

// An end is the blocking.Source of the callers that wait at it.
var _ blocking.Source = (*end)(nil)

// Pop returns the operation that pops up to count elements.
func (e *end) Pop(count int, wait blocking.Wait, release string) session.Operation {
	op := e.list.operation(popScript, 4)
	op.Append(e.word, count, string(wait), release)
	op.Reclaimer, op.Elements = e, e.counted
	if wait != blocking.No {
		op.Kind = stats.BlockingPop
	}
	switch {
	case e.leaves.suit(count):
		op.Leaver = e
	case count > 1 && wait == blocking.No && e.leaves.areFew(count):
		op.Append(join)
	}
	return op
}

// join says that the elements are few and small, see lua/fast/pop.lua.
const join = "join"

// leaves tells which pops leave their elements in the list of the dedup record: those of large elements, or of more than a few.
type leaves struct {
	bits    atomic.Int32 // the bit length of the size of an element of the last pop, plus one; 0 if there was none
	refused atomic.Bool  // the server does not allow what that takes
}

const (
	// largeElement is the size in bytes, a power of two, from which a single element is worth a command of its own.
	largeElement = 4 << 10
	// fewElements, if they have no more than fewBytes, pass through Lua in less time than the commands take that avoid it.
	fewElements = 8
	fewBytes    = 2 << 10
	// maxLeft is how many elements a pop leaves at most, see UNPACK_MAX in the scripts.
	maxLeft = 999
)

func (l *leaves) suit(count int) bool {
	switch {
	case l.refused.Load():
		return false
	case count == 1:
		most, known := l.most()
		return known && most > largeElement
	}
	return count > 1 && count <= maxLeft && !l.areFew(count)
}

// areFew tells whether so many elements are few and small, as far as the last pop tells.
func (l *leaves) areFew(count int) bool {
	most, known := l.most()
	return known && count <= fewElements && count*most <= fewBytes
}

// most returns a power of two that is greater than the size of an element of the last pop, by no more than that size or one.
func (l *leaves) most() (size int, known bool) {
	bits := l.bits.Load()
	return 1 << max(bits-1, 0), bits > 0
}

// count returns the number of elements that a pop has taken, and takes it into account.
func (l *leaves) count(op *session.Operation, reply any) int {
	popped := countPopped(op, reply)
	if popped == 0 {
		return 0
	}
	first, alone := reply.(string)
	if !alone {
		first, _ = reply.([]any)[1].([]any)[0].(string)
	}
	if length := int32(bits.Len(uint(len(first))) + 1); length != l.bits.Load() { // which all read
		l.bits.Store(length)
	}
	return popped
}

// What a pop tells, see commands/pop.lua.
const (
	wasLeft      = int64(3) // the elements are elsewhere
	leaveRefused = int64(4) // they could not be left there
	hasMore      = int64(5) // it has taken a part; the elements may be elsewhere
)

// part lets a pop take fewer elements than it wants if the list has more.
const part = "part"

// Left and Gather are those of the session.Leaver of a pop.
func (e *end) Left(reply any) (noted any, count int) {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return reply, 0
	}
	switch parts[0] {
	case wasLeft, hasMore:
		if count, left := parts[1].(int64); left {
			return reply, int(count)
		}
	case leaveRefused:
		e.leaves.refused.Store(true)
		parts[0] = int64(0)
	}
	return reply, 0
}

func (e *end) Gather(reply any, elements []any) any {
	if tellsMore(reply) {
		return []any{hasMore, elements}
	}
	return []any{int64(0), elements}
}

// tellsMore reports whether a pop has taken a part, and the list has more.
func tellsMore(reply any) bool {
	parts, _ := reply.([]any)
	return len(parts) > 0 && parts[0] == hasMore
}

// Reclaim puts back the elements of a pop's reply.
func (e *end) Reclaim(reply any) {
	elements, _ := readPop(reply)
	e.putBack(elements)
}

func (e *end) Read(reply any) (elements []string, exhausted bool) {
	if parts, _ := reply.([]any); len(parts) > 0 && parts[0] == int64(2) { // it was popped now, too
		e.list.sawNewcomers.Store(time.Now().UnixNano())
		elements, _ = readPop(reply)
		return elements, true
	}
	return readPop(reply)
}

func (e *end) Block(s *session.Session, pop session.Operation, release string, slice time.Duration) (session.Outcome, error) {
	return block(s, pop, []*List{e.list}, release, slice)
}

func (e *end) Find(context.Context) (bool, error)     { return false, nil }
func (e *end) ReleaseKey() string                     { return e.list.releaseKey() }
func (e *end) Release(key string)                     { e.list.release(key) }
func (e *end) Slice(deadline time.Time) time.Duration { return e.list.slice(deadline) }

// readPop reads the reply of a pop: the elements, and whether they were popped now and not read from the record.
func readPop(reply any) (elements []string, now bool) {
	if element, alone := reply.(string); alone {
		return []string{element}, true
	}
	parts := reply.([]any)
	return flatten(parts[1:]), parts[0] == int64(0)
}

// countPopped returns the number of elements that a pop or a move has taken.
func countPopped(_ *session.Operation, reply any) int {
	if _, alone := reply.(string); alone {
		return 1
	}
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return 0
	}
	return countOf(parts[1:])
}

// countOf returns the number of elements in arrays, one for each shard.
func countOf(shards []any) (total int) {
	for _, shard := range shards {
		total += len(shard.([]any))
	}
	return total
}

// flatten joins the arrays of elements, one for each shard.
func flatten(shards []any) []string {
	values := make([]string, 0, countOf(shards))
	for _, shard := range shards {
		for _, value := range shard.([]any) {
			values = append(values, value.(string))
		}
	}
	return values
}

// putBack returns popped elements that no caller takes to the end they came from.
func (e *end) putBack(popped []string) {
	e.queue().PutBack(popped, func(ctx context.Context, values []any) (count int, err error) {
		if err := e.list.Prepare(ctx); err != nil {
			return 0, err
		}
		_, count, err = e.pushPart(ctx, values, true)
		return count, err
	})
}

// PutBack puts elements back at an end, see putBack.
func (l *List) PutBack(side layout.End, popped []string) { l.at(side).putBack(popped) }

// block sends a pop after a wait for the bells of the lists.
func block(s *session.Session, pop session.Operation, lists []*List, release string, slice time.Duration) (session.Outcome, error) {
	at := blocking.Place{Release: release}
	for _, l := range lists {
		at.Bells = append(at.Bells, l.keys.Bell)
	}
	return blocking.Block(s, pop, slice, at)
}

func (l *List) releaseKey() string { return l.keys.Release(uuid.NewString()) }

func (l *List) release(key string) { blocking.Release(l.sessions, key) }

// slice returns how long a BLPOP on a bell may last.
func (l *List) slice(deadline time.Time) time.Duration {
	longest := l.MaxSlice
	if time.Since(time.Unix(0, l.sawNewcomers.Load())) < NewcomersFor { // nobody rings for them
		longest = min(longest, NewcomersSlice)
	}
	return blocking.Slice(l.runner, longest, deadline)
}
