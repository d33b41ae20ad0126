package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// naiveBuy is Buy that looks first and acts then, and nothing keeps others from acting in between.
func (m Market) naiveBuy(ctx context.Context, t Trade) error {
	if err := m.look(ctx, m.rdb, t); err != nil {
		return err
	}
	return m.act(ctx, m.rdb, t)
}

// buyWatching is Buy with WATCH: it looks again whenever somebody has changed anything on the market.
func (m Market) buyWatching(ctx context.Context, t Trade) error {
	for {
		err := m.rdb.Watch(ctx, func(tx *redis.Tx) error {
			if err := m.look(ctx, tx, t); err != nil {
				return err
			}
			return m.act(ctx, tx, t)
		}, m.keys()...)
		if err != redis.TxFailedErr {
			return err
		}
	}
}

// A lock must outlast its holder's work, and yet must not last long if the holder has crashed.
const lockFor = 10 * time.Second

var unlock = redis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])`)

// buyLocked is Buy under a lock of the market.
func (m Market) buyLocked(ctx context.Context, t Trade) error {
	lock, token := m.funds+":lock", uuid.NewString()
	for {
		got, err := m.rdb.SetNX(ctx, lock, token, lockFor).Result()
		if err != nil {
			return err
		}
		if got {
			break
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { _ = unlock.Run(context.WithoutCancel(ctx), m.rdb, []string{lock}, token).Err() }()
	return m.naiveBuy(ctx, t)
}

// look returns why a trade cannot be made.
func (m Market) look(ctx context.Context, rdb redis.Cmdable, t Trade) error {
	owner, err := rdb.HGet(ctx, m.owners, t.Item).Result()
	if err != nil && err != redis.Nil {
		return err
	}
	price, err := rdb.HGet(ctx, m.prices, t.Item).Int64()
	if err != nil && err != redis.Nil {
		return err
	}
	if owner != t.Seller || price != t.Price {
		return ErrNotForSale
	}
	funds, err := rdb.HGet(ctx, m.funds, t.Buyer).Int64()
	if err != nil && err != redis.Nil {
		return err
	}
	if funds < t.Price {
		return ErrNoFunds
	}
	return nil
}

// act makes a trade, in one transaction.
func (m Market) act(ctx context.Context, rdb redis.Cmdable, t Trade) error {
	_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HIncrBy(ctx, m.funds, t.Buyer, -t.Price)
		pipe.HIncrBy(ctx, m.funds, t.Seller, t.Price)
		pipe.HSet(ctx, m.owners, t.Item, t.Buyer)
		pipe.HDel(ctx, m.prices, t.Item)
		return nil
	})
	return err
}
