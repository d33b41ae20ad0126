package shardedlist

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// pushesOf returns where pushes at the right end of a list meet, whose server is not reached.
func pushesOf(t *testing.T) *commits {
	rdb := redis.NewClient(&redis.Options{})
	t.Cleanup(func() { _ = rdb.Close() })
	list, err := New(rdb, t.Name())
	require.NoError(t, err)
	return &list.rpush
}

func pushOf(value string) *request {
	r := newRequest()
	r.values, r.count, r.bytes = []any{value}, 1, len(value)
	return r
}

// pushed are the values of the batch's operation.
func (b *batch) pushed() []any { return b.joined.args[len(b.joined.args)-b.count:] }

// A caller whose batch was refused, and who has gone before another sends it again, may have changed its slice.
func TestABatchLeavesOutCallersWhoHaveGone(t *testing.T) {
	t.Parallel()
	c := pushesOf(t)
	here, gone := pushOf("here"), pushOf("gone")
	c.queue = []*request{here, gone}
	c.dispatch()
	b := <-here.turn
	c.begin(b)
	assert.Equal(t, []any{"here", "gone"}, b.pushed())
	c.abandon(gone)
	c.begin(b)
	assert.Equal(t, []any{"here"}, b.pushed())
	assert.Zero(t, c.loose)
}

// What a caller pushes after it has given up a push waits until that is settled, even if a batch is about to begin.
func TestNothingOvertakesAPushThatWasGivenUp(t *testing.T) {
	t.Parallel()
	c := pushesOf(t)
	first := pushOf("first")
	c.queue = []*request{first}
	c.dispatch()
	inFlight := <-first.turn
	c.begin(inFlight)

	var others []*request
	for i := range minQueue {
		others = append(others, pushOf(fmt.Sprint(i)))
	}
	c.queue = append(c.queue, others...)
	c.dispatch()
	next := <-others[0].turn
	inFlight.lane.unsettled = true
	c.abandon(first)
	c.queue = append(c.queue, pushOf("after first"))
	c.begin(next)
	assert.Equal(t, []any{"0"}, next.pushed())
	require.Len(t, c.queue, minQueue)
	assert.Equal(t, []any{"after first"}, c.queue[minQueue-1].values)
}
