// Package hook is the go-redis hook that makes list commands work on sharded lists.
//
// The package knows commands: where their keys are, what they do to lists, and how Redis replies, alone, in pipelines and in
// transactions. It does not know the keys of shards, nor how operations are retried.
package hook

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

// ErrUnsupported is returned for a command that a sharded list does not support. Its text says what to do instead.
var ErrUnsupported = errors.New("not supported on a sharded list")

// Hook is a redis.Hook.
type Hook struct {
	match   func(key string) bool
	open    func(key string, matches bool) (layout.List, error)
	naming  Naming
	client  redis.UniversalClient
	retries bool // the client repeats commands whose connection has failed

	scriptsOnly atomic.Bool // the user may not call what goes without scripts

	mu           sync.Mutex
	recent, past map[string]layout.List // by key
}

// New returns a hook of the client for the keys that match. open returns the list that stands in for a key: one that stays a plain list, if
// the key does not match.
func New(match func(key string) bool, open func(key string, matches bool) (layout.List, error), naming Naming, client redis.UniversalClient) *Hook {
	return &Hook{match: match, open: open, naming: naming, client: client, retries: script.Retries(client)}
}

// maxRecent limits the number of lists that a hook keeps, to twice as many: the number of names may be unlimited.
const maxRecent = 4096

// matches tells whether a sharded list stands in for a key. None does for the empty key, in which no hash tag has room.
func (h *Hook) matches(key string) bool { return key != "" && h.match(key) }

// list returns the list that stands in for a key.
func (h *Hook) list(key string) (layout.List, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.recent[key]; l != nil {
		return l, nil
	}
	l := h.past[key]
	if l == nil {
		var err error
		if l, err = h.open(key, h.matches(key)); err != nil {
			return nil, err
		}
	}
	if h.recent == nil || len(h.recent) == maxRecent {
		h.recent, h.past = make(map[string]layout.List), h.recent
	}
	h.recent[key] = l
	return l, nil
}

// DialHook implements redis.Hook.
func (h *Hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		script.Dialed(h.client, addr)
		return next(ctx, network, addr)
	}
}

// ProcessHook implements redis.Hook.
func (h *Hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	if calledInFullDuplex() {
		return h.refuse(next)
	}
	return h.processes(next, calledForOneConnection())
}

// processes carries out commands that stand alone, on one connection if it is that of a Conn or Tx.
func (h *Hook) processes(next redis.ProcessHook, one bool) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := h.elsewhere(cmd); err != nil {
			return setReply(cmd, nil, err)
		}
		switch c := h.recognize(cmd); {
		case c == nil:
		case c.name == "watch":
			return h.watch(ctx, c, next)
		case one && !c.waits() && !h.takesSteps(c, false):
			return h.onConnection(h.passOn(ctx), c, next)
		default:
			return h.process(ctx, c, next)
		}
		if l := h.listing(cmd); l != nil {
			return h.listKeys(h.passOn(ctx), l, next)
		}
		return next(ctx, cmd)
	}
}

// process carries out a call that stands alone.
func (h *Hook) process(ctx context.Context, c *invocation, next redis.ProcessHook) error {
	if c.command.direct != nil && !c.tooLong() {
		reply, err := h.alone(ctx, c)
		return setReply(c.cmd, reply, err)
	}
	if op, ok := h.countAtOnce(c, !h.scriptsOnly.Load()); ok {
		reply, err := op.Run(ctx)
		if (reply != nil || err != nil) && !h.learnForbidden(err) {
			return setReply(c.cmd, reply, err)
		}
	}
	t, err := h.translate(ctx, c)
	switch {
	case err != nil:
		return setReply(c.cmd, nil, err)
	case t == nil:
		return next(h.passOn(ctx), c.cmd)
	case t.native != nil:
		return t.runNative(h.passOn(ctx), c.cmd, next)
	case (len(t.steps) > 1 || len(t.steps) == 1 && t.plain != nil) && !h.takesSteps(c, false):
		return h.together(h.passOn(ctx), c)
	}
	reply, err := t.run(ctx, next)
	return setReply(c.cmd, reply, err)
}

