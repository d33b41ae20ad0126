package shardedlist_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

func ExampleNewHook() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()

	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*"))) // this line

	fmt.Println(rdb.RPush(ctx, "queue:mail", "a", "b", "c").Val())
	fmt.Println(rdb.BLPop(ctx, time.Second, "queue:mail").Val())
	cmds, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.LPop(ctx, "queue:mail")
		p.LLen(ctx, "queue:mail")
		return nil
	})
	fmt.Println(cmds[0].(*redis.StringCmd).Val(), cmds[1].(*redis.IntCmd).Val(), err)

	err = rdb.Eval(ctx, "return redis.call('rpush', KEYS[1], 'd')", []string{"queue:mail"}).Err()
	fmt.Println(errors.Is(err, shardedlist.ErrUnsupported))
	// Output:
	// 3
	// [queue:mail a]
	// b 1 <nil>
	// true
}

func ExampleShardedList_LMove() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()

	// One hash tag: on a cluster, lists of one call are in one slot.
	waiting, _ := shardedlist.New(rdb, "{mail}:waiting")
	taken, _ := shardedlist.New(rdb, "{mail}:taken")
	_, _ = waiting.RPush(ctx, "a", "b")

	job, err := waiting.LMove(ctx, taken, "LEFT", "RIGHT")
	fmt.Println(job, err)
	removed, err := taken.LRem(ctx, 1, job) // when it is done
	fmt.Println(removed, err)
	// Output:
	// a <nil>
	// 1 <nil>
}

func ExampleBLPop() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	urgent, _ := shardedlist.New(rdb, "{mail}:urgent")
	normal, _ := shardedlist.New(rdb, "{mail}:normal")
	_, _ = normal.RPush(ctx, "a")

	from, job, err := shardedlist.BLPop(ctx, time.Second, urgent, normal)
	fmt.Println(from.Name(), job, err)
	// Output: {mail}:normal a <nil>
}

func ExampleShardedList_LTrim() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	latest, _ := shardedlist.New(rdb, "latest")
	_, _ = latest.LPush(ctx, "a", "b", "c", "d")

	err := latest.LTrim(ctx, 0, 1) // the newest two
	fmt.Println(err)
	values, err := latest.LRange(ctx, 0, -1)
	fmt.Println(values, err)
	// Output:
	// <nil>
	// [d c] <nil>
}

func ExampleShardedList_Adopt() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	rdb.RPush(ctx, "jobs", "first", "second", "third") // by a service that does not use this library

	list, _ := shardedlist.New(rdb, "jobs")
	err := list.Adopt(ctx, func(moved, total int64) { fmt.Println(moved, "of", total, "moved") })
	fmt.Println(err)
	fmt.Println(list.LPop(ctx))
	fmt.Println(rdb.LRange(ctx, "jobs", 0, -1).Val()) // two elements are no long list
	// Output:
	// 0 of 0 moved
	// <nil>
	// first <nil>
	// [second third]
}

// A process that does not use this library pushes to the same list.
func Example_otherProcesses() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	rdb.RPush(ctx, "jobs", "a", "b")

	jobs, _ := shardedlist.New(rdb, "jobs")
	first, err := jobs.LPop(ctx)
	fmt.Println(first, err)
	_, _ = jobs.RPush(ctx, "c")

	rdb.RPush(ctx, "jobs", "d")
	all, err := jobs.LRange(ctx, 0, -1)
	fmt.Println(all, err)
	// Output:
	// a <nil>
	// [b c d] <nil>
}

// The way back: a process that does not use this library goes on where the others have been.
func ExampleShardedList_Restore() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()
	jobs, _ := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(2))
	_, _ = jobs.RPush(ctx, 1, 2, 3, 4, 5)

	err := jobs.Restore(ctx, func(moved, total int64) { fmt.Println(moved, "of", total, "moved") })
	fmt.Println(err)
	fmt.Println(rdb.LPop(ctx, "jobs").Val())
	_, _ = jobs.RPush(ctx, 6)
	fmt.Println(rdb.LRange(ctx, "jobs", 0, -1).Val())
	// Output:
	// 3 of 3 moved
	// <nil>
	// 1
	// [2 3 4 5 6]
}
