package shardedlist

import (
	"container/list"
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// BLPop removes the leftmost element and returns it, waiting for one while the list is empty: BLPOP. It waits for as long
// as timeout, in milliseconds at the finest, or for ever if that is 0, and returns redis.Nil when the time is up.
//
// A cancelled ctx ends the wait within a round trip to the server, or half a second if it does not answer, with the error of
// ctx. No element is lost by it: one that was on its way is returned in spite of the cancellation, or given to another caller,
// or put back to the end it came from. A caller whose timeout ends while a pop is in flight hears its outcome.
//
// However many goroutines wait, they use one connection for each end of the list, and are served in the order they came. One
// whose time is up before any pop was sent for it looks once for itself. A goroutine of this package runs while there are any.
// A pop that finds an element costs O(1).
//
// It returns ErrNegativeTimeout, with nothing sent, and otherwise the errors of LPop. A server that cannot serve for the moment,
// or does not answer, is borne with until the deadline of ctx, or for about ten seconds if it has none. Each pop is done once,
// as that of LPop; what one had taken when its reply was lost comes before what the list has.
func (l *ShardedList) BLPop(ctx context.Context, timeout time.Duration) (string, error) {
	value, err := l.left.pop(ctx, timeout)
	return value, l.wrap("blpop", err)
}

// BRPop is BLPop at the right end: BRPOP.
func (l *ShardedList) BRPop(ctx context.Context, timeout time.Duration) (string, error) {
	value, err := l.right.pop(ctx, timeout)
	return value, l.wrap("brpop", err)
}

const (
	// maxWoken bounds the elements that one pop takes for the callers waiting.
	maxWoken = 1024
	// maxSlice bounds how long one BLPOP on the bell lasts, and so how long a wake-up that a crashed client took with it
	// can go unnoticed.
	maxSlice = 2 * time.Second
	// serverFirst is how much later than the server's a caller's own clock strikes: mostly the server's word comes first.
	serverFirst = 5 * time.Millisecond
	// leaveGrace is how long a caller whose context has ended waits to hear whether an element was already taken for it. It matters
	// only when the server does not answer.
	leaveGrace = 500 * time.Millisecond
	// releaseLife is how long the key that releases a blocked consumer stays, should nobody take it.
	releaseLife = 10 * time.Second
)

// waiters are the callers of this process that are blocked on one end of the list. While there are any, one goroutine
// serves them: it pops as many elements as there are callers, hands them out, and when the list is empty blocks on the
// bell. That is one pipeline, BLPOP and the pop behind it, which runs on the server the moment the BLPOP ends.
type waiters struct {
	// Fixed by init.
	list *ShardedList
	end  side

	// Of the goroutine that serves.
	lane    *lane
	expires time.Time // when it is too late to repeat its last operation

	mu      sync.Mutex
	waiting list.List // of *waiter, in the order they came
	leaving list.List // of *waiter: given up, but an element may be on its way to them
	serving bool      // the goroutine runs
	asked   int       // the elements that the pop in flight may bring
	members int       // callers in waiting that it was sent for
	release string    // the key that releases the pop in flight, if it is blocked and not yet released
	tidying bool      // tidy is about to be called
}

// waiter is one blocked caller.
type waiter struct {
	joined   time.Time
	deadline time.Time    // zero: none
	patient  bool         // its context has a deadline, until which it bears with a server that cannot serve for the moment
	outcome  chan outcome // receives once
	settled  bool         // the outcome is sent
	member   bool         // the pop in flight was sent for it too
	sawEmpty bool         // a pop that was sent for it has found the list empty
	reason   error        // why it is leaving
	place    *list.Element
}

type outcome struct {
	value string
	err   error
}

func (w *waiter) settle(value string, err error) {
	w.settled = true
	w.outcome <- outcome{value, err}
}

func (q *waiters) init(l *ShardedList, end side) {
	q.list, q.end, q.lane = l, end, l.newLane()
}

// pop waits for an element.
func (q *waiters) pop(ctx context.Context, timeout time.Duration) (string, error) {
	if timeout < 0 {
		return "", ErrNegativeTimeout
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	_, patient := ctx.Deadline()
	w := q.join(timeout, patient)
	var timeUp <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(max(timeout, timeout+serverFirst)) // the longest there are would overflow
		defer timer.Stop()
		timeUp = timer.C
	}
	select {
	case o := <-w.outcome:
		return o.value, o.err
	case <-ctx.Done():
		return q.leave(ctx, w, ctx.Err())
	case <-timeUp:
		value, err := q.leave(ctx, w, redis.Nil)
		if err == redis.Nil && !w.sawEmpty {
			return q.list.popOne(ctx, q.end) // as Redis, which looks at the list however short the timeout
		}
		return value, err
	}
}

func (q *waiters) join(timeout time.Duration, patient bool) *waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	w := &waiter{outcome: make(chan outcome, 1), joined: time.Now(), patient: patient}
	if timeout > 0 {
		w.deadline = w.joined.Add(timeout)
	}
	w.place = q.waiting.PushBack(w)
	if !q.serving {
		q.serving = true
		go q.serve()
	}
	return w
}

