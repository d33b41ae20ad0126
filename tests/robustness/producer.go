package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/script"
)

// A queueSpec is a long run of producers at the right end of a list and consumers at the left end of a list, usually the same one.
type queueSpec struct {
	Push      string `json:"push"`
	Pop       string `json:"pop"`
	Capacity  int    `json:"capacity"`
	Seed      uint64 `json:"seed"`
	Producers []int  `json:"producers"` // their numbers
	Consumers []int  `json:"consumers"`
	Steady    bool   `json:"steady"` // one element per call and per millisecond
	Cancel    bool   `json:"cancel"`
	Most      int    `json:"most"`     // elements of one call
	Blocking  bool   `json:"blocking"` // all consumers block at all times
	Clients   string `json:"clients"`
	Large     bool   `json:"large"` // some calls push so much that the values do not pass through Lua
}

// Lines of a queue; appendRuns writes elements:
//
//	line                                   meaning
//	+ producer first count end length      pushed; ~ if not on all replicas; end is 0 if nobody is woken for it
//	? producer first count                 outcome unknown
//	! producer first count                 not pushed
//	- consumer start end blocking elements popped; = if not on all replicas
//	b consumer count                       a pop of up to count elements starts; 0: it brought none
//	g consumer                             a pop is abandoned
//	t producer number                      a transaction took an element unless it was not carried out, which its mark tells
//	p text                                 the parts of a transaction disagree
//	a                                      an Adopt is done; r: a Restore
//	x text                                 an error that no fault explains
//	h start end                            the machine stalled this process
//	.                                      the end
const (
	maxBurst = 7
	maxBulk  = 1000
	large    = 10 << 10             // bytes of a large push
	backlog  = 2 * maxBulk          // producers wait at a longer list, so that its slot does not take minutes to move
	blockFor = lostWakeUp * 19 / 10 // longer than lostWakeUp, shorter than the slice after which the library looks again
)

// queue runs the worker's producers and consumers. The consumers continue until the list stays empty after the producers have
// stopped.
func (w *worker) queue(spec queueSpec) {
	produce, consume := w.clients(spec)
	var producers, consumers, others sync.WaitGroup
	ended := make(chan struct{})
	others.Go(func() { w.watchHiccups(ended) })
	switch spec.Clients {
	case rollout:
		others.Go(func() { w.thereAndBack(spec) })
	case crowd:
		others.Go(func() { w.waitOnOthers(spec.Pop, ended) })
	}
	for _, p := range spec.Producers {
		producers.Go(func() { produce(p) })
	}
	for _, c := range spec.Consumers {
		consumers.Go(func() { consume(c) })
	}
	producers.Wait()
	consumers.Wait()
	close(ended)
	others.Wait()
	w.say([]byte("."))
}

// crowded is on how many lists a process of a crowd waits.
const crowded = 200

// waitOnOthers waits on many lists, to which nobody pushes, until the end.
func (w *worker) waitOnOthers(name string, ended <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	var waiters sync.WaitGroup
	for i := range crowded {
		list := w.list(fmt.Sprintf("%s:other:%d", name, i), 1)
		waiters.Go(func() {
			for ctx.Err() == nil {
				value, err := list.BLPop(ctx, 0)
				if err == nil {
					w.say(fmt.Appendf(nil, "x an empty list has %q", value))
				}
				_ = script.Sleep(ctx, 50*time.Millisecond) // while the server cannot serve
			}
		})
	}
	<-ended
	cancel()
	waiters.Wait()
}

// clients returns what producers and consumers do.
func (w *worker) clients(spec queueSpec) (produce, consume func(number int)) {
	var options []shardedlist.Option
	switch spec.Clients {
	case methods, crowd:
	case spreadLists:
		options = append(options, shardedlist.WithParts(parts))
	default:
		h := w.hooked(spec)
		return h.produce, h.consume
	}
	pushes, pops := w.list(spec.Push, spec.Capacity, options...), w.list(spec.Pop, spec.Capacity, options...)
	return func(p int) { w.produce(pushes, spec, p) }, func(c int) { w.consume(pops, spec, c) }
}

func (w *worker) stopped() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// produce pushes bursts of values, with pauses that let consumers drain the list and block.
func (w *worker) produce(list deque, spec queueSpec, producer int) {
	random := rand.New(rand.NewPCG(spec.Seed, uint64(producer)))
	for next, burst := 0, 0; !w.stopped(); burst-- {
		burst = spec.pause(random, burst)
		count := spec.count(random)
		ctx, cancel := spec.context(random)
		elements := values(producer, next, count)
		if spec.Large && random.IntN(6) == 0 {
			for i, element := range elements {
				elements[i] = ledger.Pad(element.(string), large/count)
			}
		}
		length, err := list.RPush(ctx, elements...)
		cancel()
		w.pushed(producer, next, count, err, length)
		next += count
		if spec.Steady {
			time.Sleep(time.Millisecond)
			continue
		}
		for length > backlog && !w.stopped() {
			time.Sleep(5 * time.Millisecond)
			length, _ = list.LLen(context.Background()) // 0 if it fails
		}
	}
}

