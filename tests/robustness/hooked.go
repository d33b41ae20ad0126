package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/session"
)

// How clients call.
const (
	methods      = "methods"      // of ShardedList
	steps        = "steps"        // the same, which search and edit, in steps of a shard or two
	crowd        = "crowd"        // the same, in processes that wait on many other lists besides
	spreadLists  = "spread"       // methods of a list that is spread over many slots
	pipelines    = "pipelines"    // of a client with the hook: each command has its own result
	transactions = "transactions" // of a client with the hook: all of it is done, or nothing
	moves        = "moves"        // of a client with the hook, on lists of which one does not match
	rollout      = "rollout"      // of clients with the hook, and of others without it, which know the plain list only
	queueJobs    = "jobs"         // of the package queue
)

var allClients = []string{methods, steps, crowd, pipelines, transactions, moves, rollout, spreadLists, queueJobs}

// lists returns the lists of a queue that is used through the hook. A pipeline uses all of them in any way. A transaction does the same
// to the first two, so they are equal at all times; the third has the marks of those that took an element.
func (s queueSpec) lists(name string) []string {
	switch {
	case s.Clients == transactions:
		return []string{name + ":a", name + ":b", name + ":marks"}
	case s.Clients == moves:
		return besideOf(name)
	case s.Clients == pipelines && !s.Steady:
		return []string{name + ":a", name + ":b"}
	}
	return []string{name}
}

// bitsOf is the plain key in which the transactions of a producer set the bit of each of their elements. To set it twice does no harm:
// go-redis repeats what is not a list's.
func bitsOf(name string, producer int) string {
	return fmt.Sprintf("%s%s%d", name, bitsInfix, producer)
}

const bitsInfix = ":bits:"

// split returns the number under which the ledger knows a part of a producer's elements: those of one list, or of one kind of
// transaction. Those in which it is even set bits.
func split(producer, part int) int { return 2*producer + part }

func setsBits(producer int) bool { return producer%2 == 0 && producer > 0 }

// hooks are the hooks that a worker can use.
var hooks = map[string]func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option){
	"": func(rdb redis.UniversalClient, match func(string) bool, options ...shardedlist.Option) {
		rdb.AddHook(shardedlist.NewHook(rdb, match, options...))
	},
}

// hooked is a worker's client whose list commands go through the hook.
type hooked struct {
	*worker
	rdb  redis.UniversalClient
	spec queueSpec
}

func (w *worker) hooked(spec queueSpec) *hooked {
	rdb := w.spec.open()
	hooks[w.spec.Variant](rdb, func(key string) bool { return !strings.Contains(key, bitsInfix) && !doesNotMatch(key) }, shardedlist.WithCapacity(spec.Capacity))
	return &hooked{w, rdb, spec}
}

func (h *hooked) produce(number int) {
	random := rand.New(rand.NewPCG(h.spec.Seed, uint64(number)))
	lists, push := h.spec.lists(h.spec.Push), h.pushPipeline
	switch {
	case h.spec.Clients == transactions:
		push = h.pushTransaction
	case h.spec.Clients == rollout && h.spec.isOld(number):
		push = h.oldProducer().push
	case h.spec.Clients == rollout || h.spec.Clients == moves:
		push = h.pushAlone
	}
	next := make([]int, 2) // of each part of the elements
	for burst := 0; !h.stopped(); burst-- {
		burst = h.spec.pause(random, burst)
		ctx, cancel := h.spec.context(random)
		length := push(ctx, random, lists, number, next)
		cancel()
		if h.spec.Steady {
			time.Sleep(time.Millisecond)
			continue
		}
		for length > backlog && !h.stopped() {
			time.Sleep(5 * time.Millisecond)
			length, _ = h.rdb.LLen(context.Background(), lists[0]).Result() // 0 if it fails
		}
	}
}

func (h *hooked) consume(number int) {
	random := rand.New(rand.NewPCG(h.spec.Seed, 1<<32+uint64(number)))
	lists, pop := h.spec.lists(h.spec.Pop), h.popPipeline
	switch h.spec.Clients {
	case transactions:
		pop = h.transfer
	case rollout:
		pop = h.popAlone
	case moves:
		pop = h.moveOrPop
	}
	next := make([]int, 2)
	for empty := 0; empty < 3; {
		stopped := h.stopped()
		if h.spec.Steady && stopped {
			return
		}
		ctx, cancel := h.spec.context(random)
		empties := pop(ctx, random, lists, number, next)
		cancel()
		switch {
		case empties == 0:
			empty = 0
		case stopped:
			empty += empties
		}
		if h.spec.Steady {
			time.Sleep(time.Millisecond)
		}
	}
}

// maxPipeline is how many commands a pipeline has.
const maxPipeline = 4

