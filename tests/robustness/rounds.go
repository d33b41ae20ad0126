package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/ledger"
)

const (
	roundsAtOnce  = 4
	roundsPerLot  = 48 // then the server is emptied: the dedup records of a list live for a minute
	callsOfClient = 9
	fewerCalls    = 6 // where some pushes do not reply the length of the list, which helps porcupine
	roundPatience = time.Minute

	// putBackPatience is longer than the library takes to put back the elements of a pop that was given up.
	putBackPatience = 35 * time.Second
)

// round is a round in progress.
type round struct {
	records map[[2]int]history.Record
	missing map[*process]bool // workers that are not done
	done    chan struct{}
}

// rounds makes short histories and checks each of them.
func (sc *scenario) rounds(ctx context.Context, nemesis func()) {
	running := map[int]*round{}
	leave := func(r *round, p *process) {
		if delete(r.missing, p); len(r.missing) == 0 {
			close(r.done)
		}
	}
	sc.launch(func(p *process, line []byte) {
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			sc.note(fmt.Errorf("a worker says %q: %w", line, err))
			return
		}
		sc.mu.Lock()
		defer sc.mu.Unlock()
		round := running[r.Round]
		if r.Unexpected != "" {
			sc.violate("round %d: an error that no fault explains: %s", r.Round, r.Unexpected)
			return
		}
		if r.Done {
			leave(round, p)
			return
		}
		if r.Record.End == 0 {
			r.Record.Outcome.Fate = ledger.Unknown // unless a later line tells more
		}
		round.records[[2]int{r.Record.Client, r.Record.Index}] = r.Record
	}, func(p *process) {
		for _, r := range running {
			if r.missing[p] {
				leave(r, p)
			}
		}
	}, func(int, *process) {})

	var striking sync.WaitGroup
	striking.Go(nemesis)
	random := rand.New(rand.NewPCG(sc.seed, 1))
	for first := 0; ctx.Err() == nil; first += roundsPerLot {
		var lot sync.WaitGroup
		next := make(chan roundSpec)
		for range roundsAtOnce {
			lot.Go(func() {
				for spec := range next {
					sc.round(running, spec)
				}
			})
		}
		for i := range roundsPerLot {
			if ctx.Err() != nil {
				break
			}
			next <- sc.specify(random, first+i)
		}
		close(next)
		lot.Wait()
		if sc.ctx.Err() == nil {
			sc.note(sc.retry(sc.empty))
		}
	}
	striking.Wait()
}

// specify draws the parameters of a round.
func (sc *scenario) specify(random *rand.Rand, number int) roundSpec {
	spec := roundSpec{
		Number: number, List: fmt.Sprintf("%s:%s:%d:%d", tag, sc.fault.name, sc.seed, number), Seed: random.Uint64(),
		Capacity: []int{1, 2, 3, 7}[random.IntN(4)], Clients: 1 + random.IntN(2), Calls: callsOfClient,
		Shared: random.IntN(2) == 0, How: sc.clients,
		Edits: sc.clients == steps || random.IntN(3) == 0 && sc.variant == "" && sc.clients == methods,
		Parts: []int{1, 2, 3, 64}[random.IntN(4)],
	}
	if sc.clients != methods && sc.clients != steps {
		spec.Calls = fewerCalls
	}
	spec.Everyone = workers * spec.Clients
	if sc.fault.cancel {
		switch spec.Cancel = "waits"; {
		case sc.clients == steps:
			spec.Cancel = "changes" // Conserved, which a pop that is given up needs, knows no edits
		case random.IntN(2) == 0:
			spec.Cancel, spec.Edits = "all", false
		}
	}
	return spec
}

// round runs one round and checks its history.
func (sc *scenario) round(running map[int]*round, spec roundSpec) {
	r := &round{records: map[[2]int]history.Record{}, missing: map[*process]bool{}, done: make(chan struct{})}
	for _, call := range sc.begin(spec) {
		r.records[[2]int{call.Client, call.Index}] = call
	}
	sc.mu.Lock()
	processes := sc.processes
	for _, p := range processes {
		if !sc.dead[p] {
			r.missing[p] = true
		}
	}
	if len(r.missing) == 0 {
		close(r.done)
	}
	running[spec.Number], sc.inPlay[spec.List] = r, spec.Parts
	sc.mu.Unlock()
	for i, p := range processes {
		part := spec
		part.First = i * spec.Clients
		p.send(order{Round: &part})
	}
	select {
	case <-r.done:
	case <-sc.ctx.Done():
		return
	case <-time.After(roundPatience):
		sc.violate("round %d: a call takes more than %v\n%s", spec.Number, roundPatience, sc.write("hung.json", pretty(sc.history(running, spec))))
		return
	}
	calls := sc.history(running, spec)
	sc.mu.Lock()
	delete(running, spec.Number)
	delete(sc.inPlay, spec.List)
	sc.row.Rounds++
	sc.row.Operations += int64(len(calls))
	sc.mu.Unlock()
	sc.judge(spec, calls)
}

