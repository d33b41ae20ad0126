package shardedlist_test

import (
	"context"
	"fmt"

	"github.com/shardedlist/shardedlist"
)

func ExampleShardedList_Stats() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()

	jobs, _ := shardedlist.New(rdb, "jobs")
	_, _ = jobs.RPush(ctx, "a", "b", "c")
	_, _ = jobs.LPop(ctx)
	_, _ = jobs.LPop(ctx)

	s := jobs.Stats()
	fmt.Println("operations:", s.Operations.Push+s.Operations.Pop)
	fmt.Println("pushed and popped:", s.Pushed, s.Popped)
	fmt.Println("to alert on:", s.Repeats, s.OutcomesUnknown, s.PutBack)
	// Output:
	// operations: 3
	// pushed and popped: 3 2
	// to alert on: 0 0 0
}

func ExampleHook_Stats() {
	rdb, stop := connect()
	defer stop()
	ctx := context.Background()

	hook := shardedlist.NewHook(rdb, shardedlist.Match("queue:*"))
	rdb.AddHook(hook)
	rdb.LPush(ctx, "queue:mail", "a", "b")
	rdb.LPush(ctx, "queue:sms", "c")

	fmt.Println("pushed to all lists:", hook.Stats().Pushed)
	// Output: pushed to all lists: 3
}
