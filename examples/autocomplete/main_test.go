package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/examples/internal/wire"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// each runs a test on servers of its own, since the keys of the example are always the same.
func each(t *testing.T, test func(t *testing.T, server *redistest.Server)) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Embedded, redistest.Redis, redistest.Valkey, redistest.Cluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t, kind))
		})
	}
}

func fill(t *testing.T, rdb redis.UniversalClient) {
	for _, name := range []string{"am", "an", "ann", "anna", "anz", "ao"} {
		require.NoError(t, Add(t.Context(), rdb, name, "of "+name))
	}
}

func TestBothComplete(t *testing.T) {
	each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		fill(t, rdb)
		suggestions, err := Complete(t.Context(), rdb, "ann")
		require.NoError(t, err)
		assert.Equal(t, []Suggestion{{"ann", "of ann"}, {"anna", "of anna"}}, suggestions)
		require.NoError(t, Remove(t.Context(), rdb, "ann"))
		suggestions, err = Complete(t.Context(), rdb, "ann")
		require.NoError(t, err)
		assert.Equal(t, []Suggestion{{"anna", "of anna"}}, suggestions)
		names, again, err := naiveComplete(t.Context(), rdb, "an")
		require.NoError(t, err)
		assert.Equal(t, []string{"an", "anna", "anz"}, names)
		assert.Zero(t, again, "nobody else was there")
	})
}

// Another user looks between the WATCH and the EXEC of the first: the first has to start again, each time.
func TestTheLoopStartsAgain(t *testing.T) {
	each(t, func(t *testing.T, server *redistest.Server) {
		direct := server.Client(t)
		fill(t, direct)
		var busy wire.Wire
		rdb := server.Client(t, busy.Through)
		for range 3 {
			busy.On("multi", wire.None, func() {
				_, _, err := naiveComplete(context.Background(), direct, "b")
				assert.NoError(t, err)
			})
		}
		_, again, err := naiveComplete(t.Context(), rdb, "an")
		require.NoError(t, err)
		assert.Equal(t, 3, again)

		busy.On("eval", wire.None, func() { assert.NoError(t, Remove(context.Background(), direct, "anna")) })
		suggestions, err := Complete(t.Context(), rdb, "anna")
		require.NoError(t, err)
		assert.Empty(t, suggestions)
		assert.Equal(t, 4, busy.Struck())
	})
}

// A user's process crashes while it looks: the loop leaves its two members behind, the script leaves nothing.
func TestACrashLeavesMembersBehind(t *testing.T) {
	each(t, func(t *testing.T, server *redistest.Server) {
		direct := server.Client(t)
		fill(t, direct)
		var first, second wire.Wire
		first.On("eval", wire.Crash, nil)
		_, err := Complete(t.Context(), server.Client(t, first.Through), "an")
		require.ErrorIs(t, err, wire.ErrCrashed)
		assert.EqualValues(t, 6, direct.ZCard(t.Context(), namesKey).Val())

		second.On("watch", wire.Crash, nil)
		_, _, err = naiveComplete(t.Context(), server.Client(t, second.Through), "an")
		require.ErrorIs(t, err, wire.ErrCrashed)
		assert.EqualValues(t, 8, direct.ZCard(t.Context(), namesKey).Val(), "with two that nobody added")
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), redistest.Start(t, redistest.Embedded).Client(t), &out))
	assert.Regexp(t, `(?s)^\[\{anna level 4\} \{annabel level 7\}\]\n200 calls of 8 users: the WATCH loop started again \d+ times, the script 0 times\n$`, out.String())
}
