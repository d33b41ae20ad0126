package shardedlist

import (
	"context"
	"math"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
)

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
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second)})
}

// ExpireNX is Expire for a list that does not expire yet, and reports false for another: EXPIRE NX.
func (l *ShardedList) ExpireNX(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "NX"})
}

// ExpireXX is Expire for a list that expires already, and reports false for another: EXPIRE XX.
func (l *ShardedList) ExpireXX(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "XX"})
}

// ExpireGT is Expire if that is later than the list expires now, and reports false otherwise: EXPIRE GT. A list that does not
// expire stays as it is.
func (l *ShardedList) ExpireGT(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "GT"})
}

// ExpireLT is Expire if that is sooner than the list expires now, or if it does not, and reports false otherwise: EXPIRE LT.
func (l *ShardedList) ExpireLT(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "LT"})
}

// ExpireAt is Expire at a time, cut to whole seconds: EXPIREAT. What is past deletes the list at once.
func (l *ShardedList) ExpireAt(ctx context.Context, at time.Time) (bool, error) {
	if seconds := at.Unix(); seconds > math.MaxInt64/1000 || seconds < math.MinInt64/1000 {
		return false, l.wrap("expireat", rediserr.Error("ERR invalid expire time in 'expireat' command"))
	}
	return l.expire(ctx, "expireat", layout.Expiry{How: layout.ExpireAt, Milliseconds: at.Unix() * 1000})
}

// PExpire is Expire in milliseconds, one at the least: PEXPIRE.
func (l *ShardedList) PExpire(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "pexpire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Millisecond)})
}

// PExpireAt is Expire at a time, cut to whole milliseconds: PEXPIREAT.
func (l *ShardedList) PExpireAt(ctx context.Context, at time.Time) (bool, error) {
	return l.expire(ctx, "pexpireat", layout.Expiry{How: layout.ExpireAt, Milliseconds: at.UnixMilli()})
}

// Persist lets the list live on and tells whether it was to expire: PERSIST.
//
// It visits the shards first, a hundred a step, and is effective for the whole list with the last step. It costs O(shards),
// where PERSIST costs O(1). If it is cut short, the list expires as before. Its errors are those of Expire.
func (l *ShardedList) Persist(ctx context.Context) (bool, error) {
	return l.expire(ctx, "persist", layout.Expiry{How: layout.ExpireNever, Conditions: "XX"})
}

// TTL returns how long it is until the list expires, rounded to seconds: TTL. As in go-redis, it is -1, in nanoseconds, if the
// list does not expire, and -2 if there is none. It costs O(1). Its errors are those of LLen.
func (l *ShardedList) TTL(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "ttl", time.Second, false)
}

// PTTL is TTL in milliseconds: PTTL.
func (l *ShardedList) PTTL(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "pttl", time.Millisecond, false)
}

// ExpireTime returns when the list expires, rounded to seconds, as the time since the beginning of 1970, and -1 and -2 as TTL
// does: EXPIRETIME.
func (l *ShardedList) ExpireTime(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "expiretime", time.Second, true)
}

// PExpireTime is ExpireTime in milliseconds: PEXPIRETIME.
func (l *ShardedList) PExpireTime(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "pexpiretime", time.Millisecond, true)
}

// units is a duration in milliseconds, of as many whole units as go-redis makes of it.
func units(d, unit time.Duration) int64 {
	if d > 0 && d < unit {
		d = unit
	}
	return d.Truncate(unit).Milliseconds()
}

func (l *ShardedList) expire(ctx context.Context, command string, expiry layout.Expiry) (bool, error) {
	return resultOf[bool](ctx, l, command, l.list.Expire(expiry))
}

// lifetime tells when the list expires, as a time if it is absolute.
func (l *ShardedList) lifetime(ctx context.Context, command string, unit time.Duration, absolute bool) (time.Duration, error) {
	found, err := resultOf[layout.Lifetime](ctx, l, command, l.list.Lifetime())
	if err != nil {
		return 0, err
	}
	units := found.In(unit, absolute)
	if units < 0 {
		return time.Duration(units), nil
	}
	return time.Duration(units) * unit, nil
}
