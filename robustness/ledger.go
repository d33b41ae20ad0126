package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// element is what has become of one.
type element struct {
	fate          fate
	acked         int64 // when its push had returned
	length        int64 // that the push returned, less what was pushed behind it
	replicated    bool  // the push came without ErrNotReplicated
	seen          int
	start, end    int64 // of the blocking pop that brought it
	out           int64 // when the first pop of it had returned
	outReplicated bool
}

// isSettled tells whether nothing is to be expected of it any more. One whose push has an unknown outcome may come or not.
func (e *element) isSettled() bool { return e.fate != "" && (e.fate != done || e.seen > 0) }

// leaf is a run of one producer's elements. It is closed when all are settled, so that what is kept does not grow with what was
// pushed: then it holds only which of them may still come.
type leaf struct {
	elements []element // as many as have been heard of; nil if it is closed
	settled  int
	mayCome  map[int]bool
}

const leafSize = 1024

// ledger holds what was pushed and popped.
type ledger struct {
	mu                  sync.Mutex
	whole               bool            // no leaf is closed
	leaves              map[int][]*leaf // by producer
	attempted           map[int]int     // by producer: how many elements it has reported
	last                map[[2]int]int  // the last element that a consumer had of a producer
	taking              map[int]int     // by consumer: how many it is popping with one call
	operations          int64
	pushed, popped      int
	disordered          int64
	doubled, invented   int64
	example             string // of those
	givenUp             bool
	longestWait, hiccup int64
	long                []interval // waits that are to be explained
	hiccups             []interval // that may explain them
	excused             int64      // elements that killed processes may have taken along
	unexpected          string
}

type interval struct{ from, to int64 }

func newLedger() *ledger {
	return &ledger{leaves: map[int][]*leaf{}, attempted: map[int]int{}, last: map[[2]int]int{}, taking: map[int]int{}}
}

// hear takes a line of a worker.
func (l *ledger) hear(line []byte) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	words := bytes.Fields(line)
	switch what := words[0][0]; what {
	case '+', '~', '?', '!':
		l.operations++
		n := numbers(words[1:])
		l.push(what, int(n[0]), int(n[1]), int(n[2]), n[3], n[4])
	case '-', '=':
		l.operations++
		n := numbers(words[1:4])
		delete(l.taking, int(n[0]))
		for _, word := range words[5:] {
			l.popRun(int(n[0]), word, what == '-', string(words[4]) == "true", n[1], n[2])
		}
	case 'b':
		n := numbers(words[1:])
		l.taking[int(n[0])] = int(n[1])
	case 'g':
		l.givenUp = true
	case 'x':
		l.unexpected = string(line)
	case 'h':
		n := numbers(words[1:])
		l.hiccup = max(l.hiccup, n[1]-n[0])
		l.hiccups = append(l.hiccups, interval{n[0], n[1]})
	case '.':
		return true
	}
	return false
}

var fates = map[byte]fate{'+': done, '~': done, '?': unknown, '!': undone}

func (l *ledger) push(what byte, producer, first, count int, at, length int64) {
	l.attempted[producer] = max(l.attempted[producer], first+count)
	for i := range count {
		l.change(producer, first+i, func(e *element) {
			e.fate, e.replicated = fates[what], what == '+'
			if e.fate == done {
				l.pushed++
				e.acked, e.length = at, length-int64(count)+1+int64(i)
				l.wait(e)
			}
		})
	}
}

// popRun notes that a consumer got elements: a producer, a dot, a number, and perhaps how many follow each other from there.
func (l *ledger) popRun(consumer int, run []byte, replicated, blocking bool, start, end int64) {
	value, times, several := bytes.Cut(run, []byte("*"))
	producer, first, ok := parse(string(value))
	if !ok {
		l.invented++
		l.example = string(value)
		return
	}
	count := 1
	if several {
		count, _ = strconv.Atoi(string(times))
	}
	for number := first; number < first+count; number++ {
		l.popped++
		l.change(producer, number, func(e *element) {
			e.seen++
			if e.out == 0 || end < e.out {
				e.out, e.outReplicated = end, replicated
			}
			if blocking {
				e.start, e.end = start, end
				l.wait(e)
			}
		})
	}
	met := [2]int{consumer, producer}
	if last, ok := l.last[met]; ok && first < last {
		l.disordered++
	}
	l.last[met] = first + count - 1
}

// change does so to an element, and judges it.
func (l *ledger) change(producer, number int, do func(e *element)) {
	for len(l.leaves[producer]) <= number/leafSize {
		l.leaves[producer] = append(l.leaves[producer], &leaf{})
	}
	p, at := l.leaves[producer][number/leafSize], number%leafSize
	if p.settled == leafSize && !l.whole {
		if !p.mayCome[at] {
			l.doubled++
			l.example = fmt.Sprintf("%d.%d came again, or had been refused", producer, number)
		}
		delete(p.mayCome, at)
		return
	}
	for len(p.elements) <= at {
		p.elements = append(p.elements, element{})
	}
	e := &p.elements[at]
	was := *e
	do(e)
	switch {
	case e.seen == 2 && was.seen == 1:
		l.doubled++
		l.example = fmt.Sprintf("%d.%d came twice", producer, number)
	case e.seen == 1 && e.fate == undone:
		l.invented++
		l.example = fmt.Sprintf("%d.%d had been refused", producer, number)
	}
	if e.isSettled() && !was.isSettled() {
		if p.settled++; p.settled == leafSize && !l.whole {
			p.close()
		}
	}
}

