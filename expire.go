package shardedlist

import (
	"context"
	"math"
	"strconv"
	"time"
)

// expiryGrace is how long the shards outlive a list that expires, at the least: more than the clocks of a master and a replica
// differ by, and than it takes to visit all shards of a very long list.
const expiryGrace = time.Minute

// Expire lets the list expire after a time, in whole seconds, one at the least, and tells whether there is a list: EXPIRE. With
// a time of 0 or less, it is deleted at once. When a list has expired it does not exist any more, as if deleted: an element
// pushed then begins a new one, which does not expire. So does an element pushed after the last one was popped.
//
// It is effective in one atomic step, for the whole list. Beside it, the shards are given lives of their own, which end well
// after the list's, a minute at the least, so that nothing stays in memory if nobody uses the list again; a hundred shards in
// that step, and further ones in bounded steps before it returns. That needs to be done for a list's first expiry, and seldom
// when it is put off again and again: so it costs O(1) mostly, and O(shards) in such steps else. Where the time is put
// off by so much that shards might not last, those steps come first. If it is cut short there, it has set the time or it has not,
// and no shard is lost before the list expires; what is left is removed by the operations that follow, or by the next Expire.
//
// A server that evicts keys which expire (maxmemory-policy volatile-…) may evict single shards of such a list, as one that
// evicts any key may of every list.
//
// It is done once, as LPush is, and its errors are those of LPush.
func (l *ShardedList) Expire(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", expiry{expiryIn, units(after, time.Second), ""})
}

// ExpireNX is Expire for a list that does not expire yet, and reports false for another: EXPIRE NX.
func (l *ShardedList) ExpireNX(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", expiry{expiryIn, units(after, time.Second), "NX"})
}

// ExpireXX is Expire for a list that expires already, and reports false for another: EXPIRE XX.
func (l *ShardedList) ExpireXX(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", expiry{expiryIn, units(after, time.Second), "XX"})
}

// ExpireGT is Expire if that is later than the list expires now, and reports false otherwise: EXPIRE GT. A list that does not
// expire stays as it is.
func (l *ShardedList) ExpireGT(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", expiry{expiryIn, units(after, time.Second), "GT"})
}

// ExpireLT is Expire if that is sooner than the list expires now, or if it does not, and reports false otherwise: EXPIRE LT.
func (l *ShardedList) ExpireLT(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", expiry{expiryIn, units(after, time.Second), "LT"})
}

// ExpireAt is Expire at a time, cut to whole seconds: EXPIREAT. What is past deletes the list at once.
func (l *ShardedList) ExpireAt(ctx context.Context, at time.Time) (bool, error) {
	if seconds := at.Unix(); seconds > math.MaxInt64/1000 || seconds < math.MinInt64/1000 {
		return false, l.wrap("expireat", replyError("ERR invalid expire time in 'expireat' command"))
	}
	return l.expire(ctx, "expireat", expiry{expiryAt, at.Unix() * 1000, ""})
}

// PExpire is Expire in milliseconds, one at the least: PEXPIRE.
func (l *ShardedList) PExpire(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "pexpire", expiry{expiryIn, units(after, time.Millisecond), ""})
}

// PExpireAt is Expire at a time, cut to whole milliseconds: PEXPIREAT.
func (l *ShardedList) PExpireAt(ctx context.Context, at time.Time) (bool, error) {
	return l.expire(ctx, "pexpireat", expiry{expiryAt, at.UnixMilli(), ""})
}

// Persist lets the list live on and tells whether it was to expire: PERSIST.
//
// It visits the shards first, a hundred a step, and is effective for the whole list with the last step. It costs O(shards),
// where PERSIST costs O(1). If it is cut short, the list expires as before. Its errors are those of Expire.
func (l *ShardedList) Persist(ctx context.Context) (bool, error) {
	return l.expire(ctx, "persist", expiry{expiryNever, 0, "XX"})
}

// TTL returns how long it is until the list expires, rounded to seconds: TTL. As in go-redis, it is -1, in nanoseconds, if the
// list does not expire, and -2 if there is none. It costs O(1). Its errors are those of LLen.
func (l *ShardedList) TTL(ctx context.Context) (time.Duration, error) {
	return l.expires(ctx, "ttl", lifetime{time.Second, false})
}

