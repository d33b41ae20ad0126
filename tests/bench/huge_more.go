package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// hugeStep is an operation that has no plain counterpart.
type hugeStep struct {
	name string
	run  func() error
}

// hugeSteps measures operations, each once.
func (b *bench) hugeSteps(steps []hugeStep) (rows []hugeRow, err error) {
	for _, s := range steps {
		figures, err := measureHuge(1, func(int) error { return s.run() }, b.server)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		rows = append(rows, hugeRow{Name: s.name, Own: figures})
		tick()
	}
	return rows, nil
}

// hugeTools measures what the command line and the page do with a list, and then damages and mends it.
func (b *bench) hugeTools(ctx context.Context, l *shardedlist.ShardedList) ([]hugeRow, error) {
	dir, err := os.MkdirTemp("", "shardedlist-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "shardedlist")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/shardedlist")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	command := func(args string) hugeStep {
		return hugeStep{"`shardedlist " + args + "`", func() error {
			cmd := exec.CommandContext(ctx, program, append(strings.Fields(args), "--redis", b.server.addr)...)
			var stderr strings.Builder
			cmd.Stderr = &stderr // what it prints is not kept: it may be the whole list
			if err := cmd.Run(); err != nil && stderr.Len() > 0 {
				return fmt.Errorf("%w: %s", err, stderr.String())
			}
			return nil // doctor found something
		}}
	}
	name := l.Name()
	steps := []hugeStep{
		command("ls"), command("top --count 1"), command("info " + name), command("check " + name), command("doctor"),
		command("lrange " + name + " 0 -1"), command("object encoding " + name), command("functions"),
	}
	web := exec.CommandContext(ctx, program, "web", "--listen", "127.0.0.1:0", "--redis", b.server.addr)
	page := ""
	steps = append(steps,
		hugeStep{"the page, until it lists all", func() error {
			out, err := web.StdoutPipe()
			if err == nil {
				err = web.Start()
			}
			if err != nil {
				return err
			}
			page, err = bufio.NewReader(out).ReadString('\n')
			page = strings.TrimSpace(page)
			for err == nil {
				metrics := ""
				if metrics, err = get(ctx, page+"/metrics"); strings.Contains(metrics, `shardedlist_list_length{list="`+name+`"}`) {
					break
				}
				err = errors.Join(err, sleep(ctx, 50*time.Millisecond))
			}
			return err
		}},
		hugeStep{"the page of the list, with its last elements", func() error {
			_, err := get(ctx, page+"/api/list?name="+name)
			if err == nil {
				_, err = get(ctx, page+"/api/elements?start=-50&count=50&name="+name)
			}
			return err
		}},
	)
	defer func() {
		if web.Process != nil {
			_ = web.Process.Kill()
			_ = web.Wait()
		}
	}()
	repair := func() error {
		report, err := l.Repair(ctx, shardedlist.RepairOptions{})
		if err == nil && len(report) == 0 {
			err = errors.New("there was nothing to mend")
		}
		return err
	}
	rows, err := b.hugeSteps(steps)
	if err != nil {
		return nil, err
	}
	for _, damage := range []struct {
		name string
		do   func() (int64, error)
	}{
		{"`Repair` of a lost meta", func() (int64, error) { return b.server.control.Del(ctx, "{"+name+"}:meta").Result() }},
		{"`Repair` of a gap in the middle", func() (int64, error) {
			info, err := l.Info(ctx)
			if err != nil {
				return 0, err
			}
			layout, err := b.server.control.HGet(ctx, "{"+name+"}:meta", "layout").Result()
			if err != nil {
				return 0, err
			}
			shards := layout[strings.LastIndexByte(layout, ' ')+1:]
			return b.server.control.Del(ctx, fmt.Sprintf("{%s}:%s:%d", name, shards, (info.First+info.Last)/2)).Result()
		}},
	} {
		if n, err := damage.do(); err != nil || n != 1 {
			return nil, fmt.Errorf("%s: %d keys were deleted: %w", damage.name, n, err)
		}
		more, err := b.hugeSteps([]hugeStep{{damage.name, repair}})
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
	}
	return rows, nil
}

// get returns what a page has.
func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer reply.Body.Close()
	body, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", reply.Status, body)
	}
	return string(body), err
}

