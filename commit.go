package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lanesPerKind is how many operations of one kind may be in flight at once: while the server works on one, the client can
	// prepare the other. That pays from a queue of minQueue on; below, two small batches cost more than one.
	lanesPerKind = 2
	minQueue     = 8
	// maxJoined and maxJoinedBytes bound what callers join into one operation. What one caller brings may be more.
	maxJoined      = 1024
	maxJoinedBytes = 1 << 20
)

// commits is where the callers of one kind of operation meet: pushes or pops, at one end of a list. A caller that finds a free
// lane is a batch of its own and is sent at once, by its own goroutine. Callers that find all lanes busy queue; when one
// becomes free, they are the next batch, and the first of them sends one operation for all.
type commits struct {
	// Fixed by init.
	list *ShardedList
	end  side
	kind kind

	mu      sync.Mutex
	queue   []*request // in the order they came
	crowded bool       // the last batch was not a lone caller's
	forming *batch     // with which the queue is about to go
	tidying bool       // tidy is about to be called
	free    []*lane
	loose   int // lanes with an operation that a caller has given up: nothing may overtake it
}

// kind is what differs between pushes and pops.
type kind struct {
	// join makes one operation of the requests, and of none an operation that changes nothing.
	join func(l *ShardedList, end side, requests []*request) operation
	// share gives each request whose caller is there its part of the reply, and returns elements popped that are nobody's.
	share func(requests []*request, reply any) (surplus []string)
	// lost is the error, beside the cause, of a caller who gives up while its request is in flight.
	lost error
}

// errNoAnswer is the error of a caller whose turn came when its time was up.
var errNoAnswer = fmt.Errorf("the server has not answered: %w", context.DeadlineExceeded)

// request is what one caller wants.
type request struct {
	values []any     // to push
	bytes  int       // their size
	count  int       // values to push, or elements to pop
	giveUp time.Time // when the caller has waited long enough for a server that does not answer

	length int64    // the result of a push
	popped []string // the result of a pop
	err    error

	batch *batch      // that carries it, nil once it is done; guarded by commits.mu, as is gone
	gone  bool        // the caller has given up
	turn  chan *batch // brings the batch that the caller is to send, or nil when its request is done
}

var requests = sync.Pool{New: func() any { return &request{turn: make(chan *batch, 1)} }}

// newRequest returns a request to be filled in. Once it is done, its caller may put it back into the pool.
func newRequest() *request {
	r := requests.Get().(*request)
	*r = request{turn: r.turn}
	return r
}

// batch is the requests that one operation carries, in the order they came.
type batch struct {
	lane     *lane
	requests []*request
	count    int // of their values, or of the elements they want
	bytes    int
	joined   operation // the requests as one
	crowd    bool      // others are likely to come along
	leader   *request  // its caller's goroutine sends the batch
	expires  time.Time // when it is too late to repeat it; zero until it has a number
}

func (c *commits) init(l *ShardedList, end side, k kind) {
	c.list, c.end, c.kind = l, end, k
	for range lanesPerKind {
		c.free = append(c.free, l.newLane())
	}
}

// do carries out one caller's request.
func (c *commits) do(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.giveUp = deadline(ctx)
	c.mu.Lock()
	c.queue = append(c.queue, r)
	c.dispatch()
	c.mu.Unlock()
	select {
	case b := <-r.turn:
		c.lead(ctx, b)
	case <-ctx.Done():
		c.leave(ctx, r)
	}
	return r.err
}

// dispatch gives free lanes to the first caller in the queue, who is to lead a batch. The lock is held.
func (c *commits) dispatch() {
	for len(c.queue) > 0 && c.mayBegin() {
		next := slices.IndexFunc(c.free, func(n *lane) bool { return n.unsettled }) // that comes first
		if next < 0 {
			next = len(c.free) - 1
		}
		b := &batch{lane: c.free[next], leader: c.queue[0], crowd: c.crowded}
		c.free = slices.Delete(c.free, next, next+1)
		c.fill(b, 1)
		c.forming = b
		b.leader.turn <- b
	}
}

