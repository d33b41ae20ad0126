package hook

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
)

// several is a command over several lists, or one that may wait, as the hook reads it.
type several struct {
	call  *blocking.Call
	wait  func(ctx context.Context) ([]string, error) // until there are elements
	reply func(values []string) any
}

// atOnce translates such a command into one that does not wait, as in a transaction.
func atOnce(read func(*invocation, []layout.List) (*several, error)) func(context.Context, *invocation, []layout.List) (*translation, error) {
	return func(ctx context.Context, c *invocation, lists []layout.List) (*translation, error) {
		s, err := read(c, lists)
		if err != nil {
			return nil, err
		}
		op, err := s.call.Operation(ctx)
		if err != nil {
			return nil, err
		}
		return singleThen(op, func(result any) (any, error) { return s.replyTo(s.call.Elements(result, nil)) }), nil
	}
}

// waiting runs such a command outside a pipeline.
func waiting(read func(*invocation, []layout.List) (*several, error)) func(context.Context, *invocation, []layout.List) (any, error) {
	return func(ctx context.Context, c *invocation, lists []layout.List) (any, error) {
		s, err := read(c, lists)
		if err != nil {
			return nil, err
		}
		return s.replyTo(s.wait(ctx))
	}
}

func (s *several) replyTo(values []string, err error) (any, error) {
	if !script.IsDone(err) {
		return nil, err
	}
	return s.reply(values), err
}

func one(values []string) any { return values[0] }
func all(values []string) any { return array(values) }

// moveBetween reads a command that moves elements from its first list to its second.
func moveBetween(lists []layout.List, from, to string, args redis.LMoveMArgs, reply func([]string) any) (*several, error) {
	how, err := layout.ParseMove(from, to, args)
	if err != nil {
		return nil, err
	}
	call, err := lists[0].Move(lists[1], how)
	if err != nil {
		return nil, err
	}
	return &several{call: call, reply: reply}, nil
}

// within parses the timeout of a blocking command on several lists.
func (c *invocation) within(a *several, err error, position int) (*several, error) {
	if err != nil {
		return nil, err
	}
	timeout, err := c.timeout(position)
	if err != nil {
		return nil, err
	}
	a.wait = func(ctx context.Context) ([]string, error) { return a.call.Wait(ctx, timeout) }
	return a, nil
}

func rpoplpush(_ *invocation, lists []layout.List) (*several, error) {
	return moveBetween(lists, "RIGHT", "LEFT", redis.LMoveMArgs{}, one)
}

func brpoplpush(c *invocation, lists []layout.List) (*several, error) {
	a, err := rpoplpush(c, lists)
	return c.within(a, err, 3)
}

func lmove(c *invocation, lists []layout.List) (*several, error) {
	return moveBetween(lists, c.text(3), c.text(4), redis.LMoveMArgs{}, one)
}

func blmove(c *invocation, lists []layout.List) (*several, error) {
	a, err := lmove(c, lists)
	return c.within(a, err, 5)
}

func lmovem(c *invocation, lists []layout.List) (*several, error) { return c.moveSeveral(lists, 5) }

func blmovem(c *invocation, lists []layout.List) (*several, error) {
	a, err := c.moveSeveral(lists, 6)
	return c.within(a, err, 5)
}

// moveSeveral parses LMOVEM, whose options start at a position: the number of elements, and their order.
func (c *invocation) moveSeveral(lists []layout.List, options int) (*several, error) {
	var args redis.LMoveMArgs
	switch len(c.args) - options {
	case 0:
	case 3:
		count, err := c.integer(options + 1)
		if err != nil || count <= 0 {
			return nil, rediserr.Count
		}
		args = redis.LMoveMArgs{Mode: redis.LMoveMMode(c.text(options)), Count: count, Order: redis.LMoveMOrder(c.text(options + 2))}
		if args.Mode == "" || args.Order == "" {
			return nil, rediserr.Syntax
		}
	default:
		return nil, rediserr.Syntax
	}
	return moveBetween(lists, c.text(3), c.text(4), args, all)
}

// popFrom parses a command that pops from the first list that has elements. Its reply names that list.
func popFrom(lists []layout.List, direction string, count int64, reply func(values []string) any) (*several, error) {
	end, err := layout.ParseEnd(direction)
	if err != nil {
		return nil, err
	}
	lists = distinct(lists)
	call, err := lists[0].PopFirst(lists, end, int(count))
	if err != nil {
		return nil, err
	}
	return &several{call: call, reply: func(values []string) any {
		number, _ := strconv.Atoi(values[0])
		return []any{lists[number-1].Name(), reply(values[1:])}
	}}, nil
}

// distinct drops repeated lists.
func distinct(lists []layout.List) []layout.List {
	var result []layout.List
	for _, l := range lists {
		if !slices.Contains(result, l) {
			result = append(result, l)
		}
	}
	return result
}

func blpop(direction string) func(*invocation, []layout.List) (*several, error) {
	return func(c *invocation, lists []layout.List) (*several, error) {
		timeout, err := c.timeout(len(c.args) - 1)
		if err != nil {
			return nil, err
		}
		a, err := popFrom(lists, direction, 1, one)
		if err != nil {
			return nil, err
		}
		if len(lists) == 1 { // its callers wait together
			a.wait = func(ctx context.Context) ([]string, error) { return waitAlone(ctx, lists[0], direction, timeout) }
			return a, nil
		}
		return c.within(a, nil, len(c.args)-1)
	}
}

func waitAlone(ctx context.Context, l layout.List, direction string, timeout time.Duration) ([]string, error) {
	end, err := layout.ParseEnd(direction)
	if err != nil {
		return nil, err
	}
	value, err := l.BlockingPop(ctx, end, timeout)
	return []string{"1", value}, err
}

func lmpop(c *invocation, lists []layout.List) (*several, error) { return c.popSeveral(lists, 1) }

func blmpop(c *invocation, lists []layout.List) (*several, error) {
	a, err := c.popSeveral(lists, 2)
	return c.within(a, err, 1)
}

// popSeveral reads LMPOP, whose number of keys stands at a position.
func (c *invocation) popSeveral(lists []layout.List, number int) (*several, error) {
	at := number + 1 + len(lists)
	direction, count := c.text(at), int64(1)
	if _, err := layout.ParseEnd(direction); err != nil {
		return nil, err
	}
	if len(c.args) > at+2 && c.is(at+1, "count") {
		var err error
		if count, err = c.integer(at + 2); err != nil || count <= 0 {
			return nil, rediserr.Count
		}
		at += 2
	}
	if len(c.args) > at+1 {
		return nil, rediserr.Syntax
	}
	return popFrom(lists, direction, min(count, maxListLength), all)
}
