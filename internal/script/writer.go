package script

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// writer sends the calls of a client's many callers, whatever their lists, in few writes: what has come while others were on their way goes
// next, as one pipeline. The socket and its cold caches cost a server more than a small call.
//
// It is for a crowd at one server that is near. Few callers have a write each, since to wait for another's costs them more; and so have those
// of a server that is far away, which idles while a write is on its way.
type writer struct {
	mu      sync.Mutex
	callers int  // that are here
	shares  bool // they are a crowd
	flights int  // writes on their way, but for those of earlier epochs, which are stuck
	epoch   int
	landed  time.Time // when the last write ended
	queue   []*waiting
	trip    time.Duration // of a call by itself, about as long as the quickest of late
	hurries *time.Timer   // runs hurry; nil if nobody has waited of late
}

// waiting is a call that waits for the next write.
type waiting struct {
	cmd   *Command
	err   error
	ready chan *flight // gets the write that its caller is to send, or nil when the reply is there
}

// flight is a write of several calls.
type flight struct {
	calls []*waiting
	epoch int
}

const (
	crowd       = 16 // callers that have a write each
	fewWait     = 4  // are no crowd any more
	flightsNear = 2  // writes of a crowd: the client prepares one while the server works on the other
	maxTogether = 64 // calls in a write
	// holdUp is how long calls wait while no write ends: one whose reply is lost takes as long as the client's ReadTimeout.
	holdUp = 20 * time.Millisecond
	// Calls with more words or bytes go by themselves: others would wait for them.
	maxShortWords = 64
	maxShortBytes = 8 << 10
)

// FarAway is the time of a call from which the network takes most of it. Tests change it before they call anything.
var FarAway = 200 * time.Microsecond

// errNotHeard is the error of a call that was sent, or was to be, by a caller whose goroutine has ended within a hook.
var errNotHeard = errors.New("the caller that was to send it has panicked")

// small are the scripts whose replies are short, or as long as what the caller has asked for at a time.
var small = []string{
	"push", "on_key", "lset", "linsert", "lrem", "ltrim", "expire", "llen", "resolve",
	"limit_acquire", "limit_bucket", "limit_day", "limit_fixed", "limit_release", "limit_sliding", "queue_push", "queue_settle",
}

// mayShare reports whether the call may be sent with others. go-redis repeats no pipeline with a command that it must not repeat, so all
// are such. A client whose contexts end calls that are on their way has a write for each.
func mayShare(client *redis.Client, call Call, cmd *Command) bool {
	words := cmd.Args()
	if !cmd.NoRetry() || len(words) > maxShortWords || client.Options().ContextTimeoutEnabled || !call.small() {
		return false
	}
	bytes := 0
	for _, word := range words {
		switch word := word.(type) {
		case string:
			bytes += len(word)
		case []byte:
			bytes += len(word)
		}
	}
	return bytes <= maxShortBytes
}

// small reports whether the reply is short: of a pop, if it is one of few elements.
func (c Call) small() bool {
	if c.Script.name != "pop" {
		return slices.Contains(small, c.Script.name)
	}
	const countAt = keysAt + 2 + 4 // behind the key, its word, the session and the end
	if len(c.Args) <= countAt || c.Args[keysAt-1] != 1 {
		return false
	}
	count, ok := c.Args[countAt].(int)
	return ok && count <= maxTogether
}

// process sends a call, by itself or with others, and returns its error. If ctx ends before it is sent, that is its error.
func (w *writer) process(ctx context.Context, client *redis.Client, cmd *Command) error {
	w.mu.Lock()
	w.callers++
	if w.shares = (w.shares || w.callers > crowd) && w.trip <= FarAway; !w.shares || w.flights < flightsNear {
		return w.alone(ctx, client, cmd)
	}
	me := &waiting{cmd: cmd, err: errNotHeard, ready: make(chan *flight, 1)}
	w.queue = append(w.queue, me)
	w.watch()
	w.mu.Unlock()
	select {
	case f := <-me.ready:
		w.send(ctx, client, f)
	case <-ctx.Done():
		if w.leave(me) {
			return ctx.Err()
		}
		w.send(ctx, client, <-me.ready)
	}
	return me.err
}

// alone sends one call. The lock is held, and is not when it returns.
func (w *writer) alone(ctx context.Context, client *redis.Client, cmd *Command) error {
	w.flights++
	epoch := w.epoch
	w.mu.Unlock()
	began := time.Now()
	defer func() { w.land(1, epoch, time.Since(began)) }()
	return client.Process(ctx, cmd)
}

// send sends calls for their callers, the first of whom runs it. It does nothing without any.
func (w *writer) send(ctx context.Context, client *redis.Client, f *flight) {
	if f == nil {
		return
	}
	defer func() {
		w.land(len(f.calls), f.epoch, 0)
		for _, c := range f.calls[1:] {
			c.ready <- nil
		}
	}()
	ctx = context.WithoutCancel(ctx)
	pipe := client.Pipeline()
	for _, c := range f.calls {
		_ = pipe.Process(ctx, c.cmd)
	}
	_, err := pipe.Exec(ctx)
	for _, c := range f.calls {
		if c.err = c.cmd.Err(); c.err == nil && c.cmd.Val() == nil {
			c.err = cmp.Or(err, ErrNotRun) // another hook has kept it from being sent
		}
		c.err = InPipeline(c.err)
	}
}

// leave takes a call out of the queue, and reports whether it was there.
func (w *writer) leave(me *waiting) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := slices.Index(w.queue, me)
	if at >= 0 {
		w.queue = slices.Delete(w.queue, at, at+1)
		w.callers--
	}
	return at >= 0
}

// land ends a write for some callers, and has the first of those who wait send the next, unless there are enough on their way. Before that it
// yields to callers that are about to call, mostly those whose replies came last. alone is how long a call by itself has taken.
func (w *writer) land(callers, epoch int, alone time.Duration) {
	if w.sharing() {
		runtime.Gosched()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callers -= callers
	w.landed = time.Now()
	switch {
	case alone == 0:
	case w.trip == 0 || alone < w.trip:
		w.trip = alone
	default: // a slow one counts little: it may be chance
		w.trip += (min(alone, 2*w.trip+FarAway) - w.trip) / 64
	}
	if epoch == w.epoch {
		w.flights--
	}
	w.shares = w.shares && len(w.queue) >= fewWait
	if len(w.queue) > 0 && (!w.shares || w.flights < flightsNear) {
		w.launch()
	}
}

// launch has the first of those who wait send their calls. The lock is held, as it is in watch.
func (w *writer) launch() {
	w.flights++
	size := min(maxTogether, len(w.queue))
	f := &flight{slices.Clone(w.queue[:size]), w.epoch}
	w.queue = slices.Delete(w.queue, 0, size)
	f.calls[0].ready <- f
}

// watch makes sure that those who wait are sent though no write ends.
func (w *writer) watch() {
	if w.hurries == nil {
		w.hurries = time.AfterFunc(holdUp, w.hurry)
	}
}

// hurry counts the writes as stuck if none has ended for a while.
func (w *writer) hurry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hurries = nil
	if len(w.queue) == 0 {
		return
	}
	if time.Since(w.landed) >= holdUp {
		w.epoch++
		w.flights = 0
		w.launch()
	}
	if len(w.queue) > 0 {
		w.watch()
	}
}

func (w *writer) sharing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shares
}
