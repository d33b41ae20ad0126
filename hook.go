package shardedlist

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
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
	return &hook{rdb: rdb, match: match, opts: opts}
}

// Match returns a function that tells whether a key matches any of the patterns, which are those of KEYS and SCAN:
// *, ?, [abc], [^a], [a-z], and \ to take the next character as it is.
func Match(patterns ...string) func(key string) bool {
	return func(key string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool { return globMatches(pattern, key) })
	}
}

// Errors of a hook.
var (
	// ErrUnsupported is returned for a command that cannot be given on a sharded list. Its text says what to do instead.
	ErrUnsupported = errors.New("not supported on a sharded list")
	// ErrPlainList is returned for a key that matches and holds a plain list.
	ErrPlainList = errors.New("the key holds a plain list: RENAME it to a key that is not sharded, and push its elements through this client")
)

type hook struct {
	rdb   redis.UniversalClient
	match func(key string) bool
	opts  []Option

	mu           sync.Mutex
	recent, past map[string]*ShardedList // by name
}

// maxRecent bounds how many lists a hook remembers, to twice as many: names may be without number.
const maxRecent = 4096

// list returns the sharded list that stands in for a key.
func (h *hook) list(key string) (*ShardedList, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l := h.recent[key]; l != nil {
		return l, nil
	}
	l := h.past[key]
	if l == nil {
		var err error
		if l, err = New(h.rdb, key, h.opts...); err != nil {
			return nil, err
		}
		l.scriptKeys = append(l.scriptKeys, key)
	}
	if h.recent == nil || len(h.recent) == maxRecent {
		h.recent, h.past = make(map[string]*ShardedList), h.recent
	}
	h.recent[key] = l
	return l, nil
}

func (h *hook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessHook is of redis.Hook.
func (h *hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c := h.recognize(cmd)
		if c == nil {
			return next(ctx, cmd)
		}
		if c.command.direct != nil && !c.tooLong() {
			reply, err := h.alone(ctx, c)
			return setReply(cmd, reply, err)
		}
		t, err := h.translate(ctx, c)
		switch {
		case err != nil:
			return setReply(cmd, nil, err)
		case t == nil:
			return next(ctx, cmd)
		}
		reply, err := t.run(ctx, next)
		return setReply(cmd, reply, err)
	}
}

// alone carries out a command that has a way of its own when it is not in a pipeline.
func (h *hook) alone(ctx context.Context, c *invocation) (any, error) {
	lists, err := h.lists(c)
	if err != nil {
		return nil, err
	}
	return c.command.direct(ctx, c, lists)
}

// translate returns the scripts that carry out a call, or nil if it is to be sent as it is.
func (h *hook) translate(ctx context.Context, c *invocation) (*translation, error) {
	if c.tooLong() {
		return &translation{plain: c.tooShort()}, nil
	}
	lists, err := h.lists(c)
	if err != nil {
		return nil, err
	}
	return c.command.translate(ctx, c, lists)
}

// run carries out a translation that stands alone.
func (t *translation) run(ctx context.Context, next redis.ProcessHook) (any, error) {
	replies := make([]any, len(t.steps))
	var problem error // ErrNotReplicated
	for i, s := range t.steps {
		var err error
		if replies[i], err = s.run(ctx); !isDone(err) {
			return nil, err
		}
		problem = cmp.Or(problem, err)
	}
	var plain any
	if t.needsPlain(replies) {
		cmd := own{Cmd: redis.NewCmd(ctx, t.plain...)}
		if err := next(ctx, cmd); err != nil {
			return nil, err
		}
		plain = cmd.Val()
	}
	reply, err := t.finish(ctx, replies, plain, nil)
	return reply, cmp.Or(err, problem)
}

func (t *translation) needsPlain(replies []any) bool {
	return t.plain != nil && (t.served == nil || !t.served(replies))
}

// finish returns the reply, once the steps have been carried out, or their error.
func (t *translation) finish(ctx context.Context, replies []any, plain any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	if t.after != nil {
		if err = t.after(ctx, replies); !isDone(err) {
			return nil, err
		}
	}
	if t.reply == nil {
		return replies[0], err
	}
	reply, problem := t.reply(replies, plain)
	return reply, cmp.Or(problem, err)
}
