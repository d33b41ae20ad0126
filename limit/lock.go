package limit

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Lock lets one holder in at a time, for a lease, which it refreshes. It is a Semaphore with one share, and with fencing tokens.
//
// A lease can end while its holder still works, for example after a pause of its process. So what the lock protects should take
// the fencing token with each request, and refuse one that is lower than the highest it has seen.
//
// A fencing token is the time by the server's clock, in microseconds, or one higher than the last token if that is not behind
// it. So tokens grow even after the lock's key has expired, was evicted or deleted, as long as the clock goes forward. The key
// remembers the last token for ten minutes after the lease, which covers a clock that is set back by less. A failover to a
// server that has not received the last token, and whose clock is behind, may give a lower one.
//
// It costs O(1) time, and about 150 bytes until ten minutes after the last lease.
type Lock struct{ holders *holders }

// Held is a lock that is held.
type Held struct{ *permit }

// NewLock returns a lock. It sends nothing. The lease is as for NewSemaphore, and so are the errors.
func NewLock(rdb redis.UniversalClient, name string, lease time.Duration, options ...Option) (*Lock, error) {
	h, err := newHolders(rdb, name, "lock", 1, lease, options)
	if err != nil {
		return nil, err
	}
	h.fences, h.after = true, tokenLife
	return &Lock{h}, nil
}

// TryLock takes the lock if it is free. If it is not, it returns ErrNotAcquired. Otherwise it is like Semaphore.TryAcquire.
func (l *Lock) TryLock(ctx context.Context) (*Held, error) {
	p, err := l.holders.try(ctx)
	if err != nil {
		return nil, l.holders.wrap("try", err)
	}
	return &Held{p}, nil
}

// Lock waits for the lock, and takes it, like Semaphore.Acquire.
func (l *Lock) Lock(ctx context.Context) (*Held, error) {
	p, err := l.holders.wait(ctx)
	if err != nil {
		return nil, l.holders.wrap("lock", err)
	}
	return &Held{p}, nil
}

// Token returns the fencing token, which is higher than that of each holder before.
func (h *Held) Token() int64 { return h.token }

// Unlock is Release.
func (h *Held) Unlock(ctx context.Context) error { return h.Release(ctx) }
