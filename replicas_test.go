package shardedlist

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestTooFewReplicasAreAnErrorBesideTheResult(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, more := range map[string][]Option{"once": nil, "without exactly once": {WithoutExactlyOnce()}} {
			t.Run(name, func(t *testing.T) {
				list := newList(t, server.Client(t), append(more, WithCapacity(2), WithReplicas(1, time.Millisecond))...)
				_, err := list.LPop(t.Context())
				assert.Equal(t, redis.Nil, err, "nothing popped, nothing to wait for")
				_, err = list.BLPop(t.Context(), time.Millisecond)
				assert.Equal(t, redis.Nil, err)

				result := blockingPop(t, list, t.Context(), 0)
				length, err := list.RPush(t.Context(), numbers(0, 7)...)
				assert.ErrorIs(t, err, ErrNotReplicated)
				assert.EqualValues(t, 7, length)
				woken := <-result
				assert.Equal(t, "0", woken.value)
				assert.ErrorIs(t, woken.err, ErrNotReplicated)

				value, err := list.LPop(t.Context())
				assert.Equal(t, "1", value)
				assert.ErrorIs(t, err, ErrNotReplicated)
				values, err := list.RPopCount(t.Context(), 3)
				assert.Equal(t, []string{"6", "5", "4"}, values)
				assert.ErrorIs(t, err, ErrNotReplicated)
				value, err = list.BRPop(t.Context(), time.Second)
				assert.Equal(t, "3", value)
				assert.ErrorIs(t, err, ErrNotReplicated)
				length, err = list.RPushX(t.Context(), "3")
				assert.EqualValues(t, 2, length)
				assert.ErrorIs(t, err, ErrNotReplicated)
				set, err := list.Expire(t.Context(), time.Hour)
				assert.True(t, set)
				assert.ErrorIs(t, err, ErrNotReplicated)
				assert.Equal(t, []string{"2", "3"}, content(t, list))
			})
		}
	})
}

func TestEnoughReplicas(t *testing.T) {
	t.Parallel()
	list := newList(t, redistest.Shared(t, redistest.Sentinel).Client(t), WithCapacity(2), WithReplicas(1, time.Second))
	result := blockingPop(t, list, t.Context(), 0)
	length, err := list.RPush(t.Context(), numbers(0, 5)...)
	assert.NoError(t, err)
	assert.EqualValues(t, 5, length)
	assert.Equal(t, popped{"0", nil}, <-result)
	values, err := list.LPopCount(t.Context(), 4)
	assert.NoError(t, err)
	assert.Equal(t, words(numbers(1, 5)), values)
}

// Newer servers let a WAIT pass at once on a connection that has written nothing, as that of an operation repeated.
func TestARepeatedOperationWaitsForReplicasToo(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			master, proxy := redistest.Start(t, kind, "repl-diskless-sync-delay 0"), redistest.NewProxy(t)
			replica := redistest.Start(t, kind, "replicaof "+strings.Replace(master.Addr(), ":", " ", 1))
			list := newList(t, master.Client(t, through(proxy)), WithReplicas(1, 500*time.Millisecond))
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
			require.Eventually(t, strikes(proxy), time.Minute, time.Millisecond)
			proxy.Set(redistest.Faults{})
			assert.ErrorIs(t, <-done, ErrNotReplicated)
			assert.Equal(t, "second", last(content(t, list)))
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
			_, err := New(rdb, "jobs", WithReplicas(tt.replicas, tt.timeout))
			if tt.valid {
				assert.NoError(t, err)
			} else {
				assert.ErrorIs(t, err, ErrReplicas)
			}
		})
	}
}
