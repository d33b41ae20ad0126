package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
)

// scenario is producers and consumers of one queue, while something goes wrong.
type scenario struct {
	jobs, producers, consumers int  // at least so many jobs; producers go on until what goes wrong is over
	workers                    int  // of each consumer; 0: 4
	sleeps                     bool // consumers do not poll, and producers wait now and then until they sleep
	client                     func() redis.UniversalClient
	calm                       func() redis.UniversalClient // for what looks at the queue; nil: client
	options                    []Option
	during                     func(q *Queue, progress func() int) // what goes wrong; it returns when it has; nil if it is in the client
	lives                      int                                 // how many jobs are done before the next consumer dies, and another takes its place; 0: none does
}

// short returns a scenario with fewer jobs, in the short form of the tests.
func (s scenario) short() scenario {
	if !redistest.Long() {
		s.jobs /= 4
	}
	return s
}

// run returns how often each job was done. It fails the test if a job that was pushed was not.
func (s scenario) run(t *testing.T) (done map[string]int) {
	t.Helper()
	ctx := t.Context()
	// Leases do not end, unless consumers die: so what is lost on its way is missed.
	options := append([]Option{Lease(time.Hour), Backoff(func(int) time.Duration { return rand.N(20 * time.Millisecond) }), Attempts(1000)}, s.options...)
	if s.calm == nil {
		s.calm = s.client
	}
	q := newQueue(t, s.calm(), options...)
	var y tally
	deaths := make(chan bool, s.jobs)
	handler := func(ctx context.Context, job *Job) error {
		switch n := rand.IntN(100); {
		case n < 5:
			return errors.New("it failed")
		case n < 7:
			panic("it panicked")
		case n < 20:
			time.Sleep(rand.N(5 * time.Millisecond)) // it works
		}
		if done, first := y.add(job.Payload); s.lives > 0 && first && done%s.lives == 0 {
			deaths <- true
		}
		return nil
	}
	deadly := make(chan struct{})
	var consumers sync.WaitGroup
	for range s.consumers {
		consumers.Go(func() {
			for ended := false; !ended; {
				rdb := s.client()
				life, end := context.WithCancel(context.Background())
				stopped := make(chan error, 1)
				go func() {
					q := openQueue(t, rdb, q.Name(), options...)
					if s.sleeps {
						sleeps(q)
					}
					stopped <- q.Run(life, cmp.Or(s.workers, 4), handler)
				}()
				select {
				case <-deaths:
					_ = rdb.Close() // as far as the server can tell, it died: nothing of it is heard any more
					<-stopped
				case <-deadly:
					ended = true
					end()
					if err := <-stopped; s.lives == 0 {
						assert.NoError(t, err)
					}
				}
				end()
			}
		})
	}
	var producers sync.WaitGroup
	var over atomic.Bool
	var mu sync.Mutex
	pushed, doubtful := map[string]bool{}, 0
	for p := range s.producers {
		producers.Go(func() {
			q := openQueue(t, s.client(), q.Name(), options...)
			for i := 0; i < s.jobs/s.producers || s.during != nil && !over.Load(); i++ {
				payload := fmt.Sprintf("%d.%d", p, i)
				if s.sleeps && i%20 == 19 {
					eventually(t, func() bool { armed, err := q.armed(ctx); return err == nil && armed })
				}
				var opts []PushOption
				switch rand.IntN(10) {
				case 0:
					opts = append(opts, In(rand.N(50*time.Millisecond)))
				case 1:
					opts = append(opts, Unique(payload, time.Hour))
				}
				for {
					_, err := q.Push(ctx, payload, opts...)
					if err != nil && !errors.Is(err, session.ErrOutcomeUnknown) {
						continue
					}
					mu.Lock()
					if pushed[payload] = err == nil; err != nil {
						doubtful++
					}
					mu.Unlock()
					break
				}
			}
		})
	}
	if s.during != nil {
		func() {
			defer over.Store(true)
			s.during(q, y.len)
		}()
	}
	producers.Wait()
	eventually(t, func() bool {
		stats, err := q.Stats(ctx)
		return err == nil && stats.Waiting+stats.Delayed+stats.Leased == 0
	})
	close(deadly)
	consumers.Wait()
	done = y.all()
	for payload, acknowledged := range pushed {
		if acknowledged {
			assert.Positive(t, done[payload], payload)
		}
	}
	assert.Less(t, doubtful, len(pushed)/10+1, "most pushes are acknowledged")
	for payload := range done {
		_, known := pushed[payload]
		assert.True(t, known, "%s was done and not pushed", payload)
	}
	assert.Equal(t, places{}, check(t, q))
	return done
}

