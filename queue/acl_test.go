package queue

import (
	"context"
	"errors"
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

// The permissions that docs/queue.md names are enough.
func TestPermissionsOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/queue.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ {4}(ACL SETUSER worker .*)$`).FindStringSubmatch(string(page))
	require.NotNil(t, rule)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx := t.Context()
			var words []any
			for _, word := range strings.Fields(rule[1]) {
				words = append(words, word)
			}
			require.NoError(t, server.Client(t).Do(ctx, words...).Err())
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "worker", Password: "secret"})
			t.Cleanup(func() { _ = rdb.Close() })
			require.ErrorContains(t, rdb.FlushAll(ctx).Err(), "NOPERM", "the user is a restricted one")

			q := openQueue(t, rdb, "mail", Rate(1000, time.Second), Concurrency(2), Lease(2*time.Second), Backoff(func(int) time.Duration { return time.Millisecond }),
				OnError(func(err error) { t.Error(err) }))
			require.NoError(t, rdb.RPush(ctx, "mail", "plain").Err())
			_, err := q.Push(ctx, "fails", Unique("x", time.Hour))
			require.NoError(t, err)
			_, err = q.PushMany(ctx, []any{"dies", "slow"}, In(time.Millisecond))
			require.NoError(t, err)
			later, err := q.Push(ctx, "later", In(time.Hour))
			require.NoError(t, err)
			require.NoError(t, q.Cancel(ctx, later))
			require.NoError(t, q.Pause(ctx))
			require.NoError(t, q.Resume(ctx))
			c := consume(t, q, 3, func(_ context.Context, job *Job) error {
				switch payload := string(job.Payload); {
				case payload == "dies":
					return ErrDead
				case payload == "fails" && job.Attempt == 1:
					return errors.New("why")
				case payload == "slow":
					first, _ := leaseEnd(q, job)
					eventually(t, func() bool { end, err := leaseEnd(q, job); return err != nil || end > first })
				}
				return nil
			})
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 3 && s.Dead == 1 })
			require.NoError(t, c.end())
			for _, state := range []State{Waiting, Delayed, Leased, Dead} {
				_, err := q.Peek(ctx, state, 5)
				require.NoError(t, err)
			}
			retried, err := q.RetryAll(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, 1, retried)
		})
	}
}
