package shardedlistotel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Duration is the name of the histogram of [InstrumentMetrics].
const Duration = "shardedlist.operation.duration"

// ErrorType is the attribute of operations that failed: the first word of an error of the server, such as OOM, or _OTHER.
const ErrorType = attribute.Key("error.type")

// InstrumentMetrics records how long the operations on sharded lists take that rdb sends, as a histogram in seconds with the attributes
// List, Operation and, of those that failed, ErrorType. redisotel's metrics tell neither list nor operation. The provider may be nil, for
// the global one. Call it once, and for a cluster before its first command.
//
// An operation that callers share, or a pipeline, is one measurement; a pipeline has an attribute only if all of its commands that have a
// value have the same one. One that is sent again is one measurement for each attempt. What waits for elements to come is not measured.
func InstrumentMetrics(rdb redis.UniversalClient, provider metric.MeterProvider) error {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	duration, err := provider.Meter("github.com/shardedlist/shardedlist").Float64Histogram(Duration, metric.WithUnit("s"),
		metric.WithDescription("Time until the reply of an operation on a sharded list."),
		metric.WithExplicitBucketBoundaries(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10))
	if err != nil {
		return fmt.Errorf("shardedlistotel: %w", err)
	}
	addHook(rdb, meter{duration})
	return nil
}

// meter is a redis.Hook that measures.
type meter struct{ duration metric.Float64Histogram }

func (meter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (m meter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		begin := time.Now()
		err := next(ctx, cmd)
		m.record(ctx, time.Since(begin), err, cmd)
		return err
	}
}

func (m meter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		begin := time.Now()
		err := next(ctx, cmds)
		if cmds[0].Name() != "blpop" {
			m.record(ctx, time.Since(begin), err, cmds...)
		}
		return err
	}
}

func (m meter) record(ctx context.Context, took time.Duration, err error, cmds ...redis.Cmder) {
	list, operation := about(cmds)
	if list == "" && operation == "" {
		return
	}
	attributes := make([]attribute.KeyValue, 0, 3)
	if list != "" {
		attributes = append(attributes, List.String(list))
	}
	if operation != "" {
		attributes = append(attributes, Operation.String(operation))
	}
	if err != nil && err != redis.Nil {
		attributes = append(attributes, ErrorType.String(errorType(err)))
	}
	m.duration.Record(ctx, took.Seconds(), metric.WithAttributeSet(attribute.NewSet(attributes...)))
}

// errorType returns the code of an error that the server replied.
func errorType(err error) string {
	var reply redis.Error
	if errors.As(err, &reply) {
		code, _, _ := strings.Cut(reply.Error(), " ")
		if code != "" && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			return code
		}
	}
	return "_OTHER"
}
