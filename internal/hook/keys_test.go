package hook

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// The keys that the hook sees in a command are those that the server sees.
func TestKeysAreWhereTheServerSeesThem(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t)
			for _, line := range []string{
				"get a", "set a b", "mset a 1 b 2 c 3", "msetnx a 1 b 2", "smove a b c", "pfmerge a b c", "bitop and a b c", "lcs a b",
				"xread streams a b 0 0", "xread count 1 block 2 streams a 0", "xreadgroup group streams c streams a b > >", "xgroup create a g $",
				"xinfo stream a", "xinfo help", "object encoding a", "object help", "memory usage a samples 3", "memory doctor", "client setinfo lib-name a",
				"hello 3 auth a b", "auth a b", "select 1", "echo a", "publish a b", "ping a", "keys a", "config get a", "acl whoami",
				"zunionstore a 2 b c weights 1 2", "zunion 2 a b", "zmpop 2 a b min", "bzmpop 0 2 a b min", "bzpopmin a b 0", "sintercard 2 a b limit 1",
				"sinterstore a b c", "zrangestore a b 0 1", "geosearchstore a b fromlonlat 1 1 byradius 1 m", "georadius a 1 1 1 m store b",
				"georadius a 1 1 1 m", "georadiusbymember a m 1 m storedist b", "eval x 2 a b c", "eval x 0", "fcall_ro f 1 a b", "sunion a b",
				"lpush a b c", "rpush a b", "lpop a 2", "llen a", "lindex a 0", "lrange a 0 1", "lset a 0 b", "linsert a before b c", "lrem a 0 b", "ltrim a 0 1",
				"lpos a b", "lpushx a b", "rpushx a b", "lmove a b left right", "blmove a b left right 0", "rpoplpush a b", "brpoplpush a b 0",
				"lmpop 2 a b left", "blmpop 0 2 a b left", "blpop a b 0", "brpop a 0", "del a b", "unlink a", "exists a b", "touch a", "type a", "expire a 1",
				"persist a", "ttl a", "rename a b", "renamenx a b", "copy a b replace", "watch a b", "dump a", "restore a 0 b", "move a 1",
			} {
				words := strings.Fields(line)
				args := make([]any, len(words))
				for i, word := range words {
					args[i] = word
				}
				want, err := rdb.CommandGetKeys(t.Context(), args...).Result()
				if err != nil {
					require.Regexp(t, "has no key arguments|Invalid command specified", err.Error(), line) // Redis 7.0 has no CLIENT SETINFO
				}
				var keys []string
				h := New(func(string) bool { return true }, nil, nil, nil)
				c := h.recognize(redis.NewCmd(t.Context(), args...))
				if c != nil {
					for _, key := range c.keys {
						keys = append(keys, c.text(key.at))
					}
				}
				assert.ElementsMatch(t, want, keys, line)
			}
		})
	}
}

// A command without a key that matches is passed on as it is.
func TestOtherCommandsCostNoAllocation(t *testing.T) {
	h := New(func(key string) bool { return strings.HasPrefix(key, "queue:") }, nil, nil, nil)
	for _, line := range []string{"get a", "set a b ex 1", "mset a 1 b 2", "lpush a b c", "blpop a b 0", "lmpop 2 a b left", "zunionstore a 2 b c", "eval x 1 a b", "ping"} {
		var args []any
		for word := range strings.FieldsSeq(line) {
			args = append(args, word)
		}
		cmd := redis.NewCmd(t.Context(), args...)
		assert.Zero(t, testing.AllocsPerRun(100, func() { h.recognize(cmd) }), line)
	}
	pipeline := make([]redis.Cmder, 100)
	for i := range pipeline {
		pipeline[i] = redis.NewStringCmd(t.Context(), "get", "a")
	}
	exec := h.ProcessPipelineHook(func(context.Context, []redis.Cmder) error { return nil })
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = exec(t.Context(), pipeline) }))
}

// Where the hook has keys of its own for a command, for the sake of faults, they are those of the table.
func TestTheTablesAgree(t *testing.T) {
	t.Parallel()
	for name, c := range commands {
		server, known := serverCommands[name]
		if !known {
			assert.Contains(t, []string{"lmovem", "blmovem", "sort", "sort_ro"}, name, "the servers of the table do not have it, or do not know where its keys are")
			continue
		}
		looser := server.arity == c.arity || server.arity < 0 && c.arity > 0 && -server.arity <= c.arity
		assert.True(t, looser, "arity of %s: %d, %d", name, c.arity, server.arity)
	}
	assert.True(t, slices.ContainsFunc(serverCommands["set"].keys, func(k serverKeys) bool { return k.replaces }))
}
