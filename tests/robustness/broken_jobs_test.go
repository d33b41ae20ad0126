package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/queue"
	lists "github.com/shardedlist/shardedlist/tests/harness"
)

// brokenJobs are queues with one bug each, and the fault under which it shows.
var brokenJobs = []struct {
	name  string
	open  func(rdb redis.UniversalClient, name string, options ...queue.Option) (jobQueue, error)
	fault string
	words string // in the violation
}{
	{"a take that forgets to lease", rewrittenQueue(
		"  redis.call('HSET', JOBS, unpack(fields))\n  if count >= MANY", "  if count >= MANY",
		"  redis.call('ZADD', TIMES, unpack(scores))\n  if count >= MANY", "  if count >= MANY"),
		"none", "jobs lost"},
	{"a settle of whatever lease there is", rewrittenQueue(
		"  members[#members + 1] = ARGV[i]\n",
		"  members[#members + 1] = ARGV[i]\n"+
			"  for _, other in ipairs(redis.call('ZRANGE', TIMES, 0, -1)) do\n"+
			"    if string.sub(other, 1, 16) == string.sub(ARGV[i], 1, 16) then members[#members] = other end\n"+
			"  end\n"), "stall", "done again, and nothing|done twice at a time"},
	{"a take that ignores the concurrency", rewrittenQueue(
		"local leased = concurrency > 0 and redis.call('ZCOUNT', TIMES, '-inf', '(0') or 0", "local leased = 0"), "none", "are leased, and the limit is"},
	{"a take that ignores the rate", rewrittenQueue(
		"budget = math.max(0, math.min(budget, bucket_tokens(take.tat, take.micros, take.interval, take.burst)))", ""), "none", "more than its rate"},
	{"a push that is acknowledged, and not sent", wrapped(func(q wrappedQueue, push func() (string, error)) (string, error) {
		if rand.IntN(200) == 0 {
			id, err := uuid.NewV7()
			return id.String(), err
		}
		return push()
	}), "none", "jobs lost"},
	{"a push that is sent, and refused", wrapped(func(q wrappedQueue, push func() (string, error)) (string, error) {
		id, err := push()
		if err == nil && rand.IntN(200) == 0 {
			return "", errors.New("no")
		}
		return id, err
	}), "none", "jobs never pushed"},
	{"a push that is repeated without a record", func(rdb redis.UniversalClient, name string, options ...queue.Option) (jobQueue, error) {
		return queue.New(rdb, name, append(options, queue.List(shardedlist.WithoutExactlyOnce()))...)
	}, "cut", ""},
	{"a heartbeat that extends nothing", rewrittenQueue("redis.call('ZADD', KEYS[1], 'XX', ends, ARGV[i + 1])", ""), "none", "done twice at a time|done again, and nothing"},
	{"a heartbeat that extends the leases of others", rewrittenQueue(
		"local holds = score and tonumber(score) < 0\n  replies[i] = holds and '1' or '0'", "local holds = score and tonumber(score) < 0\n  replies[i] = '1'"),
		"stall", "done twice at a time|done again, and nothing"},
	{"a settle that leaves the envelope", rewrittenQueue("redis.call('HDEL', JOBS, unpack(gone))", ""), "none", "have a time, and"},
	{"a settle that keeps the unique key", rewrittenQueue("if key ~= '' and redis.pcall('GET', QUEUE .. ':unique:' .. key) == id then", "if false then"),
		"none", "unique keys have outlived"},
	{"a unique key that is not looked at", rewrittenQueue("local other = unique and redis.call('GET', unique)", "local other = false"), "none", "unique key"},
	{"a failure that is forgotten", rewrittenQueue("    delay_jobs({ delayed[i] }, now + tonumber(delay), now, waits)\n",
		"    if redis.call('TIME')[2] % 50 > 0 then delay_jobs({ delayed[i] }, now + tonumber(delay), now, waits) end\n"), "none", "jobs lost"},
	{"a delayed job that comes at once", rewrittenQueue("ARGV[6] == 'in' and now + due or due", "now"), "none", "before they were due"},
	{"a lease that never ends", rewrittenQueue("redis.call('ZREVRANGEBYSCORE', TIMES, '(0', -now, 'LIMIT', 0, budget)", "{}"), "kill", "jobs that nobody does"},
}

// The harness is able to fail with jobs, too: it finds each bug within a minute.
func TestEveryBrokenQueueOfJobsIsCaught(t *testing.T) {
	for i, b := range brokenJobs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			if testing.Short() && i%4 != 0 {
				t.Skip("each takes ten seconds, and one half a minute")
			}
			isCaught(t, b.fault, redistest.Redis, queueJobs, b.words, func(sc *scenario) {
				sc.variant, sc.span = b.name, 5*time.Second
				if strings.Contains(b.name, "rate") {
					sc.rate = 20 // jobs a second, which a busy machine does, too
				}
			})
		})
	}
}

// rewrittenQueue is a queue whose scripts are changed on their way to the server. The texts are pairs of old and new.
func rewrittenQueue(texts ...string) func(redis.UniversalClient, string, ...queue.Option) (jobQueue, error) {
	var once sync.Once
	return func(rdb redis.UniversalClient, name string, options ...queue.Option) (jobQueue, error) {
		once.Do(func() { rdb.AddHook(lists.NewRewriter(texts...)) })
		return queue.New(rdb, name, options...)
	}
}

// wrappedQueue is a queue whose Push is changed.
type wrappedQueue struct {
	*queue.Queue
	change func(q wrappedQueue, push func() (string, error)) (string, error)
}

func wrapped(change func(q wrappedQueue, push func() (string, error)) (string, error)) func(redis.UniversalClient, string, ...queue.Option) (jobQueue, error) {
	return func(rdb redis.UniversalClient, name string, options ...queue.Option) (jobQueue, error) {
		q, err := queue.New(rdb, name, options...)
		return wrappedQueue{q, change}, err
	}
}

func (q wrappedQueue) Push(ctx context.Context, payload any, opts ...queue.PushOption) (string, error) {
	return q.change(q, func() (string, error) { return q.Queue.Push(ctx, payload, opts...) })
}
