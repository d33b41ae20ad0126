package oneslot

import (
	"context"
	"strconv"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	expireScript = script.Load("expire")
	ttlScript    = script.Load("ttl")
)

// ContinueExpiry makes expire.lua set no time, but continue unfinished work.
const ContinueExpiry layout.ExpiryKind = "continue"

// Replies of expire.lua, rename.lua and copy.lua other than 1, which means yes.
const (
	verdictNotYet   = int64(-1) // to be repeated
	verdictNo       = int64(0)
	verdictContinue = int64(2) // yes, and expire.lua is to continue
)

// Expire sets or removes the expiry of the list. A long list takes several steps of a hundred shards.
func (l *List) Expire(expiry layout.Expiry, key ...any) session.Operation {
	op := l.expireStep(expiry)
	op.Append(key...)
	return orKey(op, func(ctx context.Context, reply any) (any, error) {
		verdict := reply.(int64)
		var err error
		for verdict == verdictNotYet && script.IsDone(err) {
			reply, err = l.expireStep(expiry).Run(ctx)
			if script.IsDone(err) {
				verdict = reply.(int64)
			}
		}
		if !script.IsDone(err) {
			return nil, err
		}
		l.continueExpiry(ctx, verdict)
		return verdict != verdictNo, err
	})
}

// expireStep is one step of Expire.
func (l *List) expireStep(expiry layout.Expiry) session.Operation {
	op := l.operation(expireScript, 4)
	op.Append(string(expiry.How), expiry.Milliseconds, expiry.Conditions, l.ExpiryGrace.Milliseconds())
	return op
}

// continueExpiry continues, in bounded steps, the work that an operation left to do for its shards, if the verdict says so. The
// operation was applied. If this fails, later operations continue.
func (l *List) continueExpiry(ctx context.Context, verdict int64) {
	if verdict == verdictContinue {
		l.sweep(ctx, int64(1)) // in larger steps
	}
	for verdict == verdictContinue {
		reply, err := l.expireStep(layout.Expiry{How: ContinueExpiry}).Run(ctx)
		if !script.IsDone(err) {
			return
		}
		verdict = reply.(int64)
	}
}

// Lifetime returns when the list expires.
func (l *List) Lifetime(key ...any) session.Operation {
	return orKey(l.read(ttlScript, key...), func(_ context.Context, reply any) (any, error) {
		times := reply.([]any)
		expires, err := strconv.ParseInt(times[0].(string), 10, 64)
		return layout.Lifetime{Expires: expires, Now: times[1].(int64)}, err
	})
}
