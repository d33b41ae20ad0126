package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
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

// ledger holds what was pushed and popped.
type ledger struct {
	mu                   sync.Mutex
	elements             map[int][]element // by producer
	last                 map[int]map[int]int
	operations           int64
	pushed, popped       int
	disordered, invented int64
	givenUp              bool
	longestWait, hiccup  int64
	excused              int64 // elements that killed processes may have taken along
	unexpected           string
}

func newLedger() *ledger {
	return &ledger{elements: map[int][]element{}, last: map[int]map[int]int{}}
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
		fates := map[byte]fate{'+': done, '~': done, '?': unknown, '!': undone}
		for i := range n[2] {
			e := l.element(int(n[0]), int(n[1]+i))
			e.fate, e.replicated = fates[what], what == '+'
			if e.fate == done {
				l.pushed++
				e.acked, e.length = n[3], n[4]-n[2]+1+i
				l.wait(e)
			}
		}
	case '-', '=':
		l.operations++
		n := numbers(words[1:4])
		for _, word := range words[5:] {
			l.pop(int(n[0]), string(word), what == '-', string(words[4]) == "true", n[1], n[2])
		}
	case 'g':
		l.givenUp = true
	case 'x':
		l.unexpected = string(line)
	case 'h':
		l.hiccup = max(l.hiccup, numbers(words[1:])[0])
	case '.':
		return true
	}
	return false
}

// pop notes that a consumer got an element, consumer -1 being the list's content at the end.
func (l *ledger) pop(consumer int, value string, replicated, blocking bool, start, end int64) {
	left, right, _ := bytes.Cut([]byte(value), []byte("."))
	producer, err1 := strconv.Atoi(string(left))
	number, err2 := strconv.Atoi(string(right))
	if err1 != nil || err2 != nil || number < 0 || number > 1<<30 {
		l.invented++
		return
	}
	e := l.element(producer, number)
	e.seen++
	l.popped++
	if e.out == 0 || end < e.out {
		e.out, e.outReplicated = end, replicated
	}
	if blocking {
		e.start, e.end = start, end
		l.wait(e)
	}
	if l.last[consumer] == nil {
		l.last[consumer] = map[int]int{}
	}
	if last, ok := l.last[consumer][producer]; ok && number < last {
		l.disordered++
	}
	l.last[consumer][producer] = number
}

// wait measures for how long the list had the element while its consumer was blocked, once both are known.
func (l *ledger) wait(e *element) {
	if e.acked > 0 && e.end > 0 {
		l.longestWait = max(l.longestWait, e.end-max(e.acked, e.start))
	}
}

func (l *ledger) element(producer, number int) *element {
	for len(l.elements[producer]) <= number {
		l.elements[producer] = append(l.elements[producer], element{})
	}
	return &l.elements[producer][number]
}

// verdict counts elements acknowledged that did not come out, that came out more than once, and that came out although their push
// had been refused, or had not begun.
func (l *ledger) verdict() (lost, doubled, invented int64, example string) {
	invented = l.invented
	for producer, elements := range l.elements {
		attempted := 0
		for i, e := range elements {
			if e.fate != "" {
				attempted = i + 1
			}
			switch {
			case e.seen > 1:
				doubled++
				example = fmt.Sprintf("%d.%d came %d times", producer, i, e.seen)
			case e.seen == 1 && (e.fate == undone || i >= attempted+maxBurst):
				invented++
				example = fmt.Sprintf("%d.%d was not pushed", producer, i)
			case e.seen == 0 && e.fate == done:
				lost++
				if lost == 1 {
					example = fmt.Sprintf("%d.%d did not come", producer, i)
				}
			}
		}
	}
	return lost, doubled, invented, example
}

func numbers(words [][]byte) []int64 {
	out := make([]int64, len(words))
	for i, word := range words {
		out[i], _ = strconv.ParseInt(string(word), 10, 64)
	}
	return out
}

const (
	producersPerWorker = 2
	consumersPerWorker = 3
)

// queue runs producers and consumers, and checks that each element came out once.
func (c *cell) queue(ctx context.Context, nemesis func()) {
	books := newLedger()
	spec := queueSpec{Push: tag + ":queue", Pop: tag + ":queue", Capacity: 5, Seed: c.seed, Cancel: c.fault.cancel}
	everyone := c.employ(books, spec)
	var striking sync.WaitGroup
	striking.Go(nemesis)
	c.watch(ctx, books)
	striking.Wait()
	if !c.endQueue(everyone) {
		return
	}
	list := c.open(spec.Pop)
	lost, doubled, invented, example := books.settle(c, func() []string { return c.read(list) })
	c.check(list)

	c.row.Operations += books.operations
	c.row.Elements += int64(books.popped)
	c.row.Doubled, c.row.Disordered = doubled+invented, books.disordered
	c.row.Lost = lost
	if lost <= books.excused {
		c.row.Lost, c.row.Excused = 0, lost
	}
	c.row.LongestWait, c.row.Hiccup = time.Duration(books.longestWait), time.Duration(books.hiccup)
	switch {
	case c.row.Lost > 0 || c.row.Doubled > 0:
		c.violate("%d lost (killed clients had %d at most), %d doubled, %d never pushed: %s", lost, books.excused, doubled, invented, example)
	case c.row.Disordered > 0 && !books.givenUp:
		c.violate("%d out of order", books.disordered)
	}
	c.watch(c.ctx, books)
}