// mayBegin tells whether there is a lane for another batch.
func (c *commits) mayBegin() bool {
	if c.forming != nil {
		return false
	}
	if len(c.free) == lanesPerKind {
		return true
	}
	return len(c.free) > 0 && len(c.queue) >= minQueue && c.loose == 0
}

// fill moves up to limit requests from the queue to a batch, as many as may be joined. The lock is held.
func (c *commits) fill(b *batch, limit int) {
	size := 0
	for size < min(limit, len(c.queue)) {
		r := c.queue[size]
		if len(b.requests) > 0 && (b.count+r.count > maxJoined || b.bytes+r.bytes > maxJoinedBytes) {
			break
		}
		r.batch = b
		b.requests = append(b.requests, r)
		b.count, b.bytes = b.count+r.count, b.bytes+r.bytes
		size++
	}
	c.queue = slices.Delete(c.queue, 0, size)
}

// begin closes a batch: whoever is in the queue by now comes along. Before, callers that are ready to run, mostly those whom the
// last batch has just served, get the chance to be.
func (c *commits) begin(b *batch) {
	if b.crowd {
		runtime.Gosched()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recall(b)
	if c.loose == 0 {
		c.fill(b, len(c.queue))
	}
	b.joined = c.kind.join(c.list, c.end, b.requests) // now: a caller that leaves may reuse its slice
	b.lane.number++
	b.expires = time.Now().Add(b.lane.life / 2)
	c.formed(b)
	c.dispatch() // what was too much for one batch
}

// lead sends a batch, if there is one: a caller whose request is done gets none.
func (c *commits) lead(ctx context.Context, b *batch) {
	if b == nil {
		return
	}
	reply, err := c.send(ctx, b)
	if !isDone(err) && (b.lane.unsettled || isPassing(err) || ctx.Err() != nil) {
		c.handOver(ctx, b, err)
		return
	}
	if surplus := c.finish(b, reply, err); len(surplus) > 0 {
		go c.list.putBack(c.end, surplus)
	}
}

func (c *commits) send(ctx context.Context, b *batch) (any, error) {
	giveUp := b.leader.giveUp
	if b.expires.IsZero() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if b.lane.unsettled && time.Now().After(giveUp) {
			return nil, errNoAnswer // to those before, of whom there may be many
		}
		if err := c.list.settle(ctx, b.lane, c.end, c.kind.join(c.list, c.end, nil)); err != nil {
			return nil, err
		}
		c.begin(b)
	}
	if giveUp.After(b.expires) {
		giveUp = b.expires
	}
	return c.list.repeat(ctx, giveUp, b.lane, b.joined)
}

// finish frees the lane of a batch, and tells the callers that their requests are done: once the lock is free, for which all
// that are woken are about to come. It returns elements that no caller is there to take.
func (c *commits) finish(b *batch, reply any, err error) (surplus []string) {
	c.mu.Lock()
	if isDone(err) {
		surplus = c.kind.share(b.requests, reply)
	}
	b.lane.large = b.lane.large || isLarge(reply)
	size := len(b.requests)
	waiting := b.requests[:0]
	for _, r := range b.requests {
		if r.gone {
			continue
		}
		if r.err, r.batch = err, nil; r != b.leader {
			waiting = append(waiting, r)
		}
	}
	if len(waiting) > 0 {
		c.mu.Unlock()
		for _, r := range waiting {
			r.turn <- nil
		}
		c.mu.Lock()
	}
	c.crowded = size+len(c.queue) > 1
	c.retire(b)
	c.mu.Unlock()
	return surplus
}

// tidy has the server forget the large results of lanes that are idle. The others' turn comes when they are free.
func (c *commits) tidy() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tidying = false
	for _, n := range c.free {
		c.list.tidy(n)
	}
}

// abandon notes that the caller of a request in flight has gone.
func (c *commits) abandon(r *request) {
	r.gone = true
	if n := r.batch.lane; !n.loose {
		n.loose = true
		c.loose++
	}
}

// tighten notes that the lane's last operation is settled, or was never sent.
func (c *commits) tighten(n *lane) {
	if n.loose {
		n.loose = false
		c.loose--
	}
}

