package oneslot

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// NameOf is the inverse of KeysOf, and finds no name in other keys.
func FuzzNameOf(f *testing.F) {
	for _, name := range []string{
		"jobs", "a}b", "{user1}:jobs", "{jobs}", "{jobs}{}", "queue:{a", "queue:{}", "{}", "{", "}", `a\)b}`, `{20658}{a\)b}`,
		"{jobs}:meta", "a:meta", "\x00\xff}", "{a}{b}", "{{}", "a\n}",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if found, ok := NameOf(name); ok {
			assert.Equal(t, name, KeysOf(found).Meta, "a key that is a meta")
		}
		if name == "" {
			return
		}
		found, ok := NameOf(KeysOf(name).Meta)
		require.True(t, ok)
		assert.Equal(t, name, found)
	})
}

func TestKeysThatAreNoMeta(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"", ":meta", "meta", "jobs:meta", "{}:meta", "{jobs}", "{jobs}:bell", "{jobs}:meta:x", "{1}{a\\)b}:meta", "a}b:meta"} {
		name, found := NameOf(key)
		assert.False(t, found, "%q is of %q", key, name)
	}
	name, found := NameOf(strings.Repeat("{", 1000) + "}:meta")
	assert.True(t, found)
	assert.Equal(t, strings.Repeat("{", 999), name)
}
