package integration

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/adjust/rmq/v5"
	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// Each job of rmq is done once, whether a consumer acknowledges it, rejects it, pushes it to another queue, or its connection dies.
func TestRmq(t *testing.T) {
	t.Parallel()
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		const jobs, producers = 3000, 3
		watcher := watch(t, server)
		q := rmqTest{server, uuid.NewString()}

		publisher, _ := q.connect(t)
		main, mainErr := publisher.OpenQueue(q.name)
		other, otherErr := publisher.OpenQueue(q.name + "-other")
		require.NoError(t, mainErr)
		require.NoError(t, otherErr)

		jobsDone := newTally(jobs)
		producing := produce(t, producers, jobs, func(job string) error { return main.Publish(job) })
		dead := q.die(t, watcher.plain)

		var connections []rmq.Connection
		begin := make(chan struct{}) // closed when the connections hold as many jobs as they may
		for range 2 {
			connection, _ := q.connect(t)
			connections = append(connections, connection)
			queue, err := connection.OpenQueue(q.name)
			require.NoError(t, err)
			queue.SetPushQueue(other)
			require.NoError(t, queue.StartConsuming(prefetch, time.Millisecond))
			for range 3 {
				_, err = queue.AddConsumerFunc("consumer", func(delivery rmq.Delivery) {
					<-begin
					job := delivery.Payload()
					switch first := jobsDone.begin(job) == 1; {
					case first && oneIn(7, job):
						assert.NoError(t, delivery.Reject())
					case first && oneIn(5, job):
						assert.NoError(t, delivery.Push())
					default:
						assert.NoError(t, delivery.Ack())
						jobsDone.finish(job)
					}
				})
				require.NoError(t, err)
			}
		}
		batches, _ := q.connect(t)
		connections = append(connections, batches)
		queue, err := batches.OpenQueue(q.name + "-other")
		require.NoError(t, err)
		require.NoError(t, queue.StartConsuming(prefetch, time.Millisecond))
		_, err = queue.AddBatchConsumerFunc("batches", 20, 10*time.Millisecond, func(deliveries rmq.Deliveries) {
			assert.Empty(t, deliveries.Ack())
			for _, job := range deliveries.Payloads() {
				jobsDone.finish(job)
			}
		})
		require.NoError(t, err)

		producing.Wait()
		returned, err := rmq.NewCleaner(publisher).Clean()
		require.NoError(t, err)
		assert.EqualValues(t, prefetch, returned)
		require.Eventually(t, func() bool {
			stats, err := publisher.CollectStats([]string{q.name})
			return assert.NoError(t, err) && stats.QueueStats[q.name].UnackedCount() == 2*prefetch
		}, patience, time.Millisecond)
		close(begin)
		jobsDone.await(t, jobs, func() {
			_, err := main.ReturnRejected(math.MaxInt64)
			require.NoError(t, err)
		})
		for _, connection := range connections {
			<-connection.StopAllConsuming()
		}
		jobsDone.requireOnce(t)
		stats, err := publisher.CollectStats([]string{q.name, q.name + "-other"})
		require.NoError(t, err)
		for name, stat := range stats.QueueStats {
			assert.Zero(t, stat.ReadyCount+stat.RejectedCount+stat.UnackedCount(), name)
		}

		q.emptied(t, main)

		names := []string{q.ready(q.name), q.rejected(q.name), q.ready(q.name + "-other"), q.unacked(dead, q.name)}
		names = append(names, q.unacked(connections[0], q.name), q.unacked(connections[1], q.name), q.unacked(batches, q.name+"-other"))
		watcher.requireSharded(t, q.name, names...)
	})
}

// prefetch is how many unacknowledged jobs a connection may hold.
const prefetch = 100

type rmqTest struct {
	server *redistest.Server
	name   string // of the queue
}

// connect opens a connection, as another process would. The pattern matches its lists, and its sets and heartbeats, too.
func (q rmqTest) connect(t *testing.T) (rmq.Connection, redis.UniversalClient) {
	rdb := q.server.Client(t)
	install(rdb, "rmq::*")
	open := rmq.OpenConnectionWithRedisClient
	if q.server.Kind() == redistest.Cluster {
		open = rmq.OpenClusterConnection
	}
	connection, err := open("test", rdb, nil)
	require.NoError(t, err)
	return connection, rdb
}

// die opens a connection that takes jobs, acknowledges none, and is closed; its heartbeat is gone.
func (q rmqTest) die(t *testing.T, plain redis.UniversalClient) rmq.Connection {
	connection, rdb := q.connect(t)
	queue, err := connection.OpenQueue(q.name)
	require.NoError(t, err)
	require.NoError(t, queue.StartConsuming(prefetch, time.Millisecond))
	taken := make(chan rmq.Delivery, prefetch)
	_, err = queue.AddConsumerFunc("consumer", func(delivery rmq.Delivery) { taken <- delivery })
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(taken) == prefetch }, patience, time.Millisecond)
	<-connection.StopAllConsuming()
	require.NoError(t, rdb.Close())
	require.NoError(t, plain.Del(t.Context(), fmt.Sprintf("rmq::connection::%s::heartbeat", connection)).Err())
	return connection
}

// emptied drains, purges and destroys a queue without consumers.
func (q rmqTest) emptied(t *testing.T, queue rmq.Queue) {
	const jobs, drained = 250, 30
	var all []string
	for i := range jobs {
		all = append(all, jobName(i))
	}
	require.NoError(t, queue.Publish(all...))
	first, err := queue.Drain(drained)
	require.NoError(t, err)
	assert.Equal(t, all[:drained], first)
	purged, err := queue.PurgeReady()
	require.NoError(t, err)
	assert.EqualValues(t, jobs-drained, purged)

	require.NoError(t, queue.Publish(all...))
	ready, rejected, err := queue.Destroy()
	require.NoError(t, err)
	assert.EqualValues(t, jobs, ready)
	assert.Zero(t, rejected)
}

func (q rmqTest) ready(queue string) string    { return q.key("rmq::queue::[%s]::ready", queue) }
func (q rmqTest) rejected(queue string) string { return q.key("rmq::queue::[%s]::rejected", queue) }

func (q rmqTest) unacked(connection rmq.Connection, queue string) string {
	return q.key("rmq::connection::%s::queue::[%s]::unacked", connection, queue)
}

// key returns a key of rmq, which has a hash tag on a cluster.
func (q rmqTest) key(format string, args ...any) string {
	if q.server.Kind() == redistest.Cluster {
		format = strings.NewReplacer("[", "{", "]", "}").Replace(format)
	}
	return fmt.Sprintf(format, args...)
}
