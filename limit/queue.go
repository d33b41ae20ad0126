package limit

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// queue is those in this process who wait for a share, in the order they came. While there are any, one goroutine serves them:
// it asks for a share for each, and if there are too few, waits on the bell. So they all share one blocked connection.
//
// The script is not in one pipeline with the BLPOP, other than a pop is: a share must not be given to a process that ends while it is blocked.
type queue struct {
	holders *holders
	slice   time.Duration // how long one BLPOP lasts at most; tests change it

	mu      sync.Mutex
	waiting list.List     // of *waiter
	serving bool          // the goroutine runs
	emptied chan struct{} // closed when the last one leaves; nil unless the goroutine is blocked
}

// waiter is a caller who waits. It is in the queue, or its result is in the channel.
type waiter struct {
	result chan acquisition // has room for one
}

type acquisition struct {
	permit *permit
	err    error
}

// wait waits for a share.
func (q *queue) wait(ctx context.Context) (*permit, error) {
	w := &waiter{make(chan acquisition, 1)}
	q.mu.Lock()
	place := q.waiting.PushBack(w)
	if !q.serving {
		q.serving = true
		go q.serve()
	}
	q.mu.Unlock()
	select {
	case got := <-w.result:
		return got.permit, got.err
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	select {
	case got := <-w.result: // it is the caller's, in spite of the cancellation
		return got.permit, got.err
	default:
	}
	q.waiting.Remove(place)
	if q.waiting.Len() == 0 && q.emptied != nil {
		close(q.emptied)
		q.emptied = nil
	}
	return nil, ctx.Err()
}

// number returns how many wait, up to the most that one script serves. If none does, the goroutine ends, unless it must ring on.
func (q *queue) number(owes bool) (n int, goesOn bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(q.waiting.Len(), maxAtOnce)
	q.serving = n > 0 || owes
	return n, q.serving
}

// deliver gives results to the first who wait, and returns those that nobody takes.
func (q *queue) deliver(results []acquisition) (left []acquisition) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, result := range results {
		first := q.waiting.Front()
		if first == nil {
			return results[i:]
		}
		q.waiting.Remove(first).(*waiter).result <- result
	}
	return nil
}

// fail gives an error to all who wait.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for first := q.waiting.Front(); first != nil; first = q.waiting.Front() {
		q.waiting.Remove(first).(*waiter).result <- acquisition{err: err}
	}
}

// serve runs while anybody waits.
func (q *queue) serve() {
	h := q.holders
	var ids []string // what was asked for last, while it is not known whether it was given
	copies := false  // of that call may arrive late
	owes := false    // it may have taken a dummy from the bell, and not rung on
	failing := failures{}
	for {
		n, goesOn := q.number(owes)
		if !goesOn {
			h.releaseLater(ids...) // they were asked for in vain, or not heard of
			return
		}
		for len(ids) < n {
			ids = append(ids, uuid.NewString())
		}
		how := waits
		if owes {
			how = woken
		}
		got, err := h.acquire(context.Background(), how, ids...)
		if err != nil {
			copies = copies || !script.IsReply(err)
			if failing.count(err) {
				if copies {
					h.releaseLater(ids...)
				}
				ids, copies, owes = nil, false, false
				q.fail(err)
			}
			failing.pause()
			continue
		}
		got.copies = copies
		if copies {
			h.releaseLater(without(ids, got.given)...)
		}
		full := len(got.given) < len(ids)
		failing, ids, copies, owes = failures{}, nil, false, false
		q.hand(got)
		if full {
			owes = q.block(got.nextEnd)
		}
	}
}

// without returns ids but for some.
func without(ids, some []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(some, id) })
}

// hand gives permits to those who wait, and releases what nobody takes.
func (q *queue) hand(got acquired) {
	var results []acquisition
	for _, id := range got.given {
		results = append(results, acquisition{permit: newPermit(q.holders, id, got)})
	}
	var unused []string
	for _, result := range q.deliver(results) {
		result.permit.end(context.Canceled)
		unused = append(unused, result.permit.id)
	}
	q.holders.releaseLater(unused...)
}

// block waits on the bell, until the next lease ends, or until nobody waits any more. It reports whether it may have taken a
// dummy.
func (q *queue) block(nextEnd time.Duration) (owes bool) {
	q.mu.Lock()
	if q.waiting.Len() == 0 {
		q.mu.Unlock()
		return false
	}
	emptied := make(chan struct{})
	q.emptied = emptied
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.emptied = nil
		q.mu.Unlock()
	}()

	h := q.holders
	slice := blocking.Slice(h.runner, q.slice, time.Time{})
	if nextEnd >= 0 {
		slice = min(slice, max(nextEnd+time.Millisecond, time.Millisecond)) // a lease has ended when its time is over
	}
	at := blocking.Place{Bells: []string{h.bell()}, Release: h.bell() + ":" + uuid.NewString()}
	waited := make(chan struct{})
	defer close(waited)
	go func() {
		select {
		case <-emptied:
			blocking.End(&session.Pool{Runner: h.runner, List: h.list}, at.Release)
		case <-waited:
		}
	}()
	owes, err := blocking.Await(h.runner.Client, h.list, slice, at)
	if err != nil {
		_ = script.Sleep(context.Background(), script.Backoff(0))
	}
	return owes
}

// failures tracks rounds that fail, so that those who wait do not see errors that pass by themselves.
type failures struct {
	number int
	since  time.Time
}

// count counts a round that has failed, and reports whether those who wait must learn of it.
func (f *failures) count(err error) (final bool) {
	if f.number == 0 {
		f.since = time.Now()
	}
	f.number++
	if errors.Is(err, redis.ErrClosed) || script.IsReply(err) && !script.IsTransient(err) {
		return true
	}
	return time.Since(f.since) > script.RetryFor
}

func (f *failures) pause() { _ = script.Sleep(context.Background(), script.Backoff(f.number)) }
