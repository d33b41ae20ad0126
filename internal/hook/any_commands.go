package hook

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/session"
)

func translateExists(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	if len(c.args) == 2 {
		return ofOneKey(c, lists, int64(1)), nil
	}
	beside := func(l layout.List) session.Operation { return l.Exists(true) } // the command itself counts the lists that are plain keys
	return counting(c, lists, beside, func(length any) bool { return length.(int64) > 0 }), nil
}

func existence(l layout.List) session.Operation { return l.Exists(false) }

// ofOneKey is the translation of a command that has one reply for all lists, and its own for other keys.
func ofOneKey(c *invocation, lists []layout.List, ofList any) *translation {
	exists := func(results []any) bool { return results[0].(int64) > 0 }
	t := general(c, lists, existence, exists)
	t.reply = func(results []any, plain any) (any, error) {
		if exists(results) {
			return ofList, nil
		}
		return plain, nil
	}
	return t
}

func translateDel(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return counting(c, lists, layout.List.Delete, func(existed any) bool { return existed.(bool) }), nil
}

// counting translates a command that counts the lists with a true result, and the plain keys.
func counting(c *invocation, lists []layout.List, operation func(layout.List) session.Operation, isTrue func(result any) bool) *translation {
	count := func(results []any) (total int64) {
		for _, result := range results {
			if isTrue(result) {
				total++
			}
		}
		return total
	}
	t := general(c, lists, operation, func(results []any) bool { return count(results) == int64(len(c.args)-1) })
	t.reply = func(results []any, plain any) (any, error) {
		keys, _ := plain.(int64)
		return count(results) + keys, nil
	}
	return t
}

func translateType(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return ofOneKey(c, lists, "list"), nil
}

func translateObject(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return telling(c, lists, func(l layout.List) session.Operation { return l.Object(c.text(1)) }), nil
}

func translateMemoryUsage(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	for i := 3; i < len(c.args); i += 2 {
		if !c.is(i, "samples") || i+1 == len(c.args) {
			return nil, rediserr.Syntax
		}
		switch samples, err := c.integer(i + 1); {
		case err != nil:
			return nil, err
		case samples < 0:
			return nil, rediserr.Syntax
		}
	}
	return telling(c, lists, layout.List.Memory), nil
}

// telling is the translation of a command that tells something of a list, or of what is at the plain key.
func telling(c *invocation, lists []layout.List, operation func(layout.List) session.Operation) *translation {
	told := func(results []any) bool { return results[0] != nil }
	t := general(c, lists, operation, told)
	t.reply = func(results []any, plain any) (any, error) {
		if told(results) {
			return results[0], nil
		}
		return plain, nil
	}
	return t
}
