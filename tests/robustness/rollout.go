package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/ledger"
)

// A rollout is a queue that begins as a plain list. Half of the producers are old: they do not have the library, and push to the plain
// key. The other half, and all consumers, have the hook. Meanwhile each worker calls Adopt and Restore.
//
// No consumer of the queue is old, and none of the rounds: a lost reply of LPOP loses its element, and after Restore the elements that an old consumer finds may come before
// those that it has had, so there would be little to check.

// plainAtFirst is how many elements the plain list has when the rollout begins: more than some steps of Adopt move.
const plainAtFirst = 5 * maxBulk

// isOld tells which of a worker's producers do not have the library: none in a crash, after which a push is looked for at the place that
// its reply told, and that of an old one tells the length of the plain list only.
func (s queueSpec) isOld(producer int) bool { return !s.Steady && producer == s.Producers[0] }

// pushAlone is one command of the hook.
func (h *hooked) pushAlone(ctx context.Context, random *rand.Rand, lists []string, producer int, next []int) (length int64) {
	first, count := next[0], h.spec.count(random)
	next[0] += count
	length, err := h.rdb.RPush(ctx, lists[0], values(producer, first, count)...).Result()
	h.pushed(producer, first, count, err, length)
	return length
}

// popAlone is one command of the hook. It returns how sure it is that the list is empty.
func (h *hooked) popAlone(ctx context.Context, random *rand.Rand, lists []string, consumer int, _ []int) (empties int) {
	count, blocking := 1, h.spec.Blocking || trickle() || random.IntN(2) == 0
	if !blocking {
		count = h.spec.count(random)
	}
	if count > 1 {
		h.say(fmt.Appendf(nil, "b %d %d", consumer, count))
	}
	start := now()
	var pop redis.Cmder
	switch {
	case blocking:
		pop = h.rdb.BLPop(ctx, blockFor, lists[0])
	case count == 1:
		pop = h.rdb.LPop(ctx, lists[0])
	default:
		pop = h.rdb.LPopCount(ctx, lists[0], count)
	}
	lines := h.took(consumer, start, now(), blocking, pop)
	if count > 1 && lines == nil {
		lines = fmt.Appendf(nil, "b %d 0", consumer)
	}
	if lines != nil {
		h.say(lines)
	}
	if blocking && pop.Err() == redis.Nil {
		return 3
	}
	return 0
}

// oldProducer pushes to the plain key.
type oldProducer struct {
	*hooked
	plain     redis.UniversalClient
	renamed   int // how often it has taken another number
	unchecked int // elements since it has asked how long the list is
}

// otherNumber is what a producer adds to its number. No scenario has as many clients.
const otherNumber = 1 << 20

func (h *hooked) oldProducer() *oldProducer {
	spec := h.worker.spec
	spec.NoRetries = true
	return &oldProducer{hooked: h, plain: spec.open()}
}

// sentOnce is a command that is not repeated when its reply is lost. Without it, a cluster client repeats whatever its MaxRetries say.
type sentOnce struct{ *redis.IntCmd }

func (sentOnce) NoRetry() bool { return true }

// push is an RPUSH as go-redis sends it. It returns the length of the whole list, at times.
func (o *oldProducer) push(ctx context.Context, random *rand.Rand, lists []string, producer int, next []int) (length int64) {
	producer += o.renamed * otherNumber
	first, count := next[0], o.spec.count(random)
	next[0] += count
	push := redis.NewIntCmd(ctx, append([]any{"rpush", lists[0]}, values(producer, first, count)...)...)
	err := o.plain.Process(ctx, sentOnce{push})
	what, pause := byte('?'), 50*time.Millisecond // while the server is down, say
	switch {
	case err == nil:
		what, pause = '+', 0
	case isReply(err):
		what, pause = '!', time.Millisecond
		if isUnexpected(err) {
			o.say([]byte("x plain push: " + err.Error()))
		}
	case isDialing(err):
		what = '!'
	case errors.Is(err, os.ErrDeadlineExceeded):
		// It may arrive late, behind later ones, as nothing can after a connection has broken. So their order must not count.
		o.renamed, next[0] = o.renamed+1, 0
		pause = 4 * shortPatience // the ledger forgets no number
	}
	o.say(fmt.Appendf(nil, "%c %d %d %d 0 %d", what, producer, first, count, push.Val()))
	time.Sleep(pause)
	if o.unchecked += count; o.unchecked > maxBulk {
		o.unchecked = 0
		length, _ = o.rdb.LLen(ctx, lists[0]).Result() // 0 if it fails
	}
	return length
}

