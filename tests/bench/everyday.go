package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// everyday is one call, pipeline or transaction on lists whose length stays the same.
type everyday struct {
	name        string
	short, long float64 // the most that the server may take for a list of one key, and of shards, as a multiple of plain; 0 for no goal
	process     func(ctx context.Context, rdb redis.UniversalClient, l lists) error
}

// lists are those of one caller.
type lists struct {
	prefix         string
	caller, length int
}

func (l lists) name(i int) string { return fmt.Sprint(l.prefix, l.length, ":", l.caller, ":", i) }

// everydayLengths are those of short lists, and of one of some shards.
var everydayLengths = []int{3, 100, longEveryday}

const longEveryday = 10_000

// alone is a call of one command.
func alone(do func(ctx context.Context, rdb redis.UniversalClient, key string) error) func(context.Context, redis.UniversalClient, lists) error {
	return func(ctx context.Context, rdb redis.UniversalClient, l lists) error { return do(ctx, rdb, l.name(0)) }
}

// batched is a pipeline, or a transaction, of some commands.
func batched(atomic bool, queue func(ctx context.Context, pipe redis.Pipeliner, l lists)) func(context.Context, redis.UniversalClient, lists) error {
	return func(ctx context.Context, rdb redis.UniversalClient, l lists) error {
		run := rdb.Pipelined
		if atomic {
			run = rdb.TxPipelined
		}
		_, err := run(ctx, func(pipe redis.Pipeliner) error {
			queue(ctx, pipe, l)
			return nil
		})
		return err
	}
}

var everydayCalls = []everyday{
	{"`RPUSH`, `LPOP`", 2, 0, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		if err := rdb.RPush(ctx, key, text(40)).Err(); err != nil {
			return err
		}
		return rdb.LPop(ctx, key).Err()
	})},
	{"`LLEN`", 1.4, 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LLen(ctx, key).Err()
	})},
	{"`LINDEX -1`", 0, 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LIndex(ctx, key, -1).Err()
	})},
	{"`TTL`", 1.4, 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error { return rdb.TTL(ctx, key).Err() })},
	{"`EXISTS`", 1.4, 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.Exists(ctx, key).Err()
	})},
	{"`TYPE`", 1.4, 2.2, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.Type(ctx, key).Err()
	})},
	{"`LRANGE 0 9`", 1.8, 2.6, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LRange(ctx, key, 0, 9).Err()
	})},
	{"`LRANGE -1 -1`", 0, 2.6, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LRange(ctx, key, -1, -1).Err()
	})},
	{"`LSET`", 2, 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LSet(ctx, key, 1, text(40)).Err()
	})},
	{"`LTRIM`", 2, 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LTrim(ctx, key, 0, longEveryday-1).Err()
	})},
	{"`LREM` of none", 2, 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LRem(ctx, key, 1, "none").Err()
	})},
	{"`LINSERT` at none", 2, 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LInsertBefore(ctx, key, "none", "value").Err()
	})},
	{"`EXPIRE`", 2, 3.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.Expire(ctx, key, time.Hour).Err()
	})},
	{"`LMOVE`", 2.5, 4.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.LMove(ctx, key, key, "LEFT", "RIGHT").Err()
	})},
	{"`RPOPLPUSH`", 2.5, 4.5, alone(func(ctx context.Context, rdb redis.UniversalClient, key string) error {
		return rdb.RPopLPush(ctx, key, key).Err()
	})},
	{"pipeline `LPUSH` `LTRIM`", 2.8, 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, l lists) {
		pipe.LPush(ctx, l.name(0), text(40))
		pipe.LTrim(ctx, l.name(0), 0, int64(l.length-1))
	})},
	{"pipeline `LPOP` `RPUSH` `EXPIRE`", 0, 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, l lists) {
		pipe.LPop(ctx, l.name(0))
		pipe.RPush(ctx, l.name(0), text(40))
		pipe.Expire(ctx, l.name(0), time.Hour)
	})},
	{"pipeline of `LLEN` of ten lists", 0, 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, l lists) {
		for i := range 10 {
			pipe.LLen(ctx, l.name(i))
		}
	})},
	{"pipeline of `RPUSH` and `LPOP` of ten lists", 0, 4, batched(false, func(ctx context.Context, pipe redis.Pipeliner, l lists) {
		for i := range 10 {
			pipe.RPush(ctx, l.name(i), text(40))
			pipe.LPop(ctx, l.name(i))
		}
	})},
	{"`MULTI SET RPUSH LPOP EXEC`", 2.8, 4, batched(true, func(ctx context.Context, pipe redis.Pipeliner, l lists) {
		pipe.Set(ctx, "{"+l.name(0)+"}:key", "value", 0) // in the slot of the list
		pipe.RPush(ctx, l.name(0), text(40))
		pipe.LPop(ctx, l.name(0))
	})},
	{"`MULTI LRANGE LTRIM EXEC`", 2.8, 4, batched(true, func(ctx context.Context, pipe redis.Pipeliner, l lists) {
		pipe.LRange(ctx, l.name(0), 0, 9)
		pipe.LTrim(ctx, l.name(0), 0, int64(l.length-1))
	})},
	{"pipeline of 100 `GET` of other keys", 0, 1.05, batched(false, func(ctx context.Context, pipe redis.Pipeliner, _ lists) {
		for range 100 {
			pipe.Get(ctx, "other")
		}
	})},
}

