package main

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/shardedlist/shardedlist"
)

// ours is the name of the peer that all others are compared with.
const ours = "shardedlist"

// peer is one way to use a list.
type peer struct {
	name string
	open func(key string) list // a client of its own, shared by all its lists
}

// list is one list of a peer.
type list struct {
	push  func(ctx context.Context, value string) error
	pop   func(ctx context.Context) error                // errEmpty if there is nothing
	fill  func(ctx context.Context, values ...any) error // many at once
	empty func(ctx context.Context) error
}

// clients are the peers and the functions that close them.
type clients struct {
	peers []peer
	close []func()
}

func (c *clients) stop() {
	for _, closer := range c.close {
		closer()
	}
}

// openPeers connects the clients that push and pop single values. All have their default options, except that plain go-redis
// may have a connection for each goroutine.
func (s *server) openPeers() (*clients, error) {
	c := &clients{}
	sharded := s.client()
	plain := s.client(poolSize(600))
	pipelined := s.client()
	c.close = append(c.close, func() { _, _, _ = sharded.Close(), plain.Close(), pipelined.Close() })
	auto, err := pipelined.AutoPipeline()
	if err != nil {
		c.stop()
		return nil, err
	}
	rueidisClient, err := rueidis.NewClient(s.rueidis())
	if err != nil {
		c.stop()
		return nil, err
	}
	c.close = append(c.close, rueidisClient.Close)

	c.peers = []peer{
		{ours, func(key string) list { return shardedPeer(sharded, key) }},
		{"go-redis", func(key string) list { return s.goRedisPeer(plain, key) }},
		{"go-redis AutoPipeline", func(key string) list { return s.goRedisPeer(auto, key) }},
		{"rueidis", func(key string) list { return s.rueidisPeer(rueidisClient, key) }},
	}
	return c, nil
}

func (s *server) rueidis() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.addr}, ForceSingleClient: true}
}

// sharded opens a sharded list. New fails only with options that are not used here.
func sharded(rdb redis.UniversalClient, name string, options ...shardedlist.Option) *shardedlist.ShardedList {
	l, err := shardedlist.New(rdb, name, options...)
	if err != nil {
		panic(err)
	}
	return l
}

func shardedPeer(rdb *redis.Client, key string) list {
	l := sharded(rdb, key)
	return list{
		push: func(ctx context.Context, value string) error {
			_, err := l.RPush(ctx, value)
			return err
		},
		pop: func(ctx context.Context) error {
			_, err := l.LPop(ctx)
			return popError(err)
		},
		fill: func(ctx context.Context, values ...any) error {
			_, err := l.RPush(ctx, values...)
			return err
		},
		empty: func(ctx context.Context) error {
			_, err := l.Del(ctx)
			return err
		},
	}
}

func (s *server) goRedisPeer(rdb redis.Cmdable, key string) list {
	return list{
		push:  func(ctx context.Context, value string) error { return rdb.RPush(ctx, key, value).Err() },
		pop:   func(ctx context.Context) error { return popError(rdb.LPop(ctx, key).Err()) },
		fill:  s.fillPlain(key),
		empty: s.emptyPlain(key),
	}
}

func (s *server) rueidisPeer(client rueidis.Client, key string) list {
	return list{
		push: func(ctx context.Context, value string) error {
			return client.Do(ctx, client.B().Rpush().Key(key).Element(value).Build()).Error()
		},
		pop: func(ctx context.Context) error {
			_, err := client.Do(ctx, client.B().Lpop().Key(key).Build()).ToString()
			if rueidis.IsRedisNil(err) {
				return errEmpty
			}
			return err
		},
		fill:  s.fillPlain(key),
		empty: s.emptyPlain(key),
	}
}

func (s *server) fillPlain(key string) func(context.Context, ...any) error {
	return func(ctx context.Context, values ...any) error { return s.control.RPush(ctx, key, values...).Err() }
}

func (s *server) emptyPlain(key string) func(context.Context) error {
	return func(ctx context.Context) error { return s.control.Del(ctx, key).Err() }
}

func popError(err error) error {
	if errors.Is(err, redis.Nil) {
		return errEmpty
	}
	return err
}

// text returns a value of that size.
func text(size int) string { return strings.Repeat("x", size) }

// fillWith pushes count values of that size.
func fillWith(ctx context.Context, l list, count, size int) error {
	value := any(text(size))
	return fillFrom(ctx, l, count, func() any { return value })
}

// fillFrom pushes count values that next returns, in calls of up to a thousand values or 256 KiB.
func fillFrom(ctx context.Context, l list, count int, next func() any) error {
	for count > 0 {
		values, bytes := make([]any, 0, 1000), 0
		for len(values) < min(count, 1000) && bytes < 256<<10 {
			value := next()
			values, bytes = append(values, value), bytes+len(value.(string))
		}
		if err := l.fill(ctx, values...); err != nil {
			return err
		}
		count -= len(values)
	}
	return nil
}
