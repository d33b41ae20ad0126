package main

import (
	"context"
	"sync"
	"time"
)

const (
	producersPerWorker = 2
	consumersPerWorker = 3
)

// queue runs producers and consumers, and checks that each element came out once.
func (c *cell) queue(ctx context.Context, nemesis func()) {
	books := newLedger()
	spec := queueSpec{
		Push: tag + ":queue", Pop: tag + ":queue", Capacity: 5, Seed: c.seed, Cancel: c.fault.cancel, Most: maxBulk, Blocking: c.only == "blocking queue",
	}
	if c.fault.hasStrike("kill a client") || spec.Blocking {
		spec.Most = maxBurst // what a killed one takes along is excused, and must not hide what is lost
	}
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

// watch looks for what can be told while a queue runs, until ctx ends; if that is the cell's, until nothing is left to tell.
func (c *cell) watch(ctx context.Context, books *ledger) {
	for c.ctx.Err() == nil {
		books.mu.Lock()
		doubled, invented, example, unexpected := books.doubled, books.invented, books.example, books.unexpected
		books.mu.Unlock()
		if unexpected != "" {
			c.violate("an error that nothing explains: %s", unexpected)
		}
		if doubled+invented > 0 {
			c.mu.Lock()
			c.row.Doubled = doubled + invented
			c.mu.Unlock()
			c.violate("%d doubled, %d never pushed: %s", doubled, invented, example)
		}
		wait, held, left := books.unexplained()
		if wait > 0 && c.fault.promisesWakeUp() {
			c.violate("a consumer was blocked for %v at a list that had elements; the machine held it up for %v at most", wait, held)
		}
		if ctx.Err() != nil || ctx == c.ctx && left == 0 {
			return
		}
		c.sleepIn(ctx, 200*time.Millisecond)
	}
}

// staff is the workers of a queue.
type staff struct {
	mu       sync.Mutex
	working  map[*process][]int // their consumers
	finished chan struct{}
	stopping bool
}

// employ starts the workers of a queue, each with producers and consumers of its own.
func (c *cell) employ(books *ledger, spec queueSpec) *staff {
	s := &staff{working: map[*process][]int{}, finished: make(chan struct{})}
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
		s.working[p] = own.Consumers
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
		consumers, killed := s.working[p]
		s.mu.Unlock()
		if killed {
			books.excuse(consumers)
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
