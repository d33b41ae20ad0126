package shardedlist

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
)

// LMove moves an element from one end of the list to one end of another, in one atomic step, and returns it: LMOVE. The ends
// are "LEFT" or "RIGHT". The destination may be the same list, which is then rotated. It returns redis.Nil if the list is empty.
//
// It costs O(1). Both lists must be of the same client, else it returns ErrOtherClient, and on a cluster in one slot, which a
// hash tag in their names sees to, else the server's CROSSSLOT; other ends are a syntax error; all that with nothing sent. It
// returns ErrWrongType or ErrLayout for a list that is not one of ours, and the server's own errors, out of memory for one,
// with nothing changed.
//
// It is done once: if a reply is lost, it is repeated under its number until the deadline of ctx, or for ten seconds if it has
// none, and for thirty at the most. If it is given up before its outcome is known, the error is ErrOutcomeUnknown.
func (l *ShardedList) LMove(ctx context.Context, destination *ShardedList, srcpos, destpos string) (string, error) {
	value, err := first(l.move(destination, srcpos, destpos, redis.LMoveMArgs{}, atOnce(ctx)))
	return value, l.wrap("lmove", err)
}

// RPopLPush is LMove from the right end to the left end: RPOPLPUSH.
func (l *ShardedList) RPopLPush(ctx context.Context, destination *ShardedList) (string, error) {
	value, err := first(l.move(destination, "RIGHT", "LEFT", redis.LMoveMArgs{}, atOnce(ctx)))
	return value, l.wrap("rpoplpush", err)
}

// BLMove is LMove that waits for an element while the list is empty: BLMOVE. It waits for as long as timeout, in milliseconds
// at the finest, or for ever if that is 0, and returns redis.Nil when the time is up.
//
// A cancelled ctx ends the wait within a round trip to the server: the element is moved and returned, or it is not moved and
// the error is that of ctx. If the server does not answer for half a second, the error is ErrOutcomeUnknown too.
//
// Each call that waits holds a connection, and a goroutine of this package. Callers are served in no particular order.
//
// It returns ErrNegativeTimeout, with nothing sent, and otherwise the errors of LMove. A server that cannot serve for the moment
// is borne with until the deadline of ctx, or for ten seconds if it has none. A list that fills while memory is full ends the
// wait with the server's error, and keeps its elements.
func (l *ShardedList) BLMove(ctx context.Context, destination *ShardedList, srcpos, destpos string, timeout time.Duration) (string, error) {
	value, err := first(l.move(destination, srcpos, destpos, redis.LMoveMArgs{}, within(ctx, timeout)))
	return value, l.wrap("blmove", err)
}

// BRPopLPush is BLMove from the right end to the left end: BRPOPLPUSH.
func (l *ShardedList) BRPopLPush(ctx context.Context, destination *ShardedList, timeout time.Duration) (string, error) {
	value, err := first(l.move(destination, "RIGHT", "LEFT", redis.LMoveMArgs{}, within(ctx, timeout)))
	return value, l.wrap("brpoplpush", err)
}

// LMoveM is LMove for several elements, in one atomic step, and returns them in the order in which they stand at the
// destination: LMOVEM, on any server. It moves up to Count elements, or with LMoveMExactly that many or none, and one if Count
// is 0 or less. With LMoveMBulk they keep the order of the source. With LMoveMOBO they are moved one by one, which turns them
// around if both ends are the same. It returns redis.Nil if it has moved none.
//
// It costs O(elements moved); within one list at the same end, one by one, that times the capacity. The errors are those of
// LMove, an unknown mode or order being a syntax error.
func (l *ShardedList) LMoveM(ctx context.Context, destination *ShardedList, srcpos, destpos string, args redis.LMoveMArgs) ([]string, error) {
	values, err := l.move(destination, srcpos, destpos, args, atOnce(ctx))
	return values, l.wrap("lmovem", err)
}

// BLMoveM is LMoveM that waits while the list is empty, or with LMoveMExactly while it has too few elements: BLMOVEM. Otherwise
// it is as BLMove.
//
// A list that has elements, but too few, wakes nobody: the call looks again, after 2 ms, 4 ms and so on up to every 32 ms.
func (l *ShardedList) BLMoveM(ctx context.Context, destination *ShardedList, srcpos, destpos string, timeout time.Duration,
	args redis.LMoveMArgs) ([]string, error) {
	values, err := l.move(destination, srcpos, destpos, args, within(ctx, timeout))
	return values, l.wrap("blmovem", err)
}

// move carries out a move in one of the ways below.
func (l *ShardedList) move(destination *ShardedList, from, to string, args redis.LMoveMArgs,
	carryOut func(*blocking.Call) ([]string, error)) ([]string, error) {
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

// atOnce carries out a call without waiting for elements.
func atOnce(ctx context.Context) func(*blocking.Call) ([]string, error) {
	return func(call *blocking.Call) ([]string, error) { return call.Run(ctx) }
}

// within carries out a call, and waits for elements for a time.
func within(ctx context.Context, timeout time.Duration) func(*blocking.Call) ([]string, error) {
	return func(call *blocking.Call) ([]string, error) { return call.Wait(ctx, timeout) }
}

// first returns the first of the values, of which there is one unless there is an error.
func first(values []string, err error) (string, error) {
	if !isDone(err) {
		return "", err
	}
	return values[0], err
}