// PTTL is TTL in milliseconds: PTTL.
func (l *ShardedList) PTTL(ctx context.Context) (time.Duration, error) {
	return l.expires(ctx, "pttl", lifetime{time.Millisecond, false})
}

// ExpireTime returns when the list expires, rounded to seconds, as the time since the beginning of 1970, and -1 and -2 as TTL
// does: EXPIRETIME.
func (l *ShardedList) ExpireTime(ctx context.Context) (time.Duration, error) {
	return l.expires(ctx, "expiretime", lifetime{time.Second, true})
}

// PExpireTime is ExpireTime in milliseconds: PEXPIRETIME.
func (l *ShardedList) PExpireTime(ctx context.Context) (time.Duration, error) {
	return l.expires(ctx, "pexpiretime", lifetime{time.Millisecond, true})
}

// units is a duration in milliseconds, of as many whole units as go-redis makes of it.
func units(d, unit time.Duration) int64 {
	if d > 0 && d < unit {
		d = unit
	}
	return d.Truncate(unit).Milliseconds()
}

// How expire.lua is told when.
const (
	expiryIn    = "in"
	expiryAt    = "at"
	expiryNever = "never"
	expiryTend  = "continue"
)

// What expire.lua and transfer.lua reply.
const (
	verdictNotYet  = int64(-1) // to be repeated
	verdictNo      = int64(0)
	verdictYesTend = int64(2) // yes, and the list is to be tended
)

// expiry is what expire.lua is told.
type expiry struct {
	how          string
	milliseconds int64
	conditions   string // of NX, XX, GT and LT
}

func (l *ShardedList) expire(ctx context.Context, command string, e expiry) (bool, error) {
	verdict, err := l.keepExpiring(ctx, e, verdictNotYet)
	return isDone(err) && verdict != verdictNo, l.wrap(command, err)
}

// keepExpiring repeats a step until the time is set, and then tends the list. It begins with what the last step came to.
func (l *ShardedList) keepExpiring(ctx context.Context, e expiry, verdict int64) (int64, error) {
	var err error
	for verdict == verdictNotYet && isDone(err) {
		verdict, err = integer(l.edit(ctx, l.expireOperation(e)))
	}
	if isDone(err) {
		l.tend(ctx, verdict)
	}
	return verdict, err
}

// expireOperation is a step of an expiry. It does not mind what is at the key that the list may stand in for.
func (l *ShardedList) expireOperation(e expiry) operation {
	o := newOperation(expireScript, l.scriptKeys[:1], 4)
	o.args = append(o.args, e.how, e.milliseconds, e.conditions, l.expiryGrace.Milliseconds())
	return o
}

// tend goes on, in bounded steps, with what an operation left to do for its shards, if the verdict says so. The operation has
// been done; if this cannot be, others will sweep.
func (l *ShardedList) tend(ctx context.Context, verdict int64) {
	for err := error(nil); verdict == verdictYesTend && isDone(err); {
		verdict, err = integer(l.edit(ctx, l.expireOperation(expiry{how: expiryTend})))
	}
}

// noList is what ttl.lua tells if there is none.
const noList = "-2"

// lifetime is what TTL or one of its like tells.
type lifetime struct {
	unit     time.Duration
	absolute bool
}

func (l *ShardedList) expires(ctx context.Context, command string, kind lifetime) (time.Duration, error) {
	reply, err := l.run(ctx, ttlScript)
	if err != nil {
		return 0, l.wrap(command, err)
	}
	units, err := kind.of(reply)
	if err != nil || units < 0 {
		return time.Duration(units), l.wrap(command, err)
	}
	return time.Duration(units) * kind.unit, nil
}

// of reads the reply of ttl.lua, in units, or -1 or -2.
func (k lifetime) of(reply any) (int64, error) {
	times := reply.([]any)
	expires, err := strconv.ParseInt(times[0].(string), 10, 64)
	if err != nil || expires < 0 {
		return expires, err
	}
	if !k.absolute {
		expires -= times[1].(int64)
	}
	per := k.unit.Milliseconds()
	units := expires / per
	if expires%per*2 >= per { // Redis rounds halves up
		units++
	}
	return units, nil
}
