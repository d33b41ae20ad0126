// Command instructions counts the instructions that redis-server executes for an operation, of this library and of go-redis:
//
//	cd tests/bench && go run ./instructions
//
// It needs valgrind. The counts depend on the version of the server, but neither on the machine nor on what else runs there. The server
// runs under valgrind's callgrind twice for each operation, with few calls and with many; the difference is that of the calls.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/limit"
)

// client is what an operation is called with.
type client struct {
	rdb, hooked *redis.Client // hooked has the library's hook for all keys
	list, other *shardedlist.ShardedList
	spread      *shardedlist.ShardedList
	bucket      *limit.TokenBucket
	window      *limit.FixedWindow
	lock        *limit.Lock
}

// operation is what is counted. Before it, the list has elements.
type operation struct {
	name string
	call func(ctx context.Context, c *client, i int) error
}

var value = strings.Repeat("x", 100)

var nothing = redis.NewScript("return 1")

var operations = []operation{
	{"RPUSH of go-redis", func(ctx context.Context, c *client, _ int) error { return c.rdb.RPush(ctx, "plain", value).Err() }},
	{"EVALSHA of a script that does nothing, with as many arguments", func(ctx context.Context, c *client, i int) error {
		return nothing.Run(ctx, c.rdb, []string{"{jobs}:meta"}, "?jobs", "00000000-0000-0000-0000-000000000000", i, "-60000", "R", 512, value).Err()
	}},
	{"RPush", func(ctx context.Context, c *client, _ int) error {
		_, err := c.list.RPush(ctx, value)
		return err
	}},
	{"LPop", func(ctx context.Context, c *client, _ int) error {
		_, err := c.list.LPop(ctx)
		return err
	}},
	{"RPush of 4 values", func(ctx context.Context, c *client, _ int) error {
		_, err := c.list.RPush(ctx, value, value, value, value)
		return err
	}},
	{"LPopCount of 4", func(ctx context.Context, c *client, _ int) error {
		_, err := c.list.LPopCount(ctx, 4)
		return err
	}},
	{"LPop of an empty list", func(ctx context.Context, c *client, _ int) error {
		_, err := c.other.LPop(ctx)
		switch err {
		case redis.Nil:
			return nil
		case nil:
			return errors.New("the list is not empty")
		}
		return err
	}},
	{"RPush and LPop in turn, empty list", func(ctx context.Context, c *client, i int) error {
		if i%2 == 0 {
			_, err := c.other.RPush(ctx, value)
			return err
		}
		_, err := c.other.LPop(ctx)
		return err
	}},
	{"RPush to each of many lists, through the hook", func(ctx context.Context, c *client, i int) error {
		return c.hooked.RPush(ctx, strconv.Itoa(i), value).Err()
	}},
	{"LRange 0 9", func(ctx context.Context, c *client, _ int) error {
		return c.hooked.LRange(ctx, "long", 0, 9).Err()
	}},
	{"LLen", func(ctx context.Context, c *client, _ int) error { return c.hooked.LLen(ctx, "long").Err() }},
	{"LSet", func(ctx context.Context, c *client, _ int) error {
		return c.hooked.LSet(ctx, "long", 500, value).Err()
	}},
	{"LTrim of nothing", func(ctx context.Context, c *client, _ int) error {
		return c.hooked.LTrim(ctx, "long", 0, -1).Err()
	}},
	{"Expire", func(ctx context.Context, c *client, _ int) error {
		return c.hooked.Expire(ctx, "long", time.Hour).Err()
	}},
	{"LMove", func(ctx context.Context, c *client, _ int) error {
		return c.hooked.LMove(ctx, "long", "long", "left", "right").Err()
	}},
	{"Allow of redis_rate", func(ctx context.Context, c *client, _ int) error {
		_, err := redis_rate.NewLimiter(c.rdb).Allow(ctx, "x", redis_rate.PerSecond(1_000_000))
		return err
	}},
	{"Allow of a TokenBucket", func(ctx context.Context, c *client, _ int) error {
		_, err := c.bucket.Allow(ctx)
		return err
	}},
	{"Allow of a FixedWindow", func(ctx context.Context, c *client, _ int) error {
		_, err := c.window.Allow(ctx)
		return err
	}},
	{"Obtain and Release of redislock", func(ctx context.Context, c *client, _ int) error {
		lock, err := redislock.New(c.rdb).Obtain(ctx, "redislock", time.Minute, nil)
		if err != nil {
			return err
		}
		return lock.Release(ctx)
	}},
	{"Lock and Unlock", func(ctx context.Context, c *client, _ int) error {
		held, err := c.lock.Lock(ctx)
		if err != nil {
			return err
		}
		return held.Unlock(ctx)
	}},
	{"RPush, spread list", func(ctx context.Context, c *client, _ int) error {
		_, err := c.spread.RPush(ctx, value)
		return err
	}},
	{"LPop, spread list", func(ctx context.Context, c *client, _ int) error {
		_, err := c.spread.LPop(ctx)
		return err
	}},
	{"LIndex", func(ctx context.Context, c *client, _ int) error {
		_, err := c.list.LIndex(ctx, 700)
		return err
	}},
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("instructions", flag.ContinueOnError)
	calls := flags.Int("calls", 2000, "`number` of calls of each operation")
	only := flags.String("only", "", "a regular `expression` for the names of operations")
	program := flags.String("redis-server", "redis-server", "the server `program`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, o := range operations {
		if !wanted.MatchString(o.name) {
			continue
		}
		few, err := count(ctx, *program, o, *calls/10)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		many, err := count(ctx, *program, o, *calls+*calls/10)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		fmt.Fprintf(table, "%d\t%s\n", (many-few)/int64(*calls), o.name)
	}
	return table.Flush()
}

