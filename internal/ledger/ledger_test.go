package ledger

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNamesAreUnique(t *testing.T) {
	producer, number, ok := Parse(Pad(Name(7, 12), 3))
	assert.True(t, ok)
	assert.Equal(t, []int{7, 12}, []int{producer, number})
	for _, strange := range []string{"", "7", "7.", ".12", "7.012", "-7.12", "7.-1", "7.12 ", "7.x", "7.12.1", "7.1073741824"} {
		_, _, ok := Parse(strange)
		assert.False(t, ok, strange)
	}
}

func TestTheLedgerTellsWhatIsWrong(t *testing.T) {
	type pop struct {
		consumer int
		value    string
	}
	for name, test := range map[string]struct {
		pops []pop
		want Tally
	}{
		"all well":                 {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}}, Tally{Popped: 5}},
		"interleaved":              {[]pop{{0, "1.0"}, {1, "0.0"}, {1, "1.1"}, {0, "0.1"}, {0, "1.2"}}, Tally{Popped: 5}},
		"one consumer was slow":    {[]pop{{0, "0.1"}, {1, "0.0"}, {0, "1.2"}, {1, "1.0"}, {1, "1.1"}}, Tally{Popped: 5}},
		"left at the end":          {[]pop{{0, "0.0"}, {0, "0.1"}, {Rest, "1.0"}, {Rest, "1.1"}, {Rest, "1.2"}}, Tally{Popped: 5}},
		"lost":                     {[]pop{{0, "0.0"}, {0, "1.0"}, {0, "1.2"}}, Tally{Popped: 3, Lost: 2}},
		"all lost":                 {nil, Tally{Lost: 5}},
		"doubled":                  {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {1, "1.1"}, {0, "1.2"}}, Tally{Popped: 6, Doubled: 1}},
		"tripled":                  {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {1, "1.1"}, {0, "1.1"}, {0, "1.2"}}, Tally{Popped: 7, Doubled: 2}},
		"one lost, one doubled":    {[]pop{{0, "0.0"}, {0, "0.0"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}}, Tally{Popped: 5, Lost: 1, Doubled: 1}},
		"misplaced":                {[]pop{{0, "0.1"}, {0, "0.0"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}}, Tally{Popped: 5, Misplaced: 1}},
		"all behind the last":      {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.2"}, {0, "1.0"}, {0, "1.1"}}, Tally{Popped: 5, Misplaced: 2}},
		"misplaced, left":          {[]pop{{0, "0.0"}, {0, "0.1"}, {Rest, "1.1"}, {Rest, "1.0"}, {Rest, "1.2"}}, Tally{Popped: 5, Misplaced: 1}},
		"invented":                 {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}, {0, "1.3"}}, Tally{Popped: 6, Invented: 1}},
		"of no producer":           {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}, {0, "dummy"}}, Tally{Popped: 5, Invented: 1}},
		"refused, and came":        {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}, {0, "2.0"}}, Tally{Popped: 6, Invented: 1}},
		"unknown, and came":        {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}, {0, "2.1"}}, Tally{Popped: 6}},
		"unknown, and came twice":  {[]pop{{0, "0.0"}, {0, "0.1"}, {0, "1.0"}, {0, "1.1"}, {0, "1.2"}, {0, "2.1"}, {0, "2.1"}}, Tally{Popped: 7, Doubled: 1}},
		"unknown, doubled, is not": {[]pop{{0, "2.1"}, {1, "2.1"}}, Tally{Popped: 2, Lost: 5, Doubled: 1}},
	} {
		for _, pushesFirst := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				var l Ledger
				push := func() {
					l.Push(Pushed{Producer: 0, First: 0, Count: 2, Fate: Done})
					l.Push(Pushed{Producer: 1, First: 0, Count: 3, Fate: Done})
					l.Push(Pushed{Producer: 2, First: 0, Count: 1, Fate: Refused})
					l.Push(Pushed{Producer: 2, First: 1, Count: 1, Fate: Unknown})
				}
				if pushesFirst {
					push()
				}
				for _, p := range test.pops {
					l.PopValues(p.consumer, p.value)
				}
				if !pushesFirst {
					push()
				}
				got := l.Tally()
				assert.Equal(t, got.Lost+got.Doubled+got.Invented > 0, got.Example != "")
				assert.Equal(t, got.Lost, len(l.Missing()))
				test.want.Pushed, got.Example = 5, ""
				assert.Equal(t, test.want, got)
				assert.Equal(t, got.Lost+got.Doubled+got.Invented+got.Misplaced == 0, got.OK())
			})
		}
	}
}

