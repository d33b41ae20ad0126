package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// commands is a list as users of go-redis call it: through the hook, or without it on the plain list.
type commands struct {
	rdb  redis.UniversalClient
	name string
}

func (c commands) LPush(ctx context.Context, values ...any) (int64, error) {
	return c.rdb.LPush(ctx, c.name, values...).Result()
}

func (c commands) RPush(ctx context.Context, values ...any) (int64, error) {
	return c.rdb.RPush(ctx, c.name, values...).Result()
}

func (c commands) LPop(ctx context.Context) (string, error) { return c.rdb.LPop(ctx, c.name).Result() }
func (c commands) RPop(ctx context.Context) (string, error) { return c.rdb.RPop(ctx, c.name).Result() }

func (c commands) LPopCount(ctx context.Context, count int) ([]string, error) {
	return c.rdb.LPopCount(ctx, c.name, count).Result()
}

func (c commands) RPopCount(ctx context.Context, count int) ([]string, error) {
	return c.rdb.RPopCount(ctx, c.name, count).Result()
}

func (c commands) BLPop(ctx context.Context, timeout time.Duration) (string, error) {
	return c.wait(ctx, "blpop", timeout)
}

func (c commands) BRPop(ctx context.Context, timeout time.Duration) (string, error) {
	return c.wait(ctx, "brpop", timeout)
}

// wait is a blocking pop. The methods of go-redis round timeouts up to a second.
func (c commands) wait(ctx context.Context, command string, timeout time.Duration) (string, error) {
	popped, err := c.rdb.Do(ctx, command, c.name, fmt.Sprint(timeout.Seconds())).StringSlice()
	if len(popped) < 2 {
		return "", err
	}
	return popped[1], err
}

func (c commands) LLen(ctx context.Context) (int64, error) { return c.rdb.LLen(ctx, c.name).Result() }

func (c commands) LIndex(ctx context.Context, index int64) (string, error) {
	return c.rdb.LIndex(ctx, c.name, index).Result()
}

// oldCommands are those of a process without the library, which only pushes.
type oldCommands struct{ commands }

func (c oldCommands) RPush(ctx context.Context, values ...any) (int64, error) {
	push := redis.NewIntCmd(ctx, append([]any{"rpush", c.name}, values...)...)
	err := c.rdb.Process(ctx, sentOnce{push})
	if err != nil && !isReply(err) && !isDialing(err) {
		err = fmt.Errorf("%w: %w", shardedlist.ErrOutcomeUnknown, err)
	}
	return push.Val(), err
}
