package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// ProcessPipelineHook implements redis.Hook.
func (h *Hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return h.pipelines(next, calledForOneConnection())
}

// pipelines carries out pipelines and transactions, on a connection that may watch keys or on any.
func (h *Hook) pipelines(next redis.ProcessPipelineHook, watched bool) redis.ProcessPipelineHook {
	direct := h.withoutListings(next, watched)
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if listings := h.listings(cmds); listings != nil {
			return h.listInPipeline(ctx, cmds, listings, direct)
		}
		return direct(ctx, cmds)
	}
}

func (h *Hook) withoutListings(next redis.ProcessPipelineHook, watched bool) redis.ProcessPipelineHook {
	fail := func(cmds []redis.Cmder, err error) error {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if slices.ContainsFunc(cmds, h.selectsOther) {
			return fail(cmds, errOtherDatabase)
		}
		var calls []*invocation // of each command, if any is on a sharded list
		for i, cmd := range cmds {
			if c := h.recognize(cmd); c != nil {
				if calls == nil {
					calls = make([]*invocation, len(cmds))
				}
				calls[i] = c
			}
		}
		switch {
		case calls == nil:
			return next(ctx, cmds)
		case isTransaction(cmds):
			if !watched && h.changeOnKey(h.passOn(ctx), cmds[1:len(cmds)-1], calls[1:len(cmds)-1], nil) {
				return firstError(cmds)
			}
			return h.transaction(h.passOn(ctx), cmds, calls, next, watched)
		case slices.ContainsFunc(cmds, opensTransaction):
			return fail(cmds, errHandWritten)
		}
		// EXEC would forget what the connection watches.
		if !watched && (h.readInPlace(h.passOn(ctx), cmds, calls) || h.changeOnKey(h.passOn(ctx), cmds, calls, next)) {
			return firstError(cmds)
		}
		return h.pipeline(h.passOn(ctx), cmds, calls, next)
	}
}

// errHandWritten is the error of MULTI by itself, behind which list commands would be carried out at once, or among the commands of a
// pipeline: the replies behind it are those to something else.
var errHandWritten = fmt.Errorf("shardedlist: multi: %w: send the commands of a transaction by TxPipeline or TxPipelined", ErrUnsupported)

// isTransaction tells what TxPipeline sends from a MULTI that is a command of a pipeline.
func isTransaction(cmds []redis.Cmder) bool {
	_, multi := cmds[0].(*redis.StatusCmd)
	_, exec := cmds[len(cmds)-1].(*redis.SliceCmd)
	return multi && exec && opensTransaction(cmds[0]) && cmds[len(cmds)-1].Name() == "exec"
}

func opensTransaction(cmd redis.Cmder) bool { return cmd.Name() == "multi" }

// transaction carries out commands between MULTI and EXEC. If one of them is refused, none is sent. If the connection may watch keys,
// the transaction is sent once: EXEC forgets them, even where it refuses.
func (h *Hook) transaction(ctx context.Context, cmds []redis.Cmder, calls []*invocation, next redis.ProcessPipelineHook, watched bool) error {
	p := pipeline{hook: h, atomic: true, watched: watched, until: script.Deadline(ctx), calls: map[redis.Cmder]*invocation{}}
	alone := false
	for i, cmd := range cmds {
		err := p.add(ctx, cmd, calls[i])
		alone = alone || calls[i] != nil && calls[i].alone
		if c := calls[i]; err == nil && c != nil && h.takesSteps(c, true) {
			err = c.unsupported("the list is spread over many slots, and a transaction is carried out in one; call it alone")
		}
		if err == rediserr.CrossSlot {
			for _, other := range cmds {
				other.SetErr(rediserr.Aborted)
			}
			cmd.SetErr(err)
			return err
		}
		if err != nil && !script.IsReply(err) {
			for _, cmd := range cmds {
				cmd.SetErr(err)
			}
			return err
		}
	}
	err := p.exec(ctx, next)
	for attempt := 0; p.mayRepeat() && !watched && !alone && time.Now().Before(p.until) && script.Sleep(ctx, script.Backoff(attempt)) == nil; attempt++ {
		p.reset()
		err = p.exec(ctx, next)
	}
	if aborted := p.aborted(); aborted != nil {
		for _, cmd := range p.failed {
			cmd.SetErr(aborted)
		}
	}
	if script.IsReply(err) {
		err = nil // to something that was sent in place of a command, which has its own error if it matters
	}
	return cmp.Or(firstError(cmds[1:]), err)
}

