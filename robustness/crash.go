package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

const filled = 100_000 // elements to pop

// crash has the workers push onto one list and pop from another, has a replica take over that lags behind its master, and checks
// that what was undone is the end of the history.
func (c *cell) crash() {
	pushes := fmt.Sprintf("%s:pushes:%d", tag, c.row.Faults)
	pops := fmt.Sprintf("%s:pops:%d", tag, c.row.Faults)
	c.note(c.fill(pops))
	books := newLedger()
	books.whole = true
	everyone := c.employ(books, queueSpec{Push: pushes, Pop: pops, Capacity: 5, Seed: c.seed, Steady: true, Most: maxBurst})
	defer c.dismiss()
	c.await(books, 300, 300)
	c.note(c.try(func() {
		if c.network != nil {
			c.split()
			return
		}
		c.server.Crash(&c.bed, c.slot(), func(replica *redistest.Server) {
			replica.Pause()
			// More than the connection to the replica holds: what follows stays on the master.
			ballast := strings.Repeat("x", 1<<20)
			for range 32 {
				c.note(c.rdb.Set(c.ctx, tag+":ballast", ballast, 0).Err())
			}
			c.await(books, 20, 20)
		})
	}))
	c.row.Faults++
	c.await(books, 300, 300)
	if !c.endQueue(everyone) {
		return
	}
	if books.unexpected != "" {
		c.violate("an error that nothing explains: %s", books.unexpected)
	}
	c.row.Operations += books.operations
	c.row.Elements += int64(books.popped)
	c.checkPushes(books, c.read(c.open(pushes)))
	c.checkPops(books, c.read(c.open(pops)))
	c.check(c.open(pushes))
	c.check(c.open(pops))
	c.note(c.insist(c.empty))
}

// split cuts the master off, with some of the clients, all or none, until the others have another master. Those with it go on
// until it notices.
func (c *cell) split() {
	random := rand.New(rand.NewPCG(c.seed, uint64(c.row.Faults)))
	c.server.Isolate(&c.bed, c.slot(), func(master *redistest.Server) {
		c.note(c.network.cut(c.side(random, master)))
	}, func() { c.note(c.network.heal()) })
}

// fill makes the elements to pop, and waits until the replica has them.
func (c *cell) fill(name string) error {
	values := make([]string, filled)
	for i := range values {
		values[i] = fmt.Sprintf("0.%d", i)
	}
	return c.insist(func(ctx context.Context) error {
		list, err := shardedlist.New(c.rdb, name, shardedlist.WithCapacity(100), shardedlist.WithReplicas(1, 5*time.Second))
		if err == nil {
			_, err = list.Del(ctx)
		}
		if err == nil || err == redis.Nil {
			_, err = list.RPush(ctx, values)
		}
		return err
	})
}

// await waits until so much more has been pushed and popped.
func (c *cell) await(books *ledger, pushed, popped int) {
	books.mu.Lock()
	pushed, popped = books.pushed+pushed, books.popped+popped
	books.mu.Unlock()
	for deadline := time.Now().Add(roundPatience); c.ctx.Err() == nil; c.sleep(time.Millisecond) {
		books.mu.Lock()
		enough := books.pushed >= pushed && books.popped >= popped
		books.mu.Unlock()
		if enough {
			return
		}
		if time.Now().After(deadline) {
			c.violate("nothing gets on for %v", roundPatience)
		}
	}
}

// checkPushes compares a list that nobody popped from with the lengths that its pushes returned.
func (c *cell) checkPushes(books *ledger, content []string) {
	at := map[string]int64{}
	for i, value := range content {
		if at[value] > 0 {
			c.row.Doubled++
		}
		at[value] = int64(i + 1)
	}
	var undone []int64
	for producer, elements := range books.all() {
		var kept []bool
		for i, e := range elements {
			if e.fate != done {
				continue
			}
			position := at[fmt.Sprintf("%d.%d", producer, i)]
			kept = append(kept, position > 0)
			switch {
			case position == 0:
				undone = append(undone, e.length)
				if c.fault.waits && e.replicated {
					c.row.Lost++
				}
			case position != e.length:
				c.row.Disordered++
			}
		}
		if len(slices.Compact(kept)) > 3 {
			c.violate("a producer's pushes were kept, undone, kept and undone again")
		}
	}
	c.suffix("pushes", undone)
}

// checkPops compares what was popped with what there was to pop. Each element came out or is left; those whose pops were undone came
// out twice, or came out and are left.
func (c *cell) checkPops(books *ledger, left []string) {
	var undone []int64
	elements := books.all()[0]
	for i := range filled {
		var e element
		if i < len(elements) {
			e = elements[i]
		}
		places := e.seen
		if i >= filled-len(left) {
			places++
		}
		switch {
		case places == 0:
			c.row.Lost++
		case places > 2:
			c.row.Doubled++
		case places == 2:
			undone = append(undone, int64(i))
			if c.fault.waits && e.outReplicated {
				c.row.Doubled++
			}
		}
	}
	for i, value := range left {
		if value != fmt.Sprintf("0.%d", filled-len(left)+i) {
			c.row.Disordered++
		}
	}
	c.suffix("pops", undone)
}

// suffix checks that what was undone are the last operations before the crash. Among them may be some whose results nobody got.
func (c *cell) suffix(what string, undone []int64) {
	slices.Sort(undone)
	c.row.Excused += int64(len(undone))
	if n := len(undone); n > 0 && undone[n-1]-undone[0]-int64(n-1) > workers*consumersPerWorker*maxBurst {
		c.violate("the %s undone are not the last before the crash: %v", what, undone)
	}
	if c.row.Lost+c.row.Doubled+c.row.Disordered > 0 {
		c.violate("%s: %d lost, %d doubled, %d out of order", what, c.row.Lost, c.row.Doubled, c.row.Disordered)
	}
}
