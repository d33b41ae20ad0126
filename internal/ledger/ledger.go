// Package ledger keeps account of the elements that producers push to lists and consumers pop from them, and tells which of them are
// lost, doubled, invented or out of order.
//
// An element is named after its producer and its place among that producer's elements, both counted from zero: "7.12". The ledger
// knows nothing of lists and servers. It hears of pushes and pops, in any order, from several goroutines, and compares them. What is
// still in the lists at the end is entered as popped by the consumer [Rest].
//
// The lists are first in, first out, and a consumer makes one call after the other. So each consumer must see the elements of each
// producer in the order of their numbers, whatever the others do.
//
// Memory stays bounded by what is under way: the ledger forgets elements in blocks, once each has come out. A ledger with Complete
// set forgets nothing, and can tell what a crash has undone; see [Ledger.UndonePushes].
package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// A Fate is what a caller knows of a call when it has returned.
type Fate string

const (
	Done    Fate = "done"
	Refused Fate = "refused"  // an error that says that nothing has changed
	Unknown Fate = "unknown"  // it may have been applied, or may yet be
	GivenUp Fate = "given up" // a pop: the elements that it took go back to their end
)

// Rest is the consumer of the elements that are left in the lists at the end.
const Rest = -1

// Pushed is a push of elements of one producer that follow each other.
type Pushed struct {
	Producer, First, Count int
	Fate                   Fate
	At                     int64 // when it returned
	Length                 int64 // what it returned
	Replicated             bool  // as many replicas as asked for have it
}

// Popped is a pop of elements of one producer that follow each other.
type Popped struct {
	Consumer, Producer, First, Count int
	Start, End                       int64
	Blocking, Replicated             bool
}

// A Tally is what a ledger has found.
type Tally struct {
	Pushed    int    // elements acknowledged
	Popped    int    // elements that came out, each as often as it did
	Lost      int    // acknowledged, and did not come out
	Doubled   int    // came out again
	Invented  int    // came out, though nobody pushed them or their push was refused
	Misplaced int    // came to a consumer behind a later element of the same producer
	Example   string // of one lost, doubled or invented
}

// OK reports whether each element that was acknowledged came out once, and in order.
func (t Tally) OK() bool { return t.Lost+t.Doubled+t.Invented+t.Misplaced == 0 }

// A Ledger is an account of elements. The zero Ledger is ready to use.
type Ledger struct {
	// Complete makes the ledger keep all elements. It is set before the first use.
	Complete bool

	// Unreported is how many elements a producer may push without the ledger hearing of it: those of its last call, if the producer
	// may be killed. It is set before the first use.
	Unreported int

	// Waited, if it is set before the first use, is called for each element that a blocking pop brought, with the time from which
	// both the list had the element and the consumer was blocked, and the end of the pop. It must not call the ledger.
	Waited func(from, to int64)

	mu        sync.Mutex
	blocks    map[int][]*block // by producer
	attempted map[int]int      // by producer: how many elements it has reported
	latest    map[[2]int]int   // by consumer and producer: the highest number seen
	rest      int              // elements that came out at the end
	tally     Tally
	misplaced string // the last element that was
}

// Push enters a push that has returned.
func (l *Ledger) Push(p Pushed) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.init()
	l.attempted[p.Producer] = max(l.attempted[p.Producer], p.First+p.Count)
	for i := range p.Count {
		l.change(p.Producer, p.First+i, func(e *element) {
			e.fate, e.replicated = p.Fate, p.Replicated
			if e.fate == Done {
				l.tally.Pushed++
				e.acked, e.length = p.At, p.Length-int64(p.Count)+1+int64(i)
				l.waited(e)
			}
		})
	}
}

// Pop enters a pop that has returned.
func (l *Ledger) Pop(p Popped) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.init()
	l.pop(p)
}

// PopValues enters what a consumer got, element by element.
func (l *Ledger) PopValues(consumer int, values ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.init()
	for _, value := range values {
		if producer, number, ok := Parse(value); ok {
			l.pop(Popped{Consumer: consumer, Producer: producer, First: number, Count: 1, Replicated: true})
		} else {
			l.invented(fmt.Sprintf("%.80q is no element", value))
		}
	}
}

// PopForeign enters a value that a consumer got and that is no element.
func (l *Ledger) PopForeign(value string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invented(value)
}

// Counts returns how many elements have been acknowledged, and how many have come out.
func (l *Ledger) Counts() (pushed, popped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.Pushed, l.tally.Popped
}

// Evidence returns an error if the account shows little, whatever its tally: if no more than half of the elements that producers tried
// to push were acknowledged, or consumers got no more than half of those. It is for what is to work while faults strike.
func (l *Ledger) Evidence() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	tried, popped := 0, l.tally.Popped-l.rest
	for _, attempted := range l.attempted {
		tried += attempted
	}
	if 2*l.tally.Pushed <= tried || 2*popped <= l.tally.Pushed {
		return fmt.Errorf("of %d elements, %d were acknowledged, and %d were popped", tried, l.tally.Pushed, popped)
	}
	return nil
}

// Attempted returns how many elements the producer has reported, whatever became of them.
func (l *Ledger) Attempted(producer int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.attempted[producer]
}

// Broken returns how many elements are doubled or invented so far. Both stay so, whatever is yet to come.
func (l *Ledger) Broken() (elements int, example string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tally.Doubled + l.tally.Invented, l.tally.Example
}

// Missing returns the elements that were acknowledged and have not come out.
func (l *Ledger) Missing() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := map[string]bool{}
	l.each(func(producer, number int, e *element) {
		if e.fate == Done && e.seen == 0 {
			missing[Name(producer, number)] = true
		}
	})
	return missing
}

