// Package shardedlistotel adds the names of sharded lists to the spans of redisotel.
//
//	_ = redisotel.InstrumentTracing(rdb)
//	shardedlistotel.Instrument(rdb) // after it
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
func Instrument(rdb redis.UniversalClient) {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient: // redisotel traces the nodes
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(hook{}) })
	case *redis.Ring:
		rdb.OnNewNode(func(node *redis.Client) { node.AddHook(hook{}) })
	default:
		rdb.AddHook(hook{})
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
	var lists, operations common
	for _, cmd := range cmds {
		list, operation := shardedlist.CommandInfo(cmd)
		lists.add(list)
		operations.add(operation)
	}
	lists.set(span, List)
	operations.set(span, Operation)
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

func (c *common) set(span trace.Span, key attribute.Key) {
	if c.value != "" && !c.differ {
		span.SetAttributes(key.String(c.value))
	}
}
