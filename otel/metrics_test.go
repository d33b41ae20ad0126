package shardedlistotel_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	shardedlistotel "github.com/shardedlist/shardedlist/otel"
)

// measured instruments a client, and returns what reads its measurements.
func measured(t *testing.T, rdb redis.UniversalClient) *sdk.ManualReader {
	t.Helper()
	reader := sdk.NewManualReader()
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	require.NoError(t, shardedlistotel.InstrumentMetrics(rdb, provider))
	return reader
}

// counts returns how many operations of a list were measured, by operation and type of error.
func counts(t *testing.T, reader *sdk.ManualReader, list string) map[[2]string]uint64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	found := map[[2]string]uint64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			assert.Equal(t, shardedlistotel.Duration, m.Name)
			assert.Equal(t, "s", m.Unit)
			for _, point := range m.Data.(metricdata.Histogram[float64]).DataPoints {
				value := func(key attribute.Key) string {
					v, _ := point.Attributes.Value(key)
					return v.AsString()
				}
				if value(shardedlistotel.List) == list {
					found[[2]string{value(shardedlistotel.Operation), value(shardedlistotel.ErrorType)}] += point.Count
					assert.Positive(t, point.Sum)
				}
			}
		}
	}
	return found
}

func TestMeasurementsTellTheListAndTheOperation(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			ctx, rdb := t.Context(), redistest.Shared(t, kind).Client(t)
			reader := measured(t, rdb)
			list, err := shardedlist.New(rdb, "jobs "+t.Name())
			require.NoError(t, err)
			for _, value := range []string{"a", "b", "c"} {
				_, err = list.RPush(ctx, value)
				require.NoError(t, err)
			}
			for range 4 {
				_, err = list.LPop(ctx)
			}
			require.Equal(t, redis.Nil, err)
			_, err = list.LIndex(ctx, 5)
			require.Equal(t, redis.Nil, err)
			require.NoError(t, rdb.Set(ctx, "other", 1, time.Minute).Err())
			found := counts(t, reader, list.Name())
			assert.GreaterOrEqual(t, found[[2]string{"push", ""}], uint64(3))
			assert.GreaterOrEqual(t, found[[2]string{"pop", ""}], uint64(4))
			assert.Positive(t, found[[2]string{"lindex", ""}])
			for of := range found {
				assert.Contains(t, []string{"", "NOSCRIPT", "ERR"}, of[1], "what is not there is no error, and neither is an empty list")
			}
			assert.Empty(t, counts(t, reader, ""), "commands that are not the library's")
		})
	}
}

func TestMeasurementsOfFailuresAndPipelines(t *testing.T) {
	ctx, rdb, key := t.Context(), redistest.Shared(t, redistest.Redis).Client(t), "queue:"+t.Name()
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*")))
	reader := measured(t, rdb)
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.RPush(ctx, key, "a")
		pipe.LLen(ctx, key)
		return nil
	})
	require.NoError(t, err)
	assert.Equal(t, uint64(1), counts(t, reader, key)[[2]string{"", ""}], "its operations differ")

	require.NoError(t, rdb.Del(ctx, key).Err())
	require.NoError(t, rdb.Set(ctx, "{"+key+"}:meta", "no list", 0).Err())
	require.ErrorContains(t, rdb.RPush(ctx, key, "a").Err(), "WRONGTYPE")
	assert.Positive(t, counts(t, reader, key)[[2]string{"push", "WRONGTYPE"}])
	require.NoError(t, rdb.Do(ctx, "UNLINK", "{"+key+"}:meta").Err())

	before, alone := counts(t, reader, key), &lonePops{}
	rdb.AddHook(alone)
	require.Equal(t, redis.Nil, rdb.BLPop(ctx, 300*time.Millisecond, key).Err())
	after, pop := counts(t, reader, key), [2]string{"pop", ""}
	assert.Positive(t, alone.pipelines.Load())
	assert.Equal(t, alone.commands.Load(), int64(after[pop]-before[pop]), "what waits is not measured")
}

// lonePops counts pops that are sent alone, and pipelines.
type lonePops struct{ commands, pipelines atomic.Int64 }

func (*lonePops) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *lonePops) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if _, operation := shardedlist.CommandInfo(cmd); operation == "pop" && !redis.HasErrorPrefix(err, "NOSCRIPT") {
			l.commands.Add(1)
		}
		return err
	}
}

func (l *lonePops) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		l.pipelines.Add(1)
		return next(ctx, cmds)
	}
}
