package shardedlist

import (
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/shardedlist/shardedlist/internal/layout"
)

// NewHook returns a go-redis hook with which the list commands of rdb work on sharded lists, for every key that matches:
//
//	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*")))
//	rdb.LPush(ctx, "queue:mail", payload) // now sharded
//
// It takes all commands of the LIST family, and those that apply to any key (DEL, EXISTS, EXPIRE, RENAME and their like), whether they
// are called by name or with Do, alone, in a pipeline or in a transaction, and fills in the reply that Redis would give. Each
// matching key is the ShardedList of that name, with the given options, and what its methods promise holds: a pipeline is still
// one round trip, a transaction still atomic, and commands that add or remove are done once.
//
// Other commands, and all commands on other keys, pass untouched. What cannot be given fails with ErrUnsupported and does nothing:
// commands that would read the list's serialized form or its key as such (DUMP, RESTORE, MOVE, MIGRATE, SORT), WATCH, a script or function
// that is given such a key, and a command on sharded lists and plain keys together, as LMOVE between them. A matching key at
// which a plain list stands is refused with ErrPlainList, and one of another type with Redis's WRONGTYPE.
//
// rdb is the client, or the cluster, ring or failover client, on which the hook is installed. A Conn or Tx taken from it works as well;
// its list commands outside a pipeline may take other connections. What go-redis makes without hooks, as WithTimeout does, needs
// the hook added again.
//
// The error of a bad option is that of every command on a matching key.
func NewHook(rdb redis.UniversalClient, match func(key string) bool, opts ...Option) redis.Hook {
	return hook.New(match, func(key string) (layout.List, error) { return open(rdb, key, key, opts) })
}

// Match returns a function that tells whether a key matches any of the patterns, which are those of KEYS and SCAN:
// *, ?, [abc], [^a], [a-z], and \ to take the next character as it is.
func Match(patterns ...string) func(key string) bool { return hook.Match(patterns...) }
