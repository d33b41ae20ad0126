package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// hugeResult has, for each operation on a list of ten million elements, how long it took and how long another client waited meanwhile.
type hugeResult struct {
	Machine  string    `json:"machine"`
	Elements int       `json:"elements"`
	Idle     hugeTime  `json:"idle"`
	Rows     []hugeRow `json:"rows"`
	Busy     []hugeRow `json:"beside_traffic"`
	Rate     float64   `json:"traffic_calls_a_second"`
	Tools    []hugeRow `json:"tools"`
	Spread   []hugeRow `json:"spread"`
	Large    []hugeRow `json:"large"`
}

// hugeRow is an operation. Plain is the same command on the plain list, if there is one.
type hugeRow struct {
	Name  string    `json:"name"`
	Own   hugeTime  `json:"shardedlist"`
	Plain *hugeTime `json:"plain,omitempty"`
}

// hugeTime are medians.
type hugeTime struct {
	Took  time.Duration `json:"took_ns"`
	Stall time.Duration `json:"longest_ping_ns"`
}

// hugeElement is the element of that number: short ones, so that shards have as many as they may.
func hugeElement(n int) string { return fmt.Sprintf("job:%08d", n) }

// hugeCommand is a command on a list, whose name is the same for a plain list and through the hook. i is the number of the run.
type hugeCommand struct {
	name string
	run  func(ctx context.Context, rdb *redis.Client, key string, i int) error
	once bool // it cannot be repeated on the same list

	searches bool // it can be repeated in any list of these elements
}

func hugeCommands(elements int) []hugeCommand {
	middle, last := int64(elements/2), elements-100_000
	return []hugeCommand{
		{name: "`RPUSH`", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.RPush(ctx, key, "new").Err()
		}},
		{name: "`LPOP`", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error { return rdb.LPop(ctx, key).Err() }},
		{name: "`RPOP` of 1,000", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.RPopCount(ctx, key, 1000).Err()
		}},
		{name: "`LMPOP` of 1,000", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.LMPop(ctx, "left", 1000, key).Err()
		}},
		{name: "`RPOPLPUSH` onto itself", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.RPopLPush(ctx, key, key).Err()
		}},
		{name: "`LLEN`", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error { return rdb.LLen(ctx, key).Err() }},
		{name: "`LINDEX` of the middle", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.LIndex(ctx, key, middle).Err()
		}},
		{name: "`LRANGE` of 1,000 in the middle", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.LRange(ctx, key, middle, middle+999).Err()
		}},
		{name: "`LSET` of the middle", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.LSet(ctx, key, middle, "new").Err()
		}},
		{name: "`LPOS` near the right end", searches: true, run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.LPos(ctx, key, hugeElement(last), redis.LPosArgs{}).Err()
		}},
		{name: "`LPOS` of none", searches: true, run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return notNil(rdb.LPos(ctx, key, "none", redis.LPosArgs{}).Err())
		}},
		{name: "`LREM` of none", searches: true, run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.LRem(ctx, key, 0, "none").Err()
		}},
		{name: "`LREM` of one in the middle", searches: true, run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return removed(rdb.LRem(ctx, key, 0, hugeElement(elements/2+10+i)))
		}},
		{name: "`LINSERT` near the right end", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return removed(rdb.LInsertAfter(ctx, key, hugeElement(last), "new"))
		}},
		{name: "`LINSERT` in the middle", searches: true, run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return removed(rdb.LInsertAfter(ctx, key, hugeElement(elements/2+100), "new"))
		}},
		{name: "`EXPIRE` and `PERSIST`", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			if err := rdb.Expire(ctx, key, time.Hour).Err(); err != nil {
				return err
			}
			return rdb.Persist(ctx, key).Err()
		}},
		{name: "`TYPE`, `TTL`, `OBJECT ENCODING`", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			if err := rdb.Type(ctx, key).Err(); err != nil {
				return err
			}
			if err := rdb.TTL(ctx, key).Err(); err != nil {
				return err
			}
			return rdb.ObjectEncoding(ctx, key).Err()
		}},
		{name: "`MEMORY USAGE`", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.MemoryUsage(ctx, key).Err()
		}},
		{name: "`RENAME` to and fro", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			if err := rdb.Rename(ctx, key, key+"2").Err(); err != nil {
				return err
			}
			return rdb.Rename(ctx, key+"2", key).Err()
		}},
		{name: "`COPY`", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.Copy(ctx, key, key+"2", 0, true).Err()
		}, once: true},
		{name: "`DEL` of the copy", run: func(ctx context.Context, rdb *redis.Client, key string, i int) error {
			return rdb.Del(ctx, key+"2").Err()
		}, once: true},
	}
}

func notNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

// removed requires that a command has found what it looked for.
func removed(cmd *redis.IntCmd) error {
	n, err := cmd.Result()
	if err == nil && n <= 0 {
		err = fmt.Errorf("%v found nothing", cmd)
	}
	return err
}

// hugeMethods are those that are no commands.
func hugeMethods() []struct {
	name string
	run  func(ctx context.Context, l *shardedlist.ShardedList) error
} {
	return []struct {
		name string
		run  func(ctx context.Context, l *shardedlist.ShardedList) error
	}{
		{"`Info`", func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.Info(ctx); return err }},
		{"`Check`", func(ctx context.Context, l *shardedlist.ShardedList) error { return l.Check(ctx) }},
		{"`All`, as far as it gets in a second", func(ctx context.Context, l *shardedlist.ShardedList) error {
			start := time.Now()
			for _, err := range l.All(ctx) {
				if err != nil || time.Since(start) > time.Second {
					return err
				}
			}
			return nil
		}},
		{"`LTrim` to the middle third", func(ctx context.Context, l *shardedlist.ShardedList) error {
			n, err := l.LLen(ctx)
			if err == nil {
				err = l.LTrim(ctx, n/3, 2*n/3)
			}
			return err
		}},
		{"`Restore`", func(ctx context.Context, l *shardedlist.ShardedList) error { return l.Restore(ctx, nil) }},
		{"`Adopt`", func(ctx context.Context, l *shardedlist.ShardedList) error { return l.Adopt(ctx, nil) }},
		{"`Del`", func(ctx context.Context, l *shardedlist.ShardedList) error { _, err := l.Del(ctx); return err }},
	}
}

// huge runs every command on a list of ten million elements beside a client that pings.
func (b *bench) huge(ctx context.Context) error {
	r := &hugeResult{Machine: b.results.Machine, Elements: pick(b, 300_000, 10_000_000)}
	hooked := redis.NewClient(&redis.Options{Addr: b.server.addr, ReadTimeout: time.Minute, MaxRetries: -1})
	defer hooked.Close()
	hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("sharded*")))
	plain := redis.NewClient(&redis.Options{Addr: b.server.addr, ReadTimeout: time.Minute, MaxRetries: -1})
	defer plain.Close()
	runs := pick(b, 1, 5)
	idle, err := measureHuge(runs, func(int) error { return sleep(ctx, 300*time.Millisecond) }, b.server)
	if err != nil {
		return err
	}
	r.Idle = idle
	const key = "sharded"
	for _, c := range hugeCommands(r.Elements) {
		r.Rows = append(r.Rows, hugeRow{Name: c.name})
	}
	for _, side := range []struct {
		rdb *redis.Client
		key string
	}{{plain, "plain"}, {hooked, key}} {
		if err := fillNumbers(ctx, side.rdb, side.key, r.Elements); err != nil {
			return err
		}
		tick()
		for i, c := range hugeCommands(r.Elements) {
			times := pick(b, 1, runs)
			if c.once {
				times = 1
			}
			figures, err := measureHuge(times, func(i int) error { return c.run(ctx, side.rdb, side.key, i) }, b.server)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			if side.key == key {
				r.Rows[i].Own = figures
			} else {
				r.Rows[i].Plain = &figures
			}
			tick()
		}
		if side.key != key {
			if err := b.server.clear(ctx); err != nil {
				return err
			}
		}
	}
	if err := r.besideTraffic(ctx, b, hooked, key); err != nil {
		return err
	}
	l := sharded(plain, key)
	if r.Tools, err = b.hugeTools(ctx, l); err != nil {
		return err
	}
	for _, m := range hugeMethods() {
		figures, err := measureHuge(1, func(int) error { return m.run(ctx, l) }, b.server)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		r.Rows = append(r.Rows, hugeRow{Name: m.name, Own: figures})
		tick()
	}
	if r.Spread, err = b.hugeSpread(ctx, plain, r.Elements); err != nil {
		return fmt.Errorf("spread: %w", err)
	}
	if r.Large, err = b.hugeLarge(ctx, plain, pick(b, 50, 1000)); err != nil {
		return fmt.Errorf("large: %w", err)
	}
	b.results.Huge = r
	return nil
}