// Misplaced tells of an element that came behind a later one, the last of those.
func (l *Ledger) Misplaced() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.misplaced
}

// Tally returns what the ledger has found, once nothing more is to come.
func (l *Ledger) Tally() Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.tally
	l.each(func(producer, number int, e *element) {
		switch {
		case e.fate == Done && e.seen == 0:
			t.Lost++
			t.Example = Name(producer, number) + " did not come"
		case e.fate == "" && e.seen > 0 && number >= l.attempted[producer]+l.Unreported:
			t.Invented++
			t.Example = Name(producer, number) + " was not pushed"
		}
	})
	return t
}

// Name returns the name of a producer's element.
func Name(producer, number int) string {
	text := strconv.AppendInt(make([]byte, 0, 16), int64(producer), 10)
	return string(strconv.AppendInt(append(text, '.'), int64(number), 10))
}

const padding = "_"

// Pad makes the value of an element larger, by that many bytes, and Unpad returns what it was.
func Pad(name string, bytes int) string { return name + strings.Repeat(padding, bytes) }
func Unpad(value string) string         { return strings.TrimRight(value, padding) }

// Parse is the inverse of Name, and of Pad.
func Parse(value string) (producer, number int, ok bool) {
	name := Unpad(value)
	left, right, _ := strings.Cut(name, ".")
	producer, err1 := strconv.Atoi(left)
	number, err2 := strconv.Atoi(right)
	return producer, number, err1 == nil && err2 == nil && producer >= 0 && number >= 0 && number < 1<<30 && Name(producer, number) == name
}

func (l *Ledger) init() {
	if l.blocks == nil {
		l.blocks, l.attempted, l.latest = map[int][]*block{}, map[int]int{}, map[[2]int]int{}
	}
}

func (l *Ledger) pop(p Popped) {
	key := [2]int{p.Consumer, p.Producer}
	latest, met := l.latest[key]
	for number := p.First; number < p.First+p.Count; number++ {
		l.tally.Popped++
		if p.Consumer == Rest {
			l.rest++
		}
		doubled := l.change(p.Producer, number, func(e *element) {
			e.seen++
			if e.seen == 1 || p.End < e.out {
				e.out, e.outReplicated = p.End, p.Replicated
			}
			if p.Blocking {
				e.start, e.end = p.Start, p.End
				l.waited(e)
			}
		})
		switch {
		case doubled:
		case met && number < latest:
			l.tally.Misplaced++
			l.misplaced = fmt.Sprintf("%s came to consumer %d behind %s", Name(p.Producer, number), p.Consumer, Name(p.Producer, latest))
		default:
			latest, met = number, true
		}
	}
	if met {
		l.latest[key] = latest
	}
}

func (l *Ledger) invented(example string) {
	l.tally.Invented++
	l.tally.Example = example
}

// change applies do to an element, and reports whether the element has come out before.
func (l *Ledger) change(producer, number int, do func(e *element)) (doubled bool) {
	for len(l.blocks[producer]) <= number/blockSize {
		l.blocks[producer] = append(l.blocks[producer], &block{})
	}
	b, at := l.blocks[producer][number/blockSize], number%blockSize
	if b.final == blockSize && !l.Complete {
		if doubled = !b.mayCome[at]; doubled {
			l.tally.Doubled++
			l.tally.Example = Name(producer, number) + " came again, or had been refused"
		}
		delete(b.mayCome, at)
		return doubled
	}
	for len(b.elements) <= at {
		b.elements = append(b.elements, element{})
	}
	e := &b.elements[at]
	was := *e
	do(e)
	switch {
	case e.seen > was.seen && was.seen > 0:
		doubled = true
		l.tally.Doubled++
		l.tally.Example = Name(producer, number) + " came again"
	case e.seen == 1 && e.fate == Refused:
		l.invented(Name(producer, number) + " had been refused")
	}
	if e.isFinal() && !was.isFinal() {
		if b.final++; b.final == blockSize && !l.Complete {
			b.close()
		}
	}
	return doubled
}

// waited reports how long the list had the element while its consumer was blocked, once both are known.
func (l *Ledger) waited(e *element) {
	if l.Waited != nil && e.acked > 0 && e.end > 0 {
		l.Waited(max(e.acked, e.start), e.end)
	}
}

// each calls do for the elements that are kept.
func (l *Ledger) each(do func(producer, number int, e *element)) {
	for producer, blocks := range l.blocks {
		for i, b := range blocks {
			for j := range b.elements {
				do(producer, i*blockSize+j, &b.elements[j])
			}
		}
	}
}

// element is what is known of one.
type element struct {
	fate          Fate
	acked         int64 // when its push had returned
	length        int64 // the length of the list when it had been pushed, before what the same call pushed behind it
	replicated    bool  // so was its push
	seen          int   // how often it came out
	out           int64 // when the first pop of it returned
	outReplicated bool  // so was that pop
	start, end    int64 // of the blocking pop that brought it
}

// isFinal reports whether nothing more is to be heard of the element. One whose push has an unknown outcome may come out or not.
func (e *element) isFinal() bool { return e.fate != "" && (e.fate != Done || e.seen > 0) }

const blockSize = 1024

// block is a run of one producer's elements. When all are final it is closed: then it holds only which of them may still come.
type block struct {
	elements []element // as many as have been heard of; nil if it is closed
	final    int
	mayCome  map[int]bool
}

func (b *block) close() {
	b.mayCome = map[int]bool{}
	for i, e := range b.elements {
		if e.fate == Unknown && e.seen == 0 {
			b.mayCome[i] = true
		}
	}
	b.elements = nil
}
