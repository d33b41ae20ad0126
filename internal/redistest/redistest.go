// Package redistest gives tests real servers to run against: Redis and Valkey,
// a Redis Cluster, a Redis watched by Sentinel, and a Redis embedded in the
// test process. They listen on free ports of the loopback interface.
//
// Most tests run on every kind. They share servers, which start when the first
// test asks for them, so each test uses its own key names:
//
//	func TestPush(t *testing.T) {
//		redistest.Each(t, func(t *testing.T, server *redistest.Server) {
//			client := server.Client(t)
//			...
//		})
//	}
//
// A test that configures, kills, pauses or restarts a server starts its own with
// [Start].
//
// A package whose tests use shared servers stops them with [Main].
//
// Tests are skipped if their server is not installed. If the environment variable
// SHARDEDLIST_REQUIRE_SERVERS is set, they fail instead.
//
// The flag -long chooses the long form of the tests, see [Long].
//
// Other variables choose the version of a server, by the path of its program:
// SHARDEDLIST_REDIS_SERVER that of Redis, SHARDEDLIST_VALKEY_SERVER that of
// Valkey, and SHARDEDLIST_CLUSTER_SERVER that of Cluster, ReplicatedCluster and
// Sentinel, which otherwise are of the same version as Redis. A cluster and a
// Sentinel can be of Valkey. With SHARDEDLIST_FUNCTIONS=no the servers know no
// functions, and the library sends scripts. SHARDEDLIST_PROTOCOL chooses the protocol of the
// clients, 2 or 3. Each test logs what it runs on. SHARDEDLIST_FAULTS makes the
// tests that use a [Proxy] fail, to show that they can.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"os"
	"runtime"
	"slices"
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
	Cluster Kind = "cluster"

	// ReplicatedCluster is a Cluster with a replica of each master.
	ReplicatedCluster Kind = "replicated cluster"

	// Valkey is a valkey-server.
	Valkey Kind = "valkey"

	// Sentinel is a Redis master and its replica, monitored by one sentinel, which
	// is its own quorum.
	Sentinel Kind = "sentinel"
)

// Each runs test as one parallel subtest for each of Embedded, Redis, Cluster
// and Valkey, or in the short form for Redis, if that is installed.
// All tests of the process share the Cluster, which takes seconds to
// start. A test has any other server for itself: it gets one that earlier tests
// have left as it was, empty again.
func Each(t *testing.T, test func(t *testing.T, server *Server)) {
	t.Helper()
	each(t, false, test)
}

// EachAndCluster is Each for what is about clusters: it runs on Cluster in the
// short form, too.
func EachAndCluster(t *testing.T, test func(t *testing.T, server *Server)) {
	t.Helper()
	each(t, true, test)
}

func each(t *testing.T, clusters bool, test func(t *testing.T, server *Server)) {
	t.Helper()
	for _, kind := range []Kind{Embedded, Redis, Cluster, Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			switch {
			case !Long() && standIn(kind):
				t.Skip("redistest: it runs where Redis is not installed, and with -long")
			case !Long() && kind == Cluster && !clusters:
				t.Skip("redistest: it runs with -long")
			case kind == Embedded:
				server := Start(t, kind)
				server.runClock()
				test(t, server)
			case kind == Cluster:
				test(t, Shared(t, kind))
			default:
				test(t, lend(t, kind))
			}
		})
	}
}

// lend returns a server of one process that no other test has until this one ends.
func lend(t *testing.T, kind Kind) *Server {
	t.Helper()
	s, err := lent.take(kind)
	check(t, kind, err)
	t.Cleanup(func() {
		if t.Failed() || s.clear() != nil {
			s.close()
			return
		}
		lent.giveBack(s)
	})
	s.log(t)
	return s
}

// pool has the servers that no test has at present.
type pool struct {
	mu   sync.Mutex
	idle map[Kind][]*Server
}

var lent = pool{idle: map[Kind][]*Server{}}

func (p *pool) take(kind Kind) (*Server, error) {
	p.mu.Lock()
	if idle := p.idle[kind]; len(idle) > 0 {
		s := idle[len(idle)-1]
		p.idle[kind] = idle[:len(idle)-1]
		p.mu.Unlock()
		return s, nil
	}
	p.mu.Unlock()
	s, err := open(kind, nil, nil)
	if err == nil {
		s.settings, err = s.allSettings()
	}
	return s, err
}