// takesSteps reports whether a call is on a list that is spread over many slots, perhaps or surely: it cannot be sent with others.
func (h *Hook) takesSteps(c *invocation, surely bool) bool {
	lists, err := h.lists(c)
	return err == nil && takeSteps(lists, surely)
}

func takeSteps(lists []layout.List, surely bool) bool {
	return slices.ContainsFunc(lists, func(l layout.List) bool {
		maybe, sure := l.Spread()
		return sure || maybe && !surely
	})
}

func (h *Hook) newPipeline(ctx context.Context) pipeline {
	return pipeline{hook: h, until: script.Deadline(ctx), calls: map[redis.Cmder]*invocation{}}
}

// pipeline runs commands that need not be atomic. One that blocks, or takes several steps, splits the pipeline.
func (h *Hook) pipeline(ctx context.Context, cmds []redis.Cmder, calls []*invocation, next redis.ProcessPipelineHook) error {
	p := h.newPipeline(ctx)
	for i, cmd := range cmds {
		if c := calls[i]; c != nil && !c.tooLong() && (c.waits() || h.takesSteps(c, false)) {
			_ = p.exec(ctx, next) // each command has its own error
			_ = h.process(ctx, c, oneOf(next))
			p = h.newPipeline(ctx)
			continue
		}
		_ = p.add(ctx, cmd, calls[i])
	}
	_ = p.exec(ctx, next)
	return firstError(cmds)
}

// oneOf sends a pipeline of one command.
func oneOf(next redis.ProcessPipelineHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := next(ctx, []redis.Cmder{cmd}); err != nil && cmd.Err() == nil {
			cmd.SetErr(err)
		}
		return cmd.Err()
	}
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
	hook      *Hook
	atomic    bool      // it is a transaction
	watched   bool      // its connection may watch keys
	until     time.Time // how long all commands together wait for what was given up before
	parts     []*part
	failed    []redis.Cmder   // before they could be sent
	guard     *script.Command // of the last attempt, see slotGuard
	slotMoves bool            // the guard has refused the last attempt
	once      bool            // go-redis must not repeat it
	refused   bool            // the server could not serve the first command for the moment
	recorded  bool            // there are dedup records
	calls     map[redis.Cmder]*invocation
}

// part is a command of a pipeline, or several that are joined, and what is sent for it.
type part struct {
	cmds        []redis.Cmder
	translation *translation      // nil for a command that is sent as it is
	joined      []*joined         // the commands' requests, where they are one operation
	onKey       *keyChange        // the commands, where they are one that changes a short list
	pending     []session.Pending // the translation's steps
	sent        []*script.Command // a script for each step
	results     []session.Result  // the replies of the steps
	plain       *script.Command
	others      []redis.Cmder // what is sent behind the scripts
}

// aborted returns the error for the other commands of a transaction that was aborted because of one command.
func (p *pipeline) aborted() error {
	for _, part := range p.parts {
		switch err := part.cmds[0].Err(); {
		case redis.HasErrorPrefix(err, "EXECABORT"), errors.Is(err, redis.ErrCrossSlot):
			return err
		case part.translation != nil && part.translation.native != nil:
			// a script has found the fault, when the transaction was carried out
		case redis.HasErrorPrefix(err, "wrong number of arguments"):
			return rediserr.Aborted
		}
	}
	return nil
}

