package shardedlistotel_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/extra/redisotel/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	shardedlistotel "github.com/shardedlist/shardedlist/otel"
)

func TestMain(m *testing.M) { redistest.Main(m).Run() }

// kinds are servers whose clients redisotel traces in different ways.
var kinds = []redistest.Kind{redistest.Embedded, redistest.Redis, redistest.Cluster}

// traced instruments a client, and returns what records its spans.
func traced(t *testing.T, rdb redis.UniversalClient) (*tracetest.SpanRecorder, *sdk.TracerProvider) {
	t.Helper()
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	require.NoError(t, redisotel.InstrumentTracing(rdb, redisotel.WithTracerProvider(provider)))
	shardedlistotel.Instrument(rdb)
	return recorder, provider
}

// named returns the spans of a name.
func named(recorder *tracetest.SpanRecorder, name string) (spans []sdk.ReadOnlySpan) {
	for _, span := range recorder.Ended() {
		if span.Name() == name {
			spans = append(spans, span)
		}
	}
	return spans
}

func attributes(span sdk.ReadOnlySpan) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, a := range span.Attributes() {
		all[a.Key] = a.Value.String()
	}
	return all
}

func TestSpansTellTheListAndTheOperation(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			ctx, rdb := t.Context(), redistest.Shared(t, kind).Client(t)
			recorder, provider := traced(t, rdb)
			list, err := shardedlist.New(rdb, "jobs "+t.Name())
			require.NoError(t, err)
			caller, span := provider.Tracer("test").Start(ctx, "caller")
			_, err = list.RPush(caller, "a", "b")
			require.NoError(t, err)
			_, err = list.LIndex(caller, 0)
			require.NoError(t, err)
			_, err = list.LPop(caller)
			require.NoError(t, err)
			span.End()
			for _, operation := range []string{"push", "lindex", "pop"} {
				spans := named(recorder, "shardedlist."+operation)
				require.NotEmpty(t, spans, operation)
				last := spans[len(spans)-1] // those before may be of a server that does not have the function or the script
				assert.Equal(t, list.Name(), attributes(last)[shardedlistotel.List])
				assert.Equal(t, operation, attributes(last)[shardedlistotel.Operation])
				assert.Regexp(t, "eval|fcall", attributes(last)["db.statement"], "what is sent")
				assert.Equal(t, span.SpanContext().SpanID(), last.Parent().SpanID(), "it is in the caller's trace")
			}
			assert.Empty(t, named(recorder, "evalsha"), "none is nameless")
			assert.Empty(t, named(recorder, "eval"))
			assert.Empty(t, named(recorder, "fcall"))
			_, err = list.Del(ctx)
			require.NoError(t, err)
		})
	}
}

func TestABatchIsOneSpan(t *testing.T) {
	rdb := redistest.Shared(t, redistest.Redis).Client(t)
	list, err := shardedlist.New(rdb, t.Name())
	require.NoError(t, err)
	_, err = list.RPush(t.Context(), "first") // the server has the script now
	require.NoError(t, err)
	before := list.Stats()
	recorder, _ := traced(t, rdb)
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for range 10 {
				_, err := list.RPush(t.Context(), "x")
				assert.NoError(t, err)
			}
		})
	}
	callers.Wait()
	s := list.Stats()
	assert.Len(t, named(recorder, "shardedlist.push"), int(s.Operations.Push-before.Operations.Push))
	assert.Less(t, s.Operations.Push-before.Operations.Push, int64(640))
	_, err = list.Del(t.Context())
	require.NoError(t, err)
}

func TestPipelinesAndBlockedCallersAreTraced(t *testing.T) {
	for _, kind := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			ctx, rdb, key := t.Context(), redistest.Shared(t, kind).Client(t), "queue:"+t.Name()
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*")))
			recorder, _ := traced(t, rdb)
			_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.RPush(ctx, key, "a")
				pipe.LLen(ctx, key)
				return nil
			})
			require.NoError(t, err)
			spans := named(recorder, "redis.pipeline shardedlist.push shardedlist.llen")
			require.Len(t, spans, 1)
			assert.Equal(t, key, attributes(spans[0])[shardedlistotel.List])
			assert.NotContains(t, attributes(spans[0]), shardedlistotel.Operation, "they differ")
			require.Equal(t, []string{key, "a"}, rdb.BLPop(ctx, time.Second, key).Val())

			popped := make(chan []string, 1)
			go func() { popped <- rdb.BLPop(ctx, time.Minute, key).Val() }()
			require.Eventually(t, func() bool { return len(named(recorder, "shardedlist.pop")) > 1 }, 10*time.Second, time.Millisecond)
			require.NoError(t, rdb.RPush(ctx, key, "b").Err())
			require.Equal(t, []string{key, "b"}, <-popped)
			require.Eventually(t, func() bool { return len(recorder.Ended()) == len(recorder.Started()) }, 10*time.Second, time.Millisecond)
			for _, span := range named(recorder, "redis.pipeline blpop shardedlist.pop") {
				assert.Equal(t, key, attributes(span)[shardedlistotel.List])
				assert.Equal(t, "pop", attributes(span)[shardedlistotel.Operation])
			}

			for range 20 { // into shards they do not pass through Lua
				require.NoError(t, rdb.RPush(ctx, key, strings.Repeat("x", 20<<10)).Err())
			}
			spans = named(recorder, "redis.pipeline multi shardedlist.push rpushx exec")
			require.NotEmpty(t, spans)
			for _, span := range spans {
				assert.Equal(t, key, attributes(span)[shardedlistotel.List])
				assert.Equal(t, "push", attributes(span)[shardedlistotel.Operation])
			}
			require.NoError(t, rdb.Del(ctx, key).Err())
		})
	}
}

// Redirections, repetitions and errors of what is traced are those of what is not.
func TestTracingChangesNothing(t *testing.T) {
	server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
	rdb := server.Client(t, func(o *redis.UniversalOptions) { o.Dialer = proxy.Dial })
	recorder, _ := traced(t, rdb)
	list, err := shardedlist.New(rdb, t.Name())
	require.NoError(t, err)
	proxy.Set(redistest.Faults{CutReply: 0.3})
	for range 50 {
		_, err := list.RPush(t.Context(), "x")
		require.NoError(t, err)
	}
	proxy.Set(redistest.Faults{})
	length, err := list.LLen(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 50, length)
	s := list.Stats()
	assert.Positive(t, s.Repeats)
	assert.GreaterOrEqual(t, len(named(recorder, "shardedlist.push")), int(s.Operations.Push+s.Repeats), "each attempt is a span")
	_, err = list.Del(t.Context())
	require.NoError(t, err)
}
