package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/ledger"
)

// parse makes a history of lines: start, end (- for never), the values and the number that the call returned, and the call.
func parse(t *testing.T, lines ...string) (records []Record) {
	t.Helper()
	for i, line := range lines {
		words := strings.Fields(line)
		r := Record{Client: i, Index: i, Call: Call{Name: words[4], Count: 1}}
		_, err := fmt.Sscan(words[0], &r.Start)
		require.NoError(t, err)
		if _, err = fmt.Sscan(words[1], &r.End); err != nil {
			r.Outcome.Fate = ledger.Unknown
		} else {
			r.Outcome.Fate = ledger.Done
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
			assert.Equal(t, test.want, porcupine.CheckOperationsTimeout(Model, Operations(parse(t, test.lines...)), time.Minute))
		})
	}
}

func TestApplyAgreesWithRedis(t *testing.T) {
	values := []string{"a", "b", "a", "c"}
	for _, test := range []struct {
		call   Call
		after  string
		values string
		number int64
	}{
		{Call{Name: "lpush", Values: []string{"x", "y"}}, "y x a b a c", "", 6},
		{Call{Name: "rpush", Values: []string{"x", "y"}}, "a b a c x y", "", 6},
		{Call{Name: "lpop", Count: 2}, "a c", "a b", 0},
		{Call{Name: "rpop", Count: 3}, "a", "c a b", 0},
		{Call{Name: "rpop", Count: 9}, "", "c a b a", 0},
		{Call{Name: "lindex", Count: -1}, "a b a c", "c", 0},
		{Call{Name: "lindex", Count: 4}, "a b a c", "", 0},
		{Call{Name: "lmove left right", Count: 1}, "b a c a", "a", 0},
		{Call{Name: "lmove right left", Count: 1}, "c a b a", "c", 0},
		{Call{Name: "lset", Count: 1, Values: []string{"x"}}, "a x a c", "", 0},
		{Call{Name: "lset", Count: -5, Values: []string{"x"}}, "a b a c", "", OutOfRange},
		{Call{Name: "linsert before", Pivot: "a", Values: []string{"x"}}, "x a b a c", "", 5},
		{Call{Name: "linsert after", Pivot: "c", Values: []string{"x"}}, "a b a c x", "", 5},
		{Call{Name: "linsert after", Pivot: "d", Values: []string{"x"}}, "a b a c", "", -1},
		{Call{Name: "lrem", Values: []string{"a"}}, "b c", "", 2},
	} {
		after, result := Apply(values, test.call)
		assert.Equal(t, test.after, strings.Join(after, " "), test.call.Name)
		assert.Equal(t, test.values, strings.Join(result.Values, " "), test.call.Name)
		assert.Equal(t, test.number, result.Number, test.call.Name)
		assert.Equal(t, []string{"a", "b", "a", "c"}, values, "%s changes its argument", test.call.Name)
	}
}

func TestConservation(t *testing.T) {
	lost, doubled, invented := Conserved(parse(t, "1 2 - 4 rpush a b c d", "3 - - 0 rpush e", "4 5 a 0 lpop", "6 7 a 0 lpop", "8 9 c,x 0 lrange"))
	assert.ElementsMatch(t, []string{"b", "d"}, lost)
	assert.Equal(t, []string{"a"}, doubled)
	assert.Equal(t, []string{"x"}, invented)

	lost, _, _ = Conserved(parse(t, "1 2 - 1 rpush a", "3 - - 0 lpop", "4 5 - 0 lrange"))
	assert.Empty(t, lost, "a killed process took it")

	edits := []string{"1 2 - 2 rpush a b", "3 4 - 0 lset c", "5 6 - -2 lset x", "7 8 - 1 lrem b"}
	lost, doubled, invented = Conserved(parse(t, append(edits, "9 10 c 0 lrange")...))
	assert.Empty(t, slices.Concat(lost, doubled, invented), "a was replaced, b removed")
	lost, _, invented = Conserved(parse(t, append(edits, "9 10 x 0 lrange")...))
	assert.ElementsMatch(t, []string{"a", "b", "c"}, lost)
	assert.Equal(t, []string{"x"}, invented)
}
