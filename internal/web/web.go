// Package web serves a page that shows the lists of a server, from the binary alone.
//
// Viewers are many and the server is one. So nothing that a viewer does reaches the server by itself: one survey, paced to a small share of
// a core, finds the lists for all viewers (feed.go); those who look at a list share one look at it each second (watch.go); elements are
// read one by one up to a limit of bytes (elements.go). Who nobody looks at costs nothing.
//
// What comes from the server is hostile: names and elements are anything that somebody pushed. Elements travel as base64 and names escaped,
// and the page puts them into text nodes only. guard.go decides whose requests are answered.
package web

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Config configures the page.
type Config struct {
	// Client is the server that the page shows. The page adds no hook to it, and does not close it.
	Client redis.UniversalClient
	// Address is the server's address, as the page shows it.
	Address string
	// Password is asked for, with any user, unless it is empty.
	Password string
	// Hosts are the names under which the page may be asked for, beside localhost and any IP address.
	Hosts []string
	// AllowChanges lets viewers delete, adopt, restore, trim and push.
	AllowChanges bool
}

// Server is the page. It is an http.Handler. The caller closes it.
type Server struct {
	Config
	http.Handler

	token   string // that requests for changes must have
	feed    *feed
	watches watches
	checks  checks
	reads   chan struct{} // has room for the reads of elements that run at once

	ctx  context.Context // ends when the server is closed
	stop context.CancelFunc
	work sync.WaitGroup // what runs in the background
}

// maxReads is how many viewers' reads of elements the page sends at once.
const maxReads = 4

// New returns the page. It sends nothing before somebody looks.
func New(c Config) *Server {
	s := &Server{
		Config: c, token: rand.Text(), feed: newFeed(c.Client), reads: make(chan struct{}, maxReads),
		checks: checks{running: map[string]*check{}, turn: make(chan struct{}, 1)},
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.work.Go(func() { s.feed.run(s.ctx) })

	mux := http.NewServeMux()
	mux.Handle("GET /", staticFiles())
	mux.HandleFunc("GET /api/lists", s.lists)
	mux.HandleFunc("GET /api/list", s.list)
	mux.HandleFunc("GET /api/elements", s.elements)
	mux.HandleFunc("GET /api/jobs", s.jobs)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.Handle("POST /api/check", s.withToken(s.check))
	for name, do := range changes {
		mux.Handle("POST /api/"+name, s.withToken(func(w http.ResponseWriter, r *http.Request) { s.change(w, r, do) }))
	}
	s.Handler = s.guard(mux)
	return s
}

// Close ends what runs in the background, and waits for it.
func (s *Server) Close() {
	s.stop()
	s.work.Wait()
}

const (
	requestLife = 10 * time.Second // a request that reads may take
	writeLife   = 30 * time.Second // a viewer may take to receive a reply
)

// limitWrite ends the connection of a viewer who does not receive what is written from now on.
func limitWrite(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeLife))
}

// failure is an error that a viewer is told.
type failure struct {
	status int
	error
}

func fail(status int, text string) error { return failure{status, errors.New(text)} }

// reply sends a value as JSON, or the error.
func reply(w http.ResponseWriter, value any, err error) {
	status := http.StatusOK
	if err != nil {
		status = http.StatusBadGateway // the server behind the page failed
		if f, ok := errors.AsType[failure](err); ok {
			status = f.status
		}
		value = map[string]string{"error": Display(err.Error())}
	}
	body, err := json.Marshal(value)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":"cannot encode the reply"}`)
	}
	limitWrite(w)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
