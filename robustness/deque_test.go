package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// history builds one from lines: start, end (- for never), fate, what it returned in brackets and as a number, and the call.
func history(t *testing.T, lines ...string) (records []record) {
	t.Helper()
	for i, line := range lines {
		words := strings.Fields(line)
		r := record{Client: i, Index: i, Call: call{Name: words[4], Count: 1}}
		_, err := fmt.Sscan(words[0], &r.Start)
		require.NoError(t, err)
		if _, err = fmt.Sscan(words[1], &r.End); err != nil {
			r.Outcome.Fate = unknown
		} else {
			r.Outcome.Fate = done
		}
		if words[2] != "-" {
			r.Outcome.Values = strings.Split(words[2], ",")
		}
		_, err = fmt.Sscan(words[3], &r.Outcome.Number)
		require.NoError(t, err)
		r.Call.Values = words[5:]
		records = append(records, r)
	}
	return records
}

func TestTheModelTellsRightFromWrong(t *testing.T) {
	for name, test := range map[string]struct {
		lines []string
		want  porcupine.CheckResult
	}{
		"in order":                           {[]string{"1 2 - 2 rpush a b", "3 4 a 0 lpop", "5 6 b 0 brpop", "7 8 - 0 lpop"}, porcupine.Ok},
		"a wrong length":                     {[]string{"1 2 - 1 rpush a b"}, porcupine.Illegal},
		"popped twice":                       {[]string{"1 2 - 1 rpush a", "3 4 a 0 lpop", "5 6 a 0 lpop"}, porcupine.Illegal},
		"lost":                               {[]string{"1 2 - 1 rpush a", "3 4 - 0 lpop"}, porcupine.Illegal},
		"the wrong end":                      {[]string{"1 2 - 2 rpush a b", "3 4 b 0 lpop"}, porcupine.Illegal},
		"at the same time":                   {[]string{"1 4 - 1 rpush a", "2 3 - 0 lpop", "5 6 a 0 lrange"}, porcupine.Ok},
		"an unknown push, late":              {[]string{"1 - - 0 rpush a", "2 3 - 0 lpop", "4 5 a 0 lpop"}, porcupine.Ok},
		"an unknown push, never":             {[]string{"1 - - 0 rpush a", "2 3 - 0 lpop", "4 5 - 0 lrange"}, porcupine.Ok},
		"an unknown push, before it began":   {[]string{"1 2 a 0 lpop", "3 - - 0 rpush a"}, porcupine.Illegal},
		"an unknown push, twice":             {[]string{"1 - - 0 rpush a", "2 3 a,a 0 lrange"}, porcupine.Illegal},
		"a pop by a process that was killed": {[]string{"1 2 - 1 rpush a", "3 - - 0 lpop", "4 5 a 0 lrange", "6 7 - 0 lrange"}, porcupine.Ok},
		"it took one, and two are missing":   {[]string{"1 2 - 2 rpush a b", "3 - - 0 lpop", "4 5 - 0 lrange"}, porcupine.Illegal},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.want, porcupine.CheckOperationsTimeout(model, operations(history(t, test.lines...)), time.Minute))
		})
	}
}

func TestApplyAgreesWithRedis(t *testing.T) {
	values := []string{"a", "b", "a", "c"}
	for _, test := range []struct {
		call   call
		after  string
		values string
		number int64
	}{
		{call{Name: "lpush", Values: []string{"x", "y"}}, "y x a b a c", "", 6},
		{call{Name: "rpush", Values: []string{"x", "y"}}, "a b a c x y", "", 6},
		{call{Name: "lpop", Count: 2}, "a c", "a b", 0},
		{call{Name: "rpop", Count: 3}, "a", "c a b", 0},
		{call{Name: "rpop", Count: 9}, "", "c a b a", 0},
		{call{Name: "lindex", Count: -1}, "a b a c", "c", 0},
		{call{Name: "lindex", Count: 4}, "a b a c", "", 0},
		{call{Name: "lmove left right", Count: 1}, "b a c a", "a", 0},
		{call{Name: "lmove right left", Count: 1}, "c a b a", "c", 0},
		{call{Name: "lset", Count: 1, Values: []string{"x"}}, "a x a c", "", 0},
		{call{Name: "lset", Count: -5, Values: []string{"x"}}, "a b a c", "", outOfRange},
		{call{Name: "linsert before", Pivot: "a", Values: []string{"x"}}, "x a b a c", "", 5},
		{call{Name: "linsert after", Pivot: "c", Values: []string{"x"}}, "a b a c x", "", 5},
		{call{Name: "linsert after", Pivot: "d", Values: []string{"x"}}, "a b a c", "", -1},
		{call{Name: "lrem", Values: []string{"a"}}, "b c", "", 2},
	} {
		after, result := apply(values, test.call)
		assert.Equal(t, test.after, strings.Join(after, " "), test.call.Name)
		assert.Equal(t, test.values, strings.Join(result.Values, " "), test.call.Name)
		assert.Equal(t, test.number, result.Number, test.call.Name)
		assert.Equal(t, []string{"a", "b", "a", "c"}, values, "%s changes its argument", test.call.Name)
	}
}

