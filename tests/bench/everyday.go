package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
)

// everyday is one call, pipeline or transaction on lists of 1,000 elements, whose length stays about the same.
type everyday struct {
	name    string
	cpu     float64 // the most that the server may take, as a multiple of what a plain list takes; 0 for no goal
	process func(ctx context.Context, rdb *redis.Client, list func(i int) string) error
}

// alone is a call of one command.
func alone(do func(ctx context.Context, rdb *redis.Client, key string) error) func(context.Context, *redis.Client, func(int) string) error {
	return func(ctx context.Context, rdb *redis.Client, list func(int) string) error {
		return do(ctx, rdb, list(0))
	}
}

// batched is a pipeline, or a transaction, of some commands.
func batched(atomic bool, queue func(ctx context.Context, pipe redis.Pipeliner, list func(i int) string)) func(context.Context, *redis.Client, func(int) string) error {
	return func(ctx context.Context, rdb *redis.Client, list func(int) string) error {
		run := rdb.Pipelined
		if atomic {
			run = rdb.TxPipelined
		}
		_, err := run(ctx, func(pipe redis.Pipeliner) error {
			queue(ctx, pipe, list)
			return nil
		})
		return err
	}
}

var everydayCalls = []everyday{
	{"`RPUSH`, `LPOP`", 0, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		if err := rdb.RPush(ctx, key, text(40)).Err(); err != nil {
			return err
		}
		return rdb.LPop(ctx, key).Err()
	})},
	{"`LLEN`", 2.2, alone(func(ctx context.Context, rdb *redis.Client, key string) error { return rdb.LLen(ctx, key).Err() })},
	{"`LINDEX -1`", 2.2, alone(func(ctx context.Context, rdb *redis.Client, key string) error { return rdb.LIndex(ctx, key, -1).Err() })},
	{"`TTL`", 2.2, alone(func(ctx context.Context, rdb *redis.Client, key string) error { return rdb.TTL(ctx, key).Err() })},
	{"`EXISTS`", 2.2, alone(func(ctx context.Context, rdb *redis.Client, key string) error { return rdb.Exists(ctx, key).Err() })},
	{"`TYPE`", 2.2, alone(func(ctx context.Context, rdb *redis.Client, key string) error { return rdb.Type(ctx, key).Err() })},
	{"`LRANGE 0 9`", 2.6, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.LRange(ctx, key, 0, 9).Err()
	})},
	{"`LSET`", 3.5, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.LSet(ctx, key, 5, "value").Err()
	})},
	{"`LTRIM`", 3.5, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.LTrim(ctx, key, 0, 999).Err()
	})},
	{"`LREM` of none", 3.5, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.LRem(ctx, key, 1, "none").Err()
	})},
	{"`EXPIRE`", 3.5, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.Expire(ctx, key, time.Hour).Err()
	})},
	{"`LMOVE`", 4.5, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.LMove(ctx, key, key, "LEFT", "RIGHT").Err()
	})},
	{"`RPOPLPUSH`", 4.5, alone(func(ctx context.Context, rdb *redis.Client, key string) error {
		return rdb.RPopLPush(ctx, key, key).Err()
	})},
	{"pipeline `LPUSH` `LTRIM`", 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, list func(int) string) {
		pipe.LPush(ctx, list(0), text(40))
		pipe.LTrim(ctx, list(0), 0, 999)
	})},
	{"pipeline `LPOP` `RPUSH` `EXPIRE`", 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, list func(int) string) {
		pipe.LPop(ctx, list(0))
		pipe.RPush(ctx, list(0), text(40))
		pipe.Expire(ctx, list(0), time.Hour)
	})},
	{"pipeline of `LLEN` of ten lists", 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, list func(int) string) {
		for i := range 10 {
			pipe.LLen(ctx, list(i))
		}
	})},
	{"pipeline of `RPUSH` and `LPOP` of ten lists", 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, list func(int) string) {
		for i := range 10 {
			pipe.RPush(ctx, list(i), text(40))
			pipe.LPop(ctx, list(i))
		}
	})},
	{"`MULTI SET RPUSH LPOP EXEC`", 4, batched(true, func(ctx context.Context, pipe redis.Pipeliner, list func(int) string) {
		pipe.Set(ctx, "key", "value", 0)
		pipe.RPush(ctx, list(0), text(40))
		pipe.LPop(ctx, list(0))
	})},
	{"`MULTI LRANGE LTRIM EXEC`", 4, batched(true, func(ctx context.Context, pipe redis.Pipeliner, list func(int) string) {
		pipe.LRange(ctx, list(0), 0, 9)
		pipe.LTrim(ctx, list(0), 0, 999)
	})},
	{"pipeline of 100 `GET` of other keys", 1.05, batched(false, func(ctx context.Context, pipe redis.Pipeliner, _ func(int) string) {
		for range 100 {
			pipe.Get(ctx, "other")
		}
	})},
}

