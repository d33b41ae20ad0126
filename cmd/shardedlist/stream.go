package main

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	maxPushLines = 50        // lines that a producer pushes in one call
	endOfDemo    = "the end" // the element that stops a consumer; it has no tag
)

// stream pushes and pops all lines.
func (d *demo) stream(ctx context.Context, input input) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var producers, consumers sync.WaitGroup
	start := func(group *sync.WaitGroup, work func() error) {
		group.Go(func() {
			if err := work(); err != nil {
				cancel(err)
			}
		})
	}
	lines := make(chan []string)
	start(&producers, func() error { return d.read(ctx, input, lines) })
	for id := range d.producers {
		start(&producers, func() error { return d.produce(ctx, id, lines) })
	}
	for id := range d.consumers {
		start(&consumers, func() error { return d.consume(ctx, id) })
	}
	producers.Wait()
	start(&consumers, func() error { return d.end(ctx) })
	consumers.Wait()
	d.took = time.Since(d.timeline.started)
	return context.Cause(ctx)
}

// read passes the lines to the producers. It waits while the backlog is full.
func (d *demo) read(ctx context.Context, input io.Reader, lines chan<- []string) error {
	defer close(lines)
	for batch, err := range batches(input, '\n', min(maxPushLines, d.maxBacklog)) {
		if err != nil {
			return err
		}
		for range batch {
			select {
			case d.backlog <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		select {
		case lines <- batch:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (d *demo) produce(ctx context.Context, id int, lines <-chan []string) error {
	for batch := range lines {
		for i, line := range batch {
			batch[i] = d.ledger.push(id, line)
		}
		if _, err := d.list.RPush(ctx, batch); err != nil {
			return err
		}
		if err := d.timeline.look(ctx, d.list); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) consume(ctx context.Context, id int) error {
	for {
		element, err := d.list.BLPop(ctx, 0)
		if err != nil || element == endOfDemo {
			return err
		}
		line, err := d.ledger.pop(id, element)
		if err != nil {
			return err
		}
		select {
		case <-d.backlog:
		default: // a duplicate
		}
		d.progress.add(1, len(line)+1)
		if err := d.timeline.look(ctx, d.list); err != nil {
			return err
		}
	}
}

// end pushes one end mark per consumer. Nobody counts elements, so the demo ends even if some are lost.
func (d *demo) end(ctx context.Context) error {
	_, err := d.list.RPush(ctx, slices.Repeat([]string{endOfDemo}, d.consumers))
	return err
}
