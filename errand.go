package shardedlist

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// errand is what one caller wants of several lists, and waits for by itself: a move, or a pop from the first that has elements.
type errand struct {
	lists    []*ShardedList // that it waits on; the lane's record stands beside the first
	creates  *ShardedList   // that it may create, if any
	count    int            // elements that it wants
	build    func(count int, wait waiting, release string) operation
	giveBack func(reply any) // of a pop, whose elements must not be lost
}

func (e *errand) operation(wait waiting, release string) operation {
	o := e.build(e.count, wait, release)
	o.giveBack = e.giveBack
	o.nothing = func() operation { return e.build(0, wait, "") }
	return o
}

// prepare makes sure that the operation can be built.
func (e *errand) prepare(ctx context.Context) error {
	if e.creates == nil {
		return nil
	}
	_, err := e.creates.creationCapacity(ctx)
	return err
}

// run carries the errand out at once, and returns the elements. To find none is redis.Nil.
func (e *errand) run(ctx context.Context) ([]string, error) {
	if err := e.prepare(ctx); err != nil {
		return nil, err
	}
	return found(e.lists[0].edit(ctx, e.operation(dontWait, "")))
}

// found returns the elements of a reply, also beside ErrNotReplicated, or redis.Nil if there are none.
func found(reply any, err error) ([]string, error) {
	if !isDone(err) {
		return nil, err
	}
	if reply != nil {
		if values, _ := elements(reply); len(values) > 0 {
			return values, err
		}
	}
	return nil, redis.Nil
}

// wait carries the errand out when there are elements for it, or returns redis.Nil when the time is up.
func (e *errand) wait(ctx context.Context, timeout time.Duration) ([]string, error) {
	if timeout < 0 {
		return nil, ErrNegativeTimeout
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &consumer{
		errand:  e,
		joined:  time.Now(),
		release: e.lists[0].keys.release(uuid.NewString()),
		outcome: make(chan ending),
		gone:    make(chan struct{}),
	}
	if timeout > 0 {
		c.deadline = c.joined.Add(timeout)
	}
	go c.serve(ctx)
	select {
	case o := <-c.outcome:
		return found(o.reply, o.err)
	case <-ctx.Done():
	}
	if c.blocks.Load() {
		go e.lists[0].release(c.release)
	}
	grace := time.NewTimer(leaveGrace)
	defer grace.Stop()
	select {
	case o := <-c.outcome:
		return found(o.reply, o.err)
	case <-grace.C:
	}
	close(c.gone)
	if e.giveBack == nil {
		return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
	}
	return nil, ctx.Err()
}

// consumer is one call that waits, on a connection of its own. It works as the waiters of a list do, but for one caller, and
// each round that finds nothing may be its last.
type consumer struct {
	*errand
	joined   time.Time
	deadline time.Time     // zero: none
	release  string        // the key that releases its BLPOP
	outcome  chan ending   // unbuffered: it is either received, or known not to be
	gone     chan struct{} // closed when the caller has given up and returned
	blocks   atomic.Bool   // set before the first BLPOP
	owes     bool          // a dummy that it may have taken was not passed on
}

type ending struct {
	reply any
	err   error
}

// serve runs while the caller waits, and goes on without it until the outcome is known.
func (c *consumer) serve(ctx context.Context) {
	reply, err := c.rounds(ctx)
	select {
	case c.outcome <- ending{reply, err}:
	case <-c.gone:
		if isDone(err) && c.giveBack != nil {
			c.giveBack(reply)
		}
	}
	if c.owes {
		background := context.Background()
		_, _ = c.lists[0].repeat(background, deadline(background), &lane{}, c.build(0, waitWoken, ""))
	}
}

// rounds looks for elements until there are some, or the wait is over.
func (c *consumer) rounds(ctx context.Context) (any, error) {
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	l := c.lists[0]
	n := l.lanes.Get().(*lane)
	_, patient := ctx.Deadline()
	var failures failures
	armed, idle := false, 0 // armed: all lists were empty, and the next push will ring
	for {
		o := c.operation(waitFirst, "")
		if armed {
			o = c.operation(waitWoken, c.release)
		}
		reply, err := c.round(ctx, n, o, armed)
		if took, _ := found(reply, nil); took != nil {
			return reply, l.endEdit(n, o, reply, err)
		}
		if isDone(err) {
			err = nil // to find nothing needs no replicas
		}
		pause := failures.count(err)
		armed = err == nil && reply.([]any)[0] == int64(0)
		switch {
		case ctx.Err() != nil:
			return nil, l.endEdit(n, o, nil, ctx.Err())
		case n.unsettled || failures.endsWait(patient, c.joined, time.Now()):
			return nil, l.endEdit(n, o, nil, typed(err))
		case err == nil && !c.deadline.IsZero() && !time.Now().Before(c.deadline):
			return nil, l.endEdit(n, o, nil, redis.Nil)
		}
		if idle++; armed {
			idle = 0
			continue
		}
		c.pause(ctx, max(pause, backoff(idle)))
	}
}

// round makes one attempt, after blocking on the bells if that is of use.
func (c *consumer) round(ctx context.Context, n *lane, o operation, block bool) (reply any, err error) {
	l := c.lists[0]
	n.number++
	if !block {
		return l.repeat(ctx, editUntil(ctx), n, o)
	}
	c.blocks.Store(true)
	if err := ctx.Err(); err != nil {
		return nil, err // it may not have been released
	}
	bells := make([]string, len(c.lists))
	for i, list := range c.lists {
		bells[i] = list.keys.bell
	}
	reply, err = l.block(context.Background(), bells, c.release, l.sliceUntil(c.deadline), n, o)
	if reply != nil {
		return reply, err
	}
	if !isReply(err) || isPassing(err) {
		n.learn(true, err)
		reply, err = l.repeat(ctx, editUntil(ctx), n, c.operation(waitWoken, ""))
	}
	c.owes = !isDone(err)
	return reply, err
}

func (c *consumer) pause(ctx context.Context, pause time.Duration) {
	if !c.deadline.IsZero() {
		pause = min(pause, time.Until(c.deadline))
	}
	_ = sleep(ctx, pause)
}

// together makes sure that one script can serve the lists.
func together(lists ...*ShardedList) error {
	for _, l := range lists[1:] {
		if l.rdb != lists[0].rdb {
			return ErrOtherClient
		}
		var apart bool
		switch l.rdb.(type) {
		case *redis.ClusterClient:
			apart = l.keys.slot() != lists[0].keys.slot()
		case *redis.Ring:
			apart = l.keys.tag() != lists[0].keys.tag()
		}
		if apart {
			return errCrossSlot
		}
	}
	return nil
}

// operationOn begins an operation on several lists, see lua/lists.lua.
func operationOn(lists []*ShardedList, script *script, size int) operation {
	keys := make([]string, 0, 2*len(lists))
	for _, l := range lists {
		keys = append(keys, l.scriptKeys[0])
	}
	for _, l := range lists {
		keys = append(keys, l.scriptKeys[1:]...)
	}
	o := newOperation(script, keys, 1+size)
	o.args = append(o.args, len(lists))
	return o
}
