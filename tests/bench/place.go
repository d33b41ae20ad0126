package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
)

// place is where workloads and everyday calls are measured.
type place struct {
	name    string
	servers []*server
	hooked  redis.UniversalClient // has the hook for the keys that begin with "sharded:"
	plain   redis.UniversalClient
	stop    func()
}

// farAway is the round trip to a server in another rack.
const farAway = 250 * time.Microsecond

const besides, across = "round trips of 0.25 ms", "a cluster of three"

// places are one server, the same behind a network, and a cluster of three. The first has no name.
var places = []func(ctx context.Context, b *bench) (*place, error){
	func(_ context.Context, b *bench) (*place, error) {
		return newPlace("", func() redis.UniversalClient { return b.server.client(poolSize(workloadConnections)) }, func() {}, b.server), nil
	},
	func(_ context.Context, b *bench) (*place, error) {
		far, stop, err := b.server.behind(farAway)
		if err != nil {
			return nil, err
		}
		return newPlace(besides, func() redis.UniversalClient { return far.client(poolSize(workloadConnections)) }, stop, b.server), nil
	},
	func(ctx context.Context, b *bench) (*place, error) {
		c, err := startCluster(ctx, b.path)
		if err != nil {
			return nil, err
		}
		return newPlace(across, func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.nodes[0].addr}, PoolSize: workloadConnections})
		}, c.stop, c.nodes...), nil
	},
}

func newPlace(name string, client func() redis.UniversalClient, stop func(), servers ...*server) *place {
	p := &place{name, servers, client(), client(), nil}
	p.hooked.AddHook(shardedlist.NewHook(p.hooked, shardedlist.Match("sharded:*")))
	p.stop = func() {
		_, _ = p.hooked.Close(), p.plain.Close()
		stop()
	}
	return p
}

// inEachPlace measures in one place after the other, or in the first in a short run.
func (b *bench) inEachPlace(ctx context.Context, measure func(p *place) error) error {
	for _, open := range pick(b, places[:1], places) {
		p, err := open(ctx, b)
		if err != nil {
			return err
		}
		err = measure(p)
		p.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// client returns a client, the prefix of the lists that it uses: plain lists first, and then those of the hook.
func (p *place) client(at int) (rdb redis.UniversalClient, prefix string) {
	if at == 1 {
		return p.hooked, "sharded:"
	}
	return p.plain, "plain:"
}

// cpu returns the CPU time of all servers.
func (p *place) cpu(ctx context.Context) (sum time.Duration, err error) {
	for _, s := range p.servers {
		used, failure := s.cpu(ctx)
		sum, err = sum+used, errors.Join(err, failure)
	}
	return sum, err
}

// input returns the bytes that all servers have got.
func (p *place) input(ctx context.Context) (sum float64, err error) {
	for _, s := range p.servers {
		bytes, failure := s.number(ctx, "stats", "total_net_input_bytes")
		sum, err = sum+bytes, errors.Join(err, failure)
	}
	return sum, err
}

func (p *place) clear(ctx context.Context) (err error) {
	for _, s := range p.servers {
		err = errors.Join(err, s.clear(ctx))
	}
	return err
}
