package spread

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var expireScript = script.Load("spread_expire")

// expiry is when a list expires: a Unix time in milliseconds, or 0. The one with the highest stamp counts, see lua/shared/end_shard.lua.
type expiry struct{ time, stamp int64 }

// What spread_expire.lua replies with.
const (
	expirySet     = "set"
	expiryNo      = "no"      // the condition is not met
	expiryPast    = "past"    // the list is to be deleted
	expiryChanged = "changed" // by another caller
)

// Expire sets or removes the expiry of the list.
func (l *List) Expire(how layout.Expiry) session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		set, tried, err := l.expire(ctx, how, strings.ReplaceAll(uuid.NewString(), "-", "")[:16])
		if tried && !script.IsDone(err) && !script.IsReply(err) {
			err = l.sessions.Lost(err, false)
		}
		return set, err
	})
}

// expire sets the expiry under a name, so that a repetition does no more. It also reports whether it has tried to.
func (l *List) expire(ctx context.Context, how layout.Expiry, name string) (done, tried bool, err error) {
	for {
		p, first, last, err := l.bounds(ctx)
		if err != nil || p == nil || first.borders[left] == last.borders[right] {
			return false, tried, err
		}
		verdict, set, err := l.setExpiry(ctx, p, first, how, name)
		tried = true
		if !script.IsDone(err) {
			return false, tried, err
		}
		switch verdict {
		case expirySet:
			existed, told, shortfall := l.tellEnds(ctx, set)
			if shortfall == nil {
				shortfall = err
			}
			if told || !script.IsDone(shortfall) {
				return existed, tried, shortfall
			}
		case expiryPast:
			existed, same, err := l.delete(ctx, p.generation)
			if err != nil || same {
				l.sweepAll(ctx)
				return existed, tried, err
			}
		case expiryNo:
			return false, tried, nil
		}
	}
}

// setExpiry sets the expiry in meta, if that is as the pointers have it, and returns what the pointers are then. It may run again under
// the same name. It waits for replicas if the list is to.
func (l *List) setExpiry(ctx context.Context, p *pointers, first *shard, how layout.Expiry, name string) (verdict string, set *pointers, err error) {
	if err := l.lock(ctx); err != nil {
		return "", nil, err
	}
	defer l.unlock()
	now := time.Now()
	known := first.expiry
	args := []any{p.generation, p.expiry.stamp, string(how.How), how.Milliseconds, how.Conditions, name, known.time, known.stamp}
	var reply any
	if l.runner.Replicas > 0 {
		reply, err = l.run(ctx, l.sessions.Confirmed(expireScript, l.declared, args...))
	} else {
		reply, err = l.runOnMeta(ctx, expireScript, args...)
	}
	if !script.IsDone(err) {
		return "", nil, err
	}
	if reply == nil { // there is no such list any more
		l.remember(nil)
		return expiryChanged, nil, nil
	}
	if err := l.rememberReply(ctx, reply, now); err != nil {
		return "", nil, err
	}
	set, broken := readPointers(reply, now)
	if broken != nil {
		return "", nil, broken
	}
	return reply.([]any)[3].(string), set, err
}

// tellEnds has the shards at both ends learn of an expiry that was set. It reports whether the list had elements: where all of it is in one
// empty shard, the expiry is void. It has not told them if a failover has undone what was set.
func (l *List) tellEnds(ctx context.Context, set *pointers) (existed, told bool, shortfall error) {
	for side := range l.ends {
		for try, over := 0, false; !over; {
			p, err := l.find(ctx, false)
			if err != nil {
				return false, false, err
			}
			if p == nil || p.generation != set.generation {
				return true, true, shortfall // it has been deleted since, or has expired
			}
			if p.expiry.stamp < set.expiry.stamp {
				if try++; try > maxLooks {
					return false, false, shortfall
				}
				if err := l.again(ctx, p); err != nil {
					return false, false, err
				}
				continue
			}
			reply, err := l.ends[side].pop(p, 0, blocking.No, "").Run(ctx)
			if !script.IsDone(err) {
				return false, false, err
			}
			if err != nil {
				shortfall = err
			}
			_, word, _ := readPop(reply)
			switch {
			case word == toldEmpty:
				return false, true, shortfall
			case goesOn(word):
				if err := l.follow(ctx, side, word); err != nil {
					return false, false, err
				}
			default:
				over = true
			}
		}
	}
	return true, true, shortfall
}

// Lifetime returns when the list expires.
func (l *List) Lifetime() session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		p, first, last, err := l.bounds(ctx)
		switch {
		case err != nil:
			return nil, err
		case p == nil || first.borders[left] == last.borders[right]:
			return layout.Lifetime{Expires: layout.NoList}, nil
		case first.expiry.time == 0:
			return layout.Lifetime{Expires: layout.NeverExpires}, nil
		}
		return layout.Lifetime{Expires: first.expiry.time, Now: first.now}, nil
	})
}
