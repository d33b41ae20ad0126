package blocking

import (
	"container/list"
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// ErrNegativeTimeout is returned for a timeout below 0.
var ErrNegativeTimeout = errors.New("timeout is negative")

const (
	// maxWoken limits the elements that one pop takes for waiting callers.
	maxWoken = 1024
	// timerSlack is added to a caller's local timer, so that the server's timeout normally fires first.
	timerSlack = 5 * time.Millisecond
	// answerGrace is how long a caller whose time is up waits for a server that does not answer, before it returns without knowing
	// whether the list has elements; serviceGrace is how long for one that answers, but cannot serve for the moment.
	answerGrace  = 5 * time.Second
	serviceGrace = time.Second
	// flowsFor is how long others may pop while a round is in flight: a round without an answer must not be overtaken for long.
	flowsFor = 10 * time.Millisecond
	// idleAfter is how long nobody must have waited before the server is asked to drop a large result.
	idleAfter = 100 * time.Millisecond
)

// Queue holds the callers of this process that wait at one end of a list. While there are any, one goroutine serves them: it
// pops as many elements as there are callers, delivers them in the order the callers came, and blocks on the bell when the list
// is empty. While the list has elements for all, nobody need wait: the callers pop as others do, and share operations with them.
type Queue struct {
	// Fixed by New.
	loop
	popNow  func(ctx context.Context) (string, error)
	reclaim func(elements []string)
	mayWait func(ctx context.Context) error

	// flows is the time, in Unix nanoseconds, until which the list has elements, as far as is known, and nobody waits but those for whom
	// a pop is on its way.
	flows atomic.Int64

	mu        sync.Mutex
	waiting   list.List // of *waiter, in the order they came
	leaving   list.List // of *waiter: given up, but an element may be on its way to them
	serving   bool      // the goroutine runs
	full      bool      // the last round found an element at once for each of its callers
	wanted    int       // the elements that the pop in flight may bring
	inFlight  int       // callers in waiting that it was sent for
	release   string    // the key that releases the pop in flight, if it is blocked and not yet released
	forgetter *time.Timer
	unasked   []*waiter // that joined while others waited: mayWait is to be asked for them
	asking    bool      // a goroutine does
	closed    bool      // nobody will come any more
}

// NewQueue returns the queue of a source that has one bell. popNow pops one element, and returns soon after its ctx has ended, and
// reclaim puts back elements that no caller takes. mayWait tells whether a caller may begin to wait at an empty list; it is nil if all may.
func NewQueue(source Source, sessions *session.Pool, popNow func(ctx context.Context) (string, error), reclaim func(elements []string),
	mayWait func(ctx context.Context) error) *Queue {
	return &Queue{loop: loop{source: source, sessions: sessions}, popNow: popNow, reclaim: reclaim, mayWait: mayWait}
}

// waiter is one blocked caller.
type waiter struct {
	joined   time.Time
	deadline time.Time    // zero: none
	patient  bool         // its context has a deadline, until which it waits for a server that cannot serve for the moment
	outcome  chan outcome // receives once
	served   bool         // the outcome is sent
	inFlight bool         // the pop in flight was sent for it too
	sawEmpty bool         // a pop that was sent for it has found the list empty
	asked    bool         // mayWait is being asked for it, or has been
	mayWait  bool         // it may wait, whatever becomes of the list's key
	refused  chan error   // receives if it must not
	reason   error        // why it is leaving
	place    *list.Element
}

type outcome struct {
	value string
	err   error
}

// serve gives the caller its outcome.
func (w *waiter) serve(value string, err error) {
	w.served = true
	w.outcome <- outcome{value, err}
}

// Pop waits for an element until the timeout, or forever if timeout is 0. It returns redis.Nil if the timeout is over.
func (q *Queue) Pop(ctx context.Context, timeout time.Duration) (string, error) {
	if timeout < 0 {
		return "", ErrNegativeTimeout
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	joined := q.sessions.List.Wait()
	defer q.sessions.List.EndWait(joined)
	looked := false
	if q.flows.Load() > joined.UnixNano() {
		value, err := q.popFlowing(ctx, joined, timeout)
		if looked = err == redis.Nil; !looked && !mayGoOn(ctx, err) || timeout > 0 && time.Since(joined) >= timeout {
			return value, err
		}
	}
	w := newWaiter(ctx, joined, timeout)
	w.sawEmpty = looked
	return q.wait(ctx, w)
}

// mayGoOn reports whether a caller whose pop has failed with err may wait for a better time: the end of its ctx ends that.
func mayGoOn(ctx context.Context, err error) bool {
	_, patient := ctx.Deadline()
	return patient && ctx.Err() == nil && !script.IsDone(err) && (script.IsTransient(err) || !script.IsReply(err))
}

// popFlowing pops one element for a caller that need not wait.
func (q *Queue) popFlowing(ctx context.Context, joined time.Time, timeout time.Duration) (value string, err error) {
	if timeout == 0 {
		value, err = q.popNow(ctx)
	} else {
		patience := longer(timeout-time.Since(joined), answerGrace)
		if _, patient := ctx.Deadline(); !patient {
			patience = min(patience, script.RetryFor)
		}
		value, err = q.look(ctx, patience)
	}
	if !script.IsDone(err) {
		q.flows.Store(0)
	}
	return value, err
}

// longer returns the sum of two durations, of which the second is not negative, or the first if the sum would overflow.
func longer(d, by time.Duration) time.Duration { return max(d, d+by) }

// wait waits in the queue.
func (q *Queue) wait(ctx context.Context, w *waiter) (string, error) {
	q.join(w)
	var timeUp <-chan time.Time
	if !w.deadline.IsZero() {
		timer := time.NewTimer(longer(time.Until(w.deadline), timerSlack))
		defer timer.Stop()
		timeUp = timer.C
	}
	select {
	case o := <-w.outcome:
		return o.value, o.err
	case <-ctx.Done():
		return q.leave(w, ctx.Err())
	case err := <-w.refused:
		return q.leave(w, err)
	case <-timeUp:
		value, err := q.leave(w, redis.Nil)
		if err == redis.Nil && !w.sawEmpty {
			value, err = q.look(ctx, answerGrace) // like Redis, which looks at the list however short the timeout
			if script.IsWrongType(err) && q.hasWaited(w) {
				err = redis.Nil
			}
		}
		return value, err
	}
}

// hasWaited tells whether the caller's wait has begun, so that it ends as if nothing had become of the list's key.
func (q *Queue) hasWaited(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return w.mayWait
}

// look pops once, and waits for a server that does not answer only that long.
func (q *Queue) look(ctx context.Context, patience time.Duration) (string, error) {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	value, err := q.popNow(soon)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && !script.IsReply(err) {
		err = session.ErrNoAnswer
	}
	return value, err
}

// Waiting returns how many callers wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len()
}

// Blocked reports whether the queue's pipeline blocks, or is about to.
func (q *Queue) Blocked() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.release != ""
}

