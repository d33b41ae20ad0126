package spread

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	pointersScript = script.Load("spread_pointers")
	moveScript     = script.Load("spread_move")
)

// Pointers that are older than maxAge are read again before anything is sent with them. A script may be repeated for half the life of
// a dedup record more, and the servers keep what late copies of it must find for longer than both, see lua/shared/end_shard.lua.
const maxAge = 20 * time.Second

// ErrOneSlot is returned if the list is one in a single slot.
var ErrOneSlot = errors.New("the list is in one slot")

// pointers are those of the list's meta, as a client has read them. left and right index arrays.
type pointers struct {
	parts, capacity int64
	generation      int64
	ids             [2]int64
	epochs          [2]int64
	borders         [2]int64 // where the shard at an end begins
	deleting        bool
	expired         bool // it is being deleted for that
	mayPush         bool // meta does not expire
	old             string
	expiry          expiry
	read            time.Time

	word  string // as an argument of scripts
	field string // as meta has them
}

const (
	left  = 0
	right = 1
)

func sideOf(end layout.End) int {
	if end == layout.Left {
		return left
	}
	return right
}

var sideWords = [2]any{"L", "R"}

// readPointers reads the reply of a script on the pointers: nil if there is no list.
func readPointers(reply any, now time.Time) (*pointers, error) {
	if reply == nil {
		return nil, nil
	}
	fields := reply.([]any)
	p := &pointers{read: now, field: fields[0].(string)}
	p.old, _ = fields[1].(string)
	var flags, next int64
	if _, err := fmt.Sscanf(p.field, "4 %d %d %d %d %d %d %d %d %d %d %d", &p.parts, &p.capacity, &p.generation, &p.ids[left], &p.ids[right],
		&p.epochs[left], &p.epochs[right], &p.borders[left], &p.borders[right], &next, &flags); err != nil || p.parts < 1 {
		return nil, ErrOneSlot // or another layout, which that one reports
	}
	p.deleting, p.mayPush, p.expired = flags&1 != 0, flags&2 != 0, flags&4 != 0
	p.word = fmt.Sprintf("%d %d %d %d %d %d %d %d", p.generation, p.ids[left], p.ids[right], p.epochs[left], p.epochs[right],
		p.borders[left], p.borders[right], p.capacity)
	if text, _ := fields[2].(string); text != "" {
		if _, err := fmt.Sscanf(text, "%d %d", &p.expiry.time, &p.expiry.stamp); err != nil {
			return nil, fmt.Errorf("%w: meta has the expiry %q", layout.ErrBroken, text)
		}
		p.word += fmt.Sprintf(" %d %d", p.expiry.time, p.expiry.stamp)
	}
	return p, nil
}

// maxReconnects is how often a step is repeated that could not be sent.
const maxReconnects = 3

// run carries out a step that may run twice. Unlike go-redis, it repeats one whose connection fails for as long as an operation is.
func (l *List) run(ctx context.Context, op session.Operation) (any, error) {
	until := script.Deadline(ctx)
	if latest := time.Now().Add(session.ResolveFor); latest.Before(until) {
		until = latest
	}
	for attempt := 0; ; attempt++ {
		reply, err := op.Run(ctx)
		var connection *net.OpError
		switch {
		case script.IsDone(err) || script.IsReply(err) || ctx.Err() != nil || errors.Is(err, redis.ErrClosed),
			attempt == maxReconnects && errors.As(err, &connection) && connection.Op == "dial",
			time.Until(until) < script.Backoff(attempt) || script.Sleep(ctx, script.Backoff(attempt)) != nil:
			return reply, err
		}
	}
}

// sameAs reports whether no pointer has moved in between.
func (p *pointers) sameAs(other *pointers) bool {
	return p != nil && other != nil && p.epochs == other.epochs && p.generation == other.generation
}