// add appends a command. If the command cannot be sent, add sets and returns its error.
func (p *pipeline) add(ctx context.Context, cmd redis.Cmder, c *invocation) error {
	if c == nil {
		p.parts = append(p.parts, &part{cmds: []redis.Cmder{cmd}})
		return nil
	}
	p.calls[cmd] = c
	t, err := p.hook.translate(ctx, c)
	if err == nil && t != nil {
		err = t.ready(ctx, p.until)
	}
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

// join adds a request to those of the part, if they are of the same kind and there is room.
func (p *part) join(j *joined) bool {
	if p.joined == nil {
		return false
	}
	count, bytes := j.request.Count, j.request.Bytes
	for _, other := range p.joined {
		count, bytes = count+other.request.Count, bytes+other.request.Bytes
	}
	if j.kind != p.joined[0].kind || !batch.Fits(count, bytes) {
		return false
	}
	p.joined = append(p.joined, j)
	return true
}

// requests returns the requests of the part's commands.
func (p *part) requests() []*batch.Request {
	requests := make([]*batch.Request, len(p.joined))
	for i, j := range p.joined {
		requests[i] = j.request
	}
	return requests
}

// exec sends the commands and sets their replies. It returns an error that does not belong to one command.
func (p *pipeline) exec(ctx context.Context, next redis.ProcessPipelineHook) error {
	for _, part := range p.parts {
		part.begin(p.atomic || len(p.parts) > 1)
	}
	p.prepareServers(ctx)
	var wire []redis.Cmder
	var batch script.Batch
	for _, part := range p.parts {
		part.prepare(ctx, &batch)
		for _, cmd := range part.sent {
			wire = append(wire, cmd)
		}
		wire = append(wire, part.others...)
	}
	p.keepOrder()
	if guard := p.memoryGuard(ctx); guard != nil {
		wire = slices.Insert(wire, 1, redis.Cmder(guard))
	}
	if p.guard = p.slotGuard(ctx, len(wire)); p.guard != nil {
		wire = slices.Insert(wire, 1, redis.Cmder(p.guard))
	}
	if len(wire) == 0 || p.atomic && len(wire) == 2 { // which go-redis does not expect
		return nil
	}
	until := script.Deadline(ctx) // of all commands together
	err := next(ctx, wire)
	if p.atomic && p.forgotten() {
		if len(p.others()) > 0 || !p.watched {
			wire, err = p.again(ctx, next)
		} else {
			err = p.loseWatch(ctx)
		}
	}
	if err != nil && firstError(wire) == nil { // another hook has kept all from being sent
		for _, cmd := range wire {
			cmd.SetErr(err)
		}
	}
	p.refused = script.IsTransient(wire[0].Err())
	for _, part := range p.parts {
		for _, cmd := range part.sent {
			if err != nil && cmd.Err() == nil && cmd.Val() == nil {
				cmd.SetErr(err) // another hook has kept it from being sent
			}
		}
	}
	if p.atomic {
		p.endTransaction(ctx, until, wire, err)
	} else {
		p.endPipeline(ctx, until, next)
	}
	for _, part := range p.parts {
		switch {
		case part.translation == nil:
		case !p.atomic && part.foundSpread():
			for _, cmd := range part.cmds {
				_ = p.hook.process(ctx, p.calls[cmd], oneOf(next))
			}
		case part.translation.native != nil:
			part.finishNative(ctx, p.atomic, next)
		default:
			part.finish(ctx, !p.atomic || p.calls[part.cmds[0]].alone)
		}
	}
	return err
}

// loseWatch makes a transaction whose functions were not there one that was not carried out because of what its connection watches: EXEC has
// forgotten that, so the calls must not be sent again.
func (p *pipeline) loseWatch(ctx context.Context) error {
	var lost *session.Pending
	for _, part := range p.parts {
		for _, cmd := range part.sent {
			cmd.SetErr(redis.TxFailedErr)
		}
		if len(part.pending) > 0 {
			lost = &part.pending[0]
		}
	}
	lost.Lost(ctx)
	return redis.TxFailedErr
}

// foundSpread reports whether the part's operations were refused because the list turned out to be spread over many slots, and none of them
// knows what to do otherwise: commands that are joined, and those on several lists.
func (p *part) foundSpread() bool {
	for i, r := range p.results {
		if isSpread(r) && (p.joined != nil || p.translation.steps[i].Otherwise == nil) {
			return true
		}
	}
	return false
}

func isSpread(r session.Result) bool { return errors.Is(layout.ErrorOf(r.Err), layout.ErrSpread) }

// memoryGuard returns a command that a server whose memory is full refuses, and that changes nothing: RPUSHX of a hash, or of nothing.
// Redis refuses a transaction as a whole that has one. Without it, the scripts in place of the commands would take elements, and those
// that add some would fail.
func (p *pipeline) memoryGuard(ctx context.Context) redis.Cmder {
	for _, part := range p.parts {
		c := commands[part.cmds[0].Name()]
		if p.atomic && len(part.pending) > 0 && c != nil && c.grows {
			return script.NewCommand(ctx, "rpushx", part.pending[0].Keys()[0], "")
		}
	}
	return nil
}

// slotGuard returns a command that a cluster refuses while the slot moves, and that changes nothing: EXISTS of two keys, one of which is
// never there. Redis refuses a transaction as a whole that has one. Without it, some scripts would be carried out and others find that
// their keys are on the other node, which they cannot declare. A single command needs no guard.
//
// go-redis does not repeat a transaction with a guard after a failed connection: that is for transaction to do, behind a fence.
func (p *pipeline) slotGuard(ctx context.Context, words int) *script.Command {
	if !p.atomic || words < 4 { // words has MULTI and EXEC
		return nil
	}
	at := slices.IndexFunc(p.parts, func(part *part) bool { return len(part.pending) > 0 && part.pending[0].OnCluster() })
	if at < 0 {
		return nil
	}
	meta := p.parts[at].pending[0].Keys()[0].(string)
	return script.NewCommandOnce(ctx, "exists", meta, meta+":never")
}

// refusedByGuard reports whether the guard has kept the server from carrying out the transaction.
func (p *pipeline) refusedByGuard(wire []redis.Cmder) bool {
	if p.guard == nil {
		return false
	}
	moves := func(err error) bool {
		return redis.HasErrorPrefix(err, "EXECABORT") || redis.HasErrorPrefix(err, "TRYAGAIN ") && !script.IsFromScript(err)
	}
	for _, cmd := range wire[2 : len(wire)-1] {
		if !moves(cmd.Err()) {
			return false
		}
	}
	return p.guard.Err() == nil || moves(p.guard.Err()) // go-redis follows a redirection of the guard by itself
}

// errSlotMoves is the error of a transaction that its guard has stopped.
const errSlotMoves = rediserr.Error("TRYAGAIN the list is moving to another node")

// mayRepeat reports whether a transaction with a guard was not carried out, and never will be: because the slot moves, or because the
// connection failed and the fence has found none of its dedup records.
func (p *pipeline) mayRepeat() bool {
	if p.guard == nil || p.slotMoves || !p.recorded {
		return p.slotMoves
	}
	for _, part := range p.parts {
		for _, result := range part.results {
			if err := result.Err; err == nil || script.IsReply(err) || errors.Is(err, session.ErrOutcomeUnknown) ||
				errors.Is(err, session.ErrReplyLost) || errors.Is(err, redis.ErrClosed) {
				return false
			}
		}
	}
	return true
}

// reset prepares a transaction that was refused as a whole for another attempt.
func (p *pipeline) reset() {
	for _, part := range p.parts {
		for _, cmd := range part.cmds {
			cmd.SetErr(nil)
		}
		part.pending, part.sent, part.results, part.plain = nil, nil, nil, nil
	}
}

// keepOrder keeps go-redis from repeating a pipeline in which several operations change one list. If the server has refused the first of
// them and done the second, and their replies were lost, the first would be done behind the second.
func (p *pipeline) keepOrder() {
	changed := map[any]bool{}
	p.once = false
	for _, part := range p.parts {
		for i := range part.sent {
			if !p.atomic && part.pending[i].Recorded() {
				for _, key := range part.pending[i].Keys() {
					p.once = p.once || changed[key]
					changed[key] = true
				}
			}
		}
	}
	if p.once {
		for _, part := range p.parts {
			for _, cmd := range part.sent {
				cmd.Once()
			}
		}
	}
}

// endPipeline learns what became of each operation. One that failed is repeated, unless an operation behind it on the same list was
// applied, or may be: to repeat it would change their order.
func (p *pipeline) endPipeline(ctx context.Context, until time.Time, next redis.ProcessPipelineHook) {
	repeat := p.mayFollow(ctx, until)
	unknown := map[any]bool{} // the lists of operations that were given up: to repeat those behind would overtake them
	var others []redis.Cmder
	for _, part := range p.parts {
		for i, cmd := range part.sent {
			reply, err := cmd.Result()
			if err != nil {
				others = p.repeatOthers(ctx, next, others)
			}
			keys := part.pending[i].Keys()
			again := repeat[cmd] && !anyOf(keys, unknown)
			reply, err = part.pending[i].End(ctx, until, reply, err, again)
			for _, key := range keys {
				unknown[key] = unknown[key] || errors.Is(err, session.ErrOutcomeUnknown)
			}
			part.results = append(part.results, session.Result{Reply: reply, Err: err})
		}
		others = append(others, part.others...)
	}
	p.repeatOthers(ctx, next, others)
}

// mayFollow tells which operations may be done now, behind all others of the pipeline: those behind which none has changed the same list.
// To be sure, it finds out what became of an operation whose reply was lost, if one before it has failed.
func (p *pipeline) mayFollow(ctx context.Context, until time.Time) map[*script.Command]bool {
	failed := map[any]*script.Command{} // by list, the first operation that did
	for _, part := range p.parts {
		for i, cmd := range part.sent {
			for _, key := range part.pending[i].Keys() {
				if part.pending[i].Writes() && failed[key] == nil && part.pending[i].Failed(cmd.Err()) {
					failed[key] = cmd
				}
			}
		}
	}
	applied := map[any]bool{} // the lists of operations that were
	changed := map[any]bool{} // those, and the lists of operations that were settled
	may := map[*script.Command]bool{}
	for _, part := range slices.Backward(p.parts) {
		for i, cmd := range slices.Backward(part.sent) {
			op, err := &part.pending[i], cmd.Err()
			keys := op.Keys()
			if !op.Writes() { // go-redis would read again what later operations have left, too
				may[cmd] = !anyOf(keys, applied)
				continue
			}
			may[cmd] = !anyOf(keys, changed)
			done := err == nil || err == redis.Nil
			behind := slices.ContainsFunc(keys, func(key any) bool { return failed[key] != nil && failed[key] != cmd })
			changes := done || behind && op.Failed(err) && op.Settle(ctx, until, err)
			for _, key := range keys {
				applied[key], changed[key] = applied[key] || done, changed[key] || changes
			}
		}
	}
	return may
}

// anyOf reports whether one of the keys is in the set.
func anyOf(keys []any, set map[any]bool) bool {
	return slices.ContainsFunc(keys, func(key any) bool { return set[key] })
}

// repeatOthers sends the commands again that are not the library's and that have failed, where go-redis would have done so.
func (p *pipeline) repeatOthers(ctx context.Context, next redis.ProcessPipelineHook, cmds []redis.Cmder) []redis.Cmder {
	failed := slices.DeleteFunc(cmds, func(cmd redis.Cmder) bool {
		return !script.IsLost(cmd.Err()) && !(p.refused && script.IsTransient(cmd.Err()))
	})
	if !p.once || len(failed) == 0 || ctx.Err() != nil || !p.hook.retries || p.hasNoRetry() {
		return nil
	}
	for _, cmd := range failed {
		cmd.SetErr(nil)
	}
	if err := next(ctx, failed); err != nil && firstError(failed) == nil { // another hook has kept them from being sent
		for _, cmd := range failed {
			cmd.SetErr(err)
		}
	}
	return nil
}

// hasNoRetry reports whether the pipeline has a command of the caller's that go-redis must not repeat, nor its pipeline.
func (p *pipeline) hasNoRetry() bool {
	return slices.ContainsFunc(p.parts, func(part *part) bool {
		return slices.ContainsFunc(part.others, redis.Cmder.NoRetry)
	})
}

// endTransaction learns what became of the operations as a whole. Of the other commands there are no records: if EXEC's reply was lost,
// they get an error that says whether they were carried out.
func (p *pipeline) endTransaction(ctx context.Context, until time.Time, wire []redis.Cmder, execErr error) {
	t := session.Transaction{}
	var got []session.Result
	for _, part := range p.parts {
		for i, cmd := range part.sent {
			t.Pending = append(t.Pending, part.pending[i])
			reply, err := cmd.Result()
			got = append(got, session.Result{Reply: reply, Err: err})
		}
	}
	others := p.others()
	t.Others = len(others) > 0
	executed := wasExecuted(wire[1:len(wire)-1], execErr)
	p.slotMoves = p.refusedByGuard(wire)
	for i := 0; p.slotMoves && i < len(got); i++ {
		got[i].Err = errSlotMoves
	}
	p.recorded = t.Recorded()
	results, carriedOut := t.End(ctx, until, got, executed, p.slotMoves)
	for _, part := range p.parts {
		part.results, results = results[:len(part.sent):len(part.sent)], results[len(part.sent):]
	}
	if executed {
		return
	}
	for _, cmd := range others {
		if err := cmd.Err(); err != nil && carriedOut {
			cmd.SetErr(fmt.Errorf("%w: %w", session.ErrReplyLost, err))
		}
	}
}

// wasExecuted tells whether the replies say for sure that a transaction was carried out: each command has a reply of its own then.
func wasExecuted(cmds []redis.Cmder, execErr error) bool {
	if execErr != nil && !script.IsReply(execErr) {
		return false
	}
	return !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool {
		err := cmd.Err()
		return err == redis.TxFailedErr || redis.HasErrorPrefix(err, "EXECABORT") || errors.Is(err, redis.ErrCrossSlot) ||
			err != nil && (!script.IsReply(err) || script.IsTransient(err) && !script.IsFromScript(err))
	})
}

