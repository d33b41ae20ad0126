// Package batch implements group commit: callers of one kind that find an operation in flight share the next one.
//
// A caller that finds an idle session leads its own batch, which its goroutine sends at once. Callers that find all sessions
// busy queue. When a session becomes idle, they form the next batch, and the first of them sends one operation for all.
//
// The package knows who waits, who leads, and whose time is up. It does not know what an operation does.
package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

const (
	// nearSessions is the number of operations of one kind that may be in flight at once: the client prepares one while the server
	// runs the other. This pays off from a queue of minQueue callers; below that, two small batches cost more than one. If the
	// server is far away, the round trip counts, not the batches: there farSessions may be in flight, from the first caller on.
	nearSessions = 2
	minQueue     = 8
	farSessions  = 4
	// maxCount and maxBytes limit the requests that share an operation. A single request may exceed them.
	maxCount = 1024
	maxBytes = 1 << 20
	// idleAfter is how long a session must be idle before the server is asked to drop a large result: not between any two
	// operations of a busy one.
	idleAfter = 100 * time.Millisecond
	// watchSlack lets the leader of a batch, who has the same time, be the one to find that it is up.
	watchSlack = 100 * time.Millisecond
)

// Kind describes one kind of operation.
type Kind struct {
	// Join combines the requests into one operation. Without requests it returns a no-op.
	Join func(requests []*Request) session.Operation
	// Share gives each request whose caller is still there its part of the reply, and returns the elements that no caller
	// takes.
	Share func(requests []*Request, reply any) (surplus []string)
	// Orders are those of the ends at which operations add elements. The Batcher keeps them in common with operations that do not share,
	// and if there are SharedBeside, with those of other Batchers.
	Orders       []*session.Order
	SharedBeside bool
	// Reclaim puts back elements that no caller takes. A kind without it changes a list, and its callers must learn that an
	// outcome is unknown.
	Reclaim func(surplus []string)
}

// ready waits until a request may not overtake what other operations have left behind.
func (k *Kind) ready(ctx context.Context, until time.Time) error {
	if k.SharedBeside {
		return session.Ready(ctx, k.Orders, until)
	}
	for _, order := range k.Orders {
		if err := order.Alone.Wait(ctx, until); err != nil {
			return err
		}
	}
	return nil
}

// held returns the gates that are closed while it is not known what became of an operation of this kind.
func (k *Kind) held() (gates []*session.Gate) {
	for _, order := range k.Orders {
		if k.SharedBeside {
			gates = append(gates, &order.Alone)
		} else {
			gates = append(gates, &order.Shared)
		}
	}
	return gates
}

// Batcher combines the requests of one kind of operation.
type Batcher struct {
	// Fixed by New.
	kind *Kind
	pool *session.Pool

	unanswered atomic.Bool // the server has not answered the last operation

	mu        sync.Mutex
	queue     []*Request // in the order they came
	contended bool       // the last batch had company
	forming   *batch     // the batch that takes the queue along when it begins
	streams   int        // that have been made
	idle      []*stream
	latency   latency
	active    []*batch    // that have a session
	watchdog  *time.Timer // runs expire; nil if no caller has to be watched
	abandoned int         // streams with an operation that a caller has given up: nothing may overtake it
	forgetter *time.Timer // runs forget; nil unless it is about to
}

// stream is a session, and what the batcher knows of it.
type stream struct {
	*session.Session
	batch     batch // the current one
	abandoned bool  // a caller has given up its operation; guarded by Batcher.mu, as is holds
	holds     bool  // and so operations that callers do not share are held back
}

// batch is the requests that one operation carries, in the order they came.
type batch struct {
	stream    *stream
	requests  []*Request
	count     int // of their values, or of the elements they want
	bytes     int
	contended bool              // others are likely to come along
	leader    *Request          // its caller's goroutine sends the batch
	numbered  bool              // the operation has its sequence number
	took      time.Duration     // until the outcome was known
	op        session.Operation // the requests as one
}

// New returns a Batcher with sessions of the pool.
func New(pool *session.Pool, kind *Kind) *Batcher {
	return &Batcher{kind: kind, pool: pool}
}

// Do runs one caller's request and returns its error. With ErrNotReplicated there is a result too.
func (c *Batcher) Do(ctx context.Context, r *Request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.giveUp = script.Deadline(ctx)
	if err := c.kind.ready(ctx, r.giveUp); err != nil {
		return err
	}
	c.mu.Lock()
	c.enqueue(r)
	c.dispatch()
	if _, hasDeadline := ctx.Deadline(); !hasDeadline && (r.batch == nil || r.batch.leader != r) {
		r.watched = true
		c.watch(r.giveUp)
	}
	c.mu.Unlock()
	select {
	case b := <-r.ready:
		c.leadFor(ctx, r, b)
	case <-ctx.Done():
		c.leave(ctx, r)
	}
	return r.err
}

