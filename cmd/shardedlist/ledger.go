package main

import (
	"fmt"
	"strings"

	"github.com/shardedlist/shardedlist/internal/ledger"
)

// lineLedger is the ledger of a demo. The elements are lines, each behind its name in the ledger: "2.17 the line".
type lineLedger struct {
	ledger.Ledger
	next []int // the number of each producer's next line; each is its producer's own
}

func newLedger(producers int) *lineLedger { return &lineLedger{next: make([]int, producers)} }

// push returns the line as the element that the producer is about to push. A push that fails ends the demo.
func (l *lineLedger) push(producer int, line string) (element string) {
	number := l.next[producer]
	l.next[producer]++
	l.Push(ledger.Pushed{Producer: producer, First: number, Count: 1, Fate: ledger.Done})
	return ledger.Name(producer, number) + " " + line
}

// pop enters an element that the consumer popped, and returns its line.
func (l *lineLedger) pop(consumer int, element string) (line string, err error) {
	name, line, found := strings.Cut(element, " ")
	producer, number, ok := ledger.Parse(name)
	if !found || !ok || number >= l.Attempted(producer) {
		return "", fmt.Errorf("popped an element that was never pushed: %.80q", element)
	}
	l.Pop(ledger.Popped{Consumer: consumer, Producer: producer, First: number, Count: 1})
	return line, nil
}
