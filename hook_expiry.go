package shardedlist

import (
	"context"
	"math"
	"strings"
	"time"
)

// translateExpire leaves faults with the arguments to the server, which finds them whether there is a key or not.
func translateExpire(how string, unit time.Duration) func(context.Context, *invocation, []*ShardedList) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
		e := expiry{how: how}
		var sound bool
		if e.milliseconds, sound = c.milliseconds(how, unit); sound {
			e.conditions, sound = c.conditions(3)
		}
		if !sound {
			return &translation{plain: c.args, reply: func(_ []any, plain any) (any, error) { return plain, nil }}, nil
		}
		return expiring(c, lists[0], e), nil
	}
}

func translatePersist(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	return expiring(c, lists[0], expiry{expiryNever, 0, "XX"}), nil
}

// expiring is the translation of a command that sets when a list expires.
func expiring(c *invocation, l *ShardedList, e expiry) *translation {
	t := writing(l, l.expireOperation(e))
	t.plain = c.args
	t.served = func(replies []any) bool { return replies[0] != verdictNo }
	t.reply = func(replies []any, plain any) (any, error) {
		if replies[0] == verdictNo {
			return plain, nil
		}
		return int64(1), nil
	}
	t.after = func(ctx context.Context, replies []any) (err error) {
		replies[0], err = l.keepExpiring(ctx, e, replies[0].(int64))
		return err
	}
	return t
}

// milliseconds reads when a list is to expire, unless Redis has no room for it.
func (c *invocation) milliseconds(how string, unit time.Duration) (int64, bool) {
	n, err := c.integer(2)
	per := unit.Milliseconds()
	if err != nil || n > math.MaxInt64/per || n < math.MinInt64/per {
		return 0, false
	}
	n *= per
	return n, how == expiryAt || n <= math.MaxInt64-time.Now().UnixMilli()
}

// conditions reads those of an expiry, if they are compatible.
func (c *invocation) conditions(from int) (string, bool) {
	has := map[string]bool{}
	for i := from; i < len(c.args); i++ {
		has[strings.ToUpper(c.text(i))] = true
	}
	var found []string
	for _, condition := range []string{"NX", "XX", "GT", "LT"} {
		if has[condition] {
			found = append(found, condition)
		}
	}
	clash := has["GT"] && has["LT"] || has["NX"] && len(found) > 1
	return strings.Join(found, " "), len(found) == len(has) && !clash
}

func translateTTL(kind lifetime) func(context.Context, *invocation, []*ShardedList) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
		served := func(replies []any) bool { return replies[0].([]any)[0] != noList }
		return &translation{
			steps:  unguarded(lists, ttlScript),
			plain:  c.args,
			served: served,
			reply: func(replies []any, plain any) (any, error) {
				if !served(replies) {
					return plain, nil
				}
				return kind.of(replies[0])
			},
		}, nil
	}
}

// translateRename is for RENAME and RENAMENX: the latter does not replace a list.
func translateRename(done any, replace bool) func(context.Context, *invocation, []*ShardedList) (*translation, error) {
	return func(_ context.Context, _ *invocation, lists []*ShardedList) (*translation, error) {
		return transferring(lists, renames, replace, done)
	}
}

func translateCopy(_ context.Context, c *invocation, lists []*ShardedList) (*translation, error) {
	replace := false
	for i := 3; i < len(c.args); i++ {
		switch {
		case c.is(i, "replace"):
			replace = true
		case c.is(i, "db") && i+1 < len(c.args):
			return nil, c.unsupported(noOther)
		default:
			return nil, errSyntax
		}
	}
	return transferring(lists, copies, replace, int64(1))
}

// transferring is the translation of a command that gives its first list, or its elements, to the second.
func transferring(lists []*ShardedList, what string, replace bool, done any) (*translation, error) {
	from, to := lists[0], lists[1]
	if from == to {
		return reading(from, llenScript, func(length any) (any, error) {
			transferred, err := transferToItself(what, length.(int64), replace)
			if err != nil || !transferred {
				return verdictNo, err
			}
			return done, nil
		}), nil
	}
	o, err := from.transferOperation(what, to, replace)
	if err != nil {
		return nil, err
	}
	t := writing(from, o)
	t.reply = func(replies []any, _ any) (any, error) {
		if replies[0] == verdictNo {
			return verdictNo, nil
		}
		return done, nil
	}
	t.after = func(ctx context.Context, replies []any) error {
		to.tend(ctx, replies[0].(int64))
		return nil
	}
	return t, nil
}
