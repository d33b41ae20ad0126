package harness

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/inside"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/lua"
	"github.com/stretchr/testify/require"
)

// MaxCallValues is the number of values above which a call is split, as the documentation says.
const MaxCallValues = 262_144

// What tests look at behind the public methods.

// Inside is the list in its layout.
func Inside(l *shardedlist.ShardedList) layout.List           { return inside.Layout(l) }
func OneSlot(l *shardedlist.ShardedList) *oneslot.List        { return Inside(l).(*detect.List).List }
func Keys(l *shardedlist.ShardedList) oneslot.Keys            { return OneSlot(l).Keys() }
func Client(l *shardedlist.ShardedList) redis.UniversalClient { return OneSlot(l).Client() }
func Left(l *shardedlist.ShardedList) *blocking.Queue {
	return Inside(l).(*detect.List).Waiters(layout.Left)
}

// Shard is the key of a shard, which meta names.
func Shard(l *shardedlist.ShardedList, ctx context.Context, id int64) string {
	return ShardPrefix(Client(l).HGet(ctx, Keys(l).Meta, "layout").Val(), Keys(l).Prefix) + strconv.FormatInt(id, 10)
}

// ShardPrefix returns the prefix of the shards' keys that a field layout names. prefix is how the keys of the list begin.
func ShardPrefix(layout, prefix string) string {
	words := strings.SplitN(layout, " ", 6)
	switch {
	case len(words) < 6 || words[5] == "":
		return prefix
	case strings.HasSuffix(words[5], ":"):
		return words[5]
	}
	return prefix + words[5] + ":"
}

// Words of the field layout, for pointer and setPointer.
const (
	_ = iota
	FirstID
	LastID
	Capacity
	Digit // whether the list is armed, and the end that newcomers join
	Shards
)

// NewcomersJoinLeft tells at which end elements of the plain key will join the list, if that has elements.
func NewcomersJoinLeft(l *shardedlist.ShardedList, ctx context.Context) bool {
	n, _ := strconv.Atoi(Pointer(l, ctx, Digit))
	first, _ := strconv.Atoi(Pointer(l, ctx, FirstID))
	last, _ := strconv.Atoi(Pointer(l, ctx, LastID))
	return first <= last && n/2%2 == 1 && !strings.HasSuffix(Pointer(l, ctx, Shards), "=") // which says that the plain list is the list
}

// Pointer returns a word of the field layout.
func Pointer(l *shardedlist.ShardedList, ctx context.Context, word int) string {
	words := strings.SplitN(Client(l).HGet(ctx, Keys(l).Meta, "layout").Val(), " ", 6)
	if len(words) < 6 {
		return ""
	}
	return words[word]
}

// SetPointer replaces a word of the field layout.
func SetPointer(l *shardedlist.ShardedList, ctx context.Context, word int, value string) {
	words := strings.SplitN(Client(l).HGet(ctx, Keys(l).Meta, "layout").Val(), " ", 6)
	words[word] = value
	Client(l).HSet(ctx, Keys(l).Meta, "layout", strings.Join(words, " "))
}

// Bare is an operation without the steps that follow its script. Its result is the script's reply.
func Bare(op session.Operation) session.Operation {
	op.Finish = nil
	return op
}

// RecordLife sets how long the server keeps dedup records.
func RecordLife(life time.Duration) shardedlist.Option {
	return Option(func(c *oneslot.Config) { c.RecordLife = life })
}

// PastLua lets values of any size be pushed without passing through Lua, see lua/shared/aside.lua.
var PastLua = Option(func(c *oneslot.Config) { c.AsideFrom, c.AsideAgain = 1, time.Nanosecond })

func Option(set func(*oneslot.Config)) shardedlist.Option {
	return inside.Option(set).(shardedlist.Option)
}

// Armed waits until somebody waits at the list: a push clears the flag, and who is woken in vain sets it again.
func Armed(t *testing.T, list *shardedlist.ShardedList) {
	t.Helper()
	require.Eventually(t, func() bool {
		return IsArmed(t, list)
	}, 10*time.Second, time.Millisecond)
}

// HasScripts tells a pipeline of list commands from the one that begins a connection.
func HasScripts(cmds []redis.Cmder) bool {
	return slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return redistest.IsCall(cmd.Name()) })
}

// AsideStep carries out one of the three commands by itself, as a server does that knows no transactions.
type AsideStep struct {
	List   *shardedlist.ShardedList
	Side   string
	Values []any
}

const AsideSession = "11111111-2222-4333-8444-555555555555"

func (a AsideStep) Script(t *testing.T, name string) any {
	t.Helper()
	args := []any{"+" + a.List.Name(), AsideSession, 7, 60000, a.Side, len(a.Values)}
	if name == "push_begin" {
		args = append(args, 1, 0)
	}
	reply, err := Client(a.List).Eval(t.Context(), lua.Source(name), []string{Keys(a.List).Meta}, args...).Result()
	if err != redis.Nil {
		require.NoError(t, err)
	}
	return reply
}

func (a AsideStep) Begin(t *testing.T) {
	t.Helper()
	require.EqualValues(t, 1, a.Script(t, "push_begin"))
}

func (a AsideStep) Push(t *testing.T) (pushed bool) {
	t.Helper()
	words := append([]any{a.Side + "PUSHX", Keys(a.List).Records() + AsideSession + ":7"}, a.Values...)
	length, err := Client(a.List).Do(t.Context(), words...).Int()
	require.NoError(t, err)
	return length > 0
}

func (a AsideStep) End(t *testing.T) (done bool) {
	t.Helper()
	return a.Script(t, "push_end") != nil
}