// enqueue puts a request at the end of the queue, or behind the others that are retried. The lock is held.
func (c *Batcher) enqueue(r *Request) {
	at := -1
	if r.Retried {
		at = slices.IndexFunc(c.queue, func(other *Request) bool { return !other.Retried })
	}
	if at < 0 {
		at = len(c.queue)
	}
	c.queue = slices.Insert(c.queue, at, r)
}

// leadFor sends the batch of a caller, if there is one. While the server answers, the caller's own goroutine does: to wake another one
// would cost a lone caller a quarter of its time. Once an answer has failed to come, or if the caller hurries, another goroutine does,
// so that the caller returns when its ctx ends.
func (c *Batcher) leadFor(ctx context.Context, r *Request, b *batch) {
	if b == nil || ctx.Done() == nil || !r.Hurries && !c.unanswered.Load() {
		c.lead(ctx, b)
		return
	}
	sending := ctx
	if r.Hurries { // the caller waits for the outcome as long as it may
		var stop context.CancelFunc
		sending, stop = context.WithCancel(context.WithoutCancel(ctx))
		defer stop()
	}
	go func() {
		c.lead(sending, b)
		r.ready <- nil
	}()
	select {
	case <-r.ready:
	case <-ctx.Done():
		c.leave(ctx, r)
	}
}

// dispatch gives an idle session to the first caller in the queue, which then leads a batch. The lock is held.
func (c *Batcher) dispatch() {
	for len(c.queue) > 0 && c.mayStart() {
		s := c.takeIdle()
		b := &s.batch
		*b = batch{stream: s, requests: b.requests[:0], leader: c.queue[0], contended: c.contended}
		c.fill(b, 1)
		c.forming = b
		c.active = append(c.active, b)
		b.leader.ready <- b
	}
}

// takeIdle returns an idle stream, one that has to be resolved first, or else the last that was used, or a new one.
func (c *Batcher) takeIdle() *stream {
	next := slices.IndexFunc(c.idle, func(s *stream) bool { return s.Unknown() })
	if next < 0 {
		next = len(c.idle) - 1
	}
	if next < 0 {
		c.streams++
		return &stream{Session: c.pool.New()}
	}
	s := c.idle[next]
	c.idle = slices.Delete(c.idle, next, next+1)
	return s
}

// mayStart reports whether another batch may start.
func (c *Batcher) mayStart() bool {
	busy := c.streams - len(c.idle)
	switch {
	case c.forming != nil:
		return false
	case busy == 0:
		return true
	case c.abandoned > 0:
		return false
	case c.latency.isFar():
		return busy < farSessions
	}
	return busy < nearSessions && len(c.queue) >= minQueue
}

// fill moves up to limit requests from the queue to a batch, as many as fit. The lock is held.
func (c *Batcher) fill(b *batch, limit int) {
	size := 0
	for size < min(limit, len(c.queue)) {
		r := c.queue[size]
		if len(b.requests) > 0 && !Fits(b.count+r.Count, b.bytes+r.Bytes) {
			break
		}
		r.batch = b
		b.requests = append(b.requests, r)
		b.count, b.bytes = b.count+r.Count, b.bytes+r.Bytes
		size++
	}
	c.queue = slices.Delete(c.queue, 0, size)
}

// Fits reports whether requests with that many values or elements, and bytes, may share an operation.
func Fits(count, bytes int) bool { return count <= maxCount && bytes <= maxBytes }

