package hook

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/session"
)

// translateExpire leaves invalid arguments to the server, which finds them whether the key exists or not.
func translateExpire(how layout.ExpiryKind, unit time.Duration) func(context.Context, *invocation, []layout.List) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
		e := layout.Expiry{How: how}
		var sound bool
		if e.Milliseconds, sound = c.milliseconds(how, unit); sound {
			e.Conditions, sound = c.conditions(3)
		}
		if !sound {
			return &translation{plain: c.args, reply: func(_ []any, plain any) (any, error) { return plain, nil }}, nil
		}
		return expiring(c, lists, e), nil
	}
}

func translatePersist(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return expiring(c, lists, layout.Expiry{How: layout.ExpireNever, Conditions: "XX"}), nil
}

// expiring translates a command that sets the expiry of a list.
func expiring(c *invocation, lists []layout.List, e layout.Expiry) *translation {
	expire := func(l layout.List, key ...any) session.Operation { return l.Expire(e, key...) }
	return general(c, lists[0], expire, func(set any) any {
		if set == true {
			return int64(1)
		}
		return int64(0)
	})
}

// milliseconds parses the time of an expiry, unless it is out of range for Redis.
func (c *invocation) milliseconds(how layout.ExpiryKind, unit time.Duration) (int64, bool) {
	n, err := c.integer(2)
	per := unit.Milliseconds()
	if err != nil || n > math.MaxInt64/per || n < math.MinInt64/per {
		return 0, false
	}
	n *= per
	return n, how == layout.ExpireAt || n <= math.MaxInt64-time.Now().UnixMilli()
}

// conditions parses the conditions of an expiry, if they are compatible.
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

func translateTTL(unit time.Duration, absolute bool) func(context.Context, *invocation, []layout.List) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
		return general(c, lists[0], layout.List.Lifetime, func(found any) any { return found.(layout.Lifetime).In(unit, absolute) }), nil
	}
}

// translateRename is for RENAME and RENAMENX. The latter does not replace a list.
func translateRename(done any, replace bool) func(context.Context, *invocation, []layout.List) (*translation, error) {
	return func(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
		return transferring(c, lists, layout.Rename, replace, done)
	}
}

func translateCopy(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	replace := false
	for i := 3; i < len(c.args); i++ {
		switch {
		case c.is(i, "replace"):
			replace = true
		case c.is(i, "db") && i+1 < len(c.args):
			i++
			switch db, err := c.integer(i); {
			case err != nil:
				return nil, err
			case db != database(lists[0].Client()):
				return nil, c.unsupported(noOther)
			}
		default:
			return nil, rediserr.Syntax
		}
	}
	if lists[0] == lists[1] {
		return nil, rediserr.SameObject
	}
	return transferring(c, lists, layout.Copy, replace, int64(1))
}

// database returns the number of the database that a client uses.
func database(rdb redis.UniversalClient) int64 {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return int64(rdb.Options().DB)
	case *redis.Ring:
		return int64(rdb.Options().DB)
	}
	return 0 // a cluster has no other
}

// transferring is the translation of a command that gives its first list, or its elements, to the second. Where there is no list, the
// script has the server do it with the keys.
func transferring(c *invocation, lists []layout.List, how layout.Transfer, replace bool, done any) (*translation, error) {
	from, to := lists[0], lists[1]
	if from == to {
		return general(c, from, layout.List.Exists, func(any) any {
			if !replace {
				return int64(0)
			}
			return done
		}), nil
	}
	op, err := from.Transfer(how, to, replace)
	if err != nil {
		return nil, err
	}
	return singleThen(op, func(transferred any) (any, error) {
		if transferred == true {
			return done, nil
		}
		return int64(0), nil
	}), nil
}