// others are the commands of a transaction that are not list operations.
func (p *pipeline) others() (cmds []redis.Cmder) {
	for _, part := range p.parts {
		switch {
		case part.translation == nil && !isFrame(part.cmds[0]):
			cmds = append(cmds, part.cmds[0])
		case part.translation != nil && part.translation.native != nil:
			cmds = append(cmds, part.cmds[0])
		case part.plain != nil:
			cmds = append(cmds, part.plain)
		}
	}
	return cmds
}

// prepareServers makes sure that the servers know what is called: a transaction is carried out without the calls if they do not, and in a
// pipeline calls would have to be sent again.
func (p *pipeline) prepareServers(ctx context.Context) {
	surely := p.atomic && slices.ContainsFunc(p.parts, func(part *part) bool {
		t := part.translation
		return t == nil && !isFrame(part.cmds[0]) || t != nil && (t.native != nil || t.plain != nil)
	})
	for _, part := range p.parts {
		for _, pending := range part.pending {
			pending.Ready(ctx, surely)
		}
	}
}

// isFrame tells the commands of a transaction from those around them.
func isFrame(cmd redis.Cmder) bool { return cmd.Name() == "multi" || cmd.Name() == "exec" }

// forgotten reports whether a transaction was carried out on a server that had forgotten the functions a moment before: the calls were
// refused, all of them, and only they.
func (p *pipeline) forgotten() bool {
	return slices.ContainsFunc(p.parts, func(part *part) bool {
		return slices.ContainsFunc(part.sent, func(cmd *script.Command) bool { return script.IsUnknown(cmd.Err()) })
	})
}