// hugeMethodsOf are the methods of a list with so many elements, of which the last deletes it. value returns the element of a number.
func hugeMethodsOf(ctx context.Context, rdb *redis.Client, l *shardedlist.ShardedList, length int64, value func(n int64) string, spread bool) []hugeStep {
	const page = 10
	ignore := func(_ any, err error) error { return notNil(err) }
	steps := []hugeStep{
		{"`RPush`", func() error { return ignore(l.RPush(ctx, value(length))) }},
		{"`LPop`", func() error { return ignore(l.LPop(ctx)) }},
		{"`LPopCount` of 10", func() error { return ignore(l.LPopCount(ctx, page)) }},
		{"`LLen`", func() error { return ignore(l.LLen(ctx)) }},
		{"`LIndex` of the middle", func() error { return ignore(l.LIndex(ctx, length/2)) }},
		{"`LRange` of 10 in the middle", func() error { return ignore(l.LRange(ctx, length/2, length/2+page-1)) }},
		{"`LSet` of the middle", func() error { return l.LSet(ctx, length/2, value(length+1)) }},
		{"`LPos` of none", func() error { return ignore(l.LPos(ctx, "none", redis.LPosArgs{})) }},
		{"`LPos` of the last", func() error { return ignore(l.LPos(ctx, value(length), redis.LPosArgs{})) }},
	}
	if !spread {
		steps = append(steps,
			hugeStep{"`LRem` of one in the middle", func() error { return ignore(l.LRem(ctx, 1, value(length/2+5))) }},
			hugeStep{"`LInsertAfter` the middle", func() error { return ignore(l.LInsertAfter(ctx, value(length/2+9), "new")) }},
			hugeStep{"`Rename`", func() error {
				renamed := sharded(rdb, l.Name()+"2")
				if err := l.Rename(ctx, renamed.Name()); err != nil {
					return err
				}
				return renamed.Rename(ctx, l.Name())
			}},
			hugeStep{"`Copy`", func() error { return ignore(l.Copy(ctx, l.Name()+"2", true)) }},
			hugeStep{"`Del` of the copy", func() error { return ignore(sharded(rdb, l.Name()+"2").Del(ctx)) }},
			hugeStep{"`LTrim` by a tenth", func() error { return l.LTrim(ctx, length/10, -1) }},
			hugeStep{"`Restore`", func() error { return l.Restore(ctx, nil) }},
			hugeStep{"`Adopt`", func() error { return l.Adopt(ctx, nil) }},
		)
	}
	return append(steps,
		hugeStep{"`Expire` and `Persist`", func() error {
			if _, err := l.Expire(ctx, time.Hour); err != nil {
				return err
			}
			return ignore(l.Persist(ctx))
		}},
		hugeStep{"`All`, as far as it gets in a second", func() error {
			start := time.Now()
			for _, err := range l.All(ctx) {
				if err != nil || time.Since(start) > time.Second {
					return err
				}
			}
			return nil
		}},
		hugeStep{"`Info`", func() error { return ignore(l.Info(ctx)) }},
		hugeStep{"`Check`", func() error { return l.Check(ctx) }},
		hugeStep{"`Repair` of nothing", func() error { return ignore(l.Repair(ctx, shardedlist.RepairOptions{})) }},
		hugeStep{"`Del`", func() error { return ignore(l.Del(ctx)) }},
	)
}

// hugeSpread measures the methods of a list over many slots.
func (b *bench) hugeSpread(ctx context.Context, rdb *redis.Client, elements int) ([]hugeRow, error) {
	l := sharded(rdb, "spread", shardedlist.WithParts(16))
	const each = 1000
	values := make([]any, each)
	for from := 0; from < elements; from += each {
		for i := range values {
			values[i] = hugeElement(from + i)
		}
		if _, err := l.RPush(ctx, values...); err != nil {
			return nil, err
		}
	}
	tick()
	return b.hugeSteps(hugeMethodsOf(ctx, rdb, l, int64(elements), func(n int64) string { return hugeElement(int(n)) }, true))
}

// hugeLarge measures the methods of a list whose elements have a megabyte.
func (b *bench) hugeLarge(ctx context.Context, rdb *redis.Client, elements int) ([]hugeRow, error) {
	l := sharded(rdb, "large")
	ballast := strings.Repeat("x", 1<<20)
	value := func(n int64) string { return hugeElement(int(n)) + ballast }
	for n := range int64(elements) {
		if _, err := l.RPush(ctx, value(n)); err != nil {
			return nil, err
		}
	}
	tick()
	return b.hugeSteps(hugeMethodsOf(ctx, rdb, l, int64(elements), value, false))
}
