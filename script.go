package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/value"
)

// Script is a Lua script of yours that can push onto a list, besides what else it does, in one atomic step.
//
// A Script is safe for concurrent use, on any number of lists. Create one per source, as with [redis.NewScript].
type Script struct {
	script *script.Script
}

// NewScript returns a script. It sends nothing, and does not compile the source: Run returns the server's error if that is not Lua.
//
// The source is that of an EVAL. It has KEYS and ARGV, which are those that Run is given, and two functions besides:
//
//	lpush(value, ...)   pushes onto the list that Run is given, and returns its length, as redis.call('LPUSH', ...) does
//	rpush(value, ...)   the same at the right end
//
// Values are strings and numbers. Each push adds all values or none, over any number of shards, and wakes consumers. It is O(values).
//
// # What a push may fail with
//
// Redis does not roll a script back. So Run makes sure that pushes can be done before the source begins: the list can be used, its
// shards are there, and its slot does not move. What remains is the OOM error of a server whose memory is full. Redis raises it only as
// long as the script has written nothing, so nothing has changed then. To handle it in Lua, use pcall(rpush, value).
//
// So the order is: read, then push, then write. A source that writes first may be stopped after that by an error of its own, such
// as a key of another type, as in Redis. What it had done then stays, its pushes as well.
//
// # Rules for the source
//
//   - It accesses the list by lpush and rpush only. To redis.call, the keys of the list are keys like others: leave them alone.
//   - It has the four names above and those of Redis. It cannot create others that are global, as in Redis.
//   - After a push, redis.call replies as in RESP2, as it does by default.
//   - It returns no errors within an array: go-redis takes some, such as OOM, for the reply to the whole script.
//   - It does not call redis.set_repl.
func NewScript(source string) *Script {
	return &Script{script.LoadAround("script", source)}
}

// Run runs the script on the list. Its reply is that of EVAL: Int, Text, StringSlice and the like read it, and the error is
// [redis.Nil] if the script returns nil or false.
//
// It is applied exactly once, its own commands included: if the reply is lost, the script is sent again, and returns the reply of the
// first run. So a source may draw a random number, or ask for the time. A repetition costs O(reply).
//
// Each key must be in the cluster slot of the list. Give it the hash tag of the list's name, or the name itself as a tag: a script on
// the list "jobs" may have the key "{jobs}:buyers", and so may one on "{jobs}:mail". On a cluster and a Ring, other keys fail with
// CROSSSLOT. Keys that sharded lists are stored in fail with ErrOwnKey. Arguments are encoded as go-redis does. For one that it cannot
// encode, Run returns ErrValue; for a nil list, ErrNilList. All that comes before anything is sent.
//
// An error that the source raises or returns is its result, and wraps [ErrScript]: what it did before that stays. If the error does
// not wrap ErrScript or [ErrOutcomeUnknown], nothing has changed. Run returns ErrSpread for a list over many slots, and for an empty one
// if list was created [WithParts]. While the slot moves, Run waits for it, even if all keys are in one place.
//
// It holds back what adds elements at either end, and is held back, as LInsert is: see ErrOutcomeUnknown. See [ShardedList] for retries,
// cancellation and other errors.
func (s *Script) Run(ctx context.Context, list *ShardedList, keys []string, args ...any) *redis.Cmd {
	words := []any{"script", len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	reply, err := s.run(ctx, list, keys, args)
	cmd.SetVal(reply)
	if err == nil && reply == nil {
		err = redis.Nil
	}
	cmd.SetErr(err)
	return cmd
}

func (s *Script) run(ctx context.Context, list *ShardedList, keys []string, args []any) (any, error) {
	if list == nil {
		return nil, fmt.Errorf("shardedlist: script: %w", ErrNilList)
	}
	args, err := value.Spread(list.list.Client(), args)
	if err != nil && !errors.Is(err, value.ErrNone) {
		return nil, list.wrap("script", err)
	}
	op, err := list.list.Script(ctx, layout.Script{Script: s.script, Keys: keys, Args: args, Creates: true})
	if err != nil {
		return nil, list.wrap("script", err)
	}
	reply, err := op.Run(ctx)
	if script.IsReply(err) && strings.Contains(err.Error(), "compiling script") {
		err = fmt.Errorf("the source does not compile; if its end is missing, the line is one behind it: %w", err)
	}
	return reply, list.wrap("script", err)
}