// leave takes a caller out who gives up, and returns the reason, unless an element has been taken for it. Where the pop in
// flight may bring more elements than other callers are there to take, it is released, and the caller hears what it brought.
// Callers that came after the pop was sent do not count: an element that had left the list before they asked would reach
// them out of order.
func (q *waiters) leave(ctx context.Context, w *waiter, reason error) (string, error) {
	q.mu.Lock()
	if !w.settled {
		q.waiting.Remove(w.place)
		if w.member {
			q.members--
		}
		if !w.member || q.members >= q.asked {
			q.mu.Unlock()
			return "", reason
		}
		w.reason = reason
		w.place = q.leaving.PushBack(w)
		q.releaseIdle()
	}
	q.mu.Unlock()

	select {
	case o := <-w.outcome:
		return o.value, o.err
	case <-ctx.Done(): // a caller whose time is up hears the outcome, one who cancels is in a hurry
	}
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case o := <-w.outcome:
		return o.value, o.err
	case <-grace.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.settled {
		o := <-w.outcome
		return o.value, o.err
	}
	q.leaving.Remove(w.place)
	return "", reason
}

// releaseIdle releases the pop in flight, if it is blocked, from asking for more than there are callers to take. The lock is held.
func (q *waiters) releaseIdle() {
	if q.release != "" && q.members < q.asked {
		go q.list.release(q.release)
		q.release = ""
	}
}

// serve runs while callers wait.
func (q *waiters) serve() {
	armed := false // the list was empty, and the next push will ring
	var failures failures
	for {
		round, ok := q.begin(armed)
		if !ok {
			return
		}
		values, repeated, err := q.take(round)
		var shortfall error
		if isDone(err) {
			shortfall, err = err, nil
		}
		armed = err == nil && !repeated && len(values) < round.ask
		pause := failures.count(err)
		if surplus := q.hand(round, values, shortfall, armed, failures); len(surplus) > 0 {
			go q.list.putBack(q.end, surplus)
		}
		time.Sleep(pause)
	}
}

// round is one attempt to pop.
type round struct {
	ask     int           // elements, one a caller
	release string        // the key to watch beside the bell; empty: do not block
	slice   time.Duration // how long to block
}

// tidy has the server forget a large result, if nobody waits.
func (q *waiters) tidy() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.tidying = false; !q.serving {
		q.list.tidy(q.lane)
	}
}

// begin sets up the next round, or reports that nobody waits and the goroutine is to end.
func (q *waiters) begin(armed bool) (round, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 {
		q.serving = false
		if q.lane.unsettled {
			q.changeLane()
		}
		if q.lane.large && !q.tidying {
			q.tidying = true
			time.AfterFunc(idleAfter, q.tidy)
		}
		return round{}, false
	}
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		e.Value.(*waiter).member = true
	}
	q.members = q.waiting.Len()
	q.asked = min(q.members, maxWoken)
	if !armed {
		return round{ask: q.asked}, true
	}
	q.release = q.list.keys.release(uuid.NewString())
	return round{q.asked, q.release, q.slice()}, true
}

