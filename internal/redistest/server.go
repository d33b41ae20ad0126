package redistest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A Server is a running server of some Kind. A Cluster or Sentinel is one Server
// too, and its [Server.Nodes] are Servers in turn.
//
// Only one goroutine at a time may call the methods that stop and start a Server.
type Server struct {
	kind       Kind
	program    binary // of its processes
	addrs      []string
	placements []Placement // of the first processes

	embedded  *miniredis.Miniredis // of Embedded only
	release   func()               // frees its port
	stopClock func()               // of an embedded server whose clock runs
	processes []*process           // of all others

	settings string // of a server that tests are lent, when it started

	// awaitHealthy waits until the processes of a Cluster or Sentinel work
	// together. Nodes have that of their Server.
	awaitHealthy func(context.Context) error

	moving sync.Mutex   // held while a slot of a Cluster moves
	moved  map[int]bool // slots that have moved; guarded by moving
}

// Version returns the product and version of the server, such as "Redis 7.0.15".
func (s *Server) Version() string {
	if s.embedded != nil {
		return "miniredis"
	}
	return s.program.String()
}

// Kind returns the server's kind, which is Redis for a node of a Cluster or
// Sentinel.
func (s *Server) Kind() Kind { return s.kind }

// Addr returns the first of the server's Addrs.
func (s *Server) Addr() string { return s.addrs[0] }

// Addrs returns the host:port that clients connect to: those of all nodes of a
// Cluster, and that of the sentinel, not of master and replica, of a Sentinel.
func (s *Server) Addrs() []string { return s.addrs }

// URL returns the server's address as go-redis parses it: with ParseClusterURL
// for a Cluster, ParseFailoverURL for a Sentinel, and ParseURL for the others.
func (s *Server) URL() string {
	query := url.Values{}
	switch s.kind {
	case Cluster, ReplicatedCluster:
		query["addr"] = s.addrs[1:]
	case Sentinel:
		query.Set("master_name", masterName)
	}
	u := url.URL{Scheme: "redis", Host: s.Addr(), RawQuery: query.Encode()}
	return u.String()
}

// Client returns a new client of the server: a *redis.ClusterClient for a
// Cluster, else a *redis.Client, which follows failovers for a Sentinel. The
// options change its configuration. It closes when the test ends.
func (s *Server) Client(t testing.TB, options ...func(*redis.UniversalOptions)) redis.UniversalClient {
	t.Helper()
	o := &redis.UniversalOptions{Addrs: s.addrs, Protocol: protocol()}
	switch s.kind {
	case Cluster, ReplicatedCluster:
		o.IsClusterMode = true
	case Sentinel:
		o.MasterName = masterName
	}
	for _, option := range options {
		option(o)
	}
	client := redis.NewUniversalClient(o)
	t.Cleanup(func() { _ = client.Close() })
	if mode := os.Getenv(LeftoversVariable); mode != "" {
		client.AddHook(leftovers(mode))
	}
	return client
}

// Nodes returns a Server for each process. A Cluster has its masters in the order
// of their initial slots, then the replicas; a Sentinel has the first master, its
// replica and the sentinel. Other servers are their own only node.
func (s *Server) Nodes() []*Server {
	if len(s.processes) < 2 {
		return []*Server{s}
	}
	nodes := make([]*Server, len(s.processes))
	for i, p := range s.processes {
		nodes[i] = s.node(p)
	}
	return nodes
}

func (s *Server) node(p *process) *Server {
	return &Server{
		kind:         Redis,
		program:      s.program,
		addrs:        []string{p.addr},
		processes:    []*process{p},
		awaitHealthy: s.awaitHealthy,
	}
}

// Kill ends the server as a crash would, with SIGKILL. The server has ended when
// Kill returns.
func (s *Server) Kill() {
	if s.embedded != nil {
		s.embedded.Close()
	}
	for _, p := range s.processes {
		p.kill()
	}
}

// Pause stops the server with SIGSTOP: clients can connect, but get no replies.
// It panics where the signal does not exist, and for Embedded.
func (s *Server) Pause() {
	if s.embedded != nil {
		panic("redistest: an embedded server cannot be paused")
	}
	for _, p := range s.processes {
		p.pause()
	}
}

// Resume continues a paused server.
func (s *Server) Resume() {
	for _, p := range s.processes {
		p.resume()
	}
}

