package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/shardedlist/shardedlist/internal/ledger"
)

// queueLedger is the ledger of a queue, fed with the lines of its workers; see queueSpec. It also measures how long consumers were
// blocked at a list that had elements.
type queueLedger struct {
	ledger.Ledger
	mu                  sync.Mutex
	taking              map[int]int // by consumer: how many elements it is popping with one call
	operations          int64
	givenUp             bool
	longestWait, hiccup int64
	long                []interval // waits to be explained
	hiccups             []interval // that may explain them
	excused             int64      // elements that killed processes may have taken along
	pushes, refused     int64      // calls; refused are those that were not acknowledged
	unexpected          string
	half                string // a transaction whose parts disagree
	adopted, restored   int64  // calls that are done

	out     map[int][]byte  // by producer: the bits of the elements that came out, of those that set bits; nil if none does
	unknown map[string]bool // marks of transactions that may have taken an element
	takers  int64           // those that have
}

type interval struct{ from, to int64 }

func newLedger() *queueLedger {
	l := &queueLedger{taking: map[int]int{}, unknown: map[string]bool{}}
	l.Unreported = maxPipeline * maxBulk
	l.Waited = func(from, to int64) {
		l.longestWait = max(l.longestWait, to-from)
		if to-from > int64(lostWakeUp) {
			l.long = append(l.long, interval{from, to})
		}
	}
	return l
}

var fates = map[byte]ledger.Fate{'+': ledger.Done, '~': ledger.Done, '?': ledger.Unknown, '!': ledger.Refused}

// hear takes a line of a worker.
func (l *queueLedger) hear(line []byte) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	words := bytes.Fields(line)
	switch what := words[0][0]; what {
	case '+', '~', '?', '!':
		l.operations++
		l.pushes++
		if fates[what] != ledger.Done {
			l.refused++
		}
		n := numbers(words[1:])
		l.Push(ledger.Pushed{
			Producer: int(n[0]), First: int(n[1]), Count: int(n[2]), Fate: fates[what], At: n[3], Length: n[4], Replicated: what == '+',
		})
	case '-', '=':
		l.operations++
		n := numbers(words[1:4])
		delete(l.taking, int(n[0]))
		for _, run := range words[5:] {
			l.popRun(run, ledger.Popped{
				Consumer: int(n[0]), Start: n[1], End: n[2], Blocking: string(words[4]) == "true", Replicated: what == '-',
			})
		}
	case 'b':
		n := numbers(words[1:])
		l.taking[int(n[0])] = int(n[1])
	case 'g':
		l.givenUp = true
	case 't':
		n := numbers(words[1:])
		l.unknown[ledger.Name(int(n[0]), int(n[1]))] = true
	case 'p':
		l.half = string(line)
	case 'a':
		l.adopted++
	case 'r':
		l.restored++
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

// popRun enters a pop of elements that appendRuns has written as one word.
func (l *queueLedger) popRun(run []byte, p ledger.Popped) {
	value, times, several := bytes.Cut(run, []byte("*"))
	producer, first, ok := ledger.Parse(string(value))
	if !ok {
		l.PopForeign(string(value))
		return
	}
	p.Producer, p.First, p.Count = producer, first, 1
	if several {
		p.Count, _ = strconv.Atoi(string(times))
	}
	l.Pop(p)
	l.cameOut(p.Producer, p.First, p.Count)
}

// cameOut notes which elements came out, to compare them with the bits that their transactions have set.
func (l *queueLedger) cameOut(producer, first, count int) {
	for number := first; number < first+count; number++ {
		if len(l.unknown) > 0 && l.unknown[ledger.Name(producer, number)] {
			l.takers++
		}
		if l.out != nil && setsBits(producer) {
			setBit(l.out, producer, number)
		}
	}
}

// setBit sets a bit as Redis does.
func setBit(bits map[int][]byte, producer, number int) {
	for len(bits[producer]) <= number/8 {
		bits[producer] = append(bits[producer], 0)
	}
	bits[producer][number/8] |= 0x80 >> (number % 8)
}

// unexplained returns a wait that is longer than allowed, and the longest time for which the machine stalled a worker during it. It
// judges waits only some time after their end, when the worker has reported its hiccups, and returns how many it has yet to judge.
func (l *queueLedger) unexplained() (wait, held time.Duration, left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const delay = int64(time.Second)
	ready := now() - delay
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
	l.hiccups = slices.DeleteFunc(l.hiccups, func(h interval) bool { return h.to < ready-10*delay })
	return wait, held, len(l.long)
}

// close enters what the list holds at the end, and returns the tally. The elements of a pop that was given up may take a while to
// return to the list.
func (l *queueLedger) close(sc *scenario, read func() []string) ledger.Tally {
	var rest []string
	for deadline := time.Now().Add(putBackPatience); ; time.Sleep(100 * time.Millisecond) {
		if content := read(); sc.staleReads() {
			rest = append(rest, content...) // it was popped
		} else {
			rest = content
		}
		missing := l.Missing()
		for _, value := range rest {
			delete(missing, value)
		}
		l.mu.Lock()
		enough := int64(len(missing)) <= l.excused+l.takers || !l.givenUp
		l.mu.Unlock()
		if enough || time.Now().After(deadline) || sc.ctx.Err() != nil {
			break
		}
	}
	l.PopValues(ledger.Rest, rest...)
	for _, value := range rest {
		if producer, number, ok := ledger.Parse(value); ok {
			l.cameOut(producer, number, 1)
		}
	}
	return l.Tally()
}

// excuse notes that a process was killed: what its consumers were popping may be gone.
func (l *queueLedger) excuse(consumers []int) {
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

// appendRuns adds a word for each run of a producer's elements that follow each other: 7.12*3 for 7.12, 7.13 and 7.14. A value that is
// no element becomes a word that is none either.
func appendRuns(line []byte, values []string) []byte {
	for i := 0; i < len(values); {
		line = append(line, ' ')
		producer, first, ok := ledger.Parse(values[i])
		if !ok {
			line = fmt.Appendf(line, "%x", values[i])
			i++
			continue
		}
		count := 1
		for i+count < len(values) && ledger.Unpad(values[i+count]) == ledger.Name(producer, first+count) {
			count++
		}
		line = append(line, ledger.Name(producer, first)...)
		if count > 1 {
			line = strconv.AppendInt(append(line, '*'), int64(count), 10)
		}
		i += count
	}
	return line
}
