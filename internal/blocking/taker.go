package blocking

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/session"
)

// Taker takes elements for one caller that wants more of them again and again. It has its own connection.
type Taker struct {
	Source   Source
	Sessions *session.Pool
	// Want returns how many elements are wanted, at least one. It waits until some are, or reports that none will be any more, as it does
	// once ctx has ended.
	Want func() (count int, ok bool)
	// Deliver gets the elements that were taken.
	Deliver func(elements []string)
	// Failed is told why elements could not be taken, and whether that is final: if not, the Taker tries again.
	Failed func(err error) (final bool)
}

// Run takes elements until none are wanted any more, or a failure is final.
func (t *Taker) Run(ctx context.Context) error {
	p := &takerParty{Taker: t, ctx: ctx, release: t.Source.ReleaseKey()}
	p.loop = loop{source: t.Source, sessions: t.Sessions}
	stop := context.AfterFunc(ctx, func() { t.Source.Release(p.release) })
	defer stop()
	p.run(p)
	if p.session != nil {
		outcome := session.Outcome{Status: session.Refused, Err: redis.Nil}
		if p.session.Unknown() {
			outcome.Status = session.Unknown
		}
		_, _ = p.drop(outcome, 1)
	}
	p.owes = p.owes || p.waited // others may rely on it
	p.passOn()
	return p.err
}

// takerParty is what the loop of a Taker serves.
type takerParty struct {
	*Taker
	loop
	ctx     context.Context
	release string
	looked  bool
	waited  bool  // it has said that it waits
	err     error // that ends it
}

func (p *takerParty) next(armed bool) (round, bool) {
	if p.err != nil {
		return round{}, false
	}
	count, ok := p.Want()
	if !ok || p.ctx.Err() != nil { // it has been released, or is about to be: at most one BLPOP ends by that
		return round{}, false
	}
	r := round{ctx: p.ctx, count: count, again: p.looked}
	if armed {
		r.release, r.slice = p.release, p.source.Slice(time.Time{})
	}
	return r, true
}

func (p *takerParty) done(_ round, got result) (pause time.Duration) {
	if len(got.elements) > 0 {
		p.Deliver(got.elements)
	}
	p.looked = p.looked || got.err == nil
	p.waited = got.armed
	if got.err == nil {
		return 0
	}
	if p.ctx.Err() == nil && p.Failed(got.err) {
		p.err = got.err
		return 0
	}
	return min(time.Second, time.Millisecond<<min(p.failures.number, 10))
}
