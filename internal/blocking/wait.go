package blocking

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// Place is where a caller waits.
type Place struct {
	Bells []string
	// Release is a key by which Release and Rouse end the wait. Alarm is another one, or empty.
	Release, Alarm string
}

// how a wait ends, or goes on.
type how int

const (
	timeUp   how = iota
	rung         // one of its bells did, or Rouse was called
	released     // Release was called
	seated       // it has a connection of its own, on which it blocks
)

// errNotSent is the outcome of a pop that its caller must send, errReleased of one that it must not.
var (
	errNotSent  = errors.New("the wait is over, and the pop has not been sent")
	errReleased = errors.New("the wait was released")
)

// wait is one of them.
type wait struct {
	bells  []string
	told   chan how // receives once
	ended  bool     // it has received; guarded by waits.mu
	direct bool     // it has a seat, so that only the server ends it; guarded by waits.mu
	seated bool     // guarded by the lock of the node
}

// waits has those of this process by their release keys, and what was told under keys that nobody waits on.
var waits = struct {
	mu    sync.Mutex
	byKey map[string]*wait
	early map[string]how
}{byKey: map[string]*wait{}, early: map[string]how{}}

// tell ends a wait that has not ended, and reports whether it has.
func (w *wait) tell(h how) bool {
	waits.mu.Lock()
	defer waits.mu.Unlock()
	return w.tellLocked(h)
}

func (w *wait) tellLocked(h how) bool {
	if w.ended {
		return false
	}
	w.ended, w.direct = true, h == seated
	w.told <- h
	return true
}

// begin begins a wait. What was told under its keys before ends it at once.
func (p Place) begin() *wait {
	w := &wait{bells: p.Bells, told: make(chan how, 1)}
	waits.mu.Lock()
	defer waits.mu.Unlock()
	for _, key := range p.keys() {
		waits.byKey[key] = w
		if h, told := waits.early[key]; told {
			delete(waits.early, key)
			w.tellLocked(h)
		}
	}
	return w
}

func (p Place) end() {
	waits.mu.Lock()
	defer waits.mu.Unlock()
	for _, key := range p.keys() {
		delete(waits.byKey, key)
	}
}

func (p Place) keys() []string {
	if p.Alarm == "" {
		return []string{p.Release}
	}
	return []string{p.Release, p.Alarm}
}

// signal tells the wait with that key, or the next one, how it ends. It reports whether the server need not.
func signal(key string, h how) bool {
	waits.mu.Lock()
	defer waits.mu.Unlock()
	if w := waits.byKey[key]; w != nil {
		w.tellLocked(h)
		return !w.direct
	}
	waits.early[key] = h
	time.AfterFunc(releaseLife, func() {
		waits.mu.Lock()
		defer waits.mu.Unlock()
		delete(waits.early, key)
	})
	return true
}

// wait waits until one of the bells has rung, or the time is over. If it has a seat, block does that, and returns the key that it has popped
// from.
func (p Place) wait(rdb redis.UniversalClient, list *stats.List, slice time.Duration, block func(slice time.Duration) (wokenBy string)) how {
	w, wokenBy := p.begin(), ""
	defer p.end()
	if n, client := nodeOf(rdb, p.Release); n == nil {
		w.tell(seated)
	} else {
		slice = n.await(client, w, list, slice)
		defer func() { n.leave(w, wokenBy) }()
	}
	w.tell(timeUp)
	h := <-w.told
	if h == seated {
		defer list.Block()()
		wokenBy = block(slice)
	}
	if h == rung || slices.Contains(p.Bells, wokenBy) {
		list.WakeUp()
	}
	return h
}

// Block sends a pop after one of the bells has rung, or the time is over. If it has not been sent, the error says so. See Source.
func Block(s *session.Session, pop session.Operation, slice time.Duration, at Place) (outcome session.Outcome, err error) {
	switch at.wait(s.Client(), s.Stats(), slice, func(slice time.Duration) (wokenBy string) {
		outcome, wokenBy, err = s.Block(context.Background(), at.blpop(slice), pop)
		return wokenBy
	}) {
	case seated:
		return outcome, err
	case released:
		return session.Outcome{Status: session.Refused, Err: errReleased}, nil
	}
	return session.Outcome{Status: session.Refused, Err: errNotSent}, nil
}

// Await waits as Block does, for a caller that sends what it wants itself, and reports whether a bell may have rung.
func Await(rdb redis.UniversalClient, list *stats.List, slice time.Duration, at Place) (rings bool, err error) {
	h := at.wait(rdb, list, slice, func(slice time.Duration) (wokenBy string) {
		blpop := script.NewCommandOnce(context.Background(), at.blpop(slice)...)
		// in the pool for pipelines, as all that blocks
		_, _ = rdb.Pipelined(context.Background(), func(p redis.Pipeliner) error { return p.Process(context.Background(), blpop) })
		if err = blpop.Err(); err == redis.Nil {
			err = nil
		} else if popped, _ := blpop.StringSlice(); len(popped) > 0 {
			wokenBy = popped[0]
		}
		rings = err != nil || wokenBy != "" && wokenBy != at.Release
		return wokenBy
	})
	return rings || h == rung, err
}

// blpop is the command by which a seated caller waits.
func (p Place) blpop(slice time.Duration) []any {
	command := []any{"blpop"}
	for _, key := range append(slices.Clone(p.Bells), p.keys()...) {
		command = append(command, key)
	}
	return append(command, strconv.FormatFloat(slice.Seconds(), 'f', 3, 64))
}

// Release ends a wait. The pop behind it takes nothing. If the server must do that, and it fails, the BLPOP ends at its timeout.
func Release(sessions *session.Pool, key string) { end(sessions, key, released, "leave") }

// Rouse is Release, but the pop takes what it finds, as behind a bell that rang.
func Rouse(sessions *session.Pool, key string) { end(sessions, key, rung, "look") }

// End is Release of a wait of Await, which has no pop behind it.
func End(sessions *session.Pool, key string) { end(sessions, key, released, "look") }

func end(sessions *session.Pool, key string, h how, server string) {
	if !signal(key, h) {
		_, _ = sessions.Read(releaseScript, []any{key}, releaseLife.Milliseconds(), server).Run(context.Background())
	}
}