var collected = regexp.MustCompile(`Collected : (\d+)`)

// count returns the number of instructions of a server that serves that many calls.
func count(ctx context.Context, program string, o operation, calls int) (instructions int64, err error) {
	dir, err := os.MkdirTemp("", "shardedlist-instructions-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	port, err := freePort()
	if err != nil {
		return 0, err
	}
	server := exec.CommandContext(ctx, "valgrind", "--tool=callgrind", "--callgrind-out-file="+filepath.Join(dir, "out"),
		program, "--port", port, "--save", "", "--hz", "1", "--dir", dir)
	var log strings.Builder
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		return 0, err
	}
	err = serve(ctx, "127.0.0.1:"+port, o, calls)
	_ = server.Process.Signal(os.Interrupt)
	if waited := server.Wait(); err == nil {
		err = waited
	}
	if err != nil {
		return 0, fmt.Errorf("%w\n%s", err, log.String())
	}
	found := collected.FindStringSubmatch(log.String())
	if found == nil {
		return 0, fmt.Errorf("callgrind has not said how much it has collected:\n%s", log.String())
	}
	return strconv.ParseInt(found[1], 10, 64)
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

// serve calls the operation, once the server answers and the list has elements.
func serve(ctx context.Context, addr string, o operation, calls int) error {
	c := &client{rdb: redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: -1}), hooked: redis.NewClient(&redis.Options{Addr: addr, ReadTimeout: -1})}
	defer func() { _, _ = c.rdb.Close(), c.hooked.Close() }()
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = c.rdb.Ping(ctx).Err(); err == nil {
			break
		}
	}
	if err != nil {
		return err
	}
	c.hooked.AddHook(shardedlist.NewHook(c.hooked, func(string) bool { return true }))
	if c.list, err = shardedlist.New(c.rdb, "jobs"); err != nil {
		return err
	}
	if c.other, err = shardedlist.New(c.rdb, "other"); err != nil {
		return err
	}
	if c.spread, err = shardedlist.New(c.rdb, "spread", shardedlist.WithParts(4)); err != nil {
		return err
	}
	if c.bucket, err = limit.NewTokenBucket(c.rdb, "bucket", 1_000_000, time.Second, 1_000_000); err != nil {
		return err
	}
	if c.window, err = limit.NewFixedWindow(c.rdb, "window", 1_000_000, time.Hour); err != nil {
		return err
	}
	if c.lock, err = limit.NewLock(c.rdb, "lock", time.Minute); err != nil {
		return err
	}
	values := make([]any, 30_000)
	for i := range values {
		values[i] = value
	}
	if _, err := c.list.RPush(ctx, values...); err != nil {
		return err
	}
	if err := c.hooked.RPush(ctx, "long", values[:1000]...).Err(); err != nil {
		return err
	}
	if _, err := c.spread.RPush(ctx, values[:3000]...); err != nil {
		return err
	}
	for i := range calls {
		if err := o.call(ctx, c, i); err != nil {
			return err
		}
	}
	return nil
}
