package integration

import (
	"net/url"
	"strings"
	"testing"

	"code.gitea.io/gitea/modules/nosql"
	"code.gitea.io/gitea/modules/queue"
	"code.gitea.io/gitea/modules/setting"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// Two processes that share a queue of Gitea handle each item once, although handlers return some items unhandled at first, a full queue
// blocks the producers, and one process is shut down and restarted while items are queued.
func TestGiteaQueue(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const items, producers = 3000, 3
		watcher := watch(t, server)
		g := newGiteaTest(t, server)

		handled := newTally(items)
		run := func() *queue.WorkerPoolQueue[string] {
			q := g.open(t, "simple", false, func(items ...string) (unhandled []string) {
				for _, item := range items {
					if handled.begin(item) == 1 && oneIn(9, item) {
						unhandled = append(unhandled, item)
						continue
					}
					handled.finish(item)
				}
				return unhandled
			})
			go q.Run()
			return q
		}
		producer := g.open(t, "simple", false, func(items ...string) []string { return items })
		producing := produce(t, producers, items, producer.Push)
		first, second := run(), run()
		handled.await(t, items/3, func() {})
		first.ShutdownWait(patience)
		first = run()
		producing.Wait()
		handled.await(t, items, func() {})
		first.ShutdownWait(patience)
		second.ShutdownWait(patience)
		handled.requireOnce(t)
		assert.Zero(t, producer.GetQueueItemNumber())

		for i := range 100 {
			require.NoError(t, producer.Push(jobName(i)))
		}
		assert.Equal(t, 100, producer.GetQueueItemNumber())
		require.NoError(t, producer.RemoveAllItems(t.Context()))
		assert.Zero(t, producer.GetQueueItemNumber())

		watcher.requireSharded(t, g.name, g.name+"-simple_queue")
	})
}

// A unique queue of Gitea refuses an item that is queued already, and accepts it again when it has been handled.
func TestGiteaUniqueQueue(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const items = 200
		watcher := watch(t, server)
		g := newGiteaTest(t, server)
		producer := g.open(t, "unique", true, func(items ...string) []string { return items })

		for range 2 {
			handled := newTally(items)
			q := g.open(t, "unique", true, func(items ...string) []string {
				for _, item := range items {
					handled.finish(item)
				}
				return nil
			})
			for i := range items {
				require.NoError(t, producer.Push(jobName(i)))
				require.ErrorIs(t, producer.Push(jobName(i)), queue.ErrAlreadyInQueue)
			}
			has, err := producer.Has(jobName(0))
			require.NoError(t, err)
			assert.True(t, has)
			assert.Equal(t, items, producer.GetQueueItemNumber())
			go q.Run()
			handled.await(t, items, func() {})
			q.ShutdownWait(patience)
			handled.requireOnce(t)
			assert.Zero(t, producer.GetQueueItemNumber())
		}

		watcher.requireSharded(t, g.name, g.name+"-unique_queue")
	})
}

type giteaTest struct {
	connection string
	name       string
}

// newGiteaTest adds the hook to the client that Gitea keeps for the server. Only the keys of queues match.
func newGiteaTest(t *testing.T, server *redistest.Server) giteaTest {
	g := giteaTest{name: uuid.NewString()}
	address := url.URL{Scheme: "redis", RawQuery: url.Values{
		"addrs":      {strings.Join(server.Addrs(), ",")},
		"clientname": {g.name},
	}.Encode()}
	if server.Kind() == redistest.Cluster {
		address.Scheme = "redis+cluster"
	}
	g.connection = address.String()
	install(nosql.GetManager().GetRedisClient(g.connection), "*_queue")
	t.Cleanup(func() { _ = nosql.GetManager().CloseRedisClient(g.connection) })
	return g
}

func (g giteaTest) open(t *testing.T, name string, unique bool, handle queue.HandlerFuncT[string]) *queue.WorkerPoolQueue[string] {
	q, err := queue.NewWorkerPoolQueueWithContext(t.Context(), g.name+"-"+name, setting.QueueSettings{
		Type:        "redis",
		ConnStr:     g.connection,
		Length:      500,
		QueueName:   "_queue",
		SetName:     "_unique",
		BatchLength: 20,
		MaxWorkers:  4,
	}, handle, unique)
	require.NoError(t, err)
	return q
}
