package harness

import (
	"context"

	"github.com/redis/go-redis/v9"
)

type Watcher interface {
	Watch(ctx context.Context, fn func(*redis.Tx) error, keys ...string) error
}

type RoundTrips struct{ Commands, Pipelines int }

// Greets tells the commands that go-redis sends on a new connection.
func Greets(cmd redis.Cmder) bool { return cmd.Name() == "hello" || cmd.Name() == "client" }

func (r *RoundTrips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *RoundTrips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !Greets(cmd) {
			r.Commands++
		}
		return next(ctx, cmd)
	}
}

func (r *RoundTrips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !Greets(cmds[0]) {
			r.Pipelines++
		}
		return next(ctx, cmds)
	}
}
