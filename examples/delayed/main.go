// A task is put off until a time, and then queued.
//
// Tasks that wait are in a sorted set by their times, and their payloads in a hash. In the naive form, a process asks for those that are
// due, removes each from the set, and pushes it onto the queue. If it crashes between the last two, the task is lost. If it pushes first
// and removes then, a crash doubles the task, and so do two processes at once.
//
// Here one script moves the tasks that are due onto a sharded list: it reads them, pushes them, and then removes them. So each is in one
// place, also if memory is full: then they stay where they are. If the reply is lost, the script is not done again. Workers that wait for
// the list are woken, as by any push.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/examples/internal/demo"
)

// A Queue is a list of tasks that are due, with those that are not beside it.
type Queue struct {
	rdb           redis.UniversalClient
	Due           *shardedlist.ShardedList
	times, bodies string
}

// NewQueue returns the queue of that name. It sends nothing.
func NewQueue(rdb redis.UniversalClient, name string) (*Queue, error) {
	due, err := shardedlist.New(rdb, name)
	return &Queue{rdb, due, "{" + name + "}:times", "{" + name + "}:bodies"}, err
}

// Later puts a task off until a time, in one transaction. It returns an id by which Cancel finds the task.
func (q *Queue) Later(ctx context.Context, task string, at time.Time) (id string, err error) {
	id = uuid.NewString()
	_, err = q.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, q.bodies, id, task)
		pipe.ZAdd(ctx, q.times, redis.Z{Score: float64(at.UnixMilli()), Member: id})
		return nil
	})
	return id, err
}

// Cancel removes a task that waits, and reports whether there was one.
func (q *Queue) Cancel(ctx context.Context, id string) (bool, error) {
	var removed *redis.IntCmd
	_, err := q.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		removed = pipe.ZRem(ctx, q.times, id)
		pipe.HDel(ctx, q.bodies, id)
		return nil
	})
	return removed.Val() == 1, err
}

// atOnce is how many tasks one run of the script moves.
const atOnce = 100

var move = shardedlist.NewScript(`
	local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])
	if #ids == 0 then
		return 0
	end
	rpush(unpack(redis.call('HMGET', KEYS[2], unpack(ids))))
	redis.call('ZREM', KEYS[1], unpack(ids))
	redis.call('HDEL', KEYS[2], unpack(ids))
	return #ids`)

// Move queues the tasks that are due, in the order of their times, and returns how many. Any number of processes may call it.
func (q *Queue) Move(ctx context.Context, now time.Time) (moved int, err error) {
	for {
		n, err := move.Run(ctx, q.Due, []string{q.times, q.bodies}, now.UnixMilli(), atOnce).Int()
		moved += n
		if err != nil || n < atOnce {
			return moved, err
		}
	}
}

func run(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error {
	queue, err := NewQueue(rdb, "tasks")
	if err != nil {
		return err
	}
	now := time.Now()
	for task, delay := range map[string]time.Duration{"in a minute": time.Minute, "in an hour": time.Hour, "in a second": time.Second} {
		if _, err := queue.Later(ctx, task, now.Add(delay)); err != nil {
			return err
		}
	}
	for _, later := range []time.Duration{0, 10 * time.Minute, 2 * time.Hour} { // the clock of the demo
		moved, err := queue.Move(ctx, now.Add(later))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "after %v, %d are due:", later, moved)
		for range moved {
			task, err := queue.Due.LPop(ctx)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, " %q", task)
		}
		fmt.Fprintln(out)
	}
	return nil
}

func main() { demo.Main(run) }
