package hook

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/session"
)

func translateExists(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return counting(c, lists, layout.List.Exists), nil
}

func translateDel(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return counting(c, lists, layout.List.Delete), nil
}

// countAtOnce returns the operation that carries out a command which counts several keys, if their lists may all be short: if they are not,
// it does nothing, and has nil. alone is that of layout.List.CountKeys.
func (h *Hook) countAtOnce(c *invocation, alone bool) (op session.Operation, ok bool) {
	if !c.command.counts || len(c.args) == 2 || len(c.args) > maxWords/2 {
		return op, false
	}
	lists, maybe, err := h.listsAndReserved(c)
	if err != nil || len(maybe) > 0 || takeSteps(lists, false) {
		return op, false
	}
	op, err = lists[0].CountKeys(c.args, lists, alone) // the lists of a ring may be on several servers
	return op, err == nil
}

// counting translates a command that counts its keys.
func counting(c *invocation, lists []layout.List, operation func(l layout.List, key ...any) session.Operation) *translation {
	t := &translation{}
	for i, l := range lists {
		t.addGeneral(l, operation, []any{c.args[0], c.args[c.at[i]]})
	}
	if others := c.unmatched(); len(others) > 0 {
		t.plain = append([]any{c.args[0]}, others...)
	}
	t.reply = func(results []any, plain any) (any, error) {
		total, _ := plain.(int64)
		for _, result := range results {
			if key, ok := result.(layout.OfKey); ok {
				total += key.Reply.(int64)
			} else if result == true {
				total++
			}
		}
		return total, nil
	}
	return t
}

func translateType(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return general(c, lists[0], layout.List.Exists, func(any) any { return "list" }), nil
}

func translateObject(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return general(c, lists[0], layout.List.Object, unchanged), nil
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
	return general(c, lists[0], layout.List.Memory, unchanged), nil
}

func unchanged(result any) any { return result }
