package shardedlist

import (
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/shardedlist/shardedlist/internal/layout"
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
// Commands on keys that do not match are not affected. On a key that matches, these commands do nothing and fail with
// ErrUnsupported: DUMP, RESTORE, MOVE, MIGRATE, SORT, SORT_RO, WATCH, EVAL, EVALSHA, EVAL_RO, EVALSHA_RO, FCALL and FCALL_RO. So
// does a command that has both sharded lists and plain keys, such as LMOVE from one to the other; DEL, UNLINK, EXISTS and TOUCH
// accept both. If a key that matches holds a plain list, the error is ErrPlainList. If it holds another type, list commands fail
// with Redis's WRONGTYPE.
//
// rdb is the client, cluster client, ring or failover client to which you add the hook. It also works on a Conn or Tx of that
// client, but list commands outside a pipeline may then use other connections. A client that go-redis creates without hooks, as
// WithTimeout does, needs the hook again.
//
// If an option is invalid, each command on a key that matches returns its error.
func NewHook(rdb redis.UniversalClient, match func(key string) bool, opts ...Option) redis.Hook {
	return hook.New(match, func(key string) (layout.List, error) { return open(rdb, key, key, opts) })
}

// Match returns a function that reports whether a key matches any of the patterns. The syntax is that of KEYS and SCAN: *, ?,
// [abc], [^a], [a-z], and \ to escape the next character.
func Match(patterns ...string) func(key string) bool { return hook.Match(patterns...) }
