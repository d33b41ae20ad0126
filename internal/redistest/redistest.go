// Package redistest gives tests real servers to run against: Redis and Valkey,
// a Redis Cluster, a Redis watched by Sentinel, and a Redis embedded in the
// test process. They listen on free ports of the loopback interface.
//
// Most tests run on every kind. They share some of the servers, which start when
// the first test asks for them, so each run of a test keeps to key names of its
// own:
//
//	func TestPush(t *testing.T) {
//		redistest.Each(t, func(t *testing.T, server *redistest.Server) {
//			client := server.Client(t)
//			...
//		})
//	}
//
// A test that needs a server configured in its way, or that kills, pauses or
// restarts it, starts its own with [Start].
//
// A package whose tests use shared servers stops them with [Main].
//
// Servers that are not installed skip the tests that ask for them. With the
// variable SHARDEDLIST_REQUIRE_SERVERS set, those tests fail instead. With
// SHARDEDLIST_SKIP_EMBEDDED set, [Each] leaves out the embedded server, which
// under the race detector takes longer than all others together.
package redistest

import (
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// A Kind is a kind of server to test against.
type Kind string

const (
	// Embedded is miniredis, which runs within the test process and is always
	// available.
	Embedded Kind = "embedded"

	// Redis is a redis-server.
	Redis Kind = "redis"

	// Cluster is a Redis Cluster of three masters that share the slots evenly.
	// It takes Redis 7 or later.
	Cluster Kind = "cluster"

	// ReplicatedCluster is a Cluster with a replica of each master.
	ReplicatedCluster Kind = "replicated cluster"

	// Valkey is a valkey-server.
	Valkey Kind = "valkey"

	// Sentinel is a Redis master and its replica, watched by one sentinel that
	// decides alone when to fail over. It takes Redis 7 or later.
	Sentinel Kind = "sentinel"
)

// Each runs test as one parallel subtest for each of Embedded, Redis, Cluster
// and Valkey. A Cluster, which takes seconds to start, is the one that the whole
// process shares. The others start at once, so are the subtest's own: tests that
// share a server wait for each other, and what looks at all its keys takes longer
// with all that others keep there.
func Each(t *testing.T, test func(t *testing.T, server *Server)) {
	t.Helper()
	for _, kind := range []Kind{Embedded, Redis, Cluster, Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			if kind == Embedded && os.Getenv(skipEmbedded) != "" {
				t.Skipf("redistest: %s is set", skipEmbedded)
			}
			if kind == Cluster {
				test(t, Shared(t, kind))
				return
			}
			server := Start(t, kind)
			if kind == Embedded {
				server.runClock()
			}
			test(t, server)
		})
	}
}

// Shared returns the server of the kind which the whole process shares. A test
// must neither kill nor pause nor restart it, nor FastForward its clock.
func Shared(t testing.TB, kind Kind) *Server {
	t.Helper()
	s := shared[kind]
	s.once.Do(func() {
		s.server, s.err = open(kind, nil, nil)
		if s.err == nil && kind == Embedded {
			s.server.runClock()
		}
	})
	check(t, kind, s.err)
	return s.server
}

// Start starts a server for one test, which stops when the test ends. The
// config is added to that of each of its Redis or Valkey processes, sentinels
// excepted, one directive of redis.conf per argument: "appendonly yes".
func Start(t testing.TB, kind Kind, config ...string) *Server {
	t.Helper()
	return StartAt(t, kind, nil, config...)
}

// StartAt is Start with placements for the first processes, in the order of
// [Server.Nodes].
func StartAt(t testing.TB, kind Kind, placements []Placement, config ...string) *Server {
	t.Helper()
	s, err := open(kind, placements, config)
	check(t, kind, err)
	t.Cleanup(s.close)
	return s
}

// Main returns m with a Run that also stops the shared servers and removes
// their files, for use in a TestMain, alone or under goleak:
//
//	func TestMain(m *testing.M) {
//		goleak.VerifyTestMain(redistest.Main(m))
//	}
//
// After Run the package has no goroutines left. Where Run doesn't get to the
// end because the process panics, times out or is killed, Linux kills the
// servers along with it; only their files stay, in the directory for temporary
// ones.
func Main(m *testing.M) interface{ Run() int } {
	return runner{m}
}

type runner struct{ *testing.M }

// parallel is how many tests run at once, unless told otherwise: they wait for
// servers more than they compute.
const parallel = 6

func (r runner) Run() int {
	defer closeShared()
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", strconv.Itoa(parallel))
	}
	return r.M.Run()
}

// shared holds the servers that Shared has started, or why it could not.
var shared = map[Kind]*struct {
	once   sync.Once
	server *Server
	err    error
}{Embedded: {}, Redis: {}, Cluster: {}, ReplicatedCluster: {}, Valkey: {}, Sentinel: {}}

func closeShared() {
	for _, s := range shared {
		if s.server != nil {
			s.server.close()
		}
	}
}

// requireServers is the variable with which a missing server fails a test.
const requireServers = "SHARDEDLIST_REQUIRE_SERVERS"

// skipEmbedded is the variable with which Each tests on real servers only.
const skipEmbedded = "SHARDEDLIST_SKIP_EMBEDDED"

// check ends the test if err tells that it has no server.
func check(t testing.TB, kind Kind, err error) {
	t.Helper()
	var missing notInstalledError
	switch {
	case err == nil:
	case errors.As(err, &missing) && os.Getenv(requireServers) == "":
		t.Skipf("redistest: %s: %v", kind, err)
	default:
		t.Fatalf("redistest: %s: %v", kind, err)
	}
}

// patience is how long a server may take to get ready. It is far longer than
// any takes on a busy machine: it is there to fail a test that would hang.
const patience = time.Minute

// poll calls check until it returns nil. It gives up, and returns the error of
// the last check, when ctx ends or hopeless is closed.
func poll(ctx context.Context, hopeless <-chan struct{}, check func() error) error {
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-hopeless:
			return err
		case <-ctx.Done():
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
}