// slice is how long the next BLPOP may last, given the first caller's time is to be kept.
func (q *waiters) slice() time.Duration {
	var first time.Time
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		deadline := e.Value.(*waiter).deadline
		if first.IsZero() || !deadline.IsZero() && deadline.Before(first) {
			first = deadline
		}
	}
	return q.list.sliceUntil(first)
}

// sliceUntil is how long a BLPOP on a bell may last: until the deadline, if there is one, and well within the time after which
// go-redis takes the connection for dead.
func (l *ShardedList) sliceUntil(deadline time.Time) time.Duration {
	slice := l.maxSlice
	if timeout := readTimeout(l.rdb) - l.replicaTimeout; timeout > 0 {
		slice = min(slice, timeout/2)
	}
	if !deadline.IsZero() {
		slice = min(slice, time.Until(deadline))
	}
	return max(slice, time.Millisecond) // BLPOP takes 0 for ever
}

func readTimeout(rdb redis.UniversalClient) time.Duration {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb.Options().ReadTimeout
	case *redis.ClusterClient:
		return rdb.Options().ReadTimeout
	case *redis.Ring:
		return rdb.Options().ReadTimeout
	}
	return time.Second
}

// take pops, after blocking if the round says so. It can return both elements and an error. Elements that an operation had
// popped before, whose reply was lost, are marked as repeated. A round whose outcome is not known is gone on with in the next one,
// as long as the server is sure to remember it: what it took stands before what there is to take.
func (q *waiters) take(r round) (values []string, repeated bool, err error) {
	if q.lane.unsettled && time.Now().After(q.expires) {
		q.changeLane()
	}
	n := q.lane
	if !n.unsettled {
		n.number++
		q.expires = time.Now().Add(n.life / 2)
	}
	ctx := context.Background()
	var reply any
	if r.release == "" {
		reply, err = q.repeat(r.ask)
	} else if reply, err = q.list.block(ctx, []string{q.list.keys.bell}, r.release, r.slice, n,
		q.list.popOperation(q.end, r.ask, waitWoken, r.release)); reply == nil && !isReply(err) {
		n.learn(true, err)
		reply, err = q.repeat(r.ask)
	}
	if reply != nil {
		values, repeated = elements(reply)
		n.large = n.large || isLarge(reply)
	}
	return values, repeated, err
}

// repeat sends the pop in flight until its outcome is known or it is time to tell those who have waited long enough.
func (q *waiters) repeat(ask int) (any, error) {
	giveUp := deadline(context.Background())
	if giveUp.After(q.expires) {
		giveUp = q.expires
	}
	return q.list.repeat(context.Background(), giveUp, q.lane, q.list.popOperation(q.end, ask, waitFirst, ""))
}

// changeLane leaves a pop whose outcome is not known: what it took goes back to its end.
func (q *waiters) changeLane() {
	go q.list.settleInBackground(q.lane, q.end)
	q.lane = q.list.newLane()
}

// block sends the lane's operation behind a BLPOP on the bells and on the key that releases it, in one pipeline. They are not
// repeated by go-redis, which repeats a whole pipeline if the first command fails, though the second may have acted.
func (l *ShardedList) block(ctx context.Context, bells []string, release string, slice time.Duration, n *lane, o operation) (any, error) {
	n.address(o)
	args := make([]any, 0, 3+len(bells))
	args = append(args, "blpop")
	for _, bell := range bells {
		args = append(args, bell)
	}
	args = append(args, release, strconv.FormatFloat(slice.Seconds(), 'f', 3, 64))
	wait := own{redis.NewCmd(ctx, args...), true}
	then := own{redis.NewCmd(ctx, o.args...), true}

	err := l.behind(ctx, wait, then)
	reply := then.Val()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = l.once(ctx, o)
	}
	if !isDone(err) {
		return nil, err // and not what there may be of a reply
	}
	if waitErr := wait.Err(); err == nil && waitErr != redis.Nil {
		err = waitErr
	}
	return reply, err
}