func TestConservation(t *testing.T) {
	lost, doubled, invented := conserved(history(t, "1 2 - 4 rpush a b c d", "3 - - 0 rpush e", "4 5 a 0 lpop", "6 7 a 0 lpop", "8 9 c,x 0 lrange"))
	assert.ElementsMatch(t, []string{"b", "d"}, lost)
	assert.Equal(t, []string{"a"}, doubled)
	assert.Equal(t, []string{"x"}, invented)

	lost, _, _ = conserved(history(t, "1 2 - 1 rpush a", "3 - - 0 lpop", "4 5 - 0 lrange"))
	assert.Empty(t, lost, "a killed process took it")

	edits := []string{"1 2 - 2 rpush a b", "3 4 - 0 lset c", "5 6 - -2 lset x", "7 8 - 1 lrem b"}
	lost, doubled, invented = conserved(history(t, append(edits, "9 10 c 0 lrange")...))
	assert.Empty(t, slices.Concat(lost, doubled, invented), "a was replaced, b removed")
	lost, _, invented = conserved(history(t, append(edits, "9 10 x 0 lrange")...))
	assert.ElementsMatch(t, []string{"a", "b", "c"}, lost)
	assert.Equal(t, []string{"x"}, invented)
}

func TestTheLedgerFindsWhatIsWrong(t *testing.T) {
	books := newLedger()
	for _, line := range []string{
		"+ 1 0 3 100 3", "? 1 3 1 110 0", "! 1 4 1 120 0", "- 9 50 130 true 1.1", "- 9 140 150 false 1.0", "- 8 160 170 false 1.1 1.4",
		"- 8 180 190 false 7.5000", "h 60 65",
	} {
		assert.False(t, books.hear([]byte(line)))
	}
	lost, doubled, invented, _ := books.verdict()
	assert.EqualValues(t, 1, lost, "1.2")
	assert.EqualValues(t, 1, doubled, "1.1")
	assert.EqualValues(t, 2, invented, "1.4 was refused, and 7.5000 never pushed")
	assert.EqualValues(t, 1, books.disordered)
	assert.EqualValues(t, 30, books.longestWait, "from the push to the return of the pop that had been blocked")
	assert.EqualValues(t, 5, books.hiccup)
	assert.True(t, books.hear([]byte(".")))
	assert.Less(t, books.longestWait, int64(math.MaxInt64))
}

func TestTheLedgerForgetsWhatIsSettled(t *testing.T) {
	books := newLedger()
	for first := 0; first < 100*leafSize; first += 100 {
		books.hear(fmt.Appendf(nil, "%c 1 %d 100 10 100", []byte("+?")[first/100%2], first))
		books.hear(fmt.Appendf(nil, "- 2 20 30 false 1.%d*100", first))
	}
	books.hear(fmt.Appendf(nil, "? 1 %d %d 40 0", 100*leafSize, leafSize))
	for _, leaf := range books.leaves[1] {
		assert.Empty(t, leaf.elements)
	}
	came := fmt.Appendf(nil, "- 2 50 60 false 1.%d", 100*leafSize+5)
	books.hear(came)
	lost, doubled, invented, example := books.verdict()
	assert.Zero(t, lost+doubled+invented, "a push of unknown outcome may be done late: %s", example)
	books.hear(came)
	books.hear([]byte("- 2 50 60 false 1.7"))
	_, doubled, _, _ = books.verdict()
	assert.EqualValues(t, 2, doubled)
}

