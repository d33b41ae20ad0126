package blocking

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/stats"
)

const (
	// maxSeats is how many connections of a client may block on one server.
	maxSeats = 8
	// sparePipelines is how many connections of the pool for pipelines stay for others.
	sparePipelines = 2
	// oftenWoken is the time between two wake-ups within which a bell is preferred for a seat, if there are not enough.
	oftenWoken = 250 * time.Millisecond
	// minTurn is the shortest time for which one of many bells has a seat.
	minTurn = 50 * time.Millisecond
	// looksPerSecond is how often callers that listen look at their lists at most, all together. maxListen limits how long one does not.
	looksPerSecond = 1000
	maxListen      = 10 * time.Second
	// pingAfter is how long a subscription is silent before the server must show that it is there.
	pingAfter = 5 * time.Second
	// keepFor is how long a bell stays subscribed to while nobody waits on it.
	keepFor = 5 * time.Second
	// deafFor is how long no subscription is tried where the server or the user has none; maxPause after a subscription has failed.
	deafFor  = time.Minute
	maxPause = time.Second
)

// node is a server on which callers of this process wait. A few bells have a seat: a connection that blocks. The others share one
// connection, which has subscribed to the channels of their bells: a ring is a message, too. docs/models/waiting.py is the protocol.
type node struct {
	mu      sync.Mutex
	client  *redis.Client // while it has bells
	seats   int           // that are free
	size    int           // all seats
	waiting int           // that wait, in either way
	turns   []*wait       // that wait for a seat where there are no subscriptions
	bells   map[string]*bell

	sub       *redis.PubSub  // nil while nobody listens
	leaving   map[string]int // bells that the server is asked to unsubscribe from
	writing   bool           // a goroutine subscribes and unsubscribes
	sweeper   *time.Timer    // while there are bells
	deafUntil time.Time      // when to subscribe again
	failures  int            // of subscriptions, in a row
}

// bell is one on which callers wait, or have waited lately.
type bell struct {
	users     int       // that wait, in either way
	listeners []*wait   // that have no seat, in the order they came
	asked     bool      // to be subscribed to
	rung      bool      // while nobody listened
	woken     time.Time // when it has woken somebody
	often     bool      // the time before was shortly before
	idle      time.Time // since when nobody waits
}

// wake notes that the bell has woken somebody.
func (b *bell) wake() {
	now := time.Now()
	b.often, b.woken = now.Sub(b.woken) < oftenWoken, now
}

// nodes has a *node for each weak.Pointer[redis.Client].
var nodes sync.Map

// nodeOf returns the server that has the key, or nil if it is not known how to listen there.
func nodeOf(rdb redis.UniversalClient, key string) (*node, *redis.Client) {
	server, err := script.Master(context.Background(), rdb, key)
	client, ok := server.(*redis.Client)
	if err != nil || !ok || client == nil {
		return nil, nil
	}
	at := weak.Make(client)
	n, ok := nodes.Load(at)
	if !ok {
		size := seatsOf(client.Options())
		if n, ok = nodes.LoadOrStore(at, &node{seats: size, size: size, bells: map[string]*bell{}, leaving: map[string]int{}}); !ok {
			runtime.AddCleanup(client, func(at weak.Pointer[redis.Client]) { nodes.Delete(at) }, at)
		}
	}
	return n.(*node), client
}

// seatsOf returns how many connections may block. They are of the pool for pipelines, which other commands do without, if there is one.
func seatsOf(o *redis.Options) int {
	pool := o.PipelinePoolSize
	if pool == 0 {
		pool = redis.DefaultPipelinePoolSize
	}
	if pool < 0 {
		return min(maxSeats, max(1, o.PoolSize/4))
	}
	return min(maxSeats, max(1, pool-sparePipelines))
}

// await waits until the wait is told something, or the time is over. It returns for how long a seat may be kept.
func (n *node) await(client *redis.Client, w *wait, list *stats.List, slice time.Duration) time.Duration {
	n.mu.Lock()
	n.client = client
	n.waiting++
	preferred := n.waiting <= n.size
	for _, name := range w.bells {
		b := n.bells[name]
		if b == nil {
			b = &bell{}
			n.bells[name] = b
		}
		b.users++
		preferred = preferred || b.often && time.Since(b.woken) < oftenWoken
	}
	if n.sweeper == nil {
		n.sweeper = time.AfterFunc(keepFor, n.sweep)
	}
	deaf := time.Now().Before(n.deafUntil)
	limit := slice
	switch {
	case n.seats > 0 && (preferred || deaf):
		n.seat(w)
	case deaf:
		n.turns = append(n.turns, w)
		limit = min(slice, MaxSlice)
		slice = min(slice, max(minTurn, MaxSlice*time.Duration(n.size)/time.Duration(n.waiting)))
	default:
		defer list.Listen()()
		n.listen(w)
		if slice == MaxSlice {
			limit = max(slice, min(maxListen, time.Duration(n.waiting)*time.Second/looksPerSecond))
		}
	}
	n.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case h := <-w.told:
		w.told <- h
	case <-timer.C:
	}
	return slice
}

// seat gives the wait a seat, unless it has ended. The lock is held.
func (n *node) seat(w *wait) {
	if w.tell(seated) {
		w.seated = true
		n.seats--
	}
}

