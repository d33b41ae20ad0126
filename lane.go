package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	// recordLife is how long the server remembers the last operation of a lane.
	recordLife = 60 * time.Second
	// settleFor is how long the outcome of an operation is asked for in the background, well within the record's life.
	settleFor = recordLife / 2
	// maxReconnects is how often a connection is tried again, before an operation that was never sent fails.
	maxReconnects = 3
	// largeResult is the size of a result, in bytes, that the server is asked to forget, if it still has it, once the lane is idle
	// and idleAfter has passed: not between any two operations of a busy lane.
	largeResult = 4 << 10
	idleAfter   = 100 * time.Millisecond
)

// A lane is one client's stream of operations of one kind on one list, one at a time. Each has a number, under which the
// server remembers its result beside the list: so it can be repeated, when a reply is lost, until its outcome is known, and
// is done once. It belongs to one goroutine at a time.
type lane struct {
	id        string        // empty: operations are not remembered, and lost replies are go-redis's to deal with
	life      time.Duration // of the record
	number    int64         // of the operation in flight, or of the last one
	unsettled bool          // the outcome of that operation is not known
	loose     bool          // a caller has given it up; guarded by commits.mu
	large     bool          // the server may have a large result
}

func (l *ShardedList) newLane() *lane {
	if l.forgetful {
		return &lane{life: recordLife}
	}
	return &lane{id: uuid.NewString(), life: recordLife}
}

// operation is a script on its way through a lane.
type operation struct {
	script *script
	args   []any // of EVALSHA: the script, its keys, the lane, and what the script takes
	lane   int   // where in args the lane stands

	// Of an operation that edit is to settle in a way of its own.
	nothing  func() operation // the same with nothing to do, whose reply tells what has been done
	giveBack func(reply any)  // takes care of the elements that it took for a caller who has gone
}

const laneSize = 3

// operation begins an operation whose script takes up to size arguments behind the lane's; they are to be appended.
func (l *ShardedList) operation(script *script, size int) operation {
	return newOperation(script, l.scriptKeys, size)
}

func newOperation(script *script, keys []string, size int) operation {
	lane := 3 + len(keys)
	args := make([]any, lane+laneSize, lane+laneSize+size)
	args[0], args[1], args[2] = "evalsha", script.Hash(), len(keys)
	for i, key := range keys {
		args[3+i] = key
	}
	return operation{script: script, args: args, lane: lane}
}

// address writes the lane and its number into the operation's arguments.
func (n *lane) address(o operation) {
	o.args[o.lane], o.args[o.lane+1], o.args[o.lane+2] = "", "", ""
	if n.id != "" {
		o.args[o.lane], o.args[o.lane+1], o.args[o.lane+2] = n.id, n.number, n.life.Milliseconds()
	}
}

// repeat sends the lane's operation, under its number, until its outcome is known or it is time to give up. If it returns an
// error and the lane is settled, nothing was done; but ErrNotReplicated comes with the reply.
func (l *ShardedList) repeat(ctx context.Context, giveUp time.Time, n *lane, o operation) (reply any, err error) {
	n.address(o)
	if n.id == "" {
		return l.send(ctx, o.script, o.args)
	}
	for attempt := 0; ; attempt++ {
		reply, err = l.once(ctx, o)
		if !l.unsent(err) {
			n.learn(!isDone(err), err)
		}
		if isDone(err) || !n.unsettled && !isPassing(err) && (isReply(err) || attempt == maxReconnects) {
			return reply, typed(err)
		}
		if errors.Is(err, redis.ErrClosed) || time.Until(giveUp) < backoff(attempt) || sleep(ctx, backoff(attempt)) != nil {
			return nil, typed(err)
		}
	}
}

// once makes one attempt at an operation, which go-redis does not repeat.
func (l *ShardedList) once(ctx context.Context, o operation) (any, error) {
	return l.evaluate(ctx, o.script, o.args, true)
}

// unsent tells whether an attempt failed because the context had ended before go-redis sent anything. It can be told of a single
// command, which go-redis does not repeat: of a pipeline, the context's error may stand for that of an attempt before.
func (l *ShardedList) unsent(err error) bool {
	return l.replicas == 0 && (err == context.Canceled || err == context.DeadlineExceeded)
}

// learn notes what an attempt at the lane's operation told.
func (n *lane) learn(failed bool, err error) {
	n.unsettled = failed && n.id != "" && !isRefusal(err) && (n.unsettled || mayHaveActed(err))
}

// refusals are the errors that scripts remember as results, in Redis's words.
var refusals = []replyError{errNoSuchKey, errIndex, errSyntax}

// isRefusal tells whether the error is an operation's result, which a repetition gives again.
func isRefusal(err error) bool {
	return isReply(err) && slices.Contains(refusals, replyError(err.Error()))
}

// settle learns the outcome of the lane's last operation, if it is not known, by repeating it with nothing to do: what it did
// is told, and what it has not done it can do no more. Elements it popped go back to the end they came from.
func (l *ShardedList) settle(ctx context.Context, n *lane, end side, nothing operation) error {
	if !n.unsettled {
		return nil
	}
	reply, err := l.repeat(ctx, deadline(ctx), n, nothing)
	if !isDone(err) {
		return err
	}
	if nothing.script == popScript {
		popped, _ := elements(reply)
		l.putBack(end, popped)
	}
	return nil
}

