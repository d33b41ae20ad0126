// Package queue runs jobs that wait in a sharded list: at least once, with delays, retries, and limits that all consumers share.
//
// A list gives an element to whoever pops it, and if that process dies, the element is gone. A queue leases its jobs instead. A job
// whose consumer dies or hangs comes back when its lease ends.
//
//	q, err := queue.New(rdb, "mail", queue.Rate(100, time.Second), queue.Concurrency(10))
//	id, err := q.Push(ctx, payload)
//	err = q.Run(ctx, 32, func(ctx context.Context, job *queue.Job) error { … })
//
// A job is in one place at any time: it waits in the list, is delayed, is leased, is dead, or is done. It is done twice only if its
// lease ran out while its handler went on, which the handler is told by its context.
//
// The page docs/queue.md has the picture, and what is promised.
package queue

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/inside"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// Queue is a queue of jobs in Redis. It is safe for concurrent use. Create one per queue and share it: its callers then share
// operations.
//
// The jobs that wait are the elements of the sharded list of the same name, or of the plain list there, which the queue takes over. An
// element that the queue has not written is the payload of a job. Such a job gets an id when it is taken.
//
// A method fails as those of [shardedlist.ShardedList] do. A queue does not work on a list that is spread over many slots: New and Run
// fail with [shardedlist.ErrSpread].
type Queue struct {
	settings
	list, dead *shardedlist.ShardedList
	one, grave *oneslot.List // the same two, as scripts work on them
	keys       keys
}

// keys are those beside the list, see lua/shared/jobs.lua.
type keys struct{ state, times, jobs string }

// New returns the queue of that name on the server, cluster or Sentinel master that rdb connects to. It sends nothing. The caller
// configures and closes rdb.
//
// Processes may use different options. Then those of the process that takes a job count, for the limits, the lease and the attempts.
//
// New returns the errors of [shardedlist.New], ErrOption, or ErrSpread if the options say WithParts.
func New(rdb redis.UniversalClient, name string, opts ...Option) (*Queue, error) {
	q := &Queue{settings: defaults()}
	for _, opt := range opts {
		if err := opt(&q.settings); err != nil {
			return nil, err
		}
	}
	if err := q.check(); err != nil {
		return nil, err
	}
	options := append([]shardedlist.Option{shardedlist.WithPoppedAt(q.popsAt())}, q.listOptions...)
	var err error
	if q.list, err = shardedlist.New(rdb, name, options...); err != nil {
		return nil, err
	}
	if q.one, err = inOneSlot(q.list); err != nil {
		return nil, q.wrap("open", err)
	}
	prefix := q.one.Keys().Prefix
	if q.dead, err = shardedlist.New(rdb, prefix+"dead", q.listOptions...); err != nil {
		return nil, err
	}
	if q.grave, err = inOneSlot(q.dead); err != nil {
		return nil, q.wrap("open", err)
	}
	q.keys = keys{prefix + "queue", prefix + "queue:times", prefix + "queue:jobs"}
	return q, nil
}

func inOneSlot(list *shardedlist.ShardedList) (*oneslot.List, error) {
	return inside.Layout(list).(interface{ InOneSlot() (*oneslot.List, error) }).InOneSlot()
}

// Name returns the name of the queue, as given to New.
func (q *Queue) Name() string { return q.list.Name() }

// List returns the list of the jobs that wait. Its elements are envelopes, see [Parse], or payloads that others have pushed.
func (q *Queue) List() *shardedlist.ShardedList { return q.list }

// Dead returns the list of the dead: jobs that failed too often, or for good. Its elements are envelopes, see [Parse]. Delete those
// that nobody needs with its methods, or let the queue try one again with [Queue.Retry].
func (q *Queue) Dead() *shardedlist.ShardedList { return q.dead }

// operation returns an operation on the keys of the queue, which is done once.
func (q *Queue) operation(s *script.Script, room int) session.Operation {
	return q.one.Sessions().Operation(s, []any{q.one.Keys().Meta}, room)
}

// onList is operation for one that uses the list, too.
func (q *Queue) onList(s *script.Script, room int) session.Operation {
	return q.one.Sessions().Operation(s, []any{q.one.Keys().Meta}, room, q.one.Plain())
}

// onBoth is operation for one that uses the list of the dead, too.
func (q *Queue) onBoth(s *script.Script, room int) session.Operation {
	op := q.one.Sessions().Operation(s, []any{q.one.Keys().Meta, q.grave.Keys().Meta}, 1+room)
	op.Append(2)
	return op
}

// end is the end at which jobs are taken.
func (q *Queue) end() layout.End {
	if q.popRight {
		return layout.Right
	}
	return layout.Left
}

func (q *Queue) popsAt() string {
	if q.popRight {
		return "RIGHT"
	}
	return "LEFT"
}

// wrap adds the operation and the queue to an error, and the sentinel error that a reply of the server stands for.
func (q *Queue) wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	if known := layout.ErrorOf(err); known != nil {
		return fmt.Errorf("queue: %s %q: %w: %w", operation, q.Name(), known, err)
	}
	return fmt.Errorf("queue: %s %q: %w", operation, q.Name(), err)
}
