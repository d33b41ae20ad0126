package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/inside"
	"github.com/shardedlist/shardedlist/internal/ledger"
)

// workerEnv makes this program a worker: a process that takes orders from its standard input and reports each call on its standard
// output, one line per write, so that a killed worker leaves whole lines.
const workerEnv = "ROBUSTNESS_WORKER"

// An order is a line of a worker's input. The first line has a Client.
type order struct {
	Client *clientSpec `json:"client,omitempty"`
	Round  *roundSpec  `json:"round,omitempty"`
	Queue  *queueSpec  `json:"queue,omitempty"`
	Jobs   *jobsSpec   `json:"jobs,omitempty"`
	Stop   bool        `json:"stop,omitempty"`  // the producers of the queue, which ends when the list is empty, or the load of jobs
	Drain  bool        `json:"drain,omitempty"` // what is left of the jobs
	Close  bool        `json:"close,omitempty"` // the queues of jobs
}

// A clientSpec says how to connect.
type clientSpec struct {
	Addrs       []string          `json:"addrs"`
	Cluster     bool              `json:"cluster"`
	Master      string            `json:"master"`  // as the sentinels name it
	Through     map[string]string `json:"through"` // by server address: the address of its proxy
	From        string            `json:"from"`    // the local address to connect from; "" for any
	ReadTimeout time.Duration     `json:"readTimeout"`
	Replicas    int               `json:"replicas"` // how many to wait for
	Variant     string            `json:"variant"`
	NoRetries   bool              `json:"noRetries"` // go-redis repeats nothing by itself
	Pipelines   int               `json:"pipelines"` // connections for pipelines, of which all but two may block
}

// A roundSpec is a short history of many clients on a new list.
type roundSpec struct {
	Number   int    `json:"number"`
	List     string `json:"list"`
	Capacity int    `json:"capacity"`
	Seed     uint64 `json:"seed"`
	First    int    `json:"first"`   // number of the worker's first client
	Clients  int    `json:"clients"` // how many the worker runs
	Everyone int    `json:"everyone"`
	Calls    int    `json:"calls"` // of each client
	Shared   bool   `json:"shared"`
	Edits    bool   `json:"edits"`
	Cancel   string `json:"cancel"` // "": nothing, "waits", "all" but edits, "changes": pushes and edits
	How      string `json:"how"`    // the clients call: methods, rollout or spreadLists
	Parts    int    `json:"parts"`  // of a spread list
}

// A report is a line of a worker's output in a round. Each call is reported twice, at its start and at its end.
type report struct {
	Round  int            `json:"round"`
	Record history.Record `json:"record"`
	Done   bool           `json:"done,omitempty"`

	Unexpected string `json:"unexpected,omitempty"` // an error of Adopt or Restore that no fault explains
}

// deque is the list under test: a *ShardedList, or a broken one that shows what the checks can find.
type deque interface {
	LPush(ctx context.Context, values ...any) (int64, error)
	RPush(ctx context.Context, values ...any) (int64, error)
	LPop(ctx context.Context) (string, error)
	RPop(ctx context.Context) (string, error)
	LPopCount(ctx context.Context, count int) ([]string, error)
	RPopCount(ctx context.Context, count int) ([]string, error)
	BLPop(ctx context.Context, timeout time.Duration) (string, error)
	BRPop(ctx context.Context, timeout time.Duration) (string, error)
	LLen(ctx context.Context) (int64, error)
	LIndex(ctx context.Context, index int64) (string, error)
}

// variants are the lists that a worker can use.
var variants = map[string]func(rdb redis.UniversalClient, name string, options ...shardedlist.Option) (deque, error){
	"": func(rdb redis.UniversalClient, name string, options ...shardedlist.Option) (deque, error) {
		return shardedlist.New(rdb, name, options...)
	},
}

type worker struct {
	spec  clientSpec
	rdb   redis.UniversalClient
	mu    sync.Mutex // guards stdout
	tasks sync.WaitGroup

	stop, drain, closed chan struct{} // closed by orders

	lists atomic.Int64 // that were opened

	clientsMu sync.Mutex
	byHook    map[int]redis.UniversalClient // clients with the hook, by capacity
	plain     redis.UniversalClient         // one without
}

