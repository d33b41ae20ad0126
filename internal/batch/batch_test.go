package batch

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// batcherOf returns where pushes of a list meet whose server is not reached.
func batcherOf(t *testing.T) *Batcher {
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = rdb.Close() })
	pool := &session.Pool{Runner: &script.Runner{Client: rdb}}
	return New(pool, &Kind{Join: func(requests []*Request) session.Operation {
		op := pool.Operation(script.Load("push"), []any{"meta"}, 0)
		for _, r := range requests {
			op.Append(r.Values...)
		}
		return op
	}})
}

func pushOf(value string) *Request {
	r := NewRequest()
	r.Values, r.Count, r.Bytes = []any{value}, 1, len(value)
	return r
}

// A caller whose batch was refused, and who has gone before another sends it again, may have changed its slice.
func TestABatchLeavesOutCallersWhoHaveGone(t *testing.T) {
	t.Parallel()
	c := batcherOf(t)
	here, gone := pushOf("here"), pushOf("gone")
	c.queue = []*Request{here, gone}
	c.dispatch()
	b := <-here.ready
	c.begin(b)
	assert.Equal(t, []any{"here", "gone"}, b.op.Args())
	c.abandon(gone)
	c.begin(b)
	assert.Equal(t, []any{"here"}, b.op.Args())
	assert.Zero(t, c.abandoned)
}

// What a caller pushes after it has given up a push waits until that is resolved, even if a batch is about to begin.
func TestNothingOvertakesAPushThatWasGivenUp(t *testing.T) {
	t.Parallel()
	c := batcherOf(t)
	first := pushOf("first")
	c.queue = []*Request{first}
	c.dispatch()
	inFlight := <-first.ready
	c.begin(inFlight)

	var others []*Request
	for i := range minQueue {
		others = append(others, pushOf(fmt.Sprint(i)))
	}
	c.queue = append(c.queue, others...)
	c.dispatch()
	next := <-others[0].ready
	c.abandon(first) // its outcome is unknown
	c.queue = append(c.queue, pushOf("after first"))
	c.begin(next)
	assert.Equal(t, []any{"0"}, next.op.Args())
	require.Len(t, c.queue, minQueue)
	assert.Equal(t, []any{"after first"}, c.queue[minQueue-1].Values)
}

func TestRequestsThatAreRetriedGoFirst(t *testing.T) {
	t.Parallel()
	c := &Batcher{}
	for _, r := range []*Request{{Count: 3}, {Count: 1, Retried: true}, {Count: 4}, {Count: 2, Retried: true}} {
		c.enqueue(r)
	}
	var order []int
	for _, r := range c.queue {
		order = append(order, r.Count)
	}
	assert.Equal(t, []int{1, 2, 3, 4}, order)

	c.queue = nil
	first, second := &Request{Retried: true}, &Request{Retried: true}
	c.enqueue(first)
	c.enqueue(second)
	assert.Same(t, second, c.queue[1])
}
