package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
)

var (
	roundTrips       = []time.Duration{0, 250 * time.Microsecond, time.Millisecond} // beyond those of loopback
	networkCallers   = []int{1, 2, 4, 8, 64, 512}
	separateClients  = 50
	networkValueSize = 100
)

// networkResult is one client's median for one operation and number of goroutines over a network.
type networkResult struct {
	RoundTrip  time.Duration `json:"round_trip_ns"`
	Op         string        `json:"op"`
	Goroutines int           `json:"goroutines"`
	Client     string        `json:"client"`
	figures
}

// network measures RPush and LPop of single values over networks with a delay. The clients alternate.
func (b *bench) network(ctx context.Context) error {
	result := &networkResults{}
	for _, roundTrip := range roundTrips {
		far, stop, err := b.server.behind(roundTrip)
		if err != nil {
			return err
		}
		err = b.networkAt(ctx, far, roundTrip, result)
		stop()
		if err != nil {
			return err
		}
	}
	if err := b.separate(ctx, result); err != nil {
		return err
	}
	b.results.Network = result
	return nil
}

func (b *bench) networkAt(ctx context.Context, far *server, roundTrip time.Duration, result *networkResults) error {
	c, err := far.openPeers()
	if err != nil {
		return err
	}
	defer c.stop()
	for _, goroutines := range networkCallers {
		pushes, pops := make([][]figures, len(c.peers)), make([][]figures, len(c.peers))
		for round := range b.runs {
			for i := range c.peers {
				at := (i + round) % len(c.peers)
				push, pop, err := b.pushAndPop(ctx, c.peers[at], networkValueSize, goroutines, pick(b, 30*time.Millisecond, 500*time.Millisecond))
				if err != nil {
					return fmt.Errorf("%s: %w", c.peers[at].name, err)
				}
				pushes[at], pops[at] = append(pushes[at], push), append(pops[at], pop)
			}
		}
		tick()
		for i, p := range c.peers {
			result.Shared = append(result.Shared,
				networkResult{roundTrip, singleOps[0], goroutines, p.name, median(pushes[i])},
				networkResult{roundTrip, singleOps[1], goroutines, p.name, median(pops[i])})
		}
	}
	return nil
}

// separate measures clients of one goroutine each on one list, as many processes have them.
func (b *bench) separate(ctx context.Context, result *networkResults) error {
	clients := make([]*redis.Client, separateClients)
	lists := make([]*shardedlist.ShardedList, separateClients)
	for i := range clients {
		clients[i] = b.server.client()
		defer clients[i].Close()
		lists[i] = sharded(clients[i], "bench:separate")
	}
	plain, own := b.server.goRedisPeer(clients[0], "bench:separate:plain"), shardedPeer(clients[0], "bench:separate")
	peers := []struct {
		name      string
		list      list
		push, pop func(ctx context.Context, i int) error
	}{
		{ours, own,
			func(ctx context.Context, i int) error {
				_, err := lists[i].RPush(ctx, text(networkValueSize))
				return err
			},
			func(ctx context.Context, i int) error { _, err := lists[i].LPop(ctx); return popError(err) }},
		{"go-redis", plain,
			func(ctx context.Context, i int) error {
				return clients[i].RPush(ctx, "bench:separate:plain", text(networkValueSize)).Err()
			},
			func(ctx context.Context, i int) error {
				return popError(clients[i].LPop(ctx, "bench:separate:plain").Err())
			}},
	}
	d := pick(b, 30*time.Millisecond, time.Second)
	pushes, pops := make([][]figures, len(peers)), make([][]figures, len(peers))
	for range b.runs {
		for i, p := range peers {
			for _, measured := range []struct {
				do   func(ctx context.Context, i int) error
				runs *[]figures
			}{{p.push, &pushes[i]}, {p.pop, &pops[i]}} {
				if _, err := loadEach(ctx, b.server, separateClients, d/5, measured.do); err != nil {
					return err
				}
				f, err := loadEach(ctx, b.server, separateClients, d, measured.do)
				if err != nil {
					return err
				}
				*measured.runs = append(*measured.runs, f)
				if err := fillWith(ctx, p.list, int(f.Ops*d.Seconds()), networkValueSize); err != nil {
					return err
				}
			}
			if err := p.list.empty(ctx); err != nil {
				return err
			}
		}
		tick()
	}
	for i, p := range peers {
		result.Separate = append(result.Separate,
			networkResult{0, singleOps[0], separateClients, p.name, median(pushes[i])},
			networkResult{0, singleOps[1], separateClients, p.name, median(pops[i])})
	}
	return nil
}

