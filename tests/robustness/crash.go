package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

const filled = 100_000 // elements to pop

// crash runs workers that push to one list and pop from another, makes a replica that lags behind its master take over, and checks
// that only the end of the history was undone.
func (sc *scenario) crash() {
	spec := queueSpec{
		Push: fmt.Sprintf("%s:pushes:%d", tag, sc.row.Faults), Pop: fmt.Sprintf("%s:pops:%d", tag, sc.row.Faults),
		Capacity: 5, Seed: sc.seed, Steady: true, Most: maxBurst, Clients: sc.clients,
	}
	pushes, pops := spec.lists(spec.Push), spec.lists(spec.Pop)
	for _, list := range pops[:min(2, len(pops))] {
		sc.note(sc.fill(list))
	}
	ledger := newLedger()
	ledger.Complete = true
	sc.mu.Lock()
	sc.inPlay = map[string]int{spec.Push: parts, spec.Pop: parts}
	sc.mu.Unlock()
	everyone := sc.startWorkers(ledger, spec)
	defer sc.dismiss()
	sc.await(ledger, 300, 300)
	apart := sc.takeOver(ledger)
	sc.row.Faults++
	sc.await(ledger, 300, 300)
	if !sc.endQueue(everyone) {
		return
	}
	if ledger.unexpected != "" {
		sc.violate("an error that no fault explains: %s", ledger.unexpected)
	}
	sc.row.Operations += ledger.operations
	_, popped := ledger.Counts()
	sc.row.Elements += int64(popped)
	if sc.clients == spreadLists {
		sc.repair(spec.Push)
		sc.repair(spec.Pop)
	}
	content, left := sc.read(sc.open(pushes[0])), sc.read(sc.open(pops[0]))
	if since := apart - int64(replicaLag); sc.clients == spreadLists {
		sc.judgeUndone("pushes", ledger.UndonePushesSince(since, content))
		sc.judgeUndone("pops", ledger.UndonePopsSince(since, filled, left))
	} else {
		sc.judgeUndone("pushes", ledger.UndonePushes(content))
		sc.judgeUndone("pops", ledger.UndonePops(filled, left))
	}
	if sc.clients == transactions {
		sc.judgeHalves(spec, content, left)
	}
	sc.judgeAcknowledged(ledger)
	sc.check(sc.open(pushes[0]))
	sc.check(sc.open(pops[0]))
	sc.note(sc.retry(sc.empty))
}

// takeOver makes a replica that lags behind its master take over, and returns when it has stopped to follow.
func (sc *scenario) takeOver(clients progress) (apart int64) {
	sc.note(sc.try(func() {
		if sc.network != nil {
			apart = now()
			sc.split()
			return
		}
		sc.server.Crash(&sc.harness, sc.slot(), func(replica *redistest.Server) {
			apart = now()
			replica.Pause()
			// More than the connection to the replica buffers: what follows stays on the master.
			ballast := strings.Repeat("x", 1<<20)
			for range 32 {
				sc.note(sc.rdb.Set(sc.ctx, tag+":ballast", ballast, 0).Err())
			}
			sc.await(clients, 20, 20)
		})
	}))
	return apart
}

// progress tells what clients have done: how many elements or jobs they have pushed, and how many popped or done.
type progress interface{ Counts() (pushed, popped int) }

// replicaLag is how far a replica may be behind at most that follows its master.
const replicaLag = 500 * time.Millisecond

// repair makes what the failover has put outside the pointers of a spread list a part of it again.
func (sc *scenario) repair(name string) {
	sc.note(sc.retry(func(ctx context.Context) error {
		_, err := sc.open(name).Repair(ctx, shardedlist.RepairOptions{})
		return err
	}))
}

// split cuts the master off, with some, all or none of the clients, until the other nodes have another master. The clients on its side
// continue until it notices.
func (sc *scenario) split() {
	random := rand.New(rand.NewPCG(sc.seed, uint64(sc.row.Faults)))
	sc.server.Isolate(&sc.harness, sc.slot(), func(master *redistest.Server) {
		sc.note(sc.network.cut(sc.side(random, master)))
	}, func() { sc.note(sc.network.heal()) })
}

// fill pushes the elements to pop, and waits until the replica has them. In a rollout they are a plain list.
func (sc *scenario) fill(name string) error {
	values := make([]string, filled)
	for i := range values {
		values[i] = ledger.Name(0, i)
	}
	filledBy := name
	if sc.clients == rollout {
		filledBy += ":replicated" // a replica that has this has the plain list, too
	}
	return sc.retry(func(ctx context.Context) error {
		if sc.clients == rollout {
			if err := sc.rdb.Del(ctx, name).Err(); err != nil {
				return err
			}
			if err := sc.rdb.RPush(ctx, name, values).Err(); err != nil {
				return err
			}
		}
		options := []shardedlist.Option{shardedlist.WithCapacity(100), shardedlist.WithReplicas(1, 5*time.Second)}
		if sc.clients == spreadLists {
			options = append(options, shardedlist.WithParts(parts))
		}
		list, err := shardedlist.New(sc.rdb, filledBy, options...)
		if err == nil {
			_, err = list.Del(ctx)
		}
		if err == nil || err == redis.Nil {
			_, err = list.RPush(ctx, values)
		}
		return err
	})
}

// await waits until that many more elements have been pushed and popped.
func (sc *scenario) await(clients progress, pushed, popped int) {
	pushedBefore, poppedBefore := clients.Counts()
	for deadline := time.Now().Add(roundPatience); sc.ctx.Err() == nil; sc.sleep(time.Millisecond) {
		if pushedNow, poppedNow := clients.Counts(); pushedNow >= pushedBefore+pushed && poppedNow >= poppedBefore+popped {
			return
		}
		if time.Now().After(deadline) {
			sc.violate("no progress for %v", roundPatience)
		}
	}
}

// judgeUndone checks that the operations undone are the last before the crash. Operations whose results nobody got may lie between
// them.
func (sc *scenario) judgeUndone(what string, u ledger.Undone) {
	sc.row.Excused += int64(len(u.Positions))
	sc.row.Lost += int64(u.Lost)
	sc.row.Doubled += int64(u.Doubled + u.Invented)
	sc.row.Disordered += int64(u.Misplaced)
	if sc.fault.waits && what == "pushes" {
		sc.row.Lost += int64(len(u.Replicated))
	} else if sc.fault.waits {
		sc.row.Doubled += int64(len(u.Replicated))
	}
	switch {
	case len(u.Torn) > 0:
		sc.violate("a producer's %s were kept, undone, kept and undone again", what)
	case sc.clients != spreadLists && u.Gaps() > workers*consumersPerWorker*maxBurst:
		sc.violate("the %s undone are not the last before the crash: %v", what, u.Positions)
	case sc.row.Lost+sc.row.Doubled > 0, sc.row.Disordered > 0 && sc.clients != spreadLists:
		sc.violate("%s: %d lost, %d doubled, %d out of order", what, sc.row.Lost, sc.row.Doubled, sc.row.Disordered)
	}
}

// judgeAcknowledged makes sure that the clients have done something: what fails is neither lost nor doubled.
func (sc *scenario) judgeAcknowledged(ledger *queueLedger) {
	if sc.quit.Err() == nil && ledger.refused*2 > ledger.pushes {
		sc.violate("most pushes failed: %d of %d", ledger.refused, ledger.pushes)
	}
}
