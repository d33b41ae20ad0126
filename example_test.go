package shardedlist_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// connect returns a client of an embedded server, so that the examples run anywhere. Yours connects to a real one:
//
//	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379"})
func connect() (rdb *redis.Client, stop func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb = redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

func ExampleNew() {
	rdb, stop := connect()
	defer stop()

	jobs, err := shardedlist.New(rdb, "jobs")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(jobs.Name())

	_, err = shardedlist.New(rdb, "")
	fmt.Println(err)
	// Output:
	// jobs
	// shardedlist: the name is empty
}

func ExampleWithCapacity() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()

	jobs, _ := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(2))
	_, _ = jobs.RPush(ctx, "a", "b")
	fmt.Println(rdb.LLen(ctx, "jobs").Val()) // a plain list
	_, _ = jobs.RPush(ctx, "c")
	fmt.Println(rdb.LLen(ctx, "jobs").Val()) // it has outgrown one key

	// The list has a capacity now, and keeps it.
	same, _ := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(10))
	info, err := same.Info(ctx)
	fmt.Println(info.Capacity, err)
	// Output:
	// 2
	// 0
	// 2 <nil>
}

func ExampleShardedList_RPush() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs")

	length, err := jobs.RPush(ctx, "a", "b", "c")
	fmt.Println(length, err)

	length, err = jobs.RPush(ctx, []string{"d", "e"}) // a lone slice is pushed element by element
	fmt.Println(length, err)
	// Output:
	// 3 <nil>
	// 5 <nil>
}

func ExampleShardedList_LPop() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs")
	_, _ = jobs.RPush(ctx, "a", "b")

	for {
		value, err := jobs.LPop(ctx)
		if err == redis.Nil {
			fmt.Println("the list is empty")
			break
		}
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(value)
	}
	// Output:
	// a
	// b
	// the list is empty
}

func ExampleShardedList_LPopCount() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(2))
	_, _ = jobs.RPush(ctx, "a", "b", "c", "d", "e")

	values, err := jobs.LPopCount(ctx, 3) // one atomic step, from two shards
	fmt.Println(values, err)

	values, err = jobs.LPopCount(ctx, 3)
	fmt.Println(values, err)
	// Output:
	// [a b c] <nil>
	// [d e] <nil>
}

func ExampleShardedList_BLPop() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs")

	go func() { // the producer, in another process perhaps
		time.Sleep(10 * time.Millisecond)
		_, _ = jobs.RPush(ctx, "a", "b")
	}()
	for range 2 {
		value, err := jobs.BLPop(ctx, 0) // 0 waits forever
		fmt.Println(value, err)
	}

	_, err := jobs.BLPop(ctx, 20*time.Millisecond)
	fmt.Println(err == redis.Nil)
	// Output:
	// a <nil>
	// b <nil>
	// true
}

func ExampleShardedList_BLPop_cancelled() {
	rdb, stop := connect()
	defer stop()
	jobs, _ := shardedlist.New(rdb, "jobs")

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err := jobs.BLPop(ctx, time.Hour)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}

func ExampleShardedList_LRange() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs")
	_, _ = jobs.RPush(ctx, "a", "b", "c", "d")

	values, err := jobs.LRange(ctx, 1, 2)
	fmt.Println(values, err)

	values, err = jobs.LRange(ctx, -2, -1)
	fmt.Println(values, err)
	// Output:
	// [b c] <nil>
	// [c d] <nil>
}

func ExampleShardedList_All() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs")
	_, _ = jobs.RPush(ctx, "a", "b", "c")

	for value, err := range jobs.All(ctx) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(value)
	}
	// Output:
	// a
	// b
	// c
}

func ExampleShardedList_Del() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs")
	_, _ = jobs.RPush(ctx, "a", "b", "c")

	existed, err := jobs.Del(ctx)
	fmt.Println(existed, err)

	existed, err = jobs.Del(ctx)
	fmt.Println(existed, err)
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleShardedList_Info() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(4))
	_, _ = jobs.RPush(ctx, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)

	info, err := jobs.Info(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Length, "elements in", info.Shards, "shards of", info.Capacity)
	fmt.Println("ids", info.First, "to", info.Last)
	// Output:
	// 10 elements in 3 shards of 4
	// ids 0 to 2
}

// Errors are told apart with errors.Is. The server's own error is in the chain as well.
func Example_errors() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs")

	_, err := jobs.RPush(ctx, struct{ ID int }{7}, "b")
	fmt.Println("a value that go-redis cannot encode:", errors.Is(err, shardedlist.ErrValue))

	rdb.Set(ctx, "{jobs}:meta", "something else", 0)
	_, err = jobs.LPop(ctx)
	switch {
	case err == redis.Nil:
		fmt.Println("the list is empty")
	case errors.Is(err, shardedlist.ErrWrongType):
		fmt.Println("a key of the list is taken by something else")
	case err != nil:
		fmt.Println("another failure:", err)
	}
	// Output:
	// a value that go-redis cannot encode: true
	// a key of the list is taken by something else
}

// WithParts spreads a list over many hash slots, and so over all nodes of a cluster. Other clients find that out by themselves.
func ExampleWithParts() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs", shardedlist.WithParts(64), shardedlist.WithCapacity(4))
	_, _ = jobs.RPush(ctx, 1, 2, 3, 4, 5)
	_, _ = jobs.RPush(ctx, 6)

	same, _ := shardedlist.New(rdb, "jobs")
	info, err := same.Info(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(info.Length, "elements in", info.Shards, "shards over", info.Parts, "parts")
	fmt.Println("LTrim is refused:", errors.Is(same.LTrim(ctx, 0, 1), shardedlist.ErrSpread))
	// Output:
	// 6 elements in 2 shards over 64 parts
	// LTrim is refused: true
}

// An order is accepted once per user, and queued, in one step.
func ExampleNewScript() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	orders, _ := shardedlist.New(rdb, "orders")

	buy := shardedlist.NewScript(`
		if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then
			return redis.error_reply('BOUGHT already')
		end
		local length = rpush(ARGV[1])
		redis.call('SADD', KEYS[1], ARGV[1])
		return length`)
	for _, user := range []string{"ann", "bob", "ann"} {
		length, err := buy.Run(ctx, orders, []string{"{orders}:buyers"}, user).Int()
		if redis.HasErrorPrefix(err, "BOUGHT") {
			fmt.Println(user, "has bought one")
			continue
		}
		fmt.Println(user, "is order", length, err)
	}
	fmt.Println(orders.LRange(ctx, 0, -1))
	// Output:
	// ann is order 1 <nil>
	// bob is order 2 <nil>
	// ann has bought one
	// [ann bob] <nil>
}

func ExampleScan() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()

	for _, name := range []string{"queue:mail", "queue:sms", "logs"} {
		list, _ := shardedlist.New(rdb, name)
		_, _ = list.RPush(ctx, "a", "b")
	}
	rdb.RPush(ctx, "queue:push", "a") // by a process that does not use this library

	for name, err := range shardedlist.Scan(ctx, rdb, "queue:*") {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(name)
	}
	// Unordered output:
	// queue:mail
	// queue:push
	// queue:sms
}
