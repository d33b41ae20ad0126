package shardedlistprom_test

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	shardedlistprom "github.com/shardedlist/shardedlist/prometheus"
)

func newClient(t *testing.T) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestMetricsFollowTheConventions(t *testing.T) {
	registry := prometheus.NewPedanticRegistry() // which compares what is described with what is collected
	rdb := newClient(t)
	list, err := shardedlist.New(rdb, "jobs")
	require.NoError(t, err)
	require.NoError(t, registry.Register(shardedlistprom.NewCollector("jobs", list)))
	require.NoError(t, registry.Register(shardedlistprom.NewCollector("queue:*", shardedlist.NewHook(rdb, shardedlist.Match("queue:*")))))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	assert.Empty(t, problems)
}

func TestMetricsAreTheStats(t *testing.T) {
	ctx, rdb := t.Context(), newClient(t)
	list, err := shardedlist.New(rdb, "jobs")
	require.NoError(t, err)
	c := shardedlistprom.NewCollector("jobs", list)
	_, err = list.RPush(ctx, "a", "b", "c", "d")
	require.NoError(t, err)
	_, err = list.LPop(ctx)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(ctx)
	_, err = list.BLPop(ctx, time.Second)
	require.NoError(t, err)
	_, err = list.BLPop(ctx, time.Second)
	require.NoError(t, err)
	_, err = list.Del(ctx)
	require.NoError(t, err)
	waiter := make(chan error, 1)
	go func() {
		_, err := list.BLPop(ctx, 0)
		waiter <- err
	}()
	require.Eventually(t, func() bool { return list.Stats().Waiting == 1 }, 10*time.Second, time.Millisecond)
	expect := map[string]float64{
		"shardedlist_pushed_elements_total": 4, "shardedlist_popped_elements_total": 3, "shardedlist_waiting_callers": 1,
		"shardedlist_waits_total": 2, "shardedlist_repeats_total": 0, "shardedlist_outcomes_unknown_total": 0,
	}
	families, err := gather(c)
	require.NoError(t, err)
	for name, value := range expect {
		m := families[name]
		require.NotNil(t, m, name)
		assert.Equal(t, value, m.GetCounter().GetValue()+m.GetGauge().GetValue(), name)
		assert.Equal(t, "jobs", m.GetLabel()[0].GetValue())
	}
	batches := families["shardedlist_batch_calls"].GetHistogram()
	assert.EqualValues(t, list.Stats().Batches.Count, batches.GetSampleCount())
	assert.EqualValues(t, list.Stats().Batches.Calls, batches.GetSampleSum())
	assert.Positive(t, families["shardedlist_server_seconds_total"].GetCounter().GetValue())
	assert.Positive(t, families["shardedlist_wait_seconds_total"].GetCounter().GetValue())
	cancel()
	require.ErrorIs(t, <-waiter, context.Canceled)
}
