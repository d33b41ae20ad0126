package spread

import (
	"context"
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

// void returns the stamp if the expiry has been found void, or was removed.
func (e expiry) void() int64 {
	if e.time == 0 {
		return e.stamp
	}
	return 0
}

// What spread_expire.lua replies with.
const (
	expirySet     = "set"
	expiryNo      = "no"      // the condition is not met
	expiryPast    = "past"    // the list is to be deleted
	expiryChanged = "changed" // by another caller
)

// Expire sets or removes the expiry of the list.
func (l *List) Expire(how layout.Expiry) session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) { return l.expire(ctx, how, uuid.NewString()) })
}

func (l *List) expire(ctx context.Context, how layout.Expiry, name string) (bool, error) {
	for {
		p, first, last, err := l.bounds(ctx)
		if err != nil || p == nil || first.borders[left] == last.borders[right] {
			return false, err
		}
		verdict, set, err := l.setExpiry(ctx, p, first, how, name)
		if !script.IsDone(err) {
			return false, err
		}
		switch verdict {
		case expirySet:
			existed, shortfall := l.tellEnds(ctx, set)
			if shortfall == nil {
				shortfall = err
			}
			return existed, shortfall
		case expiryPast:
			existed, err := l.delete(ctx)
			if err == nil {
				l.sweepAll(ctx)
			}
			return existed, err
		case expiryNo:
			return false, nil
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
	args := []any{p.generation, p.expiry.stamp, string(how.How), how.Milliseconds, how.Conditions, name, first.expiry.void()}
	var reply any
	if l.runner.Replicas > 0 {
		reply, err = l.run(ctx, l.sessions.Confirmed(expireScript, l.declared, args...))
	} else {
		reply, err = l.runOnMeta(ctx, expireScript, args...)
	}
	if !script.IsDone(err) || reply == nil {
		return expiryNo, nil, err
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
// empty shard, the expiry is void.
func (l *List) tellEnds(ctx context.Context, set *pointers) (existed bool, shortfall error) {
	for side := range l.ends {
		for try, over := 0, false; !over; {
			p, err := l.find(ctx, false)
			if err != nil {
				return false, err
			}
			if p == nil || p.generation != set.generation {
				return true, shortfall // it has been deleted since, or has expired
			}
			if p.expiry.stamp < set.expiry.stamp { // another caller had read them before, or a failover has undone it
				if try++; try > maxLooks {
					return true, shortfall
				}
				if err := l.again(ctx, p); err != nil {
					return false, err
				}
				continue
			}
			reply, err := l.ends[side].pop(p, 0, blocking.No, "").Run(ctx)
			if !script.IsDone(err) {
				return false, err
			}
			if err != nil {
				shortfall = err
			}
			_, told, _ := readPop(reply)
			switch {
			case told == toldEmpty:
				return false, shortfall
			case goesOn(told):
				if err := l.follow(ctx, side, told); err != nil {
					return false, err
				}
			default:
				over = true
			}
		}
	}
	return true, shortfall
}

// endExpired deletes the list, since a shard says that the time has come of the expiry with that stamp.
func (l *List) endExpired(ctx context.Context, p *pointers, stamp string) error {
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	now := time.Now()
	reply, err := l.runOnMeta(ctx, deleteScript, "expired", p.generation, stamp)
	if err != nil {
		return err
	}
	return l.rememberReply(ctx, reply, now)
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
