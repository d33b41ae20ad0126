package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// A call is what a client asks of the list.
type call struct {
	Name    string   `json:"name"` // as go-redis names it, without its case
	Values  []string `json:"values,omitempty"`
	Pivot   string   `json:"pivot,omitempty"`
	Count   int      `json:"count,omitempty"` // or an index
	Timeout int64    `json:"timeout,omitempty"`
	Cancel  int64    `json:"cancel,omitempty"` // both in microseconds; 0: never
}

// An outcome is what a client knows of its call.
type outcome struct {
	Fate   fate     `json:"fate"`
	Values []string `json:"values,omitempty"`
	Number int64    `json:"number,omitempty"`
	Error  string   `json:"error,omitempty"`
}

type fate string

const (
	done    fate = "done"
	undone  fate = "undone"   // an error that says that nothing has changed
	unknown fate = "unknown"  // it may have been done, or may still be
	givenUp fate = "given up" // a pop: what it took goes back to its end
)

// A record is one call of a history. Its times are of a clock that all processes of the machine share.
type record struct {
	Client  int     `json:"client"`
	Index   int     `json:"index"`
	Call    call    `json:"call"`
	Start   int64   `json:"start"`
	End     int64   `json:"end,omitempty"` // 0: it never returned
	Outcome outcome `json:"outcome"`
}

// Errors that follow from what the list holds are results. So that one Number can tell, they have codes.
const (
	noSuchKey  = -2
	outOfRange = -3
)

// model is the list as its callers know it: a deque. A call whose outcome is unknown may be done with whatever result.
var model = porcupine.Model{
	Init: func() any { return []string(nil) },
	Step: func(state, input, output any) (bool, any) {
		values, out := state.([]string), output.(outcome)
		after, result := apply(values, input.(call))
		if out.Fate != done {
			return true, after
		}
		return result.Number == out.Number && slices.Equal(result.Values, out.Values), after
	},
	Equal:             func(a, b any) bool { return slices.Equal(a.([]string), b.([]string)) },
	DescribeOperation: func(input, output any) string { return describe(input.(call), output.(outcome)) },
	DescribeState:     func(state any) string { return fmt.Sprint(state) },
}

// apply returns what the list holds after a call, and the call's result. It leaves values as they are.
func apply(values []string, c call) (after []string, result outcome) {
	index := c.Count
	if index < 0 {
		index += len(values)
	}
	present := index >= 0 && index < len(values)
	switch c.Name {
	case "lpush":
		added := slices.Clone(c.Values)
		slices.Reverse(added)
		after = slices.Concat(added, values)
		return after, outcome{Number: int64(len(after))}
	case "rpush":
		after = slices.Concat(values, c.Values)
		return after, outcome{Number: int64(len(after))}
	case "lpop", "blpop":
		n := min(c.Count, len(values))
		return values[n:], outcome{Values: values[:n]}
	case "rpop", "brpop":
		rest := len(values) - min(c.Count, len(values))
		popped := slices.Clone(values[rest:])
		slices.Reverse(popped)
		return values[:rest:rest], outcome{Values: popped}
	case "llen":
		return values, outcome{Number: int64(len(values))}
	case "lrange":
		return values, outcome{Values: values}
	case "lindex":
		if present {
			return values, outcome{Values: values[index : index+1]}
		}
		return values, outcome{}
	case "lmove left right", "lmove right left":
		if len(values) == 0 {
			return values, outcome{}
		}
		last := len(values) - 1
		if c.Name == "lmove left right" {
			return slices.Concat(values[1:], values[:1]), outcome{Values: values[:1]}
		}
		return slices.Concat(values[last:], values[:last]), outcome{Values: values[last:]}
	case "lset":
		if len(values) == 0 {
			return values, outcome{Number: noSuchKey}
		}
		if !present {
			return values, outcome{Number: outOfRange}
		}
		after = slices.Clone(values)
		after[index] = c.Values[0]
		return after, outcome{}
	case "linsert before", "linsert after":
		at := slices.Index(values, c.Pivot)
		if len(values) == 0 {
			return values, outcome{}
		}
		if at < 0 {
			return values, outcome{Number: -1}
		}
		if c.Name == "linsert after" {
			at++
		}
		after = slices.Insert(slices.Clone(values), at, c.Values[0])
		return after, outcome{Number: int64(len(after))}
	case "lrem":
		after = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == c.Values[0] })
		return after, outcome{Number: int64(len(values) - len(after))}
	}
	panic("no model of " + c.Name)
}

func describe(c call, o outcome) string {
	var b strings.Builder
	b.WriteString(c.Name)
	if c.Pivot != "" {
		fmt.Fprintf(&b, " %s", c.Pivot)
	}
	for _, value := range c.Values {
		fmt.Fprintf(&b, " %s", value)
	}
	if len(c.Values) == 0 || c.Name == "lset" {
		fmt.Fprintf(&b, " %d", c.Count)
	}
	if o.Fate != done {
		fmt.Fprintf(&b, " → %s", o.Fate)
		return b.String()
	}
	fmt.Fprintf(&b, " → %v %d", o.Values, o.Number)
	return b.String()
}

// operations turns a history into porcupine's. What was not done is left out. What may have been done at any time after it began,
// and need not have been, never ends: at the very end, after all that was seen, it makes no difference.
func operations(history []record) (ops []porcupine.Operation) {
	for _, r := range history {
		op := porcupine.Operation{ClientId: r.Client, Input: r.Call, Output: r.Outcome, Call: r.Start, Return: r.End}
		switch r.Outcome.Fate {
		case undone:
			continue
		case unknown:
			op.Return = math.MaxInt64
		}
		ops = append(ops, op)
	}
	return ops
}

// conserved compares what was pushed with what came out, in whatever order. The last record is the list's content at the end. It
// returns the elements that are missing, those that came twice, and those that nobody pushed, or whose push was refused.
func conserved(history []record) (lost, doubled, invented []string) {
	pushed, seen, pending := map[string]fate{}, map[string]int{}, 0
	for _, r := range history {
		switch {
		case strings.HasSuffix(r.Call.Name, "push"):
			for _, value := range r.Call.Values {
				pushed[value] = r.Outcome.Fate
			}
		case r.Call.Name == "lset" || strings.HasPrefix(r.Call.Name, "linsert"):
			fate := r.Outcome.Fate
			if fate == done && r.Outcome.Number < 0 {
				fate = undone // there was no such index, or no such pivot
			}
			pushed[r.Call.Values[0]] = fate
			if r.Call.Name == "lset" && fate != undone {
				pending++ // what it put its value in place of
			}
		case r.Call.Name == "lrem" && r.Outcome.Fate != undone:
			pending++ // the element that it removed, if there was one
		case strings.HasSuffix(r.Call.Name, "pop") && r.Outcome.Fate == unknown:
			pending += r.Call.Count // by a process that was killed
		case strings.HasSuffix(r.Call.Name, "pop") || r.Call.Name == "lrange":
			for _, value := range r.Outcome.Values {
				seen[value]++
			}
		}
	}
	for value, times := range seen {
		if times > 1 {
			doubled = append(doubled, value)
		}
		if fate, ok := pushed[value]; !ok || fate == undone {
			invented = append(invented, value)
		}
	}
	for value, fate := range pushed {
		if fate == done && seen[value] == 0 {
			lost = append(lost, value)
		}
	}
	if len(lost) <= pending {
		lost = nil
	}
	return lost, doubled, invented
}
