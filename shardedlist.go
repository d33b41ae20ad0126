package shardedlist

import (
	"context"
	"reflect"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// ShardedList is a Redis list kept as a row of small Redis lists, its shards. Its methods behave like the Redis commands
// and the go-redis methods of the same name. Each is one atomic step on the server unless its comment says otherwise.
//
// It is safe for concurrent use. Make one for each list and share it: its goroutines then share operations, and one
// connection while they are blocked in BLPop, and one in BRPop.
type ShardedList struct {
	list layout.List
}

// New returns the list of the given name on the server, cluster or Sentinel-guarded master that rdb is connected to. It
// sends nothing: as in Redis, the first push creates the list. The client stays the caller's, to configure and to close.
//
// Every name but the empty one is allowed. A name with a hash tag, such as "{user1}:jobs", keeps it and thus its cluster slot;
// any other name becomes the tag. Distinct names never share a key.
//
// It returns ErrNilClient, ErrEmptyName, ErrCapacity or ErrReplicas.
func New(rdb redis.UniversalClient, name string, opts ...Option) (*ShardedList, error) {
	list, err := open(rdb, name, "", opts)
	if err != nil {
		return nil, err
	}
	return &ShardedList{list}, nil
}

// open returns the list of that name, which may stand in for a plain key.
func open(rdb redis.UniversalClient, name, standsFor string, opts []Option) (layout.List, error) {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, ErrNilClient
	}
	if name == "" {
		return nil, ErrEmptyName
	}
	s := settings{oneslot.Config{Runner: &script.Runner{Client: rdb}, Name: name, StandsFor: standsFor}}
	for _, opt := range opts {
		if err := opt(&s); err != nil {
			return nil, err
		}
	}
	return oneslot.New(s.Config), nil
}

// Name returns the name of the list, as given to New.
func (l *ShardedList) Name() string { return l.list.Name() }

// Del deletes the list and tells whether it existed: DEL.
//
// The list is gone in one atomic step of constant cost, whatever its length. Its shards are then unlinked in bounded steps,
// a hundred at a time, before Del returns. A Del that is cut short there has still deleted the list. The next operations on
// the list, by any client, unlink what it left; until then it stays.
//
// After a failed connection go-redis repeats the Del. The second one may find no list, and deletes what was pushed in between.
// Its errors are those of LLen.
func (l *ShardedList) Del(ctx context.Context) (existed bool, err error) {
	return resultOf[bool](ctx, l, "del", l.list.Delete())
}

// resultOf carries out an operation whose result is a T. It returns the zero T if there is none.
func resultOf[T any](ctx context.Context, l *ShardedList, command string, op session.Operation) (T, error) {
	result, err := op.Run(ctx)
	value, _ := result.(T)
	return value, l.wrap(command, err)
}

// listsOf returns the lists as their layouts.
func listsOf(lists []*ShardedList) []layout.List {
	result := make([]layout.List, len(lists))
	for i, l := range lists {
		result[i] = l.list
	}
	return result
}