// pause waits between bursts of calls, so that consumers drain the list and block, and returns how many calls are left in the burst.
func (s queueSpec) pause(random *rand.Rand, left int) int {
	if left <= 0 {
		left = 1 + random.IntN(40)*random.IntN(2)
		time.Sleep(time.Duration(random.IntN(2500)) * time.Microsecond)
	}
	if s.Blocking || trickle() {
		left = 0
		time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
	}
	return left
}

// count draws how many elements a command moves.
func (s queueSpec) count(random *rand.Rand) int {
	if s.Steady || !s.Blocking && trickle() {
		return 1
	}
	return several(random, s.Most)
}

// pushed reports a push.
func (w *worker) pushed(producer, first, count int, err error, length int64) {
	w.say(w.push(producer, first, count, err, length))
}

// push returns the line for a push, and reports an error that no fault explains.
func (w *worker) push(producer, first, count int, err error, length int64) []byte {
	what := byte('+')
	switch {
	case err == nil:
	case isDone(err):
		what = '~'
	case errors.Is(err, shardedlist.ErrOutcomeUnknown):
		what = '?'
	default:
		what = '!'
		if isUnexpected(err) {
			w.say([]byte("x push: " + err.Error()))
		}
		time.Sleep(3 * time.Millisecond) // or most calls would be those that are refused
	}
	return fmt.Appendf(nil, "%c %d %d %d %d %d", what, producer, first, count, now(), length)
}

// popFailed reports a pop without an element.
func (w *worker) popFailed(consumer int, err error) {
	switch {
	case err == redis.Nil:
		time.Sleep(100 * time.Microsecond)
	case isUnexpected(err):
		w.say([]byte("x pop: " + err.Error()))
		time.Sleep(time.Millisecond)
	case !isReply(err) || errors.Is(err, shardedlist.ErrOutcomeUnknown):
		w.say(fmt.Appendf(nil, "g %d", consumer))
	default:
		time.Sleep(time.Millisecond)
	}
}

// several draws how many elements a call moves: in most calls one, else a few or many. The calls of many move most of the elements.
func several(random *rand.Rand, most int) int {
	switch roll := random.IntN(16); {
	case roll < 10:
		return 1
	case roll < 14:
		return 1 + random.IntN(maxBurst)
	default:
		return 1 + random.IntN(most)
	}
}

// consume pops in all ways, blocking most of the time.
func (w *worker) consume(list deque, spec queueSpec, consumer int) {
	random := rand.New(rand.NewPCG(spec.Seed, 1<<32+uint64(consumer)))
	for empty := 0; empty < 3; {
		stopped := w.stopped()
		if spec.Steady && stopped {
			return
		}
		ctx, cancel := spec.context(random)
		count, blocking := 1, random.IntN(2) == 0
		switch {
		case spec.Blocking || trickle():
			blocking = true
		case !blocking:
			count = several(random, spec.Most)
		}
		if count > 1 {
			w.say(fmt.Appendf(nil, "b %d %d", consumer, count))
		}
		start := now()
		values, err := pop(ctx, list, count, blocking)
		end := now()
		cancel()
		what := byte('-')
		switch {
		case err == nil:
			empty = 0
		case isDone(err):
			what, empty = '=', 0
		default:
			switch {
			case err != redis.Nil || !stopped:
			case blocking:
				empty = 3
			default:
				empty++
			}
			w.popFailed(consumer, err)
		}
		switch {
		case len(values) > 0:
			line := fmt.Appendf(nil, "%c %d %d %d %t", what, consumer, start, end, blocking)
			w.say(appendRuns(line, values))
		case count > 1:
			w.say(fmt.Appendf(nil, "b %d 0", consumer))
		}
		if spec.Steady {
			time.Sleep(time.Millisecond)
		}
	}
}

// pop pops up to count elements, or one if it blocks.
func pop(ctx context.Context, list deque, count int, blocking bool) (values []string, err error) {
	if count > 1 {
		return list.LPopCount(ctx, count)
	}
	value, err := "", error(nil)
	if blocking {
		value, err = list.BLPop(ctx, blockFor)
	} else {
		value, err = list.LPop(ctx)
	}
	if isDone(err) {
		values = []string{value}
	}
	return values, err
}

// trickle reports whether elements come one by one now, to consumers that are all blocked, so that no other wake-up makes up for a lost
// one. This holds for one second in three.
func trickle() bool { return now()/int64(time.Second)%3 == 0 }

// context returns a context that is cancelled at any instant, if that is the fault. Otherwise callers wait a minute for a server that is
// down; a call without a deadline waits only ten seconds, and the elements of an abandoned pop come back out of order.
func (s queueSpec) context(random *rand.Rand) (context.Context, context.CancelFunc) {
	if s.Cancel && random.IntN(3) == 0 {
		return context.WithTimeout(context.Background(), time.Duration(instant(random))*time.Microsecond)
	}
	return context.WithTimeout(context.Background(), time.Minute)
}

// watchHiccups reports when a ticker was late: the machine may have delayed a wake-up for that long.
func (w *worker) watchHiccups(ended <-chan struct{}) {
	const period, tolerable = 5 * time.Millisecond, 20 * time.Millisecond
	for last := now(); ; {
		select {
		case <-ended:
			return
		case <-time.After(period):
		}
		tick := now()
		if tick-last > int64(period+tolerable) {
			w.say(fmt.Appendf(nil, "h %d %d", last, tick))
		}
		last = tick
	}
}
