package main

import (
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The pages in docs/ are what the program writes today for the results in them.
func TestThePagesAreWhatTheProgramWrites(t *testing.T) {
	text, err := os.ReadFile("../../docs/reliability.md")
	require.NoError(t, err)
	ofRows, err := os.ReadFile(beside("../../docs/reliability.md"))
	require.NoError(t, err)
	rows, err := parseRows(string(ofRows))
	require.NoError(t, err)
	require.NotEmpty(t, rows)
	command := regexp.MustCompile(`(?m)^    cd tests/robustness && (.+)$`).FindSubmatch(ofRows)
	machine := regexp.MustCompile(`(?m)^- \*\*Machine:\*\* (.+)$`).FindSubmatch(text)
	require.NotNil(t, command)
	require.NotNil(t, machine)
	assert.Equal(t, page(rows, string(machine[1])), string(text))
	assert.Equal(t, rowsPage(rows, string(command[1])), string(ofRows))
}

// What a page says can be read back from it, and from the files that -join reads.
func TestRowsSurviveThePageAndTheFiles(t *testing.T) {
	out := t.TempDir()
	rows := []row{
		{Fault: "cancel", Server: "redis", Clients: methods, Command: "go run . -a", Time: time.Minute, Operations: 1, Rounds: 2, ByConservation: 3, Undecided: 4,
			Faults: 5, Elements: 6, Lost: 7, Doubled: 8, Disordered: 9, HalfDone: 11, Excused: 10, LongestWait: 1500 * time.Microsecond},
		{Fault: "crash", Server: "sentinel", Clients: transactions, Command: "go run . -b", Time: time.Hour, Operations: 1234567, Excused: 1000},
		{Fault: "crash", Server: "sentinel", Clients: queueJobs, Command: "go run . -c", Time: time.Hour, Elements: 100, Again: 12},
	}
	text := rowsPage(rows, "go run .")
	parsed, err := parseRows(text)
	require.NoError(t, err)
	assert.Equal(t, rows, parsed)
	assert.Contains(t, text, "| 1000 | – | – |")
	assert.Contains(t, text, "| 0 | – | 12 |")
	assert.NotContains(t, text, "| 0s |")
	rows[1].Violation = "broken"
	parsed, err = parseRows(rowsPage(rows, "go run ."))
	require.NoError(t, err)
	assert.Equal(t, rows, parsed)
	assert.Equal(t, []row{rows[0], rows[2]}, unbroken(parsed), "a row that broke a promise is to be tried again")
	rows[1].Violation = ""
	for _, r := range rows {
		require.NoError(t, r.save(out))
	}
	earlier, err := earlierRows(out)
	require.NoError(t, err)
	assert.Equal(t, rows, join(nil, earlier))
	assert.Equal(t, text, rowsPage(join(nil, earlier), "go run ."))
}

func TestTheSummaryAddsUp(t *testing.T) {
	text := summary([]row{
		{Fault: "cut", Server: "redis", Clients: methods, Time: time.Minute, Operations: 1000, Lost: 1, Doubled: 2, Disordered: 3, HalfDone: 4, Violation: "broken"},
		{Fault: "cancel", Server: "redis", Clients: pipelines, Time: time.Minute, Operations: 999_000, Rounds: 30, ByConservation: 20, Disordered: 50},
		{Fault: "kill", Server: "cluster", Clients: pipelines, Excused: 7, Faults: 1},
		{Fault: "crash", Server: "sentinel", Clients: methods, Excused: 11, Elements: 12_345_678},
		{Fault: "damage", Server: "redis", Clients: methods, Excused: 13},
		{Fault: "kill", Server: "redis", Clients: queueJobs, Elements: 4321, Again: 17},
	}, "one core")
	for _, words := range []string{
		"5 faults on 3 kinds of server with clients that call methods, pipelines, jobs, 6 combinations, for 2m0s in total; the faults struck 1 times", "1,000,000 calls, and 12,345,678 elements popped", "30 short ones",
		"**Lost: 1. Duplicated: 2. Out of order: 3. Transactions half done: 4.** Combinations that broke a promise: 1.", "every result of 10; 20 with", "7 elements that killed clients were popping, 11 operations that failovers undid, as in Redis, and 13\n  elements",
		"out of order there: 50.", "one core", "**Jobs:** 4,321 were done, 17 of them again",
	} {
		assert.Contains(t, text, words)
	}
}
