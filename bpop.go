package shardedlist

import (
	"context"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// BLPop removes and returns the leftmost element. While the list is empty, it waits for one: BLPOP. It waits for up to timeout,
// with a resolution of one millisecond, or forever if timeout is 0. It returns redis.Nil if the timeout is over. If the timeout
// ends while a pop for the caller is in flight, BLPop returns when the outcome of that pop is known, or after five seconds more
// with the error of a deadline. While the server cannot serve, BLPop returns the server's error a few seconds after the timeout at
// the latest.
//
// When ctx is cancelled, BLPop returns within a round trip, or within half a second if the server does not answer. The error is
// that of ctx. No element is lost: an element already popped for the caller is returned in spite of the cancellation, given to
// another caller, or put back at the left end.
//
// All goroutines that wait at one end of a ShardedList share one connection, and are served in the order they came. One case is
// an exception: if a timeout ends before a pop was sent for its caller, the caller checks the list once by itself. While the list
// has elements for all, nobody waits, and BLPop shares operations with LPop. A goroutine of this package runs while callers wait. A
// pop that finds an element is O(1).
//
// BLPop is applied exactly once, like LPop. An element whose reply was lost is delivered before later elements. If the server
// does not answer, or cannot serve the list for now, BLPop retries until the deadline of ctx, or for about ten seconds if ctx
// has none. It returns ErrNegativeTimeout if timeout is below 0, before anything is sent. See [ShardedList] for other errors.
func (l *ShardedList) BLPop(ctx context.Context, timeout time.Duration) (string, error) {
	value, err := l.list.BlockingPop(ctx, layout.Left, timeout)
	return value, l.wrap("blpop", err)
}

// BRPop is BLPop at the right end: BRPOP.
func (l *ShardedList) BRPop(ctx context.Context, timeout time.Duration) (string, error) {
	value, err := l.list.BlockingPop(ctx, layout.Right, timeout)
	return value, l.wrap("brpop", err)
}