// doubles returns how many jobs were done more than once.
func doubles(done map[string]int) (n int) {
	for _, times := range done {
		if times > 1 {
			n++
		}
	}
	return n
}

// The library does nothing twice, though replies are lost, as long as no lease ends.
func TestEachJobIsDoneOnceThoughConnectionsBreak(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]redistest.Faults{
		"replies are cut":    {CutReply: .03, CutInReply: .01},
		"requests are cut":   {CutRequest: .03},
		"requests come late": {LateRequest: .02, Delay: 20 * time.Millisecond},
	} {
		for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster, redistest.Valkey) {
			t.Run(name+"/"+string(kind), func(t *testing.T) {
				t.Parallel()
				server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
				proxy.Set(faults)
				unlucky := func() redis.UniversalClient {
					return server.Client(t, func(o *redis.UniversalOptions) {
						o.Dialer, o.ReadTimeout = proxy.Dial, 300*time.Millisecond
					})
				}
				calm := func() redis.UniversalClient { return server.Client(t) }
				s := scenario{jobs: 600, producers: 4, consumers: 3, client: unlucky, calm: calm}.short()
				s.during = func(*Queue, func() int) { eventually(t, func() bool { return proxy.Strikes() > 3 }) }
				assert.Zero(t, doubles(s.run(t)))
			})
		}
	}
}

func TestEachJobIsDoneThoughConsumersDie(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		var clients atomic.Int64
		done := scenario{jobs: 800, producers: 2, consumers: 3, lives: 60, options: []Option{Lease(MinLease), Concurrency(7)},
			client: func() redis.UniversalClient { clients.Add(1); return server.Client(t) }}.run(t)
		assert.Greater(t, clients.Load(), int64(12), "consumers died")
		assert.Less(t, doubles(done), len(done)/4)
	})
}

func TestEachJobIsDoneThoughTheServerIsKilled(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "appendonly yes", "appendfsync always")
			client := func() redis.UniversalClient { return server.Client(t) }
			s := scenario{jobs: 600, producers: 4, consumers: 3, client: client}.short()
			s.during = func(_ *Queue, progress func() int) {
				for kills := 1; kills <= 3; kills++ {
					eventually(t, func() bool { return progress() > s.jobs/6*kills })
					server.Kill()
					server.Restart(t)
				}
			}
			assert.Zero(t, doubles(s.run(t)))
		})
	}
}

func TestEachJobIsDoneOnceWhileTheSlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	moves := 0
	s := scenario{jobs: 1500, producers: 4, consumers: 3, client: func() redis.UniversalClient { return server.Client(t) }}.short()
	s.during = func(q *Queue, progress func() int) {
		slot := q.one.Keys().Slot()
		home, err := server.SlotOwner(t.Context(), slot)
		require.NoError(t, err)
		for progress() < s.jobs*3/4 {
			home = (home + 1) % 3
			require.NoError(t, server.MoveSlot(t.Context(), slot, home, nil))
			moves++
		}
	}
	done := s.run(t)
	assert.Zero(t, doubles(done))
	assert.Greater(t, moves, 1)
}

// An orderly failover loses nothing.
func TestEachJobIsDoneOnceThroughAFailover(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Sentinel, redistest.ReplicatedCluster} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			s := scenario{jobs: 1000, producers: 4, consumers: 3, client: func() redis.UniversalClient { return server.Client(t) }}.short()
			s.during = func(q *Queue, progress func() int) {
				eventually(t, func() bool { return progress() > s.jobs/4 })
				server.Failover(t, q.one.Keys().Slot())
			}
			assert.Zero(t, doubles(s.run(t)))
		})
	}
}

func TestEachJobIsDoneOnceThoughScriptsAreFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb, flushes := server.Client(t), 0
	s := scenario{jobs: 600, producers: 4, consumers: 2, client: func() redis.UniversalClient { return server.Client(t) }}.short()
	s.during = func(_ *Queue, progress func() int) {
		for progress() < s.jobs {
			require.NoError(t, rdb.ScriptFlush(t.Context()).Err())
			flushes++
		}
	}
	assert.Zero(t, doubles(s.run(t)))
	assert.Greater(t, flushes, 20)
}

