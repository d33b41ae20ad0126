package shardedlist

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// NewHook returns a go-redis hook that makes the list commands of rdb work on sharded lists, for each key that matches:
//
//	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*")))
//	rdb.LPush(ctx, "queue:mail", payload) // now sharded
//
// It handles all commands of the LIST family, and commands on any key, such as DEL, EXISTS, EXPIRE and RENAME: called by name
// or with Do, alone, in a pipeline or in a transaction. Each command has the reply and the error of Redis. A key that matches
// is the ShardedList of that name, with the options given. Its guarantees hold: a pipeline is one round trip, a transaction is
// atomic, and each command that changes a list is applied exactly once, except DEL and UNLINK.
//
// Commands on keys that do not match are not affected. A key that matches may hold a value of another type, but never beside a
// list: a command of another type runs in one atomic step with a check for the list, and fails with Redis's WRONGTYPE if there is
// one. A table made from what Redis and Valkey say of their commands tells where their keys are. A command that is not in it,
// such as one of a module, is sent as it is. The empty key never matches.
//
// These fail with ErrUnsupported and do nothing: DUMP, RESTORE, MOVE, MIGRATE, SORT, SORT_RO, EVAL, EVALSHA, EVAL_RO,
// EVALSHA_RO, FCALL and FCALL_RO on a key that matches; RENAME and COPY of a list that is longer than one key to a name that does not
// match, and COPY over such a list; MULTI by itself, MULTI or WATCH as a command of a Pipeline, WATCH of a list over many slots, and
// SELECT of another database; and a write to a key that a sharded list is stored in. If a key that matches holds another type, list
// commands fail with WRONGTYPE.
//
// A command of several lists may have keys that match and keys that do not. The list at a key that does not match stays a plain one,
// whatever its length. While calls wait for it, the client has one more connection.
//
// A list at a key that matches is the list of that name, as [New] explains, also one from before the hook. KEYS and SCAN have such lists under
// their names, and none of the keys that they are stored in.
//
// rdb is the client, cluster client, ring or failover client to which you add the hook. It also works on a Conn or Tx of that
// client, on whose connection list commands go, too, unless they wait or are repeated after a failure. A client that go-redis
// creates without hooks, as WithTimeout does, needs the hook again. Call NewHook before the first command of a cluster client:
// Watch calls the hooks of nodes only, and a node that go-redis has met before does not get them. Add the hook to that client
// alone: a node of it has it.
//
// DO NOT USE IT WITH AN AUTOPIPELINE WHOSE AutoPipelineOptions HAVE FullDuplex. go-redis sends its commands before it calls any
// hook, so they act on plain keys beside the sharded lists. If FullDuplex is among the options of rdb, every command on a key
// that matches fails with ErrUnsupported, and outside such an autopipeline nothing is sent. If AutoPipelineWithOptions sets it,
// the command fails as well, but has been carried out. An AutoPipeline without FullDuplex works.
//
// If an option is invalid, each command on a key that matches returns its error, and ErrNilClient if rdb is nil. If match is nil,
// each command with a key returns ErrNilMatch.
func NewHook(rdb redis.UniversalClient, match func(key string) bool, opts ...Option) *Hook {
	counters := &stats.Counters{} // of all lists together
	open := func(key string, matches bool) (layout.List, error) {
		return open(rdb, &stats.List{Name: key, Counters: counters}, opts, !matches)
	}
	switch {
	case match == nil:
		match, open = func(string) bool { return true }, failing(ErrNilMatch)
	case isFullDuplex(rdb):
		open = failing(hook.ErrFullDuplex)
	}
	h := hook.New(match, open, oneslot.Naming, rdb)
	addToNodes(rdb, h)
	return &Hook{h, counters}
}

// Hook is a redis.Hook, made by [NewHook].
type Hook struct {
	redisHook
	counters *stats.Counters
}

// redisHook has the methods that go-redis calls.
type redisHook = redis.Hook

// addToNodes has the hook serve what go-redis sends to the nodes of a cluster or a ring past the hooks of the client itself.
func addToNodes(rdb redis.UniversalClient, h *hook.Hook) {
	add := func(node *redis.Client) { node.AddHook(h.OnNode()) }
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		if rdb != nil {
			rdb.OnNewNode(add)
		}
	case *redis.Ring:
		if rdb != nil {
			rdb.OnNewNode(add)
			_ = rdb.ForEachShard(context.Background(), func(_ context.Context, node *redis.Client) error {
				add(node)
				return nil
			})
		}
	}
}

// failing returns an error in place of every list.
func failing(err error) func(key string, matches bool) (layout.List, error) {
	return func(string, bool) (layout.List, error) { return nil, err }
}

// isFullDuplex tells what the client's own options say of its autopipelines.
func isFullDuplex(rdb redis.UniversalClient) bool {
	var options *redis.AutoPipelineOptions
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb != nil {
			options = rdb.Options().AutoPipelineOptions
		}
	case *redis.ClusterClient:
		if rdb != nil {
			options = rdb.Options().AutoPipelineOptions
		}
	}
	return options != nil && options.FullDuplex
}

// Match returns a function that reports whether a key matches any of the patterns. The syntax is that of KEYS and SCAN: *, ?,
// [abc], [^a], [a-z], and \ to escape the next character.
func Match(patterns ...string) func(key string) bool { return hook.Match(patterns...) }