func (p *pool) giveBack(s *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle[s.kind] = append(p.idle[s.kind], s)
}

// Shared returns the server of the kind that the whole process shares. A test
// must not kill, pause or restart it, and must not FastForward its clock.
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
	s.server.log(t)
	return s.server
}

// Fastest returns the shared Redis, or where that is not installed the shared
// Embedded, for what runs very often.
func Fastest(t testing.TB) *Server {
	t.Helper()
	if _, err := binaryOf(Redis); err != nil {
		return Shared(t, Embedded)
	}
	return Shared(t, Redis)
}

// Start starts a server for one test. It stops when the test ends. Each config
// argument is a directive of redis.conf, such as "appendonly yes", for each Redis
// or Valkey process except sentinels.
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
	s.log(t)
	return s
}

// Main returns m with a Run that also stops the shared servers and removes
// their files, for use in a TestMain, alone or under goleak:
//
//	func TestMain(m *testing.M) {
//		goleak.VerifyTestMain(redistest.Main(m))
//	}
//
// After Run the package has no goroutines left. If the process panics, times out
// or is killed, Linux kills the servers too; only their files stay, in the
// directory for temporary files.
func Main(m *testing.M) interface{ Run() int } {
	return runner{m}
}

type runner struct{ *testing.M }

// How many tests run at once by default, in the short form and in the long one:
// they wait for servers more than they compute.
const parallel, parallelLong = 20, 12

func (r runner) Run() int {
	defer closeShared()
	flag.Parse()
	fuzzing := flag.Lookup("test.fuzz").Value.String() != "" // whose workers compute
	if !fuzzing && flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", strconv.Itoa(Times(parallel, parallelLong)))
	}
	return r.M.Run()
}

var long = flag.Bool("long", false, "run the long form of the tests: all combinations, and more operations and random sequences")

// Long reports whether the tests run in their long form. The short one takes a
// few of many combinations, and no more operations than find the known faults.
func Long() bool { return *long }

// LongOnly skips a test in the short form: one that takes seconds to try what
// others try less thoroughly. It does not skip those that [FaultsVariable] is set
// for.
func LongOnly(t testing.TB) {
	t.Helper()
	if !Long() && os.Getenv(FaultsVariable) == "" {
		t.Skip("redistest: it runs with -long")
	}
}

// Times returns how often a test does something: in the short form, or in the long
// one.
func Times(short, long int) int {
	if Long() {
		return long
	}
	return short
}

// Kinds returns those of the kinds that the form of the tests takes, as [Each] does.
func Kinds(kinds ...Kind) []Kind {
	return slices.DeleteFunc(slices.Clone(kinds), func(kind Kind) bool { return !Long() && standIn(kind) })
}

// standIn reports whether the kind is needed only where Redis is not installed.
func standIn(kind Kind) bool {
	_, err := binaryOf(Redis)
	return err == nil && (kind == Embedded || kind == Valkey)
}

// shared holds the servers that Shared has started, or the errors.
var shared = map[Kind]*struct {
	once   sync.Once
	server *Server
	err    error
}{Embedded: {}, Redis: {}, Cluster: {}, ReplicatedCluster: {}, Valkey: {}, Sentinel: {}}

func closeShared() {
	for _, servers := range lent.idle {
		for _, s := range servers {
			s.close()
		}
	}
	for _, s := range shared {
		if s.server != nil {
			s.server.close()
		}
	}
}

// requireServers is the variable that makes a missing server fail a test.
const requireServers = "SHARDEDLIST_REQUIRE_SERVERS"

// protocolVersion is the variable that chooses the protocol of the clients.
const protocolVersion = "SHARDEDLIST_PROTOCOL"

// protocol returns the protocol of the clients, or 0 for that of go-redis.
func protocol() int {
	version, _ := strconv.Atoi(os.Getenv(protocolVersion))
	return version
}

// log tells what the test runs on.
func (s *Server) log(t testing.TB) {
	t.Helper()
	t.Logf("redistest: %s: %s, RESP%d", s.kind, s.Version(), cmp.Or(protocol(), 3))
}

// check skips or fails the test if err is not nil.
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
// any server takes on a busy machine; it fails a test that would hang.
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
