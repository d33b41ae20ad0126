// Package history tells whether an order of the calls explains what the callers of a list saw.
//
// A history is the calls of several clients with their times and outcomes. [Model] is the list for porcupine: a deque, to which each
// call is applied at one moment between its start and its end. [Conserved] only compares what went in with what came out, for
// histories in which order is not promised. [Apply] is one operation as Redis specifies it, for tests that run one after the other.
package history

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/shardedlist/shardedlist/internal/ledger"
)

// A Call is what a client asks of the list.
type Call struct {
	Name    string   `json:"name"` // as go-redis names it, without its case
	Values  []string `json:"values,omitempty"`
	Pivot   string   `json:"pivot,omitempty"`
	Count   int      `json:"count,omitempty"` // or an index
	Timeout int64    `json:"timeout,omitempty"`
	Cancel  int64    `json:"cancel,omitempty"` // both in microseconds; 0: never
}

// An Outcome is what a client knows of its call.
type Outcome struct {
	Fate    ledger.Fate `json:"fate"`
	Values  []string    `json:"values,omitempty"`
	Number  int64       `json:"number,omitempty"`
	Inexact bool        `json:"inexact,omitempty"` // Number is not that of this list, or not exact
	Error   string      `json:"error,omitempty"`
}

// A Record is one call of a history. Its times are of one clock, which all clients share.
type Record struct {
	Client  int     `json:"client"`
	Index   int     `json:"index"`
	Call    Call    `json:"call"`
	Start   int64   `json:"start"`
	End     int64   `json:"end,omitempty"` // 0: it never returned
	Outcome Outcome `json:"outcome"`
}

// Errors that follow from what the list holds are results. They have codes, so that Number can hold them.
const (
	NoSuchKey  = -2
	OutOfRange = -3
)

// Model is a list as its callers know it: a deque. A call whose outcome is unknown may have any result. The inputs of its operations
// are Calls, their outputs Outcomes.
var Model = porcupine.Model{
	Init: func() any { return []string(nil) },
	Step: func(state, input, output any) (bool, any) {
		values, out := state.([]string), output.(Outcome)
		after, result := Apply(values, input.(Call))
		if out.Fate != ledger.Done {
			return true, after
		}
		return (out.Inexact || result.Number == out.Number) && slices.Equal(result.Values, out.Values), after
	},
	Equal:             func(a, b any) bool { return slices.Equal(a.([]string), b.([]string)) },
	DescribeOperation: func(input, output any) string { return describe(input.(Call), output.(Outcome)) },
	DescribeState:     func(state any) string { return fmt.Sprint(state) },
}

// Apply returns what the list holds after a call, and the call's result. It does not change values.
func Apply(values []string, c Call) (after []string, result Outcome) {
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
		return after, Outcome{Number: int64(len(after))}
	case "rpush":
		after = slices.Concat(values, c.Values)
		return after, Outcome{Number: int64(len(after))}
	case "lpop", "blpop":
		n := min(c.Count, len(values))
		return values[n:], Outcome{Values: values[:n]}
	case "rpop", "brpop":
		rest := len(values) - min(c.Count, len(values))
		popped := slices.Clone(values[rest:])
		slices.Reverse(popped)
		return values[:rest:rest], Outcome{Values: popped}
	case "llen":
		return values, Outcome{Number: int64(len(values))}
	case "lrange":
		return values, Outcome{Values: values}
	case "lindex":
		if present {
			return values, Outcome{Values: values[index : index+1]}
		}
		return values, Outcome{}
	case "lmove left right", "lmove right left":
		if len(values) == 0 {
			return values, Outcome{}
		}
		last := len(values) - 1
		if c.Name == "lmove left right" {
			return slices.Concat(values[1:], values[:1]), Outcome{Values: values[:1]}
		}
		return slices.Concat(values[last:], values[:last]), Outcome{Values: values[last:]}
	case "lset":
		if len(values) == 0 {
			return values, Outcome{Number: NoSuchKey}
		}
		if !present {
			return values, Outcome{Number: OutOfRange}
		}
		after = slices.Clone(values)
		after[index] = c.Values[0]
		return after, Outcome{}
	case "linsert before", "linsert after":
		at := slices.Index(values, c.Pivot)
		if len(values) == 0 {
			return values, Outcome{}
		}
		if at < 0 {
			return values, Outcome{Number: -1}
		}
		if c.Name == "linsert after" {
			at++
		}
		after = slices.Insert(slices.Clone(values), at, c.Values[0])
		return after, Outcome{Number: int64(len(after))}
	case "lpos":
		return values, Outcome{Number: int64(slices.Index(values, c.Values[0]))}
	case "lrem":
		after = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == c.Values[0] })
		return after, Outcome{Number: int64(len(values) - len(after))}
	}
	panic("no model of " + c.Name)
}

func describe(c Call, o Outcome) string {
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
	if o.Fate != ledger.Done {
		fmt.Fprintf(&b, " → %s", o.Fate)
		return b.String()
	}
	fmt.Fprintf(&b, " → %v %d", o.Values, o.Number)
	return b.String()
}

// Operations turns a history into porcupine's. It omits refused calls. A call whose outcome is unknown never ends: it may be applied
// at any time after its start, and after everything that was seen it makes no difference.
func Operations(history []Record) (ops []porcupine.Operation) {
	for _, r := range history {
		op := porcupine.Operation{ClientId: r.Client, Input: r.Call, Output: r.Outcome, Call: r.Start, Return: r.End}
		switch r.Outcome.Fate {
		case ledger.Refused:
			continue
		case ledger.Unknown:
			op.Return = math.MaxInt64
		}
		ops = append(ops, op)
	}
	return ops
}

// Conserved compares what was pushed with what came out, in any order. The last record is the list's content at the end. It returns
// the elements that are missing, those that came out twice, and those that nobody pushed or whose push was refused.
func Conserved(history []Record) (lost, doubled, invented []string) {
	pushed, seen, pending := map[string]ledger.Fate{}, map[string]int{}, 0
	for _, r := range history {
		switch {
		case strings.HasSuffix(r.Call.Name, "push"):
			for _, value := range r.Call.Values {
				pushed[value] = r.Outcome.Fate
			}
		case r.Call.Name == "lset" || strings.HasPrefix(r.Call.Name, "linsert"):
			fate := r.Outcome.Fate
			if fate == ledger.Done && r.Outcome.Number < 0 {
				fate = ledger.Refused // there was no such index, or no such pivot
			}
			pushed[r.Call.Values[0]] = fate
			if r.Call.Name == "lset" && fate != ledger.Refused {
				pending++ // what it put its value in place of
			}
		case r.Call.Name == "lrem" && r.Outcome.Fate != ledger.Refused:
			pending++ // the element that it removed, if there was one
		case strings.HasSuffix(r.Call.Name, "pop") && r.Outcome.Fate == ledger.Unknown:
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
		if fate, ok := pushed[value]; !ok || fate == ledger.Refused {
			invented = append(invented, value)
		}
	}
	for value, fate := range pushed {
		if fate == ledger.Done && seen[value] == 0 {
			lost = append(lost, value)
		}
	}
	if len(lost) <= pending {
		lost = nil
	}
	return lost, doubled, invented
}
