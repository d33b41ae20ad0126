package blocking

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A caller that has found no element where others did comes back to its place.
func TestCallersQueueInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	q := &Queue{serving: true}
	came := time.Now()
	at := func(seconds int) *waiter {
		return newWaiter(t.Context(), came.Add(time.Duration(seconds)*time.Second), 0)
	}
	want := []*waiter{at(0), at(1), at(2), at(2), at(3)}
	for _, i := range []int{2, 4, 0, 3, 1} {
		q.join(want[i])
	}
	var got []*waiter
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		got = append(got, e.Value.(*waiter))
	}
	assert.Len(t, got, len(want))
	for i := range want {
		assert.Same(t, want[i], got[i], "caller %d", i)
	}
}

// A caller that comes later pops beside a round that is on its way for all who wait, but not for long; not if it is for a part of them
// only; and not once a caller has found the list empty.
func TestWhoMayPopBesideARound(t *testing.T) {
	t.Parallel()
	came := time.Now()
	waits := func(q *Queue, callers int) {
		for range callers {
			q.join(newWaiter(t.Context(), came, 0))
		}
	}
	q := &Queue{serving: true, full: true}
	waits(q, 2)
	before := time.Now()
	q.next(false)
	assert.Greater(t, q.flows.Load(), before.UnixNano())
	assert.LessOrEqual(t, q.flows.Load(), time.Now().Add(flowsFor).UnixNano())

	empty := newWaiter(t.Context(), came, 0)
	empty.sawEmpty = true
	q.join(empty)
	q.next(false)
	assert.Zero(t, q.flows.Load())

	many := &Queue{serving: true, full: true}
	waits(many, maxWoken+1)
	many.next(false)
	assert.Zero(t, many.flows.Load())
}
