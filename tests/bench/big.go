package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	mathrand "math/rand/v2"

	"github.com/redis/go-redis/v9"
)

const bigSize = 120 // bytes of an element

// bigList is a list and the operations to measure on it.
type bigList struct {
	name    string
	command string // under which INFO commandstats counts all reads; a plain list's reads have their own names
	fill    func(ctx context.Context, values ...any) error
	index   func(ctx context.Context, at int64) error
	slice   func(ctx context.Context, from, to int64) error
	keys    func(ctx context.Context) ([]string, error)
	remove  func(ctx context.Context, rdb *redis.Client) error // on rdb's server
}

// bigResult compares the lists.
type bigResult struct {
	Elements int        `json:"elements"`
	Plain    bigFigures `json:"plain"`
	Own      bigFigures `json:"shardedlist"`
}

// bigFigures are the figures of one list.
type bigFigures struct {
	Keys      int           `json:"keys"`
	Index     time.Duration `json:"lindex_ns"` // server time of one call
	Slice     time.Duration `json:"lrange_ns"`
	Idle      stalls        `json:"idle"`
	Move      time.Duration `json:"migrate_ns"`
	MoveError string        `json:"migrate_error,omitempty"`
	Moving    stalls        `json:"during_migrate"`
	Remove    time.Duration `json:"del_ns"`
	Removing  stalls        `json:"during_del"`
}

// stalls are the longest time that another client waited for a reply, and the longest command.
type stalls struct {
	Seen    time.Duration `json:"longest_stall_ns"`
	Command time.Duration `json:"longest_command_ns"`
}

// big measures the effect of a list of ten million elements on the server. The lists are measured one after the other.
func (b *bench) big(ctx context.Context) error {
	elements := pick(b, 200_000, 10_000_000)
	other, err := startServer(ctx, b.path)
	if err != nil {
		return err
	}
	defer other.stop()
	lists := []bigList{b.plainBig("plain"), b.shardedBig("sharded")}
	results := map[string]bigFigures{}
	for _, l := range lists {
		if results[l.name], err = b.measureBig(ctx, l, other, elements); err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
	}
	b.results.Big = &bigResult{elements, results[lists[0].name], results[ours]}
	return nil
}

func (b *bench) plainBig(key string) bigList {
	rdb := b.server.control
	return bigList{
		name:   "plain list",
		fill:   b.server.fillPlain(key),
		index:  func(ctx context.Context, at int64) error { return rdb.LIndex(ctx, key, at).Err() },
		slice:  func(ctx context.Context, from, to int64) error { return rdb.LRange(ctx, key, from, to).Err() },
		keys:   func(context.Context) ([]string, error) { return []string{key}, nil },
		remove: func(ctx context.Context, rdb *redis.Client) error { return rdb.Del(ctx, key).Err() },
	}
}

func (b *bench) shardedBig(name string) bigList {
	rdb := b.server.control
	l := sharded(rdb, name)
	return bigList{
		name:    ours,
		command: "fcall",
		fill: func(ctx context.Context, values ...any) error {
			_, err := l.RPush(ctx, values...)
			return err
		},
		index: func(ctx context.Context, at int64) error {
			_, err := l.LIndex(ctx, at)
			return err
		},
		slice: func(ctx context.Context, from, to int64) error {
			_, err := l.LRange(ctx, from, to)
			return err
		},
		keys: func(ctx context.Context) (keys []string, err error) {
			scan := rdb.Scan(ctx, 0, "{"+name+"}:*", 1000).Iterator()
			for scan.Next(ctx) {
				keys = append(keys, scan.Val())
			}
			return keys, scan.Err()
		},
		remove: func(ctx context.Context, rdb *redis.Client) error {
			_, err := sharded(rdb, name).Del(ctx)
			return err
		},
	}
}

func (b *bench) measureBig(ctx context.Context, l bigList, other *server, elements int) (f bigFigures, err error) {
	if err = fillFrom(ctx, list{fill: l.fill}, elements, incompressible(bigSize)); err != nil {
		return
	}
	tick()

	middle := int64(elements / 2)
	index := func(i int64) error { return l.index(ctx, middle+i) }
	slice := func(i int64) error { return l.slice(ctx, middle+i, middle+i+99) }
	if f.Index, err = b.lookUp(ctx, l, "lindex", index); err != nil {
		return
	}
	if f.Slice, err = b.lookUp(ctx, l, "lrange", slice); err != nil {
		return
	}
	f.Idle, err = stall(func() error { return sleep(ctx, pick(b, 300*time.Millisecond, 3*time.Second)) }, b.server)
	if err != nil {
		return
	}
	tick()

	keys, err := l.keys(ctx)
	if err != nil {
		return f, err
	}
	f.Keys = len(keys)
	home := other
	migrate := func() error { return b.server.migrate(ctx, other, keys) }
	f.Moving, err = stall(timed(&f.Move, migrate), b.server, other)
	if err != nil {
		f.MoveError = err.Error()
		home = b.server
	}
	tick()

	remove := func() error { return l.remove(ctx, home.control) }
	if f.Removing, err = stall(timed(&f.Remove, remove), home); err != nil {
		return
	}
	tick()
	if err = b.server.clear(ctx); err != nil {
		return
	}
	return f, other.clear(ctx)
}

