package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

const (
	reshardClients = 8
	reshardPause   = 2 * time.Millisecond // of a client between two calls: the load is light, so that stalls are those of the move
	earlySlots     = 1000                 // redis-cli moves the lowest slots of each node
)

// reshardResult is what happens to lists when a node joins, and redis-cli gives it a quarter of the slots, while clients push and pop.
type reshardResult struct {
	Elements int             `json:"elements"`
	Lists    []reshardFigure `json:"lists"`
}

type reshardFigure struct {
	List    string        `json:"list"`
	Took    time.Duration `json:"took_ns"`
	Longest time.Duration `json:"longest_call_ns"`
	Calls   int           `json:"calls"`
	Failed  int           `json:"failed"`
	Stalls  stalls        `json:"stalls"`
	Failure string        `json:"failure,omitempty"` // what redis-cli says
	Idle    stalls        `json:"idle"`              // as long under the same load, with nothing moved
}

// reshard moves a quarter of a cluster's slots to a node that has joined it.
func (b *bench) reshard(ctx context.Context) error {
	r := &reshardResult{Elements: pick(b, 20_000, 10_000_000)}
	kinds := []struct {
		name    string
		options []shardedlist.Option
	}{
		{"plain", nil},
		{"shardedlist, one slot", []shardedlist.Option{}},
		{fmt.Sprintf("shardedlist, %d parts", spreadParts), []shardedlist.Option{shardedlist.WithParts(spreadParts)}},
	}
	for _, kind := range kinds[pick(b, 2, 0):] {
		f, err := b.reshardOf(ctx, r.Elements, kind.options)
		if err != nil {
			return fmt.Errorf("%s: %w", kind.name, err)
		}
		f.List = kind.name
		r.Lists = append(r.Lists, f)
		tick()
	}
	b.results.Reshard = r
	return nil
}

// earlyName returns the name of a list whose slot is moved.
func earlyName(ctx context.Context, rdb *redis.ClusterClient) (string, error) {
	for i := 0; ; i++ {
		name := fmt.Sprint("list", i)
		slot, err := rdb.ClusterKeySlot(ctx, name).Result()
		if err != nil || slot < earlySlots {
			return name, err
		}
	}
}

// reshardOf measures a plain list if options is nil.
func (b *bench) reshardOf(ctx context.Context, elements int, options []shardedlist.Option) (f reshardFigure, err error) {
	c, err := startCluster(ctx, b.path)
	if err != nil {
		return f, err
	}
	defer c.stop()
	name, err := earlyName(ctx, c.rdb)
	if err != nil {
		return f, err
	}
	push := func(ctx context.Context, values ...any) error { return c.rdb.RPush(ctx, name, values...).Err() }
	pop := func(ctx context.Context) error { return c.rdb.LPop(ctx, name).Err() }
	if options != nil {
		list := sharded(c.rdb, name, options...)
		push = func(ctx context.Context, values ...any) error { _, err := list.RPush(ctx, values...); return err }
		pop = func(ctx context.Context) error { _, err := list.LPop(ctx); return err }
	}
	if err := fillFrom(ctx, list{fill: push}, elements, incompressible(spreadValue)); err != nil {
		return f, err
	}
	value := text(spreadValue)
	if err := c.join(ctx, b.path); err != nil {
		return f, err
	}

	stop := make(chan struct{})
	var (
		mutex   sync.Mutex
		clients sync.WaitGroup
	)
	for i := range reshardClients {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(reshardPause):
				}
				began := time.Now()
				err := push(ctx, value)
				if i%2 == 0 {
					err = pop(ctx)
				}
				mutex.Lock()
				f.Calls++
				f.Longest = max(f.Longest, time.Since(began))
				if err != nil {
					f.Failed++
				}
				mutex.Unlock()
			}
		})
	}
	f.Idle, err = stall(func() error { return sleep(ctx, pick(b, 300*time.Millisecond, 5*time.Second)) }, c.nodes...)
	mutex.Lock()
	f.Longest, f.Calls, f.Failed = 0, 0, 0
	mutex.Unlock()
	if err == nil {
		f.Stalls, err = stall(timed(&f.Took, func() error {
			f.Failure, err = c.rebalance(ctx)
			return err
		}), c.nodes...)
	}
	close(stop)
	clients.Wait()
	return f, err
}

// join adds a node without slots.
func (c *cluster) join(ctx context.Context, path string) error {
	node, err := startServer(ctx, path, "--cluster-enabled", "yes")
	if err != nil {
		return err
	}
	c.nodes = append(c.nodes, node)
	host, port, _ := strings.Cut(c.nodes[0].addr, ":")
	return errors.Join(node.control.ClusterMeet(ctx, host, port).Err(), c.settle(ctx))
}

var colours = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// rebalance gives the nodes equal shares of the slots. It returns what redis-cli says if it fails.
func (c *cluster) rebalance(ctx context.Context) (failure string, err error) {
	for {
		output, err := exec.CommandContext(ctx, "redis-cli", "--cluster", "rebalance", c.nodes[0].addr, "--cluster-use-empty-masters").CombinedOutput()
		text := strings.TrimSpace(colours.ReplaceAllString(string(output), ""))
		var exit *exec.ExitError
		switch {
		case strings.Contains(text, "don't agree about configuration") && ctx.Err() == nil:
			if err := sleep(ctx, 100*time.Millisecond); err != nil {
				return "", err
			}
		case errors.As(err, &exit):
			return text[strings.LastIndexByte(text, '\n')+1:], nil
		default:
			return "", err
		}
	}
}

func (r *report) reshard(s *reshardResult) {
	r.section("A node joins", fmt.Sprintf("A cluster of three nodes, and a list of %s elements of %d random bytes, whose slot or slots are among those that move. A fourth node\n"+
		"joins, and `redis-cli --cluster rebalance --cluster-use-empty-masters` gives it a quarter of the slots, while %d clients push at the\n"+
		"right end and pop at the left one, with pauses of %v. *Longest stall* is that of any node, seen by a PING each millisecond; *idle* is\n"+
		"under the same load, with nothing moved. Each measurement runs once.", count(s.Elements), spreadValue, reshardClients, reshardPause))
	t := r.table("", "list", "took", "calls", "failed", "longest call", "longest stall", "idle")
	for _, f := range s.Lists {
		took := f.Took.Round(10 * time.Millisecond).String()
		if f.Failure != "" {
			took += ", then fails"
		}
		t.row(f.List, took, count(float64(f.Calls)), fmt.Sprint(f.Failed), millis(f.Longest), millis(f.Stalls.Seen), millis(f.Idle.Seen))
	}
	for _, f := range s.Lists {
		if f.Failure != "" {
			r.note("%s: `%s`.", f.List, f.Failure)
		}
	}
	last := s.Lists[len(s.Lists)-1]
	r.target("A node joins a cluster with a spread list, longest call", "< 1 s", millis(last.Longest), last.Longest < time.Second && last.Failure == "")
	r.target("A node joins a cluster with a spread list, longest stall of a node", "< 50 ms", millis(last.Stalls.Seen), last.Stalls.Seen < 50*time.Millisecond)
}