// formed notes that the queue is not to wait for that batch.
func (c *commits) formed(b *batch) {
	if c.forming == b {
		c.forming = nil
	}
}

// retire frees the lane of a batch that is over.
func (c *commits) retire(b *batch) {
	c.formed(b)
	if !b.lane.unsettled {
		c.tighten(b.lane)
	}
	if b.lane.large && !c.tidying {
		c.tidying = true
		time.AfterFunc(idleAfter, c.tidy)
	}
	c.free = append(c.free, b.lane)
	c.dispatch()
}

// handOver is for a leader whose time is up before the batch's outcome is known: another caller of the batch goes on, who has
// time left, and as long as the server is sure to remember the operation. If there is none, an outcome that matters is asked for
// in the background.
func (c *commits) handOver(ctx context.Context, b *batch, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.formed(b)
	now, late := time.Now(), b.leader
	if !b.expires.IsZero() && b.lane.unsettled && c.kind.lost != nil {
		err = fmt.Errorf("%w: %w", c.kind.lost, err)
	}
	for _, r := range b.requests {
		if r.gone || r != late && now.Before(r.giveUp) && (b.expires.IsZero() || now.Before(b.expires)) {
			continue
		}
		c.abandon(r)
		if r.err = err; r != late {
			r.turn <- nil
		}
	}
	if !b.lane.unsettled { // it was never sent
		c.recall(b)
	}
	for _, r := range b.requests {
		if !r.gone {
			b.leader = r
			r.turn <- b
			return
		}
	}
	if !b.lane.unsettled {
		c.retire(b)
		return
	}
	go c.settle(context.WithoutCancel(ctx), b)
}

// recall takes the requests of callers who have gone out of a batch that was not sent. The lock is held.
func (c *commits) recall(b *batch) {
	b.expires, b.count, b.bytes = time.Time{}, 0, 0
	b.requests = slices.DeleteFunc(b.requests, func(r *request) bool { return r.gone })
	for _, r := range b.requests {
		b.count, b.bytes = b.count+r.count, b.bytes+r.bytes
	}
	c.tighten(b.lane)
}

// settle asks for the outcome of a batch that has no callers left. If it is not to be had, the lane's next leader asks again.
func (c *commits) settle(ctx context.Context, b *batch) {
	for start := time.Now(); b.lane.unsettled && time.Since(start) < settleFor; {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		err := c.list.settle(ctx, b.lane, c.end, c.kind.join(c.list, c.end, nil))
		cancel()
		if errors.Is(err, redis.ErrClosed) {
			break
		}
		c.expire()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(b)
}

// expire sends away the callers in the queue who have waited long enough.
func (c *commits) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.queue = slices.DeleteFunc(c.queue, func(r *request) bool {
		late := now.After(r.giveUp)
		if late {
			r.err = errNoAnswer
			r.turn <- nil
		}
		return late
	})
}

// leave is for a caller whose ctx has ended while it waited. In the queue, it takes its request with it. In a batch, it waits a
// moment for the outcome, as long as a round trip takes, or a caller that repeats what it takes for undone would do it twice. Then it
// leaves the request there: what it pushes may be pushed, what is popped for it goes to the others or back.
func (c *commits) leave(ctx context.Context, r *request) {
	c.mu.Lock()
	if i := slices.Index(c.queue, r); i >= 0 {
		c.queue = slices.Delete(c.queue, i, i+1)
		r.err = ctx.Err()
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()

	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case b := <-r.turn:
		c.lead(ctx, b)
		return
	case <-grace.C:
	}
	c.mu.Lock()
	if r.batch == nil { // just now, and it is about to be told
		c.mu.Unlock()
		<-r.turn
		return
	}
	select {
	case b := <-r.turn: // just now
		c.mu.Unlock()
		c.lead(ctx, b)
	default:
		c.abandon(r)
		r.err = ctx.Err()
		if c.kind.lost != nil {
			r.err = fmt.Errorf("%w: %w", c.kind.lost, ctx.Err())
		}
		c.mu.Unlock()
	}
}
