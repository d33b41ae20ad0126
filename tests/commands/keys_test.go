package commands

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/spread"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oddNames have braces that form no hash tag, or one that is not obvious.
var oddNames = []string{"a}b", "queue:{}", "queue:{a", "queue:a}b", "a}{b}", "{}", "{", "}", "{}{}", "{{}", `a\b`, "{20658}{a\\)b}", "{queue:{a}"}

func TestDistinctNamesNeverShareAKey(t *testing.T) {
	t.Parallel()
	names := append(slices.Clone(oddNames), harness.HostileNames...)
	for _, base := range append(slices.Clone(oddNames), harness.HostileNames[:30]...) { // and each name as the keys of others
		names = append(names, harness.OwnedKeys(base)...)
	}
	owner := map[string]string{}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, key := range harness.OwnedKeys(name) {
			if other, taken := owner[key]; taken {
				t.Errorf("%q and %q share %q", name, other, key)
			}
			owner[key] = name
		}
	}
}

// partKeys are keys of every kind that a part of a spread list of the name may own.
func partKeys(name string, part, parts int) []string {
	p, id := spread.PartOf(name, part, parts), "5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111"
	records := strings.TrimSuffix(p.Meta, "meta") + "op:"
	return []string{p.Meta, p.Bell, p.Bell + ":" + id, p.Shard(1763765837000001, 0), p.Shard(1763765837000001, -1), records + id, records + id + ":popped"}
}

// A part's keys share a slot in the part's range, and are no other list's, whatever lists are called by them.
func TestPartsShareNoKey(t *testing.T) {
	t.Parallel()
	owner := map[string]string{}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(oddNames, harness.HostileNames)))) {
		if len(name) > 1000 {
			continue
		}
		for part := range 3 {
			keys := partKeys(name, part, 3)
			assert.Equal(t, part, script.Slot(keys[0])*3/16384, "%q", keys[0])
			for _, key := range keys {
				assert.Equal(t, script.Slot(keys[0]), script.Slot(key), "%q", key)
				assert.Empty(t, owner[key], "%q of %q", key, name)
				_, sure := oneslot.Owner(key)
				assert.True(t, sure, "the hook protects %q", key)
				owner[key] = name
				stem := key[:strings.LastIndexAny(key, ":.")]
				for _, other := range []string{name, key, stem, key[1:strings.Index(key, "}")], key[:strings.Index(key, "}")+1]} {
					assert.NotContains(t, harness.OwnedKeys(other), key, "list %q", other)
				}
			}
		}
	}
}

func TestKeysOfAListShareOneSlot(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Cluster)
	rdb := server.Client(t)
	for _, name := range harness.HostileNames {
		for _, key := range harness.OwnedKeys(name) {
			slot, err := rdb.ClusterKeySlot(t.Context(), key).Result()
			require.NoError(t, err)
			assert.EqualValues(t, slot, oneslot.KeysOf(name).Slot(), "%q of %q", key, name)
		}
	}
}

// A list and the plain key of its name share a slot, so the hook works for every name.
func TestAListHasTheSlotOfItsName(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Cluster)
	plain, rdb := server.Client(t), server.Client(t)
	rdb.AddHook(shardedlist.NewHook(rdb, func(key string) bool { return slices.Contains(oddNames, key) }, shardedlist.WithCapacity(2)))
	for _, name := range append(slices.Clone(oddNames), harness.HostileNames...) {
		slot, err := plain.ClusterKeySlot(t.Context(), name).Result()
		require.NoError(t, err)
		assert.EqualValues(t, slot, oneslot.KeysOf(name).Slot(), "%q", name)
	}
	for _, name := range oddNames {
		require.NoError(t, rdb.RPush(t.Context(), name, "a", "b", "c").Err(), "%q", name)
		assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, harness.OpenList(t, plain, name)), "%q", name)
		assert.ErrorContains(t, rdb.SAdd(t.Context(), name, "x").Err(), "WRONGTYPE", "%q", name)
		pipe := rdb.TxPipeline()
		popped, pushed := pipe.LPop(t.Context(), name), pipe.LPush(t.Context(), name, "d")
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err, "%q", name)
		assert.Equal(t, "a", popped.Val())
		assert.EqualValues(t, 3, pushed.Val())
		require.NoError(t, rdb.Del(t.Context(), name).Err(), "%q", name)
		require.NoError(t, rdb.Set(t.Context(), name, "value", time.Minute).Err(), "%q", name)
		assert.ErrorContains(t, rdb.LPush(t.Context(), name, "x").Err(), "WRONGTYPE", "%q", name)
		require.NoError(t, rdb.Del(t.Context(), name).Err(), "%q", name)
	}
}

// The servers of a ring are chosen by the hash tag: the hook refuses a key that cannot be where its list is, before it sends anything.
func TestTheHookRefusesAKeyThatARingPutsElsewhere(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFn: func(context.Context, *redis.Client) bool { return true }})
	defer func() { _ = ring.Close() }()
	ring.AddHook(shardedlist.NewHook(ring, shardedlist.Match("*")))
	for _, name := range []string{"queue:{}", "queue:a}b"} {
		assert.ErrorIs(t, ring.RPush(t.Context(), name, "x").Err(), shardedlist.ErrUnsupported, name)
		_, err := shardedlist.New(ring, name)
		require.ErrorIs(t, err, shardedlist.ErrUnsupported, name)
		require.ErrorContains(t, err, "give the key a hash tag")
	}
	assert.NotErrorIs(t, ring.RPush(t.Context(), "queue:{a", "x").Err(), shardedlist.ErrUnsupported)
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
		names := slices.DeleteFunc(slices.Clone(harness.HostileNames), func(name string) bool {
			meta, _ := oneslot.Owner(name)
			if meta != "" {
				_, err := shardedlist.New(rdb, name)
				assert.ErrorIs(t, err, shardedlist.ErrOwnKey, "%q", name)
			}
			return meta != ""
		})
		for _, name := range names {
			list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(2))
			t.Cleanup(func() { _, _ = list.Del(t.Context()) })
			_, err := list.RPush(t.Context(), name, "b", "c")
			require.NoError(t, err, "%q", name)
		}
		for _, name := range names {
			list := harness.OpenList(t, rdb, name)
			assert.Equal(t, []string{name, "b", "c"}, harness.Content(t, list))
			existed, err := list.Del(t.Context())
			require.NoError(t, err)
			assert.True(t, existed, "%q", name)
		}
	})
}
