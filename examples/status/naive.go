package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// naivePost is Post in three round trips.
func naivePost(ctx context.Context, rdb redis.UniversalClient, user, text string) (int64, error) {
	name, err := rdb.HGet(ctx, userKey(user), "name").Result()
	if err != nil {
		return 0, err
	}
	number, err := rdb.HIncrBy(ctx, userKey(user), "posts", 1).Result()
	if err != nil {
		return 0, err
	}
	return number, rdb.HSet(ctx, messagesKey(user), fmt.Sprint(number), name+": "+text).Err()
}
