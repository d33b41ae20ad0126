package hook

import (
	"context"
	"time"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/session"
)

// command describes a Redis command to the hook.
type command struct {
	arity   int // words, the command's name among them; if negative, at least as many
	keys    keySpec
	general bool // it applies to keys of any type: to the plain key where there is no sharded list
	grows   bool // Redis refuses it while memory is full

	// translate returns the operations that carry it out on the lists of its keys.
	translate func(ctx context.Context, c *invocation, lists []layout.List) (*translation, error)
	// direct carries out one that stands alone: a command that shares operations with other callers, or that has to wait.
	direct  func(ctx context.Context, c *invocation, lists []layout.List) (any, error)
	blocks  bool // it may wait
	counts  bool // it counts its keys, see countAtOnce
	inPlace bool // it only reads one list, and the server replies the same for a short one, see readInPlace
	// onKey returns what a short list, which is its key, is changed by, if that is the command itself; see changeOnKey.
	onKey func(c *invocation, l layout.List) (layout.KeyCommand, error)
	// hint says what to do where a sharded list does not support it.
	hint string
}

// keySpec tells where a command's keys are.
type keySpec struct {
	first, last int // last counts from the end if negative
	number      int // the position of the number of keys, which stand behind it; then first and last do not count
	behind      int // words that there must be behind those
}

// translation is a command translated into operations on lists.
type translation struct {
	steps []session.Operation
	// joined is set, instead of steps, for a command that can be one operation with its like.
	joined *joined
	// reply makes the command's reply of the results of its steps, and of the plain command's reply if that was needed. Without
	// it, the first result is the reply.
	reply func(results []any, plain any) (any, error)
	// plain is a command for the server itself, if there is one.
	plain []any
	// ofKeys has for each step the command for the key where there is no list, if the step may leave that to the caller.
	ofKeys [][]any
	// native is set for a command that reads its own reply. Its steps come first, and must succeed.
	native *native
}

// joined is a request that can share an operation with others at the same end of the same list.
type joined struct {
	kind    *batch.Kind
	request *batch.Request
	reply   func(*batch.Request) any
}

// ready waits until the operations overtake nothing that was given up.
func (t *translation) ready(ctx context.Context, until time.Time) error {
	if t.joined != nil {
		return session.Ready(ctx, t.joined.kind.Orders, until)
	}
	for _, step := range t.steps {
		if err := session.Ready(ctx, step.Orders, until); err != nil {
			return err
		}
	}
	return nil
}

func (t *translation) replyOf(results []any, plain any) (any, error) {
	if t.reply == nil {
		return results[0], nil
	}
	return t.reply(results, plain)
}

// single translates a command into one operation, whose result is the reply.
func single(op session.Operation) *translation {
	return &translation{steps: []session.Operation{op}}
}

// singleThen is single for a command whose reply is derived from the result.
func singleThen(op session.Operation, reply func(result any) (any, error)) *translation {
	t := single(op)
	t.reply = func(results []any, _ any) (any, error) { return reply(results[0]) }
	return t
}

// general translates a command on one key of any type. The operation carries it out on the key where there is no list.
func general(c *invocation, l layout.List, operation func(l layout.List, key ...any) session.Operation, ofList func(result any) any) *translation {
	t := &translation{}
	t.addGeneral(l, operation, c.args)
	t.reply = func(results []any, _ any) (any, error) {
		if key, ok := results[0].(layout.OfKey); ok {
			return key.Reply, nil
		}
		return ofList(results[0]), nil
	}
	return t
}

// addGeneral adds a step.
func (t *translation) addGeneral(l layout.List, operation func(l layout.List, key ...any) session.Operation, key []any) {
	t.steps = append(t.steps, operation(l, key...))
	if maybe, _ := l.Spread(); !maybe {
		key = nil
	}
	t.ofKeys = append(t.ofKeys, key)
}

// isThere tells whether an operation has found a list, by its result.
func isThere(result any) bool {
	switch result := result.(type) {
	case bool:
		return result
	case layout.Lifetime:
		return result.Expires != layout.NoList
	}
	return true
}
