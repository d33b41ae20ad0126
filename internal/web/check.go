package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/survey"
)

const (
	checkShare = 0.05 // of a core that a check may cost the server
	checkLife  = 10 * time.Minute
)

// checks are the checks that somebody waits for. A check scans all keys, so one runs at a time, and those who want the same one share it.
type checks struct {
	mu      sync.Mutex
	running map[string]*check
	turn    chan struct{} // has room for the check that scans
}

// check is one that runs, or is about to.
type check struct {
	viewers int                // who wait for it; guarded by the mutex of checks
	stop    context.CancelFunc // when nobody does
	done    chan struct{}
	faults  []string // once it is done
	err     error
	took    time.Duration
}

// check replies with what Check finds.
func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	c := s.joinCheck(name)
	defer s.checks.leave(name, c)
	select {
	case <-c.done:
		reply(w, map[string]any{"faults": c.faults, "took_ms": c.took.Milliseconds(), "now": time.Now().UnixMilli()}, c.err)
	case <-r.Context().Done():
	}
}

// joinCheck returns the check of a list that runs, or starts one.
func (s *Server) joinCheck(name string) *check {
	s.checks.mu.Lock()
	defer s.checks.mu.Unlock()
	c := s.checks.running[name]
	if c == nil {
		c = s.startCheck(name)
		s.checks.running[name] = c
	}
	c.viewers++
	return c
}

func (s *Server) startCheck(name string) *check {
	ctx, stop := context.WithCancel(s.ctx)
	c := &check{stop: stop, done: make(chan struct{}), faults: []string{}}
	s.work.Go(func() {
		defer stop()
		c.err = s.checkInTurn(ctx, name, c)
		s.checks.mu.Lock()
		defer s.checks.mu.Unlock()
		s.checks.forget(name, c)
		close(c.done)
	})
	return c
}

// leave notes that a viewer does not wait for a check any more. One that nobody waits for ends, and holds up no other.
func (k *checks) leave(name string, c *check) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.viewers--; c.viewers == 0 {
		k.forget(name, c)
		c.stop()
	}
}

// forget lets the next viewer start another check of a list. The mutex is held.
func (k *checks) forget(name string, c *check) {
	if k.running[name] == c {
		delete(k.running, name)
	}
}

func (s *Server) checkInTurn(ctx context.Context, name string, c *check) error {
	select {
	case s.checks.turn <- struct{}{}:
		defer func() { <-s.checks.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	start := time.Now()
	defer func() { c.took = time.Since(start) }()
	ctx, cancel := context.WithTimeout(ctx, checkLife)
	defer cancel()
	client := pacedClient(s.Client, checkShare, 0)
	defer func() { _ = client.Close() }()
	list, err := open(client, name)
	if err != nil {
		return err
	}
	err = list.Check(ctx)
	if err == nil {
		return isThere(ctx, client, name)
	}
	if !errors.Is(err, shardedlist.ErrBroken) {
		return err
	}
	for line := range strings.Lines(err.Error()) {
		c.faults = append(c.faults, Display(strings.TrimSpace(line)))
	}
	return nil
}

// isThere returns an error if there is no list of that name.
func isThere(ctx context.Context, client redis.UniversalClient, name string) error {
	rows, err := survey.Look(ctx, client, []string{name}, survey.Options{WithoutBytes: true})
	if err == nil && len(rows) == 0 {
		return fail(http.StatusNotFound, "there is no list "+strconv.Quote(name))
	}
	return err
}
