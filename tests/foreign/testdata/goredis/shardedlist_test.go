package redis_test

import (
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// This file is put beside the tests of go-redis. There, newHookedClient takes the place of redis.NewClient.

func init() {
	redisStackAddr = os.Getenv("FOREIGN_ADDR")
}

func newHookedClient(opt *redis.Options) *redis.Client {
	client := redis.NewClient(opt)
	if pattern := os.Getenv("FOREIGN_MATCH"); pattern != "" {
		client.AddHook(shardedlist.NewHook(client, shardedlist.Match(pattern), shardedlist.WithCapacity(2)))
	}
	return client
}
