package batch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestLatency(t *testing.T) {
	t.Parallel()
	var l latency
	assert.False(t, l.isFar(), "before the first round trip")
	l.observe(2*far, 1, 0)
	assert.True(t, l.isFar())
	l.observe(far/2, 100, 1000)
	assert.False(t, l.isFar(), "a quick round trip tells at once, whatever its size")
	for range 2 * forgetting {
		l.observe(3*far, smallCount+1, 0)
		l.observe(3*far, 1, smallBytes+1)
	}
	assert.False(t, l.isFar(), "large batches take long anyhow")
	l.observe(1000*far, 1, 0)
	assert.False(t, l.isFar(), "a slow one may be chance")
	for range 2 * forgetting {
		l.observe(3*far, 1, 0)
	}
	assert.True(t, l.isFar(), "many are none")
}
