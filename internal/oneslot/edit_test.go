package oneslot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// A sweep takes larger steps while they are quick, and smaller ones when they are not, whatever the network takes of them.
func TestSweepsAdapt(t *testing.T) {
	t.Parallel()
	for _, network := range []time.Duration{50 * time.Microsecond, 5 * time.Millisecond} {
		const perShard = 10 * time.Microsecond
		pace, most := sweepPace(), 0
		for range 100 {
			pace.adapt(network + time.Duration(pace.size)*perShard)
			most = max(most, pace.size)
		}
		assert.Greater(t, most, minSweep)
		assert.LessOrEqual(t, time.Duration(most)*perShard, 2*(sweepTime+minSweep*perShard), "of the server's time")
	}
	pace := sweepPace()
	for range 100 {
		pace.adapt(time.Millisecond)
	}
	assert.Equal(t, maxSweep, pace.size)
	for range 100 {
		pace.adapt(time.Second)
	}
	assert.Equal(t, minSweep, pace.size)
}