// Asking reports whether it is being asked if callers may wait.
func (q *Queue) Asking() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.asking
}

// Serving reports whether a goroutine serves callers.
func (q *Queue) Serving() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.serving
}

// newWaiter returns a caller that has come at that time. A timeout of 0 is none.
func newWaiter(ctx context.Context, joined time.Time, timeout time.Duration) *waiter {
	w := &waiter{outcome: make(chan outcome, 1), refused: make(chan error, 1), joined: joined}
	_, w.patient = ctx.Deadline()
	if timeout > 0 {
		w.deadline = joined.Add(timeout)
	}
	return w
}

// join puts a caller into the queue, before those that have come later, and makes sure that it is served.
func (q *Queue) join(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flows.Store(0)
	q.full = q.full && !w.sawEmpty
	before := q.waiting.Back()
	for before != nil && before.Value.(*waiter).joined.After(w.joined) {
		before = before.Prev()
	}
	if before == nil {
		w.place = q.waiting.PushFront(w)
	} else {
		w.place = q.waiting.InsertAfter(w, before)
	}
	if !q.serving {
		q.serving, q.full = true, false
		go q.run(q)
	} else if q.release != "" {
		q.ask(w)
	}
}

// ask has mayWait asked for a caller, unless a round does that: one that only goes on with the wait of others does not mind what has
// become of the list's key. Callers that come while it is asked share the next answer. The lock is held.
func (q *Queue) ask(w *waiter) {
	if q.mayWait == nil || w.asked {
		return
	}
	w.asked = true
	q.unasked = append(q.unasked, w)
	if !q.asking {
		q.asking = true
		go q.askAll()
	}
}

