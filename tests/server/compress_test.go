package server_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where the server compresses lists, shards take about what the plain list takes, however they came about.
func TestShardsAreCompressed(t *testing.T) {
	t.Parallel()
	elements := redistest.Times(40_000, 60_000)
	job := func(i int) string {
		return fmt.Sprintf(`{"id":%d,"class":"SendMail","queue":"mail","args":[{"to":"user%d@example.com","template":"welcome","language":"en"}],`+
			`"retry":true,"created_at":%d,"enqueued_at":%d,"tags":["transactional","first"]}`, i, rand.IntN(1e6), 1_700_000_000+i, 1_700_000_000+i)
	}
	short := func(i int) string { return fmt.Sprintf("user:%09d", i) }
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for name, element := range map[string]func(int) string{"jobs": job, "short": short} {
			for _, together := range []int{10, 1000} {
				t.Run(fmt.Sprintf("%s/%s/%d", kind, name, together), func(t *testing.T) {
					t.Parallel()
					rdb := redistest.Start(t, kind).Client(t).(*redis.Client)
					require.NoError(t, rdb.ConfigSet(t.Context(), "list-compress-depth", "1").Err())
					list := harness.NewList(t, rdb)
					values := make([]any, together)
					for from := 0; from < elements; from += together {
						for i := range values {
							values[i] = element(from + i)
						}
						require.NoError(t, rdb.RPush(t.Context(), "plain", values...).Err())
						_, err := list.RPush(t.Context(), values...)
						require.NoError(t, err)
					}
					plain, err := rdb.MemoryUsage(t.Context(), "plain", 0).Result()
					require.NoError(t, err)
					info, err := list.Info(t.Context())
					require.NoError(t, err)
					require.Greater(t, info.Shards, int64(3))
					ratio := float64(info.Bytes) / float64(plain)
					t.Logf("%d bytes an element, plain %d: %.2f; %d shards of %d", info.Bytes/int64(elements), plain/int64(elements), ratio, info.Shards, info.Capacity)
					assert.Less(t, ratio, 1.25)
				})
			}
		}
	}
}
