package shardedlist

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
)

// LMPop removes up to count elements from one end of the first of the lists that has any, in one atomic step, and returns that
// list and the elements in the order they are popped: LMPOP. The direction is "LEFT" or "RIGHT". It returns redis.Nil if all
// lists are empty.
//
// It costs O(lists + elements popped), and works on a server whose memory is full. All lists must be of the same client, else
// it returns ErrOtherClient, and on a cluster in one slot, which a hash tag in their names sees to, else the server's CROSSSLOT.
// No lists, a count below 1 and another direction are the server's errors; all that with nothing sent. It returns ErrWrongType or
// ErrLayout for a list that is not one of ours, unless one before it has elements, and the server's own errors, with nothing
// changed.
//
// It is done once: if a reply is lost, it is repeated under its number until the deadline of ctx, or for ten seconds if it has
// none, and for thirty at the most. What it took for a caller that has given up goes back to the end it came from, as long as the
// server can be reached within a minute.
func LMPop(ctx context.Context, direction string, count int64, lists ...*ShardedList) (from *ShardedList, values []string, err error) {
	from, values, err = popFirst(direction, count, lists, atOnce(ctx))
	return from, values, wrapAll("lmpop", lists, err)
}

// BLMPop is LMPop that waits for elements while all lists are empty: BLMPOP. It waits for as long as timeout, in milliseconds at
// the finest, or for ever if that is 0, and returns redis.Nil when the time is up.
//
// A cancelled ctx ends the wait within a round trip to the server, or half a second if it does not answer, with the error of
// ctx. No element is lost by it: those that were on their way are returned in spite of the cancellation, or put back to the
// end they came from.
//
// Each call that waits holds a connection, and a goroutine of this package. Callers are served in no particular order.
//
// It returns ErrNegativeTimeout, with nothing sent, and otherwise the errors of LMPop. A server that cannot serve for the moment
// is borne with until the deadline of ctx, or for ten seconds if it has none.
func BLMPop(ctx context.Context, timeout time.Duration, direction string, count int64, lists ...*ShardedList) (from *ShardedList, values []string, err error) {
	from, values, err = popFirst(direction, count, lists, within(ctx, timeout))
	return from, values, wrapAll("blmpop", lists, err)
}

// BLPop removes the leftmost element of the first of the lists that has any, and returns that list and the element, waiting for
// one while all lists are empty: BLPOP. With one list it is the method of that name, whose callers share a connection. Otherwise
// it is as BLMPop.
func BLPop(ctx context.Context, timeout time.Duration, lists ...*ShardedList) (from *ShardedList, value string, err error) {
	if len(lists) == 1 {
		value, err = lists[0].BLPop(ctx, timeout)
		return fromOnly(lists[0], value, err)
	}
	return popAny(ctx, timeout, "blpop", "LEFT", lists)
}

// BRPop is BLPop at the right end: BRPOP.
func BRPop(ctx context.Context, timeout time.Duration, lists ...*ShardedList) (from *ShardedList, value string, err error) {
	if len(lists) == 1 {
		value, err = lists[0].BRPop(ctx, timeout)
		return fromOnly(lists[0], value, err)
	}
	return popAny(ctx, timeout, "brpop", "RIGHT", lists)
}

func fromOnly(list *ShardedList, value string, err error) (*ShardedList, string, error) {
	if !isDone(err) {
		return nil, "", err
	}
	return list, value, err
}

func popAny(ctx context.Context, timeout time.Duration, name, direction string, lists []*ShardedList) (*ShardedList, string, error) {
	if len(lists) == 0 {
		return nil, "", wrapAll(name, lists, rediserr.WrongNumber(name))
	}
	from, values, err := popFirst(direction, 1, lists, within(ctx, timeout))
	value, err := first(values, err)
	return from, value, wrapAll(name, lists, err)
}

// popFirst pops from the first of the lists that has elements.
func popFirst(direction string, count int64, lists []*ShardedList,
	carryOut func(*blocking.Call) ([]string, error)) (*ShardedList, []string, error) {
	if len(lists) == 0 {
		return nil, nil, rediserr.NumKeys
	}
	end, err := layout.ParseEnd(direction)
	if err != nil {
		return nil, nil, err
	}
	if count <= 0 {
		return nil, nil, rediserr.Count
	}
	lists = distinct(lists)
	call, err := lists[0].list.PopFirst(listsOf(lists), end, int(count))
	if err != nil {
		return nil, nil, err
	}
	found, err := carryOut(call)
	if !isDone(err) {
		return nil, nil, err
	}
	number, syntaxErr := strconv.Atoi(found[0])
	if syntaxErr != nil {
		return nil, nil, syntaxErr
	}
	return lists[number-1], found[1:], err
}

// distinct drops lists that have been named before.
func distinct(lists []*ShardedList) []*ShardedList {
	type identity struct {
		name   string
		client redis.UniversalClient
	}
	seen := map[identity]bool{}
	var result []*ShardedList
	for _, l := range lists {
		if id := (identity{l.Name(), l.list.Client()}); !seen[id] {
			seen[id] = true
			result = append(result, l)
		}
	}
	return result
}

// wrapAll is wrap for an operation on several lists. It names the first.
func wrapAll(operation string, lists []*ShardedList, err error) error {
	if len(lists) == 0 {
		return fmt.Errorf("shardedlist: %s: %w", operation, err) // there always is one
	}
	return lists[0].wrap(operation, err)
}
