package main

import (
	"fmt"
	"math"
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
}

func TestTheLedgerFindsWhatIsWrong(t *testing.T) {
	books := newLedger()
	for _, line := range []string{
		"+ 1 0 3 100 3", "? 1 3 1 110 0", "! 1 4 1 120 0", "- 9 50 130 true 1.1", "- 9 140 150 false 1.0", "- 8 160 170 false 1.1 1.4",
		"- 8 180 190 false 7.50", "h 5",
	} {
		assert.False(t, books.hear([]byte(line)))
	}
	lost, doubled, invented, _ := books.verdict()
	assert.EqualValues(t, 1, lost, "1.2")
	assert.EqualValues(t, 1, doubled, "1.1")
	assert.EqualValues(t, 2, invented, "1.4 was refused, and 7.50 never pushed")
	assert.EqualValues(t, 1, books.disordered)
	assert.EqualValues(t, 30, books.longestWait, "from the push to the return of the pop that had been blocked")
	assert.EqualValues(t, 5, books.hiccup)
	assert.True(t, books.hear([]byte(".")))
	assert.Less(t, books.longestWait, int64(math.MaxInt64))
}

// A short run of the whole keeps all promises.
func TestAShortRun(t *testing.T) {
	violations, err := run(t.Context(), []string{"-duration", "4s", "-faults", "none,cut,kill", "-servers", "redis", "-out", t.TempDir()})
	require.NoError(t, err)
	assert.Zero(t, violations)
}