// pushPipeline pushes to any of the lists, and returns a length.
func (h *hooked) pushPipeline(ctx context.Context, random *rand.Rand, lists []string, producer int, next []int) (length int64) {
	type push struct {
		part, first, count int
		cmd                *redis.IntCmd
	}
	var pushes []push
	pipe := h.rdb.Pipeline()
	for range 1 + random.IntN(maxPipeline) {
		p := push{part: random.IntN(len(lists)), count: h.spec.count(random)}
		p.first = next[p.part]
		next[p.part] += p.count
		p.cmd = pipe.RPush(ctx, lists[p.part], values(split(producer, p.part), p.first, p.count)...)
		pushes = append(pushes, p)
		if random.IntN(4) == 0 { // what joins its neighbours otherwise
			pipe.LLen(ctx, lists[random.IntN(len(lists))])
		}
	}
	_, _ = pipe.Exec(ctx)
	for _, p := range pushes {
		h.pushed(split(producer, p.part), p.first, p.count, p.cmd.Err(), p.cmd.Val())
		length = max(length, p.cmd.Val())
	}
	return length
}

// popPipeline pops from any of the lists, or waits for all of them. It returns how sure it is that they are empty.
func (h *hooked) popPipeline(ctx context.Context, random *rand.Rand, lists []string, consumer int, _ []int) (empties int) {
	var pops []redis.Cmder
	pipe, total := h.rdb.Pipeline(), 0
	blocking := h.spec.Blocking || trickle() || random.IntN(2) == 0
	if blocking {
		pops, total = append(pops, pipe.BLPop(ctx, blockFor, lists...)), 1
	} else {
		for range 1 + random.IntN(maxPipeline) {
			list, count := lists[random.IntN(len(lists))], h.spec.count(random)
			if count == 1 {
				pops = append(pops, pipe.LPop(ctx, list))
			} else {
				pops = append(pops, pipe.LPopCount(ctx, list, count))
			}
			total += count
		}
	}
	if total > 1 {
		h.say(fmt.Appendf(nil, "b %d %d", consumer, total))
	}
	start := now()
	_, _ = pipe.Exec(ctx)
	end := now()
	lines := h.took(consumer, start, end, blocking, pops...)
	if total > 1 && lines == nil {
		lines = fmt.Appendf(nil, "b %d 0", consumer)
	}
	if lines != nil {
		h.say(lines)
	}
	if blocking && pops[0].Err() == redis.Nil {
		return 3
	}
	return 0
}

// took returns the lines that report pops, and reports what fails.
func (h *hooked) took(consumer int, start, end int64, blocking bool, pops ...redis.Cmder) (lines []byte) {
	for _, cmd := range pops {
		var values []string
		switch cmd := cmd.(type) {
		case *redis.StringCmd:
			values = []string{cmd.Val()}
		case *redis.KeyValuesCmd:
			_, values = cmd.Val()
		case *redis.StringSliceCmd:
			values = cmd.Val()
			if blocking && len(values) > 0 {
				values = values[1:] // the first is the key
			}
		}
		if err := cmd.Err(); isDone(err) {
			if lines != nil {
				lines = append(lines, '\n')
			}
			lines = appendRuns(fmt.Appendf(lines, "- %d %d %d %t", consumer, start, end, blocking), values)
		} else {
			h.popFailed(consumer, err)
		}
	}
	return lines
}

// pushTransaction pushes the same elements to two lists. In half of the transactions each has a bit, too.
func (h *hooked) pushTransaction(ctx context.Context, random *rand.Rand, lists []string, producer int, next []int) (length int64) {
	part, count := random.IntN(2), 1
	if !h.spec.Steady {
		count += random.IntN(3)
	}
	producer, first := split(producer, part), next[part]
	next[part] += count
	tx := h.rdb.TxPipeline()
	elements := values(producer, first, count)
	push := tx.RPush(ctx, lists[0], elements...)
	t := transaction{lists: []redis.Cmder{push, tx.RPush(ctx, lists[1], elements...)}}
	if setsBits(producer) {
		for number := range count {
			t.plain = append(t.plain, tx.SetBit(ctx, bitsOf(h.spec.Push, producer), int64(first+number), 1))
		}
	}
	_, _ = tx.Exec(ctx)
	err := h.agreed(t.outcome())
	h.pushed(producer, first, count, err, push.Val())
	h.settle(err)
	return push.Val()
}

