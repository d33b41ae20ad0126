package shardedlist

import (
	"cmp"
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// ProcessPipelineHook is of redis.Hook.
func (h *hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		calls := make([]*invocation, len(cmds))
		ours := false
		for i, cmd := range cmds {
			calls[i] = h.recognize(cmd)
			ours = ours || calls[i] != nil
		}
		switch {
		case !ours:
			return next(ctx, cmds)
		case cmds[0].Name() == "multi":
			return h.transaction(ctx, cmds, calls, next)
		}
		return h.pipeline(ctx, cmds, calls, next)
	}
}

// transaction carries out commands between MULTI and EXEC. If one of them is refused, none is sent.
func (h *hook) transaction(ctx context.Context, cmds []redis.Cmder, calls []*invocation, next redis.ProcessPipelineHook) error {
	p := pipeline{hook: h, atomic: true}
	for i, cmd := range cmds {
		err := p.add(ctx, cmd, calls[i])
		if err != nil && !isReply(err) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
	}
	err := p.exec(ctx, next)
	if aborted := p.aborted(); aborted != nil {
		for _, cmd := range p.failed {
			cmd.SetErr(aborted)
		}
	}
	return cmp.Or(firstError(cmds[1:]), err)
}

// pipeline carries out commands that need not be atomic. Those that may wait divide it.
func (h *hook) pipeline(ctx context.Context, cmds []redis.Cmder, calls []*invocation, next redis.ProcessPipelineHook) error {
	p := pipeline{hook: h}
	for i, cmd := range cmds {
		if c := calls[i]; c != nil && c.command.blocks && !c.tooLong() {
			_ = p.exec(ctx, next) // each command has its own error
			reply, err := h.alone(ctx, c)
			_ = setReply(cmd, reply, err)
			p = pipeline{hook: h}
			continue
		}
		_ = p.add(ctx, cmd, calls[i])
	}
	_ = p.exec(ctx, next)
	return firstError(cmds)
}

func firstError(cmds []redis.Cmder) error {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return err
		}
	}
	return nil
}

// pipeline is commands that go to the server in one round trip.
type pipeline struct {
	hook   *hook
	atomic bool // it is a transaction
	parts  []*part
	failed []redis.Cmder // before they could be sent
}

// part is a command of a pipeline, or several that are joined, and what is sent for it.
type part struct {
	cmds        []redis.Cmder
	translation *translation // nil for a command that is sent as it is
	joined      []*joined    // the commands' requests, where they are one operation
	sent        []own        // a script for each step
	lanes       []*lane      // those of the steps
	plain       own
}

// aborted is the error of the transaction's other commands if one that was sent has kept it from being carried out.
func (p *pipeline) aborted() error {
	for _, part := range p.parts {
		switch err := part.cmds[0].Err(); {
		case redis.HasErrorPrefix(err, "EXECABORT"), errors.Is(err, redis.ErrCrossSlot):
			return err
		case redis.HasErrorPrefix(err, "wrong number of arguments"):
			return errAborted
		}
	}
	return nil
}

// add appends a command. One that cannot be sent gets its error, which add returns.
func (p *pipeline) add(ctx context.Context, cmd redis.Cmder, c *invocation) error {
	if c == nil {
		p.parts = append(p.parts, &part{cmds: []redis.Cmder{cmd}})
		return nil
	}
	t, err := p.hook.translate(ctx, c)
	if err != nil {
		p.failed = append(p.failed, cmd)
		return setReply(cmd, nil, err)
	}
	if t == nil { // not for a sharded list, after all
		return p.add(ctx, cmd, nil)
	}
	if t.joined == nil {
		p.parts = append(p.parts, &part{cmds: []redis.Cmder{cmd}, translation: t})
		return nil
	}
	if len(p.parts) > 0 {
		if last := p.parts[len(p.parts)-1]; last.join(t.joined) {
			last.cmds = append(last.cmds, cmd)
			return nil
		}
	}
	p.parts = append(p.parts, &part{cmds: []redis.Cmder{cmd}, translation: t, joined: []*joined{t.joined}})
	return nil
}

// join adds a request to those of the part, if they are of one kind and there is room.
func (p *part) join(j *joined) bool {
	if p.joined == nil {
		return false
	}
	first := p.joined[0]
	if first.list != j.list || first.end != j.end || first.kind != j.kind {
		return false
	}
	count, bytes := j.request.count, j.request.bytes
	for _, j := range p.joined {
		count, bytes = count+j.request.count, bytes+j.request.bytes
	}
	if count > maxJoined || bytes > maxJoinedBytes {
		return false
	}
	p.joined = append(p.joined, j)
	return true
}

