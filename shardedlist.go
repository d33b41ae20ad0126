package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Errors a caller may want to tell apart, with errors.Is. An error of the server itself stays in the chain.
var (
	// ErrNilClient is returned by New when it is given no client.
	ErrNilClient = errors.New("shardedlist: the client is nil")
	// ErrEmptyName is returned by New when the list has no name.
	ErrEmptyName = errors.New("shardedlist: the name is empty")
	// ErrCapacity is returned by New for a capacity below 1 or above MaxCapacity.
	ErrCapacity = errors.New("shardedlist: the capacity is out of range")
	// ErrNoValues is returned by a push without values.
	ErrNoValues = errors.New("no values")
	// ErrValue is returned for a value that go-redis cannot encode.
	ErrValue = errors.New("value cannot be encoded")
	// ErrOutcomeUnknown is returned by a push, an edit, a move, or a change of expiry or name that was given up before the server told
	// whether it was carried out. It may have been, or still be; once the server answers again, and, after a push, before anything
	// else is pushed at that end through this ShardedList, it is made sure that it can no longer be.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrNotReplicated is returned, together with the result, by an operation that was done, but on fewer replicas than
	// WithReplicas asked for, as far as is known. A failover may undo it.
	ErrNotReplicated = errors.New("done, but not on as many replicas as asked for")
	// ErrReplicas is returned by New for a number of replicas below 1, or a time to wait for them that is out of range.
	ErrReplicas = errors.New("shardedlist: the replicas to wait for are out of range")
	// ErrNegativeCount is returned by LPopCount and RPopCount for a count below 0.
	ErrNegativeCount = errors.New("count is negative")
	// ErrNegativeTimeout is returned by the operations that wait, BLPop for one, for a timeout below 0.
	ErrNegativeTimeout = errors.New("timeout is negative")
	// ErrOtherClient is returned by an operation on several lists that are not all of one client.
	ErrOtherClient = errors.New("the lists are of different clients")
	// ErrWrongType is returned when one of the list's keys holds a value of another type: the server's WRONGTYPE.
	ErrWrongType = errors.New("a key of the list holds another type")
	// ErrLayout is returned when the list's keys were laid out by another version of this package, or by something else.
	ErrLayout = errors.New("unknown layout")
	// ErrBroken is returned when a shard that must exist does not, because something else deleted or evicted it. Check
	// tells more.
	ErrBroken = errors.New("list is broken")
)

const (
	// DefaultCapacity is the number of elements in a full shard where neither WithCapacity nor the server names one.
	DefaultCapacity = 512
	// MaxCapacity is the largest capacity. A larger shard would be the big key that this package is there to avoid.
	MaxCapacity = 1 << 20
)

// ShardedList is a Redis list kept as a row of small Redis lists, its shards. Its methods behave as the Redis commands
// and the go-redis methods of the same name, and each is one atomic step on the server unless its comment says otherwise.
//
// It is safe for concurrent use. Make one for each list and share it: its goroutines then share operations, and one
// connection while they are blocked in BLPop, and one in BRPop.
type ShardedList struct {
	// Fixed by New.
	rdb  redis.UniversalClient
	name string
	keys keys

	scriptKeys []string // the keys that scripts are given

	maxSlice time.Duration // how long one BLPOP on the bell lasts at most

	forgetful bool // operations go through lanes without records

	replicas       int // that are to have an operation before it returns; 0: nobody asks
	replicaTimeout time.Duration

	expiryGrace time.Duration // how long the shards outlive a list that expires, at the least

	capacity atomic.Int64 // of a list that a push creates; 0 until it is known

	lpush, rpush, lpop, rpop commits // the callers of each kind of operation
	left, right              waiters // the callers blocked in BLPop and in BRPop

	lanes    sync.Pool // *lane, of operations that callers do not share
	settling settling  // of those
}

// Option changes how New sets up a list.
type Option func(*ShardedList) error

