package spread

import (
	"context"
	"fmt"
	"strings"
	"sync"
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

// tripCounter is a hook that counts a client's round trips, and those of them that look at a shard.
type tripCounter struct{ all, looks atomic.Int64 }

func (r *tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.all.Add(1)
		args := cmd.Args() // a script that is no operation of a session has no id in its first argument
		if redistest.IsCall(cmd.Name()) && strings.HasSuffix(fmt.Sprint(args[3]), ":part.meta") && args[5] == "" {
			r.looks.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (r *tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.all.Add(1)
		return next(ctx, cmds)
	}
}

// of returns the round trips of a call.
func (r *tripCounter) of(t *testing.T, call func() error) int64 {
	before := r.all.Load()
	require.NoError(t, call())
	return r.all.Load() - before
}

// An operation at an end takes one round trip, and up to three more where the list goes on with another shard. An index takes up to four.
func TestRoundTripsOfASpreadList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		const elements, capacity = 400, 20
		trips, rdb := &tripCounter{}, server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(64), shardedlist.WithCapacity(capacity))
		rdb.AddHook(trips)
		for _, counts := range []bool{false, true} { // the first time, servers get to know scripts, and the client the list
			calls := func(name string, call func() error) {
				start, more, most := time.Now(), 0, 0
				for range elements {
					took := trips.of(t, call)
					if took > 4 {
						most++
					}
					if took > 1 {
						more++
					}
				}
				looks := 1 + int(time.Since(start)/time.Second) // at the other end, which a client looks at once a second
				if counts {
					assert.LessOrEqual(t, most, looks, name)
				}
				if counts && name != "LIndex" {
					assert.LessOrEqual(t, more, elements/capacity+1+looks, name) // only at the borders
				}
			}
			at := int64(0)
			calls("RPush", func() error { return harness.ErrorOf(list.RPush(t.Context(), "x")) })
			calls("LPush", func() error { return harness.ErrorOf(list.LPush(t.Context(), "x")) })
			calls("LIndex", func() error { at += 2; return harness.ErrorOf(list.LIndex(t.Context(), at-1)) })
			calls("LPop", func() error { return harness.ErrorOf(list.LPop(t.Context())) })
			calls("RPop", func() error { return harness.ErrorOf(list.RPop(t.Context())) })
		}
	})
}

// Of callers that push together, one looks at the other end of a list whose pointers have moved.
func TestCallersWhoPushTogetherLookOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	looks, rdb := &tripCounter{}, server.Client(t)
	list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(10))
	rdb.AddHook(looks)
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			for range 20 {
				assert.NoError(t, harness.ErrorOf(list.RPush(t.Context(), "x")))
			}
		})
	}
	group.Wait()
	info, err := list.Info(t.Context())
	require.NoError(t, err)
	assert.Less(t, looks.looks.Load(), 2*(info.Last-info.First)+10)
}
