package shardedlist

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// awaited is a command over several lists, or one that may wait, as the hook reads it.
type awaited struct {
	*errand
	wait  func(ctx context.Context) ([]string, error) // until there are elements
	reply func(values []string) any
}

// runErrand translates a command that reads as an errand into one that does not wait, as in a transaction.
func runErrand(read func(*invocation, []*ShardedList) (*awaited, error)) func(context.Context, *invocation, []*ShardedList) (*translation, error) {
	return func(ctx context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
		a, err := read(c, lists)
		if err != nil {
			return nil, err
		}
		if err := a.prepare(ctx); err != nil {
			return nil, err
		}
		t := writing(a.lists[0], a.operation(dontWait, ""))
		t.reply = func(replies []any, _ any) (any, error) { return a.replyTo(found(replies[0], nil)) }
		return t, nil
	}
}

// awaitErrand carries out a command that may wait.
func awaitErrand(read func(*invocation, []*ShardedList) (*awaited, error)) func(context.Context, *invocation, []*ShardedList) (any, error) {
	return func(ctx context.Context, c *invocation, lists []*ShardedList) (any, error) {
		a, err := read(c, lists)
		if err != nil {
			return nil, err
		}
		return a.replyTo(a.wait(ctx))
	}
}

func (a *awaited) replyTo(values []string, err error) (any, error) {
	if !isDone(err) {
		return nil, err
	}
	return a.reply(values), err
}

func one(values []string) any     { return values[0] }
func several(values []string) any { return array(values) }

// moveBetween reads a command that moves elements from its first list to its second.
func moveBetween(lists []*ShardedList, from, to string, args redis.LMoveMArgs, reply func([]string) any) (*awaited, error) {
	e, err := lists[0].moving(lists[1], from, to, args)
	if err != nil {
		return nil, err
	}
	return &awaited{errand: e, reply: reply}, nil
}

// within reads the timeout of a command that waits for an errand.
func (c *invocation) within(a *awaited, err error, position int) (*awaited, error) {
	if err != nil {
		return nil, err
	}
	timeout, err := c.timeout(position)
	if err != nil {
		return nil, err
	}
	a.wait = func(ctx context.Context) ([]string, error) { return a.errand.wait(ctx, timeout) }
	return a, nil
}

func rpoplpush(_ *invocation, lists []*ShardedList) (*awaited, error) {
	return moveBetween(lists, "RIGHT", "LEFT", redis.LMoveMArgs{}, one)
}

func brpoplpush(c *invocation, lists []*ShardedList) (*awaited, error) {
	a, err := rpoplpush(c, lists)
	return c.within(a, err, 3)
}

func lmove(c *invocation, lists []*ShardedList) (*awaited, error) {
	return moveBetween(lists, c.text(3), c.text(4), redis.LMoveMArgs{}, one)
}

func blmove(c *invocation, lists []*ShardedList) (*awaited, error) {
	a, err := lmove(c, lists)
	return c.within(a, err, 5)
}

func lmovem(c *invocation, lists []*ShardedList) (*awaited, error) { return c.moveSeveral(lists, 5) }

func blmovem(c *invocation, lists []*ShardedList) (*awaited, error) {
	a, err := c.moveSeveral(lists, 6)
	return c.within(a, err, 5)
}

// moveSeveral reads LMOVEM, whose options stand at a position: how many elements, and in which order.
func (c *invocation) moveSeveral(lists []*ShardedList, options int) (*awaited, error) {
	var args redis.LMoveMArgs
	switch len(c.args) - options {
	case 0:
	case 3:
		count, err := c.integer(options + 1)
		if err != nil || count <= 0 {
			return nil, errCount
		}
		args = redis.LMoveMArgs{Mode: redis.LMoveMMode(c.text(options)), Count: count, Order: redis.LMoveMOrder(c.text(options + 2))}
		if args.Mode == "" || args.Order == "" {
			return nil, errSyntax
		}
	default:
		return nil, errSyntax
	}
	return moveBetween(lists, c.text(3), c.text(4), args, several)
}

// popFrom reads a command that pops from the first of its lists that has elements. Its reply names that list.
func popFrom(lists []*ShardedList, direction string, count int64, reply func(values []string) any) (*awaited, error) {
	p, err := popping(direction, count, lists)
	if err != nil {
		return nil, err
	}
	return &awaited{errand: &p.errand, reply: func(values []string) any {
		from, values, _ := p.from(values, nil)
		return []any{from.name, reply(values)}
	}}, nil
}

func blpop(direction string) func(*invocation, []*ShardedList) (*awaited, error) {
	return func(c *invocation, lists []*ShardedList) (*awaited, error) {
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

func waitAlone(ctx context.Context, l *ShardedList, direction string, timeout time.Duration) ([]string, error) {
	end, err := sideOf(direction)
	if err != nil {
		return nil, err
	}
	value, err := l.waitersAt(end).pop(ctx, timeout)
	return []string{"1", value}, err
}

func lmpop(c *invocation, lists []*ShardedList) (*awaited, error) { return c.popSeveral(lists, 1) }

func blmpop(c *invocation, lists []*ShardedList) (*awaited, error) {
	a, err := c.popSeveral(lists, 2)
	return c.within(a, err, 1)
}

// popSeveral reads LMPOP, whose number of keys stands at a position.
func (c *invocation) popSeveral(lists []*ShardedList, number int) (*awaited, error) {
	at := number + 1 + len(lists)
	direction, count := c.text(at), int64(1)
	if _, err := sideOf(direction); err != nil {
		return nil, err
	}
	if len(c.args) > at+2 && c.is(at+1, "count") {
		var err error
		if count, err = c.integer(at + 2); err != nil || count <= 0 {
			return nil, errCount
		}
		at += 2
	}
	if len(c.args) > at+1 {
		return nil, errSyntax
	}
	return popFrom(lists, direction, min(count, maxListLength), several)
}
