package shardedlistprom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/survey"
	shardedlistprom "github.com/shardedlist/shardedlist/prometheus"
	"github.com/shardedlist/shardedlist/queue"
)

// serverNames are the names of the metrics that a survey has.
func serverNames() (names []string) {
	for _, m := range survey.Metrics {
		names = append(names, m.Name)
	}
	return names
}

func TestServerMetricsAreThoseOfTheListsThatMatch(t *testing.T) {
	ctx, rdb := t.Context(), newClient(t)
	list, err := shardedlist.New(rdb, "queue:jobs", shardedlist.WithCapacity(2))
	require.NoError(t, err)
	_, err = list.RPush(ctx, "a", "b", "c")
	require.NoError(t, err)
	other, err := shardedlist.New(rdb, "other")
	require.NoError(t, err)
	_, err = other.RPush(ctx, "a")
	require.NoError(t, err)
	mail, err := queue.New(rdb, "queue:mail\xff")
	require.NoError(t, err)
	_, err = mail.Push(ctx, "x")
	require.NoError(t, err)
	_, err = mail.Push(ctx, "y", queue.In(time.Hour))
	require.NoError(t, err)

	c := shardedlistprom.NewServerCollector(rdb, "queue:*")
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP shardedlist_list_length Elements in the list.
# TYPE shardedlist_list_length gauge
shardedlist_list_length{list="queue:jobs"} 3
shardedlist_list_length{list="\"queue:mail\\xff\""} 1
# HELP shardedlist_list_shards Shards, the Redis lists that hold the elements.
# TYPE shardedlist_list_shards gauge
shardedlist_list_shards{list="queue:jobs"} 2
shardedlist_list_shards{list="\"queue:mail\\xff\""} 1
`), "shardedlist_list_length", "shardedlist_list_shards"))
	assert.Equal(t, 4, testutil.CollectAndCount(c, "shardedlist_queue_jobs"), "one for each state of the jobs of the queue")
}

func TestAScrapeFailsIfTheServersCannotBeAsked(t *testing.T) {
	rdb := newClient(t)
	require.NoError(t, rdb.Close())
	registry := prometheus.NewRegistry()
	registry.MustRegister(shardedlistprom.NewServerCollector(rdb, ""))
	_, err := registry.Gather()
	require.ErrorContains(t, err, "closed")
}

// A list that was begun anew beside shards that no meta knows has a sample of them, and no other twice.
func TestStrayShardsHaveAMetric(t *testing.T) {
	ctx, rdb := t.Context(), newClient(t)
	list, err := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(2))
	require.NoError(t, err)
	_, err = list.RPush(ctx, "a", "b", "c", "d", "e")
	require.NoError(t, err)
	require.NoError(t, rdb.Del(ctx, "{jobs}:meta").Err())
	_, err = list.RPush(ctx, "new")
	require.NoError(t, err)
	c := shardedlistprom.NewServerCollector(rdb, "")
	require.NoError(t, prometheus.NewPedanticRegistry().Register(c))
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP shardedlist_list_length Elements in the list.
# TYPE shardedlist_list_length gauge
shardedlist_list_length{list="jobs"} 1
# HELP shardedlist_list_stray_shards Shards that no meta knows, of lists that have lost some: see shardedlist repair.
# TYPE shardedlist_list_stray_shards gauge
shardedlist_list_stray_shards{list="jobs"} 3
`), "shardedlist_list_length", "shardedlist_list_stray_shards"))
}