type everydayFigures struct {
	Name    string  `json:"name"`
	Callers int     `json:"callers"`
	Goal    float64 `json:"goal,omitempty"`
	Plain   figures `json:"plain"`
	Sharded figures `json:"sharded"`
	BytesOf float64 `json:"bytes_of_plain"` // to the server, for each call
	Bytes   float64 `json:"bytes"`
}

// everyday measures each call through the hook, and by plain go-redis, in turn.
func (b *bench) everyday(ctx context.Context) error {
	hooked, plain := b.server.client(), b.server.client()
	defer func() { _, _ = hooked.Close(), plain.Close() }()
	hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("sharded:*")))
	if err := plain.Set(ctx, "other", "value", 0).Err(); err != nil {
		return err
	}
	lists := func(prefix string, caller int) func(i int) string {
		return func(i int) string { return fmt.Sprint(prefix, caller, ":", i) }
	}
	for caller := range 8 {
		for i := range 10 {
			for prefix, rdb := range map[string]*redis.Client{"plain:": plain, "sharded:": hooked} {
				if err := rdb.RPush(ctx, lists(prefix, caller)(i), anyOf(repeat(text(40), 1000))...).Err(); err != nil {
					return err
				}
			}
		}
	}
	for _, callers := range []int{1, 8} {
		for _, call := range everydayCalls {
			bytes := [2]float64{}
			medians, err := b.medians(2, func(at, _ int) ([]figures, error) {
				rdb, prefix := plain, "plain:"
				if at == 1 {
					rdb, prefix = hooked, "sharded:"
				}
				free := make(chan int, callers) // the lists that no caller uses
				for caller := range callers {
					free <- caller
				}
				before, err := b.server.number(ctx, "stats", "total_net_input_bytes")
				if err != nil {
					return nil, err
				}
				f, err := load(ctx, b.server, callers, pick(b, 50*time.Millisecond, 500*time.Millisecond), func(ctx context.Context) error {
					caller := <-free
					defer func() { free <- caller }()
					return call.process(ctx, rdb, lists(prefix, caller))
				})
				if err != nil {
					return nil, err
				}
				after, err := b.server.number(ctx, "stats", "total_net_input_bytes")
				bytes[at] = (after - before) / (f.Ops * pick(b, 0.05, 0.5))
				return []figures{f}, err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", call.name, err)
			}
			b.results.Everyday = append(b.results.Everyday,
				everydayFigures{call.name, callers, call.cpu, medians[0][0], medians[1][0], bytes[0], bytes[1]})
		}
	}
	return nil
}

func (r *report) everyday(rows []everydayFigures) {
	r.section("Everyday calls", `Calls through the hook and by plain go-redis in turn, on lists of 1,000 elements of 40 bytes. *Time* is that of a call, and *CPU* the server's for
it, as multiples of plain go-redis; *bytes* are those to the server.`)
	t := r.table("", "callers", "call", "plain", "hook", "time", "CPU, plain", "CPU, hook", "CPU", "bytes, plain", "bytes, hook")
	for _, e := range rows {
		cpu := float64(e.Sharded.CPU) / float64(e.Plain.CPU)
		t.row(count(e.Callers), e.Name, micros(e.Plain.P50), micros(e.Sharded.P50), times(e.Plain.Ops/e.Sharded.Ops), micros(e.Plain.CPU), micros(e.Sharded.CPU),
			times(cpu), count(e.BytesOf), count(e.Bytes))
		if e.Goal > 0 && e.Callers == 1 {
			r.target("Server CPU of "+e.Name, fmt.Sprintf("≤ %.2f×", e.Goal), times(cpu), cpu <= e.Goal)
		}
	}
}
