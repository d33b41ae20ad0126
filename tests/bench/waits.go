package main

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
)

// waitsFigures are those of callers that wait, each on a list of its own.
type waitsFigures struct {
	Place       string        `json:"place,omitempty"`
	Client      string        `json:"client"`
	Lists       int           `json:"lists"`
	Connections int           `json:"connections"` // that block or have subscribed
	P50         time.Duration `json:"p50_ns"`      // from a push to the return of the pop, the lists in turn
	P99         time.Duration `json:"p99_ns"`
	Often       time.Duration `json:"often_ns"` // p50, of four lists that are woken again and again
	Idle        time.Duration `json:"idle_ns"`  // p99 of SET of another key, while all wait and nobody is woken
	Busy        time.Duration `json:"busy_ns"`  // while all are woken in turn
	Heap        int64         `json:"heap"`     // bytes that the process has more while all wait
}

// oftenLists are those that are woken again and again.
const oftenLists = 4

// waits measures callers that wait on many lists, through the hook with default options, and by plain go-redis with a connection for each.
func (b *bench) waits(ctx context.Context) error {
	for _, place := range []string{"", across} {
		for _, lists := range pick(b, []int{50}, []int{1000, 10_000}) {
			if err := b.waitsIn(ctx, place, lists); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bench) waitsIn(ctx context.Context, place string, lists int) error {
	open := func(size int) redis.UniversalClient { return b.server.client(poolSize(size)) }
	servers := []*server{b.server}
	if place != "" {
		c, err := startCluster(ctx, b.path)
		if err != nil {
			return err
		}
		defer c.stop()
		servers = c.nodes
		open = func(size int) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}, PoolSize: size})
		}
	}
	for _, client := range []string{ours, "go-redis"} {
		size := 0 // the default
		if client != ours {
			size = lists + 100
		}
		if client != ours && lists > 1000 { // more connections than a process may have files
			continue
		}
		tick()
		figures, err := measureWaits(ctx, open, servers, client == ours, size, lists, pick(b, 1, b.runs))
		if err != nil {
			return fmt.Errorf("%s, %d lists: %w", client, lists, err)
		}
		figures.Place, figures.Client, figures.Lists = place, client, lists
		b.results.Waits = append(b.results.Waits, *figures)
	}
	return nil
}

