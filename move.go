package shardedlist

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
)

// LMove moves an element from one end of the list to one end of the destination, and returns the element: LMOVE. The ends are
// "LEFT" or "RIGHT". The destination may be the same list, which LMove then rotates. It returns redis.Nil if the list is empty.
//
// It is one atomic step, O(1), and is applied exactly once. Before anything is sent, it returns ErrOtherClient if the lists do
// not have the same client, and Redis's error if an end is another word, and, on a cluster, if the lists are not in one slot
// (CROSSSLOT). Give their names a common hash tag. See [ShardedList] for retries, cancellation and other errors.
func (l *ShardedList) LMove(ctx context.Context, destination *ShardedList, srcpos, destpos string) (string, error) {
	value, err := first(l.move(destination, srcpos, destpos, redis.LMoveMArgs{}, atOnce(ctx)))
	return value, l.wrap("lmove", err)
}

// RPopLPush is LMove from the right end to the left end of the destination: RPOPLPUSH.
func (l *ShardedList) RPopLPush(ctx context.Context, destination *ShardedList) (string, error) {
	value, err := first(l.move(destination, "RIGHT", "LEFT", redis.LMoveMArgs{}, atOnce(ctx)))
	return value, l.wrap("rpoplpush", err)
}

// BLMove is LMove that waits for an element while the list is empty: BLMOVE. It waits for up to timeout, with a resolution of
// one millisecond, or forever if timeout is 0. It returns redis.Nil if the timeout is over. While the server cannot serve, it
// returns the server's error a few seconds after the timeout at the latest. It waits for a server that does not answer until the
// deadline of ctx, or for ten seconds if ctx has none, even beyond the timeout.
//
// When ctx is cancelled, BLMove returns within a round trip: either the element was moved and is returned, or it was not moved
// and the error is that of ctx. If the server does not answer for half a second, the error is also ErrOutcomeUnknown.
//
// Each call that waits has a goroutine of this package. Callers are not served in a particular order. If the
// server cannot serve the lists for now, BLMove retries until the deadline of ctx, or for ten seconds if ctx has none. If an
// element arrives while the memory of the server is full, the wait ends with the OOM error, and the element stays in the list.
//
// It returns ErrNegativeTimeout if timeout is below 0, before anything is sent. Otherwise its errors are those of LMove.
func (l *ShardedList) BLMove(ctx context.Context, destination *ShardedList, srcpos, destpos string, timeout time.Duration) (string, error) {
	value, err := first(l.move(destination, srcpos, destpos, redis.LMoveMArgs{}, within(ctx, timeout)))
	return value, l.wrap("blmove", err)
}

// BRPopLPush is BLMove from the right end to the left end of the destination: BRPOPLPUSH.
func (l *ShardedList) BRPopLPush(ctx context.Context, destination *ShardedList, timeout time.Duration) (string, error) {
	value, err := first(l.move(destination, "RIGHT", "LEFT", redis.LMoveMArgs{}, within(ctx, timeout)))
	return value, l.wrap("brpoplpush", err)
}

// LMoveM is LMove for several elements. It returns them in their order at the destination: LMOVEM. It works on servers that do
// not have that command.
//
// It moves up to Count elements, or with LMoveMExactly either Count elements or none. A Count of 0 or less is 1. With
// LMoveMBulk, the elements keep the order of the source. With LMoveMOBO they are moved one by one, which reverses them if both
// ends are the same. It returns redis.Nil if it moves none.
//
// It is one atomic step, O(elements moved). To reverse elements at one end of the same list is O(elements moved × capacity). An
// unknown mode or order is a syntax error. Otherwise its errors are those of LMove.
func (l *ShardedList) LMoveM(ctx context.Context, destination *ShardedList, srcpos, destpos string, args redis.LMoveMArgs) ([]string, error) {
	values, err := l.move(destination, srcpos, destpos, args, atOnce(ctx))
	return values, l.wrap("lmovem", err)
}

// BLMoveM is LMoveM that waits while the list is empty, or with LMoveMExactly while it has fewer than Count elements: BLMOVEM.
// It waits as BLMove does.
//
// While the list has elements, but too few, nothing wakes the call. It polls the list after 2 ms, 4 ms, and so on, up to every
// 32 ms.
func (l *ShardedList) BLMoveM(ctx context.Context, destination *ShardedList, srcpos, destpos string, timeout time.Duration,
	args redis.LMoveMArgs) ([]string, error) {
	values, err := l.move(destination, srcpos, destpos, args, within(ctx, timeout))
	return values, l.wrap("blmovem", err)
}

// move runs a move with atOnce or within.
func (l *ShardedList) move(destination *ShardedList, from, to string, args redis.LMoveMArgs,
	carryOut func(*blocking.Call) ([]string, error)) ([]string, error) {
	if destination == nil {
		return nil, ErrNilList
	}
	how, err := layout.ParseMove(from, to, args)
	if err != nil {
		return nil, err
	}
	call, err := l.list.Move(destination.list, how)
	if err != nil {
		return nil, err
	}
	return carryOut(call)
}

// atOnce runs a call without waiting for elements.
func atOnce(ctx context.Context) func(*blocking.Call) ([]string, error) {
	return func(call *blocking.Call) ([]string, error) { return call.Run(ctx) }
}

// within runs a call that waits for elements until the timeout.
func within(ctx context.Context, timeout time.Duration) func(*blocking.Call) ([]string, error) {
	return func(call *blocking.Call) ([]string, error) { return call.Wait(ctx, timeout) }
}

// first returns the first value. There is one unless there is an error.
func first(values []string, err error) (string, error) {
	if !isDone(err) {
		return "", err
	}
	return values[0], err
}
