package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

const (
	processes         = 20
	workersPerProcess = 50
)

// process says what a process of its own consumes, and how. It records each job that it begins in the list record of the server.
type process struct {
	Addrs                    []string
	Queue                    string
	Number                   int
	Rate, Burst, Concurrency int64
	Lease, Work              time.Duration // Work is what each job takes
}

func (p process) open(t *testing.T, rdb redis.UniversalClient) *Queue {
	options := []Option{Lease(p.Lease)}
	if p.Rate > 0 {
		options = append(options, Rate(p.Rate, time.Second), Burst(p.Burst))
	}
	if p.Concurrency > 0 {
		options = append(options, Concurrency(p.Concurrency))
	}
	return openQueue(t, rdb, p.Queue, options...)
}

// record returns the key of a list in the slot of the queue: which process began which lease.
func record(q *Queue) string { return "{" + q.Name() + "}record" }

// ready returns the key that counts the processes that are about to run.
func ready(q *Queue) string { return "{" + q.Name() + "}ready" }

const processVariable = "QUEUE_TEST_PROCESS"

func TestConsumerProcess(t *testing.T) {
	value := os.Getenv(processVariable)
	if value == "" {
		t.Skip("it is for the tests that start processes")
	}
	var p process
	require.NoError(t, json.Unmarshal([]byte(value), &p))
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: p.Addrs, IsClusterMode: len(p.Addrs) > 1})
	defer rdb.Close()
	q := p.open(t, rdb)
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the parent ends it, or has died
		stop()
	}()
	require.NoError(t, rdb.Incr(ctx, ready(q)).Err())
	require.NoError(t, q.Run(ctx, workersPerProcess, func(ctx context.Context, job *Job) error {
		if err := rdb.RPush(ctx, record(q), fmt.Sprint(p.Number, " ", job.member)).Err(); err != nil {
			return err
		}
		time.Sleep(p.Work)
		return nil
	}))
}

// start starts processes that consume the queue, until the test ends.
func (p process) start(t *testing.T, q *Queue) []*exec.Cmd {
	commands := make([]*exec.Cmd, processes)
	for i := range commands {
		p.Number = i
		value, err := json.Marshal(p)
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0], "-test.run", "^TestConsumerProcess$")
		cmd.Env = append(os.Environ(), processVariable+"="+string(value))
		stdin, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		commands[i] = cmd
		t.Cleanup(func() {
			_ = stdin.Close()
			if err := cmd.Wait(); cmd.ProcessState.Exited() { // else the test has killed it
				assert.NoError(t, err, "process %d", i)
			}
		})
	}
	eventually(t, func() bool {
		n, err := q.one.Client().Get(t.Context(), ready(q)).Int()
		return err == nil && n == processes
	})
	return commands
}

// begun is a job that a process began.
type begun struct {
	process int
	member  string
}

func recorded(t *testing.T, q *Queue) []begun {
	entries, err := q.one.Client().LRange(t.Context(), record(q), 0, -1).Result()
	require.NoError(t, err)
	all := make([]begun, len(entries))
	for i, entry := range entries {
		number, member, _ := strings.Cut(entry, " ")
		process, err := strconv.Atoi(number)
		require.NoError(t, err)
		all[i] = begun{process, member}
	}
	return all
}

// busiest returns the process that began the most of the jobs, and so holds the most leases if they are the latest.
func busiest(jobs []begun) (process int) {
	counts := map[int]int{}
	for _, job := range jobs {
		if counts[job.process]++; counts[job.process] > counts[process] {
			process = job.process
		}
	}
	return process
}

// onProcesses runs a test with a queue that processes consume, on a server and on a cluster.
func onProcesses(t *testing.T, p process, test func(t *testing.T, server *redistest.Server, q *Queue, p process)) {
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster} {
		t.Run(string(kind), func(t *testing.T) {
			if !redistest.Long() && kind == redistest.Cluster {
				t.Skip("starting so many processes takes a while")
			}
			server := redistest.Start(t, kind)
			p := p
			p.Addrs, p.Queue = server.Addrs(), fmt.Sprintf("%s-%d", t.Name(), queues.Add(1))
			q := p.open(t, server.Client(t))
			t.Cleanup(func() { check(t, q) })
			test(t, server, q, p)
		})
	}
}

// Twenty processes of fifty workers begin no more jobs than the rate and the burst allow, by the server's record, and nearly as many.
func TestTheRateHoldsOverRealProcesses(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	limit := process{Rate: 300, Burst: 300, Lease: time.Hour} // no heartbeat
	onProcesses(t, limit, func(t *testing.T, server *redistest.Server, q *Queue, p process) {
		const jobs = 2000
		p.start(t, q)
		r := watch(t, server, q)
		_, err := q.PushMany(t.Context(), numbered(jobs))
		require.NoError(t, err)
		eventually(t, func() bool { s, err := q.Stats(t.Context()); return err == nil && s.Done == jobs })
		r.end(t)
		who := map[int]int{}
		for _, job := range recorded(t, q) {
			who[job.process]++
		}
		require.Len(t, r.begun, jobs)
		for _, window := range []int64{10, 100, 1000} {
			assert.LessOrEqual(t, int64(r.most(window)), p.Rate*window/1000+p.Burst+1, "in %d ms", window)
		}
		took := time.Duration(r.begun[jobs-1]-r.begun[0]) * time.Millisecond
		used := jobs / (took.Seconds()*float64(p.Rate) + float64(p.Burst))
		t.Logf("%d processes began jobs, %d in a second at most; %.1f %% of the rate was used", len(who), r.most(1000), 100*used)
		assert.Greater(t, used, .95)
		assert.Greater(t, len(who), processes/4)
	})
}

// Twenty processes of fifty workers never hold more leases than the concurrency, by the record of the server, and nearly as many. One
// that is killed frees its share within a lease.
func TestTheConcurrencyHoldsOverRealProcesses(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	limit := process{Concurrency: 100, Lease: 3 * time.Second, Work: 500 * time.Millisecond}
	onProcesses(t, limit, func(t *testing.T, server *redistest.Server, q *Queue, p process) {
		const jobs = 2000
		ctx, rdb := t.Context(), q.one.Client()
		commands := p.start(t, q)
		r := watch(t, server, q)
		_, err := q.PushMany(ctx, numbered(jobs))
		require.NoError(t, err)
		eventually(t, func() bool { count, err := rdb.LLen(ctx, record(q)).Result(); return err == nil && count > jobs/4 })
		victim := busiest(recorded(t, q)[jobs/4-p.Concurrency:])
		require.NoError(t, commands[victim].Process.Kill())
		killed, err := rdb.Eval(ctx, "local t = redis.call('TIME') return t[1] .. '.' .. string.format('%06d', t[2])", []string{record(q)}).Float64()
		require.NoError(t, err)
		eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == jobs })
		r.end(t)

		assert.Equal(t, int(p.Concurrency), r.mostLeased())
		held := 0
		for _, job := range recorded(t, q) {
			if ended := r.ended[job.member]; job.process == victim && ended > killed {
				held++
				assert.LessOrEqual(t, ended, killed+p.Lease.Seconds()+1, "within a lease, and what the machine needs")
			}
		}
		used := r.used(int(p.Concurrency))
		t.Logf("%.1f %% of the concurrency was used, over %d changes; the killed process held %d leases", 100*used, len(r.counts), held)
		assert.Greater(t, used, .95)
		assert.NotZero(t, held)
		assert.Empty(t, r.now, "all leases have ended")
	})
}
