// Package spread stores a list over many slots of a cluster: its shards are in parts, each of which has a hash tag of its own, with
// pointers to the first and the last shard in one more slot.
//
// The package knows the keys, the pointers that a client remembers, and where an operation goes on when they are out of date. It does
// not know how operations are retried, nor who waits for them. docs/design.md, "Spread lists", has the protocol.
package spread

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// MaxParts is the largest number of parts.
const MaxParts = 1024

// Config configures a list.
type Config struct {
	Runner *script.Runner
	Name   string
	Meta   string // the key of the list's meta, which lists of all layouts share
	// Parts is the number of parts of a list that a push makes; 0 makes none. Capacity returns its capacity.
	Parts    int
	Capacity func(ctx context.Context) (int64, error)
	// Plain is what scripts are told of the plain key of that name, see lua/shared/keys.lua, or empty. A plain list there is no part of the list.
	Plain string
	// WithoutDedup and RecordLife are as for a list in one slot.
	WithoutDedup bool
	RecordLife   time.Duration
	Stats        *stats.List
}

// List is a list over many slots.
type List struct {
	config   Config
	runner   *script.Runner
	declared []any // the key that scripts on the pointers get: meta
	sessions *session.Pool
	replicas replicas

	moving chan struct{}            // holds a value while a caller reads or moves the pointers
	cached atomic.Pointer[pointers] // those that were read last; nil if there is no list
	last   atomic.Pointer[pointers] // the same, but those of a list that is no more stay
	parts  sync.Map                 // Part, by its number and the number of parts

	sweeping atomic.Bool // a goroutine unlinks shards of lists that were deleted

	ends [2]end

	// MaxSlice is how long one BLPOP on the bell lasts at most. Tests change it before they use the list.
	MaxSlice time.Duration
}

// end is one end of a list.
type end struct {
	list          *List
	side          int
	order         session.Order
	orders        []*session.Order // it
	pushes, pops  batch.Kind
	pusher, poper *batch.Batcher
	waiters       *blocking.Queue

	attempt atomic.Pointer[pointers] // those that operations for callers that wait are sent with
	told    atomic.Pointer[string]   // what the last of them has told
	border  atomic.Pointer[known]    // what is known of the border here
	looking chan struct{}            // holds a value while a caller that others wait for looks at it
}

// New opens a list. It sends nothing.
func New(config Config) *List {
	l := &List{config: config, runner: config.Runner, declared: []any{config.Meta}, moving: make(chan struct{}, 1), MaxSlice: blocking.MaxSlice}
	l.sessions = &session.Pool{Runner: l.runner, Apart: true, Disabled: config.WithoutDedup, Life: config.RecordLife, List: config.Stats}
	confirming := &script.Runner{Client: l.runner.Client, Replicas: 1, ReplicaTimeout: confirmTimeout(l.runner.Client)}
	l.replicas.pool = &session.Pool{Runner: confirming, List: config.Stats}
	for side := range l.ends {
		e := &l.ends[side]
		e.list, e.side, e.looking = l, side, make(chan struct{}, 1)
		e.orders = []*session.Order{&e.order}
		e.pushes = batch.Kind{Join: e.joinPushes, Share: e.sharePush, Orders: e.orders}
		e.pops = batch.Kind{Join: e.joinPops, Share: sharePop, Reclaim: e.putBack}
		e.pusher = batch.New(l.sessions, &e.pushes)
		e.poper = batch.New(l.sessions, &e.pops)
		e.waiters = blocking.NewQueue(e, l.sessions, e.popOne, e.putBack, nil)
	}
	return l
}

func (l *List) at(end layout.End) *end { return &l.ends[sideOf(end)] }

// Client returns the client of the list.
func (l *List) Client() redis.UniversalClient { return l.runner.Client }

// Waiters returns the callers blocked at an end.
func (l *List) Waiters(side layout.End) *blocking.Queue { return l.at(side).waiters }

// Parts returns the number of parts, or 0 if there is no list.
func (l *List) Parts(ctx context.Context) (int64, error) {
	p, err := l.find(ctx, false)
	if p == nil {
		return 0, err
	}
	return p.parts, err
}

// part returns the part of a shard.
func (l *List) part(p *pointers, id int64) Part { return l.partOf(id, p.parts) }

// partOf returns the part of a shard among that many.
func (l *List) partOf(id, parts int64) Part {
	number := ((id % parts) + parts) % parts
	at := [2]int64{number, parts}
	if known, ok := l.parts.Load(at); ok {
		return known.(Part)
	}
	part := PartOf(l.config.Name, int(number), int(parts))
	l.parts.Store(at, part)
	return part
}

// operation returns an operation on the shard at an end, which is done once, with room for further arguments.
func (e *end) operation(p *pointers, s *script.Script, room int) session.Operation {
	op := e.list.sessions.Operation(s, []any{e.list.part(p, p.ids[e.side]).Meta}, 2+room)
	word := p.word
	if time.Since(p.read) > 2*maxAge { // it has waited for long: no shard is to be made
		word = fmt.Sprintf("%d %d %d 0 0 0 0 %d", p.generation, p.ids[left], p.ids[right], p.capacity)
	}
	op.Append(sideWords[e.side], word)
	return op
}

// onShard returns an operation on any shard that changes nothing, or that may run twice.
func (l *List) onShard(p *pointers, s *script.Script, id int64, args ...any) session.Operation {
	words := append([]any{"", "", "", "L", p.word}, args...)
	return l.sessions.Read(s, []any{l.part(p, id).Meta}, words...)
}