func (q *Queue) askAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.unasked) > 0 {
		waiters := q.unasked
		q.unasked = nil
		q.mu.Unlock()
		err := q.mayWait(context.Background())
		q.mu.Lock()
		for _, w := range waiters {
			if w.mayWait = err == nil; script.IsReply(err) && !script.IsTransient(err) {
				w.refused <- err
			}
		}
	}
	q.asking = false
}

// leave removes a caller that gives up, and returns the reason, unless an element has been taken for it. If the pop in flight
// may bring more elements than the other callers take, leave releases that pop, and the caller waits for its outcome. Callers
// that came after the pop was sent do not count: an element that left the list before they called would reach them out of
// order.
func (q *Queue) leave(w *waiter, reason error) (string, error) {
	q.mu.Lock()
	if !w.served {
		q.waiting.Remove(w.place)
		if w.inFlight {
			q.inFlight--
		}
		if !w.inFlight || q.inFlight >= q.wanted {
			q.mu.Unlock()
			return "", reason
		}
		w.reason = reason
		w.place = q.leaving.PushBack(w)
		q.releaseIdle()
	}
	q.mu.Unlock()

	patience := session.LeaveGrace // one who cancels is in a hurry
	if reason == redis.Nil {
		patience = answerGrace
	}
	grace := time.NewTimer(patience)
	defer grace.Stop()
	select {
	case o := <-w.outcome:
		return o.value, o.err
	case <-grace.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.served {
		o := <-w.outcome
		return o.value, o.err
	}
	q.leaving.Remove(w.place)
	if reason == redis.Nil {
		return "", session.ErrNoAnswer
	}
	return "", reason
}

// releaseIdle releases the pop in flight if it is blocked and may bring more elements than there are callers. The lock is held.
func (q *Queue) releaseIdle() {
	if q.release != "" && q.inFlight < q.wanted {
		go q.source.Release(q.release)
		q.release = ""
	}
}

// next starts a round for all waiting callers, or ends the goroutine if there are none. Before that it yields to runnable callers, mostly
// those that the last round has served.
func (q *Queue) next(armed bool) (round, bool) {
	runtime.Gosched()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 {
		q.serving = false
		q.flow(math.MaxInt64)
		q.rest()
		return round{}, false
	}
	again := armed || q.owes
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		w := e.Value.(*waiter)
		w.inFlight = true
		again = again || w.mayWait
	}
	for e := q.waiting.Front(); again && e != nil; e = e.Next() {
		if w := e.Value.(*waiter); !w.mayWait {
			q.ask(w)
		}
	}
	q.inFlight = q.waiting.Len()
	q.wanted = min(q.inFlight, maxWoken)
	if q.wanted == q.inFlight {
		q.flow(time.Now().Add(flowsFor).UnixNano())
	}
	r := round{ctx: context.Background(), count: q.wanted, again: again, until: q.firstDeadline()}
	if armed {
		q.release = q.source.ReleaseKey()
		r.release, r.slice = q.release, q.source.Slice(r.until)
	}
	return r, true
}

// flow lets callers pop by themselves until that time, if the last round has found an element for each of its own. The lock is held.
func (q *Queue) flow(until int64) {
	if q.full {
		q.flows.Store(until)
	}
}

