package main

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m).Run() }

// scriptOf returns increase with a text that no server knows, and keys that are on all nodes of a cluster.
func scriptOf() (s *Script, keys []string) {
	id := uuid.NewString()
	for i := range 30 {
		keys = append(keys, fmt.Sprint(id, i))
	}
	return NewScript(increase.source + "-- " + id), keys
}

// forget makes all nodes forget all scripts. Each test that does so has a server of its own.
func forget(t *testing.T, server *redistest.Server) {
	for _, node := range server.Nodes() {
		require.NoError(t, node.Client(t).ScriptFlush(t.Context()).Err())
	}
}

// sum adds up the keys.
func sum(t *testing.T, rdb redis.UniversalClient, keys []string) (total int) {
	for _, key := range keys {
		n, err := rdb.Get(t.Context(), key).Int()
		if err != redis.Nil {
			require.NoError(t, err)
		}
		total += n
	}
	return total
}

// A pipeline goes to all nodes of a cluster, of which one knows the script.
func TestAScriptOnEveryNode(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Cluster)
	rdb := server.Client(t)
	s, keys := scriptOf()
	naive := loadNaive(t.Context(), rdb, s.source)
	failed, err := counts(t.Context(), rdb, keys, naive.queue)
	assert.True(t, redis.HasErrorPrefix(err, "NOSCRIPT"), "%v", err)
	assert.Greater(t, failed, 0)
	assert.Less(t, failed, len(keys))
	assert.Equal(t, len(keys)-failed, sum(t, rdb, keys), "the pipeline is done in part")

	s, keys = scriptOf()
	failed, err = counts(t.Context(), rdb, keys, s.Queue)
	require.NoError(t, err)
	assert.Zero(t, failed)
	assert.Equal(t, len(keys), sum(t, rdb, keys))

	s, _ = scriptOf()
	require.NoError(t, Load(t.Context(), rdb, s))
	for _, node := range server.Nodes() {
		assert.Equal(t, []bool{true}, node.Client(t).ScriptExists(t.Context(), s.hash).Val())
	}
}

// All nodes lose their scripts, as in a restart.
func TestScriptsAreForgotten(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Embedded, redistest.Redis, redistest.Valkey, redistest.Cluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			rdb := server.Client(t)
			s, keys := scriptOf()
			require.NoError(t, Load(t.Context(), rdb, s))
			naive := &naiveScript{s.hash}
			failed, err := counts(t.Context(), rdb, keys, naive.queue)
			require.NoError(t, err)
			require.Zero(t, failed, "all nodes know it")

			forget(t, server)
			failed, err = counts(t.Context(), rdb, keys, naive.queue)
			assert.True(t, redis.HasErrorPrefix(err, "NOSCRIPT"), "%v", err)
			assert.Equal(t, len(keys), failed)

			forget(t, server)
			failed, err = counts(t.Context(), rdb, keys, s.Queue)
			require.NoError(t, err)
			assert.Zero(t, failed)
			forget(t, server)
			for _, key := range keys {
				require.NoError(t, s.Run(t.Context(), rdb, []string{key}, 100).Err())
			}
			assert.Equal(t, 3*len(keys), sum(t, rdb, keys))
		})
	}
}

// A transaction takes the text as well.
func TestAScriptInATransaction(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		s, keys := scriptOf()
		_, err := rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
			pipe.Set(t.Context(), keys[0], 7, 0)
			return s.Queue(t.Context(), pipe, keys[:1], 100).Err()
		})
		require.NoError(t, err)
		assert.Equal(t, 8, sum(t, rdb, keys[:1]))
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(context.WithoutCancel(t.Context()), redistest.Start(t, redistest.Embedded).Client(t), &out))
	assert.Regexp(t, `^naive: 0 of 5 fail: <nil>
naive, when the server has lost its scripts: 5 of 5 fail: NOSCRIPT .*
text in the pipeline: 0 of 5 fail: <nil>
alone: 3
$`, out.String())
}