// isDialing reports whether there was no connection to send the command on.
func isDialing(err error) bool {
	var failure *net.OpError
	return errors.As(err, &failure) && failure.Op == "dial"
}

// thereAndBack calls Adopt all the time, and at times Restore before it. Half of the calls end before they are done.
func (w *worker) thereAndBack(spec queueSpec) {
	random := rand.New(rand.NewPCG(spec.Seed, 2<<32+uint64(spec.Producers[0])))
	call := func(what byte, method func(context.Context, func(moved, total int64)) error) {
		patience := time.Minute
		if random.IntN(2) == 0 {
			patience = time.Duration(instant(random)) * time.Microsecond
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		switch err := method(ctx, nil); {
		case err == nil:
			w.say([]byte{what})
		case errors.Is(err, shardedlist.ErrReversed): // by another worker
		case isUnexpected(err):
			w.say(fmt.Appendf(nil, "x %v", err))
		}
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
	}
	for !w.stopped() {
		list := adopter(w.rdb, []string{spec.Push, spec.Pop}[random.IntN(2)], spec.Capacity)
		if random.IntN(3) == 0 {
			call('r', list.Restore)
		}
		call('a', list.Adopt)
	}
}

// turn calls Adopt and Restore in turn while a round lasts, and gives some of the calls up.
func (w *worker) turn(spec roundSpec, ended <-chan struct{}) {
	random := rand.New(rand.NewPCG(spec.Seed, 1<<32))
	list := adopter(w.rdb, spec.List, spec.Capacity)
	for {
		method := list.Adopt
		if random.IntN(2) == 0 {
			method = list.Restore
		}
		select {
		case <-ended:
			return
		case <-time.After(time.Duration(random.IntN(3000)) * time.Microsecond):
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(instant(random))*time.Microsecond)
		if err := method(ctx, nil); err != nil && !errors.Is(err, shardedlist.ErrReversed) && isUnexpected(err) {
			w.report(report{Round: spec.Number, Unexpected: err.Error()})
		}
		cancel()
	}
}

// adopter returns a list that can be adopted and restored.
func adopter(rdb redis.UniversalClient, name string, capacity int) *shardedlist.ShardedList {
	list, err := shardedlist.New(rdb, name, shardedlist.WithCapacity(capacity), shardedlist.WithPoppedAt("LEFT"))
	if err != nil {
		panic(err)
	}
	return list
}

// begin makes the plain list that a round of a rollout begins with, and returns the call that did.
func (sc *scenario) begin(spec roundSpec) (calls []history.Record) {
	if spec.How != rollout {
		return nil
	}
	r := history.Record{Client: spec.Everyone + 1, Call: history.Call{Name: "rpush"}, Start: now()}
	for i := range spec.Seed % uint64(3*spec.Capacity) {
		r.Call.Values = append(r.Call.Values, fmt.Sprintf("plain.%d", i))
	}
	if len(r.Call.Values) == 0 {
		return nil
	}
	sc.note(sc.retry(func(ctx context.Context) error {
		_, err := sc.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error { // again, it does the same
			pipe.Del(ctx, spec.List)
			pipe.RPush(ctx, spec.List, r.Call.Values)
			return nil
		})
		return err
	}))
	r.End, r.Outcome = now(), history.Outcome{Fate: ledger.Done, Number: int64(len(r.Call.Values))}
	return []history.Record{r}
}

// fillPlain makes the plain list that the rollout begins with. Its elements are those of producer 0.
func (sc *scenario) fillPlain(l *queueLedger, name string) {
	sc.note(sc.rdb.RPush(sc.ctx, name, values(0, 0, plainAtFirst)...).Err())
	l.Push(ledger.Pushed{Count: plainAtFirst, Fate: ledger.Done})
}

// endRollout adopts the list for good, when there are no old producers any more.
func (sc *scenario) endRollout(l *queueLedger, spec queueSpec) {
	list := adopter(sc.rdb, spec.Push, spec.Capacity)
	sc.mustBeWhole(list, sc.retry(func(ctx context.Context) error { return list.Adopt(ctx, nil) }))
	var info shardedlist.Info
	sc.note(sc.retry(func(ctx context.Context) (err error) {
		info, err = list.Info(ctx)
		return err
	}))
	switch {
	case sc.ctx.Err() != nil:
	case info.Newcomers > 0 || info.Restoring || info.Restored:
		sc.violate("%s is not sharded after Adopt: %+v", spec.Push, info)
	case sc.quit.Err() == nil && (l.adopted == 0 || l.restored == 0):
		sc.missEvidence("of Adopt %d calls were done, and of Restore %d", l.adopted, l.restored)
	}
}