// work is the main function of a worker.
func work() error {
	w := &worker{stop: make(chan struct{}), drain: make(chan struct{}), closed: make(chan struct{})}
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	for input.Scan() {
		var o order
		if err := json.Unmarshal(input.Bytes(), &o); err != nil {
			return err
		}
		switch {
		case o.Client != nil:
			w.spec = *o.Client
			w.rdb = w.spec.open()
			w.say(fmt.Appendf(nil, "time %d", time.Now().UnixNano()))
		case o.Round != nil:
			w.tasks.Go(func() { w.round(*o.Round) })
		case o.Queue != nil:
			w.tasks.Go(func() { w.queue(*o.Queue) })
		case o.Jobs != nil:
			w.tasks.Go(func() { w.jobs(*o.Jobs) })
		case o.Stop:
			close(w.stop)
		case o.Drain:
			close(w.drain)
		case o.Close:
			close(w.closed)
		}
	}
	w.tasks.Wait()
	return input.Err()
}

// quiet discards the log of go-redis, which has a line for each failed connection.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func init() { redis.SetLogger(quiet{}) }

func (s clientSpec) open() redis.UniversalClient {
	retries := 0 // go-redis's default
	if s.NoRetries {
		retries = -1
	}
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addrs, IsClusterMode: s.Cluster, MasterName: s.Master, ReadTimeout: s.ReadTimeout, MaxRetries: retries,
		PipelinePoolSize: s.Pipelines,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if through, ok := s.Through[addr]; ok {
				addr = through
			}
			dialer := net.Dialer{Timeout: 2 * time.Second}
			if s.From != "" {
				dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(s.From)}
			}
			return dialer.DialContext(ctx, network, addr)
		},
	})
}

// list opens a list. Every other time it sets another capacity: the list has that of the client whose push makes it outgrow its key.
func (w *worker) list(name string, capacity int, options ...shardedlist.Option) deque {
	options = append(options, shardedlist.WithCapacity(capacity+int(w.lists.Add(1)%2)))
	if w.spec.Replicas > 0 {
		options = append(options, shardedlist.WithReplicas(w.spec.Replicas, 50*time.Millisecond))
	}
	open, ok := variants[w.spec.Variant]
	if !ok { // it is one of the hook
		open = variants[""]
	}
	list, err := open(w.rdb, name, options...)
	if err != nil {
		panic(err)
	}
	return list
}

// say writes a line in one write.
func (w *worker) say(line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = os.Stdout.Write(append(line, '\n'))
}

func (w *worker) report(r report) {
	line, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	w.say(line)
}

// round runs the worker's part of a round.
func (w *worker) round(spec roundSpec) {
	var clients, others sync.WaitGroup
	ended := make(chan struct{})
	if spec.How == rollout && spec.First == 0 {
		others.Go(func() { w.turn(spec, ended) })
	}
	var list deque
	for i := range spec.Clients {
		client := spec.First + i
		if list == nil || !spec.Shared || spec.How == rollout {
			list = w.openFor(spec, client)
		}
		list := list
		clients.Go(func() {
			random := rand.New(rand.NewPCG(spec.Seed, uint64(client)))
			for index := range spec.Calls {
				if spec.isOld(client) {
					time.Sleep(time.Duration(random.IntN(3000)) * time.Microsecond)
				}
				r := history.Record{Client: client, Index: index, Call: spec.choose(random, client, index)}
				r.Start = now()
				w.report(report{Round: spec.Number, Record: r})
				r.Outcome = perform(list, r.Call)
				r.Outcome.Inexact = strings.HasSuffix(r.Call.Name, "push") && (spec.How == spreadLists || spec.isOld(client))
				r.End = now()
				w.report(report{Round: spec.Number, Record: r})
			}
		})
	}
	clients.Wait()
	close(ended)
	others.Wait()
	w.report(report{Round: spec.Number, Done: true})
}

