package limit_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/limit"
)

// connect starts a server for an example. An application would connect to its Redis, cluster or Sentinel.
func connect() (redis.UniversalClient, func()) {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	server.SetTime(time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() {
		_ = rdb.Close()
		server.Close()
	}
}

func ExampleFixedWindow() {
	rdb, disconnect := connect()
	defer disconnect()
	ctx := context.Background()

	window, err := limit.NewFixedWindow(rdb, "api:alice", 2, time.Minute)
	if err != nil {
		panic(err)
	}
	for range 3 {
		decision, err := window.Allow(ctx)
		if err != nil {
			panic(err)
		}
		fmt.Println(decision.Allowed, decision.Remaining, decision.RetryAfter)
	}
	// Output:
	// true 1 0s
	// true 0 0s
	// false 0 30s
}

func ExampleSlidingWindow() {
	rdb, disconnect := connect()
	defer disconnect()

	window, err := limit.NewSlidingWindow(rdb, "api:alice", 100, time.Minute)
	if err != nil {
		panic(err)
	}
	decision, err := window.AllowN(context.Background(), 60)
	if err != nil {
		panic(err)
	}
	fmt.Println(decision.Allowed, decision.Remaining)
	// Output: true 40
}

func ExampleTokenBucket() {
	rdb, disconnect := connect()
	defer disconnect()

	// Ten mails a second, and up to five at once.
	mails, err := limit.NewTokenBucket(rdb, "mails", 10, time.Second, 5)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range 7 {
		if err := mails.Wait(ctx); err != nil {
			panic(err)
		}
		fmt.Print(i, " ")
	}
	// Output: 0 1 2 3 4 5 6
}

func ExampleDailyCap() {
	rdb, disconnect := connect()
	defer disconnect()
	ctx := context.Background()

	trials, err := limit.NewDailyCap(rdb, "trials", 2, time.UTC)
	if err != nil {
		panic(err)
	}
	for _, member := range []string{"alice", "bob", "alice", "carol"} {
		addition, err := trials.Add(ctx, member)
		if err != nil {
			panic(err)
		}
		fmt.Println(member, addition.Allowed, addition.New)
	}
	// Output:
	// alice true true
	// bob true true
	// alice true false
	// carol false false
}

func ExampleSemaphore() {
	rdb, disconnect := connect()
	defer disconnect()
	ctx := context.Background()

	// At most three exports at a time. A process that dies frees its share within ten seconds.
	exports, err := limit.NewSemaphore(rdb, "exports", 3, 10*time.Second)
	if err != nil {
		panic(err)
	}
	permit, err := exports.Acquire(ctx)
	if err != nil {
		panic(err)
	}
	work := permit.Context() // ends if the share is lost
	fmt.Println(work.Err())
	if err := permit.Release(ctx); err != nil {
		panic(err)
	}
	// Output: <nil>
}

func ExampleLock() {
	rdb, disconnect := connect()
	defer disconnect()
	ctx := context.Background()

	lock, err := limit.NewLock(rdb, "reports", 10*time.Second)
	if err != nil {
		panic(err)
	}
	held, err := lock.Lock(ctx)
	if err != nil {
		panic(err)
	}
	_, err = lock.TryLock(ctx)
	fmt.Println(errors.Is(err, limit.ErrNotAcquired))
	// Send held.Token() with each write, so that what is written to can refuse a holder whose lease has ended.
	fmt.Println(held.Token() > 0)
	if err := held.Unlock(ctx); err != nil {
		panic(err)
	}
	// Output:
	// true
	// true
}
