package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zeromicro/go-zero/core/logx"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) {
	logx.Disable()
	os.Exit(redistest.Main(m).Run())
}

func eachServer(t *testing.T, test func(t *testing.T, server *redistest.Server)) {
	t.Helper()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Shared(t, kind))
		})
	}
}

// install adds the hook to a client, with small shards, so that there are many.
func install(rdb redis.UniversalClient, patterns ...string) redis.Hook {
	hook := shardedlist.NewHook(rdb, shardedlist.Match(patterns...), shardedlist.WithCapacity(8))
	rdb.AddHook(hook)
	return hook
}

// patience limits how long a test waits, so that it fails instead of hanging.
const patience = time.Minute

// tally counts how often each of a number of jobs was done.
type tally struct {
	want int

	mu   sync.Mutex
	seen map[string]int // how often a job was started
	done map[string]int
}

func newTally(jobs int) *tally {
	return &tally{want: jobs, seen: make(map[string]int), done: make(map[string]int)}
}

// begin returns the number of this attempt at the job, from 1.
func (c *tally) begin(job string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[job]++
	return c.seen[job]
}

func (c *tally) finish(job string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done[job]++
}

func (c *tally) finished() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.done)
}

// await waits until that many jobs are done, and calls meanwhile repeatedly.
func (c *tally) await(t *testing.T, jobs int, meanwhile func()) {
	t.Helper()
	for end := time.Now().Add(patience); c.finished() < jobs; time.Sleep(5 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "%d of %d jobs were done", c.finished(), jobs)
		meanwhile()
	}
}

// requireOnce asserts that each job was done once.
func (c *tally) requireOnce(t *testing.T) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Len(t, c.done, c.want)
	for job, times := range c.done {
		require.Equal(t, 1, times, job)
	}
}

// produce calls push once for each job, from several goroutines.
func produce(t *testing.T, producers, jobs int, push func(job string) error) *sync.WaitGroup {
	var producing sync.WaitGroup
	for p := range producers {
		producing.Go(func() {
			for i := p; i < jobs; i += producers {
				assert.NoError(t, push(jobName(i)))
			}
		})
	}
	return &producing
}

func jobName(i int) string { return fmt.Sprintf("job %d", i) }

// oneIn reports whether the job is one of every n.
func oneIn(n int, job string) bool {
	var i int
	_, _ = fmt.Sscanf(job, "job %d", &i)
	return i%n == 0
}

// watcher records the key of every list that is written to, from keyspace notifications.
type watcher struct {
	plain redis.UniversalClient // without the hook
	stop  []func() error        // for each node

	mu   sync.Mutex
	keys map[string]bool
}

const (
	keyspace   = "__keyspace@0__:"
	endOfWatch = keyspace + "end of watch"
)

func watch(t *testing.T, server *redistest.Server) *watcher {
	w := &watcher{plain: server.Client(t), keys: make(map[string]bool)}
	for _, node := range server.Nodes() {
		client := node.Client(t, func(o *redis.UniversalOptions) { o.IsClusterMode = false }).(*redis.Client)
		require.NoError(t, client.ConfigSet(t.Context(), "notify-keyspace-events", "Kl").Err())
		events := client.PSubscribe(t.Context(), keyspace+"*")
		t.Cleanup(func() { _ = events.Close() })
		_, err := events.Receive(t.Context())
		require.NoError(t, err)
		watching := make(chan error, 1)
		name := fmt.Sprintf("%p", events)
		go func() { watching <- w.note(events, name) }()
		w.stop = append(w.stop, func() error {
			if err := client.Publish(t.Context(), endOfWatch, name).Err(); err != nil { // after all events so far
				return err
			}
			return <-watching
		})
	}
	return w
}

func (w *watcher) note(events *redis.PubSub, name string) error {
	for {
		event, err := events.ReceiveMessage(context.Background())
		if err != nil {
			return err
		}
		if event.Channel == endOfWatch {
			if event.Payload == name {
				return nil
			}
			continue
		}
		w.mu.Lock()
		w.keys[strings.TrimPrefix(event.Channel, keyspace)] = true
		w.mu.Unlock()
	}
}

// The other lists that a list keeps under its name: its shards, its bells, and the results of pops.
var (
	isShard  = regexp.MustCompile(`^:#[0-9a-f]{12}\.[0-9]+:-?[0-9]+$`)
	internal = regexp.MustCompile(isShard.String() + `|^:(bell(:.*)?|op:.*)$`)
)

// requireSharded ends the watch. It asserts that of the lists with these names, which all contain the mark, there were many shards, and
// that no other key with the mark ever was a list.
func (w *watcher) requireSharded(t *testing.T, mark string, names ...string) {
	t.Helper()
	for _, stop := range w.stop {
		require.NoError(t, stop())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.keys, func(key string, _ bool) bool { return !strings.Contains(key, mark) })
	total := 0
	for _, name := range names {
		prefix := name
		if !strings.Contains(name, "{") {
			prefix = "{" + name + "}"
		}
		shards := 0
		for key := range w.keys {
			rest, ok := strings.CutPrefix(key, prefix)
			if ok && internal.MatchString(rest) {
				delete(w.keys, key)
				if isShard.MatchString(rest) {
					shards++
				}
			}
		}
		delete(w.keys, name) // while it is short
		total += shards

		list, err := shardedlist.New(w.plain, name)
		require.NoError(t, err)
		assert.NoError(t, list.Check(t.Context()))
	}
	assert.Greater(t, total, 10*len(names), "shards")
	assert.Empty(t, w.keys, "lists that are no part of a sharded one")
}