// openFor opens the list of a round for a client.
func (w *worker) openFor(spec roundSpec, client int) deque {
	switch {
	case spec.How == spreadLists:
		return w.list(spec.List, spec.Capacity, shardedlist.WithParts(spec.Parts))
	case spec.How == steps:
		list := w.list(spec.List, spec.Capacity).(*shardedlist.ShardedList)
		inside.Layout(list).(*detect.List).SearchStep = 60 // of which a shard costs 25 besides its elements
		return list
	case spec.How == methods, !spec.isOld(client) && client%2 == 0:
		return w.list(spec.List, spec.Capacity)
	}
	w.clientsMu.Lock()
	defer w.clientsMu.Unlock()
	if spec.isOld(client) {
		if w.plain == nil {
			w.plain = w.spec.open()
		}
		return oldCommands{commands{w.plain, spec.List}}
	}
	if w.byHook[spec.Capacity] == nil {
		if w.byHook == nil {
			w.byHook = map[int]redis.UniversalClient{}
		}
		w.byHook[spec.Capacity] = w.hooked(queueSpec{Capacity: spec.Capacity}).rdb
	}
	return commands{w.byHook[spec.Capacity], spec.List}
}

// isOld tells which clients of a rollout do not have the library.
func (s roundSpec) isOld(client int) bool { return s.How == rollout && client%3 == 2 }

// choose draws a client's next call.
func (s roundSpec) choose(random *rand.Rand, client, index int) history.Call {
	end := []string{"l", "r"}[random.IntN(2)]
	fresh := func(n int) (values []string) {
		for i := range n {
			values = append(values, fmt.Sprintf("%d.%d.%d", client, index, i))
		}
		return values
	}
	some := fmt.Sprintf("%d.%d.0", random.IntN(s.Everyone), random.IntN(s.Calls))
	cancel := func(ways ...string) int64 {
		if !slices.Contains(ways, s.Cancel) || random.IntN(2) == 0 {
			return 0
		}
		return instant(random)
	}
	pushed, popped, many := end, end, s.How != spreadLists
	if s.How == rollout {
		pushed, popped = "r", "l" // or the order of what old processes push would not be that of one list
	}
	roll := random.IntN(100)
	switch {
	case s.isOld(client):
		return history.Call{Name: "rpush", Values: fresh(1 + random.IntN(2))}
	case s.How == rollout: // old clients push most of the elements: if the list became long, its order would show too late for porcupine
		roll = 25 + random.IntN(65)
	case s.How == spreadLists:
		roll = random.IntN(78) // the others may see a moment of each of several shards
	case s.How == steps && roll >= 50:
		roll = 88 + random.IntN(12)
	case !s.Edits && roll >= 90:
		roll = random.IntN(90)
	}
	switch {
	case roll < 35:
		n := 1
		if many && random.IntN(3) == 0 {
			n = 1 + random.IntN(4)
		}
		return history.Call{Name: pushed + "push", Values: fresh(n), Cancel: cancel("all", "changes")}
	case roll < 53:
		n := 1
		if many && random.IntN(3) == 0 {
			n = 1 + random.IntN(5)
		}
		return history.Call{Name: popped + "pop", Count: n, Cancel: cancel("all")}
	case roll < 78:
		return history.Call{Name: "b" + popped + "pop", Count: 1, Timeout: 1000 * (1 + random.Int64N(15)), Cancel: cancel("all", "waits")}
	case roll < 84:
		return history.Call{Name: "llen"}
	case roll < 90:
		return history.Call{Name: "lindex", Count: random.IntN(9) - 4}
	case roll < 94:
		return history.Call{Name: []string{"lmove left right", "lmove right left"}[random.IntN(2)], Count: 1}
	case roll < 96:
		return history.Call{Name: "lset", Count: random.IntN(7) - 3, Values: fresh(1), Cancel: cancel("changes")}
	case roll < 97:
		return history.Call{Name: "lpos", Values: []string{some}}
	case roll < 98:
		return history.Call{Name: []string{"linsert before", "linsert after"}[random.IntN(2)], Pivot: some, Values: fresh(1), Cancel: cancel("changes")}
	default:
		return history.Call{Name: "lrem", Values: []string{some}, Cancel: cancel("changes")}
	}
}

// instant draws after how many microseconds to cancel a call. Many calls take a fraction of a millisecond; some wait.
func instant(random *rand.Rand) int64 {
	return 1 + random.Int64N([]int64{200, 1000, 5000}[random.IntN(3)])
}