// While the memory of the server is full, pushes are refused, and jobs are taken, done, tried again, buried and retried.
func TestJobsAreDoneWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx, rdb := t.Context(), server.Client(t)
			q := newQueue(t, rdb, Attempts(2), Backoff(func(int) time.Duration { return time.Millisecond }))
			_, err := q.PushMany(ctx, numbered(30))
			require.NoError(t, err)
			_, err = q.PushMany(ctx, numbered(30), In(time.Millisecond))
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
			for _, opts := range [][]PushOption{nil, {In(time.Second)}, {Unique("x", time.Hour)}} {
				_, err = q.Push(ctx, "more", opts...)
				require.ErrorContains(t, err, "OOM")
			}
			require.NoError(t, q.Pause(ctx))
			c := consume(t, q, 4, func(context.Context, *Job) error { return errors.New("it failed") })
			require.NoError(t, q.Resume(ctx))
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Dead == 60 })
			require.NoError(t, c.end())
			element, err := q.Dead().LIndex(ctx, 7)
			require.NoError(t, err)
			job, err := Parse(element)
			require.NoError(t, err)
			require.NoError(t, q.Retry(ctx, job.ID))
			done := make(chan string)
			consume(t, q, 1, func(_ context.Context, job *Job) error { done <- job.ID; return nil })
			assert.Equal(t, job.ID, <-done)
		})
	}
}

// A handler that outlives its lease keeps its job while the memory of the server is full.
func TestLeasesAreExtendedWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx, rdb, lease := t.Context(), server.Client(t), 2*time.Second
			q := newQueue(t, rdb, Lease(lease))
			_, err := q.Push(ctx, "job")
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
			outlived := make(chan error, 1)
			consume(t, q, 2, func(ctx context.Context, job *Job) error {
				first, err := leaseEnd(q, job)
				if err != nil {
					return err
				}
				for ctx.Err() == nil { // until more than a lease was added to the first one
					if end, err := leaseEnd(q, job); err != nil || end > first+lease.Milliseconds() {
						outlived <- errors.Join(err, ctx.Err())
						return nil
					}
					time.Sleep(lease / 20)
				}
				outlived <- context.Cause(ctx)
				return nil
			})
			require.NoError(t, <-outlived)
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done == 1 })
		})
	}
}

// A job that is done, or dead, while its unique key is on its way to another node frees the key.
func TestAUniqueKeyThatMovesIsFreed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	for name, result := range map[string]error{"done": nil, "dead": ErrDead} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Bool
			ctx, rdb := t.Context(), server.Client(t)
			q := newQueue(t, rdb)
			_, err := q.Push(ctx, "first") // so the queue has all of its keys
			require.NoError(t, err)
			_, err = q.Push(ctx, "x", Unique("k", time.Hour))
			require.NoError(t, err)
			_, err = q.PushMany(ctx, []any{"a", "b"})
			require.NoError(t, err)
			begun, goOn := make(chan struct{}), make(chan struct{})
			c := consume(t, q, 1, func(_ context.Context, job *Job) error {
				if string(job.Payload) == "x" {
					close(begun)
					<-goOn
					return result
				}
				return nil
			})
			<-begun
			slot := q.one.Keys().Slot()
			home, err := server.SlotOwner(ctx, slot)
			require.NoError(t, err)
			source, target := server.Nodes()[home].Client(t).(*redis.Client), server.Nodes()[(home+1)%3].Client(t).(*redis.Client)
			require.NoError(t, target.Do(ctx, "cluster", "setslot", slot, "importing", source.Do(ctx, "cluster", "myid").Val()).Err())
			require.NoError(t, source.Do(ctx, "cluster", "setslot", slot, "migrating", target.Do(ctx, "cluster", "myid").Val()).Err())
			found, err := source.Keys(ctx, "{"+q.Name()+"}:queue:unique:*").Result()
			require.NoError(t, err)
			require.Len(t, found, 1)
			host, port, _ := net.SplitHostPort(server.Nodes()[(home+1)%3].Addr())
			require.NoError(t, source.Migrate(ctx, host, port, found[0], 0, time.Second).Err())
			rdb.AddHook(&answered{then: func() { asked.Store(true) }})
			close(goOn)
			eventually(t, func() bool { return asked.Load() }) // the job is settled by now, or refused until the slot has moved
			require.NoError(t, server.MoveSlot(ctx, slot, (home+1)%3, nil))
			eventually(t, func() bool { s, err := q.Stats(ctx); return err == nil && s.Done+s.Buried >= 4 })
			_, err = q.Push(ctx, "y", Unique("k", time.Hour))
			assert.NoError(t, err, "no job has the key")
			require.NoError(t, c.end())
		})
	}
}

// answered is a hook that does something when a script on the keys of a queue has been answered.
type answered struct{ then func() }

func (a *answered) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a *answered) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (a *answered) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if args := cmd.Args(); len(args) > 3 && strings.HasSuffix(fmt.Sprint(args[3]), ":meta") {
			a.then()
		}
		return err
	}
}
