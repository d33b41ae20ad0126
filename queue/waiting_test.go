package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// comesByItself is later than the consumers are watched.
const comesByItself = 20 * time.Second

// waits are queues whose consumers have nothing that they may do.
var waits = map[string]struct {
	options []Option
	begin   func(ctx context.Context, q *Queue) error // makes the consumers wait
	begins  int                                       // how many jobs begin before they do
	wake    func(ctx context.Context, q *Queue) error // nil: the job that has begun ends
}{
	"empty": {begin: nothing, wake: push("job")},
	"paused": {
		begin: func(ctx context.Context, q *Queue) error { return errors.Join(q.Pause(ctx), push("job")(ctx, q)) },
		wake:  func(ctx context.Context, q *Queue) error { return q.Resume(ctx) },
	},
	"the rate is used up":        {options: []Option{Rate(1, comesByItself), Burst(1)}, begin: pushTwo, begins: 1, wake: nothing},
	"the concurrency is used up": {options: []Option{Concurrency(1)}, begin: pushTwo, begins: 1},
	"delayed, and it is time":    {begin: push("job", In(comesByItself)), wake: nothing},
	"delayed, and another one":   {begin: push("job", In(time.Hour)), wake: push("job")},
	"delayed, and an earlier":    {begin: push("job", In(time.Hour)), wake: push("job", In(time.Millisecond))},
}

func nothing(context.Context, *Queue) error { return nil }

func push(payload string, opts ...PushOption) func(context.Context, *Queue) error {
	return func(ctx context.Context, q *Queue) error {
		_, err := q.Push(ctx, payload, opts...)
		return err
	}
}

func pushTwo(ctx context.Context, q *Queue) error {
	_, err := q.PushMany(ctx, numbered(2))
	return err
}

// Consumers that have nothing to do send nothing to the server, whatever they wait for. What they wait for wakes them. They have no
// other reason to look for patience.
func TestWhoWaitsSendsNothingUntilItIsWoken(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for name, w := range waits {
			t.Run(string(kind)+", "+name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, kind)
				ctx, rdb := t.Context(), server.Client(t)
				q := newQueue(t, rdb, w.options...)
				require.NoError(t, w.begin(ctx, q))
				begun, end := make(chan bool, 10), make(chan struct{})
				if w.wake != nil {
					close(end)
				}
				for range 3 {
					consume(t, sleeps(openQueue(t, sleeper(t, server), q.Name(), w.options...)), 4, func(context.Context, *Job) error {
						begun <- true
						<-end
						return nil
					})
				}
				for range w.begins {
					<-begun
				}
				awaitIdle(t, rdb, 3)
				assertSilent(t, rdb, 2*time.Second)
				assert.Empty(t, begun)
				start := time.Now()
				if w.wake != nil {
					require.NoError(t, w.wake(ctx, q))
				} else {
					close(end)
				}
				<-begun
				assert.Less(t, time.Since(start), patience/2)
			})
		}
	}
}

// With the clients and queues of everybody, a process looks when its BLPOP ends, every two seconds, however many workers it has.
func TestAProcessThatWaitsLooksEveryTwoSeconds(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			const processes, looks = 3, 3 // within four seconds
			server := redistest.Start(t, kind)
			ctx, rdb := t.Context(), server.Client(t)
			q := newQueue(t, rdb)
			for range processes {
				consume(t, openQueue(t, server.Client(t), q.Name()), 50, func(context.Context, *Job) error { return nil })
			}
			awaitIdle(t, rdb, processes)
			require.NoError(t, rdb.ConfigResetStat(ctx).Err())
			<-time.After(4 * time.Second)
			text, err := rdb.Info(ctx, "commandstats").Result()
			require.NoError(t, err)
			for command, calls := range map[string]int64{"calls": redistest.Calls(text), "blpop": field(t, text, `cmdstat_blpop:calls=(\d+)`)} {
				assert.NotZero(t, calls, command)
				assert.LessOrEqual(t, calls, int64(processes*looks), command)
			}
		})
	}
}

// commands returns how many commands the server has had, and how many clients are blocked.
func commands(t *testing.T, rdb redis.UniversalClient) (total, blocked int64) {
	t.Helper()
	text, err := rdb.Info(context.Background(), "clients", "stats").Result()
	require.NoError(t, err)
	return field(t, text, `total_commands_processed:(\d+)`), field(t, text, `blocked_clients:(\d+)`)
}

// awaitIdle waits until so many clients are blocked, and nobody has sent a command since the last look.
func awaitIdle(t *testing.T, rdb redis.UniversalClient, clients int64) {
	t.Helper()
	before := int64(-1)
	eventually(t, func() bool {
		now, blocked := commands(t, rdb)
		idle := now == before+1 && blocked == clients
		before = now
		return idle
	})
}

// assertSilent requires that the server gets no command but those that ask it how many there were.
func assertSilent(t *testing.T, rdb redis.UniversalClient, d time.Duration) {
	t.Helper()
	before, _ := commands(t, rdb)
	<-time.After(d)
	after, _ := commands(t, rdb)
	assert.Equal(t, before+1, after, "commands of consumers that wait")
}

// A push of a job that is not delayed does not look at the delayed ones, so it costs the same however many they are.
func TestAPushDoesNotLookAtTheDelayed(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t)
			ctx, q := t.Context(), newQueue(t, rdb)
			look := func(do func(context.Context, *Queue) error) string {
				require.NoError(t, rdb.ConfigResetStat(ctx).Err())
				require.NoError(t, do(ctx, q))
				return rdb.Info(ctx, "commandstats").Val()
			}
			assert.Contains(t, look(push("later", In(time.Hour))), "cmdstat_zadd:")
			assert.NotContains(t, look(push("job")), "cmdstat_z", "the first of the list")
			assert.NotContains(t, look(push("job")), "cmdstat_z")
			assert.NotContains(t, look(pushTwo), "cmdstat_z")
			assert.NotContains(t, look(push("job", Unique("key", time.Hour))), "cmdstat_z")
		})
	}
}
