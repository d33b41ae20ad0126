package foreign

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// keysOnly keeps from a hook the commands that have no key. A hook that matches every key takes their first word for one, and
// so the HELLO with which go-redis opens a connection.
type keysOnly struct{ redis.Hook }

// keyless are the commands without a key that go-redis itself or a suite sends.
var keyless = set("acl", "auth", "client", "command", "config", "dbsize", "debug", "flushall", "flushdb", "function", "hello", "info",
	"latency", "lastsave", "multi", "exec", "ping", "readonly", "reset", "role", "save", "script", "select", "slowlog", "swapdb", "time",
	"unwatch", "wait")

func (k keysOnly) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	hooked := k.Hook.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		if keyless[cmd.Name()] {
			return next(ctx, cmd)
		}
		return hooked(ctx, cmd)
	}
}

func (k keysOnly) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	hooked := k.Hook.ProcessPipelineHook(next)
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			if !keyless[cmd.Name()] {
				return hooked(ctx, cmds)
			}
		}
		return next(ctx, cmds)
	}
}

func set(names ...string) map[string]bool {
	s := make(map[string]bool)
	for _, name := range names {
		s[name] = true
	}
	return s
}
