package main

import (
	"context"
	"fmt"
	"time"
)

const (
	waitFor     = 3 * time.Second
	cancelAfter = 100 * time.Millisecond
)

// cancel measures how long a blocked pop takes whose caller cancels it long before its timeout.
func (b *bench) cancel(ctx context.Context) error {
	rdb := b.server.client()
	defer rdb.Close()
	l := sharded(rdb, "cancel:sharded")
	result := &cancelResult{Rounds: pick(b, 1, 10)}
	for _, c := range []struct {
		name string
		pop  func(ctx context.Context) error
	}{
		{ours, func(ctx context.Context) error { _, err := l.BLPop(ctx, waitFor); return err }},
		{"go-redis", func(ctx context.Context) error { return rdb.BLPop(ctx, waitFor, "cancel:plain").Err() }},
	} {
		var took []time.Duration
		for range result.Rounds {
			soon, cancel := context.WithTimeout(ctx, cancelAfter)
			start := time.Now()
			err := c.pop(soon)
			took = append(took, time.Since(start))
			cancel()
			if err == nil {
				return fmt.Errorf("%s: the wait was not cancelled", c.name)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			tick()
		}
		result.Clients = append(result.Clients, cancelledWait{c.name, quantile(took, 0.5), spreadOf(took), quantile(took, 1)})
	}
	b.results.Cancel = result
	return nil
}

type cancelResult struct {
	Rounds  int             `json:"rounds"`
	Clients []cancelledWait `json:"clients"`
}

type cancelledWait struct {
	Client    string        `json:"client"`
	P50       time.Duration `json:"p50_ns"`
	P50Spread float64       `json:"p50_spread,omitempty"` // of the calls
	Max       time.Duration `json:"max_ns"`
}

func (r *report) cancel(c *cancelResult) {
	r.section("A cancelled wait", fmt.Sprintf(`One goroutine calls BLPop with a timeout of %s on an empty list. Its context
ends after %s. The figures are the time until the call returns, the median and the longest of %s calls.`,
		millis(waitFor), millis(cancelAfter), count(c.Rounds)))
	t := r.table("", "client", "p50", "longest")
	own, plain := c.Clients[0], c.Clients[1]
	for _, c := range c.Clients {
		t.row(c.Client, r.withSpread(millis(c.P50), c.P50Spread), millis(c.Max))
	}
	r.compare(fmt.Sprintf("Time of a wait of %s that is cancelled after %s", millis(waitFor), millis(cancelAfter)), "go-redis",
		millis(own.P50)+" against "+millis(plain.P50), float64(plain.P50)/float64(own.P50))
}
