package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// bookPush is the push of the sharded list in "Redis in Action", section 11.4, rewritten from its description: it pushes
// to the end shard and starts another one when that is full. The book's script reads list-max-ziplist-entries with CONFIG
// GET. Current servers do not allow CONFIG in a script, so the client reads it once.
//
//	KEYS  1 the list's name and a colon, 2 the key of the end's pointer
//	ARGV  1 'lpush' or 'rpush', 2 the capacity of a shard, 3… the values
var bookPush = redis.NewScript(`
local shard = redis.call('get', KEYS[2]) or '0'
local capacity = tonumber(ARGV[2])
local pushed = 0
for i = 3, #ARGV do
  if redis.call('llen', KEYS[1] .. shard) >= capacity then
    shard = redis.call(ARGV[1] == 'lpush' and 'decr' or 'incr', KEYS[2])
  end
  redis.call(ARGV[1], KEYS[1] .. shard, ARGV[i])
  pushed = pushed + 1
end
return pushed
`)

const bookDefaultCapacity = 512 // the default of list-max-ziplist-entries when the book was written

// book measures the book's push script for reference.
func (b *bench) book(ctx context.Context) error {
	rdb := b.server.client(poolSize(64))
	defer rdb.Close()
	capacity, err := bookCapacity(ctx, rdb)
	if err != nil {
		return err
	}
	if err := bookPush.Load(ctx, rdb).Err(); err != nil {
		return err
	}
	keys := []string{"book:", "book:last"}
	own := sharded(rdb, "book's rival")
	value := text(100)
	const depth = 64
	single := func(ctx context.Context) error {
		return bookPush.EvalSha(ctx, rdb, keys, "rpush", capacity, value).Err()
	}
	pipelined := func(ctx context.Context) error {
		pipe := rdb.Pipeline()
		for range depth {
			bookPush.EvalSha(ctx, pipe, keys, "rpush", capacity, value)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	ownSingle := func(ctx context.Context) error {
		_, err := own.RPush(ctx, value)
		return err
	}

	result := &bookResult{Capacity: capacity}
	for _, row := range []struct {
		name       string
		goroutines int
		each       int // pushes in one call
		do         func(context.Context) error
	}{
		{"the book's script", 1, 1, single},
		{"the book's script", 64, 1, single},
		{fmt.Sprintf("the book's script, %d in a pipeline", depth), 1, depth, pipelined},
		{fmt.Sprintf("the book's script, %d in a pipeline", depth), 8, depth, pipelined},
		{ours, 1, 1, ownSingle},
		{ours, 64, 1, ownSingle},
		{ours, 512, 1, ownSingle},
	} {
		f, err := b.repeat(ctx, row.goroutines, row.do)
		if err != nil {
			return err
		}
		f.Ops *= float64(row.each)
		f.CPU /= time.Duration(row.each)
		result.Rows = append(result.Rows, bookFigure{row.goroutines, clientResult{row.name, f}})
	}
	b.results.Book = result
	return nil
}

type bookResult struct {
	Capacity int          `json:"capacity"`
	Rows     []bookFigure `json:"rows"`
}

// bookFigure has the throughput and server CPU per push, and the latency per call.
type bookFigure struct {
	Goroutines int `json:"goroutines"`
	clientResult
}

func (r *report) book(b *bookResult) {
	r.section("The book's push script", fmt.Sprintf(`The push script of *Redis in Action*, section 11.4, rewritten from its
description and sent by go-redis, with %d elements per shard. It pushes one value of 100 bytes.`, b.Capacity))
	t := r.table("", "", "goroutines", "pushes/s", "p50 of a call", "server CPU per push")
	for _, row := range b.Rows {
		t.row(row.Client, row.Goroutines, r.ops(row.figures), micros(row.P50), micros(row.CPU))
	}
}

// repeat warms up and returns the median of the runs.
func (b *bench) repeat(ctx context.Context, goroutines int, do func(context.Context) error) (figures, error) {
	d := pick(b, 100*time.Millisecond, time.Second)
	if _, err := load(ctx, b.server, goroutines, d/5, do); err != nil {
		return figures{}, err
	}
	medians, err := b.medians(1, func(int, int) ([]figures, error) {
		f, err := load(ctx, b.server, goroutines, d, do)
		return []figures{f}, err
	})
	if err != nil {
		return figures{}, err
	}
	return medians[0][0], nil
}

func bookCapacity(ctx context.Context, rdb *redis.Client) (int, error) {
	config, err := rdb.ConfigGet(ctx, "list-max-ziplist-entries").Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, err
	}
	if entries, ok := config["list-max-ziplist-entries"]; ok {
		return strconv.Atoi(entries)
	}
	return bookDefaultCapacity, nil
}