// begin closes a batch: it takes the requests that are in the queue by now. Before that it yields to runnable callers, mostly
// those that the last batch has just served.
func (c *Batcher) begin(b *batch) {
	if b.contended {
		runtime.Gosched()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.withdraw(b)
	if c.abandoned == 0 {
		c.fill(b, len(c.queue))
	}
	b.op = c.kind.Join(b.requests) // now: a caller that leaves may reuse its slice
	b.op.Calls = len(b.requests)
	b.stream.Begin()
	b.numbered = true
	c.formed(b)
	c.dispatch() // what did not fit into the batch
}

// lead sends a batch. It does nothing if b is nil, which means that the caller's request is done.
func (c *Batcher) lead(ctx context.Context, b *batch) {
	if b == nil {
		return
	}
	start := time.Now()
	outcome := c.send(ctx, b)
	b.took = time.Since(start)
	failed := outcome.Status != session.Done
	if unknown := b.stream.Unknown(); unknown != c.unanswered.Load() {
		c.unanswered.Store(unknown)
	}
	if failed && (b.stream.Unknown() || script.IsTransient(outcome.Err) || ctx.Err() != nil) {
		c.passOn(ctx, b, outcome.Err)
		return
	}
	if surplus := c.finish(b, outcome); len(surplus) > 0 {
		go c.kind.Reclaim(surplus)
	}
}

func (c *Batcher) send(ctx context.Context, b *batch) session.Outcome {
	if !b.numbered {
		if err := ctx.Err(); err != nil {
			return session.Outcome{Status: session.Refused, Err: err}
		}
		if b.stream.Unknown() {
			if time.Now().After(b.leader.giveUp) {
				return session.Outcome{Status: session.Refused, Err: session.ErrNoAnswer} // earlier operations are still unresolved
			}
			if outcome := c.resolve(ctx, b.leader.giveUp, b.stream); outcome.Status == session.Unknown {
				return outcome
			}
		}
		c.begin(b)
	}
	return b.stream.Do(ctx, b.leader.giveUp, b.op)
}

// resolve finds the outcome of a stream's last operation. Elements that it took go back first, if the server takes them in time.
func (c *Batcher) resolve(ctx context.Context, until time.Time, s *stream) session.Outcome {
	outcome := s.Resolve(ctx, until)
	reclaimed := make(chan struct{})
	go func() {
		outcome.Reclaim()
		close(reclaimed)
	}()
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-reclaimed:
	case <-ctx.Done():
	case <-timer.C:
	}
	return outcome
}

// finish frees the session of a batch, and wakes its callers. It does so without the lock, because every woken caller takes it
// next. It returns elements that no caller takes.
func (c *Batcher) finish(b *batch, outcome session.Outcome) (surplus []string) {
	c.mu.Lock()
	if outcome.Status == session.Done {
		c.latency.observe(b.took, b.count, b.bytes)
		surplus = c.kind.Share(b.requests, outcome.Reply)
	}
	size := len(b.requests)
	waiting := b.requests[:0]
	for _, r := range b.requests {
		if r.gone {
			continue
		}
		if r.err, r.batch = outcome.Err, nil; r != b.leader {
			waiting = append(waiting, r)
		}
	}
	if len(waiting) > 0 {
		c.mu.Unlock()
		for _, r := range waiting {
			r.ready <- nil
		}
		c.mu.Lock()
	}
	c.contended = size+len(c.queue) > 1
	c.retire(b)
	c.mu.Unlock()
	return surplus
}

// forget makes the server drop the large results of idle sessions. Busy sessions are handled when they become idle.
func (c *Batcher) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forgetter = nil
	for _, s := range c.idle {
		s.ForgetLarge()
	}
}

// abandon records that the caller of a request in flight has gone.
func (c *Batcher) abandon(r *Request) {
	r.gone = true
	if s := r.batch.stream; !s.abandoned {
		s.abandoned = true
		c.abandoned++
		s.holds = true
		for _, gate := range c.kind.held() {
			gate.Close()
		}
	}
}

// clear notes that the stream's last operation is resolved, or was never sent. The lock is held.
func (c *Batcher) clear(s *stream) {
	if !s.abandoned {
		return
	}
	s.abandoned = false
	c.abandoned--
	c.letGo(s)
}

// letGo holds back no other operations any longer. The lock is held.
func (c *Batcher) letGo(s *stream) {
	if s.holds {
		s.holds = false
		for _, gate := range c.kind.held() {
			gate.Open()
		}
	}
}

// formed records that the batch no longer takes requests from the queue.
func (c *Batcher) formed(b *batch) {
	if c.forming == b {
		c.forming = nil
	}
}

// retire frees the session of a finished batch.
func (c *Batcher) retire(b *batch) {
	c.formed(b)
	if !b.stream.Unknown() {
		c.clear(b.stream)
	}
	if b.stream.Large() && c.forgetter == nil {
		c.forgetter = time.AfterFunc(idleAfter, c.forget)
	}
	c.idle = append(c.idle, b.stream)
	c.active = slices.DeleteFunc(c.active, func(other *batch) bool { return other == b })
	b.op = session.Operation{} // an idle stream does not keep the values of its last batch
	clear(b.requests)
	c.dispatch()
}

