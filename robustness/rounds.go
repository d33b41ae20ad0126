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
)

const (
	roundsAtOnce  = 4
	roundsPerLot  = 48 // then the server is emptied: a list leaves records for a minute
	callsOfClient = 9
	roundPatience = time.Minute
)

// round is a round under way.
type round struct {
	records map[[2]int]record
	missing map[*process]bool // workers that are not done
	done    chan struct{}
}

// rounds makes short histories and checks each.
func (c *cell) rounds(ctx context.Context, nemesis func()) {
	running := map[int]*round{}
	leave := func(r *round, p *process) {
		if delete(r.missing, p); len(r.missing) == 0 {
			close(r.done)
		}
	}
	c.launch(func(p *process, line []byte) {
		var r report
		if err := json.Unmarshal(line, &r); err != nil {
			c.note(fmt.Errorf("a worker says %q: %w", line, err))
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		round := running[r.Round]
		if r.Done {
			leave(round, p)
			return
		}
		if r.Record.End == 0 {
			r.Record.Outcome.Fate = unknown // should it never be heard of again
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
	random := rand.New(rand.NewPCG(c.seed, 1))
	for first := 0; ctx.Err() == nil; first += roundsPerLot {
		var lot sync.WaitGroup
		next := make(chan roundSpec)
		for range roundsAtOnce {
			lot.Go(func() {
				for spec := range next {
					c.round(running, spec)
				}
			})
		}
		for i := range roundsPerLot {
			if ctx.Err() != nil {
				break
			}
			next <- c.specify(random, first+i)
		}
		close(next)
		lot.Wait()
		if c.ctx.Err() == nil {
			c.note(c.insist(c.empty))
		}
	}
	striking.Wait()
}

// specify draws what a round is like.
func (c *cell) specify(random *rand.Rand, number int) roundSpec {
	spec := roundSpec{
		Number: number, List: fmt.Sprintf("%s:%s:%d:%d", tag, c.fault.name, c.seed, number), Seed: random.Uint64(),
		Capacity: []int{1, 2, 3, 7}[random.IntN(4)], Clients: 1 + random.IntN(2), Calls: callsOfClient,
		Shared: random.IntN(2) == 0, Edits: random.IntN(3) == 0 && c.variant == "",
	}
	spec.Everyone = workers * spec.Clients
	if c.fault.cancel {
		if spec.Cancel = "waits"; random.IntN(2) == 0 {
			spec.Cancel, spec.Edits = "all", false
		}
	}
	return spec
}

// round makes one history and checks it.
func (c *cell) round(running map[int]*round, spec roundSpec) {
	r := &round{records: map[[2]int]record{}, missing: map[*process]bool{}, done: make(chan struct{})}
	c.mu.Lock()
	processes := c.processes
	for _, p := range processes {
		if !c.dead[p] {
			r.missing[p] = true
		}
	}
	if len(r.missing) == 0 {
		close(r.done)
	}
	running[spec.Number] = r
	c.mu.Unlock()
	for i, p := range processes {
		part := spec
		part.First = i * spec.Clients
		p.send(order{Round: &part})
	}
	select {
	case <-r.done:
	case <-c.ctx.Done():
		return
	case <-time.After(roundPatience):
		c.violate("round %d: a call takes more than %v\n%s", spec.Number, roundPatience, c.write("hung.json", pretty(c.history(running, spec))))
		return
	}
	history := c.history(running, spec)
	c.mu.Lock()
	delete(running, spec.Number)
	c.row.Rounds++
	c.row.Operations += int64(len(history))
	c.mu.Unlock()
	c.judge(spec, history)
}

// history is what has been heard of a round.
func (c *cell) history(running map[int]*round, spec roundSpec) (history []record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range running[spec.Number].records {
		history = append(history, r)
	}
	slices.SortFunc(history, func(a, b record) int { return cmp.Compare(a.Start, b.Start) })
	return history
}

// judge checks a history, to which it adds what the list holds at the end.
func (c *cell) judge(spec roundSpec, history []record) {
	list := c.open(spec.List)
	gaveUp := false
	cancelled := int64(0)
	for _, r := range history {
		if r.Call.Cancel > 0 {
			cancelled++
		}
		gaveUp = gaveUp || r.Outcome.Fate == givenUp
		if strings.HasPrefix(r.Outcome.Error, "unexpected: ") {
			c.violate("round %d: %s: %s", spec.Number, r.Call.Name, r.Outcome.Error)
		}
	}
	c.mu.Lock()
	c.row.Faults += cancelled
	c.mu.Unlock()
	if !gaveUp {
		c.porcupine(spec, append(history, c.final(list, spec)))
		c.check(list)
		return
	}
	c.mu.Lock()
	c.row.ByConservation++
	c.mu.Unlock()
	whole := append(history, c.final(list, spec))
	lost, doubled, invented := conserved(whole)
	for deadline := time.Now().Add(35 * time.Second); len(lost) > 0 && time.Now().Before(deadline) && c.ctx.Err() == nil; {
		time.Sleep(5 * time.Millisecond) // what a pop took that was given up is on its way back
		whole = append(history, c.final(list, spec))
		lost, doubled, invented = conserved(whole)
	}
	if c.ctx.Err() == nil && len(lost)+len(doubled)+len(invented) > 0 {
		c.violate("round %d: lost %v, doubled %v, never pushed %v: %s", spec.Number, lost, doubled, invented,
			c.write(fmt.Sprintf("round-%d.json", spec.Number), pretty(whole)))
	}
	c.check(list)
}

// final is the reading of the list that ends a history.
func (c *cell) final(list *shardedlist.ShardedList, spec roundSpec) record {
	r := record{Client: spec.Everyone, Call: call{Name: "lrange"}, Start: now()}
	if c.staleReads() {
		r.Call = call{Name: "lpop", Count: everything}
	}
	r.Outcome = outcome{Fate: done, Values: c.read(list)}
	r.End = now()
	return r
}

func (c *cell) porcupine(spec roundSpec, history []record) {
	if c.ctx.Err() != nil {
		return
	}
	if c.staleReads() {
		history = slices.DeleteFunc(slices.Clone(history), func(r record) bool { return r.Call.Name == "llen" || r.Call.Name == "lindex" })
	}
	ops := operations(history)
	result, info := porcupine.CheckOperationsVerbose(model, ops, 20*time.Second)
	switch result {
	case porcupine.Unknown:
		c.mu.Lock()
		c.row.Undecided++
		c.mu.Unlock()
	case porcupine.Illegal:
		var html bytes.Buffer
		if err := porcupine.Visualize(model, info, &html); err != nil {
			c.note(err)
		}
		c.violate("round %d of capacity %d: no order of the calls explains their results: %s %s", spec.Number, spec.Capacity,
			c.write(fmt.Sprintf("round-%d.json", spec.Number), pretty(history)),
			c.write(fmt.Sprintf("round-%d.html", spec.Number), html.Bytes()))
	}
}

func pretty(v any) []byte {
	text, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		panic(err)
	}
	return text
}