// again sends the calls that were refused so in a transaction of their own, as scripts. It returns what was sent. Whatever becomes of that,
// the transaction is not repeated: its other commands have been carried out.
func (p *pipeline) again(ctx context.Context, next redis.ProcessPipelineHook) ([]redis.Cmder, error) {
	p.guard = nil
	wire := []redis.Cmder{redis.NewStatusCmd(ctx, "multi")}
	for _, part := range p.parts {
		for i := range part.sent {
			part.sent[i] = part.pending[i].Whole(ctx)
			wire = append(wire, part.sent[i])
		}
	}
	wire = append(wire, redis.NewSliceCmd(ctx, "exec"))
	return wire, next(ctx, wire)
}

// begin gives each of the part's operations its number.
func (p *part) begin(together bool) {
	if p.translation == nil {
		return
	}
	steps := p.translation.steps
	if p.joined != nil {
		steps = []session.Operation{p.joined[0].kind.Join(p.requests())}
		steps[0].Calls = len(p.joined)
	}
	for _, step := range steps {
		pending := step.Prepare()
		if together {
			pending.AtOnce()
		}
		p.pending = append(p.pending, pending)
	}
}

// prepare makes the commands that are sent for the part.
func (p *part) prepare(ctx context.Context, batch *script.Batch) {
	p.others = nil
	if p.translation == nil {
		p.others = p.cmds
		return
	}
	for _, pending := range p.pending {
		p.sent = append(p.sent, pending.Command(ctx, batch))
	}
	if n := p.translation.native; n != nil {
		p.others = append(p.others, n.prepare(p.cmds[0], batch))
	}
	if p.translation.plain != nil {
		p.plain = script.NewCommand(ctx, p.translation.plain...)
		p.others = append(p.others, p.plain)
	}
}