// together carries out a command on many keys in one round trip, as one step of the server; while their slot moves, as a step for each key,
// since a transaction would have to wait.
func (h *Hook) together(ctx context.Context, c *invocation) error {
	c.alone = true
	cmds := []redis.Cmder{redis.NewStatusCmd(ctx, "multi"), c.cmd, redis.NewSliceCmd(ctx, "exec")}
	send := func(ctx context.Context, pipe redis.Pipeliner, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	err := h.transaction(ctx, cmds, []*invocation{nil, c, nil}, func(ctx context.Context, cmds []redis.Cmder) error {
		return send(ctx, h.client.TxPipeline(), cmds[1:len(cmds)-1])
	}, false)
	if !redis.HasErrorPrefix(c.cmd.Err(), "TRYAGAIN ") {
		return err
	}
	c.cmd.SetErr(nil)
	return h.asPipeline(ctx, c, func(ctx context.Context, cmds []redis.Cmder) error { return send(ctx, h.client.Pipeline(), cmds) })
}

// onConnection carries out a command on the connection of a Conn or Tx: while many callers watch, the pool may have no other.
func (h *Hook) onConnection(ctx context.Context, c *invocation, next redis.ProcessHook) error {
	send := func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			err := next(ctx, cmd)
			if script.IsUnknown(err) && script.LoadBy(ctx, next) == nil {
				err = next(ctx, cmd)
			}
			cmd.SetErr(err)
		}
		return firstError(cmds)
	}
	if op, ok := h.countAtOnce(c, false); ok {
		t := singleThen(op, func(result any) (any, error) {
			if result == nil {
				return nil, redis.Nil
			}
			return result, nil
		})
		p := h.newPipeline(ctx)
		p.calls[c.cmd], p.parts = c, []*part{{cmds: []redis.Cmder{c.cmd}, translation: t}}
		_ = p.exec(ctx, send)
		if err := c.cmd.Err(); err != redis.Nil {
			return err
		}
		c.cmd.SetErr(nil)
	}
	return h.asPipeline(ctx, c, send)
}

// asPipeline carries out a command as a pipeline of one would.
func (h *Hook) asPipeline(ctx context.Context, c *invocation, send redis.ProcessPipelineHook) error {
	p := h.newPipeline(ctx)
	if err := p.add(ctx, c.cmd, c); err != nil {
		return err
	}
	_ = p.exec(ctx, send) // the command has its own error
	return c.cmd.Err()
}

// alone carries out a command that has a way of its own when it is not in a pipeline.
func (h *Hook) alone(ctx context.Context, c *invocation) (any, error) {
	lists, err := h.lists(c)
	if err != nil {
		return nil, err
	}
	return c.command.direct(ctx, c, lists)
}

// translate returns the operations for a call, or nil if the command is to be sent unchanged.
func (h *Hook) translate(ctx context.Context, c *invocation) (*translation, error) {
	if c.tooLong() {
		return &translation{plain: c.truncated()}, nil
	}
	lists, err := h.lists(c)
	if err != nil {
		return nil, err
	}
	if err := c.notReserved(ctx, lists); err != nil {
		return nil, err
	}
	t, err := c.command.translate(ctx, c, lists)
	if err != nil || t == nil {
		return t, err
	}
	return t, t.plainGuard(c, lists)
}

// run runs a translation outside a pipeline.
func (t *translation) run(ctx context.Context, next redis.ProcessHook) (any, error) {
	results := make([]any, len(t.steps))
	var shortfall error // ErrNotReplicated
	for i, step := range t.steps {
		var err error
		if results[i], err = step.Run(ctx); !script.IsDone(err) {
			return nil, err
		}
		shortfall = cmp.Or(shortfall, err)
		if t.ofKeys != nil && t.ofKeys[i] != nil && !isThere(results[i]) {
			cmd := script.NewCommand(ctx, t.ofKeys[i]...)
			if err := next(ctx, cmd); err != nil {
				return nil, err
			}
			results[i] = layout.OfKey{Reply: cmd.Val()}
		}
	}
	var plain any
	if t.plain != nil {
		cmd := script.NewCommand(ctx, t.plain...)
		if err := next(ctx, cmd); err != nil {
			return nil, err
		}
		plain = cmd.Val()
	}
	reply, err := t.replyOf(results, plain)
	return reply, cmp.Or(err, shortfall)
}