// watch looks for what can be told while a queue runs, until ctx ends; once if that is the cell's.
func (c *cell) watch(ctx context.Context, books *ledger) {
	late := false
	for c.ctx.Err() == nil {
		books.mu.Lock()
		wait, hiccup, unexpected := time.Duration(books.longestWait), time.Duration(books.hiccup), books.unexpected
		books.mu.Unlock()
		if unexpected != "" {
			c.violate("an error that nothing explains: %s", unexpected)
		}
		tooLong := c.fault.promisesWakeUp() && wait > lostWakeUp+hiccup
		if tooLong && late { // by now a hiccup would have been reported
			c.violate("a consumer was blocked for %v at a list that had elements; the machine held it up for %v at most", wait, hiccup)
		}
		late = tooLong
		if ctx.Err() != nil || ctx == c.ctx && !late {
			return
		}
		c.sleepIn(ctx, 200*time.Millisecond)
	}
}

// staff is the workers of a queue.
type staff struct {
	mu       sync.Mutex
	working  map[*process]bool
	finished chan struct{}
	stopping bool
}

// employ starts the workers of a queue, each with producers and consumers of its own.
func (c *cell) employ(books *ledger, spec queueSpec) *staff {
	s := &staff{working: map[*process]bool{}, finished: make(chan struct{})}
	number := 1 // 0 is who fills a list
	engage := func(p *process) {
		s.mu.Lock()
		defer s.mu.Unlock()
		own := spec
		for range producersPerWorker {
			own.Producers = append(own.Producers, number)
			number++
		}
		for range consumersPerWorker {
			own.Consumers = append(own.Consumers, number)
			number++
		}
		s.working[p] = true
		p.send(order{Queue: &own})
	}
	leave := func(p *process) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.working, p)
		if s.stopping && len(s.working) == 0 {
			s.stopping = false
			close(s.finished)
		}
	}
	c.launch(func(p *process, line []byte) {
		if books.hear(line) {
			leave(p)
		}
	}, func(p *process) {
		s.mu.Lock()
		killed := s.working[p]
		s.mu.Unlock()
		if killed {
			books.mu.Lock()
			books.excused += consumersPerWorker * maxBurst
			books.mu.Unlock()
			leave(p)
		}
	}, func(_ int, p *process) { engage(p) })
	for _, p := range c.processes {
		engage(p)
	}
	return s
}

// endQueue stops the producers and waits for the consumers.
func (c *cell) endQueue(s *staff) bool {
	s.mu.Lock()
	s.stopping = true
	working := len(s.working)
	for p := range s.working {
		p.send(order{Stop: true})
	}
	s.mu.Unlock()
	if working == 0 {
		return c.ctx.Err() == nil
	}
	select {
	case <-s.finished:
	case <-c.ctx.Done():
	case <-time.After(roundPatience):
		c.violate("a consumer has not ended %v after the last push", roundPatience)
	}
	return c.ctx.Err() == nil
}

// settle adds what the list holds at the end. What pops that were given up took may be on its way back for a while.
func (l *ledger) settle(c *cell, read func() []string) (lost, doubled, invented int64, example string) {
	for deadline := time.Now().Add(35 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		rest := read()
		l.mu.Lock()
		for _, value := range rest {
			l.pop(-1, value, true, false, 0, 0)
		}
		if lost, doubled, invented, example = l.verdict(); lost <= l.excused || !l.givenUp || doubled+invented > 0 || time.Now().After(deadline) || c.ctx.Err() != nil {
			l.mu.Unlock()
			return lost, doubled, invented, example
		}
		for _, value := range rest {
			l.unpop(value)
		}
		l.mu.Unlock()
	}
}

// unpop takes back what pop noted of the list's content.
func (l *ledger) unpop(value string) {
	delete(l.last, -1)
	l.popped--
	left, right, _ := bytes.Cut([]byte(value), []byte("."))
	producer, _ := strconv.Atoi(string(left))
	number, _ := strconv.Atoi(string(right))
	l.element(producer, number).seen--
}
