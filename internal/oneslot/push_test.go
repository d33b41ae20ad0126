package oneslot

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestAPushIsSplitAtItsBounds(t *testing.T) {
	t.Parallel()
	count := func(values []any) int {
		count, _ := nextPart(values)
		return count
	}
	megabyte := strings.Repeat("x", 1<<20)
	assert.Equal(t, 262_144, count(slices.Repeat([]any{1}, 262_145)))
	assert.Equal(t, 5, count(slices.Repeat([]any{1}, 5)))
	assert.Equal(t, 64, count(slices.Repeat([]any{megabyte}, 100)))
	assert.Equal(t, 1, count([]any{strings.Repeat("x", 80<<20), "y"}), "one value at least")
}
