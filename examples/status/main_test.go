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

func TestMain(m *testing.M) { redistest.Main(m).Run() }

type poster func(ctx context.Context, rdb redis.UniversalClient, user, text string) (int64, error)

// Both forms meet the same fault. words are those of the request at which it strikes.
func TestPosts(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		direct := server.Client(t)
		for name, tt := range map[string]struct {
			post  poster
			words string
			fault wire.Fault
			want  string // the error of Messages
		}{
			"naive, crash before the message is stored": {naivePost, "message of", wire.Crash, "message 2 of 2 is missing"},
			"script, crash before it is sent":           {Post, "message of", wire.Crash, ""},
			"naive, renamed before it is counted":       {naivePost, "hincrby", wire.None, `message 2 has a former name: "ann: message of ann"`},
			"script, renamed before it is sent":         {Post, "message of", wire.None, ""},
		} {
			var faulty wire.Wire
			rdb, user := server.Client(t, faulty.Through), t.Name()+name
			require.NoError(t, Rename(t.Context(), rdb, user, "ann"))
			_, err := tt.post(t.Context(), rdb, user, "first")
			require.NoError(t, err, name)
			faulty.On(tt.words, tt.fault, func() { assert.NoError(t, Rename(context.Background(), direct, user, "anna")) })
			_, err = tt.post(t.Context(), rdb, user, "message of ann")
			assert.Equal(t, tt.fault == wire.Crash, err != nil, name)
			require.Equal(t, 1, faulty.Struck(), "the fault of %s has struck", name)
			messages, err := Messages(t.Context(), direct, user)
			if tt.want == "" {
				assert.NoError(t, err, name)
				assert.NotEmpty(t, messages)
			} else {
				assert.EqualError(t, err, tt.want, name)
			}
		}
	})
}

func TestNobodyPosts(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		_, err := Post(t.Context(), server.Client(t), t.Name(), "text")
		assert.ErrorIs(t, err, ErrNoUser)
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), redistest.Start(t, redistest.Embedded).Client(t), &out))
	assert.Equal(t, "1 ann: hello\n2 anna: I have a new name\n", out.String())
}
