package shardedlist

import (
	"context"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// BLPop removes the leftmost element and returns it, waiting for one while the list is empty: BLPOP. It waits for as long
// as timeout, in milliseconds at the finest, or for ever if that is 0, and returns redis.Nil when the time is up.
//
// A cancelled ctx ends the wait within a round trip to the server, or half a second if it does not answer, with the error of
// ctx. No element is lost by it: one that was on its way is returned in spite of the cancellation, or given to another caller,
// or put back to the end it came from. A caller whose timeout ends while a pop is in flight hears its outcome.
//
// However many goroutines wait, they use one connection for each end of the list, and are served in the order they came. One
// whose time is up before any pop was sent for it looks once for itself. A goroutine of this package runs while there are any.
// A pop that finds an element costs O(1).
//
// It returns ErrNegativeTimeout, with nothing sent, and otherwise the errors of LPop. A server that cannot serve for the moment,
// or does not answer, is borne with until the deadline of ctx, or for about ten seconds if it has none. Each pop is done once,
// as that of LPop; what one had taken when its reply was lost comes before what the list has.
func (l *ShardedList) BLPop(ctx context.Context, timeout time.Duration) (string, error) {
	value, err := l.list.BlockingPop(ctx, layout.Left, timeout)
	return value, l.wrap("blpop", err)
}

// BRPop is BLPop at the right end: BRPOP.
func (l *ShardedList) BRPop(ctx context.Context, timeout time.Duration) (string, error) {
	value, err := l.list.BlockingPop(ctx, layout.Right, timeout)
	return value, l.wrap("brpop", err)
}