// WithCapacity sets the number of elements that a full shard holds, from 1 to MaxCapacity. It counts when a push creates
// the list; a list that exists keeps the capacity it was created with, whatever the clients' options.
//
// Without it, the capacity is the server's list-max-ziplist-entries, or its list-max-listpack-size where that is a number
// of elements, or DefaultCapacity. The server is asked once, by the first push, with CONFIG GET; where that is forbidden
// the default applies.
func WithCapacity(elements int) Option {
	return func(l *ShardedList) error {
		if elements < 1 || elements > MaxCapacity {
			return fmt.Errorf("%w: %d is not in 1..%d", ErrCapacity, elements, MaxCapacity)
		}
		l.capacity.Store(int64(elements))
		return nil
	}
}

// WithoutExactlyOnce gives up the promise that each operation is done once: no records are written to the server, and after a
// failed connection go-redis repeats a push or pop as it repeats RPUSH or LPOP, and may so push twice or lose an element. It
// saves the server two calls an operation, and the memory of the records. Callers share operations all the same.
func WithoutExactlyOnce() Option {
	return func(l *ShardedList) error {
		l.forgetful = true
		return nil
	}
}

// New returns the list of the given name on the server, cluster or sentinel-guarded master that rdb is connected to. It
// sends nothing: as in Redis, the first push creates the list. The client stays the caller's, to configure and to close.
//
// Every name but the empty one is allowed. A name with a hash tag, as in "{user1}:jobs", keeps it and so its cluster slot;
// any other name becomes the tag. Distinct names never share a key.
//
// It returns ErrNilClient, ErrEmptyName, ErrCapacity or ErrReplicas.
func New(rdb redis.UniversalClient, name string, opts ...Option) (*ShardedList, error) {
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, ErrNilClient
	}
	if name == "" {
		return nil, ErrEmptyName
	}
	l := &ShardedList{rdb: rdb, name: name, keys: keysOf(name), maxSlice: maxSlice, expiryGrace: expiryGrace}
	for _, opt := range opts {
		if err := opt(l); err != nil {
			return nil, err
		}
	}
	l.scriptKeys = []string{l.keys.meta}
	l.lpush.init(l, left, pushes)
	l.rpush.init(l, right, pushes)
	l.lpop.init(l, left, pops)
	l.rpop.init(l, right, pops)
	l.left.init(l, left)
	l.right.init(l, right)
	l.lanes.New = func() any { return l.newLane() }
	return l, nil
}

// Name returns the name of the list, as given to New.
func (l *ShardedList) Name() string { return l.name }

// Del deletes the list and tells whether it existed: DEL.
//
// The list is gone in one atomic step of constant cost, whatever its length. Its shards are then unlinked in bounded steps,
// a hundred at a time, before Del returns. A Del that is cut short there has still deleted the list; the next operations on
// the list, by any client, unlink what it left, and until there are any it stays.
//
// After a failed connection go-redis repeats the Del, which may then find no list, and deletes what was pushed between.
func (l *ShardedList) Del(ctx context.Context) (existed bool, err error) {
	reply, err := l.run(ctx, delScript)
	if err != nil {
		return false, l.wrap("del", err)
	}
	flags := reply.([]any)
	l.sweep(ctx, flags[1])
	return flags[0] == int64(1), nil
}

// sweep unlinks the shards that an operation left outside the list, if its reply tells that there are any. If that is cut short,
// others will go on.
func (l *ShardedList) sweep(ctx context.Context, unswept any) {
	for unswept == int64(1) {
		unswept, _ = l.run(ctx, sweepScript)
	}
}

// side is an end of the list, as the scripts spell it.
type side string

const (
	left  side = "L"
	right side = "R"
)

func (l *ShardedList) waitersAt(end side) *waiters {
	if end == left {
		return &l.left
	}
	return &l.right
}

// creationCapacity is the capacity of a list that a push creates.
func (l *ShardedList) creationCapacity(ctx context.Context) (int64, error) {
	if known := l.capacity.Load(); known > 0 {
		return known, nil
	}
	config, err := l.rdb.ConfigGet(ctx, "list-max-*").Result()
	if err != nil && !isReply(err) {
		return 0, err // not an answer: the next push asks again
	}
	capacity := int64(DefaultCapacity)
	for _, setting := range []string{"list-max-listpack-size", "list-max-ziplist-size", "list-max-ziplist-entries"} {
		if entries, err := strconv.ParseInt(config[setting], 10, 64); err == nil && entries > 0 && entries <= MaxCapacity {
			capacity = entries
		}
	}
	l.capacity.CompareAndSwap(0, capacity)
	return capacity, nil
}