type everydayFigures struct {
	Place   string  `json:"place,omitempty"`
	Length  int     `json:"length"`
	Name    string  `json:"name"`
	Callers int     `json:"callers"`
	Goal    float64 `json:"goal,omitempty"`
	Plain   figures `json:"plain"`
	Sharded figures `json:"sharded"`
	BytesOf float64 `json:"bytes_of_plain"` // to the servers, for each call
	Bytes   float64 `json:"bytes"`
}

// everyday measures each call through the hook, and by plain go-redis, in turn. Many callers and long lists are measured on one server.
func (b *bench) everyday(ctx context.Context) error {
	return b.inEachPlace(ctx, func(p *place) error {
		for _, length := range everydayLengths {
			if p.name == besides && length != everydayLengths[0] {
				continue
			}
			if err := p.fillEveryday(ctx, length); err != nil {
				return err
			}
			for _, callers := range []int{1, mostCallers} {
				for _, call := range everydayCalls {
					if callers > 1 && (p.name != "" || length != everydayLengths[1]) || p.name == across && !strings.Contains(call.name, "ten lists") {
						continue
					}
					if err := b.everydayCall(ctx, p, call, callers, length); err != nil {
						return fmt.Errorf("%s: %w", call.name, err)
					}
				}
			}
		}
		return nil
	})
}

const mostCallers = 8

// fillEveryday makes all lists.
func (p *place) fillEveryday(ctx context.Context, length int) error {
	if err := errors.Join(p.clear(ctx), p.plain.Set(ctx, "other", "value", 0).Err()); err != nil {
		return err
	}
	values := anyOf(repeat(text(40), length))
	for at := range 2 {
		rdb, prefix := p.client(at)
		for caller := range mostCallers {
			for i := range 10 {
				if err := rdb.RPush(ctx, lists{prefix, caller, length}.name(i), values...).Err(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) everydayCall(ctx context.Context, p *place, call everyday, callers, length int) error {
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
			return call.process(ctx, rdb, lists{prefix, caller, length})
		})
		if err != nil {
			return nil, err
		}
		after, err := p.input(ctx)
		bytes[at] = (after - before) / (f.Ops * pick(b, 0.05, 0.5))
		return []figures{f}, err
	})
	goal := call.short
	if length == longEveryday {
		goal = call.long
	}
	b.results.Everyday = append(b.results.Everyday,
		everydayFigures{p.name, length, call.name, callers, goal, medians[0][0], medians[1][0], bytes[0], bytes[1]})
	return err
}

func (r *report) everyday(rows []everydayFigures) {
	r.section("Everyday calls", `Calls through the hook and by plain go-redis in turn, on lists of so many elements of 40 bytes: of 3 and of 100, which are the plain lists of
their names, and of 10,000, which have shards. *Time* is that of a call, and *CPU* the server's for it, as multiples of plain go-redis; *bytes*
are those to the server.`)
	var t *table
	for i, e := range rows {
		if i == 0 || e.Place != rows[i-1].Place {
			t = r.table(e.Place, "elements", "callers", "call", "plain", "hook", "time", "CPU, plain", "CPU, hook", "CPU", "bytes, plain", "bytes, hook")
		}
		cpu, rate := float64(e.Sharded.CPU)/float64(e.Plain.CPU), e.Sharded.Ops/e.Plain.Ops
		t.row(count(e.Length), count(e.Callers), e.Name, micros(e.Plain.P50), micros(e.Sharded.P50), times(1/rate), micros(e.Plain.CPU),
			micros(e.Sharded.CPU), times(cpu), count(e.BytesOf), count(e.Bytes))
		r.everydayTargets(e, cpu, rate)
	}
}

// everydayTargets are those of one caller, and of eight on short lists.
func (r *report) everydayTargets(e everydayFigures, cpu, rate float64) {
	what := fmt.Sprintf("%s, %d elements", e.Name, e.Length)
	if e.Place != "" {
		what += ", " + e.Place
	}
	switch {
	case e.Place == across && e.Length == longEveryday:
		r.target("Server CPU of "+what, "≤ 4.00×", times(cpu), cpu <= 4)
		r.target("Rate of "+what, "≥ 0.40×", times(rate), rate >= 0.4)
	case e.Place == besides:
		r.target("Time of "+what, "≤ 1.05×", times(1/rate), 1/rate <= 1.05)
	case e.Place == "" && e.Callers > 1 && e.Name == everydayCalls[0].name:
		r.target("Rate of "+what+", eight callers", "≥ 0.75×", times(rate), rate >= 0.75)
	case e.Place == "" && e.Callers == 1 && e.Goal > 0:
		r.target("Server CPU of "+what, fmt.Sprintf("≤ %.2f×", e.Goal), times(cpu), cpu <= e.Goal)
		if e.Length != longEveryday {
			r.target("Time of "+what, "≤ 1.50×", times(1/rate), 1/rate <= 1.5)
		}
	}
}
