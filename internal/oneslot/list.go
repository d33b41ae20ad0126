// Package oneslot stores a list in one hash slot: as shards that share a hash tag, with pointers to the first and the last
// shard.
//
// The package knows the keys, and builds the operations: the script and its arguments, how to read the reply, how to resolve an
// unknown outcome, and where elements go that no caller takes. It does not know how operations are retried, nor who waits for
// them.
package oneslot

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

const (
	// expiryGrace is how long the shards outlive an expired list, at least: longer than the clocks of a master and a replica
	// differ, and than it takes to visit all shards of a very long list.
	expiryGrace = time.Minute
	// NewcomersSlice is how long a BLPOP on the bell lasts at most after newcomers were seen in the last NewcomersFor. Processes that do
	// not watch the plain key ring no bell.
	NewcomersSlice = 250 * time.Millisecond
	NewcomersFor   = time.Minute
)

// Config configures a list.
type Config struct {
	Runner *script.Runner
	Name   string
	// Capacity is the capacity of a list that a push creates. 0 asks the server for one.
	Capacity int
	// WithoutDedup keeps no dedup records: go-redis retries operations as it retries those of Redis.
	WithoutDedup bool
	// RecordLife is how long the server keeps dedup records; 0 means session.RecordLife.
	RecordLife time.Duration
	// AsideFrom is the size in bytes from which the values of a push do not pass through Lua, and AsideAgain how long they all do after one
	// that had to. 0 means asideBytes and asideAgain.
	AsideFrom  int
	AsideAgain time.Duration
	// Stats counts what the list does; nil counts it for this list alone.
	Stats *stats.List
	// StaysPlain says that the list is the plain list of its name, whatever its length.
	StaysPlain bool
	// PoppedAt is the end at which elements are popped, or empty if the caller does not know it. Newcomers join the other one.
	PoppedAt layout.End
}

// List is a list in one slot.
type List struct {
	config   Config
	runner   *script.Runner
	keys     Keys
	declared []any // the key that scripts get: meta
	plain    []any // what scripts are told of the plain key, see lua/shared/keys.lua
	putsBack []any // the same, for what puts elements back
	sessions *session.Pool
	stats    *stats.List

	capacity *capacity // of a list that a push creates

	left, right end

	lookout  lookout         // for callers that wait, if the list stays at its plain key
	together blocking.Shared // callers that wait on this list and others
	reads    batch.Reads     // callers that ask the same
	changes  changes         // callers that change it while it is short

	sawNewcomers  atomic.Int64 // when a pop that waits found some, as a Unix time in nanoseconds
	notInPlaceFor atomic.Int64 // until when reads are not tried at the plain key, likewise

	// Times that tests change before they use the list.
	MaxSlice    time.Duration // how long one BLPOP on the bell lasts at most
	ExpiryGrace time.Duration // how long the shards outlive a list that expires, at the least
	SearchStep  int           // how many elements a script searches at once, of a list that is longer
}

// end is one end of a list. A hook opens many lists, of which most callers use one end, and few wait: what that takes is made when it is
// needed.
type end struct {
	list  *List
	side  layout.End
	order session.Order // of what adds elements here

	made          sync.Once        // what follows
	word          any              // the side as an argument of scripts
	orders        []*session.Order // the order
	pushes, pops  batch.Kind
	pusher, poper *batch.Batcher

	queued  sync.Once // waiters is made
	waiters *blocking.Queue

	leaves  leaves                                     // which pops leave their elements on the server, for the client to read there
	counted func(op *session.Operation, reply any) int // leaves.count, which each pop needs as a value

	aside  aside                                      // which pushes put the end shard aside, for their values not to pass through Lua
	pushed func(op *session.Operation, reply any) int // countPush, which each push needs as a value
}

// New opens a list. It sends nothing.
func New(config Config) *List {
	l := &List{
		config:      config,
		runner:      config.Runner,
		keys:        KeysOf(config.Name),
		MaxSlice:    blocking.MaxSlice,
		ExpiryGrace: expiryGrace,
		SearchStep:  searchStep,
	}
	l.declared = []any{l.keys.Meta}
	l.plain, l.putsBack = []any{"+" + config.Name}, []any{"^" + config.Name}
	if config.StaysPlain {
		l.plain, l.putsBack = []any{"." + config.Name}, []any{"." + config.Name}
	}
	l.capacity = capacityOf(config)
	if l.stats = config.Stats; l.stats == nil {
		l.stats = stats.NewList(config.Name)
	}
	l.sessions = &session.Pool{Runner: l.runner, Disabled: config.WithoutDedup, Life: config.RecordLife, List: l.stats}
	l.left.list, l.left.side = l, layout.Left
	l.right.list, l.right.side = l, layout.Right
	return l
}

