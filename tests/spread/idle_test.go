package spread

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a spread list leaves when it is empty, and for how long, as docs/spread.md says.
func TestWhatAnEmptySpreadListLeaves(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 8)...)
		require.NoError(t, err)
		for i := range 20 {
			_, err := list.RPush(t.Context(), i)
			require.NoError(t, err)
		}
		for err == nil {
			_, err = list.LPop(t.Context())
		}
		require.ErrorIs(t, err, redis.Nil)
		expires, stays := leftBy(t, list)
		assert.ElementsMatch(t, []string{"meta", "part.meta"}, stays, "the pointers, and the part where the list is")
		for key, ttl := range expires {
			assert.Regexp(t, `^part\.(meta|op:.*)$`, key)
			assert.LessOrEqual(t, ttl, 3*time.Minute, key)
		}

		_, err = list.Del(t.Context())
		require.NoError(t, err)
		expires, stays = leftBy(t, list)
		assert.Empty(t, stays)
		for key, ttl := range expires {
			assert.Regexp(t, `^(meta|part\.(meta|op:.*))$`, key)
			assert.LessOrEqual(t, ttl, 3*time.Minute, key)
		}
	})
}

// leftBy returns the keys of a spread list without what they have in front of the colon: those that expire, with the longest time of each
// name, and the others.
func leftBy(t *testing.T, list *shardedlist.ShardedList) (expires map[string]time.Duration, stays []string) {
	expires = map[string]time.Duration{}
	for _, node := range harness.NodesOf(t, list) {
		for _, key := range node.Keys(t.Context(), "{"+list.Name()+"*").Val() {
			_, name, _ := strings.Cut(key, "}:")
			if ttl := node.PTTL(t.Context(), key).Val(); ttl > 0 {
				expires[name] = max(expires[name], ttl)
			} else {
				stays = append(stays, name)
			}
		}
	}
	return expires, stays
}
