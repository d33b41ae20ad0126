package queue

import (
	"context"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
)

var extendScript = script.Load("queue_extend")

// beatsPerLease is how often a lease is extended before it would end.
const beatsPerLease = 3

// beat extends the leases of a run until that is over. After a failure it tries again sooner, and while a connection does not answer,
// it uses another one.
func (r *run) beat() {
	extended := make(chan error)
	pause := r.lease / beatsPerLease
	for script.Sleep(r.settles, pause) == nil {
		go func() {
			select {
			case extended <- r.extendAll():
			case <-r.settles.Done():
			}
		}()
		pause = r.lease / beatsPerLease
		select {
		case err := <-extended:
			if err != nil && r.settles.Err() == nil {
				r.report("extend leases", err)
				pause /= 10
			}
		case <-time.After(r.lease / beatsPerLease):
			pause = 0
		case <-r.settles.Done():
		}
	}
}

// extendAll extends all leases of jobs whose handlers have not been told to end.
func (r *run) extendAll() error {
	var leases []*lease
	r.each(func(l *lease) {
		if l.ctx.Err() == nil || context.Cause(l.ctx) == ErrShutdown {
			leases = append(leases, l)
		}
	})
	return r.extend(leases)
}

// extend extends leases, and ends the contexts of those that are lost.
func (r *run) extend(leases []*lease) error {
	for len(leases) > 0 {
		part := leases[:min(len(leases), partJobs)]
		leases = leases[len(part):]
		args := []any{r.lease.Milliseconds()}
		for _, l := range part {
			args = append(args, l.member)
		}
		ctx, cancel := context.WithTimeout(r.settles, r.lease)
		sent := time.Now()
		reply, err := r.one.Sessions().Read(extendScript, []any{r.keys.times}, args...).Run(ctx)
		cancel()
		if err != nil {
			return err
		}
		r.extended(part, reply.(string), sent)
	}
	return nil
}

// extended notes what the server has told of leases that it was asked to extend at that time: '1' for each that it has extended.
func (r *run) extended(leases []*lease, held string, sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, l := range leases {
		if held[i] == '1' {
			r.setEnd(l, sent.Add(r.lease))
		} else {
			l.end(ErrLeaseLost)
		}
	}
}
