// Package shardedlistotel adds the names of sharded lists to the spans of redisotel, and metrics that have them.
//
//	_ = redisotel.InstrumentTracing(rdb)
//	shardedlistotel.Instrument(rdb) // after it
//	_ = shardedlistotel.InstrumentMetrics(rdb, nil)
//
// Without it, the spans of the library's commands have the operation in their names, such as "shardedlist.push", and the list only in the
// key in db.statement. It is a module of its own, so that the library does not depend on OpenTelemetry.
package shardedlistotel

import (
	"context"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/shardedlist/shardedlist"
)

// The attributes, by OpenTelemetry's conventions for databases.
const (
	List      = attribute.Key("db.collection.name") // the name of the list
	Operation = attribute.Key("db.operation.name")  // such as "push"
)

// Instrument adds the attributes List and Operation to the spans of what rdb sends for sharded lists, alone or in a pipeline. A pipeline
// has an attribute only if all of its commands that have a value have the same one. Call it once, after redisotel.InstrumentTracing, and
// for a cluster before its first command.
func Instrument(rdb redis.UniversalClient) { addHook(rdb, hook{}) }

// addHook adds a hook where redisotel adds its own: to the nodes of a cluster or a ring.
func addHook(rdb redis.UniversalClient, h redis.Hook) {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(h) })
	case *redis.Ring:
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(h) })
	default:
		rdb.AddHook(h)
	}
}

// hook is a redis.Hook that is called within the span of redisotel's.
type hook struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		describe(ctx, cmd)
		return next(ctx, cmd)
	}
}

func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		describe(ctx, cmds...)
		return next(ctx, cmds)
	}
}

// describe adds to the current span what commands are for.
func describe(ctx context.Context, cmds ...redis.Cmder) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	list, operation := about(cmds)
	if list != "" {
		span.SetAttributes(List.String(list))
	}
	if operation != "" {
		span.SetAttributes(Operation.String(operation))
	}
}

// about returns the list and the operation that commands have in common. Either is empty if they differ, or have none.
func about(cmds []redis.Cmder) (list, operation string) {
	var lists, operations common
	for _, cmd := range cmds {
		list, operation := shardedlist.CommandInfo(cmd)
		lists.add(list)
		operations.add(operation)
	}
	return lists.get(), operations.get()
}

// common is the value that commands have in common.
type common struct {
	value  string
	differ bool
}

func (c *common) add(value string) {
	switch {
	case value == "":
	case c.value == "":
		c.value = value
	case c.value != value:
		c.differ = true
	}
}

func (c *common) get() string {
	if c.differ {
		return ""
	}
	return c.value
}
