package hook

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/session"
)

func translateExists(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	return counting(c, lists, layout.List.Exists, func(length any) bool { return length.(int64) > 0 }), nil
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
	exists := func(results []any) bool { return results[0].(int64) > 0 }
	t := general(c, lists, layout.List.Exists, exists)
	t.reply = func(results []any, plain any) (any, error) {
		if exists(results) {
			return "list", nil
		}
		return plain, nil
	}
	return t, nil
}

// translateOther refuses a command of another type if there is a sharded list.
func translateOther(ctx context.Context, _ *invocation, lists []layout.List) (*translation, error) {
	length, err := lists[0].Exists().Run(ctx)
	if err == nil && length.(int64) > 0 {
		err = rediserr.WrongType
	}
	return nil, err
}

func translateObject(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	told := func(results []any) bool { return results[0] != nil }
	t := general(c, lists, func(l layout.List) session.Operation { return l.Object(c.text(1)) }, told)
	t.reply = func(results []any, plain any) (any, error) {
		if told(results) {
			return results[0], nil
		}
		return plain, nil
	}
	return t, nil
}

// translateMemory answers MEMORY USAGE from Info, before the rest of a pipeline is sent.
func translateMemory(ctx context.Context, c *invocation, lists []layout.List) (*translation, error) {
	if !c.is(1, "usage") {
		return nil, nil
	}
	info, err := lists[0].Info(ctx)
	if err != nil || info.Length == 0 {
		return nil, err
	}
	return &translation{reply: func([]any, any) (any, error) { return info.Bytes, nil }}, nil
}
