package shardedlist_test

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The list against a plain list of the same server and a model in memory, see harness.RunModel. TestFuzzingFindsABrokenScript breaks a
// script to see that it is found.
func FuzzOperations(f *testing.F) {
	rdb := redistest.Fastest(f).Client(f)
	if os.Getenv(harness.BreakScript) != "" {
		rdb.AddHook(harness.NewRewriter("save_result(length + 1)\nreturn length + 1", "save_result(length + 1)\nreturn length + (list.cap == 9 and 2 or 1)"))
	}
	f.Add(uint8(0), []byte("push, pop, push, pop, and so on"))
	f.Add(uint8(2), []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23})
	f.Fuzz(func(t *testing.T, capacity uint8, tape []byte) {
		if len(tape) > 400 {
			return
		}
		harness.RunModel(t, []redis.UniversalClient{rdb, rdb}, 1+int(capacity)%9, tape)
	})
}

func FuzzNamesAndValues(f *testing.F) {
	rdb := redistest.Fastest(f).Client(f)
	for i, name := range harness.HostileNames[:len(harness.HostileNames)-2] {
		f.Add(name, harness.HostileNames[(i+7)%len(harness.HostileNames)], []byte(name))
	}
	f.Fuzz(func(t *testing.T, name, other string, value []byte) {
		ofName, _ := oneslot.Owner(name)
		ofOther, _ := oneslot.Owner(other)
		if name == "" || other == "" || name == other || ofName != "" || ofOther != "" {
			return
		}
		for _, key := range harness.OwnedKeys(name) {
			require.NotContains(t, harness.OwnedKeys(other), key)
			require.Equal(t, oneslot.KeysOf(name).Slot(), script.Slot(key), "of %q", key)
		}
		list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(2))
		defer func() { _, _ = list.Del(context.Background()) }()
		length, err := list.RPush(t.Context(), value, string(value), value)
		require.NoError(t, err)
		require.EqualValues(t, 3, length)
		empty, err := harness.OpenList(t, rdb, other).LLen(t.Context())
		require.NoError(t, err)
		require.Zero(t, empty)
		for _, pop := range []func(context.Context) (string, error){list.LPop, list.RPop, list.RPop} {
			popped, err := pop(t.Context())
			require.NoError(t, err)
			assert.Equal(t, value, []byte(popped))
		}
	})
}
