package shardedlist

import (
	"context"
	"fmt"
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/inside"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// ShardedList is one logical Redis list, stored as many small Redis lists, its shards. Its methods do what the Redis commands
// and the go-redis methods of the same name do. Each is one atomic step on the server, unless its comment says otherwise.
//
// A ShardedList is safe for concurrent use. Create one per list and share it: its callers then share operations, and callers
// blocked in BLPop, or in BRPop, share a connection.
//
// # Indices and costs
//
// Indices are zero-based. A negative index counts from the right end: -1 is the last element.
//
// A cost is the work of the server for one call. O(1) means that it depends neither on the length of the list nor on the number
// of shards. O(capacity) is the time to search one shard.
//
// # Results and errors
//
// If there is no element to return, the error is [redis.Nil] itself, which callers compare with ==. Any other error names the
// operation and the list, and wraps its cause. Every method that sends a command can return
//
//   - an error that the server replied with, such as OOM; then nothing has changed
//   - [ErrWrongType], [ErrLayout] or [ErrBroken], if the keys of the list are not as the library wrote them
//   - the error of the connection or of ctx, together with [ErrOutcomeUnknown] if a change other than a pop may have been
//     applied
//   - [ErrNotReplicated] together with the result, if the list was created [WithReplicas]
//
// The comments of the methods name only further errors.
//
// # Retries
//
// While the server is loading, failing over or moving the slot of the list, a method retries until the deadline of ctx, or for
// ten seconds from the call if ctx has none. A method that changes the list is applied exactly once, except Del, DelStrays and
// Repair, which may be repeated: if its reply is lost, it retries until then too, but for thirty seconds at most. A call that cannot
// connect fails after a few attempts.
//
// If a push, an edit, a move, or a change of expiry or name gives up while its outcome is unknown, it fails with
// [ErrOutcomeUnknown]. If a pop does, it fails with the cause, and the elements that it took are put back at the end they came
// from if the server answers within thirty seconds more. They may then be out of order. [WithoutExactlyOnce] turns this off.
//
// # Cancellation
//
// A call that is queued behind an operation in flight returns as soon as its ctx ends, and is not applied. Any other call that
// changes the list returns within a round trip, or within half a second if the server does not answer. A push or pop that does
// not share its operation is the exception when a server that answered until then stops: it waits for the reply. So do Del, and
// calls that only read, as go-redis does: for up to the client's ReadTimeout, or until the deadline of ctx if the client has
// ContextTimeoutEnabled.
type ShardedList struct {
	list layout.List
}

func init() {
	inside.Layout = func(list any) layout.List { return list.(*ShardedList).list }
	inside.Option = func(set func(*oneslot.Config)) any {
		return Option(func(s *settings) error {
			set(&s.Config)
			return nil
		})
	}
}

// New returns the list of that name on the server, cluster or Sentinel master that rdb connects to. It sends nothing: as in
// Redis, the first push creates the list. The caller configures and closes rdb.
//
// As long as the list fits into one key, it is the plain Redis list of its name, to this library as to everybody else. The push that
// would make it longer than a shard renames that key to be the first shard, in O(1), whatever its length, and keeps its TTL. When only
// one shard is left, at most half full, it becomes the plain list again. What processes without this library push to the key meanwhile
// joins the list with the next operation: at the end opposite to that at which elements are popped or, as long as nobody has popped, at
// the end of the first push. So a queue keeps its order.
//
// A name is any string but the empty one and those that have the form of the keys that sharded lists are stored in. The keys of a list
// have the hash tag of its name, such as "{user1}:jobs", or the name as their tag, and so its cluster slot. Distinct names never share
// a key. If the key of the name holds another type while the list is short, operations fail with [ErrWrongType].
//
// New returns ErrNilClient, ErrEmptyName, ErrOwnKey, ErrCapacity or ErrReplicas, and ErrUnsupported on a Ring, for a name with a closing
// brace and no hash tag, whose keys may be on another server.
func New(rdb redis.UniversalClient, name string, opts ...Option) (*ShardedList, error) {
	list, err := open(rdb, stats.NewList(name), opts, false)
	if err != nil {
		return nil, err
	}
	if meta, _ := oneslot.Owner(name); meta != "" {
		return nil, fmt.Errorf("shardedlist: list %q: %w", name, ErrOwnKey)
	}
	return &ShardedList{list}, nil
}

// open returns the list of that name, counted so, which may be one that stays plain.
func open(rdb redis.UniversalClient, counted *stats.List, opts []Option, staysPlain bool) (layout.List, error) {
	name := counted.Name
	if isNil(rdb) {
		return nil, ErrNilClient
	}
	if name == "" && !staysPlain {
		return nil, ErrEmptyName
	}
	s := settings{Config: oneslot.Config{Runner: &script.Runner{Client: rdb}, Name: name, Stats: counted}}
	for _, opt := range opts {
		if err := opt(&s); err != nil {
			return nil, err
		}
	}
	if isApart(rdb, name) {
		return nil, errApart
	}
	if staysPlain {
		s.Config.StaysPlain, s.parts = true, 0
	}
	return detect.New(s.Config, s.parts), nil
}

func isNil(rdb redis.UniversalClient) bool {
	return rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil()
}

// isApart reports whether the list and the key of its name may be on different servers of a ring.
func isApart(rdb redis.UniversalClient, name string) bool {
	_, ring := rdb.(*redis.Ring)
	return ring && script.HashTag(oneslot.KeysOf(name).Meta) != script.HashTag(name)
}

// Name returns the name of the list, as given to New.
func (l *ShardedList) Name() string { return l.list.Name() }

// Del deletes the list and reports whether it existed: DEL.
//
// The list is gone after one atomic step, which is O(1). Del then unlinks its shards in further short steps, and returns. If it is
// interrupted there, the list is deleted all the same. Each later push, pop or delete of the list, by any client, unlinks up to
// 20 of the remaining shards. Without one, they stay.
//
// Del does not look for shards that the list has lost: see DelStrays.
//
// Del works while the memory of the server is full. It is not applied exactly once: go-redis retries it after a failed
// connection. The retry may find no list, so that existed is false, and it deletes what was pushed in between.
func (l *ShardedList) Del(ctx context.Context) (existed bool, err error) {
	return resultOf[bool](ctx, l, "del", l.list.Delete())
}

// resultOf runs an operation whose result is a T. It returns the zero T if there is no result.
func resultOf[T any](ctx context.Context, l *ShardedList, command string, op session.Operation) (T, error) {
	result, err := op.Run(ctx)
	value, _ := result.(T)
	return value, l.wrap(command, err)
}

// listsOf returns the lists in their layouts.
func listsOf(lists []*ShardedList) []layout.List {
	result := make([]layout.List, len(lists))
	for i, l := range lists {
		result[i] = l.list
	}
	return result
}