// transfer takes an element from two lists, which must be the same, and pushes a mark to the third. It returns 1 if there was none. At
// times it takes marks first.
func (h *hooked) transfer(ctx context.Context, random *rand.Rand, lists []string, consumer int, next []int) (empties int) {
	if !h.spec.Steady && random.IntN(3) == 0 {
		h.takeMarks(ctx, random, lists[2], consumer)
	}
	part := 0
	if !h.spec.Steady {
		part = random.IntN(2)
	}
	number, mark := next[part], split(consumer, part)
	next[part]++
	tx := h.rdb.TxPipeline()
	start := now()
	a, b := tx.LPop(ctx, lists[0]), tx.LPop(ctx, lists[1])
	t := transaction{lists: []redis.Cmder{a, b}}
	var push *redis.IntCmd
	if !h.spec.Steady {
		push = tx.RPush(ctx, lists[2], ledger.Name(mark, number))
		t.lists = append(t.lists, push)
	}
	if setsBits(mark) {
		t.plain = append(t.plain, tx.SetBit(ctx, bitsOf(h.spec.Pop, mark), int64(number), 1))
	}
	_, _ = tx.Exec(ctx)
	end := now()
	err := h.agreed(t.outcome())
	if err == nil && (a.Val() != b.Val() || a.Err() != b.Err()) {
		h.say(fmt.Appendf(nil, "p %q from one list and %q from the other", a.Val(), b.Val()))
	}
	var lines [][]byte // written at once, lest only one of them is
	switch {
	case err == nil && a.Err() == nil:
		lines = append(lines, h.took(consumer, start, end, false, a))
	case errors.Is(err, shardedlist.ErrOutcomeUnknown):
		lines = append(lines, fmt.Appendf(nil, "t %d %d", mark, number))
	}
	if push != nil {
		lines = append(lines, h.push(mark, number, 1, err, push.Val()))
	}
	if lines != nil {
		h.say(bytes.Join(lines, []byte("\n")))
	}
	h.settle(err)
	if err == nil && a.Err() == redis.Nil {
		time.Sleep(time.Millisecond)
		return 1
	}
	return 0
}

// settle waits, after a transaction of unknown outcome, until it has arrived if it ever does: it may be carried out late.
func (h *hooked) settle(err error) {
	switch {
	case err != nil && !h.spec.Cancel && errors.Is(err, shardedlist.ErrOutcomeUnknown):
		time.Sleep(4 * shortPatience)
	case err != nil:
		time.Sleep(time.Millisecond)
	}
}

// takeMarks is a transaction that only takes.
func (h *hooked) takeMarks(ctx context.Context, random *rand.Rand, list string, consumer int) {
	count := 1 + random.IntN(maxBurst)
	h.say(fmt.Appendf(nil, "b %d %d", consumer, 1+count))
	tx := h.rdb.TxPipeline()
	start := now()
	t := transaction{lists: []redis.Cmder{tx.LPop(ctx, list), tx.LPopCount(ctx, list, count)}}
	_, _ = tx.Exec(ctx)
	_ = h.agreed(t.outcome())
	lines := h.took(consumer, start, now(), false, t.lists...)
	if lines == nil {
		lines = fmt.Appendf(nil, "b %d 0", consumer)
	}
	h.say(lines)
}

// transaction is the commands between MULTI and EXEC, when they have their replies.
type transaction struct {
	lists []redis.Cmder
	plain []redis.Cmder // on other keys
}

// halfDone is the error of a transaction whose parts disagree.
type halfDone string

func (e halfDone) Error() string { return string(e) }

// outcome returns nil if the transaction was carried out, else the error of its list commands, which must agree. The reply of another
// command may be lost.
func (t transaction) outcome() (err error) {
	done, unknown := 0, 0
	for _, cmd := range t.lists {
		switch e := cmd.Err(); {
		case isDone(e) || e == redis.Nil:
			done++
		case errors.Is(e, shardedlist.ErrOutcomeUnknown):
			unknown++
			err = e
		default:
			err = e
		}
	}
	agree := done == len(t.lists) || done == 0 && (unknown == 0 || unknown == len(t.lists))
	for _, cmd := range t.plain {
		wasDone := cmd.Err() == nil || errors.Is(cmd.Err(), session.ErrReplyLost)
		agree = agree && wasDone == (done > 0)
	}
	if agree {
		return err
	}
	text := ""
	for _, cmd := range append(t.lists, t.plain...) {
		text += fmt.Sprintf("%s: %v; ", cmd.Name(), cmd.Err())
	}
	return halfDone(text)
}

// agreed reports a transaction whose parts disagree.
func (h *hooked) agreed(err error) error {
	var half halfDone
	if errors.As(err, &half) {
		h.say([]byte("p " + strings.ReplaceAll(err.Error(), "\n", " ")))
	}
	return err
}

func values(producer, first, count int) []any {
	values := make([]any, count)
	for i := range values {
		values[i] = ledger.Name(producer, first+i)
	}
	return values
}