// passOn is called by a leader whose time is up before the outcome of the batch is known. The lead passes to a caller with time
// left, while the record still exists. If there is none, the outcome is resolved in the background.
func (c *Batcher) passOn(ctx context.Context, b *batch, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.formed(b)
	now, late := time.Now(), b.leader
	unknown := b.stream.Unknown()
	theirs := err // of those whose time is up, too
	if errors.Is(err, context.Canceled) {
		theirs = context.DeadlineExceeded
	}
	if b.numbered && unknown {
		if err = c.pool.Lost(err, c.kind.Reclaim != nil); c.kind.Reclaim == nil {
			theirs = fmt.Errorf("%w: %w", session.ErrOutcomeUnknown, theirs)
		}
	}
	repeatable := !b.numbered || now.Before(b.stream.Expires())
	for _, r := range b.requests {
		if r.gone || r != late && now.Before(r.giveUp) && repeatable {
			continue
		}
		c.abandon(r)
		if r.err = err; r != late {
			r.err = theirs
			r.ready <- nil
		}
	}
	if !unknown { // it was never sent
		c.withdraw(b)
	}
	for _, r := range b.requests {
		if !r.gone {
			b.leader = r
			r.ready <- b
			return
		}
	}
	if !unknown {
		c.retire(b)
		return
	}
	go c.resolveAbandoned(context.WithoutCancel(ctx), b)
}

// withdraw removes the requests of callers that have gone from a batch that was not sent. The lock is held.
func (c *Batcher) withdraw(b *batch) {
	b.numbered, b.count, b.bytes = false, 0, 0
	b.requests = slices.DeleteFunc(b.requests, func(r *Request) bool { return r.gone })
	for _, r := range b.requests {
		b.count, b.bytes = b.count+r.Count, b.bytes+r.Bytes
	}
	c.clear(b.stream)
}

// resolveAbandoned resolves the outcome of a batch that has no callers left. If the server does not answer, the next leader of
// the session tries again.
func (c *Batcher) resolveAbandoned(ctx context.Context, b *batch) {
	for start := time.Now(); b.stream.Unknown() && time.Since(start) < session.ResolveFor; {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		outcome := c.resolve(ctx, time.Now().Add(time.Second), b.stream)
		cancel()
		if errors.Is(outcome.Err, redis.ErrClosed) {
			break
		}
		c.expire()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.letGo(b.stream) // those that wait for it could not resolve it
	c.retire(b)
}

// watch makes sure that callers hear when their time is up, also those whose leader has more time, or waits for a server that does not
// answer. The lock is held.
func (c *Batcher) watch(deadline time.Time) {
	if c.watchdog == nil {
		c.watchdog = time.AfterFunc(time.Until(deadline)+watchSlack, c.expire)
	}
}

// expire sends away the callers whose time is up, but those who lead a batch, who find out by themselves.
func (c *Batcher) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	var next time.Time
	late := func(r *Request) bool {
		if !r.watched {
			return false
		}
		if now.After(r.giveUp) {
			return true
		}
		if next.IsZero() || r.giveUp.Before(next) {
			next = r.giveUp
		}
		return false
	}
	c.queue = slices.DeleteFunc(c.queue, func(r *Request) bool {
		isLate := late(r)
		if isLate {
			r.err = session.ErrNoAnswer
			r.ready <- nil
		}
		return isLate
	})
	for _, b := range c.active {
		for _, r := range b.requests {
			if r != b.leader && r.batch == b && !r.gone && late(r) {
				c.abandon(r)
				if r.err = session.ErrNoAnswer; b.numbered {
					r.err = c.pool.Lost(session.ErrNoAnswer, c.kind.Reclaim != nil)
				}
				r.ready <- nil
			}
		}
	}
	if c.watchdog != nil {
		c.watchdog.Stop()
		c.watchdog = nil
	}
	if !next.IsZero() {
		c.watch(next)
	}
}

// leave is called when the ctx of a waiting caller ends. A request in the queue is removed. For a request in a batch, leave
// waits about a round trip for the outcome, so that a caller's own retry does not duplicate it. Then it leaves the request
// there: its values may be pushed, and elements popped for it go to other callers or back to the list.
func (c *Batcher) leave(ctx context.Context, r *Request) {
	c.mu.Lock()
	if i := slices.Index(c.queue, r); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		r.err = ctx.Err()
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()

	grace := time.NewTimer(session.LeaveGrace)
	defer grace.Stop()
	select {
	case b := <-r.ready:
		c.lead(ctx, b)
		return
	case <-grace.C:
	}
	c.mu.Lock()
	if r.gone { // the time of its batch was up
		c.mu.Unlock()
		return
	}
	if r.batch == nil { // its request was just done, and it is about to hear so
		c.mu.Unlock()
		<-r.ready
		return
	}
	select {
	case b := <-r.ready: // it has just been told to lead, or that it is done
		c.mu.Unlock()
		c.lead(ctx, b)
	default:
		c.abandon(r)
		r.err = c.pool.Lost(ctx.Err(), c.kind.Reclaim != nil)
		c.mu.Unlock()
	}
}