// Restart kills the server if it runs and starts it again at the same address,
// with the data that it has on disk: none by default. It returns when the server
// has loaded the data and answers. Once all nodes of a Cluster or Sentinel are up,
// it also waits until they work together.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		t.Fatalf("redistest: restarting %s: %v", s.kind, err)
	}
}

// FastForward lets d pass for the server's keys. It advances the clock of an
// embedded server, and sleeps for the others.
func (s *Server) FastForward(d time.Duration) {
	if s.embedded == nil {
		time.Sleep(d)
		return
	}
	s.embedded.FastForward(d)
}

// runClock runs the clock of the embedded server until the server closes, so that
// keys of earlier tests expire.
func (s *Server) runClock() {
	stop, stopped := make(chan struct{}), make(chan struct{})
	s.stopClock = func() {
		close(stop)
		<-stopped
	}
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.FastForward(time.Second)
			case <-stop:
				return
			}
		}
	}()
}

// Miniredis returns the embedded server, a new one after each Restart. It returns
// nil for other kinds.
func (s *Server) Miniredis() *miniredis.Miniredis { return s.embedded }

// open starts a server that the caller closes.
func open(kind Kind, placements []Placement, config []string) (s *Server, err error) {
	s = &Server{kind: kind, placements: placements, moved: map[int]bool{}}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	if kind != Embedded {
		if s.program, err = binaryOf(kind); err != nil {
			return s, err
		}
	}
	switch kind {
	case Embedded:
		err = s.openEmbedded(config)
	case Redis, Valkey:
		err = s.run(ctx, nil, config)
	case Cluster:
		err = s.openCluster(ctx, 0, config)
	case ReplicatedCluster:
		err = s.openCluster(ctx, clusterMasters, config)
	case Sentinel:
		err = s.openSentinel(ctx, config)
	default:
		err = errors.New("no such kind of server")
	}
	return s, err
}

func (s *Server) openEmbedded(config []string) error {
	if len(config) > 0 {
		return fmt.Errorf("it has no configuration, but is given %q", config)
	}
	s.embedded = miniredis.NewMiniRedis()
	var err error
	s.release, err = withPort(func(port int) error {
		s.addrs = []string{loopback(port)}
		return s.embedded.StartAddr(s.Addr())
	})
	return err
}

// run adds a process to the server.
func (s *Server) run(ctx context.Context, args, config []string) error {
	p, err := startProcess(ctx, s.nextPlacement(), s.program, args, config)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	s.addrs = append(s.addrs, p.addr)
	return nil
}

// nextPlacement returns the placement of the next process.
func (s *Server) nextPlacement() Placement {
	if i := len(s.processes); i < len(s.placements) {
		return s.placements[i]
	}
	return Placement{}
}

// start starts a killed server again.
func (s *Server) start() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()

	if s.embedded != nil {
		s.embedded = miniredis.NewMiniRedis()
		return s.embedded.StartAddr(s.Addr())
	}
	for _, p := range s.processes {
		if err := p.start(ctx); err != nil {
			return err
		}
	}
	if s.awaitHealthy == nil {
		return nil
	}
	return s.awaitHealthy(ctx)
}

func (s *Server) allRunning() bool {
	for _, p := range s.processes {
		if !p.running() {
			return false
		}
	}
	return true
}

func (s *Server) close() {
	if s.stopClock != nil {
		s.stopClock()
	}
	if s.embedded != nil {
		s.embedded.Close()
	}
	if s.release != nil {
		s.release()
	}
	for _, p := range s.processes {
		p.close()
	}
}

// allSettings returns what tests can change of a server beside its data.
func (s *Server) allSettings() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := s.processes[0].client
	config, err := client.ConfigGet(ctx, "*").Result()
	if err != nil {
		return "", err
	}
	users, err := client.Do(ctx, "ACL", "LIST").StringSlice()
	return fmt.Sprint(config, users), err
}

// clear makes the server as good as new for the next test. It is an error if that
// cannot be.
func (s *Server) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	client := s.processes[0].client
	for _, command := range [][]any{{"FLUSHALL"}, {"SCRIPT", "FLUSH"}, {"FUNCTION", "FLUSH", "SYNC"}, {"CONFIG", "RESETSTAT"}} {
		if err := client.Do(ctx, command...).Err(); err != nil {
			return err
		}
	}
	settings, err := s.allSettings()
	if err == nil && settings != s.settings {
		err = errors.New("the test has changed the settings of the server")
	}
	return err
}