// networkResults are those of goroutines that share a client, and of goroutines that have one each.
type networkResults struct {
	Shared   []networkResult `json:"shared"`
	Separate []networkResult `json:"separate"`
}

func of(results []networkResult, roundTrip time.Duration, op string, goroutines int, client string) figures {
	for _, r := range results {
		if r.RoundTrip == roundTrip && r.Op == op && r.Goroutines == goroutines && r.Client == client {
			return r.figures
		}
	}
	return figures{}
}

// fastestAt returns the other client with the highest throughput.
func (n *networkResults) fastestAt(roundTrip time.Duration, op string, goroutines int) (client string, f figures) {
	for _, r := range n.Shared {
		if r.RoundTrip == roundTrip && r.Op == op && r.Goroutines == goroutines && r.Client != ours && r.Ops > f.Ops {
			client, f = r.Client, r.figures
		}
	}
	return client, f
}

func networkName(roundTrip time.Duration) string {
	if roundTrip == 0 {
		return "loopback"
	}
	return "round trips of " + fmt.Sprint(float64(roundTrip)/float64(time.Millisecond)) + " ms"
}

func (r *report) network(n *networkResults) {
	r.section("Over a network", fmt.Sprintf(`Values of %d bytes. On loopback a round trip takes far less than on a network, and what a script costs the server
weighs more. So all clients also reach the server through a proxy that delays what it forwards. *Ratio* is the throughput of shardedlist
divided by that of go-redis and of the fastest other client.`, networkValueSize))
	for _, roundTrip := range roundTrips {
		rows := r.table(upperFirst(networkName(roundTrip)), "operation", "goroutines", "shardedlist ops/s", "go-redis", "ratio", "fastest other", "ratio")
		for _, op := range singleOps {
			for _, goroutines := range networkCallers {
				own, plain := of(n.Shared, roundTrip, op, goroutines, ours), of(n.Shared, roundTrip, op, goroutines, "go-redis")
				client, fastest := n.fastestAt(roundTrip, op, goroutines)
				rows.row(op, goroutines, count(own.Ops), count(plain.Ops), times(own.Ops/plain.Ops), client, times(own.Ops/fastest.Ops))
			}
		}
	}
	for _, roundTrip := range roundTrips[1:] {
		for _, goroutines := range networkCallers {
			for _, side := range []bool{true, false} {
				var ops []string
				var ratios []float64
				for _, op := range singleOps {
					own, plain := of(n.Shared, roundTrip, op, goroutines, ours), of(n.Shared, roundTrip, op, goroutines, "go-redis")
					if ratio := own.Ops / plain.Ops; ratio >= 1 == side {
						ops, ratios = append(ops, op), append(ratios, ratio)
					}
				}
				r.compare(strings.Join(ops, " and ")+", "+callers(goroutines)+", "+networkName(roundTrip), "go-redis", "", ratios...)
			}
		}
	}
	r.serverCPU(n)
	for _, goal := range []struct {
		goroutines int
		ratio      float64
	}{{1, 0.93}, {8, 1}, {64, 1.5}, {512, 2.5}} {
		roundTrip, lowest := roundTrips[1], 0.0
		for i, op := range singleOps {
			ratio := of(n.Shared, roundTrip, op, goal.goroutines, ours).Ops / of(n.Shared, roundTrip, op, goal.goroutines, "go-redis").Ops
			if i == 0 || ratio < lowest {
				lowest = ratio
			}
		}
		r.target(fmt.Sprintf("RPush and LPop, %s, %s, against go-redis", callers(goal.goroutines), networkName(roundTrip)),
			fmt.Sprintf("≥ %.2f×", goal.ratio), times(lowest), lowest >= goal.ratio)
	}
}

func (r *report) serverCPU(n *networkResults) {
	rows := r.table("Server CPU per operation", "operation", "callers", "shardedlist", "go-redis", "ratio")
	for _, op := range singleOps {
		row := func(who string, own, plain figures) {
			rows.row(op, who, micros(own.CPU), micros(plain.CPU), times(float64(own.CPU)/float64(plain.CPU)))
		}
		for _, goroutines := range networkCallers {
			row(callers(goroutines), of(n.Shared, 0, op, goroutines, ours), of(n.Shared, 0, op, goroutines, "go-redis"))
		}
		row(fmt.Sprintf("%d clients of 1 goroutine each", separateClients),
			of(n.Separate, 0, op, separateClients, ours), of(n.Separate, 0, op, separateClients, "go-redis"))
	}
	r.note("A ratio above 1 means that shardedlist costs the server more.")
}
