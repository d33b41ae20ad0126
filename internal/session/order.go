package session

import (
	"context"
	"sync"
	"time"
)

// Order keeps operations that add elements at one end of a list in order: while it is not known whether one that its caller has given
// up was applied, or may yet be, no other is sent. That lasts until the operation is resolved, or for about ResolveFor if it is not.
type Order struct {
	Shared Gate // closed by operations that callers share; the next such operation resolves it, and so does not wait
	Alone  Gate // closed by others
}

// Ready waits until nothing that was given up can be applied any more, or until the time is over.
func (o *Order) Ready(ctx context.Context, until time.Time) error {
	if err := o.Shared.Wait(ctx, until); err != nil {
		return err
	}
	return o.Alone.Wait(ctx, until)
}

// Ready is Order.Ready for several.
func Ready(ctx context.Context, orders []*Order, until time.Time) error {
	for _, order := range orders {
		if err := order.Ready(ctx, until); err != nil {
			return err
		}
	}
	return nil
}

// Abandon keeps others from overtaking an operation, which its caller has given up, until it is resolved.
func Abandon(orders []*Order) (resolved func()) {
	for _, order := range orders {
		order.Alone.Close()
	}
	return func() {
		for _, order := range orders {
			order.Alone.Open()
		}
	}
}

// Gate is open unless it was closed more often than it was opened.
type Gate struct {
	mu     sync.Mutex
	closed int
	opened chan struct{} // closed when the gate opens; nil if nobody waits
}

// Close closes the gate once more.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed++
}

// Open undoes one Close.
func (g *Gate) Open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed--
	if g.closed == 0 && g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// Wait waits until the gate is open, or the time is over.
func (g *Gate) Wait(ctx context.Context, until time.Time) error {
	g.mu.Lock()
	if g.closed == 0 {
		g.mu.Unlock()
		return nil
	}
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
	opened := g.opened
	g.mu.Unlock()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return ErrNoAnswer
	}
}
