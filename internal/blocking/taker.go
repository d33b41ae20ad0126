package blocking

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
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
}

// Run takes elements until none are wanted any more, or the server refuses for good. It bears with a server that does not answer.
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
	switch {
	case got.err == nil:
		return 0
	case errors.Is(got.err, redis.ErrClosed), isFinal(got.err):
		p.err = got.err
		return 0
	}
	return min(time.Second, time.Millisecond<<min(p.failures.number, 10))
}

// isFinal reports whether the server has refused an operation, and is going to.
func isFinal(err error) bool {
	return script.IsReply(err) && !script.IsTransient(err) && !redis.IsOOMError(err)
}
