package batch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// readsAtOnce is how many reads that ask the same may be on their way: fewer callers do not wait for each other.
	readsAtOnce = 4
	// holdUp is how long a caller waits for others at least, before it reads by itself: their replies may be lost.
	holdUp = 20 * time.Millisecond
)

var errNoAnswer = errors.New("the caller that was to read has panicked")

// Reads lets callers that ask the same of a list share an answer, which was asked for after each of them came. The zero value is ready.
type Reads struct {
	took  atomic.Int64 // how many nanoseconds the last read took
	mu    sync.Mutex
	asked map[string]*question
}

// question is reads that ask the same.
type question struct {
	flights int           // that are on their way
	waiting []chan answer // the callers of the next one
}

// answer is what a caller waits for: a result, an error, or others to read for.
type answer struct {
	result any
	err    error
	leads  bool
	others []chan answer
}

// Do returns the result of a read, a value or a slice of strings. Callers of the same question must ask for the same.
func (r *Reads) Do(ctx context.Context, what string, read func(ctx context.Context) (any, error)) (any, error) {
	r.mu.Lock()
	q := r.asked[what]
	if q == nil {
		if r.asked == nil {
			r.asked = map[string]*question{}
		}
		q = &question{}
		r.asked[what] = q
	}
	if q.flights < readsAtOnce {
		q.flights++
		r.mu.Unlock()
		return r.fly(ctx, what, q, nil, read)
	}
	ready := make(chan answer, 1)
	q.waiting = append(q.waiting, ready)
	r.mu.Unlock()

	patience := time.NewTimer(holdUp + 4*time.Duration(r.took.Load()))
	defer patience.Stop()
	var a answer
	select {
	case a = <-ready:
	case <-ctx.Done():
		a = r.leave(q, ready, ctx.Err())
	case <-patience.C:
		a = r.leave(q, ready, errNoAnswer)
	}
	switch {
	case a.leads:
		return r.fly(ctx, what, q, a.others, read)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case a.err != nil: // it may concern the other alone
		return read(ctx)
	}
	return own(a.result), nil
}

// fly reads for a caller and others, and has the first of those who wait read next.
func (r *Reads) fly(ctx context.Context, what string, q *question, others []chan answer, read func(ctx context.Context) (any, error)) (result any, err error) {
	began := time.Now()
	err = errNoAnswer
	defer func() {
		r.took.Store(int64(time.Since(began)))
		for _, other := range others {
			other <- answer{result: result, err: err}
		}
		if len(others) > 0 {
			result = own(result)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(q.waiting) > 0 {
			q.waiting[0] <- answer{leads: true, others: q.waiting[1:]}
			q.waiting = nil
			return
		}
		if q.flights--; q.flights == 0 {
			delete(r.asked, what)
		}
	}()
	return read(ctx)
}

// leave ends the wait of a caller with an error, unless it has just been answered.
func (r *Reads) leave(q *question, ready chan answer, err error) answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	q.waiting = slices.DeleteFunc(q.waiting, func(other chan answer) bool { return other == ready })
	select {
	case a := <-ready:
		return a
	default:
		return answer{err: err}
	}
}

// own returns a result that its caller may change.
func own(result any) any {
	if elements, ok := result.([]string); ok {
		return slices.Clone(elements)
	}
	return result
}
