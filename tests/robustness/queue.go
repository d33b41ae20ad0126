package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	producersPerWorker = 2
	consumersPerWorker = 3
)

const queueName = tag + ":queue"

// queue runs producers and consumers, and checks that each element came out once and in order.
func (sc *scenario) queue(ctx context.Context, nemesis func()) {
	ledger := newLedger()
	spec := queueSpec{
		Push: queueName, Pop: queueName, Capacity: 5, Seed: sc.seed, Cancel: sc.fault.cancel, Most: maxBulk,
		Blocking: sc.only == "blocking queue", Clients: sc.clients,
		Large: sc.clients == methods && !sc.fault.hasStrike("full memory"),
	}
	if sc.fault.hasStrike("kill a client") || spec.Blocking {
		spec.Most = maxBurst // elements that a killed client was popping are excused; few, so that they do not hide a loss
	}
	if sc.clients == spreadLists {
		spec.Most = min(spec.Most, 4*spec.Capacity) // above, a push is carried out in parts
	}
	if sc.clients == transactions {
		ledger.out = map[int][]byte{}
	}
	if sc.clients == rollout {
		sc.fillPlain(ledger, spec.Push)
	}
	sc.mu.Lock()
	sc.inPlay[queueName] = parts
	sc.mu.Unlock()
	everyone := sc.startWorkers(ledger, spec)
	var striking sync.WaitGroup
	striking.Go(nemesis)
	sc.watch(ctx, ledger)
	striking.Wait()
	if !sc.endQueue(everyone) {
		return
	}
	if sc.clients == rollout {
		sc.endRollout(ledger, spec)
	}
	ends := sc.openAll(spec)
	tally := ledger.close(sc, ends.read)
	ends.check()
	ends.judge(ledger)

	if sc.fault.cancel {
		sc.row.Faults += ledger.refused
	}
	sc.row.Operations += ledger.operations
	sc.row.Elements += int64(tally.Popped)
	sc.row.Doubled, sc.row.Disordered = int64(tally.Doubled+tally.Invented), int64(tally.Misplaced)
	sc.row.Lost = int64(tally.Lost)
	if excused := ledger.excused + ledger.takers; sc.row.Lost <= excused {
		sc.row.Lost, sc.row.Excused = 0, sc.row.Lost
	}
	sc.row.LongestWait, sc.row.Hiccup = time.Duration(ledger.longestWait), time.Duration(ledger.hiccup)
	switch {
	case sc.row.Lost > 0 || sc.row.Doubled > 0:
		sc.violate("%d lost (killed clients had %d at most), %d doubled, %d never pushed: %s", tally.Lost, ledger.excused, tally.Doubled, tally.Invented, tally.Example)
	case sc.row.Disordered > 0 && !ledger.givenUp:
		sc.violate("%d out of order: %s", tally.Misplaced, ledger.Misplaced())
	case sc.quit.Err() == nil:
		if err := ledger.Evidence(); err != nil {
			sc.missEvidence("most calls of the queue failed: %v", err)
		}
	}
	sc.watch(sc.ctx, ledger)
}

// watch checks what it can while a queue runs, until ctx ends. If ctx is the scenario's own, it returns when no wait is left to judge.
func (sc *scenario) watch(ctx context.Context, ledger *queueLedger) {
	for sc.ctx.Err() == nil {
		ledger.mu.Lock()
		unexpected, half := ledger.unexpected, ledger.half
		ledger.mu.Unlock()
		if half != "" {
			sc.tear("%s", half)
		}
		if unexpected != "" {
			sc.violate("an error that no fault explains: %s", unexpected)
		}
		if broken, example := ledger.Broken(); broken > 0 {
			sc.mu.Lock()
			sc.row.Doubled = int64(broken)
			sc.mu.Unlock()
			sc.violate("%d doubled or never pushed: %s", broken, example)
		}
		wait, held, left := ledger.unexplained()
		if wait > 0 && sc.fault.promisesWakeUp() {
			sc.violate("a consumer was blocked for %v at a list that had elements; the machine stalled it for %v at most", wait, held)
		}
		if ctx.Err() != nil || ctx == sc.ctx && left == 0 {
			return
		}
		sc.sleepIn(ctx, 200*time.Millisecond)
	}
}

// staff are the workers of a queue.
type staff struct {
	mu       sync.Mutex
	working  map[*process][]int // their consumers
	finished chan struct{}
	stopping bool
}

// startWorkers starts the workers of a queue, each with its own producers and consumers.
func (sc *scenario) startWorkers(ledger *queueLedger, spec queueSpec) *staff {
	s := &staff{working: map[*process][]int{}, finished: make(chan struct{})}
	sc.numbers = 1 // 0 is the producer that fills a list
	engage := func(p *process) {
		s.mu.Lock()
		defer s.mu.Unlock()
		own := spec
		for range producersPerWorker {
			own.Producers = append(own.Producers, sc.numbers)
			sc.numbers++
		}
		for range consumersPerWorker {
			own.Consumers = append(own.Consumers, sc.numbers)
			sc.numbers++
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
	sc.launch(func(p *process, line []byte) {
		if ledger.hear(line) {
			leave(p)
		}
	}, func(p *process) {
		s.mu.Lock()
		consumers, killed := s.working[p]
		s.mu.Unlock()
		if killed && !sc.fault.hasStrike("kill a client") {
			sc.note(errors.New("a worker has ended by itself"))
		}
		if killed {
			ledger.excuse(consumers)
			leave(p)
		}
	}, func(_ int, p *process) { engage(p) })
	for _, p := range sc.processes {
		engage(p)
	}
	return s
}

// endQueue stops the producers and waits for the consumers.
func (sc *scenario) endQueue(s *staff) bool {
	s.mu.Lock()
	s.stopping = true
	working := len(s.working)
	for p := range s.working {
		p.send(order{Stop: true})
	}
	s.mu.Unlock()
	if working == 0 {
		return sc.ctx.Err() == nil
	}
	select {
	case <-s.finished:
	case <-sc.ctx.Done():
	case <-time.After(roundPatience):
		sc.violate("a consumer is still running %v after the last push", roundPatience)
	}
	return sc.ctx.Err() == nil
}