// settleInBackground settles a lane of pops that nobody will use again.
func (l *ShardedList) settleInBackground(n *lane, end side) {
	ctx, cancel := context.WithTimeout(context.Background(), settleFor)
	defer cancel()
	_ = l.settle(ctx, n, end, pops.join(l, end, nil))
}

// edit carries out an operation that callers do not share, in a lane of its own. With ErrNotReplicated there is a reply.
func (l *ShardedList) edit(ctx context.Context, o operation) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	n := l.lanes.Get().(*lane)
	n.number++
	reply, err := l.repeat(ctx, editUntil(ctx), n, o)
	return reply, l.endEdit(n, o, reply, err)
}

// editUntil is when to give up an operation that is about to get its number.
func editUntil(ctx context.Context) time.Time {
	giveUp := deadline(ctx)
	if last := time.Now().Add(recordLife / 2); giveUp.After(last) {
		return last
	}
	return giveUp
}

// endEdit takes back the lane of an operation that is done or given up, and returns the error for its caller.
func (l *ShardedList) endEdit(n *lane, o operation, reply any, err error) error {
	if n.unsettled {
		l.settleLater(n, o)
		if o.giveBack == nil {
			err = fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
		return err
	}
	if isLarge(reply) {
		go l.forget(*n)
	}
	l.lanes.Put(n)
	return err
}

// givenUp is an operation that was given up, and whose outcome is to be learned.
type givenUp struct {
	lane     *lane
	op       operation
	deadline time.Time
}

// settling is the operations given up that wait to be settled, by one goroutine while there are any: callers who cancel
// faster than the server answers must not pile up more.
type settling struct {
	mu      sync.Mutex
	queue   []givenUp
	running bool
}

// settleLater sees to it that an operation that was given up can no longer be carried out, and that what it took is not lost.
func (l *ShardedList) settleLater(n *lane, o operation) {
	l.settling.mu.Lock()
	defer l.settling.mu.Unlock()
	l.settling.queue = append(l.settling.queue, givenUp{n, o, time.Now().Add(settleFor)})
	if !l.settling.running {
		l.settling.running = true
		go l.settleAll()
	}
}

func (l *ShardedList) settleAll() {
	for {
		l.settling.mu.Lock()
		if len(l.settling.queue) == 0 {
			l.settling.running = false
			l.settling.mu.Unlock()
			return
		}
		g := l.settling.queue[0]
		l.settling.queue = l.settling.queue[1:]
		l.settling.mu.Unlock()
		l.settleEdit(g)
	}
}

func (l *ShardedList) settleEdit(g givenUp) {
	ctx, cancel := context.WithDeadline(context.Background(), g.deadline)
	defer cancel()
	nothing := l.operation(settleScript, 0)
	if g.op.nothing != nil {
		nothing = g.op.nothing()
	}
	reply, err := l.repeat(ctx, g.deadline, g.lane, nothing)
	if !isDone(err) {
		return
	}
	if g.op.giveBack != nil {
		go g.op.giveBack(reply) // which may take until there is memory; others wait to be settled
	}
	l.lanes.Put(g.lane)
}

// tidy has the server forget a large result. Nobody else uses the lane meanwhile.
func (l *ShardedList) tidy(n *lane) {
	if n.large && !n.unsettled {
		n.large = false
		go l.forget(*n)
	}
}

// forget drops the result of the lane's last operation, which the client has, from its record. If it fails, the record expires.
func (l *ShardedList) forget(n lane) {
	if n.id != "" {
		o := l.operation(forgetScript, 0)
		n.address(o)
		_, _ = l.once(context.Background(), o)
	}
}

// isLarge tells whether a record with that result is worth a call to make it small.
func isLarge(reply any) bool {
	shards, _ := reply.([]any)
	size := 0
	for _, shard := range shards {
		values, _ := shard.([]any)
		for _, value := range values {
			if size += len(value.(string)); size > largeResult {
				return true
			}
		}
	}
	return false
}

// putBack returns elements popped, for which there is no caller, to the end they came from, the one popped last first. Where
// the server will not take them, for want of memory for one, they go to callers who wait. It goes on until all are accounted
// for; only a client that is closed meanwhile takes them with it.
func (l *ShardedList) putBack(end side, popped []string) {
	for attempt := 0; len(popped) > 0; attempt++ {
		back := make([]any, len(popped))
		for i, value := range popped {
			back[len(popped)-1-i] = value
		}
		ctx, cancel := context.WithTimeout(context.Background(), settleFor)
		_, err := l.push(ctx, end, back)
		cancel()
		if isDone(err) || errors.Is(err, redis.ErrClosed) || errors.Is(err, ErrOutcomeUnknown) {
			return
		}
		popped = l.waitersAt(end).offer(popped)
		time.Sleep(backoff(attempt))
	}
}

// mayHaveActed tells whether the server may have carried out an operation that failed with err.
func mayHaveActed(err error) bool {
	if isReply(err) || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return false
	}
	var connection *net.OpError
	return !errors.As(err, &connection) || connection.Op != "dial"
}
