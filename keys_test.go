package shardedlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

var hostileNames = []string{
	"jobs", "{jobs}", "{jobs}{}", "{{jobs}}", "jobs}{", "}{", "{}", "{", "}", "{}{}", "}{}", "{}}", "{{}", "{a}{b}", "a{b}c", "{a}b",
	"{user1}:jobs", "jobs:meta", "{jobs}:meta", "{jobs}:bell", "jobs:0", "{jobs}:0", "jobs:", ":", " ", "a b", "a\x00b", "\x00",
	"ключ", "{ключ}", "\xff\xfe", `\`, `\(`, `\{`, "*", "?[a]", "a\r\nb", strings.Repeat("x", 10_000),
	"{jobs}:#0d8a54a2c111.7", "{jobs}:op:5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111", "{jobs}:bell:5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111",
}

// ownedKeys are keys of every kind that a list of the name may own.
func ownedKeys(name string) []string {
	k, id := oneslot.KeysOf(name), "5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111"
	shards := k.Prefix + "#0d8a54a2c111.7:"
	return []string{k.Meta, k.Bell, shards + "0", shards + "-1", k.Release(id), k.Records() + id, k.Records() + id + ":popped"}
}

func TestDistinctNamesNeverShareAKey(t *testing.T) {
	t.Parallel()
	names := append([]string{}, hostileNames...)
	for _, base := range hostileNames[:30] { // and each name as the keys of others
		names = append(names, ownedKeys(base)...)
	}
	owner := map[string]string{}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, key := range ownedKeys(name) {
			if other, taken := owner[key]; taken {
				t.Errorf("%q and %q share %q", name, other, key)
			}
			owner[key] = name
		}
	}
}

func TestKeysOfAListShareOneSlot(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Cluster)
	rdb := server.Client(t)
	for _, name := range hostileNames {
		for _, key := range ownedKeys(name) {
			slot, err := rdb.ClusterKeySlot(t.Context(), key).Result()
			require.NoError(t, err)
			assert.EqualValues(t, slot, oneslot.KeysOf(name).Slot(), "%q of %q", key, name)
		}
	}
}

func TestAHashTagIsKept(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "{user1}:jobs:meta", oneslot.KeysOf("{user1}:jobs").Meta)
	assert.Equal(t, "{jobs}:meta", oneslot.KeysOf("jobs").Meta)
}

func TestAnyNameWorks(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, name := range hostileNames {
			list := openList(t, rdb, name, WithCapacity(2))
			t.Cleanup(func() { _, _ = list.Del(t.Context()) })
			_, err := list.RPush(t.Context(), name, "b", "c")
			require.NoError(t, err, "%q", name)
		}
		for _, name := range hostileNames {
			list := openList(t, rdb, name)
			assert.Equal(t, []string{name, "b", "c"}, content(t, list))
			existed, err := list.Del(t.Context())
			require.NoError(t, err)
			assert.True(t, existed, "%q", name)
		}
	})
}
