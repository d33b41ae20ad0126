package oneslot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

const (
	// DefaultCapacity is the capacity of a list over many slots if neither the Config nor the server sets one.
	DefaultCapacity = 512
	// MaxCapacity is the largest capacity. A larger shard would be the kind of big key that this library avoids.
	MaxCapacity = 1 << 20
	// leastCapacity is the smallest capacity that is taken from the server.
	leastCapacity = 16
)

// The capacity by size, as lua/shared/shards.lua has it. In place of one, scripts get one of two words.
const (
	bySize       = int64(0)
	byLargerSize = int64(-1) // the server compresses lists, but for their ends

	shardBytes   = 128 << 10
	mostBySize   = 8192
	fewestBySize = 16
)

// capacity is the capacity of lists that outgrow their keys. The lists of a client that ask the server for it share one.
type capacity struct {
	known atomic.Value // an int64, nil until the server has told; as an interface, which each push needs
}

var asked sync.Map // the capacity that the server of a client sets, by a weak pointer to the client

// capacityOf returns the capacity that the Config sets, or else that of its client.
func capacityOf(config Config) *capacity {
	if config.Capacity > 0 {
		c := &capacity{}
		c.known.Store(int64(config.Capacity))
		return c
	}
	switch rdb := config.Runner.Client.(type) {
	case *redis.Client:
		return askedFor(rdb)
	case *redis.ClusterClient:
		return askedFor(rdb)
	case *redis.Ring:
		return askedFor(rdb)
	}
	return &capacity{}
}

func askedFor[Client any](rdb *Client) *capacity {
	key := weak.Make(rdb)
	if c, ok := asked.Load(key); ok {
		return c.(*capacity)
	}
	c, shared := asked.LoadOrStore(key, &capacity{})
	if !shared {
		runtime.AddCleanup(rdb, func(key weak.Pointer[Client]) { asked.Delete(key) }, key)
	}
	return c.(*capacity)
}

// word returns the capacity as an argument of a script. If nobody has set one, the script decides by the size of the elements.
func (c *capacity) word() any {
	return cmp.Or(c.known.Load(), any(bySize))
}

// Prepare asks the server for the capacity of lists that a push creates, until it has answered once. It does not wait beyond the
// deadline of ctx.
func (l *List) Prepare(ctx context.Context) error {
	if l.capacity.known.Load() != nil {
		return nil
	}
	answer := make(chan error, 1)
	var last atomic.Pointer[error] // why the server could not tell
	go func() { answer <- l.askCapacity(ctx, &last) }()
	giveUp := func(err error) error {
		if reason := last.Load(); reason != nil && errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("%w: %w", *reason, err)
		}
		return err
	}
	timer := time.NewTimer(time.Until(script.Deadline(ctx)))
	defer timer.Stop()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return giveUp(ctx.Err())
	case <-timer.C:
		return giveUp(session.ErrNoAnswer)
	}
}

// Capacity returns the capacity of lists over many slots that a push creates.
func (l *List) Capacity(ctx context.Context) (int64, error) {
	err := l.Prepare(ctx)
	if set := l.capacity.word().(int64); set > 0 {
		return set, err
	}
	return DefaultCapacity, err
}

// askCapacity asks again while the server cannot serve, or connections break, as an operation is repeated.
func (l *List) askCapacity(ctx context.Context, last *atomic.Pointer[error]) error {
	until := script.Deadline(ctx)
	for attempt := 0; l.capacity.known.Load() == nil; attempt++ {
		config, err := l.Client().ConfigGet(ctx, "list-*").Result()
		switch {
		case err == nil || script.IsForbidden(err):
			l.capacity.known.CompareAndSwap(nil, capacityIn(config))
			return nil
		case !script.IsReply(err) && !script.MayHaveActed(err):
			return err // the next push asks again
		case script.IsReply(err) && !script.IsTransient(err):
			return nil // the next push asks again
		}
		last.Store(&err)
		if time.Until(until) < script.Backoff(attempt) || script.Sleep(ctx, script.Backoff(attempt)) != nil {
			return err
		}
	}
	return nil
}

// capacityIn returns the word for the server's settings. A number of elements is the capacity if it is large. Such a setting suits a server's own nodes, which
// may be tiny: as a shard, which is a key, they would cost more than their elements.
func capacityIn(config map[string]string) int64 {
	set := bySize
	if depth := config["list-compress-depth"]; depth != "" && depth != "0" {
		set = byLargerSize
	}
	for _, setting := range []string{"list-max-listpack-size", "list-max-ziplist-size", "list-max-ziplist-entries"} {
		if n, err := strconv.ParseInt(config[setting], 10, 64); err == nil && n >= leastCapacity && n <= MaxCapacity {
			set = n
		}
	}
	return set
}