// requests are those of the part's commands.
func (p *part) requests() []*request {
	requests := make([]*request, len(p.joined))
	for i, j := range p.joined {
		requests[i] = j.request
	}
	return requests
}

// exec sends the commands and fills in their replies. An error that is not one command's it returns.
func (p *pipeline) exec(ctx context.Context, next redis.ProcessPipelineHook) error {
	var wire []redis.Cmder
	known := make(map[scriptAt]bool)
	for _, part := range p.parts {
		if part.translation == nil {
			wire = append(wire, part.cmds[0])
			continue
		}
		wire = part.prepare(ctx, wire, known)
	}
	if len(wire) == 0 || p.atomic && len(wire) == 2 { // which go-redis does not expect
		return nil
	}
	err := next(ctx, wire)
	for _, part := range p.parts {
		for _, cmd := range part.sent {
			if err != nil && cmd.Err() == nil && cmd.Val() == nil {
				cmd.SetErr(err) // another hook has kept it from being sent
			}
		}
		if part.translation != nil {
			part.finish(ctx, p.atomic)
		}
	}
	return err
}

// scriptAt is a script on the node of a slot.
type scriptAt struct {
	script *script
	slot   int
}

// prepare appends what is to be sent for the part. Scripts are sent whole the first time: were the server not to know one, the
// commands behind it would be carried out all the same.
func (p *part) prepare(ctx context.Context, wire []redis.Cmder, known map[scriptAt]bool) []redis.Cmder {
	if j := p.translation.joined; j != nil {
		o := j.kind.join(j.list, j.end, p.requests())
		if j.kind == &pops {
			o.nothing = func() operation { return j.kind.join(j.list, j.end, nil) }
			o.giveBack = func(reply any) {
				popped, _ := elements(reply)
				j.list.putBack(j.end, popped)
			}
		}
		p.translation.steps = []step{{j.list, o}}
	}
	for _, s := range p.translation.steps {
		var n *lane
		if s.op.lane > 0 {
			n = s.list.lanes.Get().(*lane)
			n.number++
			n.address(s.op)
		}
		args := s.op.args
		at := scriptAt{script: s.op.script}
		if _, single := s.list.rdb.(*redis.Client); !single {
			at.slot = s.list.keys.slot()
		}
		if !known[at] {
			known[at] = true
			args = s.op.script.whole(args)
		}
		cmd := own{Cmd: redis.NewCmd(ctx, args...)}
		p.sent, p.lanes = append(p.sent, cmd), append(p.lanes, n)
		wire = append(wire, cmd)
	}
	if p.translation.plain != nil {
		p.plain = own{Cmd: redis.NewCmd(ctx, p.translation.plain...)}
		wire = append(wire, p.plain)
	}
	return wire
}

// finish fills in the replies of the part's commands.
func (p *part) finish(ctx context.Context, atomic bool) {
	replies := make([]any, len(p.sent))
	var problem error
	for i := range p.sent {
		reply, err := p.settle(ctx, i, atomic)
		replies[i] = reply
		if problem == nil {
			problem = err
		}
	}
	if p.joined != nil {
		p.share(replies[0], problem)
		return
	}
	var plain any
	if problem == nil && p.translation.needsPlain(replies) {
		plain, problem = p.plain.Result()
	}
	reply, err := p.translation.finish(ctx, replies, plain, problem)
	_ = setReply(p.cmds[0], reply, err)
}

// share gives each of the joined commands its part of the reply.
func (p *part) share(reply any, problem error) {
	if problem == nil {
		p.joined[0].kind.share(p.requests(), reply)
	}
	for i, cmd := range p.cmds {
		var reply any
		if problem == nil {
			reply = p.joined[i].reply(p.joined[i].request)
		}
		_ = setReply(cmd, reply, problem)
	}
}

// settle returns what the i-th step came to. Outside a transaction, one whose reply was lost, or that the server could not serve for
// the moment, is repeated.
func (p *part) settle(ctx context.Context, i int, atomic bool) (any, error) {
	s, n := p.translation.steps[i], p.lanes[i]
	reply, err := p.sent[i].Result()
	if err == redis.Nil {
		reply, err = nil, nil
	}
	again := !atomic && err != nil && (!isReply(err) || isPassing(err) || redis.HasErrorPrefix(err, "NOSCRIPT"))
	if n == nil {
		if again {
			return s.run(ctx)
		}
		return reply, typed(err)
	}
	n.learn(err != nil, err)
	if again {
		reply, err = s.list.repeat(ctx, deadline(ctx), n, s.op)
	}
	return reply, typed(s.list.endEdit(n, s.op, reply, err))
}