// history returns the calls of a round that workers have reported.
func (sc *scenario) history(running map[int]*round, spec roundSpec) (calls []history.Record) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for _, r := range running[spec.Number].records {
		calls = append(calls, r)
	}
	slices.SortFunc(calls, func(a, b history.Record) int { return cmp.Compare(a.Start, b.Start) })
	return calls
}

// judge appends the final content of the list to a history and checks it.
func (sc *scenario) judge(spec roundSpec, calls []history.Record) {
	list := sc.open(spec.List)
	gaveUp := false
	cancelled, answered := int64(0), 0
	for _, r := range calls {
		if r.Outcome.Fate == ledger.Done {
			answered++
		}
		if r.Call.Cancel > 0 {
			cancelled++
		}
		gaveUp = gaveUp || r.Outcome.Fate == ledger.GivenUp
		if strings.HasPrefix(r.Outcome.Error, "unexpected: ") {
			sc.violate("round %d: %s: %s", spec.Number, r.Call.Name, r.Outcome.Error)
		}
	}
	sc.mu.Lock()
	sc.row.Faults += cancelled
	sc.calls, sc.answered = sc.calls+len(calls), sc.answered+answered
	sc.mu.Unlock()
	if !gaveUp {
		sc.porcupine(spec, append(calls, sc.final(list, spec)))
		sc.check(list)
		return
	}
	sc.mu.Lock()
	sc.row.ByConservation++
	sc.mu.Unlock()
	whole := append(calls, sc.final(list, spec))
	lost, doubled, invented := history.Conserved(whole)
	for deadline := time.Now().Add(putBackPatience); len(lost) > 0 && time.Now().Before(deadline) && sc.ctx.Err() == nil; {
		time.Sleep(5 * time.Millisecond) // the elements of an abandoned pop are on their way back
		whole = append(calls, sc.final(list, spec))
		lost, doubled, invented = history.Conserved(whole)
	}
	if sc.ctx.Err() == nil && len(lost)+len(doubled)+len(invented) > 0 {
		sc.violate("round %d: lost %v, doubled %v, never pushed %v: %s", spec.Number, lost, doubled, invented,
			sc.write(fmt.Sprintf("round-%d.json", spec.Number), pretty(whole)))
	}
	sc.check(list)
}

// final reads the list, which ends a history.
func (sc *scenario) final(list *shardedlist.ShardedList, spec roundSpec) history.Record {
	r := history.Record{Client: spec.Everyone, Call: history.Call{Name: "lrange"}, Start: now()}
	if sc.staleReads() {
		r.Call = history.Call{Name: "lpop", Count: everything}
	}
	r.Outcome = history.Outcome{Fate: ledger.Done, Values: sc.read(list)}
	r.End = now()
	return r
}

func (sc *scenario) porcupine(spec roundSpec, calls []history.Record) {
	if sc.ctx.Err() != nil {
		return
	}
	if sc.staleReads() {
		calls = slices.DeleteFunc(slices.Clone(calls), func(r history.Record) bool { return r.Call.Name == "llen" || r.Call.Name == "lindex" })
	}
	ops := history.Operations(calls)
	result, info := porcupine.CheckOperationsVerbose(history.Model, ops, 20*time.Second)
	switch result {
	case porcupine.Unknown:
		sc.mu.Lock()
		sc.row.Undecided++
		sc.mu.Unlock()
		sc.write(fmt.Sprintf("undecided-%d.json", spec.Number), pretty(calls))
	case porcupine.Illegal:
		var html bytes.Buffer
		if err := porcupine.Visualize(history.Model, info, &html); err != nil {
			sc.note(err)
		}
		sc.violate("round %d of capacity %d: no order of the calls explains their results: %s %s", spec.Number, spec.Capacity,
			sc.write(fmt.Sprintf("round-%d.json", spec.Number), pretty(calls)),
			sc.write(fmt.Sprintf("round-%d.html", spec.Number), html.Bytes()))
	}
}

func pretty(v any) []byte {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return text
}