func TestAPopThatACrashUndidIsToldFromALoss(t *testing.T) {
	for title, test := range map[string]struct {
		lines     []string
		remaining int // of the elements
		undone    int64
		violated  bool
	}{
		"nothing undone":             {[]string{"- 1 2 3 false 0.0*20"}, filled - 20, 0, false},
		"popped again":               {[]string{"- 1 2 3 false 0.0*20", "- 1 4 5 false 0.15*9"}, filled - 24, 5, false},
		"still there":                {[]string{"- 1 2 3 false 0.0*20"}, filled - 15, 5, false},
		"lost":                       {[]string{"- 1 2 3 false 0.0*20"}, filled - 21, 0, true},
		"popped twice, still there":  {[]string{"- 1 2 3 false 0.0*20", "- 1 4 5 false 0.15*5"}, filled - 15, 15, true},
		"undone, but not at the end": {[]string{"- 1 2 3 false 0.0*900", "- 1 4 5 false 0.3*2", "- 1 4 5 false 0.890*9"}, filled - 900, 11, true},
	} {
		t.Run(title, func(t *testing.T) {
			ctx, fail := context.WithCancelCause(t.Context())
			c, books := &cell{ctx: ctx, fail: fail}, newLedger()
			books.whole = true
			for _, line := range test.lines {
				books.hear([]byte(line))
			}
			var left []string
			for number := filled - test.remaining; number < filled; number++ {
				left = append(left, name(0, number))
			}
			c.checkPops(books, left)
			assert.Equal(t, test.violated, ctx.Err() != nil)
			if !test.violated {
				assert.Equal(t, test.undone, c.row.Excused)
			}
		})
	}
}

func TestRunsOfElementsAreOneWord(t *testing.T) {
	line := appendRuns(nil, []string{"7.12", "7.13", "7.14", "8.15", "8.17", "no element", "8.018"})
	assert.Equal(t, " 7.12*3 8.15 8.17 6e6f20656c656d656e74 382e303138", string(line))
}

func TestAHiccupExplainsALongWait(t *testing.T) {
	for name, test := range map[string]struct {
		hiccup string
		want   time.Duration
	}{
		"none":             {"h 1 2", 1900 * time.Millisecond},
		"meanwhile":        {"h 1500000000 2600000000", 0},
		"too short":        {"h 1500000000 1600000000", 1900 * time.Millisecond},
		"before the wait ": {"h 1 1000000000", 1900 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			books := newLedger()
			for _, line := range []string{"+ 1 0 1 1000000000 1", test.hiccup, "- 2 5 2900000000 true 1.0"} {
				books.hear([]byte(line))
			}
			wait, _, left := books.unexplained()
			assert.Equal(t, test.want, wait)
			assert.Zero(t, left)
		})
	}
}

func TestResultsOfEarlierRunsFillIn(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, row{Fault: "none", Server: "cluster", Rounds: 1}.save(out))
	require.NoError(t, row{Fault: "none", Server: "redis", Rounds: 2}.save(out))
	earlier, err := earlierRows(out)
	require.NoError(t, err)
	rows := join([]row{{Fault: "cut", Server: "redis", Rounds: 3}, {Fault: "none", Server: "redis", Rounds: 4}}, earlier)
	require.Len(t, rows, 3)
	for i, rounds := range []int64{4, 1, 3} {
		assert.Equal(t, rounds, rows[i].Rounds)
	}
}

func TestAnInterruptedRunWritesWhatItSaw(t *testing.T) {
	document := filepath.Join(t.TempDir(), "reliability.md")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	violations, err := run(ctx, []string{"-each", "1h", "-faults", "none", "-servers", "redis", "-out", t.TempDir(), "-o", document})
	assert.ErrorContains(t, err, "interrupted")
	assert.Zero(t, violations)
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	assert.Contains(t, string(text), "| none | redis |")
}

// A short run of the whole keeps all promises.
func TestAShortRun(t *testing.T) {
	violations, err := run(t.Context(), []string{"-duration", "4s", "-parallel", "3", "-faults", "none,cut,kill", "-servers", "redis", "-out", t.TempDir()})
	require.NoError(t, err)
	assert.Zero(t, violations)
}
