package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

// ErrReplyLost is returned for a command of a transaction that was carried out, when the reply of EXEC was lost and the command's
// own is not recorded.
var ErrReplyLost = errors.New("the transaction was carried out, but this reply was lost")

// Result is what came back for a command.
type Result struct {
	Reply any
	Err   error
}

// Transaction is the operations between MULTI and EXEC. They were all carried out, or none was.
type Transaction struct {
	Pending []Pending
	Others  bool // it has other commands too, of which there are no records
}

// End returns the result of each operation, given what came back and whether that says that the transaction was carried out, or for
// sure that it was not because the slot moves, and whether it was. If the reply of EXEC was lost, the outcome of all operations is resolved in one step, until the time is over: they
// are never resolved, or undone, by parts. Other commands cannot be fenced. If there are any, and a copy of the transaction may be on
// its way, it is only asked after, and its sessions are not used again: the copy has all of its effect or none.
func (t Transaction) End(ctx context.Context, until time.Time, got []Result, executed, moves bool) (results []Result, carriedOut bool) {
	for i, r := range got {
		if r.Err == redis.Nil {
			got[i].Err = nil
		}
	}
	refused := moves || slices.ContainsFunc(got, func(r Result) bool {
		return script.RefusesScripts(r.Err) || r.Err == redis.TxFailedErr // somebody has changed what the connection watches
	})
	if executed || refused || len(t.records()) == 0 {
		for i, p := range t.Pending {
			results = append(results, p.over(got[i]))
		}
		return results, executed
	}
	mayCome := t.Others && slices.ContainsFunc(got, func(r Result) bool { return r.Err != nil && script.MayHaveActed(r.Err) })
	applied, err := t.resolve(ctx, until, !mayCome, true)
	carriedOut = slices.Contains(applied, true)
	if err != nil || mayCome && !carriedOut {
		if !t.Others {
			var orders []*Order
			for _, p := range t.Pending {
				orders = append(orders, p.op.Orders...)
			}
			resolved := Abandon(orders)
			t.Pending[0].op.pool.resolveLater(func(ctx context.Context, until time.Time) {
				defer resolved()
				t.resolveLater(ctx, until)
			})
		}
		for _, r := range got {
			results = append(results, Result{Err: t.Pending[0].op.pool.Lost(r.Err, false)})
		}
		return results, false
	}
	for i, p := range t.Pending {
		if p.session != nil {
			refusal := got[i].Err
			if carriedOut {
				refusal = fmt.Errorf("%w: %w", ErrReplyLost, refusal)
			}
			reply, err := p.op.pool.Put(p.session, p.op, p.session.fenced(ctx, until, applied[i], refusal))
			got[i] = Result{reply, err}
		}
		results = append(results, got[i])
	}
	return results, carriedOut
}

// over gives back the session of an operation whose result is known.
func (p Pending) over(r Result) Result {
	if p.session == nil {
		return r
	}
	outcome := p.session.learn(r.Reply, r.Err)
	if outcome.Status != Done {
		p.session.unknown, outcome.Status = false, Refused // EXEC told: the script was run, and has changed nothing
	}
	if RecordMoves(outcome.Err) {
		_ = p.session.moveRecord(context.Background()) // for the next transaction
	}
	reply, err := p.op.pool.Put(p.session, p.op, outcome)
	return Result{reply, err}
}

// Recorded reports whether there are dedup records.
func (t Transaction) Recorded() bool { return len(t.records()) > 0 }

// records returns the operations that have dedup records.
func (t Transaction) records() (recorded []Pending) {
	for _, p := range t.Pending {
		if p.session != nil && p.session.id != "" {
			recorded = append(recorded, p)
		}
	}
	return recorded
}

// resolve asks after all operations in one transaction, and fences them or not. It returns which of them were applied, for a caller that is to
// be told or for nobody.
func (t Transaction) resolve(ctx context.Context, until time.Time, fence, tells bool) (applied []bool, err error) {
	var calls []script.Call
	for _, p := range t.records() {
		p.session.unknown = true
		calls = append(calls, p.session.inquiry(fence))
	}
	first := t.records()[0].session
	resolvable := first.resolvable()
	for _, p := range t.records() {
		resolvable = earlier(resolvable, p.session.resolvable())
	}
	if tells {
		until = earlier(until, resolvable)
	}
	var replies []any
	for attempt := 0; ; attempt++ {
		replies, err = first.pool.Runner.Atomic(ctx, calls)
		if err == nil && tells && time.Now().After(resolvable) {
			return nil, errExpired
		}
		if err == nil {
			break
		}
		if script.IsReply(err) && !script.IsTransient(err) || !first.pause(ctx, until, attempt, err) {
			return nil, err
		}
	}
	applied = make([]bool, len(t.Pending))
	for i, p := range t.Pending {
		if p.session != nil && p.session.id != "" {
			applied[i] = replies[0] != nil
			replies = replies[1:]
		}
	}
	return applied, nil
}

// resolveLater fences the transaction, which has no other commands, that its caller has given up. What it did stays, as a whole; only
// one that did nothing but take elements is undone: they go back.
func (t Transaction) resolveLater(ctx context.Context, until time.Time) {
	applied, err := t.resolve(ctx, until, true, false)
	if err != nil {
		return
	}
	reclaim := true
	for _, p := range t.Pending {
		reclaim = reclaim && (p.session == nil || p.op.Reclaimer != nil)
	}
	for i, p := range t.Pending {
		if p.session == nil {
			continue
		}
		if outcome := p.session.fenced(ctx, until, applied[i], nil); outcome.Status != Unknown {
			if reclaim {
				go outcome.Reclaim()
			}
			p.op.pool.rest(p.session)
		}
	}
}
