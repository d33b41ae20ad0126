package exactlyonce

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// additions are the ways to add a value at the left end of a list, or anywhere. A value is moved from the list of its name.
var additions = map[string]func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error{
	"lpush": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		return rdb.LPush(ctx, tag+"q", value).Err()
	},
	"lpushx": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		return rdb.LPushX(ctx, tag+"q", value).Err()
	},
	"linsert": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		return rdb.LInsertBefore(ctx, tag+"q", "pivot", value).Err()
	},
	"lmove": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		return rdb.LMove(ctx, tag+value, tag+"q", "left", "left").Err()
	},
	"blmove": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		return rdb.BLMove(ctx, tag+value, tag+"q", "left", "left", 0).Err()
	},
	"pipeline": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.LPush(ctx, tag+"q", value).Err() })
		return err
	},
	"pipeline of others": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.LPushX(ctx, tag+"q", value).Err() })
		return err
	},
	"transaction": func(ctx context.Context, rdb redis.UniversalClient, tag, value string) error {
		_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.LPush(ctx, tag+"q", value).Err() })
		return err
	},
}

// While it is not known what became of an operation that added elements and was given up, no other one adds any at that end.
func TestNothingIsAddedBeforeWhatWasGivenUpIsResolved(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for first, giveUp := range additions {
			for second, add := range additions {
				rdb, scripts, tag := watched(t, server)
				ctx, cancel := context.WithCancel(t.Context())
				scripts.Set(func(string, func() error) error {
					cancel()
					return io.EOF
				})
				require.ErrorIs(t, giveUp(ctx, rdb, tag, "first"), shardedlist.ErrOutcomeUnknown, first)
				require.True(t, scripts.Sent("first"), "the fault of %s has struck", first)
				soon, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
				err := add(soon, rdb, tag, "second")
				stop()
				assert.Error(t, err)
				assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown, "%s after %s", second, first)
				assert.False(t, scripts.Sent("second"), "%s after %s", second, first)

				scripts.Set(nil)
				require.NoError(t, add(t.Context(), rdb, tag, "second"), "%s after %s", second, first)
				assert.Equal(t, []string{"second", "pivot"}, rdb.LRange(t.Context(), tag+"q", 0, -1).Val(), "%s after %s", second, first)
			}
		}
	})
}

// The same if the operation is still on its way when its caller returns.
func TestNothingIsAddedBeforeWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, first := range []string{"lpushx", "linsert", "lmove", "blmove"} {
			for _, second := range []string{"lpush", "lpushx", "blmove", "transaction"} {
				rdb, scripts, tag := watched(t, server)
				ctx, cancel := context.WithCancel(t.Context())
				arrive := make(chan struct{})
				scripts.Set(func(words string, send func() error) error {
					if strings.Contains(words, "first") {
						cancel()
						<-arrive
					}
					return send()
				})
				require.ErrorIs(t, additions[first](ctx, rdb, tag, "first"), shardedlist.ErrOutcomeUnknown, first)
				done := make(chan error, 1)
				go func() { done <- additions[second](t.Context(), rdb, tag, "second") }()
				time.Sleep(10 * time.Millisecond) // in which it would be sent
				assert.False(t, scripts.Sent("second"), "%s after %s", second, first)
				close(arrive)
				require.NoError(t, <-done)
				assert.Equal(t, "pivot", rdb.RPop(t.Context(), tag+"q").Val())
				assert.Equal(t, []string{"second", "first"}, rdb.LRange(t.Context(), tag+"q", 0, -1).Val(), "%s after %s", second, first)
			}
		}
	})
}

// What follows in a pipeline is not repeated either, while what precedes it at that end is not resolved.
func TestAPipelineDoesNotOvertakeItself(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, scripts, tag := watched(t, server)
		var lost atomic.Bool
		scripts.Set(func(words string, send func() error) error {
			if strings.Contains(words, "first") && strings.Contains(words, "second") {
				lost.Store(true)
			}
			return io.EOF
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.LPush(ctx, tag+"q", "first")
			pipe.LLen(ctx, tag+"q")
			return pipe.LPush(ctx, tag+"q", "second").Err()
		})
		assert.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
		assert.True(t, lost.Load(), "both were lost")
		assert.Equal(t, 1, scripts.Count("second"))
		scripts.Set(nil)
		require.NoError(t, rdb.LPush(t.Context(), tag+"q", "third").Err())
		assert.Equal(t, []string{"third", "pivot"}, rdb.LRange(t.Context(), tag+"q", 0, -1).Val())
	})
}

// watched is a client whose list commands are sharded, the scripts that it sends, and the tag of a list "q" and of two to move from.
func watched(t *testing.T, server *redistest.Server) (redis.UniversalClient, *harness.Scripts, string) {
	tag := "{" + harness.UniqueName(t) + "}"
	rdb := server.Client(t)
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(tag+"*"), shardedlist.WithCapacity(2)))
	require.NoError(t, rdb.RPush(t.Context(), tag+"q", "pivot").Err())
	for _, value := range []string{"first", "second"} {
		require.NoError(t, rdb.RPush(t.Context(), tag+value, value).Err())
	}
	s := &harness.Scripts{}
	rdb.AddHook(s)
	return rdb, s, tag
}