func (p *leaf) close() {
	p.mayCome = map[int]bool{}
	for i, e := range p.elements {
		if e.fate == unknown && e.seen == 0 {
			p.mayCome[i] = true
		}
	}
	p.elements = nil
}

// wait measures for how long the list had the element while its consumer was blocked, once both are known.
func (l *ledger) wait(e *element) {
	if e.acked > 0 && e.end > 0 {
		from := max(e.acked, e.start)
		l.longestWait = max(l.longestWait, e.end-from)
		if e.end-from > int64(lostWakeUp) {
			l.long = append(l.long, interval{from, e.end})
		}
	}
}

// unexplained returns a wait that is longer than allowed, and for how long the machine held up a worker meanwhile, at the most. It
// looks at those that ended a while ago, since by then the worker has told. It returns how many it is still to look at.
func (l *ledger) unexplained() (wait, held time.Duration, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const aWhile = int64(time.Second)
	ready := now() - aWhile
	l.long = slices.DeleteFunc(l.long, func(w interval) bool {
		if w.to > ready {
			return false
		}
		longest := int64(0)
		for _, h := range l.hiccups {
			if h.to > w.from && h.from < w.to {
				longest = max(longest, h.to-h.from)
			}
		}
		if took := w.to - w.from; took > int64(lostWakeUp)+longest && took > int64(wait) {
			wait, held = time.Duration(took), time.Duration(longest)
		}
		return true
	})
	l.hiccups = slices.DeleteFunc(l.hiccups, func(h interval) bool { return h.to < ready-10*aWhile })
	return wait, held, len(l.long)
}

// all is what has become of all elements, by producer. Only a whole ledger knows.
func (l *ledger) all() map[int][]element {
	elements := map[int][]element{}
	for producer, leaves := range l.leaves {
		for _, p := range leaves {
			// A leaf is filled up, so that an element's index is its number.
			elements[producer] = append(elements[producer], append(p.elements, make([]element, leafSize-len(p.elements))...)...)
		}
	}
	return elements
}

// missing are the elements acknowledged that did not come.
func (l *ledger) missing() map[string]bool {
	missing := map[string]bool{}
	for producer, leaves := range l.leaves {
		for i, p := range leaves {
			for j, e := range p.elements {
				if e.fate == done && e.seen == 0 {
					missing[name(producer, i*leafSize+j)] = true
				}
			}
		}
	}
	return missing
}

// verdict counts elements acknowledged that did not come out, that came out more than once, and that came out although their push
// had been refused, or had not begun.
func (l *ledger) verdict() (lost, doubled, invented int64, example string) {
	invented, example = l.invented, l.example
	missing := l.missing()
	for value := range missing {
		example = value + " did not come"
		break
	}
	for producer, leaves := range l.leaves {
		for i, p := range leaves {
			for j, e := range p.elements {
				if number := i*leafSize + j; e.seen > 0 && e.fate == "" && number >= l.attempted[producer]+maxBulk {
					invented++
					example = name(producer, number) + " was not pushed"
				}
			}
		}
	}
	return int64(len(missing)), l.doubled, invented, example
}

// settle adds what the list holds at the end. What pops that were given up took may be on its way back for a while.
func (l *ledger) settle(c *cell, read func() []string) (lost, doubled, invented int64, example string) {
	var rest []string
	for deadline := time.Now().Add(35 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if content := read(); c.staleReads() {
			rest = append(rest, content...) // it was popped
		} else {
			rest = content
		}
		l.mu.Lock()
		missing := l.missing()
		for _, value := range rest {
			delete(missing, value)
		}
		if int64(len(missing)) <= l.excused || !l.givenUp || time.Now().After(deadline) || c.ctx.Err() != nil {
			break
		}
		l.mu.Unlock()
	}
	defer l.mu.Unlock()
	for _, value := range rest {
		l.popRun(-1, bytes.TrimSpace(appendRuns(nil, []string{value})), true, false, 0, 0)
	}
	return l.verdict()
}

// excuse notes that a process was killed: what its consumers were popping may be gone.
func (l *ledger) excuse(consumers []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, consumer := range consumers {
		l.excused += int64(max(1, l.taking[consumer]))
	}
}

func numbers(words [][]byte) []int64 {
	out := make([]int64, len(words))
	for i, word := range words {
		out[i], _ = strconv.ParseInt(string(word), 10, 64)
	}
	return out
}

// name is an element: a producer, a dot and a number.
func name(producer, number int) string {
	text := strconv.AppendInt(make([]byte, 0, 16), int64(producer), 10)
	return string(strconv.AppendInt(append(text, '.'), int64(number), 10))
}

// parse is the inverse of name.
func parse(value string) (producer, number int, ok bool) {
	left, right, _ := strings.Cut(value, ".")
	producer, err1 := strconv.Atoi(left)
	number, err2 := strconv.Atoi(right)
	return producer, number, err1 == nil && err2 == nil && producer >= 0 && number >= 0 && number < 1<<30 && name(producer, number) == value
}

// appendRuns adds words for the values, one for those of a producer that follow each other: 7.12*3 for 7.12, 7.13 and 7.14. What
// is no element is written so that it is one word, and none either.
func appendRuns(line []byte, values []string) []byte {
	for i := 0; i < len(values); {
		line = append(line, ' ')
		producer, first, ok := parse(values[i])
		if !ok {
			line = fmt.Appendf(line, "%x", values[i])
			i++
			continue
		}
		count := 1
		for i+count < len(values) && values[i+count] == name(producer, first+count) {
			count++
		}
		line = append(line, values[i]...)
		if count > 1 {
			line = strconv.AppendInt(append(line, '*'), int64(count), 10)
		}
		i += count
	}
	return line
}
