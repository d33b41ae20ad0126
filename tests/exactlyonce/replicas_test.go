package exactlyonce

import (
	"fmt"
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

func TestTooFewReplicasAreAnErrorBesideTheResult(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, more := range map[string][]shardedlist.Option{"once": nil, "without exactly once": {shardedlist.WithoutExactlyOnce()}} {
			t.Run(name, func(t *testing.T) {
				list := harness.NewList(t, server.Client(t), append(more, shardedlist.WithCapacity(2), shardedlist.WithReplicas(1, time.Millisecond))...)
				_, err := list.LPop(t.Context())
				assert.Equal(t, redis.Nil, err, "nothing popped, nothing to wait for")
				_, err = list.BLPop(t.Context(), time.Millisecond)
				assert.Equal(t, redis.Nil, err)

				result := harness.BlockingPop(t, list, t.Context(), 0)
				length, err := list.RPush(t.Context(), harness.Numbers(0, 7)...)
				assert.ErrorIs(t, err, shardedlist.ErrNotReplicated)
				assert.EqualValues(t, 7, length)
				woken := <-result
				assert.Equal(t, "0", woken.Value)
				assert.ErrorIs(t, woken.Err, shardedlist.ErrNotReplicated)

				value, err := list.LPop(t.Context())
				assert.Equal(t, "1", value)
				assert.ErrorIs(t, err, shardedlist.ErrNotReplicated)
				values, err := list.RPopCount(t.Context(), 3)
				assert.Equal(t, []string{"6", "5", "4"}, values)
				assert.ErrorIs(t, err, shardedlist.ErrNotReplicated)
				value, err = list.BRPop(t.Context(), time.Second)
				assert.Equal(t, "3", value)
				assert.ErrorIs(t, err, shardedlist.ErrNotReplicated)
				length, err = list.RPushX(t.Context(), "3")
				assert.EqualValues(t, 2, length)
				assert.ErrorIs(t, err, shardedlist.ErrNotReplicated)
				set, err := list.Expire(t.Context(), time.Hour)
				assert.True(t, set)
				assert.ErrorIs(t, err, shardedlist.ErrNotReplicated)
				assert.Equal(t, []string{"2", "3"}, harness.Content(t, list))
			})
		}
	})
}

func TestEnoughReplicas(t *testing.T) {
	t.Parallel()
	list := harness.NewList(t, redistest.Shared(t, redistest.Sentinel).Client(t), shardedlist.WithCapacity(2), shardedlist.WithReplicas(1, time.Second))
	result := harness.BlockingPop(t, list, t.Context(), 0)
	length, err := list.RPush(t.Context(), harness.Numbers(0, 5)...)
	assert.NoError(t, err)
	assert.EqualValues(t, 5, length)
	assert.Equal(t, harness.Got("0"), <-result)
	values, err := list.LPopCount(t.Context(), 4)
	assert.NoError(t, err)
	assert.Equal(t, harness.Words(harness.Numbers(1, 5)), values)
}

// Newer servers let a WAIT pass at once on a connection that has written nothing, as that of an operation repeated.
func TestARepeatedOperationWaitsForReplicasToo(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			master, proxy := redistest.Start(t, kind, "repl-diskless-sync-delay 0"), redistest.NewProxy(t)
			replica := redistest.Start(t, kind, "replicaof "+strings.Replace(master.Addr(), ":", " ", 1))
			list := harness.NewList(t, master.Client(t, harness.Through(proxy)), shardedlist.WithReplicas(1, 500*time.Millisecond))
			require.Eventually(t, func() bool {
				_, err := list.RPush(t.Context(), "first")
				return err == nil
			}, time.Minute, time.Millisecond)

			replica.Pause()
			defer replica.Resume()
			proxy.Set(redistest.Faults{CutReply: 1})
			done := make(chan error)
			go func() {
				_, err := list.RPush(t.Context(), "second")
				done <- err
			}()
			require.Eventually(t, harness.Strikes(proxy), time.Minute, time.Millisecond)
			proxy.Set(redistest.Faults{})
			assert.ErrorIs(t, <-done, shardedlist.ErrNotReplicated)
			assert.Equal(t, "second", last(harness.Content(t, list)))
		})
	}
}

func last(values []string) string { return values[len(values)-1] }

func TestReplicasOutOfRange(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t, redistest.Embedded).Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = time.Second })
	for _, tt := range []struct {
		replicas int
		timeout  time.Duration
		valid    bool
	}{
		{1, time.Millisecond, true}, {5, 500 * time.Millisecond, true},
		{0, time.Second, false}, {-1, time.Second, false}, {1, 0, false}, {1, time.Microsecond, false}, {1, 501 * time.Millisecond, false},
	} {
		t.Run(fmt.Sprint(tt.replicas, tt.timeout), func(t *testing.T) {
			_, err := shardedlist.New(rdb, "jobs", shardedlist.WithReplicas(tt.replicas, tt.timeout))
			if tt.valid {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, shardedlist.ErrReplicas)
			}
		})
	}
}
