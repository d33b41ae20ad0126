package limit

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// The permissions that docs/limit.md names are enough.
func TestPermissionsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/limit.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ {4}(ACL SETUSER worker .*)$`).FindStringSubmatch(string(page))
	require.NotNil(t, rule)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, ctx := redistest.Start(t, kind), soon(t)
			var words []any
			for _, word := range strings.Fields(rule[1]) {
				words = append(words, word)
			}
			admin := server.Client(t)
			require.NoError(t, admin.Do(ctx, words...).Err())
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "worker", Password: "secret"})
			t.Cleanup(func() { _ = rdb.Close() })
			require.ErrorContains(t, rdb.FlushAll(ctx).Err(), "NOPERM", "the user is a restricted one")

			fixed, err := NewFixedWindow(rdb, "api", 2, time.Hour)
			require.NoError(t, err)
			for range 3 {
				_, err := fixed.Allow(ctx)
				require.NoError(t, err)
			}
			day, err := NewDailyCap(rdb, "api", 2, time.UTC)
			require.NoError(t, err)
			_, err = day.Add(ctx, "ann")
			require.NoError(t, err)
			_, err = day.Count(ctx)
			require.NoError(t, err)
			for _, r := range slowLimiters(t, rdb, "api") {
				require.NoError(t, r.WaitN(ctx, 2))
				before, err := admin.HGetAll(ctx, r.state()).Result()
				require.NoError(t, err)
				waits, cancel := context.WithCancel(t.Context()) // without a deadline
				returned := make(chan error, 1)
				go func() { returned <- r.Wait(waits) }()
				require.Eventually(t, func() bool { // it has reserved its place
					return !maps.Equal(before, admin.HGetAll(ctx, r.state()).Val())
				}, patience, time.Millisecond)
				cancel()
				require.ErrorIs(t, <-returned, context.Canceled) // and gives back what it had reserved
			}
			semaphore, err := NewSemaphore(rdb, "api", 1, time.Minute)
			require.NoError(t, err)
			permit, err := semaphore.Acquire(ctx)
			require.NoError(t, err)
			released := make(chan error, 1)
			go func() {
				permit, err := semaphore.Acquire(ctx)
				if err == nil {
					err = permit.Release(ctx)
				}
				released <- err
			}()
			blocked(t, admin, semaphore.holders)
			require.NoError(t, permit.Refresh(ctx))
			require.NoError(t, permit.Release(ctx))
			require.NoError(t, <-released)
			lock, err := NewLock(rdb, "api", time.Minute)
			require.NoError(t, err)
			held, err := lock.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, held.Unlock(ctx))

			log, err := admin.Do(ctx, "ACL", "LOG").Slice()
			require.NoError(t, err)
			for _, entry := range log {
				// The client bears with a server that does not want to know its name.
				assert.Regexp(t, `object[: ](flushall|client\|setinfo)`, fmt.Sprint(entry))
			}
		})
	}
}
