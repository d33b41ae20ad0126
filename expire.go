package shardedlist

import (
	"context"
	"math"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
)

// Expire sets the time after which the list expires, and reports whether there is a list: EXPIRE. The time is in whole seconds,
// and at least one second. A time of 0 or less deletes the list at once.
//
// An expired list is empty, as if deleted: an element pushed later starts a new list, which has no expiry. So does an element
// pushed after the last one was popped.
//
// The expiry takes effect for the whole list in one atomic step. Each shard also gets a TTL of its own, which ends at least a
// minute after that of the list, so that the memory is freed even if nobody uses the list again. Expire sets these TTLs for up
// to a hundred shards in that step, and for the others in further steps of a hundred, so it is O(shards) in such steps. If the
// list has an expiry already, the TTLs mostly last long enough for a later one, and Expire is O(1). If they do not, Expire
// extends them before it sets the time.
//
// If Expire is interrupted between steps, the list has its new expiry or its old one, and no shard is lost before the list
// expires. The next Expire, or the operations after the list has expired, complete the work.
//
// A list over many slots has no such TTLs: Expire takes a few round trips, and the memory is freed by the next operation on the list.
// Nodes decide by their own clocks whether it has expired. A time beyond 2^53 milliseconds counts as that.
//
// Do not use a volatile-* eviction policy with lists that expire: the server may evict single shards. Expire is applied exactly
// once. See [ShardedList] for retries, cancellation and errors.
func (l *ShardedList) Expire(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second)})
}

// ExpireNX is Expire if the list has no expiry. Otherwise it returns false: EXPIRE NX.
func (l *ShardedList) ExpireNX(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "NX"})
}

// ExpireXX is Expire if the list has an expiry. Otherwise it returns false: EXPIRE XX.
func (l *ShardedList) ExpireXX(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "XX"})
}

// ExpireGT is Expire if the new expiry is later than the current one. Otherwise it returns false: EXPIRE GT. A list without an
// expiry is left unchanged.
func (l *ShardedList) ExpireGT(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "GT"})
}

// ExpireLT is Expire if the new expiry is sooner than the current one, or if the list has none. Otherwise it returns false:
// EXPIRE LT.
func (l *ShardedList) ExpireLT(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "expire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Second), Conditions: "LT"})
}

// ExpireAt is Expire at a point in time, truncated to seconds: EXPIREAT. A time in the past deletes the list at once.
func (l *ShardedList) ExpireAt(ctx context.Context, at time.Time) (bool, error) {
	if seconds := at.Unix(); seconds > math.MaxInt64/1000 || seconds < math.MinInt64/1000 {
		return false, l.wrap("expireat", rediserr.Error("ERR invalid expire time in 'expireat' command"))
	}
	return l.expire(ctx, "expireat", layout.Expiry{How: layout.ExpireAt, Milliseconds: at.Unix() * 1000})
}

// PExpire is Expire in whole milliseconds, at least one: PEXPIRE.
func (l *ShardedList) PExpire(ctx context.Context, after time.Duration) (bool, error) {
	return l.expire(ctx, "pexpire", layout.Expiry{How: layout.ExpireIn, Milliseconds: units(after, time.Millisecond)})
}

// PExpireAt is ExpireAt, truncated to milliseconds: PEXPIREAT.
func (l *ShardedList) PExpireAt(ctx context.Context, at time.Time) (bool, error) {
	return l.expire(ctx, "pexpireat", layout.Expiry{How: layout.ExpireAt, Milliseconds: at.UnixMilli()})
}

// Persist removes the expiry of the list, and reports whether there was one: PERSIST.
//
// It visits the shards first, a hundred in each step, and takes effect for the whole list with the last step. It is O(shards).
// In Redis, PERSIST is O(1). If it is interrupted, the list expires as before. It is applied exactly once. On a list over many slots it
// takes a few round trips.
func (l *ShardedList) Persist(ctx context.Context) (bool, error) {
	return l.expire(ctx, "persist", layout.Expiry{How: layout.ExpireNever, Conditions: "XX"})
}

// TTL returns the time until the list expires, rounded to seconds: TTL. As in go-redis, it returns -1, in nanoseconds, if the
// list has no expiry, and -2 if there is no list. It is O(1); on a list over many slots it takes one to three round trips.
func (l *ShardedList) TTL(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "ttl", time.Second, false)
}

// PTTL is TTL, rounded to milliseconds: PTTL.
func (l *ShardedList) PTTL(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "pttl", time.Millisecond, false)
}

// ExpireTime returns the Unix time at which the list expires, as a duration since January 1, 1970 UTC, rounded to seconds:
// EXPIRETIME. It returns -1 and -2 as TTL does. It is O(1).
func (l *ShardedList) ExpireTime(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "expiretime", time.Second, true)
}

// PExpireTime is ExpireTime, rounded to milliseconds: PEXPIRETIME.
func (l *ShardedList) PExpireTime(ctx context.Context) (time.Duration, error) {
	return l.lifetime(ctx, "pexpiretime", time.Millisecond, true)
}

// units returns a duration in milliseconds, truncated to whole units as go-redis does.
func units(d, unit time.Duration) int64 {
	if d > 0 && d < unit {
		d = unit
	}
	return d.Truncate(unit).Milliseconds()
}

func (l *ShardedList) expire(ctx context.Context, command string, expiry layout.Expiry) (bool, error) {
	return resultOf[bool](ctx, l, command, l.list.Expire(expiry))
}

// lifetime returns when the list expires, as a Unix time if absolute is set.
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
