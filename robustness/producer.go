package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// A queueSpec is a long run of producers at the right end of a list and consumers at the left end of one, mostly the same.
type queueSpec struct {
	Push      string `json:"push"`
	Pop       string `json:"pop"`
	Capacity  int    `json:"capacity"`
	Seed      uint64 `json:"seed"`
	Producers []int  `json:"producers"` // their numbers
	Consumers []int  `json:"consumers"`
	Steady    bool   `json:"steady"` // one element a millisecond, and none joined
	Cancel    bool   `json:"cancel"`
}

// Lines of a queue:
//
//   - producer first count end length  pushed; ~ if not on all replicas
//     ? producer first count             perhaps pushed
//     ! producer first count             not pushed
//   - consumer start end blocking elements…  popped; = if not on all replicas. An element is a producer, a dot and a number.
//     g consumer                         a pop given up
//     x text                             an error that nothing explains
//     h nanoseconds                      the longest that the machine has held up this process
//     .                                  the end
const (
	maxBurst = 7
	blockFor = lostWakeUp * 19 / 10 // longer than it, and not than the library looks again by itself
)

// queue runs the worker's producers and consumers. The consumers go on until the list stays empty after the producers have stopped.
func (w *worker) queue(spec queueSpec) {
	pushes, pops := w.list(spec.Push, spec.Capacity), w.list(spec.Pop, spec.Capacity)
	var producers, consumers, others sync.WaitGroup
	ended := make(chan struct{})
	others.Go(func() { w.watchHiccups(ended) })
	for _, p := range spec.Producers {
		producers.Go(func() { w.produce(pushes, spec, p) })
	}
	for _, c := range spec.Consumers {
		consumers.Go(func() { w.consume(pops, spec, c) })
	}
	producers.Wait()
	consumers.Wait()
	close(ended)
	others.Wait()
	w.say([]byte("."))
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
		if burst <= 0 {
			burst = 1 + random.IntN(40)*random.IntN(2)
			time.Sleep(time.Duration(random.IntN(2500)) * time.Microsecond)
		}
		count := 1
		if isQuiet() {
			burst = 0
			time.Sleep(time.Duration(random.IntN(15)) * time.Millisecond)
		} else if random.IntN(4) == 0 && !spec.Steady {
			count = 1 + random.IntN(maxBurst)
		}
		values := make([]any, count)
		for i := range values {
			values[i] = fmt.Sprintf("%d.%d", producer, next+i)
		}
		ctx, cancel := spec.context(random)
		length, err := list.RPush(ctx, values...)
		cancel()
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
			time.Sleep(time.Millisecond)
		}
		w.say(fmt.Appendf(nil, "%c %d %d %d %d %d", what, producer, next, count, now(), length))
		next += count
		if spec.Steady {
			time.Sleep(time.Millisecond)
		}
	}
}

// consume pops in all ways there are, blocking most of the time.
func (w *worker) consume(list deque, spec queueSpec, consumer int) {
	random := rand.New(rand.NewPCG(spec.Seed, 1<<32+uint64(consumer)))
	for empty := 0; empty < 3; {
		stopped := w.stopped()
		if spec.Steady && stopped {
			return
		}
		ctx, cancel := spec.context(random)
		start := now()
		var values []string
		var value string
		var err error
		way := random.IntN(6)
		if isQuiet() {
			way = 2
		}
		switch way {
		case 0:
			value, err = list.LPop(ctx)
		case 1:
			values, err = list.LPopCount(ctx, 1+random.IntN(maxBurst))
		default:
			value, err = list.BLPop(ctx, blockFor)
			if stopped && err == redis.Nil {
				empty = 3
			}
		}
		end := now()
		cancel()
		if isDone(err) && way != 1 {
			values = []string{value}
		}
		what := byte('-')
		switch {
		case err == nil:
			empty = 0
		case isDone(err):
			what, empty = '=', 0
		case err == redis.Nil:
			if stopped {
				empty++
			}
			time.Sleep(100 * time.Microsecond)
		case isUnexpected(err):
			w.say([]byte("x pop: " + err.Error()))
			time.Sleep(time.Millisecond)
		case !isReply(err):
			w.say(fmt.Appendf(nil, "g %d", consumer))
		default:
			time.Sleep(time.Millisecond)
		}
		if len(values) > 0 {
			line := fmt.Appendf(nil, "%c %d %d %d ", what, consumer, start, end)
			line = strconv.AppendBool(line, way > 1)
			for _, value := range values {
				line = append(append(line, ' '), value...)
			}
			w.say(line)
		}
		if spec.Steady {
			time.Sleep(time.Millisecond)
		}
	}
}

// isQuiet tells whether it is the half of a second in which elements come one by one, to consumers who are all blocked: then no
// lost wake-up is made up for by somebody else.
func isQuiet() bool { return now()/int64(500*time.Millisecond)%2 == 0 }

// context is one that is cancelled at any instant, if that is the fault.
func (s queueSpec) context(random *rand.Rand) (context.Context, context.CancelFunc) {
	if s.Cancel && random.IntN(3) == 0 {
		return context.WithTimeout(context.Background(), time.Duration(instant(random))*time.Microsecond)
	}
	return context.Background(), func() {}
}

// watchHiccups reports how late a ticker was at the most: that long, a wake-up may have waited for this machine.
func (w *worker) watchHiccups(ended <-chan struct{}) {
	const period = 5 * time.Millisecond
	var longest int64
	for last := now(); ; {
		select {
		case <-ended:
			return
		case <-time.After(period):
		}
		tick := now()
		if late := tick - last - int64(period); late > longest {
			longest = late
			w.say(fmt.Appendf(nil, "h %d", longest))
		}
		last = tick
	}
}
