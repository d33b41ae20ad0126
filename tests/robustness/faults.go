package main

import (
	"context"
	"math/rand/v2"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// A fault is one way to break things while clients use lists.
type fault struct {
	name    string
	promise string // what the library promises under it
	kinds   []redistest.Kind
	config  []string         // of the servers
	network redistest.Faults // at all times
	strikes []strike         // applied one after another, chosen by the seed
	every   time.Duration    // between them, on average
	cancel  bool             // cancel contexts
	crash   bool             // crash masters: the end of the history may be undone
	waits   bool             // wait for replicas
	clocks  bool             // set the clocks of all processes differently
	apart   bool             // give each node of the cluster its own network
	damage  bool             // delete keys of lists, and mend the lists
	needs   func() error     // returns why the fault cannot be tried here; nil: it always can
}

// A strike breaks something once and repairs it before it returns.
type strike struct {
	name  string
	apply func(sc *scenario, random *rand.Rand)
}

var (
	single     = []redistest.Kind{redistest.Redis, redistest.Valkey}
	durable    = []string{"appendonly yes", "appendfsync always"}
	replicated = []redistest.Kind{redistest.Sentinel, redistest.ReplicatedCluster}
	isolable   = []redistest.Kind{redistest.ReplicatedCluster}
)

// ReadTimeouts of clients: short where requests and replies get lost, long elsewhere.
const (
	shortPatience = 250 * time.Millisecond
	longPatience  = 10 * time.Second
)

const (
	exactlyOnce = "nothing is lost, duplicated or out of order."
	clocksApart = "Clients' clocks differ by an hour, those of a master and its replica by 20 s: " + exactlyOnce + " After a crash of the master, as in crash."
	stays       = "The same with `WithReplicas(1)` and one replica: what was acknowledged without ErrNotReplicated stays."
)

var faults = []fault{
	{name: "none", promise: "Nothing is lost, duplicated or out of order; an order of the calls explains each history.", kinds: []redistest.Kind{redistest.Redis, redistest.Valkey, redistest.Cluster}},
	{name: "cut", promise: "Connections break before a request, after it, and within a reply: " + exactlyOnce,
		kinds:   []redistest.Kind{redistest.Redis, redistest.Cluster},
		network: redistest.Faults{CutReply: 0.03, CutInReply: 0.02, CutRequest: 0.03}},
	{name: "late", promise: "Requests arrive after the client has given them up and retried them: " + exactlyOnce,
		kinds:   []redistest.Kind{redistest.Redis, redistest.Cluster},
		network: redistest.Faults{LateRequest: 0.01, DropReply: 0.005, Delay: 2 * shortPatience}},
	{name: "partition", promise: "A client reaches no server for up to a second: " + exactlyOnce,
		kinds: []redistest.Kind{redistest.Redis, redistest.Cluster}, strikes: []strike{{"partition", isolate}}, every: 700 * time.Millisecond},
	{name: "cancel", promise: "A cancelled push is applied once or not at all. A cancelled pop loses nothing; its elements are put back at their end, so order is not promised.",
		kinds: []redistest.Kind{redistest.Redis, redistest.Cluster}, cancel: true},
	{name: "kill", promise: "A client process that is killed takes the elements that it was popping with it, and no others.",
		kinds: []redistest.Kind{redistest.Redis, redistest.Cluster}, strikes: []strike{{"kill a client", killClient}}, every: 300 * time.Millisecond},
	{name: "stall", promise: "A client process is stopped, for longer than its leases at times, and goes on: its jobs are done elsewhere by then, and what it makes of them does not count.",
		kinds: []redistest.Kind{redistest.Redis, redistest.Cluster}, strikes: []strike{{"stall a client", stallClient}}, every: 400 * time.Millisecond},
	{name: "restart", promise: "The server is killed and restarts with `appendfsync always`: " + exactlyOnce,
		kinds: single, config: durable, strikes: []strike{{"restart", restart}}, every: 800 * time.Millisecond},
	{name: "pause", promise: "The server stops for longer than clients wait for a reply: " + exactlyOnce,
		kinds: single, strikes: []strike{{"pause", pause}}, every: 500 * time.Millisecond},
	{name: "flush", promise: "`SCRIPT FLUSH`: callers notice nothing.",
		kinds: []redistest.Kind{redistest.Redis, redistest.Cluster}, strikes: []strike{{"SCRIPT FLUSH", flushScripts}}, every: 20 * time.Millisecond},
	{name: "functions", promise: "`FUNCTION FLUSH`, `FUNCTION DELETE` and `SCRIPT FLUSH` on all masters: " + exactlyOnce,
		kinds:   []redistest.Kind{redistest.Redis, redistest.Valkey, redistest.Cluster},
		strikes: []strike{{"FUNCTION FLUSH", flushFunctions}, {"FUNCTION DELETE", deleteLibrary}, {"SCRIPT FLUSH", flushScripts}}, every: 30 * time.Millisecond},
	{name: "disconnect", promise: "`CLIENT KILL`: " + exactlyOnce,
		kinds: single, strikes: []strike{{"CLIENT KILL", killConnections}}, every: 30 * time.Millisecond},
	{name: "memory", promise: "A server whose memory is full refuses pushes, with nothing changed, and serves pops.",
		kinds: single, strikes: []strike{{"full memory", fillMemory}}, every: 50 * time.Millisecond},
	{name: "slot", promise: "The list's slot moves to another node and back: " + exactlyOnce,
		kinds: []redistest.Kind{redistest.Cluster}, strikes: []strike{{"slot move", moveSlot}}, every: 50 * time.Millisecond},
	{name: "failover", promise: "A planned failover: " + exactlyOnce + " With Sentinel, reads may be stale for a moment.",
		kinds: replicated, strikes: []strike{{"failover", failOver}}, every: 500 * time.Millisecond},
	{name: "crash", promise: "A master crashes and its replica takes over: the last operations before the crash, without gaps, may be undone, as in Redis.",
		kinds: replicated, crash: true},
	{name: "replicas", promise: stays,
		kinds: replicated, crash: true, waits: true},
	{name: "clocks", promise: clocksApart, kinds: []redistest.Kind{redistest.Redis, redistest.Cluster}, clocks: true, needs: canSetClocks},
	{name: "clocks", promise: clocksApart, kinds: replicated, strikes: []strike{{"failover", failOver}}, every: 500 * time.Millisecond,
		crash: true, clocks: true, needs: canSetAllClocks},
	{name: "links", promise: "A cluster node is cut off from the others for less than the node timeout, with some, all or none of the clients: " + exactlyOnce,
		kinds: isolable, strikes: []strike{{"cut links", cutLinks}}, every: 500 * time.Millisecond, apart: true, needs: canIsolate},
	{name: "split", promise: "A master is cut off for longer, so that its replica takes over: the last operations of the old master, without gaps, may be undone, those of the clients on its side included, as in Redis.",
		kinds: isolable, crash: true, apart: true, needs: canIsolate},
	{name: "minority", promise: stays,
		kinds: isolable, crash: true, waits: true, apart: true, needs: canIsolate},
	{name: "damage", promise: "Somebody deletes metas, shards, elements of shards, and records. `Repair`, while others push and pop: every other element is there once, and in order.",
		kinds: []redistest.Kind{redistest.Redis, redistest.Valkey, redistest.Cluster}, damage: true},
	{name: "mixed", promise: "All that a single server can suffer, at once: nothing is lost but what killed clients were popping.",
		kinds: single, config: durable,
		network: redistest.Faults{CutReply: 0.01, CutInReply: 0.01, CutRequest: 0.01, LateRequest: 0.001, Delay: 2 * shortPatience},
		strikes: []strike{{"partition", isolate}, {"kill a client", killClient}, {"restart", restart}, {"pause", pause},
			{"SCRIPT FLUSH", flushScripts}, {"FUNCTION FLUSH", flushFunctions}, {"CLIENT KILL", killConnections}, {"full memory", fillMemory}},
		every: 300 * time.Millisecond},
}

// needsProxy reports whether clients connect through proxies.
func (f fault) needsProxy() bool {
	return f.network != redistest.Faults{} || f.hasStrike("partition")
}

// clients returns how clients call under the fault. The hook does not wait for replicas here. A lease is a time on the server's clock,
// so it ends early, or late, where a server takes over whose clock is ahead, or behind.
func (f fault) clients() []string {
	switch {
	case f.waits:
		return []string{methods, spreadLists, queueJobs}
	case f.hasStrike("stall a client"):
		return []string{queueJobs}
	case f.damage:
		return []string{methods}
	}
	return slices.DeleteFunc(slices.Clone(allClients), func(how string) bool {
		return f.crash && (how == moves || how == crowd || how == steps || f.clocks && how == queueJobs)
	})
}

func (f fault) hasStrike(name string) bool {
	return slices.ContainsFunc(f.strikes, func(s strike) bool { return s.name == name })
}

// readTimeout is the ReadTimeout of clients. Where no reply gets lost it is long, and so is the slice of blocked consumers, so that a
// lost wake-up shows.
func (f fault) readTimeout() time.Duration {
	if f.needsProxy() || f.apart || f.hasStrike("pause") || f.hasStrike("restart") || f.hasStrike("failover") || f.crash {
		return shortPatience
	}
	return longPatience
}

// promisesWakeUp reports whether a consumer is woken at once: no fault delays or loses its wake-up.
func (f fault) promisesWakeUp() bool {
	return f.readTimeout() == longPatience && !f.hasStrike("kill a client") && !f.hasStrike("CLIENT KILL") && !f.hasStrike("slot move")
}

func isolate(sc *scenario, random *rand.Rand) {
	proxy := sc.proxies[random.IntN(len(sc.proxies))]
	proxy.Set(redistest.Faults{DropRequest: 1, DropReply: 1})
	sc.sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
	proxy.Set(sc.fault.network)
}

// cutLinks cuts one node off, in most cases the one that has the lists.
func cutLinks(sc *scenario, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	node, err := sc.server.SlotOwner(ctx, sc.slot())
	sc.note(err)
	if random.IntN(4) == 0 {
		node = random.IntN(nodesOfCluster)
	}
	sc.note(sc.network.cut(sc.side(random, sc.server.Nodes()[node])))
	sc.sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
	sc.note(sc.network.heal())
}

// side returns the addresses of a node and of the clients that are cut off with it.
func (sc *scenario) side(random *rand.Rand, node *redistest.Server) []string {
	host, _, err := net.SplitHostPort(node.Addr())
	sc.note(err)
	side := []string{host}
	for i := range workers {
		if random.IntN(2) == 0 {
			side = append(side, sc.network.client(i))
		}
	}
	return side
}

func killClient(sc *scenario, random *rand.Rand) { sc.killWorker(random.IntN(workers)) }

// stallClient stops a worker for up to two leases.
func stallClient(sc *scenario, random *rand.Rand) {
	p := sc.processes[random.IntN(workers)]
	sc.note(p.cmd.Process.Signal(syscall.SIGSTOP))
	sc.sleep(time.Duration(random.Int64N(2 * int64(jobLease))))
	sc.note(p.cmd.Process.Signal(syscall.SIGCONT))
}

func restart(sc *scenario, random *rand.Rand) { sc.server.Restart(&sc.harness) }

func pause(sc *scenario, random *rand.Rand) {
	sc.server.Pause()
	sc.sleep(time.Duration(100+random.IntN(500)) * time.Millisecond)
	sc.server.Resume()
}

func flushScripts(sc *scenario, random *rand.Rand) {
	sc.note(sc.rdb.ScriptFlush(context.Background()).Err())
}

// flushFunctions flushes at once: a Valkey 8.0 that does it in the background crashes if functions are called meanwhile, whoever's they are.
func flushFunctions(sc *scenario, random *rand.Rand) {
	sc.onMasters(func(ctx context.Context, node *redis.Client) error {
		return node.Do(ctx, "FUNCTION", "FLUSH", "SYNC").Err()
	})
}

// deleteLibrary deletes the library where it is: a client has seen it a moment before.
func deleteLibrary(sc *scenario, random *rand.Rand) {
	sc.onMasters(func(ctx context.Context, node *redis.Client) error {
		libraries, err := node.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: "shardedlist_*"}).Result()
		for _, library := range libraries {
			err = node.FunctionDelete(ctx, library.Name).Err()
		}
		return err
	})
}

