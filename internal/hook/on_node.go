package hook

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// OnNode returns the hook for a node of a cluster or a ring. go-redis calls the hooks of nodes, and not those of the cluster, for
// transactions that Watch opens, and in full duplex.
func (h *Hook) OnNode() redis.Hook { return onNode{h} }

// onNode is the hook of a node. The commands of its cluster come here too, when the hook of the cluster is through with them.
type onNode struct{ hook *Hook }

// DialHook is of redis.Hook.
func (n onNode) DialHook(next redis.DialHook) redis.DialHook { return n.hook.DialHook(next) }

// ProcessHook is of redis.Hook.
func (n onNode) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if calledInFullDuplex() {
		return n.hook.refuse(next)
	}
	direct := n.hook.processes(next, calledForOneConnection())
	return func(ctx context.Context, cmd redis.Cmder) error {
		if n.hook.passedOn(ctx) {
			return next(ctx, cmd)
		}
		return direct(ctx, cmd)
	}
}

// ProcessPipelineHook is of redis.Hook.
func (n onNode) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	direct := n.hook.pipelines(next, true)
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if n.hook.passedOn(ctx) {
			return next(ctx, cmds)
		}
		return direct(ctx, cmds)
	}
}

// passOn marks what the hook of a cluster sends, for the hooks of its nodes.
func (h *Hook) passOn(ctx context.Context) context.Context {
	return context.WithValue(ctx, mark{h}, true)
}

// passedOn tells whether commands come from the hook of the cluster.
func (h *Hook) passedOn(ctx context.Context) bool { return ctx.Value(mark{h}) != nil }

// mark is the key of a context's value.
type mark struct{ hook *Hook }
