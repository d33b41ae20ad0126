package commands

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
)

// Callers that wait on the same lists share one wait, and are served in the order they came, from the lists in their order.
func TestCallersThatWaitOnTheSameListsWaitTogether(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Minute }).(*redis.Client)
			lists := newLists(t, rdb, 3, 4)
			harness.OneSlot(lists[0]).MaxSlice = 10 * time.Minute // the end of a slice would hide that nobody is woken
			pop := func() (string, error) {
				from, value, err := shardedlist.BLPop(t.Context(), 0, lists...)
				if err != nil {
					return "", err
				}
				return from.Name()[len(from.Name())-1:] + value, nil
			}
			var results []<-chan harness.Popped
			wait := func(callers int) {
				results = nil
				for i := range callers {
					results = append(results, await(t, lists[0], pop))
					require.Eventually(t, func() bool { return lists[0].Stats().Waiting == int64(i+1) }, 10*time.Second, time.Millisecond)
				}
				require.Eventually(t, func() bool {
					s := lists[0].Stats()
					return s.Blocked == 1 && s.Listening == 0
				}, 10*time.Second, time.Millisecond)
			}
			push := func(pipe redis.Pipeliner, list *shardedlist.ShardedList, values ...any) {
				op := harness.OneSlot(list).Pushes(layout.Right).Join([]*batch.Request{{Values: values, Count: len(values)}})
				pipe.Do(t.Context(), op.Prepare().Whole(t.Context()).Args()...)
			}
			for round := range 5 {
				wait(6)
				_, err := rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error { // so that none is served before all are there
					push(pipe, lists[1], "a")
					push(pipe, lists[2], "b", "c", "d", "e", "f", "g")
					return nil
				})
				require.NoError(t, err)
				for i, want := range []string{"1a", "2b", "2c", "2d", "2e", "2f"} {
					assert.Equal(t, harness.Got(want), <-results[i], "round %d, caller %d", round, i)
				}
				value, err := pop()
				assert.Equal(t, "2g", fmt.Sprint(value), err)
			}

			// Those who come while there are some elements, but not for all, are woken for the rest.
			for range 20 {
				lists := newLists(t, rdb, 3, 4) // which nobody has waited on
				harness.OneSlot(lists[0]).MaxSlice = 10 * time.Minute
				_, err := lists[1].RPush(t.Context(), 0, 1, 2)
				require.NoError(t, err)
				popped := make(chan harness.Popped)
				for range 6 {
					go func() {
						_, value, err := shardedlist.BLPop(t.Context(), 0, lists...)
						popped <- harness.Popped{Value: value, Err: err}
					}()
				}
				for i := range 6 {
					if i >= 3 {
						_, err := lists[1].RPush(t.Context(), i)
						require.NoError(t, err)
					}
					assert.NoError(t, (<-popped).Err)
				}
			}

			// One that joins while a key holds another type is told so, and nobody else.
			wait(1)
			require.NoError(t, rdb.Set(t.Context(), lists[1].Name(), "text", 0).Err())
			_, _, err := shardedlist.BLPop(t.Context(), 0, lists...)
			assert.ErrorContains(t, err, "WRONGTYPE")
			require.NoError(t, rdb.Del(t.Context(), lists[1].Name()).Err())
			_, err = lists[2].RPush(t.Context(), "h")
			require.NoError(t, err)
			assert.Equal(t, harness.Got("2h"), <-results[0])
		})
	}
}