// onMasters does something on each master.
func (sc *scenario) onMasters(do func(context.Context, *redis.Client) error) {
	if cluster, ok := sc.rdb.(*redis.ClusterClient); ok {
		sc.note(cluster.ForEachMaster(context.Background(), do))
		return
	}
	sc.note(do(context.Background(), sc.rdb.(*redis.Client)))
}

func killConnections(sc *scenario, random *rand.Rand) {
	sc.note(sc.rdb.(*redis.Client).ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "yes").Err())
}

// fillMemory makes the server refuse what adds to its data, for a moment, or for longer than a lease of jobs now and then. Then calls are
// let alone for a while, so that most pushes are acknowledged.
func fillMemory(sc *scenario, random *rand.Rand) {
	full := time.Duration(random.IntN(50)) * time.Millisecond
	free := full
	if sc.clients == queueJobs && random.IntN(200) == 0 {
		full, free = jobLease*5/4, 4*jobLease
	}
	sc.note(sc.rdb.ConfigSet(context.Background(), "maxmemory", "1").Err())
	sc.sleep(full)
	sc.note(sc.rdb.ConfigSet(context.Background(), "maxmemory", "0").Err())
	sc.sleep(free)
}

func moveSlot(sc *scenario, random *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	slots := sc.slots()
	slot := slots[random.IntN(len(slots))]
	owner, err := sc.server.SlotOwner(ctx, slot)
	if err == nil {
		var step func(int)
		if random.IntN(2) == 0 {
			step = func(int) {}
		}
		err = sc.server.MoveSlot(ctx, slot, (owner+1+random.IntN(2))%3, step)
	}
	sc.note(err)
}

func failOver(sc *scenario, random *rand.Rand) { sc.server.Failover(&sc.harness, sc.slot()) }
