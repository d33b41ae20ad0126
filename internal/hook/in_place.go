package hook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
	"github.com/shardedlist/shardedlist/internal/value"
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

// keyChange is consecutive commands of a pipeline that change one list. If that is short, they are one operation, which carries them out
// as they are.
type keyChange struct {
	list    layout.List
	cmds    []redis.Cmder
	calls   []*invocation
	op      *session.Operation // nil if they are sent as usual
	refused bool               // nothing has been done: the list is not short, or the server has refused it
}

// Limits of what one operation changes: its values pass through Lua, and the server carries out no other command meanwhile.
const (
	maxOnKey      = 64
	maxAdded      = 256
	maxAddedBytes = 64 << 10
)

// changeOnKey carries out commands that change short lists, those on a list as one operation, and reports whether it has. Without a way to
// send a pipeline, they must be on one list.
func (h *Hook) changeOnKey(ctx context.Context, cmds []redis.Cmder, calls []*invocation, next redis.ProcessPipelineHook) bool {
	changes := h.keyChanges(ctx, cmds, calls)
	switch {
	case changes == nil || next == nil && len(changes) > 1:
		return false
	case len(changes) == 1:
		c := changes[0]
		c.end(c.op.Run(ctx))
		return !c.refused
	}
	p := h.newPipeline(ctx)
	for _, c := range changes {
		if c.op == nil {
			for i, cmd := range c.cmds {
				_ = p.add(ctx, cmd, c.calls[i])
			}
			continue
		}
		if err := session.Ready(ctx, c.op.Orders, p.until); err != nil {
			c.end(nil, err)
			continue
		}
		p.calls[c.cmds[0]] = c.calls[0]
		p.parts = append(p.parts, &part{cmds: c.cmds, translation: single(*c.op), onKey: c})
	}
	_ = p.exec(ctx, next) // each command has its own error
	cmds, calls = nil, nil
	for _, c := range changes {
		if c.refused {
			cmds, calls = append(cmds, c.cmds...), append(calls, c.calls...)
		}
	}
	if cmds != nil {
		_ = h.pipeline(ctx, cmds, calls, next)
	}
	return true
}

// keyChanges groups the commands of a pipeline by their lists. It returns nil if there are others among them, if the commands on a list are
// not consecutive, or if there is nothing to gain. A group without an operation is sent as usual.
func (h *Hook) keyChanges(ctx context.Context, cmds []redis.Cmder, calls []*invocation) (changes []*keyChange) {
	seen, gains := map[layout.List]bool{}, false
	for i, c := range calls {
		if c == nil || c.command.onKey == nil || c.tooLong() {
			return nil
		}
		lists, err := h.lists(c)
		if err != nil || takeSteps(lists, false) {
			return nil
		}
		if len(changes) == 0 || changes[len(changes)-1].list != lists[0] {
			if seen[lists[0]] {
				return nil
			}
			seen[lists[0]] = true
			changes = append(changes, &keyChange{list: lists[0]})
		}
		last := changes[len(changes)-1]
		last.cmds, last.calls = append(last.cmds, cmds[i]), append(last.calls, c)
	}
	for _, c := range changes {
		gains = c.prepare(ctx) || gains
	}
	if !gains {
		return nil
	}
	return changes
}

// prepare finds out what the commands change, and reports whether they may be one operation. Pushes at one end are one anyway.
func (k *keyChange) prepare(ctx context.Context) bool {
	if strings.HasSuffix(k.list.Name(), ":bell") {
		return false
	}
	same := !slices.ContainsFunc(k.calls, func(c *invocation) bool { return c.name != k.calls[0].name })
	if same || len(k.calls) > maxOnKey || !k.list.MayBeInPlace() {
		return false
	}
	if _, maybe := k.list.Reserved([]string{k.list.Name()}); len(maybe) > 0 || k.list.Prepare(ctx) != nil {
		return false
	}
	commands, added, bytes := make([]layout.KeyCommand, len(k.calls)), 0, 0
	for i, c := range k.calls {
		command, err := c.command.onKey(c, k.list)
		if err != nil {
			return false
		}
		for _, word := range command.Words {
			bytes += value.Size(word)
		}
		if added += command.Adds; added > maxAdded || bytes > maxAddedBytes {
			return false
		}
		commands[i] = command
	}
	op, ok := k.list.OnKey(commands)
	if ok {
		k.op = &op
	}
	return ok
}

// adding returns what a command does to its key, of which the words from a position on are elements that it adds; from 0, none.
func adding(from int) func(c *invocation, l layout.List) (layout.KeyCommand, error) {
	return func(c *invocation, l layout.List) (layout.KeyCommand, error) {
		encode := value.Each
		if from == 2 {
			encode = func(values []any) ([]any, error) { return value.Spread(l.Client(), values) }
		}
		words, err := encode(c.args[2:])
		k := layout.KeyCommand{Name: c.name, Words: words}
		if err != nil || from == 0 {
			return k, err
		}
		k.Adds = len(words) - (from - 2)
		for _, element := range words[from-2:] {
			k.Longest = max(k.Longest, value.Size(element))
		}
		return k, nil
	}
}

// expiringOnKey is adding for a command that sets an expiry. It becomes the one that the library calls elsewhere, too, which users may.
func expiringOnKey(how layout.ExpiryKind, unit time.Duration) func(c *invocation, l layout.List) (layout.KeyCommand, error) {
	name := "pexpire"
	if how == layout.ExpireAt {
		name = "pexpireat"
	}
	return func(c *invocation, _ layout.List) (layout.KeyCommand, error) {
		at, sound := c.milliseconds(how, unit)
		if !sound || len(c.args) > 3 {
			return layout.KeyCommand{}, rediserr.Syntax // or a condition; the usual way says which
		}
		return layout.KeyCommand{Name: name, Words: []any{at}}, nil
	}
}

// end sets the replies of the commands, unless nothing has been done.
func (k *keyChange) end(reply any, err error) {
	replies, _ := reply.([]any)
	refused := script.IsReply(err) && !script.IsTransient(err) && !errors.Is(err, session.ErrOutcomeUnknown) && !errors.Is(err, session.ErrReplyLost)
	if k.refused = replies == nil && (err == nil || refused); k.refused {
		k.list.NotInPlace()
		return
	}
	for i, cmd := range k.cmds {
		switch {
		case replies == nil:
			_ = setReply(cmd, nil, err)
		default:
			if failure, failed := replies[i].(error); failed {
				_ = setReply(cmd, nil, failure)
			} else {
				_ = setReply(cmd, replies[i], err)
			}
		}
	}
}
