package session

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/stats"
)

var (
	resolveScript = script.Load("resolve")
	forgetScript  = script.Load("forget")
)

// Pool creates the sessions of one list, and reuses those that serve one operation at a time. The record of an operation is beside its
// first key.
type Pool struct {
	Runner   *script.Runner
	Apart    bool          // records are never in meta: operations have different first keys
	InMeta   bool          // records are always in meta
	Disabled bool          // sessions keep no records
	List     *stats.List   // counts; nil counts nothing
	Life     time.Duration // of the records; 0 means RecordLife

	last      atomic.Pointer[Session] // an idle one, which the garbage collector does not take: the server has its record
	idle      sync.Pool               // *Session, the other idle ones
	resolving resolving
	moves     atomic.Int64 // the Unix time in nanoseconds until which new records go to meta, because the slot moves
}

// New returns a session that is not pooled.
func (p *Pool) New() *Session {
	s := &Session{pool: p, life: cmp.Or(p.Life, RecordLife)}
	life := s.life.Milliseconds()
	s.renewWord, s.keepWord = life, -life
	s.rename()
	return s
}

// inMeta begins the id of a session whose record is a field of meta, see lua/shared/session.lua.
const inMeta = "@"

// newID returns an id under which no operation has been sent.
func (p *Pool) newID() string {
	if p.InMeta || p.recordsMove() {
		return inMeta + uuid.NewString()
	}
	return uuid.NewString()
}

// recordsMove reports whether the slot was seen to move lately.
func (p *Pool) recordsMove() bool {
	until := p.moves.Load()
	return until != 0 && time.Now().UnixNano() < until
}

// Get returns an idle session. The caller returns it with Put.
func (p *Pool) Get() *Session {
	if s := p.last.Swap(nil); s != nil {
		return s
	}
	if s, ok := p.idle.Get().(*Session); ok {
		return s
	}
	return p.New()
}

// Operation returns an operation that runs the script on the keys, and beside plain keys, see script.NewCall. The caller appends up
// to room arguments.
func (p *Pool) Operation(s *script.Script, keys []any, room int, plain ...any) Operation {
	call := script.NewCall(s, keys, sessionWords+room, plain...)
	call.Waits, call.List = true, p.List
	at := len(call.Args)
	call.Args = call.Args[:at+sessionWords]
	return Operation{Kind: s.Kind(), pool: p, call: call, at: at}
}

// Read returns an operation that changes nothing, or that may run twice.
func (p *Pool) Read(s *script.Script, keys []any, args ...any) Operation {
	return p.ReadBeside(s, keys, nil, args...)
}

// Confirmed returns an operation that may run twice, and that waits for replicas, if the pool's Runner has to wait for any.
func (p *Pool) Confirmed(s *script.Script, keys []any, args ...any) Operation {
	op := p.Read(s, keys, args...)
	op.call.Waits = true
	return op
}

// ReadBeside is Read with plain keys, see script.NewCall.
func (p *Pool) ReadBeside(s *script.Script, keys, plain []any, args ...any) Operation {
	call := script.NewCall(s, keys, len(args), plain...)
	call.Args, call.List = append(call.Args, args...), p.List
	return Operation{Kind: s.Kind(), pool: p, call: call}
}

// MayLeave reports whether scripts may leave elements in the list of the record, as far as that depends on the pool, see Leaver.
func (p *Pool) MayLeave() bool { return !p.Disabled && p.Runner.Replicas == 0 && !p.recordsMove() }

// Put takes back the session of an operation that ended or was given up. It returns the reply and the error for the caller.
func (p *Pool) Put(s *Session, op Operation, outcome Outcome) (any, error) {
	p.putBack(s, op, outcome)
	if outcome.Status == Unknown {
		return nil, p.Lost(outcome.Err, op.Reclaimer != nil)
	}
	return outcome.Reply, outcome.Err
}

// putBack is Put for an operation whose caller has gone, and has heard of it.
func (p *Pool) putBack(s *Session, op Operation, outcome Outcome) {
	if outcome.Status != Unknown {
		s.ForgetLarge()
		p.rest(s)
		return
	}
	resolved := Abandon(op.Orders)
	p.resolveLater(func(ctx context.Context, until time.Time) {
		defer resolved()
		if outcome := s.Resolve(ctx, until); outcome.Status != Unknown {
			go outcome.Reclaim() // may take until the server has memory, and others wait to be resolved
			p.rest(s)
		}
	})
}

// rest makes a session idle.
func (p *Pool) rest(s *Session) {
	if !p.last.CompareAndSwap(nil, s) {
		p.idle.Put(s)
	}
}

// resolving holds what is to be resolved of operations that were given up. One goroutine does it, so that callers who cancel
// faster than the server answers do not start more.
type resolving struct {
	mu      sync.Mutex
	queue   []givenUp
	running bool
}

type givenUp struct {
	resolve  func(ctx context.Context, until time.Time)
	deadline time.Time
}

// resolveLater makes sure that what was given up can no longer be applied, and that the elements it took are not lost.
func (p *Pool) resolveLater(resolve func(ctx context.Context, until time.Time)) {
	r := &p.resolving
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, givenUp{resolve, time.Now().Add(ResolveFor)})
	if !r.running {
		r.running = true
		go r.run()
	}
}

func (r *resolving) run() {
	for {
		r.mu.Lock()
		if len(r.queue) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		next := r.queue[0]
		r.queue = r.queue[1:]
		r.mu.Unlock()
		ctx, cancel := context.WithDeadline(context.Background(), next.deadline)
		next.resolve(ctx, next.deadline)
		cancel()
	}
}