// lock keeps other callers of this process from reading or moving the pointers too.
func (l *List) lock(ctx context.Context) error {
	select {
	case l.moving <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *List) unlock() { <-l.moving }

func (l *List) remember(p *pointers) {
	l.cached.Store(p)
	if p != nil {
		l.last.Store(p)
	}
}

// find returns pointers that are new enough, or nil if there is no list, or nobody has pushed since it was deleted. For a push, it makes
// one.
func (l *List) find(ctx context.Context, push bool) (*pointers, error) {
	if p := l.cached.Load(); p != nil && time.Since(p.read) < maxAge {
		return p, nil
	}
	if err := l.lock(ctx); err != nil {
		return nil, err
	}
	defer l.unlock()
	if p := l.cached.Load(); p != nil && time.Since(p.read) < maxAge {
		return p, nil
	}
	return l.refresh(ctx, push)
}

// refresh reads the pointers. It ends a delete that is under way, and has what deletes have left to do be done. The lock is held.
func (l *List) refresh(ctx context.Context, push bool) (*pointers, error) {
	for {
		p, err := l.readMeta(ctx, push)
		switch {
		case err != nil || p == nil:
			l.remember(nil)
			return nil, err
		case p.deleting:
			if _, err := l.endDelete(ctx, p); err != nil {
				return nil, err
			}
			continue
		case push && !p.mayPush: // there is a plain list, for which meta goes once nothing is left
			if err := l.sweep(ctx, p, sweepStep); err != nil {
				return nil, err
			}
			continue
		case p.old != "":
			l.sweepLater()
		}
		if !p.mayPush {
			p = nil
		}
		l.remember(p)
		return p, nil
	}
}

// readMeta reads the pointers, and makes a list for a push if there is none.
func (l *List) readMeta(ctx context.Context, push bool) (*pointers, error) {
	may, parts, capacity := 0, any(""), any("")
	if push {
		may = 1
		if l.config.Parts > 0 {
			n, err := l.config.Capacity(ctx)
			if err != nil {
				return nil, err
			}
			parts, capacity = l.config.Parts, n
		}
	}
	now := time.Now()
	confirm := 0
	if l.replicated(ctx) {
		confirm = 1
	}
	reply, err := l.runOnMeta(ctx, pointersScript, may, parts, capacity, l.config.Plain, confirm)
	if err != nil {
		return nil, err
	}
	return readPointers(reply, now)
}

// told is what a shard replies with if it is not the end of the list.
type told struct {
	word   string
	epochs [2]int64 // those that the client knew
	value  int64
	void   int64 // the stamp of an expiry that the shard has found void, or 0
}

func parseTold(text string) (t told, err error) {
	n, err := fmt.Sscan(text, &t.word, &t.epochs[left], &t.epochs[right], &t.value, &t.void)
	if n < 4 {
		return t, fmt.Errorf("%w: a shard replied %q: %w", layout.ErrBroken, text, err)
	}
	return t, nil
}

// follow moves a pointer as a shard at that side has told, or reads the pointers again.
func (l *List) follow(ctx context.Context, side int, text string) error {
	t, err := parseTold(text)
	if err != nil {
		return err
	}
	switch {
	case strings.HasPrefix(t.word, "OTHER_"):
		side, t.word = 1-side, strings.TrimPrefix(t.word, "OTHER_")
	case t.word == drained:
		t.word = "GONE"
	}
	if err := l.lock(ctx); err != nil {
		return err
	}
	defer l.unlock()
	if p := l.cached.Load(); p == nil || p.epochs[side] != t.epochs[side] {
		return nil // another caller has been faster
	}
	if t.word == "STALE" {
		p, err := l.refresh(ctx, false)
		if err != nil || p == nil || p.epochs != t.epochs {
			return err
		}
	}
	now := time.Now()
	if t.word == expired {
		reply, err := l.runOnMeta(ctx, deleteScript, "expired", l.cached.Load().generation, t.value)
		if err != nil {
			return err
		}
		return l.rememberReply(ctx, reply, now)
	}
	reply, err := l.runOnMeta(ctx, moveScript, sideWords[side], t.epochs[side], t.word, t.value, t.void)
	if err != nil {
		return err
	}
	return l.rememberReply(ctx, reply, now)
}

// rememberReply remembers the pointers that a script replied with. It ends a delete that is under way. The lock is held.
func (l *List) rememberReply(ctx context.Context, reply any, now time.Time) error {
	p, err := readPointers(reply, now)
	switch {
	case err != nil:
		return err
	case p != nil && (p.deleting || !p.mayPush):
		_, err = l.refresh(ctx, false)
		return err
	}
	l.remember(p)
	return nil
}