// rest completes what the goroutine has started, before it ends. The lock is held.
func (q *Queue) rest() {
	if q.owes {
		q.owes = false
		go (&loop{source: q.source, owes: true}).passOn()
	}
	if q.session == nil {
		return
	}
	if q.session.Unknown() {
		_, _ = q.drop(session.Outcome{Status: session.Unknown}, 0)
	} else if q.closed {
		_, _ = q.drop(session.Outcome{Status: session.Refused}, 0)
	} else if q.session.Large() && q.forgetter == nil {
		q.forgetter = time.AfterFunc(idleAfter, q.forget)
	}
}

// close gives the session back once nobody is served any more.
func (q *Queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed = true; !q.serving {
		q.rest()
	}
}

// forget makes the server drop a large result, if nobody waits.
func (q *Queue) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.forgetter = nil; !q.serving && q.session != nil {
		q.session.ForgetLarge()
	}
}

// firstDeadline returns the earliest deadline of the callers, or zero if none has a timeout. The lock is held.
func (q *Queue) firstDeadline() (first time.Time) {
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		deadline := e.Value.(*waiter).deadline
		if first.IsZero() || !deadline.IsZero() && deadline.Before(first) {
			first = deadline
		}
	}
	return first
}

// done ends a round. It delivers the elements to the callers that the pop was sent for, or others who came before it was, then to
// those of them that are leaving, and ends the waits that are over. Elements that no caller takes go back to the list.
func (q *Queue) done(r round, got result) (pause time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	looked := got.armed
	if released := r.release != "" && q.release == ""; released {
		looked = false // it was told to take nothing
	}
	elements := q.deliver(got)
	if q.full = got.err == nil && r.release == "" && len(got.elements) == r.count; !q.full {
		q.flows.Store(0)
	}
	for q.leaving.Len() > 0 {
		w := q.leaving.Remove(q.leaving.Front()).(*waiter)
		if w.reason == redis.Nil && got.unknown {
			w.reason = got.err // rather than look at a list from which an element is on its way
		}
		w.serve("", w.reason)
	}
	q.wanted, q.inFlight, q.release = 0, 0, ""
	q.endWaits(r, got, looked)
	if len(elements) > 0 {
		go q.reclaim(elements)
	}
	return q.failures.pause()
}

// deliver delivers elements and returns those that are left. The lock is held.
func (q *Queue) deliver(got result) (left []string) {
	elements := got.elements
	for len(elements) > 0 && q.inFlight+q.leaving.Len() > 0 {
		from := &q.leaving
		if q.inFlight > 0 {
			from = &q.waiting
			q.inFlight--
		}
		from.Remove(from.Front()).(*waiter).serve(elements[0], got.shortfall)
		elements = elements[1:]
	}
	return elements
}

// endWaits ends the waits that are over after a round. looked reports whether the round found the list empty. The lock is held.
func (q *Queue) endWaits(r round, got result, looked bool) {
	now := time.Now()
	for e := q.waiting.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		timeUp := !w.deadline.IsZero() && !w.deadline.After(now)
		goesOn := got.unknown && !errors.Is(got.err, redis.ErrClosed) && (w.patient || now.Sub(w.joined) < script.RetryFor/2)
		w.sawEmpty = w.sawEmpty || w.inFlight && looked
		w.mayWait = w.mayWait || w.inFlight && got.err == nil && !r.again
		w.inFlight = false
		switch {
		case goesOn:
		case q.failures.endsWait(w.patient, w.joined, now), q.failures.err != nil && timeUp && now.Sub(w.deadline) > serviceGrace:
			w.serve("", q.failures.err)
			q.waiting.Remove(e)
		case timeUp && w.sawEmpty:
			w.serve("", redis.Nil)
			q.waiting.Remove(e)
		}
		e = next
	}
}

// DeliverLate delivers elements that have already left the list to waiting callers, and returns those that are left.
func (q *Queue) DeliverLate(elements []string) (left []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(elements) > 0 && q.waiting.Len() > 0 {
		w := q.waiting.Remove(q.waiting.Front()).(*waiter)
		if w.inFlight {
			q.inFlight--
		}
		w.serve(elements[0], nil)
		elements = elements[1:]
	}
	q.releaseIdle()
	return elements
}