// finishNative corrects the error of a command that has read its own reply.
func (p *part) finishNative(ctx context.Context, atomic bool, next redis.ProcessPipelineHook) {
	cmd, call := p.cmds[0], p.translation.native.call
	for _, result := range p.results {
		if refused := result.Err; refused != nil {
			if err := cmd.Err(); err != nil && redis.HasErrorPrefix(refused, "EXECABORT") {
				refused = err // perhaps why
			}
			_ = setReply(cmd, nil, asAlone(cmd, refused))
			return
		}
	}
	err := cmd.Err()
	if call != nil && !atomic && (script.IsTransient(err) || redis.HasErrorPrefix(err, "NOSCRIPT")) {
		err = script.RunCarried(ctx, oneOf(next), cmd, *call, p.translation.native.keyAt)
	}
	cmd.SetErr(asReplied(asAlone(cmd, err)))
}

// finish fills in the replies of the part's commands. Further steps may follow, for lists that turned out to be spread, if this is no
// transaction.
func (p *part) finish(ctx context.Context, maySteps bool) {
	if p.joined != nil {
		p.share(p.results[0].Reply, p.results[0].Err)
		return
	}
	reply, err := p.reply(ctx, maySteps)
	if p.onKey != nil {
		p.onKey.end(reply, err)
		return
	}
	_ = setReply(p.cmds[0], reply, err)
}

