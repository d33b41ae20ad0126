package shardedlist

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
)

// LMPop removes up to count elements from one end of the first list that has any. It returns that list, and the elements in the
// order popped: LMPOP. The direction is "LEFT" or "RIGHT". It returns redis.Nil if all lists are empty.
//
// It is one atomic step, O(lists + elements popped), and works while the memory of the server is full. It is applied exactly
// once. Elements that it takes for a caller that gave up are put back at their end. See [ShardedList] for retries and
// cancellation.
//
// Before anything is sent, LMPop returns ErrOtherClient if the lists do not have the same client, and Redis's error if there is
// no list, if count is below 1, if the direction is another word, and, on a cluster, if the lists are not in one slot
// (CROSSSLOT). Give their names a common hash tag. A faulty list is an error only if no list before it has elements.
func LMPop(ctx context.Context, direction string, count int64, lists ...*ShardedList) (from *ShardedList, values []string, err error) {
	from, values, err = popFirst(direction, count, lists, atOnce(ctx))
	return from, values, wrapAll("lmpop", lists, err)
}

// BLMPop is LMPop that waits for elements while all lists are empty: BLMPOP. It waits for up to timeout, with a resolution of
// one millisecond, or forever if timeout is 0. It returns redis.Nil if the timeout is over. If the server cannot serve or does not
// answer, BLMPop returns as BLMove does.
//
// When ctx is cancelled, BLMPop returns within a round trip, or within half a second if the server does not answer. The error
// is that of ctx. No element is lost: elements already popped are returned in spite of the cancellation, or put back at the end
// they came from.
//
// Callers that want one element, from the same lists in the same order, share a wait and are served in the order they came. Others have
// a goroutine of this package each, and no order among them. A client holds at most eight blocked connections on a server. If the
// server cannot serve the lists for now, BLMPop retries until the deadline of ctx, or for ten seconds if ctx has none.
//
// It returns ErrNegativeTimeout if timeout is below 0, before anything is sent. Otherwise its errors are those of LMPop.
func BLMPop(ctx context.Context, timeout time.Duration, direction string, count int64, lists ...*ShardedList) (from *ShardedList, values []string, err error) {
	from, values, err = popFirst(direction, count, lists, within(ctx, timeout))
	return from, values, wrapAll("blmpop", lists, err)
}

// BLPop removes the leftmost element of the first list that has any, and returns that list and the element. While all lists are
// empty, it waits: BLPOP. With one list it is [ShardedList.BLPop]. With several it is like BLMPop of one element.
func BLPop(ctx context.Context, timeout time.Duration, lists ...*ShardedList) (from *ShardedList, value string, err error) {
	if len(lists) == 1 && lists[0] != nil {
		value, err = lists[0].BLPop(ctx, timeout)
		return fromOnly(lists[0], value, err)
	}
	return popAny(ctx, timeout, "blpop", "LEFT", lists)
}

// BRPop is BLPop at the right end: BRPOP.
func BRPop(ctx context.Context, timeout time.Duration, lists ...*ShardedList) (from *ShardedList, value string, err error) {
	if len(lists) == 1 && lists[0] != nil {
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

// popFirst pops from the first list that has elements.
func popFirst(direction string, count int64, lists []*ShardedList,
	carryOut func(*blocking.Call) ([]string, error)) (*ShardedList, []string, error) {
	switch {
	case len(lists) == 0:
		return nil, nil, rediserr.NumKeys
	case slices.Contains(lists, nil):
		return nil, nil, ErrNilList
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

// distinct drops repeated lists.
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

// wrapAll is wrap for an operation on several lists. It names the first list.
func wrapAll(operation string, lists []*ShardedList, err error) error {
	if len(lists) == 0 || lists[0] == nil {
		return fmt.Errorf("shardedlist: %s: %w", operation, err) // err is never nil here
	}
	return lists[0].wrap(operation, err)
}
