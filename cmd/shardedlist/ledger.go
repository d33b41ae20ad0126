package main

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

// ledger keeps account of the elements of a demo. Each is tagged with its producer and its number there, by which the
// ledger finds, when they are popped, what is lost, doubled or out of order.
//
// The list is first in, first out, and a consumer pops one element after the other. So each consumer must see the numbers
// of each producer rise, whatever the others do.
type ledger struct {
	mu     sync.Mutex
	tagged []int64    // elements pushed, by producer
	seen   [][]uint64 // bitmaps of the numbers popped, by producer
	latest [][]int64  // the highest number seen, by consumer and producer
	tally
}

// tally is what a ledger has found.
type tally struct {
	in, out, lost, doubled, misplaced int64
}

func (t tally) ok() bool { return t.in == t.out && t.lost+t.doubled+t.misplaced == 0 }

func newLedger(producers, consumers int) *ledger {
	l := &ledger{tagged: make([]int64, producers), seen: make([][]uint64, producers), latest: make([][]int64, consumers)}
	for c := range l.latest {
		l.latest[c] = make([]int64, producers)
	}
	return l
}

// push returns the line as the element that the producer is to push next.
func (l *ledger) push(producer int, line string) (element string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tagged[producer]++
	return fmt.Sprintf("%d %d %s", producer, l.tagged[producer], line)
}

// pop enters an element that the consumer popped, and returns its line.
func (l *ledger) pop(consumer int, element string) (line string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	producer, number, line, ok := l.parse(element)
	if !ok {
		return "", fmt.Errorf("popped an element that was never pushed: %.80q", element)
	}
	l.out++
	switch latest := &l.latest[consumer][producer]; {
	case l.mark(producer, number):
		l.doubled++
	case number < *latest:
		l.misplaced++
	default:
		*latest = number
	}
	return line, nil
}

func (l *ledger) parse(element string) (producer int, number int64, line string, ok bool) {
	first, rest, _ := strings.Cut(element, " ")
	second, line, ok := strings.Cut(rest, " ")
	producer, err := strconv.Atoi(first)
	if err != nil || !ok || producer < 0 || producer >= len(l.tagged) {
		return 0, 0, "", false
	}
	number, err = strconv.ParseInt(second, 10, 64)
	return producer, number, line, err == nil && number >= 1 && number <= l.tagged[producer]
}

// mark notes that a number was popped, and tells whether it had been before.
func (l *ledger) mark(producer int, number int64) (before bool) {
	word, bit := number/64, uint64(1)<<(number%64)
	for int64(len(l.seen[producer])) <= word {
		l.seen[producer] = append(l.seen[producer], 0)
	}
	before = l.seen[producer][word]&bit != 0
	l.seen[producer][word] |= bit
	return before
}

// close returns the tally, at the end.
func (l *ledger) close() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally
	for producer, in := range l.tagged {
		t.in += in
		t.lost += in
		for _, word := range l.seen[producer] {
			t.lost -= int64(bits.OnesCount64(word))
		}
	}
	return t
}
