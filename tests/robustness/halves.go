package main

import (
	"context"
	"fmt"
	"math/bits"
	"slices"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
)

// ends are the lists of a queue at its end.
type ends struct {
	sc      *scenario
	spec    queueSpec
	lists   []*shardedlist.ShardedList
	content [][]string // of each list
}

func (sc *scenario) openAll(spec queueSpec) *ends {
	e := &ends{sc: sc, spec: spec}
	for _, name := range spec.lists(spec.Pop) {
		e.lists = append(e.lists, sc.open(name))
	}
	e.content = make([][]string, len(e.lists))
	return e
}

// read returns what the lists hold. Of two that should be equal it reads both and returns one.
func (e *ends) read() (values []string) {
	for i, list := range e.lists {
		content := e.sc.read(list)
		if e.sc.staleReads() {
			e.content[i] = append(e.content[i], content...) // it was popped
		} else {
			e.content[i] = content
		}
		if e.spec.Clients != transactions || i != 1 {
			values = append(values, content...)
		}
	}
	return values
}

func (e *ends) check() {
	for _, list := range e.lists {
		e.sc.check(list)
	}
}

// judge checks that transactions were carried out as a whole: two lists are equal, and the bits are those of the elements that came out.
func (e *ends) judge(l *queueLedger) {
	if e.sc.ctx.Err() != nil || e.spec.Clients != transactions {
		return
	}
	if !slices.Equal(e.content[0], e.content[1]) {
		e.sc.tear("%d elements in one list, %d others in the other", len(e.content[0]), len(e.content[1]))
	}
	e.sc.judgeBits(l.out, e.spec.Push, l.excused+l.takers)
}

// judgeHalves is judge for the lists of a crash, which keep what was pushed.
func (sc *scenario) judgeHalves(spec queueSpec, content, left []string) {
	for name, want := range map[string][]string{spec.lists(spec.Push)[1]: content, spec.lists(spec.Pop)[1]: left} {
		list := sc.open(name)
		if got := sc.read(list); sc.ctx.Err() == nil && !slices.Equal(got, want) {
			sc.tear("%d elements in one list, %d others in %s", len(want), len(got), name)
		}
		sc.check(list)
	}
	pushed := map[int][]byte{}
	for _, value := range content {
		if producer, number, ok := ledger.Parse(value); ok && setsBits(producer) {
			setBit(pushed, producer, number)
		}
	}
	sc.judgeBits(pushed, spec.Push, 0)
	taken := 0
	for _, bits := range sc.allBits(spec.Pop) {
		taken += count(bits)
	}
	if want := filled - len(left); sc.ctx.Err() == nil && taken != want {
		sc.tear("%d of %d elements were taken, by %d transactions that have set their bit", want, filled, taken)
	}
}

// judgeBits compares the bits that transactions have set with the elements that they have pushed. Some may have been pushed and lost.
func (sc *scenario) judgeBits(pushed map[int][]byte, name string, excused int64) {
	set := sc.allBits(name)
	if sc.ctx.Err() != nil {
		return
	}
	missing, example := int64(0), ""
	for producer, out := range pushed {
		if n := without(out, set[producer]); n > 0 {
			sc.tear("%d elements of %d were pushed, but their bits are not set", n, producer)
		}
	}
	for producer, bits := range set {
		if n := without(bits, pushed[producer]); n > 0 {
			missing += int64(n)
			example = fmt.Sprint(producer)
		}
	}
	if missing > excused {
		sc.tear("%d bits were set, by %s among others, of elements that were not pushed; %d at most were lost", missing, example, excused)
	}
}

// allBits reads the bits of all producers.
func (sc *scenario) allBits(name string) map[int][]byte {
	all := map[int][]byte{}
	for producer := 2; producer < 2*sc.numbers; producer += 2 {
		sc.note(sc.retry(func(ctx context.Context) error {
			got, err := sc.rdb.GetRange(ctx, bitsOf(name, producer), 0, -1).Bytes()
			all[producer] = got
			return err
		}))
	}
	return all
}

// count counts bits.
func count(bytes []byte) (n int) {
	for _, b := range bytes {
		n += bits.OnesCount8(b)
	}
	return n
}

// without counts the bits that are in one and not in the other.
func without(in, notIn []byte) (n int) {
	for i, b := range in {
		if i < len(notIn) {
			b &^= notIn[i]
		}
		n += bits.OnesCount8(b)
	}
	return n
}
