package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"time"

	mathrand "math/rand/v2"

	"github.com/redis/go-redis/v9"
)

const bigSize = 120 // bytes of an element

// bigList is a list of many elements, and how it is looked into, moved and deleted.
type bigList struct {
	name    string
	command string // the script's, in the server's statistics; a plain list's look-ups stand there under their own names
	fill    func(ctx context.Context, values ...any) error
	index   func(ctx context.Context, at int64) error
	slice   func(ctx context.Context, from, to int64) error
	keys    func(ctx context.Context) ([]string, error)
	remove  func(ctx context.Context, rdb *redis.Client) error // on the server that rdb is connected to
}

// bigFigures are what was measured on one list.
type bigFigures struct {
	keys         int
	index, slice time.Duration // server time of one call
	idle         stalls        // while nothing happens
	move, remove time.Duration
	moving       stalls
	moveError    error
	removing     stalls
}

// stalls are how long a server kept others waiting at most: as another client saw it, and the command that took it longest.
type stalls struct {
	seen, command time.Duration
}

// big measures what a list of ten million elements does to the server. The lists follow each other, each with the server to
// itself.
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
	b.reportBig(elements, results[lists[0].name], results[ours])
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
		command: "evalsha",
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
	if f.index, err = b.lookUp(ctx, l, "lindex", index); err != nil {
		return
	}
	if f.slice, err = b.lookUp(ctx, l, "lrange", slice); err != nil {
		return
	}
	f.idle, err = stall(func() error { return sleep(ctx, pick(b, 300*time.Millisecond, 3*time.Second)) }, b.server)
	if err != nil {
		return
	}
	tick()

	keys, err := l.keys(ctx)
	if err != nil {
		return f, err
	}
	f.keys = len(keys)
	home := other
	migrate := func() error { return b.server.migrate(ctx, other, keys) }
	f.moving, f.moveError = stall(timed(&f.move, migrate), b.server, other)
	if f.moveError != nil {
		home = b.server
	}
	tick()

	remove := func() error { return l.remove(ctx, home.control) }
	if f.removing, err = stall(timed(&f.remove, remove), home); err != nil {
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
	if err := call(0); err != nil { // makes the server know the script
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

// timed is do, and notes how long it takes.
func timed(took *time.Duration, do func() error) func() error {
	return func() error {
		start := time.Now()
		err := do()
		*took = time.Since(start)
		return err
	}
}

// stall returns how long any of the servers kept others waiting while do ran. Each is sent a PING a millisecond, on a
// connection that does nothing else.
func stall(do func() error, servers ...*server) (longest stalls, err error) {
	stop := make(chan struct{})
	seen := make([]time.Duration, len(servers))
	failures := make([]error, len(servers))
	var group sync.WaitGroup
	runtime.GC() // now, and not in between
	for i, s := range servers {
		if err := s.logSlow(); err != nil {
			return longest, err
		}
		conn, err := net.Dial("tcp", s.addr)
		if err != nil {
			return longest, err
		}
		defer conn.Close()
		group.Go(func() { seen[i], failures[i] = ping(conn, stop) })
	}
	time.Sleep(10 * time.Millisecond) // they are at it
	err = do()
	time.Sleep(2 * time.Millisecond)
	close(stop)
	group.Wait()
	for i, s := range servers {
		command, failure := s.slowest()
		longest.seen = max(longest.seen, seen[i])
		longest.command = max(longest.command, command)
		for _, failure := range []error{failure, failures[i]} {
			if err == nil {
				err = failure
			}
		}
	}
	return longest, err
}

// logSlow makes the server note which commands take longer than 100 µs.
func (s *server) logSlow() error {
	ctx := context.Background()
	pipe := s.control.Pipeline()
	pipe.ConfigSet(ctx, "slowlog-log-slower-than", "100")
	pipe.ConfigSet(ctx, "slowlog-max-len", "100000")
	pipe.Do(ctx, "slowlog", "reset")
	_, err := pipe.Exec(ctx)
	return err
}

// slowest is the command noted that took longest.
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

// incompressible returns what makes random values of that size.
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

func (b *bench) reportBig(elements int, plain, own bigFigures) {
	r := &b.report
	r.section("A big list", fmt.Sprintf(`A list of %s elements of %d random bytes. LIndex and LRange, of 100 elements, look into
its middle; what counts is the server's time, in the mean of 1,000 calls. A stall is the longest time that another client
waited for the reply to a PING, which it sends every millisecond; it includes whatever else the machine was at, of which
the stall while nothing happens gives an idea. The longest command is by the server's SLOWLOG. All is done once.`, count(elements), bigSize))
	t := r.table("", "", "plain list", ours, "shardedlist is faster by")
	ratio := func(plain, own time.Duration) string { return times(float64(plain) / float64(own)) }
	t.row("LIndex, server time", micros(plain.index), micros(own.index), ratio(plain.index, own.index))
	t.row("LRange, server time", micros(plain.slice), micros(own.slice), ratio(plain.slice, own.slice))
	t.row("keys", count(plain.keys), count(own.keys), "")
	stalled := func(when string, plain, own stalls) {
		t.row("longest stall "+when, millis(plain.seen), millis(own.seen), ratio(plain.seen, own.seen))
		t.row("longest command "+when, atMost(plain.command), atMost(own.command), "")
	}
	stalled("while nothing happens", plain.idle, own.idle)
	t.row("MIGRATE, key by key", outcome(plain), outcome(own), "")
	stalled("meanwhile, on either server", plain.moving, own.moving)
	t.row("Del", millis(plain.remove), millis(own.remove), ratio(plain.remove, own.remove))
	stalled("meanwhile", plain.removing, own.removing)
	if plain.moveError != nil {
		r.note("The plain list could not be moved: `%v`.", plain.moveError)
	}

	index := float64(plain.index) / float64(own.index)
	r.target("LIndex in the middle of a big list, server time, against a plain list", "≥ 100×", times(index), index >= 100)
	bound := 2 * time.Millisecond
	r.target("Longest stall by Del of a big list", "≤ 2 ms", millis(own.removing.seen), own.removing.seen <= bound)
	r.target("Longest stall by migration of a big list", "≤ 2 ms", millis(own.moving.seen), own.moving.seen <= bound)
}

func outcome(f bigFigures) string {
	if f.moveError != nil {
		return millis(f.move) + ", then fails"
	}
	return millis(f.move)
}

func atMost(command time.Duration) string {
	if command == 0 {
		return "< 0.1 ms"
	}
	return millis(command)
}
