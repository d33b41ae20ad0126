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

// checks are the checks that run. A check scans all keys, so one runs at a time, and those who want the same one share it.
type checks struct {
	mu      sync.Mutex
	running map[string]*check
	turn    sync.Mutex // held by the check that scans
}

// check is one that runs.
type check struct {
	done   chan struct{}
	faults []string // once it is done
	err    error
	took   time.Duration
}

// check replies with what Check finds.
func (s *Server) check(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	c := s.joinCheck(name)
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
	if c := s.checks.running[name]; c != nil {
		return c
	}
	if s.checks.running == nil {
		s.checks.running = map[string]*check{}
	}
	c := &check{done: make(chan struct{}), faults: []string{}}
	s.checks.running[name] = c
	s.work.Go(func() {
		s.checks.turn.Lock()
		start := time.Now()
		c.err = s.runCheck(name, c)
		c.took = time.Since(start)
		s.checks.turn.Unlock()
		s.checks.mu.Lock()
		delete(s.checks.running, name)
		s.checks.mu.Unlock()
		close(c.done)
	})
	return c
}

func (s *Server) runCheck(name string, c *check) error {
	ctx, cancel := context.WithTimeout(s.ctx, checkLife)
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