func TestAnAccountOfLittleIsNoEvidence(t *testing.T) {
	for name, test := range map[string]struct {
		acknowledged, popped, left int
		want                       bool
	}{
		"nothing":              {0, 0, 0, false},
		"all":                  {10, 10, 0, true},
		"more than half":       {6, 4, 2, true},
		"half acknowledged":    {5, 5, 0, false},
		"half popped":          {8, 4, 4, false},
		"all left":             {10, 0, 10, false},
		"none was pushed well": {0, 10, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			var l Ledger
			l.Push(Pushed{Producer: 1, Count: test.acknowledged, Fate: Done})
			l.Push(Pushed{Producer: 1, First: test.acknowledged, Count: 10 - test.acknowledged, Fate: Unknown})
			l.Pop(Popped{Consumer: 1, Producer: 1, Count: test.popped})
			l.Pop(Popped{Consumer: Rest, Producer: 1, First: test.popped, Count: test.left})
			assert.Equal(t, test.want, l.Evidence() == nil, l.Evidence())
			assert.Zero(t, l.Tally().Lost)
		})
	}
	var untouched Ledger
	assert.Error(t, untouched.Evidence())
}

func TestAKilledProducerMayHavePushedWhatItDidNotReport(t *testing.T) {
	l := Ledger{Unreported: 3}
	l.Push(Pushed{Producer: 1, First: 0, Count: 2, Fate: Done})
	l.PopValues(0, "1.0", "1.1", "1.2", "1.4")
	assert.True(t, l.Tally().OK())
	l.PopValues(0, "1.5")
	assert.Equal(t, 1, l.Tally().Invented)
}

func TestTheLedgerForgetsWhatIsFinal(t *testing.T) {
	var l Ledger
	const last = 100 * blockSize
	for first := 0; first < last; first += 100 {
		l.Push(Pushed{Producer: 1, First: first, Count: 100, Fate: []Fate{Done, Unknown}[first/100%2]})
		l.Pop(Popped{Consumer: 2, Producer: 1, First: first, Count: 100})
	}
	l.Push(Pushed{Producer: 1, First: last, Count: blockSize, Fate: Unknown})
	for _, b := range l.blocks[1] {
		assert.Empty(t, b.elements)
	}
	l.PopValues(2, Name(1, last+5))
	assert.True(t, l.Tally().OK(), "a push of unknown outcome may be applied late")
	l.PopValues(2, Name(1, last+5), "1.7")
	assert.Equal(t, 2, l.Tally().Doubled)
}

func TestWaitsAreFromThePushOrTheCallOnward(t *testing.T) {
	var waits [][2]int64
	l := Ledger{Waited: func(from, to int64) { waits = append(waits, [2]int64{from, to}) }}
	l.Push(Pushed{Producer: 1, Count: 1, Fate: Done, At: 100})
	l.Pop(Popped{Producer: 1, Count: 1, Start: 50, End: 130, Blocking: true})
	l.Pop(Popped{Producer: 1, First: 1, Count: 1, Start: 150, End: 170, Blocking: true})
	l.Push(Pushed{Producer: 1, First: 1, Count: 1, Fate: Done, At: 140})
	l.Push(Pushed{Producer: 1, First: 2, Count: 1, Fate: Done, At: 200})
	l.Pop(Popped{Producer: 1, First: 2, Count: 1, Start: 210, End: 220})
	assert.Equal(t, [][2]int64{{100, 130}, {150, 170}}, waits)
}

// names are the elements of producer 0 from one to another.
func names(from, to int) (all []string) {
	for number := from; number < to; number++ {
		all = append(all, Name(0, number))
	}
	return all
}

func TestPushesThatACrashUndid(t *testing.T) {
	for name, test := range map[string]struct {
		content []string
		gaps    int64
		want    Undone
	}{
		"none":                               {names(0, 10), 0, Undone{}},
		"the last":                           {names(0, 7), 0, Undone{Positions: []int64{8, 9, 10}}},
		"one acknowledged":                   {names(0, 2), 0, Undone{Positions: []int64{3, 4, 5, 6, 7, 8, 9, 10}, Replicated: []string{"0.2"}}},
		"not the last":                       {append(names(0, 7), "0.9"), 0, Undone{Positions: []int64{8, 9}, Misplaced: 1}},
		"two apart":                          {append(names(0, 7), "0.8"), 1, Undone{Positions: []int64{8, 10}, Misplaced: 1, Torn: []int{0}}},
		"doubled":                            {append(names(0, 10), "0.9"), 0, Undone{Doubled: 1, Misplaced: 1}},
		"invented":                           {append(names(0, 10), "0.10"), 0, Undone{Invented: 1}},
		"of a push whose outcome is unknown": {append(names(0, 10), "1.0"), 0, Undone{}},
		"torn": {[]string{"0.0", "0.2", "0.4", "0.6"}, 3,
			Undone{Positions: []int64{2, 4, 6, 8, 9, 10}, Replicated: []string{"0.1"}, Misplaced: 3, Torn: []int{0}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Ledger{Complete: true}
			for number := range 10 {
				l.Push(Pushed{First: number, Count: 1, Fate: Done, Length: int64(number + 1), Replicated: number < 3})
			}
			l.Push(Pushed{Producer: 1, Count: 1, Fate: Unknown})
			l.Push(Pushed{Producer: 1, First: 1, Count: 1, Fate: Refused})
			got := l.UndonePushes(test.content)
			assert.Equal(t, test.want, got)
			assert.Equal(t, test.gaps, got.Gaps())
		})
	}
}

