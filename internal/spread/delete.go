package spread

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	closeScript  = script.Load("spread_close")
	deleteScript = script.Load("spread_delete")
	retireScript = script.Load("spread_retire")
)

const (
	sweepStep  = 64 // shards that are unlinked before the next step begins
	sweepAtNow = 8  // of them at a time
)

// Delete deletes the list, and then unlinks its shards in bounded steps. Its result is whether the list had elements. It may run twice.
func (l *List) Delete() session.Operation {
	return session.Steps(func(ctx context.Context) (any, error) {
		existed, _, err := l.delete(ctx, anyGeneration)
		if err != nil {
			return false, err
		}
		l.sweepAll(ctx) // the list is deleted, even if this fails
		return existed, nil
	})
}

const anyGeneration = -1

// delete deletes the list. It reports whether it had elements, and whether it was of that generation, or deleted before: else nothing was
// done.
func (l *List) delete(ctx context.Context, generation int64) (existed, same bool, err error) {
	p, err := l.readMeta(ctx, false)
	if err != nil || p == nil || !p.mayPush && !p.deleting {
		return false, true, err
	}
	if generation != anyGeneration && p.generation != generation {
		return false, false, nil
	}
	if p.expiry.time > 0 {
		if length, err := l.length(ctx); err != nil || length == 0 { // it finds out whether the list has expired
			return false, true, err
		}
	}
	if err := l.lock(ctx); err != nil {
		return false, false, err
	}
	defer l.unlock()
	began, err := l.onMeta(ctx, deleteScript, "begin", p.generation)
	if err != nil || began == nil || began.generation != p.generation {
		return false, true, err // somebody else has deleted it since
	}
	existed, err = l.endDelete(ctx, began)
	return existed, true, err
}

// sweepAll unlinks the shards of lists that were deleted.
func (l *List) sweepAll(ctx context.Context) {
	for {
		p, err := l.readMeta(ctx, false)
		if err != nil || p == nil || p.old == "" || l.sweep(ctx, p, sweepStep) != nil {
			return
		}
	}
}

// sweepFor is how long sweepLater tries.
const sweepFor = 10 * time.Second

// sweepLater is sweepAll for shards that somebody else has left.
func (l *List) sweepLater() {
	if l.sweeping.CompareAndSwap(false, true) {
		go func() {
			defer l.sweeping.Store(false)
			ctx, cancel := context.WithTimeout(context.Background(), sweepFor)
			defer cancel()
			l.sweepAll(ctx)
		}()
	}
}

// onMeta runs a script on the pointers, and returns them.
func (l *List) onMeta(ctx context.Context, s *script.Script, args ...any) (*pointers, error) {
	reply, err := l.runOnMeta(ctx, s, args...)
	if err != nil {
		return nil, err
	}
	return readPointers(reply, time.Time{})
}

// endDelete ends a delete that is under way: nobody can push or pop once both ends are closed. It reports whether the list had elements.
func (l *List) endDelete(ctx context.Context, p *pointers) (existed bool, err error) {
	existed = p.ids[right]-p.ids[left] > 1 // shards between the ends have some
	stamp, why := any(""), ""
	if p.expired {
		stamp, why = p.expiry.stamp, "expired"
	}
	for side := range l.ends {
		op := l.sessions.Read(closeScript, []any{l.part(p, p.ids[side]).Meta}, "", "", "", sideWords[side], p.word, stamp)
		size, err := l.run(ctx, op)
		if err != nil {
			return false, err
		}
		if other, isOther := size.(string); isOther { // it has been empty meanwhile, and has not expired
			expires, stamp, _ := strings.Cut(other, " ")
			_, err := l.onMeta(ctx, deleteScript, "on", p.generation, stamp, expires)
			return false, err
		}
		existed = existed || size != int64(0)
	}
	l.remember(nil)
	_, err = l.onMeta(ctx, deleteScript, "end", p.generation, why)
	return existed, err
}

// sweep unlinks up to limit shards of a list that was deleted.
func (l *List) sweep(ctx context.Context, p *pointers, limit int64) error {
	var generation, first, last int64
	if _, err := fmt.Sscanf(p.old, "%d %d %d", &generation, &first, &last); err != nil {
		return fmt.Errorf("the shards to unlink: %w", err)
	}
	last = min(last, first+limit-1)
	old := *p
	old.word = retiredWord(generation)
	var (
		group    sync.WaitGroup
		atOnce   = make(chan struct{}, sweepAtNow)
		failures = make(chan error, limit)
	)
	for id := first; id <= last; id++ {
		atOnce <- struct{}{}
		group.Go(func() {
			defer func() { <-atOnce }()
			if _, err := l.run(ctx, l.onShard(&old, retireScript, id, id)); err != nil {
				failures <- err
			}
		})
	}
	group.Wait()
	select {
	case err := <-failures:
		return err
	default:
	}
	_, err := l.onMeta(ctx, deleteScript, "swept", generation, last)
	return err
}

// retiredWord names a generation whose shards are unlinked.
func retiredWord(generation int64) string { return fmt.Sprintf("%d 0 0 0 0 0 0 1", generation) }