// measureWaits has a caller wait on each list, and pushes to each list in turn.
func measureWaits(ctx context.Context, open func(size int) redis.UniversalClient, servers []*server, hooked bool, size, lists, rounds int) (*waitsFigures, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	producer, consumer := open(0), open(size)
	defer func() { _, _ = producer.Close(), consumer.Close() }()
	var hook *shardedlist.Hook
	if hooked {
		hook = shardedlist.NewHook(consumer, shardedlist.Match("waits:*"))
		producer.AddHook(shardedlist.NewHook(producer, shardedlist.Match("waits:*")))
		consumer.AddHook(hook)
	}
	key := func(i int) string { return "waits:" + strconv.Itoa(i) }
	connections := func() (waiting int) {
		for _, s := range servers {
			clients, _ := s.control.ClientList(ctx).Result()
			waiting += strings.Count(clients, " cmd=blpop ") + strings.Count(clients, " cmd=ssubscribe ")
		}
		return waiting
	}
	if err := producer.RPush(ctx, key(0), "x").Err(); err != nil {
		return nil, err
	}
	if err := producer.LPop(ctx, key(0)).Err(); err != nil {
		return nil, err
	}
	f := &waitsFigures{}
	heap := heapNow()
	woken, failed := make([]chan time.Time, lists), make(chan error, lists)
	for i := range woken {
		woken[i] = make(chan time.Time, 1)
		go func() {
			for {
				if err := consumer.BLPop(ctx, 0, key(i)).Err(); err != nil {
					failed <- err
					return
				}
				woken[i] <- time.Now()
			}
		}()
	}
	asleep := func() bool {
		if hooked {
			s := hook.Stats()
			return int(s.Blocked+s.Listening) == lists
		}
		return connections() == lists
	}
	for deadline := time.Now().Add(2 * time.Minute); !asleep(); {
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("not all wait")
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.Connections, f.Heap = connections(), heapNow()-heap
	sets := func(until func() bool) (time.Duration, error) {
		var latencies []time.Duration
		for !until() {
			start := time.Now()
			if err := consumer.Set(ctx, "another", 1, 0).Err(); err != nil {
				return 0, err
			}
			latencies = append(latencies, time.Since(start))
			time.Sleep(time.Millisecond)
		}
		return quantile(latencies, 0.99), nil
	}
	turn := func(i int) (time.Duration, error) {
		start := time.Now()
		if err := producer.RPush(ctx, key(i), "value").Err(); err != nil {
			return 0, err
		}
		select {
		case end := <-woken[i]:
			return end.Sub(start), nil
		case err := <-failed:
			return 0, err
		case <-time.After(30 * time.Second):
			return 0, fmt.Errorf("list %d was not woken within 30 s", i)
		}
	}
	var err error
	end := time.Now().Add(time.Second)
	if f.Idle, err = sets(func() bool { return time.Now().After(end) }); err != nil {
		return nil, err
	}
	done := make(chan struct{})
	busy := make(chan error, 1)
	go func() {
		p99, err := sets(func() bool {
			select {
			case <-done:
				return true
			default:
				return false
			}
		})
		f.Busy = p99
		busy <- err
	}()
	var all, often []time.Duration
	for range rounds {
		for i := range lists {
			took, err := turn(i)
			if err != nil {
				return nil, err
			}
			all = append(all, took)
		}
	}
	close(done)
	if err := <-busy; err != nil {
		return nil, err
	}
	for i := range 1000 {
		took, err := turn(i % oftenLists)
		if err != nil {
			return nil, err
		}
		if i >= 100 { // they have got connections by then
			often = append(often, took)
		}
	}
	f.P50, f.P99, f.Often = quantile(all, 0.5), quantile(all, 0.99), quantile(often, 0.5)
	return f, nil
}

func heapNow() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

func (r *report) waits(rows []waitsFigures) {
	r.section("Callers that wait on many lists", `One caller waits on each list; another client pushes to each in turn, and the time is from the call of the push to the return of
the pop. *Often* is that of four lists which are pushed to again and again meanwhile. The hook's client has go-redis's default options, the plain one a pool with a connection for
each list. *SET* is the p99 of a SET of another key by the client that waits: while nobody is woken, and while all are in turn.

A wake-up by connection is the script of the push and the one behind the *BLPOP*, and before the next one the script that finds the list empty: three for two commands of
plain Redis. By subscription, a round trip is added. On two processors, the three scripts of one turn and what the clients do for them take all the time there is.`)
	var t *table
	for i, w := range rows {
		if i == 0 || w.Place != rows[i-1].Place {
			t = r.table(w.Place, "lists", "client", "connections", "p50", "p99", "often, p50", "SET, idle", "SET, busy", "memory")
		}
		t.row(count(w.Lists), w.Client, count(w.Connections), micros(w.P50), micros(w.P99), micros(w.Often), micros(w.Idle), micros(w.Busy),
			fmt.Sprintf("%.1f MB", float64(w.Heap)/1e6))
		suffix := ", " + count(w.Lists) + " lists"
		if w.Place != "" {
			suffix += ", " + w.Place
		}
		switch {
		case w.Client != ours:
			own := rows[i-1]
			ratio, often := float64(own.P50)/float64(w.P50), float64(own.Often)/float64(w.Often)
			r.target("Wake-up, the lists in turn"+suffix, "≤ 2.5×", times(ratio), ratio <= 2.5)
			r.target("Wake-up of lists that are woken often"+suffix, "≤ 1.6×", times(often), often <= 1.6)
		default:
			most, busy := 9, float64(w.Busy)/float64(w.Idle)
			if w.Place != "" {
				most *= 3
			}
			r.target("Connections that wait"+suffix, fmt.Sprintf("≤ %d", most), count(w.Connections), w.Connections <= most)
			r.target("SET while all are woken, p99 against idle"+suffix, "≤ 2×", times(busy), busy <= 2)
		}
	}
}