// reply builds the reply of the command from those of its steps.
func (p *part) reply(ctx context.Context, maySteps bool) (any, error) {
	results := make([]any, len(p.results))
	var problem, shortfall error // the latter is ErrNotReplicated
	for i, r := range p.results {
		err := r.Err
		if otherwise := p.translation.steps[i].Otherwise; maySteps && isSpread(r) && otherwise != nil {
			results[i], err = otherwise(ctx, r.Err)
		} else if err == nil {
			results[i], err = p.pending[i].Finish(ctx, r.Reply)
		}
		if script.IsDone(err) {
			shortfall = cmp.Or(shortfall, err)
		} else {
			problem = cmp.Or(problem, err)
		}
	}
	if problem != nil {
		return nil, problem
	}
	var plain any
	if p.translation.plain != nil {
		var err error
		if plain, err = p.plain.Result(); err != nil {
			return nil, err
		}
	}
	reply, err := p.translation.replyOf(results, plain)
	return reply, cmp.Or(err, shortfall)
}

// share gives each joined command its part of the reply.
func (p *part) share(reply any, problem error) {
	if problem == nil {
		p.joined[0].kind.Share(p.requests(), reply)
	}
	for i, cmd := range p.cmds {
		var reply any
		if problem == nil {
			reply = p.joined[i].reply(p.joined[i].request)
		}
		_ = setReply(cmd, reply, problem)
	}
}
