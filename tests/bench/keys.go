package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// keysFigures are the times of a command by two clients, or on two kinds of keys.
type keysFigures struct {
	Place  string        `json:"place,omitempty"`
	Name   string        `json:"name"`
	Goal   float64       `json:"goal,omitempty"` // the most that the second may take, as a multiple of the first
	First  time.Duration `json:"first"`          // of one call, the median
	Second time.Duration `json:"second"`
}

// keysCall is a command whose time is measured, alone. between is what is done before each call.
type keysCall struct {
	between, call func(ctx context.Context, rdb redis.UniversalClient, prefix string) error
}

const manyKeys = 100

func keysOf(prefix string) []string {
	keys := make([]string, manyKeys)
	for i := range keys {
		keys[i] = prefix + "{many}" + strconv.Itoa(i)
	}
	return keys
}

// fillKeys makes lists of three elements.
func fillKeys(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, key := range keysOf(prefix) {
			pipe.Del(ctx, key)
			pipe.RPush(ctx, key, "a", "b", "c")
		}
		return nil
	})
	return err
}

// onKeys measures commands of many keys, commands on a list that matches and another that does not, and SCAN.
func (b *bench) onKeys(ctx context.Context) error {
	return b.inEachPlace(ctx, func(p *place) error {
		if p.name == across {
			return nil
		}
		for _, m := range []struct {
			name string
			keysCall
		}{
			{"`EXISTS` of 100 lists", keysCall{call: func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
				return rdb.Exists(ctx, keysOf(prefix)...).Err()
			}}},
			{"`DEL` of 100 lists", keysCall{call: func(ctx context.Context, rdb redis.UniversalClient, prefix string) error {
				return rdb.Del(ctx, keysOf(prefix)...).Err()
			}}},
		} {
			goal := 4.0
			if p.name != "" {
				goal = 1.2
			}
			err := b.compareKeys(ctx, p.name, m.name, goal, func(ctx context.Context, at int) (time.Duration, error) {
				rdb, prefix := p.client(at)
				m.between = func(ctx context.Context, _ redis.UniversalClient, prefix string) error {
					return fillKeys(ctx, p.plain, prefix) // for both: what it leaves to the garbage collector is not the call's
				}
				return m.timeOf(ctx, b, rdb, prefix)
			})
			if err != nil {
				return err
			}
		}
		if err := b.onUnmatched(ctx, p); err != nil || p.name != "" {
			return err
		}
		return b.onScan(ctx, p)
	})
}

// timeOf returns the median time of a call.
func (c keysCall) timeOf(ctx context.Context, b *bench, rdb redis.UniversalClient, prefix string) (time.Duration, error) {
	times := make([]time.Duration, pick(b, 20, 1000))
	for i := range times {
		if err := c.between(ctx, rdb, prefix); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := c.call(ctx, rdb, prefix); err != nil {
			return 0, err
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}

// compareKeys measures two variants in turn.
func (b *bench) compareKeys(ctx context.Context, place, name string, goal float64, timeOf func(ctx context.Context, at int) (time.Duration, error)) error {
	var runs [2][]time.Duration
	for range b.runs {
		for at := range 2 {
			tick()
			took, err := timeOf(ctx, at)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			runs[at] = append(runs[at], took)
		}
	}
	for at := range runs {
		slices.Sort(runs[at])
	}
	b.results.Keys = append(b.results.Keys, keysFigures{place, name, goal, runs[0][b.runs/2], runs[1][b.runs/2]})
	return nil
}

// onUnmatched measures commands on two lists through the hook: of which both match, and of which the second does not.
func (b *bench) onUnmatched(ctx context.Context, p *place) error {
	for _, c := range []struct {
		name string
		call func(ctx context.Context, from, to string) error
	}{
		{"`RPOPLPUSH`", func(ctx context.Context, from, to string) error { return p.hooked.RPopLPush(ctx, from, to).Err() }},
		{"`BLMOVE`", func(ctx context.Context, from, to string) error {
			return p.hooked.BLMove(ctx, from, to, "LEFT", "RIGHT", time.Second).Err()
		}},
		{"`LMPOP`", func(ctx context.Context, from, to string) error {
			return p.hooked.LMPop(ctx, "LEFT", 1, from, to).Err()
		}},
		{"`BLPOP`", func(ctx context.Context, from, to string) error {
			return p.hooked.BLPop(ctx, time.Second, to, from).Err()
		}},
	} {
		err := b.compareKeys(ctx, p.name, c.name+" of a list that matches and one that does not", 1.2, func(ctx context.Context, at int) (time.Duration, error) {
			from, to := "sharded:{two}from", [2]string{"sharded:{two}to", "other:{two}to"}[at]
			if err := p.hooked.Del(ctx, from, to).Err(); err != nil {
				return 0, err
			}
			return keysCall{
				func(ctx context.Context, rdb redis.UniversalClient, _ string) error {
					return rdb.RPush(ctx, from, "value").Err()
				},
				func(ctx context.Context, _ redis.UniversalClient, _ string) error { return c.call(ctx, from, to) },
			}.timeOf(ctx, b, p.hooked, "")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// onScan measures SCAN of all keys: of as many short lists as others.
func (b *bench) onScan(ctx context.Context, p *place) error {
	if err := p.clear(ctx); err != nil {
		return err
	}
	total := pick(b, 10_000, 1_000_000)
	for first := 0; first < total; first += 1000 {
		_, err := p.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := first; i < first+1000; i += 2 {
				pipe.RPush(ctx, fmt.Sprint("sharded:", i), "value")
				pipe.Set(ctx, fmt.Sprint("other:", i), "value", 0)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for _, count := range []int64{10, 1000} {
		goal := 1.3
		if count > 10 {
			goal = 0 // what it is without COUNT counts
		}
		err := b.compareKeys(ctx, p.name, fmt.Sprintf("`SCAN` of %d keys, `COUNT` %d", total, count), goal, func(ctx context.Context, at int) (time.Duration, error) {
			rdb, _ := p.client(at)
			start, found := time.Now(), 0
			keys := rdb.Scan(ctx, 0, "", count).Iterator()
			for keys.Next(ctx) {
				found++
			}
			if keys.Err() == nil && found < total {
				return 0, fmt.Errorf("SCAN has found %d of %d keys", found, total)
			}
			return time.Since(start), keys.Err()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *report) onKeys(rows []keysFigures) {
	r.section("Commands of many keys", `*First* is the time of a call by plain go-redis, and *second* through the hook; of a list that matches and one that does not, both are through
the hook, and *first* is for two lists that match. *SCAN* is of half a million lists of one element and as many other keys, to the end.

*EXISTS* sends 200 names, those of the lists and those of their metas. *DEL* looks at the metas and deletes in one script, so the names pass
through Lua; without it, other callers would see some of the lists deleted and others not. *SCAN* goes through all keys twice, which shows
with a large *COUNT*: a list that becomes long or short meanwhile would be missed otherwise.`)
	var t *table
	for i, k := range rows {
		if i == 0 || k.Place != rows[i-1].Place {
			t = r.table(k.Place, "call", "first", "second", "ratio")
		}
		ratio := float64(k.Second) / float64(k.First)
		t.row(k.Name, micros(k.First), micros(k.Second), times(ratio))
		if k.Goal > 0 {
			what := "Time of " + k.Name
			if k.Place != "" {
				what += ", " + k.Place
			}
			r.target(what, fmt.Sprintf("≤ %.2f×", k.Goal), times(ratio), ratio <= k.Goal)
		}
	}
}
