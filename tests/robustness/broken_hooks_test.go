package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
	lists "github.com/shardedlist/shardedlist/tests/harness"
)

// brokenHooks are hooks with one bug each, and the scenario that finds it.
var brokenHooks = []struct {
	name    string
	add     func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option)
	fault   string
	clients string
	words   string // in the violation
	only    string
}{
	{"a pipeline that is repeated without records", func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option) {
		rdb.AddHook(shardedlist.NewHook(rdb, match, append(options, shardedlist.WithoutExactlyOnce())...))
	}, "cut", pipelines, "doubled", "queue"},
	{"a command that is repeated behind the others of its pipeline", with(nil, repeatFirst), "none", pipelines, "out of order", "queue"},
	{"a transaction that is undone by parts", with(undo, nil), "cut", transactions, "half done|came again", "queue"},
	{"a transaction that is sent as a pipeline", with(nil, withoutMulti), "cut", transactions, "half done", "queue"},
	{"newcomers that jump the queue", withScripts("local left = join % 2 == 1", "local left = join % 2 == 0"), "none", rollout, "out of order", "queue"},
	{"newcomers that jump the queue, in rounds", withScripts("local left = join % 2 == 1", "local left = join % 2 == 0"), "none", rollout,
		"no order of the calls", "rounds"},
	{"a command that is repeated without a record", func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option) {
		rdb.AddHook(shardedlist.NewHook(rdb, match, append(options, shardedlist.WithoutExactlyOnce())...))
	}, "cut", rollout, "doubled", "queue"},
	{"a lookout that takes what it sees", func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option) {
		rdb.AddHook(shardedlist.NewHook(rdb, match, options...))
		rdb.AddHook(takingLookout{})
	}, "none", moves, "lost", "queue"},
}

// takingLookout waits for elements of a list that does not match by a pop.
type takingLookout struct{}

func (takingLookout) DialHook(next redis.DialHook) redis.DialHook { return next }

func (takingLookout) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (takingLookout) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "blmove" && args[1] == args[2] {
			err := next(ctx, redis.NewStringSliceCmd(ctx, "blpop", args[1], args[5]))
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

func TestEveryBrokenHookIsCaught(t *testing.T) {
	for _, b := range brokenHooks {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			isCaught(t, b.fault, redistest.Redis, b.clients, b.words, func(sc *scenario) { sc.variant, sc.only, sc.span = b.name, b.only, 3*time.Second })
		})
	}
}

// with adds the hook between two others, each of which may be nil.
func with(before, behind func(rdb redis.UniversalClient, next redis.ProcessPipelineHook) redis.ProcessPipelineHook) func(redis.UniversalClient, func(string) bool, ...shardedlist.Option) {
	return func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option) {
		if before != nil {
			rdb.AddHook(pipelineHook{rdb, before})
		}
		rdb.AddHook(shardedlist.NewHook(rdb, match, options...))
		if behind != nil {
			rdb.AddHook(pipelineHook{rdb, behind})
		}
	}
}

// withScripts adds the hook with scripts that are changed on their way to the server. The texts are pairs of old and new.
func withScripts(texts ...string) func(redis.UniversalClient, func(string) bool, ...shardedlist.Option) {
	return func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option) {
		rdb.AddHook(shardedlist.NewHook(rdb, match, options...))
		rdb.AddHook(lists.NewRewriter(texts...))
	}
}

type pipelineHook struct {
	rdb redis.UniversalClient
	do  func(rdb redis.UniversalClient, next redis.ProcessPipelineHook) redis.ProcessPipelineHook
}

func (h pipelineHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (h pipelineHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h pipelineHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return h.do(h.rdb, next)
}

// repeatFirst sends the first command of some pipelines behind the others, as if it had failed.
func repeatFirst(_ redis.UniversalClient, next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) == 1 || rand.IntN(100) > 0 {
			return next(ctx, cmds)
		}
		return errors.Join(next(ctx, cmds[1:]), next(ctx, cmds[:1]))
	}
}

// undo puts back what a transaction took whose reply was lost.
func undo(rdb redis.UniversalClient, next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if errors.Is(err, session.ErrReplyLost) {
			for _, cmd := range cmds {
				if pop, ok := cmd.(*redis.StringCmd); ok && pop.Err() == nil {
					_ = rdb.LPush(ctx, pop.Args()[1].(string), pop.Val()).Err()
				}
			}
		}
		return err
	}
}

// withoutMulti sends each command of a transaction by itself.
func withoutMulti(rdb redis.UniversalClient, next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) (err error) {
		if cmds[0].Name() != "multi" {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds[1 : len(cmds)-1] {
			err = errors.Join(err, rdb.Process(ctx, cmd))
		}
		return err
	}
}
