package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/examples/internal/wire"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m).Run() }

// queueOn returns a queue by way of the wire, and one without. That one watches the plain list, onto which the naive forms push.
func queueOn(t *testing.T, server *redistest.Server, faulty *wire.Wire) (broken, queue *Queue) {
	t.Helper()
	name := uuid.NewString()
	broken, err := NewQueue(server.Client(t, faulty.Through), name)
	require.NoError(t, err)
	rdb := server.Client(t)
	queue, err = NewQueue(rdb, name)
	require.NoError(t, err)
	queue.Due, err = shardedlist.New(rdb, name)
	require.NoError(t, err)
	return broken, queue
}

// due returns the tasks that are queued.
func (q *Queue) due(t *testing.T) []string {
	t.Helper()
	tasks, err := q.Due.LRange(t.Context(), 0, -1)
	require.NoError(t, err)
	require.NoError(t, q.Due.Check(t.Context()))
	return tasks
}

// A process meets a fault while it moves a task, and another one goes on.
func TestATaskIsDoneOnceUnderFaults(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		now := time.Now()
		for name, tt := range map[string]struct {
			move  func(q *Queue, ctx context.Context, now time.Time) (int, error)
			words string
			fault wire.Fault
			want  []string
		}{
			"removed first, crash before the push":   {(*Queue).naiveMove, "rpush", wire.Crash, []string{"warm up"}},
			"pushed first, crash before the removal": {(*Queue).carefulMove, "zrem", wire.Crash, []string{"warm up", "task", "task"}},
			"pushed first, another at once":          {(*Queue).carefulMove, "rpush", wire.None, []string{"warm up", "task", "task"}},
			"the reply to the push is lost":          {(*Queue).naiveMove, "rpush", wire.LoseReply, []string{"warm up", "task", "task"}},
			"script, crash":                          {(*Queue).Move, "evalsha", wire.Crash, []string{"warm up", "task"}},
			"script, another at once":                {(*Queue).Move, "evalsha", wire.None, []string{"warm up", "task"}},
			"script, the reply is lost":              {(*Queue).Move, "evalsha", wire.LoseReply, []string{"warm up", "task"}},
		} {
			var faulty wire.Wire
			broken, queue := queueOn(t, server, &faulty)
			_, err := queue.Later(t.Context(), "warm up", now)
			require.NoError(t, err)
			_, err = tt.move(broken, t.Context(), now) // the server knows the script
			require.NoError(t, err, name)
			_, err = queue.Later(t.Context(), "task", now)
			require.NoError(t, err)
			other := func() {
				_, err := tt.move(queue, context.Background(), now)
				assert.NoError(t, err, name)
			}
			first := other
			if tt.fault != wire.None {
				first = nil
			}
			faulty.On(tt.words, tt.fault, first)
			ctx, cancel := context.WithTimeout(t.Context(), map[bool]time.Duration{true: time.Second, false: time.Minute}[tt.fault == wire.Crash])
			_, err = tt.move(broken, ctx, now)
			cancel()
			require.Equal(t, 1, faulty.Struck(), "the fault of %s has struck", name)
			assert.Equal(t, tt.fault == wire.Crash, err != nil, "%s: %v", name, err)
			other()
			assert.Equal(t, tt.want, queue.due(t), name)
		}
	})
}

// While memory is full, tasks stay where they are, and are queued when there is room.
func TestTasksStayWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis, "maxmemory-policy noeviction").Client(t).(*redis.Client)
	queue, err := NewQueue(rdb, "tasks")
	require.NoError(t, err)
	now := time.Now()
	_, err = queue.Later(t.Context(), "task", now)
	require.NoError(t, err)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	_, err = queue.Move(t.Context(), now)
	assert.ErrorContains(t, err, "OOM")
	assert.EqualValues(t, 1, rdb.ZCard(t.Context(), queue.times).Val())
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	moved, err := queue.Move(t.Context(), now)
	require.NoError(t, err)
	assert.Equal(t, 1, moved)
	assert.Equal(t, []string{"task"}, queue.due(t))
}

// Many processes move the tasks, in more steps than one, and workers wait for them.
func TestEachTaskReachesOneWorker(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		queue, err := NewQueue(server.Client(t), uuid.NewString())
		require.NoError(t, err)
		const tasks = 250
		now := time.Now()
		cancelled, err := queue.Later(t.Context(), "cancelled", now)
		require.NoError(t, err)
		got := make(chan string, tasks)
		var workers, movers sync.WaitGroup
		for range 5 {
			workers.Go(func() {
				for range tasks / 5 {
					task, err := queue.Due.BLPop(t.Context(), time.Minute)
					assert.NoError(t, err)
					got <- task
				}
			})
		}
		for i := range tasks {
			_, err := queue.Later(t.Context(), fmt.Sprint(i), now.Add(time.Duration(i)*time.Millisecond))
			require.NoError(t, err)
		}
		existed, err := queue.Cancel(t.Context(), cancelled)
		require.NoError(t, err)
		assert.True(t, existed)
		moved := make(chan int, 4)
		for range 4 {
			movers.Go(func() {
				n, err := queue.Move(t.Context(), now.Add(time.Hour))
				assert.NoError(t, err)
				moved <- n
			})
		}
		movers.Wait()
		workers.Wait()
		assert.Equal(t, tasks, <-moved+<-moved+<-moved+<-moved)
		close(got)
		once := map[string]bool{}
		for task := range got {
			assert.False(t, once[task], task)
			once[task] = true
		}
		assert.Len(t, once, tasks)
		assert.Empty(t, queue.due(t))
		assert.Zero(t, queue.rdb.Exists(t.Context(), queue.times, queue.bodies).Val())
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), redistest.Start(t, redistest.Embedded).Client(t), &out))
	assert.Equal(t, `after 0s, 0 are due:
after 10m0s, 2 are due: "in a second" "in a minute"
after 2h0m0s, 1 are due: "in an hour"
`, out.String())
}