// perform makes a call.
func perform(list deque, c history.Call) (out history.Outcome) {
	ctx, cancel := context.Background(), func() {}
	if c.Cancel > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(c.Cancel)*time.Microsecond)
	}
	defer cancel()
	began := time.Now()
	values := make([]any, len(c.Values))
	for i, value := range c.Values {
		values[i] = value
	}
	timeout := time.Duration(c.Timeout) * time.Microsecond
	var value string
	var err error
	one := true
	switch c.Name {
	case "lpush", "rpush":
		one = false
		push := list.LPush
		if c.Name == "rpush" {
			push = list.RPush
		}
		out.Number, err = push(ctx, values...)
	case "lpop", "rpop":
		pop, popCount := list.LPop, list.LPopCount
		if c.Name == "rpop" {
			pop, popCount = list.RPop, list.RPopCount
		}
		if one = c.Count == 1; one {
			value, err = pop(ctx)
		} else {
			out.Values, err = popCount(ctx, c.Count)
		}
	case "blpop":
		value, err = list.BLPop(ctx, timeout)
	case "brpop":
		value, err = list.BRPop(ctx, timeout)
	case "llen":
		one = false
		out.Number, err = list.LLen(ctx)
	case "lindex":
		value, err = list.LIndex(ctx, int64(c.Count))
	default:
		one = strings.HasPrefix(c.Name, "lmove")
		value, out.Number, err = edit(ctx, list.(*shardedlist.ShardedList), c)
	}
	if one && isDone(err) {
		out.Values = []string{value}
	}
	out.Fate, out.Error = judge(c, err, time.Since(began))
	if out.Fate == ledger.Done && err != nil && err != redis.Nil && !isDone(err) {
		out.Number = resultCode(err)
	}
	return out
}

func edit(ctx context.Context, list *shardedlist.ShardedList, c history.Call) (value string, number int64, err error) {
	switch name, way, _ := strings.Cut(c.Name, " "); name {
	case "lmove":
		from, to, _ := strings.Cut(way, " ")
		value, err = list.LMove(ctx, list, strings.ToUpper(from), strings.ToUpper(to))
	case "lset":
		err = list.LSet(ctx, int64(c.Count), c.Values[0])
	case "linsert":
		number, err = list.LInsert(ctx, way, c.Pivot, c.Values[0])
	case "lpos":
		if number, err = list.LPos(ctx, c.Values[0], redis.LPosArgs{}); err == redis.Nil {
			number, err = -1, nil
		}
	case "lrem":
		number, err = list.LRem(ctx, 0, c.Values[0])
	}
	return value, number, err
}

func isDone(err error) bool {
	return err == nil || errors.Is(err, shardedlist.ErrNotReplicated)
}

// resultCode returns the code of an error that follows from what the list holds, or 0.
func resultCode(err error) int64 {
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "ERR no such key"):
		return history.NoSuchKey
	case strings.Contains(err.Error(), "ERR index out of range"):
		return history.OutOfRange
	}
	return 0
}

// judge returns the fate of a call with this error.
func judge(c history.Call, err error, took time.Duration) (ledger.Fate, string) {
	switch {
	case isDone(err) || err == redis.Nil || resultCode(err) != 0:
		return ledger.Done, ""
	case errors.Is(err, shardedlist.ErrOutcomeUnknown):
		return ledger.Unknown, ""
	case isUnexpected(err):
		return ledger.Refused, "unexpected: " + err.Error()
	case !strings.HasSuffix(c.Name, "pop"):
		return ledger.Refused, err.Error()
	case c.Timeout > 0 && took < 400*time.Millisecond:
		return ledger.Refused, err.Error() // it heard the outcome: nothing was popped for it
	}
	return ledger.GivenUp, err.Error()
}

// passing are errors of a server that is full or not ready.
var passing = []string{"OOM ", "TRYAGAIN ", "LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "READONLY ", "BUSY ", "MOVED ", "ASK ", "UNBLOCKED ",
	"EXECABORT ", // because of one of the others; go-redis does not tell which
	"non local key", "during rehashing of the slot", "slot not served", "cluster is down"}

// isUnexpected reports whether no fault explains the error. The hook words a reply that tells of a plain list itself.
func isUnexpected(err error) bool {
	return isReply(err) && !slices.ContainsFunc(passing, func(words string) bool { return strings.Contains(err.Error(), words) })
}

// isReply reports whether the server replied with the error; otherwise it is of the connection or the context.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && err != redis.Nil
}

// now returns the machine's monotonic time, which all processes share.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return t.Nano()
}
