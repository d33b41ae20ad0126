package integration

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeromicro/go-zero/core/queue"
	"github.com/zeromicro/go-zero/core/stores/redis"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// A queue of go-zero, which its Redis store feeds from lists with blocking pops, delivers each message once, and once more if it is
// pushed back. Pipelines work, and so does a list of the latest messages, which they trim.
func TestGoZero(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const jobs, producers, sources = 3000, 3, 2
		server = redistest.Start(t, server.Kind()) // go-zero keeps one client for each address, with its first hooks
		watcher := watch(t, server)
		mark := uuid.NewString()
		g := goZeroTest{busy: mark + ":busy", latest: mark + ":latest"}
		conf := redis.RedisConf{Host: server.Addr(), Type: redis.NodeType, PingTimeout: patience}
		if server.Kind() == redistest.Cluster {
			conf.Type = redis.ClusterType
		}
		var err error
		hook := install(server.Client(t), mark+":*") // go-zero creates its clients itself
		g.store, err = redis.NewRedis(conf, redis.WithHook(hook))
		require.NoError(t, err)
		node, err := redis.CreateBlockingNode(g.store)
		require.NoError(t, err)
		t.Cleanup(node.Close)
		node.(interface{ AddHook(hook redis.Hook) }).AddHook(hook) // it does not have the store's hook
		g.node = node

		g.done = newTally(jobs)
		var pushers []queue.Pusher
		for i := range sources {
			g.lists = append(g.lists, mark+":"+strconv.Itoa(i)+":waiting")
			pushers = append(pushers, goZeroList{g.store, g.lists[i]})
		}
		pusher := queue.NewBalancedPusher(pushers)
		next := make(chan string, sources)
		for _, list := range g.lists {
			next <- list
		}
		q := queue.NewQueue(
			func() (queue.Producer, error) { return goZeroSource{&g, <-next}, nil },
			func() (queue.Consumer, error) { return goZeroWorker{t, &g}, nil })
		q.SetNumProducer(sources)
		q.SetNumConsumer(6)
		stopped := make(chan struct{})
		go func() { q.Start(); close(stopped) }()

		produce(t, producers, jobs, pusher.Push).Wait()
		g.done.await(t, jobs, func() {})
		q.Stop()
		<-stopped
		g.done.requireOnce(t)
		for _, key := range append([]string{g.busy}, g.lists...) {
			length, err := g.store.Llen(key)
			require.NoError(t, err)
			assert.Zero(t, length, key)
		}

		latest, err := g.store.Lrange(g.latest, 0, -1)
		require.NoError(t, err)
		assert.Len(t, latest, keep)
		last, err := g.store.Lindex(g.latest, -1)
		require.NoError(t, err)
		assert.Equal(t, latest[keep-1], last)
		require.NoError(t, g.store.Expire(g.latest, 1000))
		life, err := g.store.Ttl(g.latest)
		require.NoError(t, err)
		assert.InDelta(t, 1000, life, 100)
		oldest, err := g.store.RpopCount(g.latest, 2)
		require.NoError(t, err)
		assert.Equal(t, []string{latest[keep-1], latest[keep-2]}, oldest)

		watcher.requireSharded(t, mark, append(g.lists, g.busy, g.latest)...)
	})
}

// keep is how many of the latest messages are kept.
const keep = 100

type goZeroTest struct {
	store        *redis.Redis
	node         redis.RedisNode // for blocking commands
	lists        []string
	busy, latest string
	done         *tally
}

// goZeroList pushes to a list.
type goZeroList struct {
	store *redis.Redis
	key   string
}

func (l goZeroList) Name() string { return l.key }

func (l goZeroList) Push(message string) error {
	_, err := l.store.Rpush(l.key, message)
	return err
}

// goZeroSource pops messages from a list.
type goZeroSource struct {
	*goZeroTest
	key string
}

func (s goZeroSource) AddListener(queue.ProduceListener) {}

func (s goZeroSource) Produce() (string, bool) {
	message, err := s.store.BlpopWithTimeout(s.node, time.Second, s.key)
	return message, err == nil
}

// goZeroWorker does jobs. It pushes some back the first time.
type goZeroWorker struct {
	t *testing.T
	*goZeroTest
}

func (goZeroWorker) OnEvent(any) {}

func (w goZeroWorker) Consume(job string) error {
	_, err := w.store.Lpush(w.busy, job)
	assert.NoError(w.t, err)
	again := w.done.begin(job) == 1 && oneIn(5, job)
	assert.NoError(w.t, w.store.Pipelined(func(pipe redis.Pipeliner) error {
		ctx := w.t.Context()
		if again {
			pipe.RPush(ctx, w.lists[0], job)
		}
		pipe.LRem(ctx, w.busy, 1, job)
		pipe.LPush(ctx, w.latest, job)
		pipe.LTrim(ctx, w.latest, 0, keep-1)
		return nil
	}))
	if !again {
		w.done.finish(job)
	}
	return nil
}
