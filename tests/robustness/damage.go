package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/oneslot"
)

const (
	damageLap = 2 * time.Second // then the list is mended and checked, and another one begins
	fewest    = 100             // elements that are left in the list: consumers wait
	most      = 600             // producers wait
	bigPop    = 1 << 20
)

// A damagedList is one whose keys are deleted, and all its elements.
type damagedList struct {
	sc      *scenario
	list    *shardedlist.ShardedList
	fifo    bool // its meta is never deleted, so what is popped comes in order, too
	mu      sync.Mutex
	pushed  map[string]bool // acknowledged; false: refused
	seen    map[string]int  // popped, deleted with their shard, or left at the end
	latest  map[[2]int]int  // by consumer and producer
	left    int             // elements in the list
	calls   int64
	popped  int64
	failed  int64          // pushes
	deleted map[string]int // keys and elements, by kind
	closed  bool
}

// damage deletes keys of lists that clients use, and mends the lists.
func (sc *scenario) damage(ctx context.Context) {
	random := rand.New(rand.NewPCG(sc.seed, 3))
	struck := map[string]int{}
	rdbs := make([]redis.UniversalClient, workers+1) // one mends
	for i := range rdbs {
		rdbs[i] = sc.server.Client(&sc.harness)
		if sc.hook != nil {
			rdbs[i].AddHook(sc.hook)
		}
	}
	for lap := 0; ctx.Err() == nil; lap++ {
		name := fmt.Sprintf("%s:damage:%d", tag, lap)
		d := &damagedList{
			sc: sc, list: sc.openDamaged(rdbs[workers], name), fifo: lap%2 == 1,
			pushed: map[string]bool{}, seen: map[string]int{}, latest: map[[2]int]int{}, deleted: struck,
		}
		var clients sync.WaitGroup
		for i, rdb := range rdbs[:workers] {
			list := sc.openDamaged(rdb, name)
			clients.Go(func() { d.produce(list, i, rand.New(rand.NewPCG(sc.seed, uint64(lap*10+i)))) })
			clients.Go(func() { d.consume(list, i, rand.New(rand.NewPCG(sc.seed, uint64(lap*10+i+5)))) })
		}
		until, cancel := context.WithTimeout(ctx, damageLap)
		for until.Err() == nil {
			sc.sleepIn(until, time.Duration(random.IntN(20))*time.Millisecond)
			kinds := map[string]bool{}
			for range 1 + random.IntN(3) {
				// Of two lists that have lost their metas, a caller must say which came first.
				kinds[d.strike(random, !d.fifo && !kinds["meta"])] = true
			}
			d.mend()
		}
		cancel()
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
		clients.Wait()
		d.judge()
		if sc.ctx.Err() != nil {
			return
		}
		sc.note(sc.retry(sc.empty))
	}
	for _, kind := range []string{"meta", "shard", "element", "record"} {
		if struck[kind] == 0 && sc.quit.Err() == nil {
			sc.missEvidence("no %s was deleted", kind)
		}
	}
}

func (sc *scenario) openDamaged(rdb redis.UniversalClient, name string) *shardedlist.ShardedList {
	list, err := shardedlist.New(rdb, name, shardedlist.WithCapacity(3))
	sc.note(err)
	return list
}

// goesOn reports whether the clients are to go on, and waits as long as there are too many or too few elements.
func (d *damagedList) goesOn(producer bool) bool {
	for {
		d.mu.Lock()
		closed, left := d.closed, d.left
		d.mu.Unlock()
		if closed || d.sc.ctx.Err() != nil || d.sc.quit.Err() != nil {
			return false
		}
		if producer && left < most || !producer && left > fewest {
			return true
		}
		d.sc.sleep(time.Millisecond)
	}
}

func (d *damagedList) produce(list *shardedlist.ShardedList, producer int, random *rand.Rand) {
	for next := 0; d.goesOn(true); {
		var values []any
		for range 1 + random.IntN(4) {
			values = append(values, ledger.Name(producer, next))
			next++
		}
		_, err := list.RPush(context.Background(), values...)
		d.expect("RPUSH", err)
		d.mu.Lock()
		d.calls++
		for _, value := range values {
			d.pushed[value.(string)] = err == nil
		}
		if err == nil {
			d.left += len(values)
		} else {
			d.failed++
		}
		d.mu.Unlock()
	}
}

func (d *damagedList) consume(list *shardedlist.ShardedList, consumer int, random *rand.Rand) {
	for d.goesOn(false) {
		var values []string
		var err error
		if ctx := context.Background(); random.IntN(3) == 0 {
			var value string
			if value, err = list.BLPop(ctx, 50*time.Millisecond); err == nil {
				values = []string{value}
			}
		} else {
			values, err = list.LPopCount(ctx, 1+random.IntN(5))
		}
		d.expect("LPOP", err)
		d.mu.Lock()
		d.calls++
		d.popped += int64(len(values))
		d.take(consumer, values)
		d.mu.Unlock()
	}
}