// behind sends a command behind another, and returns its error.
func (l *ShardedList) behind(ctx context.Context, wait, then own) error {
	if l.replicas > 0 {
		return l.replicate(ctx, then, wait)
	}
	pipe := l.rdb.Pipeline()
	_ = pipe.Process(ctx, wait)
	_ = pipe.Process(ctx, then)
	_, _ = pipe.Exec(ctx) // each command has its own error
	return then.Err()
}

// release ends a blocked BLPOP from outside. If it fails, the BLPOP ends with its slice.
func (l *ShardedList) release(key string) {
	call := scriptCall(releaseScript, []string{key}, []any{releaseLife.Milliseconds()})
	_, _ = l.evaluate(context.Background(), releaseScript, call, false)
}

// hand ends a round, which brought elements, found the list empty, or failed. It gives the elements to those whom the pop was sent
// for, who are the first in the queue, then to those of them who are leaving, and settles all whose wait is over. It returns
// elements that no caller is there to take.
func (q *waiters) hand(r round, values []string, shortfall error, foundEmpty bool, f failures) (surplus []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if released := r.release != "" && q.release == ""; released {
		foundEmpty = false // it did not look
	}
	for len(values) > 0 && q.members+q.leaving.Len() > 0 {
		from := &q.leaving
		if q.members > 0 {
			from = &q.waiting
			q.members--
		}
		from.Remove(from.Front()).(*waiter).settle(values[0], shortfall)
		values = values[1:]
	}
	for q.leaving.Len() > 0 {
		w := q.leaving.Remove(q.leaving.Front()).(*waiter)
		if w.reason == redis.Nil && q.lane.unsettled {
			w.reason = typed(f.err) // rather than look at a list from which an element is on its way
		}
		w.settle("", w.reason)
	}
	q.asked, q.members, q.release = 0, 0, ""

	now := time.Now()
	for e := q.waiting.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		goesOn := q.lane.unsettled && (w.patient || now.Sub(w.joined) < retryFor/2)
		w.sawEmpty = w.sawEmpty || w.member && foundEmpty
		w.member = false
		switch {
		case goesOn:
		case f.endsWait(w.patient, w.joined, now):
			w.settle("", typed(f.err))
			q.waiting.Remove(e)
		case w.sawEmpty && !w.deadline.IsZero() && !w.deadline.After(now):
			w.settle("", redis.Nil)
			q.waiting.Remove(e)
		}
		e = next
	}
	return values
}

// offer gives elements that have left the list to callers who wait, and returns what is left.
func (q *waiters) offer(values []string) []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(values) > 0 && q.waiting.Len() > 0 {
		w := q.waiting.Remove(q.waiting.Front()).(*waiter)
		if w.member {
			q.members--
		}
		w.settle(values[0], nil)
		values = values[1:]
	}
	q.releaseIdle()
	return values
}

// failures decides what becomes of rounds that fail: waiting callers should not hear of what will pass.
type failures struct {
	err    error
	number int
	since  time.Time
}

// count notes the result of a round and returns how long to pause before the next one.
func (f *failures) count(err error) (pause time.Duration) {
	if err == nil {
		*f = failures{}
		return 0
	}
	if f.number == 0 {
		f.since = time.Now()
	}
	f.number++
	f.err = err
	return backoff(f.number)
}

// endsWait tells whether a caller is to get the error: at once if it is final, and if it may pass, when it has lasted for
// longer than the caller bears with it. A patient one, whose context has a deadline, does so until then.
func (f *failures) endsWait(patient bool, joined, now time.Time) bool {
	switch {
	case f.err == nil:
		return false
	case !isPassing(f.err):
		return true
	case patient:
		return false // the context will
	}
	return now.Sub(f.since) > retryFor && now.Sub(joined) > retryFor
}
