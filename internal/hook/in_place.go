package hook

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// learnForbidden remembers that the user, or the server, has no transactions or lacks a command of them.
func (h *Hook) learnForbidden(err error) (forbidden bool) {
	if forbidden = script.LacksCommand(err); forbidden {
		h.scriptsOnly.Store(true)
	}
	return forbidden
}

// maxInPlace is how many reads may be one transaction: the server carries out no other command meanwhile.
const maxInPlace = 256

// readInPlace carries out a pipeline that only reads lists, and reports whether it has. If all of them are short, each list is its key, and
// the commands are sent as they are. EXISTS of the metas in the same transaction proves it: a short list has none as a rule.
func (h *Hook) readInPlace(ctx context.Context, cmds []redis.Cmder, calls []*invocation) bool {
	client, one := h.client.(*redis.Client) // in a cluster, a transaction is on one slot
	if !one || len(cmds) == 1 || len(cmds) > maxInPlace || h.scriptsOnly.Load() {
		return false
	}
	lists, metas := make([]layout.List, len(cmds)), make([]any, 1, 1+len(cmds))
	metas[0] = "exists"
	for i, c := range calls {
		if c == nil || !c.command.inPlace || c.tooLong() {
			return false
		}
		of, err := h.lists(c)
		if err != nil || takeSteps(of, false) || !of[0].MayBeInPlace() {
			return false
		}
		lists[i] = of[0]
		metas = append(metas, of[0].Watched()[0])
	}
	pipe, found := client.TxPipeline(), script.NewCommand(ctx, metas...)
	_ = pipe.Process(ctx, found)
	for i, cmd := range cmds {
		_ = pipe.Process(ctx, script.AsItIs(cmd, lists[i].Stats()))
	}
	_, _ = pipe.Exec(ctx)                                                                             // each command has its own error
	lost := slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return script.IsLost(cmd.Err()) }) // go-redis repeats no transaction
	if lost || found.Val() != int64(0) {
		h.learnForbidden(found.Err())
		for i, l := range lists {
			if !lost {
				l.NotInPlace()
			}
			h.learnForbidden(cmds[i].Err())
			cmds[i].SetErr(nil)
		}
		return false
	}
	for _, l := range lists {
		l.Stats().Operation(stats.Read, 0)
	}
	return true
}
