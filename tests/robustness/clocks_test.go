package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// needClocks skips a test where clocks cannot be set, and a short one, because the standard library has to be built.
func needClocks(t *testing.T, can func() error) {
	if testing.Short() {
		t.Skip("a standard library with another clock takes a minute to build")
	}
	if err := can(); err != nil {
		t.Skip(err)
	}
	_, err := programAhead()
	require.NoError(t, err)
}

// A clock that is not as set is noticed.
func TestAClockThatIsNotAheadIsNoticed(t *testing.T) {
	before := time.Now()
	assert.NoError(t, isAhead(time.Now(), 0, before))
	assert.NoError(t, isAhead(time.Now().Add(-time.Hour), -time.Hour, before))
	assert.Error(t, isAhead(time.Now(), -time.Hour, before))
	assert.Error(t, isAhead(time.Now(), time.Hour, before))
}

// Different clocks, a planned failover and a crash keep all promises.
func TestClocksSetApart(t *testing.T) {
	needClocks(t, canSetAllClocks)
	violations, err := run(t.Context(), []string{"-duration", "4s", "-faults", "clocks", "-servers", "sentinel", "-out", t.TempDir()})
	require.NoError(t, err)
	assert.Zero(t, violations)
}