// lookUp returns the server's time for one call.
func (b *bench) lookUp(ctx context.Context, l bigList, command string, call func(i int64) error) (time.Duration, error) {
	if l.command != "" {
		command = l.command
	}
	if err := call(0); err != nil { // loads the script
		return 0, err
	}
	if err := b.server.control.ConfigResetStat(ctx).Err(); err != nil {
		return 0, err
	}
	for i := range int64(1000) {
		if err := call(i * 7 % 1000); err != nil {
			return 0, err
		}
	}
	perCall, calls, err := b.server.callTime(ctx, command)
	if err == nil && calls < 1000 {
		err = fmt.Errorf("the server counted %d calls of %s", calls, command)
	}
	return perCall, err
}

// migrate moves keys to another server, key by key.
func (s *server) migrate(ctx context.Context, to *server, keys []string) error {
	host, port, err := net.SplitHostPort(to.addr)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := s.control.Migrate(ctx, host, port, key, 0, 5*time.Minute).Err(); err != nil {
			return err
		}
	}
	return nil
}

// timed wraps do and stores its duration.
func timed(took *time.Duration, do func() error) func() error {
	return func() error {
		start := time.Now()
		err := do()
		*took = time.Since(start)
		return err
	}
}

// stall runs do and returns the longest stall of the servers meanwhile. Another process sends each of them a PING every millisecond.
func stall(do func() error, servers ...*server) (longest stalls, err error) {
	pingers := make([]*pinger, len(servers))
	for i, s := range servers {
		if err := s.logSlow(); err != nil {
			return longest, err
		}
		if pingers[i], err = startPinger(s.addr); err != nil {
			return longest, err
		}
		defer pingers[i].kill()
	}
	err = do()
	time.Sleep(2 * time.Millisecond)
	for i, s := range servers {
		seen, failure1 := pingers[i].end()
		command, failure2 := s.slowest()
		longest.Seen = max(longest.Seen, seen)
		longest.Command = max(longest.Command, command)
		err = cmp.Or(err, failure1, failure2)
	}
	return longest, err
}

// pingerEnv makes this program a pinger of the server at that address. It is a process of its own: what the benchmark itself does, and its
// garbage collector, must not delay it.
const pingerEnv = "BENCH_PINGER"

// pinger sends a PING every millisecond.
type pinger struct {
	cmd   *exec.Cmd
	input io.Closer
	lines *bufio.Scanner
}

func startPinger(addr string) (*pinger, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &pinger{cmd: exec.Command(program)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), pingerEnv+"="+addr), os.Stderr
	input, err1 := p.cmd.StdinPipe()
	output, err2 := p.cmd.StdoutPipe()
	if err := cmp.Or(err1, err2, p.cmd.Start()); err != nil {
		return nil, err
	}
	p.input, p.lines = input, bufio.NewScanner(output)
	if !p.lines.Scan() {
		p.kill()
		return nil, errors.New("the pinger has not begun")
	}
	return p, nil
}

// end returns the longest time until a reply.
func (p *pinger) end() (longest time.Duration, err error) {
	_ = p.input.Close()
	if !p.lines.Scan() {
		return 0, errors.New("the pinger has failed")
	}
	return time.ParseDuration(p.lines.Text())
}

func (p *pinger) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// pingForBenchmark is the main function of a pinger, which ends with its input.
func pingForBenchmark(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := make(chan struct{})
	fmt.Println("begun")
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	longest, err := ping(conn, stop)
	fmt.Println(longest)
	return err
}

// logSlow resets SLOWLOG and makes it record commands of 100 µs and more.
func (s *server) logSlow() error {
	ctx := context.Background()
	pipe := s.control.Pipeline()
	pipe.ConfigSet(ctx, "slowlog-log-slower-than", "100")
	pipe.ConfigSet(ctx, "slowlog-max-len", "100000")
	pipe.Do(ctx, "slowlog", "reset")
	_, err := pipe.Exec(ctx)
	return err
}

