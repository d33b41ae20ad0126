package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
)

// adoptResult are the figures of taking a plain list over, next to a program that pops its elements and pushes them to shards.
type adoptResult struct {
	Elements  int           `json:"elements"`
	First     time.Duration `json:"first_ns"` // server time of the first command, which renames the plain list
	Push      time.Duration `json:"push_ns"`  // of a push to a list that exists
	Begin     time.Duration `json:"begin_ns"` // of a push that begins a shard
	Adopt     time.Duration `json:"adopt_ns"`
	Adopting  stalls        `json:"during_adopt"`
	Restore   time.Duration `json:"restore_ns"`
	Restoring stalls        `json:"during_restore"`
	ByHand    time.Duration `json:"by_hand_ns"`
	Idle      stalls        `json:"idle"`
}

// takeovers is how often the plain list is taken over.
const takeovers = 99

// makePlain makes a list that was just taken over a plain list again, by renaming its one long shard.
func (s *server) makePlain(ctx context.Context, key string) error {
	keys, err := s.control.Keys(ctx, "*"+key+"*").Result()
	if err != nil {
		return err
	}
	for _, shard := range keys {
		if s.control.LLen(ctx, shard).Val() > 1000 {
			if err := s.control.Rename(ctx, shard, "aside").Err(); err != nil {
				return err
			}
		}
	}
	if _, err := sharded(s.control, key).Del(ctx); err != nil {
		return err
	}
	return s.control.Rename(ctx, "aside", key).Err()
}

// adopt measures what it takes to take a list of ten million elements over, and to give it back.
func (b *bench) adopt(ctx context.Context) error {
	r := &adoptResult{Elements: pick(b, 100_000, 10_000_000)}
	hooked := b.server.client()
	defer hooked.Close()
	hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("old*")))
	fill := func(key string) error {
		return fillFrom(ctx, list{fill: b.server.fillPlain(key)}, r.Elements, incompressible(bigSize))
	}
	if err := hooked.RPush(ctx, "old", "loads the scripts").Err(); err != nil {
		return err
	}
	if err := hooked.Del(ctx, "old").Err(); err != nil {
		return err
	}
	if err := fill("old"); err != nil {
		return err
	}
	tick()
	small, err := shardedlist.New(b.server.control, "small", shardedlist.WithCapacity(1))
	if err != nil {
		return err
	}
	takes := func(push func() error) (time.Duration, error) {
		for range 300 { // so that each call finds the processor's caches as cold
			if err := b.server.control.LPush(ctx, "others", "x").Err(); err != nil {
				return 0, err
			}
		}
		if err := b.server.control.ConfigResetStat(ctx).Err(); err != nil {
			return 0, err
		}
		if err := push(); err != nil {
			return 0, err
		}
		took, _, err := b.server.callTime(ctx, "fcall")
		return took, err
	}
	old := func() error { return hooked.RPush(ctx, "old", "x").Err() }
	begins := func() error { _, err := small.RPush(ctx, "x"); return err }
	if err := begins(); err != nil {
		return err
	}
	var first, next, begin []time.Duration
	for i := range takeovers {
		if i > 0 {
			if err := b.server.makePlain(ctx, "old"); err != nil {
				return err
			}
		}
		for _, kind := range []struct {
			push func() error
			took *[]time.Duration
		}{{old, &first}, {old, &next}, {begins, &begin}} {
			took, err := takes(kind.push)
			if err != nil {
				return err
			}
			*kind.took = append(*kind.took, took)
		}
	}
	r.First, r.Push, r.Begin = quantile(first, 0.5), quantile(next, 0.5), quantile(begin, 0.5)
	if r.Idle, err = stall(func() error { return sleep(ctx, pick(b, 300*time.Millisecond, 3*time.Second)) }, b.server); err != nil {
		return err
	}
	adopt := func() error { return sharded(b.server.control, "old").Adopt(ctx, nil) }
	if r.Adopting, err = stall(timed(&r.Adopt, adopt), b.server); err != nil {
		return err
	}
	tick()
	restore := func() error { return sharded(b.server.control, "old").Restore(ctx, nil) }
	if r.Restoring, err = stall(timed(&r.Restore, restore), b.server); err != nil {
		return err
	}
	tick()

	if err := b.server.clear(ctx); err != nil {
		return err
	}
	if err := fill("plain"); err != nil {
		return err
	}
	err = timed(&r.ByHand, func() error { return b.moveByHand(ctx, "plain", sharded(b.server.control, "moved")) })()
	b.results.Adopt = r
	return err
}

// moveByHand pops a thousand elements at a time, and pushes them. It loses them if it dies in between.
func (b *bench) moveByHand(ctx context.Context, key string, to *shardedlist.ShardedList) error {
	for {
		popped, err := b.server.control.LPopCount(ctx, key, 1000).Result()
		if err == redis.Nil {
			return nil
		} else if err != nil {
			return err
		}
		values := make([]any, len(popped))
		for i, value := range popped {
			values[i] = value
		}
		if _, err := to.RPush(ctx, values...); err != nil {
			return err
		}
	}
}

func (r *report) adopt(a *adoptResult) {
	r.section("Taking a plain list over", fmt.Sprintf(`A plain list of %s elements of %d random bytes, and a client with the hook. *By hand* is a
program that pops a thousand elements at a time and pushes them to a sharded list; it loses them if it dies in between. *A big list*
has the figures of MIGRATE. Server times are medians of %d, each of one call after 300 commands of others; other measurements run once.`, count(a.Elements), bigSize, takeovers))
	perSecond := func(took time.Duration) string { return count(float64(a.Elements) / took.Seconds()) }
	t := r.table("", "", "figure")
	t.row("server time of the first push, which takes the list over", micros(a.First))
	t.row("server time of the next push", micros(a.Push))
	if a.Begin > 0 {
		t.row("server time of a push that begins a shard", micros(a.Begin))
	}
	t.row("Adopt, elements/s", perSecond(a.Adopt))
	t.row("Restore, elements/s", perSecond(a.Restore))
	t.row("by hand, elements/s", perSecond(a.ByHand))
	t.row("longest stall, idle", millis(a.Idle.Seen))
	t.row("longest stall, during Adopt", millis(a.Adopting.Seen))
	t.row("longest command, during Adopt", atMost(a.Adopting.Command))
	t.row("longest stall, during Restore", millis(a.Restoring.Seen))
	t.row("longest command, during Restore", atMost(a.Restoring.Command))
	r.compare(fmt.Sprintf("Adopt, %s elements", count(a.Elements)), "popping and pushing them", "", float64(a.ByHand)/float64(a.Adopt))
}
