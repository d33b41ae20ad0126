package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

var (
	roundTrips       = []time.Duration{0, 250 * time.Microsecond, time.Millisecond} // beyond those of loopback
	networkCallers   = []int{1, 2, 4, 8, 64, 512}
	networkValueSize = 100
)

// networkResult is one client's median for one operation and number of goroutines, or of processes, over a network.
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
	if err := b.processes(ctx, result); err != nil {
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
		medians, err := b.medians(len(c.peers), func(at, _ int) ([]figures, error) {
			run, err := b.pushAndPop(ctx, c.peers[at], networkValueSize, goroutines, pick(b, 100*time.Millisecond, 500*time.Millisecond))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.peers[at].name, err)
			}
			return run, nil
		})
		if err != nil {
			return err
		}
		for i, p := range c.peers {
			for at, op := range singleOps {
				result.Shared = append(result.Shared, networkResult{roundTrip, op, goroutines, p.name, medians[i][at]})
			}
		}
	}
	return nil
}

// networkResults are those of goroutines that share a client, and of processes of one goroutine each.
type networkResults struct {
	Shared    []networkResult `json:"shared"`
	Processes []networkResult `json:"processes"`
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
				rows.row(op, goroutines, r.ops(own), r.ops(plain), times(own.Ops/plain.Ops), client, times(own.Ops/fastest.Ops))
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
	goal := func(goroutines int, roundTrip time.Duration, against string, want float64, other func(op string) figures) {
		lowest := math.Inf(1)
		for _, op := range singleOps {
			lowest = min(lowest, of(n.Shared, roundTrip, op, goroutines, ours).Ops/other(op).Ops)
		}
		r.target(fmt.Sprintf("RPush and LPop, %s, %s, against %s", callers(goroutines), networkName(roundTrip), against),
			fmt.Sprintf("≥ %.2f×", want), times(lowest), lowest >= want)
	}
	for _, few := range []struct {
		goroutines int
		ratio      float64
	}{{2, 0.65}, {4, 0.75}} {
		goal(few.goroutines, roundTrips[0], "the fastest other client", few.ratio, func(op string) figures {
			_, fastest := n.fastestAt(roundTrips[0], op, few.goroutines)
			return fastest
		})
	}
	for _, far := range []struct {
		goroutines int
		ratio      float64
	}{{1, 0.93}, {8, 1}, {64, 1.5}, {512, 2.5}} {
		goal(far.goroutines, roundTrips[1], "go-redis", far.ratio, func(op string) figures {
			return of(n.Shared, roundTrips[1], op, far.goroutines, "go-redis")
		})
	}
}

func (r *report) serverCPU(n *networkResults) {
	rows := r.table("Server CPU per operation", "operation", "callers", "shardedlist", "go-redis", "ratio")
	for _, op := range singleOps {
		row := func(who string, own, plain figures) {
			rows.row(op, who, r.cpu(own), r.cpu(plain), times(float64(own.CPU)/float64(plain.CPU)))
		}
		for _, goroutines := range networkCallers {
			row(callers(goroutines), of(n.Shared, 0, op, goroutines, ours), of(n.Shared, 0, op, goroutines, "go-redis"))
		}
		if len(n.Processes) > 0 { // figures of older versions have none
			row(fmt.Sprintf("%d processes of 1 caller each", processCount),
				of(n.Processes, 0, op, processCount, ours), of(n.Processes, 0, op, processCount, "go-redis"))
		}
	}
	r.note("A ratio above 1 means that shardedlist costs the server more.")
}
