package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	acquireScript = script.Load("limit_acquire")
	refreshScript = script.Load("limit_refresh")
	releaseScript = script.Load("limit_release")
)

const (
	// minLease is the shortest lease. It must be well above the time that a refresh takes.
	minLease = 10 * time.Millisecond
	// tokenLife is how long the key of a lock outlives its last lease, with the last fencing token. It is needed only if the
	// server's clock is set back meanwhile, or a failover leads to a server whose clock is behind.
	tokenLife = 10 * time.Minute
	// maxAtOnce is how many shares one script gives.
	maxAtOnce = 100
	// cleanUpFor is how long the library tries to release what a caller that gave up may hold.
	cleanUpFor = 10 * time.Second
)

// Option configures a Semaphore or a Lock.
type Option func(*holders)

// WithoutRefresh leaves it to the caller to refresh permits. Without this option, each is refreshed every third of its lease,
// until it is released or the process ends.
func WithoutRefresh() Option {
	return func(h *holders) { h.refreshes = false }
}

// holders is a semaphore, or a lock, which is one with a single share and fencing tokens.
type holders struct {
	*limiter
	shares    int64
	lease     time.Duration
	after     time.Duration // how long the key stays after the last lease
	fences    bool
	refreshes bool
	queue     queue
}

func newHolders(rdb redis.UniversalClient, name, kind string, shares int64, lease time.Duration, options []Option) (*holders, error) {
	if err := checkNumber(shares, maxNumber); err != nil {
		return nil, err
	}
	if lease < minLease || lease > maxSpan {
		return nil, invalid("a lease of %v is not within %v and %v", lease, minLease, maxSpan)
	}
	l, err := newLimiter(rdb, name, kind)
	if err != nil {
		return nil, err
	}
	h := &holders{limiter: l, shares: shares, lease: lease, refreshes: true}
	h.queue.holders, h.queue.slice = h, blocking.MaxSlice
	for _, option := range options {
		option(h)
	}
	return h, nil
}

// bell is the list of dummies on which those wait that want a share.
func (h *holders) bell() string { return h.prefix + "bell" }

// call returns a call of a script on the holders.
func (h *holders) call(s *script.Script, args ...any) script.Call {
	call := script.NewCall(s, []any{h.state()}, len(args))
	call.Args = append(call.Args, args...)
	return call
}

// How an acquisition waits, in the words of commands/limit_acquire.lua.
const (
	waitsNot = "no"    // it does not
	waits    = "wait"  // it does
	woken    = "woken" // it does, and may have taken a dummy from the bell
)

// acquired is the reply to an acquisition.
type acquired struct {
	token   int64
	nextEnd time.Duration // until the next lease ends; below 0 if there is none
	given   []string      // the ids that hold a share
	copies  bool          // copies of the call, whose replies were lost, may arrive late
	sent    time.Time     // when the call was sent that was answered: no lease began before
}

// acquire asks for a share for each of the ids, once. The same ids may be asked for again.
func (h *holders) acquire(ctx context.Context, wait string, ids ...string) (acquired, error) {
	fences := "no"
	if h.fences {
		fences = "yes"
	}
	call := h.call(acquireScript, h.shares, h.lease.Microseconds(), h.after.Milliseconds(), fences, wait)
	for _, id := range ids {
		call.Args = append(call.Args, id)
	}
	got := acquired{sent: time.Now()}
	reply, err := h.runner.Once(ctx, call)
	if err != nil {
		return got, err
	}
	numbers, _ := reply.([]any)
	if len(numbers) < 2 {
		return got, fmt.Errorf("a reply of an unknown form: %v", reply)
	}
	got.token, _ = numbers[0].(int64)
	microseconds, _ := numbers[1].(int64)
	got.nextEnd = time.Duration(microseconds) * time.Microsecond
	for _, position := range numbers[2:] {
		if i, _ := position.(int64); i >= 1 && i <= int64(len(ids)) {
			got.given = append(got.given, ids[i-1])
		}
	}
	return got, nil
}

// release ends the leases of ids, and reports how many held a share, and whether a copy of the call, whose reply was lost, may
// have released them before. With a fence, copies of their acquisition that arrive late are given nothing.
func (h *holders) release(ctx context.Context, fence bool, ids ...string) (held int64, repeated bool, err error) {
	var life time.Duration
	if fence {
		life = session.RecordLife
	}
	call := h.call(releaseScript, life.Milliseconds())
	for _, id := range ids {
		call.Args = append(call.Args, id)
	}
	reply, repeated, err := h.repeat(ctx, call)
	held, _ = reply.(int64)
	return held, repeated, err
}

// releaseLater releases ids that nobody uses, and that hold a share or may be given one unheard. If it fails, their leases end.
func (h *holders) releaseLater(ids ...string) {
	if len(ids) == 0 {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), cleanUpFor)
		defer cancel()
		_, _, _ = h.release(ctx, true, ids...)
	}()
}

// try acquires a share at once, or returns ErrNotAcquired.
func (h *holders) try(ctx context.Context) (*permit, error) {
	id := uuid.NewString()
	giveUp := func(p *permit, _ error) {
		if p != nil {
			p.end(context.Canceled)
		}
		h.releaseLater(id)
	}
	return promptly(ctx, func(ctx context.Context) (*permit, error) {
		var got acquired
		repeated, err := untilAnswered(ctx, func() (err error) {
			got, err = h.acquire(ctx, waitsNot, id)
			return err
		})
		if err == nil && len(got.given) > 0 {
			got.copies = repeated
			return newPermit(h, id, got), nil
		}
		if repeated {
			h.releaseLater(id)
		}
		if err == nil {
			err = ErrNotAcquired
		}
		return nil, err
	}, giveUp)
}

// wait acquires a share when there is one.
func (h *holders) wait(ctx context.Context) (*permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.queue.wait(ctx)
}
