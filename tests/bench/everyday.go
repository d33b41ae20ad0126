package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// everyday is one call, pipeline or transaction on lists of 1,000 elements, whose length stays about the same.
type everyday struct {
	name    string
	cpu     float64 // the most that the server may take, as a multiple of what a plain list takes; 0 for no goal
	process func(ctx context.Context, rdb redis.UniversalClient, list func(i int) string) error
}

// alone is a call of one command.
func alone(do func(ctx context.Context, rdb redis.UniversalClient, key string) error) func(context.Context, redis.UniversalClient, func(int) string) error {
	return func(ctx context.Context, rdb redis.UniversalClient, list func(int) string) error {
		return do(ctx, rdb, list(0))
	}
}

// batched is a pipeline, or a transaction, of some commands.
func batched(atomic bool, queue func(ctx context.Context, pipe redis.Pipeliner, list func(i int) string)) func(context.Context, redis.UniversalClient, func(int) string) error {
	return func(ctx context.Context, rdb redis.UniversalClient, list func(int) string) error {
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
	{"`RPUSH`, `LPOP`", 0, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		if err := rdb.RPush(ctx, key, text(40)).Err(); err != nil {
			return err
		}
		return rdb.LPop(ctx, key).Err()
	})},
	{"`LLEN`", 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LLen(ctx, key).Err()
	})},
	{"`LINDEX -1`", 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LIndex(ctx, key, -1).Err()
	})},
	{"`TTL`", 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error { return rdb.TTL(ctx, key).Err() })},
	{"`EXISTS`", 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.Exists(ctx, key).Err()
	})},
	{"`TYPE`", 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.Type(ctx, key).Err()
	})},
	{"`LRANGE 0 9`", 2.6, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LRange(ctx, key, 0, 9).Err()
	})},
	{"`LRANGE -1 -1`", 2.6, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LRange(ctx, key, -1, -1).Err()
	})},
	{"`LSET`", 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LSet(ctx, key, 5, "value").Err()
	})},
	{"`LTRIM`", 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LTrim(ctx, key, 0, 999).Err()
	})},
	{"`LREM` of none", 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LRem(ctx, key, 1, "none").Err()
	})},
	{"`EXPIRE`", 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.Expire(ctx, key, time.Hour).Err()
	})},
	{"`LMOVE`", 4.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LMove(ctx, key, key, "LEFT", "RIGHT").Err()
	})},
	{"`RPOPLPUSH`", 4.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
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
		pipe.Set(ctx, "{"+list(0)+"}:key", "value", 0) // in the slot of the list
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
	Place   string  `json:"place,omitempty"`
	Name    string  `json:"name"`
	Callers int     `json:"callers"`
	Goal    float64 `json:"goal,omitempty"`
	Plain   figures `json:"plain"`
	Sharded figures `json:"sharded"`
	BytesOf float64 `json:"bytes_of_plain"` // to the servers, for each call
	Bytes   float64 `json:"bytes"`
}

// everyday measures each call through the hook, and by plain go-redis, in turn.
func (b *bench) everyday(ctx context.Context) error {
	return b.inEachPlace(ctx, func(p *place) error {
		if err := p.fillEveryday(ctx); err != nil {
			return err
		}
		for _, callers := range []int{1, mostCallers} {
			for _, call := range everydayCalls {
				if err := b.everydayCall(ctx, p, call, callers); err != nil {
					return fmt.Errorf("%s: %w", call.name, err)
				}
			}
		}
		return nil
	})
}

const mostCallers = 8

// listsOf names the lists of a caller.
func listsOf(prefix string, caller int) func(i int) string {
	return func(i int) string { return fmt.Sprint(prefix, caller, ":", i) }
}

// fillEveryday makes all lists.
func (p *place) fillEveryday(ctx context.Context) error {
	if err := errors.Join(p.clear(ctx), p.plain.Set(ctx, "other", "value", 0).Err()); err != nil {
		return err
	}
	values := anyOf(repeat(text(40), 1000))
	for at := range 2 {
		rdb, prefix := p.client(at)
		for caller := range mostCallers {
			for i := range 10 {
				if err := rdb.RPush(ctx, listsOf(prefix, caller)(i), values...).Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) everydayCall(ctx context.Context, p *place, call everyday, callers int) error {
	bytes := [2]float64{}
	medians, err := b.medians(2, func(at, _ int) ([]figures, error) {
		rdb, prefix := p.client(at)
		free := make(chan int, callers) // the lists that no caller uses
		for caller := range callers {
			free <- caller
		}
		before, err := p.input(ctx)
		if err != nil {
			return nil, err
		}
		f, err := load(ctx, p, callers, pick(b, 50*time.Millisecond, 500*time.Millisecond), func(ctx context.Context) error {
			caller := <-free
			defer func() { free <- caller }()
			return call.process(ctx, rdb, listsOf(prefix, caller))
		})
		if err != nil {
			return nil, err
		}
		after, err := p.input(ctx)
		bytes[at] = (after - before) / (f.Ops * pick(b, 0.05, 0.5))
		return []figures{f}, err
	})
	b.results.Everyday = append(b.results.Everyday,
		everydayFigures{p.name, call.name, callers, call.cpu, medians[0][0], medians[1][0], bytes[0], bytes[1]})
	return err
}

func (r *report) everyday(rows []everydayFigures) {
	r.section("Everyday calls", `Calls through the hook and by plain go-redis in turn, on lists of 1,000 elements of 40 bytes. *Time* is that of a call, and *CPU* the server's for
it, as multiples of plain go-redis; *bytes* are those to the server.`)
	var t *table
	for i, e := range rows {
		if i == 0 || e.Place != rows[i-1].Place {
			t = r.table(e.Place, "callers", "call", "plain", "hook", "time", "CPU, plain", "CPU, hook", "CPU", "bytes, plain", "bytes, hook")
		}
		cpu, rate := float64(e.Sharded.CPU)/float64(e.Plain.CPU), e.Sharded.Ops/e.Plain.Ops
		t.row(count(e.Callers), e.Name, micros(e.Plain.P50), micros(e.Sharded.P50), times(1/rate), micros(e.Plain.CPU), micros(e.Sharded.CPU),
			times(cpu), count(e.BytesOf), count(e.Bytes))
		if e.Goal > 0 && e.Callers == 1 && (e.Place == "" || e.Place == across && strings.Contains(e.Name, "of ten lists")) {
			r.target(strings.TrimSuffix("Server CPU of "+e.Name+", "+e.Place, ", "), fmt.Sprintf("≤ %.2f×", e.Goal), times(cpu), cpu <= e.Goal)
		}
		if e.Callers == 1 && e.Place == across && strings.Contains(e.Name, "of ten lists") {
			r.target("Rate of "+e.Name+", "+e.Place, "≥ 0.40×", times(rate), rate >= 0.4)
		}
	}
}