// besideTraffic measures the commands that search while others push and pop.
func (r *hugeResult) besideTraffic(ctx context.Context, b *bench, rdb *redis.Client, key string) error {
	const every, each = 5 * time.Millisecond, 50 // pushes, and as many pops
	stop, ended := make(chan struct{}), make(chan error, 1)
	calls, start := 0, time.Now()
	go func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				ended <- nil
				return
			case <-ticker.C:
			}
			pipe := rdb.Pipeline()
			for range each {
				pipe.RPush(ctx, key, "traffic")
				pipe.LPop(ctx, key)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				ended <- err
				return
			}
			calls += 2 * each
		}
	}()
	for _, c := range hugeCommands(r.Elements) {
		if !c.searches {
			continue
		}
		figures, err := measureHuge(pick(b, 1, b.runs+2), func(i int) error { return c.run(ctx, rdb, key, i+100) }, b.server)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.Busy = append(r.Busy, hugeRow{Name: c.name, Own: figures})
		tick()
	}
	close(stop)
	err := <-ended
	r.Rate = float64(calls) / time.Since(start).Seconds()
	return err
}

// measureHuge returns the medians of several runs.
func measureHuge(runs int, do func(i int) error, s *server) (hugeTime, error) {
	var took, seen []time.Duration
	for i := range runs {
		var t time.Duration
		longest, err := stall(timed(&t, func() error { return do(i) }), s)
		if err != nil {
			return hugeTime{}, err
		}
		took, seen = append(took, t), append(seen, longest.Seen)
	}
	slices.Sort(took)
	slices.Sort(seen)
	return hugeTime{took[runs/2], seen[runs/2]}, nil
}

// fillNumbers pushes the elements of the numbers from 0 on.
func fillNumbers(ctx context.Context, rdb *redis.Client, key string, elements int) error {
	const each = 1000
	values := make([]any, each)
	for from := 0; from < elements; from += each {
		for i := range values {
			values[i] = hugeElement(from + i)
		}
		if err := rdb.RPush(ctx, key, values...).Err(); err != nil {
			return err
		}
	}
	return nil
}

func (r *report) huge(h *hugeResult) {
	r.section("Huge", fmt.Sprintf(`Every command on a list of %s elements of 12 bytes, through the hook, and then what is no command. Beside each, another process sends a
PING every millisecond: *waits* is the longest time until its reply. Medians of several runs; what can be done only once is done once. Nobody
calls anything: the longest wait is %s. Machine: %s.`, count(h.Elements), millis(h.Idle.Stall), h.Machine))
	plain, longest := map[string]hugeTime{}, hugeRow{}
	t := r.table("", "operation", "plain list", "waits", ours, "waits")
	for _, row := range h.Rows {
		took, waits := "", ""
		if row.Plain != nil {
			plain[row.Name] = *row.Plain
			took, waits = millis(row.Plain.Took), millis(row.Plain.Stall)
		}
		t.row(row.Name, took, waits, millis(row.Own.Took), millis(row.Own.Stall))
		if row.Plain != nil && row.Plain.Took > 10*time.Millisecond {
			r.noSlower(row, plain, 1.5, "")
		}
	}
	for _, part := range []struct {
		title string
		rows  []hugeRow
	}{
		{"The command line and the page, and mending, of the same list", h.Tools},
		{fmt.Sprintf("The same list, beside %s pushes and pops a second", count(h.Rate)), h.Busy},
		{"A list as long over 16 parts", h.Spread},
		{"A list of 1,000 elements of 1 MiB", h.Large},
	} {
		t := r.table(part.title, "operation", ours, "waits")
		for _, row := range part.rows {
			t.row(row.Name, millis(row.Own.Took), millis(row.Own.Stall))
		}
	}
	for _, row := range h.Busy {
		r.noSlower(row, plain, 3, ", beside pushes and pops")
	}
	for _, row := range slices.Concat(h.Rows, h.Tools, h.Busy, h.Spread) {
		if row.Own.Stall > longest.Own.Stall {
			longest = row
		}
	}
	const most = 10 * time.Millisecond
	r.target("Longest wait beside any operation on a huge list", "≤ "+millis(most), fmt.Sprintf("%s (%s)", millis(longest.Own.Stall), longest.Name), longest.Own.Stall <= most)
}

// noSlower adds a goal for the time of an operation on a huge list, as a multiple of that on the plain one.
func (r *report) noSlower(row hugeRow, plain map[string]hugeTime, most float64, where string) {
	ratio := float64(row.Own.Took) / float64(plain[row.Name].Took)
	r.target("Time of "+row.Name+" on a huge list"+where, fmt.Sprintf("≤ %.2f×", most), fmt.Sprintf("%.2f×", ratio), ratio <= most)
}
