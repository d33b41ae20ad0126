package limit

import (
	"context"
	"sync"
	"time"
)

// permit is a share of a semaphore, or a lock.
type permit struct {
	holders *holders
	id      string
	token   int64
	copies  bool // of its acquisition may arrive late

	ctx    context.Context // ends when it is not held any more
	cancel context.CancelCauseFunc
	ends   *time.Timer // at the end of the lease

	mu       sync.Mutex
	released bool // Release has succeeded
	tried    bool // a Release has failed, and may have succeeded on the server
}

// newPermit returns a permit whose lease began when the call was sent, or later.
func newPermit(h *holders, id string, got acquired) *permit {
	p := &permit{holders: h, id: id, token: got.token, copies: got.copies}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.ends = time.AfterFunc(time.Until(got.sent.Add(h.lease)), func() { p.cancel(ErrLost) }) // at once if the reply came too late
	if h.refreshes {
		go p.keep()
	}
	return p
}

// end ends the permit for those who look at its context.
func (p *permit) end(cause error) {
	p.cancel(cause)
	p.ends.Stop()
}

// keep refreshes the permit until it ends.
func (p *permit) keep() {
	next := time.NewTimer(p.holders.lease / 3)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			_ = p.refresh(p.ctx) // the permit ends if none succeeds
			next.Reset(p.holders.lease / 3)
		case <-p.ctx.Done():
			return
		}
	}
}

// Context returns a context that ends when the permit is not held any more: when it is released, when its lease ends because it
// was not refreshed in time, or when the server is found to have lost it. context.Cause returns ErrLost unless it was released.
// It ends by the client's measure of time, which begins before the server's: so before anybody else gets the share.
func (p *permit) Context() context.Context { return p.ctx }

// Refresh renews the lease, from now. It is needed only with WithoutRefresh. It costs O(log n).
//
// It returns ErrLost if the permit is not held any more: then its context has ended, too. If ctx ends before the server has
// answered, it returns the error of ctx, and the lease may have been renewed. It works while the server's memory is full.
func (p *permit) Refresh(ctx context.Context) error { return p.holders.wrap("refresh", p.refresh(ctx)) }

func (p *permit) refresh(ctx context.Context) error {
	if p.ctx.Err() != nil {
		return ErrLost
	}
	h := p.holders
	sent := time.Now()
	call := h.call(refreshScript, p.id, h.lease.Microseconds(), h.after.Milliseconds())
	reply, err := promptly(ctx, func(ctx context.Context) (any, error) {
		reply, _, err := h.repeat(ctx, call)
		return reply, err
	}, func(any, error) {})
	if err != nil {
		return err
	}
	if reply != int64(1) {
		p.end(ErrLost)
		return ErrLost
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ends.Stop() { // it has ended meanwhile
		return ErrLost
	}
	p.ends.Reset(time.Until(sent.Add(h.lease)))
	return nil
}

// Release gives the share back, and wakes one who waits for it. It costs O(log n).
//
// It returns ErrLost if the permit was not held any more: its lease had ended, or it was released before. If it returns another
// error, the share is free at the end of its lease at the latest, and Release may be called again. It works while the server's
// memory is full.
func (p *permit) Release(ctx context.Context) error { return p.holders.wrap("release", p.release(ctx)) }

func (p *permit) release(ctx context.Context) error {
	p.mu.Lock()
	released, tried := p.released, p.tried
	p.tried = true
	p.mu.Unlock()
	if released {
		return ErrLost
	}
	p.end(context.Canceled)
	type outcome struct {
		held     int64
		repeated bool
	}
	got, err := promptly(ctx, func(ctx context.Context) (outcome, error) {
		held, repeated, err := p.holders.release(ctx, p.copies, p.id)
		return outcome{held, repeated}, err
	}, func(outcome, error) {})
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.released = true
	p.mu.Unlock()
	if got.held == 0 && !got.repeated && !tried {
		return ErrLost
	}
	return nil
}