// expect allows the error of a list that lacks a shard.
func (d *damagedList) expect(command string, err error) {
	if err != nil && err != redis.Nil && !errors.Is(err, shardedlist.ErrBroken) {
		d.sc.violate("%s: an error that no fault explains: %v", command, err)
	}
}

// take notes where elements have come. A negative consumer needs no order.
func (d *damagedList) take(consumer int, values []string) {
	d.left -= len(values)
	for _, value := range values {
		d.seen[value]++
		producer, number, ok := ledger.Parse(value)
		if !ok {
			d.sc.violate("%q was never pushed", value)
			return
		}
		at := [2]int{consumer, producer}
		if before, met := d.latest[at]; consumer >= 0 && met && number < before && (d.fifo || consumer >= workers) {
			d.sc.mu.Lock()
			d.sc.row.Disordered++
			d.sc.mu.Unlock()
			d.sc.violate("%s: consumer %d got %s behind %s", d.list.Name(), consumer, value, ledger.Name(producer, before))
		}
		d.latest[at] = number
	}
}

// strike deletes a key of the list, or an element of it, and notes which elements have gone with it.
func (d *damagedList) strike(random *rand.Rand, meta bool) (kind string) {
	keys, ctx := oneslot.KeysOf(d.list.Name()), context.Background()
	var shards, records []string
	var mu sync.Mutex
	d.sc.onMasters(func(ctx context.Context, node *redis.Client) error {
		all, err := node.Keys(ctx, keys.Glob()).Result()
		mu.Lock()
		defer mu.Unlock()
		for _, key := range all {
			if _, ok := oneslot.ShardPrefix(key); ok {
				shards = append(shards, key)
			} else if strings.HasPrefix(key, keys.Records()) {
				records = append(records, key)
			}
		}
		return err
	})
	struck := int64(0)
	switch roll := random.IntN(8); {
	case roll == 0 && len(records) > 0:
		kind = "record"
		deleted, err := d.sc.rdb.Del(ctx, records[random.IntN(len(records))]).Result()
		d.sc.note(err)
		struck = deleted
	case roll < 3 && meta:
		kind = "meta"
		deleted, err := d.sc.rdb.Del(ctx, keys.Meta).Result()
		d.sc.note(err)
		struck = deleted
	case len(shards) > 0:
		kind = "shard"
		count := bigPop
		if roll == 7 {
			kind, count = "element", 1
		}
		deleted, err := d.sc.rdb.LPopCount(ctx, shards[random.IntN(len(shards))], count).Result()
		if err != redis.Nil {
			d.sc.note(err)
		}
		d.mu.Lock()
		d.take(-1, deleted)
		d.mu.Unlock()
		d.sc.mu.Lock()
		d.sc.row.Excused += int64(len(deleted))
		d.sc.mu.Unlock()
		struck = int64(min(1, len(deleted)))
	}
	d.deleted[kind] += int(struck)
	d.sc.mu.Lock()
	d.sc.row.Faults += struck
	d.sc.mu.Unlock()
	return kind
}

// mend repairs the list. What it has lost comes before what was pushed since.
func (d *damagedList) mend() {
	var report []string
	for range 20 {
		var err error
		report, err = d.list.Repair(context.Background(), shardedlist.RepairOptions{Before: true})
		if err == nil {
			return
		}
		if !errors.Is(err, shardedlist.ErrBroken) {
			d.sc.note(err)
			return
		}
	}
	d.sc.violate("the list cannot be mended: %s", strings.Join(report, "; "))
}

// judge checks that each element came out, was deleted, or is left, once, and that what is left is in order.
func (d *damagedList) judge() {
	d.mend()
	if d.sc.ctx.Err() != nil {
		return
	}
	rest := d.sc.read(d.list)
	d.sc.check(d.list)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.take(workers, rest)
	row := &d.sc.row
	row.Operations += d.calls
	row.Elements += d.popped
	for value, acknowledged := range d.pushed {
		switch n := d.seen[value]; {
		case acknowledged && n == 0:
			row.Lost++
			d.sc.violate("%s is lost", value)
		case n > 1 || !acknowledged && n > 0:
			row.Doubled++
			d.sc.violate("%s was seen %d times, and its push was acknowledged: %v", value, n, acknowledged)
		}
		delete(d.seen, value)
	}
	for value := range d.seen {
		d.sc.violate("%s was never pushed", value)
	}
	if 2*d.failed > d.calls {
		d.sc.missEvidence("of %d calls, %d were pushes that failed", d.calls, d.failed)
	}
}