// listen has the wait told when one of its bells rings. The lock is held.
func (n *node) listen(w *wait) {
	for _, name := range w.bells {
		b := n.bells[name]
		b.listeners = append(b.listeners, w)
		if b.rung && w.tell(rung) {
			b.rung = false
		}
		if !b.asked && !n.writing {
			n.writing = true
			go n.write()
		}
	}
}

// leave ends a wait, and gives its seat to the next one.
func (n *node) leave(w *wait, wokenBy string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.waiting--
	now := time.Now()
	for _, name := range w.bells {
		b := n.bells[name]
		b.users--
		b.listeners = without(b.listeners, w)
		if b.users == 0 {
			b.idle = now
		}
		if name == wokenBy {
			b.wake()
		}
	}
	n.turns = without(n.turns, w)
	if !w.seated {
		return
	}
	w.seated = false
	n.seats++
	for len(n.turns) > 0 && n.seats > 0 {
		next := n.turns[0]
		n.turns = n.turns[1:]
		n.seat(next)
	}
}

// without returns waits but for one.
func without(waits []*wait, w *wait) []*wait {
	return slices.DeleteFunc(waits, func(other *wait) bool { return other == w })
}

// write subscribes to the bells that somebody listens to, one by one: in a cluster they are in different slots.
func (n *node) write() {
	for {
		n.mu.Lock()
		var names, idle []string
		for name, b := range n.bells {
			switch {
			case len(b.listeners) > 0 && !b.asked:
				b.asked = true
				names = append(names, name)
			case b.users == 0 && time.Since(b.idle) >= keepFor:
				if b.asked {
					idle = append(idle, name)
					n.leaving[name]++
				}
				delete(n.bells, name)
			}
		}
		if n.sub == nil {
			idle = nil
			clear(n.leaving)
		}
		if len(names) == 0 && len(idle) == 0 {
			n.writing = false
			n.close()
			n.mu.Unlock()
			return
		}
		sub, begun := n.sub, n.sub == nil
		if begun {
			sub = n.client.SSubscribe(context.Background())
			n.sub = sub
		}
		n.mu.Unlock()
		var err error
		for i := 0; i < len(idle) && err == nil; i++ {
			err = sub.SUnsubscribe(context.Background(), idle[i])
		}
		for i := 0; i < len(names) && err == nil; i++ {
			err = sub.SSubscribe(context.Background(), names[i])
		}
		if err != nil {
			n.lost(sub, err)
		} else if begun {
			go n.receive(sub)
		}
	}
}

// close closes the subscription if there are no bells left. The lock is held.
func (n *node) close() {
	if len(n.bells) > 0 {
		return
	}
	if n.sub != nil {
		_ = n.sub.Close()
		n.sub = nil
	}
	n.client = nil
}

// sweep forgets bells that nobody has waited on for a time.
func (n *node) sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.bells) == 0 {
		n.sweeper = nil
		return
	}
	n.sweeper.Reset(keepFor)
	if !n.writing {
		n.writing = true
		go n.write()
	}
}

// receive hands messages to those who wait, until the subscription is closed or fails.
func (n *node) receive(sub *redis.PubSub) {
	for pinged := false; ; {
		message, err := sub.ReceiveTimeout(context.Background(), pingAfter)
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() && !pinged {
			pinged = true
			err = sub.Ping(context.Background())
			if err == nil {
				continue
			}
		}
		if err != nil {
			n.lost(sub, err)
			return
		}
		pinged = false
		switch message := message.(type) {
		case *redis.Message:
			n.ring(message.Channel)
		case *redis.Subscription:
			n.confirm(sub, message)
		}
	}
}

// ring wakes the one who has listened to the bell for longest, or keeps the ring for the next one.
func (n *node) ring(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	b := n.bells[name]
	if b == nil {
		return
	}
	for len(b.listeners) > 0 {
		first := b.listeners[0]
		b.listeners = b.listeners[1:]
		if first.tell(rung) {
			b.wake()
			return
		}
	}
	b.rung = true
}

// confirm has those who listen to a bell look at the list, since it may have rung before; or if the slot of the bell has gone elsewhere.
func (n *node) confirm(sub *redis.PubSub, s *redis.Subscription) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.Kind == "sunsubscribe" && n.leaving[s.Channel] > 0 {
		if n.leaving[s.Channel]--; n.leaving[s.Channel] == 0 {
			delete(n.leaving, s.Channel)
		}
		return
	}
	b := n.bells[s.Channel]
	if b == nil || sub != n.sub {
		return
	}
	n.failures = 0
	b.asked = s.Kind == "ssubscribe"
	b.rung = len(b.listeners) == 0
	for _, w := range b.listeners {
		w.tell(timeUp)
	}
	b.listeners = nil
}

// lost has all who listen look at their lists: a ring may be lost.
func (n *node) lost(sub *redis.PubSub, err error) {
	_ = sub.Close()
	n.mu.Lock()
	defer n.mu.Unlock()
	if sub != n.sub {
		return
	}
	n.sub = nil
	clear(n.leaving)
	pause := min(maxPause, script.Backoff(n.failures))
	if n.failures++; script.LacksCommand(err) || redis.HasErrorPrefix(err, "NOPERM ") {
		pause = deafFor
	}
	n.deafUntil = time.Now().Add(pause)
	for _, b := range n.bells {
		b.asked, b.rung = false, false
		for _, w := range b.listeners {
			w.tell(timeUp)
		}
		b.listeners = nil
	}
}
