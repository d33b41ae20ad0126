package oneslot

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/script"
)

// lookout tells callers that wait when a list that stays at its plain key has elements: those that push to it ring no bell. The server waits
// by a BLMOVE of the list's first element to where it is, which takes nothing, so that a lost reply loses nothing.
type lookout struct {
	mu     sync.Mutex
	calls  map[string]bool // the release keys of the callers
	active bool
}

// lookoutSlice limits how long the server waits for a caller that has gone.
const lookoutSlice = time.Second

// lookOut rouses a caller once the list has elements, unless it is stopped.
func (l *List) lookOut(release string) (stop func()) {
	o := &l.lookout
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls == nil {
		o.calls = map[string]bool{}
	}
	o.calls[release] = true
	if !o.active {
		o.active = true
		go o.run(l)
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.calls, release)
	}
}

// run looks out until nobody waits, and no longer than a slice beyond that.
func (o *lookout) run(l *List) {
	failures := 0
	for {
		slice := min(l.slice(time.Time{}), lookoutSlice)
		wait := script.NewCommand(context.Background(), "blmove", l.config.Name, l.config.Name, "LEFT", "LEFT", strconv.FormatFloat(slice.Seconds(), 'f', 3, 64))
		err := l.Client().Process(context.Background(), wait)
		o.mu.Lock()
		if len(o.calls) == 0 {
			o.active = false
			o.mu.Unlock()
			return
		}
		found := err == nil
		var calls map[string]bool
		if found {
			calls, o.calls = o.calls, map[string]bool{}
		}
		o.mu.Unlock()
		for release := range calls {
			blocking.Rouse(l.sessions, release)
		}
		if failures++; found || err == redis.Nil {
			failures = 0
		}
		_ = script.Sleep(context.Background(), script.Backoff(failures))
	}
}