// at returns an end, made.
func (l *List) at(side layout.End) *end {
	e := &l.right
	if side == layout.Left {
		e = &l.left
	}
	e.made.Do(func() {
		e.word = string(side)
		e.orders = []*session.Order{&e.order}
		e.counted, e.pushed = e.leaves.count, e.countPush
		e.pushes = batch.Kind{Join: e.joinPushes, Share: sharePush, Orders: e.orders}
		e.pops = batch.Kind{Join: e.joinPops, Share: e.sharePop, Reclaim: e.putBack}
		e.pusher = batch.New(l.sessions, &e.pushes)
		e.poper = batch.New(l.sessions, &e.pops)
	})
	return e
}

// queue returns the callers that wait at the end.
func (e *end) queue() *blocking.Queue {
	e.queued.Do(func() {
		e.waiters = blocking.NewQueue(e, e.list.sessions, e.popOne, e.putBack, e.list.mayWait)
	})
	return e.waiters
}

// Name returns the name of the list.
func (l *List) Name() string { return l.config.Name }

// Spread reports whether operations take several steps.
func (l *List) Spread() (maybe, surely bool) { return false, false }

// Client returns the client of the list.
func (l *List) Client() redis.UniversalClient { return l.runner.Client }

// Plain returns what scripts are told of the plain key, see lua/shared/keys.lua.
func (l *List) Plain() string { return l.plain[0].(string) }

// Stats returns what counts what the list does.
func (l *List) Stats() *stats.List { return l.stats }

// Keys returns the names of the list's keys.
func (l *List) Keys() Keys { return l.keys }

// Replicas returns the number of replicas that an operation must reach.
func (l *List) Replicas() int { return l.runner.Replicas }

// Waiters returns the callers blocked at an end.
func (l *List) Waiters(side layout.End) *blocking.Queue { return l.at(side).queue() }

// Source returns where callers that wait at an end get elements from.
func (l *List) Source(side layout.End) blocking.Source { return l.at(side) }

// Sessions returns the sessions of operations that callers do not share.
func (l *List) Sessions() *session.Pool { return l.sessions }

// Sibling returns the list of another name, with the same options.
func (l *List) Sibling(name string) layout.List {
	config := l.config
	config.Name, config.Stats = name, l.stats.Sibling(name)
	sibling := New(config)
	sibling.ExpiryGrace, sibling.SearchStep = l.ExpiryGrace, l.SearchStep
	return sibling
}

// operation returns an operation that is done once, with room for further arguments.
func (l *List) operation(s *script.Script, room int) session.Operation {
	return l.sessions.Operation(s, l.declared, room, l.plain...)
}

// read returns an operation that changes nothing, or that may run twice.
func (l *List) read(s *script.Script, args ...any) session.Operation {
	return l.sessions.ReadBeside(s, l.declared, l.plain, args...)
}

// several returns the lists as lists of this layout, if one script can access them all.
func several(lists []layout.List) ([]*List, error) {
	ours := make([]*List, len(lists))
	for i, list := range lists {
		l, ok := list.(*List)
		if !ok {
			return nil, errOtherLayout
		}
		if ours[i] = l; i == 0 {
			continue
		}
		if l.Client() != ours[0].Client() {
			return nil, layout.ErrOtherClient
		}
		var apart bool
		switch l.Client().(type) {
		case *redis.ClusterClient:
			apart = l.keys.Slot() != ours[0].keys.Slot()
		case *redis.Ring:
			apart = script.HashTag(l.keys.Meta) != script.HashTag(ours[0].keys.Meta)
		}
		if apart {
			return nil, rediserr.CrossSlot
		}
	}
	return ours, nil
}

var errOtherLayout = errors.New("the lists have different layouts")

// operationOn begins an operation on several lists, see lua/shared/lists.lua.
func operationOn(lists []*List, s *script.Script, room int) session.Operation {
	var keys, plain []any
	for _, l := range lists {
		keys, plain = append(keys, l.keys.Meta), append(plain, l.plain[0])
	}
	op := lists[0].sessions.Operation(s, keys, 1+room, plain...)
	op.Append(len(lists))
	return op
}