func TestPopsThatACrashUndid(t *testing.T) {
	for name, test := range map[string]struct {
		pops [][2]int // runs of elements
		left []string
		want Undone
	}{
		"none":                          {[][2]int{{0, 20}}, names(20, 100), Undone{}},
		"popped again":                  {[][2]int{{0, 20}, {17, 22}}, names(22, 100), Undone{Positions: []int64{17, 18, 19}}},
		"still there":                   {[][2]int{{0, 20}}, names(17, 100), Undone{Positions: []int64{17, 18, 19}}},
		"one acknowledged":              {[][2]int{{0, 12}}, names(9, 100), Undone{Positions: []int64{9, 10, 11}, Replicated: []string{"0.9"}}},
		"lost":                          {[][2]int{{0, 20}}, names(21, 100), Undone{Lost: 1}},
		"popped twice, and still there": {[][2]int{{0, 20}, {18, 20}}, names(18, 100), Undone{Doubled: 2}},
		"misplaced":                     {[][2]int{{0, 97}}, []string{"0.97", "0.99", "0.98"}, Undone{Misplaced: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Ledger{Complete: true}
			for _, run := range test.pops {
				for number := run[0]; number < run[1]; number++ {
					l.Pop(Popped{First: number, Count: 1, Replicated: number < 10})
				}
			}
			got := l.UndonePops(100, test.left)
			assert.Equal(t, test.want, got)
			assert.Zero(t, got.Gaps())
		})
	}
}

func TestPushesToOneOfSeveralNodesThatACrashUndid(t *testing.T) {
	for name, test := range map[string]struct {
		content []string
		want    Undone
	}{
		"none":              {names(0, 10), Undone{}},
		"with gaps":         {append(names(0, 6), "0.8"), Undone{Positions: []int64{6, 7, 9}}},
		"one replicated":    {append(names(0, 5), names(6, 10)...), Undone{Positions: []int64{5}, Replicated: []string{"0.5"}}},
		"from before":       {names(1, 10), Undone{Lost: 1}},
		"doubled":           {append(names(0, 10), "0.9"), Undone{Doubled: 1}},
		"misplaced":         {append(names(1, 10), "0.0"), Undone{Misplaced: 1}},
		"invented":          {append(names(0, 10), "0.10"), Undone{Invented: 1}},
		"of unknown pushes": {append(names(0, 10), "1.0"), Undone{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Ledger{Complete: true}
			for number := range 10 {
				l.Push(Pushed{First: number, Count: 1, Fate: Done, At: int64(number), Replicated: number < 6})
			}
			l.Push(Pushed{Producer: 1, Count: 1, Fate: Unknown})
			assert.Equal(t, test.want, l.UndonePushesSince(5, test.content))
		})
	}
}

func TestPopsFromOneOfSeveralNodesThatACrashUndid(t *testing.T) {
	for name, test := range map[string]struct {
		left []string
		want Undone
	}{
		"none":           {names(10, 20), Undone{}},
		"with gaps":      {append([]string{"0.6", "0.8"}, names(10, 20)...), Undone{Positions: []int64{6, 8}}},
		"one replicated": {append([]string{"0.5"}, names(10, 20)...), Undone{Positions: []int64{5}, Replicated: []string{"0.5"}}},
		"from before":    {append([]string{"0.3"}, names(10, 20)...), Undone{Doubled: 1}},
		"lost":           {names(11, 20), Undone{Lost: 1}},
		"misplaced":      {append(names(10, 20), "0.9"), Undone{Positions: []int64{9}, Misplaced: 1}},
		"invented":       {append(names(10, 20), "0.20"), Undone{Invented: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := Ledger{Complete: true}
			for number := range 10 {
				l.Pop(Popped{First: number, Count: 1, End: int64(number), Replicated: number < 6})
			}
			assert.Equal(t, test.want, l.UndonePopsSince(5, 20, test.left))
		})
	}
}
