package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/ledger"
)

// The tests of internal/ledger show what a ledger finds; these show that the lines of workers get there.
func TestTheLedgerFindsWhatIsWrong(t *testing.T) {
	l := newLedger()
	for _, line := range []string{
		"+ 1 0 3 100 3", "? 1 3 1 110 0", "! 1 4 1 120 0", "- 9 50 130 true 1.1", "- 9 140 150 false 1.0", "- 8 160 170 false 1.1 1.4",
		"- 8 180 190 false 7.5000", "h 60 65",
	} {
		assert.False(t, l.hear([]byte(line)))
	}
	tally := l.Tally()
	assert.Equal(t, 3, tally.Pushed)
	assert.Equal(t, 5, tally.Popped)
	assert.Equal(t, 1, tally.Lost, "1.2")
	assert.Equal(t, 1, tally.Doubled, "1.1")
	assert.Equal(t, 2, tally.Invented, "1.4 was refused, and 7.5000 never pushed")
	assert.Equal(t, 1, tally.Misplaced)
	assert.EqualValues(t, 30, l.longestWait, "from the push to the return of the pop that had been blocked")
	assert.EqualValues(t, 5, l.hiccup)
	assert.True(t, l.hear([]byte(".")))
}

func TestTheLedgerTakesRunsOfElements(t *testing.T) {
	l := newLedger()
	for first := 0; first < 10_000; first += 100 {
		l.hear(fmt.Appendf(nil, "%c 1 %d 100 10 100", []byte("+?")[first/100%2], first))
		l.hear(fmt.Appendf(nil, "- 2 20 30 false 1.%d*100", first))
	}
	assert.Equal(t, ledger.Tally{Pushed: 5000, Popped: 10_000}, l.Tally())
	l.hear([]byte("- 2 50 60 false 1.7*3"))
	assert.Equal(t, 3, l.Tally().Doubled)
	l.hear([]byte("- 2 50 60 false 382e303138"))
	assert.Equal(t, 1, l.Tally().Invented)
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
			sc, l := &scenario{ctx: ctx, fail: fail}, newLedger()
			l.Complete = true
			for _, line := range test.lines {
				l.hear([]byte(line))
			}
			var left []string
			for number := filled - test.remaining; number < filled; number++ {
				left = append(left, ledger.Name(0, number))
			}
			sc.judgeUndone("pops", l.UndonePops(filled, left))
			assert.Equal(t, test.violated, ctx.Err() != nil)
			if !test.violated {
				assert.Equal(t, test.undone, sc.row.Excused)
			}
		})
	}
}

func TestAScenarioNeedsStrikesAndResults(t *testing.T) {
	for name, test := range map[string]struct {
		fault           string
		strikes         int64
		calls, answered int
		want            string
	}{
		"no fault":              {"none", 0, 10, 10, ""},
		"struck":                {"restart", 1, 10, 6, ""},
		"not struck":            {"restart", 0, 10, 10, "no fault has struck"},
		"no crash":              {"crash", 0, 0, 0, "no fault has struck"},
		"no call was cancelled": {"cancel", 0, 10, 10, "no fault has struck"},
		"few results":           {"restart", 1, 10, 4, "of 10 calls in rounds, only 4 had a result"},
		"a queue alone":         {"restart", 1, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			scenarios, err := selectScenarios(test.fault, "all", "methods")
			require.NoError(t, err)
			sc := scenarios[0]
			sc.quit = t.Context()
			sc.ctx, sc.fail = context.WithCancelCause(t.Context())
			sc.row.Faults, sc.calls, sc.answered = test.strikes, test.calls, test.answered
			sc.showEvidence()
			if cause := context.Cause(sc.ctx); test.want == "" {
				assert.NoError(t, cause)
			} else {
				assert.EqualError(t, cause, test.want)
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
			l := newLedger()
			for _, line := range []string{"+ 1 0 1 1000000000 1", test.hiccup, "- 2 5 2900000000 true 1.0"} {
				l.hear([]byte(line))
			}
			wait, _, left := l.unexplained()
			assert.Equal(t, test.want, wait)
			assert.Zero(t, left)
		})
	}
}

func TestAWaitForWhatWakesNobodyIsNotMeasured(t *testing.T) {
	l := newLedger()
	for _, line := range []string{"+ 1 0 1 0 1", "+ 2 0 1 1000 2", "- 3 5 2900000000 true 1.0", "- 3 2900000000 2900000100 true 2.0"} {
		l.hear([]byte(line))
	}
	assert.EqualValues(t, 100, l.longestWait)
	assert.Equal(t, ledger.Tally{Pushed: 2, Popped: 2}, l.Tally())
}

func TestResultsOfEarlierRunsFillIn(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, row{Fault: "none", Server: "cluster", Clients: methods, Rounds: 1}.save(out))
	require.NoError(t, row{Fault: "none", Server: "redis", Clients: methods, Rounds: 2}.save(out))
	earlier, err := earlierRows(out)
	require.NoError(t, err)
	rows := join([]row{{Fault: "cut", Server: "redis", Clients: methods, Rounds: 3}, {Fault: "none", Server: "redis", Clients: methods, Rounds: 4}}, earlier)
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
	text, err := os.ReadFile(beside(document))
	require.NoError(t, err)
	assert.Contains(t, string(text), "| none | redis | methods |")
}

// A short run of the whole keeps all promises.
func TestAShortRun(t *testing.T) {
	violations, err := run(t.Context(), []string{"-duration", "16s", "-parallel", "3", "-faults", "cut,kill", "-servers", "redis", "-out", t.TempDir()})
	require.NoError(t, err)
	assert.Zero(t, violations)
}
