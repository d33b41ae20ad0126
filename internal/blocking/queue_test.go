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
