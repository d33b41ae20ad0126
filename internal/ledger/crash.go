package ledger

import "slices"

// Undone is what a failover has undone of the operations on a list, and what it must not have.
type Undone struct {
	// Positions are those of the operations that were undone, in order: the lengths that pushes returned, or the numbers of the
	// elements that pops returned. A crash undoes the end of a history, so they follow each other; see Gaps.
	Positions []int64

	Replicated []string // elements whose operation was undone although it was replicated
	Lost       int      // elements that are nowhere
	Doubled    int      // elements that are in one place too many
	Invented   int      // elements in the list that nobody pushed
	Misplaced  int      // elements at another place in the list than they were
	Torn       []int    // producers whose elements were kept, undone, kept and undone again
}

// Gaps returns how many operations between the first and the last undone were not, as far as was heard: operations whose results
// nobody got, or none.
func (u Undone) Gaps() int64 {
	n := len(u.Positions)
	if n == 0 {
		return 0
	}
	return u.Positions[n-1] - u.Positions[0] - int64(n-1)
}

// UndonePushes compares the pushes at the right end of a list, from which nobody popped, with what the list holds. The ledger must
// be complete.
func (l *Ledger) UndonePushes(content []string) (u Undone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	position := map[string]int64{}
	for i, value := range content {
		if position[value] > 0 {
			u.Doubled++
		}
		position[value] = int64(i + 1)
	}
	for producer, elements := range l.all() {
		var kept []bool
		for number, e := range elements {
			name := Name(producer, number)
			at := position[name]
			if e.fate == Unknown {
				delete(position, name)
			}
			if e.fate != Done {
				continue
			}
			delete(position, name)
			kept = append(kept, at > 0)
			switch {
			case at == 0:
				u.Positions = append(u.Positions, e.length)
				if e.replicated {
					u.Replicated = append(u.Replicated, name)
				}
			case at != e.length:
				u.Misplaced++
			}
		}
		if len(slices.Compact(kept)) > 3 {
			u.Torn = append(u.Torn, producer)
		}
	}
	u.Invented = len(position)
	slices.Sort(u.Positions)
	return u
}

// UndonePops compares the pops at one end of a list, which was filled with that many elements of producer 0, with what is left in it
// from that end on. An element whose pop was undone came out twice, or came out and is left. The ledger must be complete.
func (l *Ledger) UndonePops(filled int, left []string) (u Undone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	elements := l.all()[0]
	for i := range filled {
		var e element
		if i < len(elements) {
			e = elements[i]
		}
		places := e.seen
		if i >= filled-len(left) {
			places++
		}
		switch {
		case places == 0:
			u.Lost++
		case places > 2:
			u.Doubled++
		case places == 2:
			u.Positions = append(u.Positions, int64(i))
			if e.outReplicated {
				u.Replicated = append(u.Replicated, Name(0, i))
			}
		}
	}
	for i, value := range left {
		if value != Name(0, filled-len(left)+i) {
			u.Misplaced++
		}
	}
	return u
}

// UndonePushesSince is UndonePushes for a list over several nodes, of which one has failed: what went to the others stays. So nothing is
// undone that had returned before the node was the last to know, but what is may have gaps. Positions are the times of return.
func (l *Ledger) UndonePushesSince(since int64, content []string) (u Undone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := map[string]int{}
	latest := map[int]int{}
	for _, value := range content {
		if times[value]++; times[value] > 1 {
			u.Doubled++
			continue
		}
		producer, number, _ := Parse(value)
		if before, met := latest[producer]; met && number < before {
			u.Misplaced++
		}
		latest[producer] = max(latest[producer], number)
	}
	for producer, elements := range l.all() {
		for number, e := range elements {
			name := Name(producer, number)
			there := times[name] > 0
			if e.fate == Unknown || e.fate == Done {
				delete(times, name)
			}
			if there || e.fate != Done {
				continue
			}
			u.note(e.acked, since, e.replicated, name, &u.Lost)
		}
	}
	u.Invented = len(times)
	slices.Sort(u.Positions)
	return u
}

// UndonePopsSince is to UndonePops what UndonePushesSince is to UndonePushes.
func (l *Ledger) UndonePopsSince(since int64, filled int, left []string) (u Undone) {
	l.mu.Lock()
	defer l.mu.Unlock()
	places := map[int]int{}
	latest := -1
	for _, value := range left {
		producer, number, ok := Parse(value)
		switch {
		case !ok || producer != 0 || number >= filled:
			u.Invented++
			continue
		case number < latest:
			u.Misplaced++
		}
		places[number]++
		latest = max(latest, number)
	}
	elements := l.all()[0]
	for i := range filled {
		var e element
		if i < len(elements) {
			e = elements[i]
		}
		switch n := places[i] + e.seen; {
		case n == 0:
			u.Lost++
		case n > 2:
			u.Doubled++
		case n == 2:
			u.note(e.out, since, e.outReplicated, Name(0, i), &u.Doubled)
		}
	}
	slices.Sort(u.Positions)
	return u
}

// note notes an operation that was undone. It counts as wrong if it had returned too early for that.
func (u *Undone) note(returned, since int64, replicated bool, name string, wrong *int) {
	if returned < since {
		*wrong++
		return
	}
	u.Positions = append(u.Positions, returned)
	if replicated {
		u.Replicated = append(u.Replicated, name)
	}
}

// all returns the elements by producer, so that the index of each is its number.
func (l *Ledger) all() map[int][]element {
	elements := map[int][]element{}
	for producer, blocks := range l.blocks {
		for _, b := range blocks {
			elements[producer] = slices.Concat(elements[producer], b.elements, make([]element, blockSize-len(b.elements)))
		}
	}
	return elements
}
