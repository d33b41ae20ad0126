package web

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// pacer is a hook that slows a client down, so that the server spends a small share of a core on it.
//
// What a command costs the server is not known. It is taken for what the reply took beyond the quickest round trip, and a little more. So
// a server that is busy, or has large things to look at, is asked less often, and a long way to it does not count.
type pacer struct {
	share float64       // of a core, on average
	save  time.Duration // work that may be done faster after a pause, so that the first viewer does not wait for long

	mu       sync.Mutex
	next     time.Time     // when the next command may go
	quickest time.Duration // round trip
	saved    time.Duration // what is left of it
	savedAt  time.Time
}

const (
	fastShare   = 0.05                  // of a core, after a pause: others do not notice
	commandCost = 10 * time.Microsecond // at least
	maxCost     = 5 * time.Millisecond  // of a step: what takes longer has waited for something else
	shortest    = time.Millisecond      // pause that is worth a timer
)

// pacedClient returns a client of the same server that costs it so much of a core on average, but for work that it may do faster after a
// pause. The caller closes it.
func pacedClient(client redis.UniversalClient, share float64, save time.Duration) redis.UniversalClient {
	p := &pacer{share: share, save: save, saved: save, savedAt: time.Now()}
	switch c := client.(type) {
	case *redis.ClusterClient:
		options := *c.Options()
		paced := redis.NewClusterClient(&options)
		paced.OnNewNode(func(node *redis.Client) { node.AddHook(p) })
		return paced
	case *redis.Client:
		options := *c.Options()
		if options.MaxRetries == 0 { // go-redis has made none of the -1 that says so, and would make three of the none
			options.MaxRetries = -1
		}
		paced := redis.NewClient(&options)
		paced.AddHook(p)
		return paced
	}
	panic("web: want a client of a server or a cluster")
}

func (p *pacer) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (p *pacer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return p.pace(ctx, 1, func() error { return next(ctx, cmd) })
	}
}

func (p *pacer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return p.pace(ctx, len(cmds), func() error { return next(ctx, cmds) })
	}
}

// pace waits until so many commands may go, and sends them.
func (p *pacer) pace(ctx context.Context, commands int, send func() error) error {
	p.mu.Lock()
	pause := time.Until(p.next)
	p.mu.Unlock()
	if pause > shortest && !pauseFor(ctx, pause) {
		return ctx.Err()
	}
	start := time.Now()
	err := send()
	p.charge(time.Since(start), commands)
	return err
}

// charge puts off the next command for what these have cost.
func (p *pacer) charge(took time.Duration, commands int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quickest == 0 || took < p.quickest {
		p.quickest = took
	}
	cost := min(took-p.quickest+time.Duration(commands)*commandCost, maxCost)
	p.quickest += p.quickest / 256 // ways become longer, too

	now := time.Now()
	p.saved = min(p.save, p.saved+time.Duration(float64(now.Sub(p.savedAt))*p.share/4))
	p.savedAt = now
	share := p.share * 3 / 4
	if p.saved > cost {
		p.saved -= cost
		share = fastShare
	}
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(cost) / share))
}

// pauseFor waits, and reports whether ctx has not ended meanwhile.
func pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
