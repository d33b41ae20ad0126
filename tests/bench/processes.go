package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

const processCount = 50

// callerEnv makes this program a caller: a process with one client and one goroutine that calls. Its value is the server's address. A
// caller takes orders from its standard input and answers each on its standard output, in a line of JSON.
const callerEnv = "BENCH_CALLER"

// An order is a line of a caller's input.
type order struct {
	Client string        `json:"client"`
	Op     string        `json:"op"`
	For    time.Duration `json:"for_ns"`
}

// An answer is a line of a caller's output.
type answer struct {
	Calls   int    `json:"calls"`
	Failure string `json:"failure,omitempty"` // of the last call
}

// takeOrders is the main function of a caller. It returns when the benchmark closes its input, or dies.
func takeOrders(addr string) error {
	s := &server{addr: addr}
	rdb := s.client()
	defer rdb.Close()
	lists := s.processLists(rdb)
	orders, answers := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(o.carryOut(lists[o.Client])); err != nil {
			return err
		}
	}
}

// processLists has a list of each client.
func (s *server) processLists(rdb *redis.Client) map[string]list {
	return map[string]list{
		ours:       shardedPeer(rdb, "bench:processes"),
		"go-redis": s.goRedisPeer(rdb, "bench:processes:plain"),
	}
}

// carryOut calls as long as the order says, or until there is nothing left to pop.
func (o order) carryOut(l list) (a answer) {
	call, value := l.pop, text(networkValueSize)
	if o.Op == singleOps[0] {
		call = func(ctx context.Context) error { return l.push(ctx, value) }
	}
	for end := time.Now().Add(o.For); time.Now().Before(end); a.Calls++ {
		if err := call(context.Background()); err != nil {
			if !errors.Is(err, errEmpty) {
				a.Failure = err.Error()
			}
			break
		}
	}
	return a
}

// processes measures many processes of one caller each on one list.
func (b *bench) processes(ctx context.Context, result *networkResults) error {
	callers, err := b.server.startProcesses(ctx, processCount)
	if err != nil {
		return err
	}
	defer callers.stop()
	lists, names := b.server.processLists(b.server.control), []string{ours, "go-redis"}
	medians, err := b.medians(len(names), func(at, _ int) ([]figures, error) {
		run, err := callers.pushAndPop(ctx, b.server, names[at], lists[names[at]], pick(b, 30*time.Millisecond, time.Second))
		if err != nil {
			return nil, fmt.Errorf("processes of %s: %w", names[at], err)
		}
		return run, nil
	})
	if err != nil {
		return err
	}
	for i, name := range names {
		for at, op := range singleOps {
			result.Processes = append(result.Processes, networkResult{0, op, processCount, name, medians[i][at]})
		}
	}
	return nil
}

// process is a running caller.
type process struct {
	cmd     *exec.Cmd
	input   io.Closer
	orders  *json.Encoder
	answers *json.Decoder
}

type processes []*process

func (s *server) startProcesses(ctx context.Context, number int) (started processes, err error) {
	for range number {
		p, err := s.startProcess(ctx)
		if err != nil {
			started.stop()
			return nil, err
		}
		started = append(started, p)
	}
	return started, nil
}

func (s *server) startProcess(ctx context.Context) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	cmd.Env = append(os.Environ(), callerEnv+"="+s.addr)
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &process{cmd, input, json.NewEncoder(input), json.NewDecoder(output)}, cmd.Start()
}

func (all processes) stop() {
	for _, p := range all {
		_ = p.input.Close()
	}
	for _, p := range all {
		_ = p.cmd.Wait()
	}
}

// pushAndPop is as that of bench. No process pops from an empty list unless pops are far faster than pushes.
func (all processes) pushAndPop(ctx context.Context, s *server, client string, l list, d time.Duration) (run []figures, err error) {
	for _, op := range singleOps {
		if _, err := all.load(ctx, s, order{client, op, d / 5}); err != nil { // warm up
			return nil, err
		}
		f, err := all.load(ctx, s, order{client, op, d})
		if err != nil {
			return nil, err
		}
		run = append(run, f)
		if op == singleOps[0] {
			if err := fillWith(ctx, l, int(f.Ops*d.Seconds()), networkValueSize); err != nil {
				return nil, err
			}
		}
	}
	return run, l.empty(ctx)
}

// load gives all processes the same order.
func (all processes) load(ctx context.Context, s *server, o order) (figures, error) {
	before, err := s.cpu(ctx)
	if err != nil {
		return figures{}, err
	}
	start := time.Now()
	for _, p := range all {
		if err := p.orders.Encode(o); err != nil {
			return figures{}, err
		}
	}
	calls := 0
	for _, p := range all {
		var a answer
		if err := p.answers.Decode(&a); err != nil {
			return figures{}, fmt.Errorf("a process does not answer: %w", err)
		}
		if a.Failure != "" {
			return figures{}, errors.New(a.Failure)
		}
		calls += a.Calls
	}
	elapsed := time.Since(start)
	after, err := s.cpu(ctx)
	return figures{Ops: float64(calls) / elapsed.Seconds(), CPU: (after - before) / time.Duration(max(calls, 1))}, err
}
