package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// naiveMove is Move in several round trips for each task, onto a plain list. It removes a task first, and then pushes it.
func (q *Queue) naiveMove(ctx context.Context, now time.Time) (moved int, err error) {
	return q.moveEach(ctx, now, func(id, body string) error {
		if err := q.rdb.ZRem(ctx, q.times, id).Err(); err != nil {
			return err
		}
		return q.rdb.RPush(ctx, q.Due.Name(), body).Err()
	})
}

// carefulMove is naiveMove that pushes a task first, and then removes it.
func (q *Queue) carefulMove(ctx context.Context, now time.Time) (moved int, err error) {
	return q.moveEach(ctx, now, func(id, body string) error {
		if err := q.rdb.RPush(ctx, q.Due.Name(), body).Err(); err != nil {
			return err
		}
		return q.rdb.ZRem(ctx, q.times, id).Err()
	})
}

func (q *Queue) moveEach(ctx context.Context, now time.Time, move func(id, body string) error) (moved int, err error) {
	ids, err := q.rdb.ZRangeByScore(ctx, q.times, &redis.ZRangeBy{Min: "-inf", Max: fmt.Sprint(now.UnixMilli()), Count: atOnce}).Result()
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		body, err := q.rdb.HGet(ctx, q.bodies, id).Result()
		if err != nil {
			return moved, err
		}
		if err := move(id, body); err != nil {
			return moved, err
		}
		moved++
	}
	return moved, nil
}