// slowest returns the duration of the longest command in SLOWLOG.
func (s *server) slowest() (longest time.Duration, err error) {
	commands, err := s.control.SlowLogGet(context.Background(), -1).Result()
	for _, command := range commands {
		if name := strings.ToLower(command.Args[0]); name != "slowlog" && name != "config" { // ours
			longest = max(longest, command.Duration)
		}
	}
	return longest, err
}

func ping(conn net.Conn, stop <-chan struct{}) (longest time.Duration, err error) {
	pong := []byte("+PONG\r\n")
	reply := make([]byte, len(pong))
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return longest, nil
		case <-ticker.C:
		}
		start := time.Now()
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return longest, err
		}
		if _, err := io.ReadFull(conn, reply); err != nil {
			return longest, err
		}
		longest = max(longest, time.Since(start))
		if !bytes.Equal(reply, pong) {
			return longest, fmt.Errorf("the server replied %q to PING", reply)
		}
	}
}

// incompressible returns a generator of random values.
func incompressible(size int) func() any {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	source := mathrand.NewChaCha8(seed)
	buffer := make([]byte, size)
	return func() any {
		_, _ = source.Read(buffer) // never fails
		return string(buffer)
	}
}

func (r *report) big(b *bigResult) {
	plain, own := b.Plain, b.Own
	r.section("A big list", fmt.Sprintf(`The list has %s elements of %d random bytes. LIndex and LRange (100 elements) read from
its middle; the figure is the server's time per call, the mean of 1,000 calls. A stall is the longest time that another
client, which sends a PING every millisecond, waits for a reply. Stalls include other activity of the machine: compare with
the idle row. The longest command is from SLOWLOG. Each measurement runs once. *Ratio* is the plain list's figure divided by
that of shardedlist.`, count(b.Elements), bigSize))
	t := r.table("", "", "plain list", ours, "ratio")
	ratio := func(plain, own time.Duration) float64 { return float64(plain) / float64(own) }
	t.row("LIndex, server time", micros(plain.Index), micros(own.Index), times(ratio(plain.Index, own.Index)))
	t.row("LRange, server time", micros(plain.Slice), micros(own.Slice), times(ratio(plain.Slice, own.Slice)))
	t.row("keys", count(plain.Keys), count(own.Keys), "")
	stalled := func(when string, plain, own stalls) {
		t.row("longest stall, "+when, millis(plain.Seen), millis(own.Seen), times(ratio(plain.Seen, own.Seen)))
		t.row("longest command, "+when, atMost(plain.Command), atMost(own.Command), "")
	}
	stalled("idle", plain.Idle, own.Idle)
	t.row("MIGRATE, key by key", outcome(plain), outcome(own), "")
	stalled("during MIGRATE, on either server", plain.Moving, own.Moving)
	t.row("Del", millis(plain.Remove), millis(own.Remove), times(ratio(plain.Remove, own.Remove)))
	stalled("during Del", plain.Removing, own.Removing)
	if plain.MoveError != "" {
		r.note("The plain list cannot be moved: `%s`.", plain.MoveError)
	}

	size := count(b.Elements) + " elements"
	compare := func(what string, show func(time.Duration) string, plain, own time.Duration) {
		r.compare(what+", "+size, "a plain list", show(own)+" against "+show(plain), ratio(plain, own))
	}
	compare("Server time of LIndex in the middle", micros, plain.Index, own.Index)
	compare("Server time of LRange in the middle", micros, plain.Slice, own.Slice)
	migrate := "Longest stall during MIGRATE"
	if plain.MoveError != "" {
		migrate += ", which fails on the plain list"
	}
	compare(migrate, millis, plain.Moving.Seen, own.Moving.Seen)
	compare("Longest stall during Del", millis, plain.Removing.Seen, own.Removing.Seen)
	compare("Duration of Del", millis, plain.Remove, own.Remove)

	index := ratio(plain.Index, own.Index)
	r.target("LIndex in the middle of a big list, server time, against a plain list", "≥ 100×", times(index), index >= 100)
	bound := 2 * time.Millisecond
	r.target("Longest stall during Del of a big list", "≤ 2 ms", millis(own.Removing.Seen), own.Removing.Seen <= bound)
	r.target("Longest stall during MIGRATE of a big list", "≤ 2 ms", millis(own.Moving.Seen), own.Moving.Seen <= bound)
}

func outcome(f bigFigures) string {
	if f.MoveError != "" {
		return millis(f.Move) + ", then fails"
	}
	return millis(f.Move)
}

func atMost(command time.Duration) string {
	if command == 0 {
		return "< 0.1 ms"
	}
	return millis(command)
}
