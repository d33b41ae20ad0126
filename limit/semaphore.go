package limit

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Semaphore lets a number of holders in at a time. Each holds a share for a lease, and refreshes it: a holder that dies frees
// its share when the lease ends.
//
// Those who wait through one Semaphore value are served in the order they came, over one connection. Between values, and so
// between processes, the order is not kept, and TryAcquire does not queue.
//
// It costs O(log n) time, and about 135 bytes for each holder.
type Semaphore struct{ holders *holders }

// Permit is a share of a Semaphore.
type Permit struct{ *permit }

// NewSemaphore returns a semaphore with n shares. It sends nothing. The lease counts in whole microseconds, from 10 ms to ten
// years; some seconds are usual. A holder whose connection breaks must come back, and refresh, within it.
//
// It returns ErrLimit for a nil client, an empty name, an n below 1, or a lease that is too short or too long.
func NewSemaphore(rdb redis.UniversalClient, name string, n int64, lease time.Duration, options ...Option) (*Semaphore, error) {
	h, err := newHolders(rdb, name, "semaphore", n, lease, options)
	if err != nil {
		return nil, err
	}
	return &Semaphore{h}, nil
}

// TryAcquire takes a share if one is free. If none is, it returns ErrNotAcquired. It costs O(log n).
//
// If ctx ends before the server has answered, it returns the error of ctx, and what it may have been given is released. If the
// server's memory is full, it returns the server's error, and nothing was taken.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	p, err := s.holders.try(ctx)
	if err != nil {
		return nil, s.holders.wrap("try", err)
	}
	return &Permit{p}, nil
}

// Acquire waits for a share, and takes it. A release wakes it, and so does the end of a lease. It does not poll: it is blocked
// on the server, for up to 2 s at a time, and half of the client's ReadTimeout.
//
// If ctx ends first, it returns the error of ctx at once, and holds nothing. While the server cannot serve it for now, or does
// not answer, it goes on for 10 s. It returns other errors of the server at once, that of full memory among them.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) {
	p, err := s.holders.wait(ctx)
	if err != nil {
		return nil, s.holders.wrap("acquire", err)
	}
	return &Permit{p}, nil
}
