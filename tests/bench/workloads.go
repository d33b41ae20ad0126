package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// workload is what people do with lists: workers that repeat their tasks.
type workload struct {
	name string
	goal float64 // of the rate on plain lists
	// workers returns the tasks of the workers. A task returns how many jobs it has done.
	workers func(ctx context.Context, rdb redis.UniversalClient, prefix string) []task
}

type task func(ctx context.Context) (jobs int, err error)

const workloadConnections = 100

// several returns n workers.
func several(n int, worker func(i int) task) (tasks []task) {
	for i := range n {
		tasks = append(tasks, worker(i))
	}
	return tasks
}

// one is a task that is one job.
func one(do func(ctx context.Context) error) task {
	return func(ctx context.Context) (int, error) { return 1, do(ctx) }
}

// none is a task of which others count what comes of it.
func none(do func(ctx context.Context) error) task {
	return func(ctx context.Context) (int, error) { return 0, do(ctx) }
}

// popping is a task that counts what it gets, if it gets anything.
func popping(pop func(ctx context.Context) error) task {
	return func(ctx context.Context) (int, error) {
		err := pop(ctx)
		if errors.Is(err, redis.Nil) {
			return 0, nil
		}
		return 1, err
	}
}

var workloads = []workload{
	{"one queue: 20 workers in BRPOP, 4 producers", 0.8, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		key, value := prefix+"queue", text(200)
		producers := several(4, func(int) task {
			return none(func(ctx context.Context) error { return rdb.LPush(ctx, key, value).Err() })
		})
		return append(producers, several(20, func(int) task {
			return popping(func(ctx context.Context) error { return rdb.BRPop(ctx, time.Second, key).Err() })
		})...)
	}},
	{"three queues by priority: the same workers in BRPOP of three lists", 0.8, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		keys, value := []string{prefix + "{q}high", prefix + "{q}middle", prefix + "{q}low"}, text(200)
		producers := several(4, func(int) task {
			return none(func(ctx context.Context) error { return rdb.LPush(ctx, keys[rand.IntN(3)], value).Err() })
		})
		return append(producers, several(20, func(int) task {
			return popping(func(ctx context.Context) error { return rdb.BRPop(ctx, time.Second, keys...).Err() })
		})...)
	}},
	{"reliable queue: 20 workers BLMOVE and LREM, 4 producers", 0.7, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		key, processing, value, n := prefix+"{r}queue", prefix+"{r}processing", text(192), atomic.Int64{}
		producers := several(4, func(int) task {
			return none(func(ctx context.Context) error { return rdb.LPush(ctx, key, fmt.Sprint(value, n.Add(1))).Err() })
		})
		return append(producers, several(20, func(int) task {
			return popping(func(ctx context.Context) error {
				job, err := rdb.BLMove(ctx, key, processing, "RIGHT", "LEFT", time.Second).Result()
				if err != nil {
					return err
				}
				return rdb.LRem(ctx, processing, 1, job).Err()
			})
		})...)
	}},
	{"log shipper: 4 pipelines of 100 RPUSH, one LPOP 500", 1.2, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		key, value := prefix+"log", text(200)
		shippers := several(4, func(int) task {
			return none(func(ctx context.Context) error {
				_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					for range 100 {
						pipe.RPush(ctx, key, value)
					}
					return nil
				})
				return err
			})
		})
		return append(shippers, func(ctx context.Context) (int, error) {
			lines, err := rdb.LPopCount(ctx, key, 500).Result()
			if errors.Is(err, redis.Nil) {
				err = nil
			}
			return len(lines), err
		})
	}},
	{"timelines: 8 pipelines LPUSH LTRIM EXPIRE over 10,000 lists", 0.6, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		value := text(200)
		return several(8, func(int) task {
			return one(func(ctx context.Context) error {
				key := fmt.Sprint(prefix, "timeline:", rand.IntN(10_000))
				_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.LPush(ctx, key, value)
					pipe.LTrim(ctx, key, 0, 99)
					return pipe.Expire(ctx, key, time.Hour).Err()
				})
				return err
			})
		})
	}},
	{"feed: 4 pipelines of LRANGE 0 9 of 20 lists", 0.7, func(ctx context.Context, rdb redis.UniversalClient, prefix string) []task {
		for i := range 100 {
			rdb.RPush(ctx, fmt.Sprint(prefix, "feed:", i), anyOf(repeat(text(200), 20))...)
		}
		return several(4, func(int) task {
			return one(func(ctx context.Context) error {
				_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
					for range 20 {
						pipe.LRange(ctx, fmt.Sprint(prefix, "feed:", rand.IntN(100)), 0, 9)
					}
					return nil
				})
				return err
			})
		})
	}},
	{"chat: 8 callers RPUSH, LRANGE -50 -1, 100 lists", 0.8, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		value := text(200)
		return several(8, func(int) task {
			return one(func(ctx context.Context) error {
				key := fmt.Sprint(prefix, "chat:", rand.IntN(100))
				if err := rdb.RPush(ctx, key, value).Err(); err != nil {
					return err
				}
				return rdb.LRange(ctx, key, -50, -1).Err()
			})
		})
	}},
	{"buffer: 8 callers RPUSH, MULTI LRANGE DEL every 5 ms", 0.9, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		key, value, drain := prefix+"buffer", text(200), time.NewTicker(5*time.Millisecond)
		return append(several(8, func(int) task {
			return one(func(ctx context.Context) error { return rdb.RPush(ctx, key, value).Err() })
		}), none(func(ctx context.Context) error {
			select {
			case <-drain.C:
			case <-ctx.Done():
				return nil
			}
			_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.LRange(ctx, key, 0, -1)
				return pipe.Del(ctx, key).Err()
			})
			return err
		}))
	}},
	{"backlog: 64 callers push and pop on one list", 2, func(ctx context.Context, rdb redis.UniversalClient, prefix string) []task {
		rdb.RPush(ctx, prefix+"backlog", anyOf(repeat(text(200), 1000))...)
		return pushAndPop(rdb, text(200), 64, func(int) string { return prefix + "backlog" })
	}},
	{"tenants: 64 callers push and pop on 64 lists", 0.9, func(ctx context.Context, rdb redis.UniversalClient, prefix string) []task {
		return pushAndPop(rdb, text(200), 64, func(i int) string { return fmt.Sprint(prefix, "tenant:", i) })
	}},
	{"hot list: 64 callers MULTI LPUSH LTRIM on one list", 0.8, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		key, value := prefix+"hot", text(200)
		return several(64, func(int) task {
			return one(func(ctx context.Context) error {
				_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.LPush(ctx, key, value)
					return pipe.LTrim(ctx, key, 0, 999).Err()
				})
				return err
			})
		})
	}},
	{"readers: 64 callers LRANGE 0 9 of one list of 20,000", 0.9, func(ctx context.Context, rdb redis.UniversalClient, prefix string) []task {
		for range 20 {
			rdb.RPush(ctx, prefix+"read", anyOf(repeat(text(200), 1000))...)
		}
		return several(64, func(int) task {
			return one(func(ctx context.Context) error { return rdb.LRange(ctx, prefix+"read", 0, 9).Err() })
		})
	}},
	{"blobs: 16 callers push and pop 100 KB", 0.7, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		return pushAndPop(rdb, text(100_000), 16, func(int) string { return prefix + "blobs" })
	}},
	{"RPC: 8 pairs; each pushes, and waits for the other's answer", 0.6, func(_ context.Context, rdb redis.UniversalClient, prefix string) []task {
		value := text(200)
		return several(16, func(i int) task {
			call, answer := fmt.Sprint(prefix, "call:", i/2), fmt.Sprint(prefix, "answer:", i/2)
			if i%2 == 1 {
				return func(ctx context.Context) (int, error) {
					err := rdb.BRPop(ctx, time.Second, call).Err()
					if errors.Is(err, redis.Nil) {
						return 0, nil
					} else if err != nil {
						return 0, err
					}
					return 0, rdb.LPush(ctx, answer, value).Err()
				}
			}
			return popping(func(ctx context.Context) error {
				if err := rdb.LPush(ctx, call, value).Err(); err != nil {
					return err
				}
				return rdb.BRPop(ctx, time.Second, answer).Err()
			})
		})
	}},
}

// pushAndPop returns workers that push a value, and pop one.
func pushAndPop(rdb redis.UniversalClient, value string, callers int, key func(i int) string) []task {
	return several(callers, func(i int) task {
		key := key(i)
		return one(func(ctx context.Context) error {
			if err := rdb.LPush(ctx, key, value).Err(); err != nil {
				return err
			}
			return rdb.RPop(ctx, key).Err()
		})
	})
}

// repeat returns a value so many times.
func repeat(value string, times int) []string {
	values := make([]string, times)
	for i := range values {
		values[i] = value
	}
	return values
}

type workloadFigures struct {
	Place   string  `json:"place,omitempty"`
	Name    string  `json:"name"`
	Goal    float64 `json:"goal"`
	Plain   figures `json:"plain"`
	Sharded figures `json:"sharded"`
}

// workloads measures each workload through the hook, and by plain go-redis, in turn.
func (b *bench) workloads(ctx context.Context) error {
	return b.inEachPlace(ctx, func(p *place) error {
		for _, w := range workloads {
			medians, err := b.medians(2, func(at, _ int) ([]figures, error) {
				if err := p.clear(ctx); err != nil {
					return nil, err
				}
				rdb, prefix := p.client(at)
				f, err := work(ctx, p, pick(b, 200*time.Millisecond, time.Second), w.workers(ctx, rdb, prefix))
				return []figures{f}, err
			})
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			b.results.Workloads = append(b.results.Workloads, workloadFigures{p.name, w.name, w.goal, medians[0][0], medians[1][0]})
		}
		return nil
	})
}

// work has the workers repeat their tasks for a time, and returns the jobs a second, and the server's time for each. What is counted is done
// when the time is over: those who wait on then are not waited for.
func work(ctx context.Context, s meter, d time.Duration, tasks []task) (figures, error) {
	before, err := s.cpu(ctx)
	if err != nil {
		return figures{}, err
	}
	var done atomic.Int64
	var stop atomic.Bool
	failures := make(chan error, len(tasks))
	var workers sync.WaitGroup
	start := time.Now()
	for _, task := range tasks {
		workers.Go(func() {
			for !stop.Load() {
				jobs, err := task(ctx)
				if err != nil {
					failures <- err
					return
				}
				done.Add(int64(jobs))
			}
		})
	}
	select {
	case err = <-failures:
	case <-time.After(d):
	}
	jobs, elapsed := max(done.Load(), 1), time.Since(start)
	stop.Store(true)
	after, cpuErr := s.cpu(ctx)
	workers.Wait()
	if err = cmp.Or(err, cpuErr); err != nil {
		return figures{}, err
	}
	return figures{Ops: float64(jobs) / elapsed.Seconds(), CPU: (after - before) / time.Duration(jobs)}, nil
}

func (r *report) workloads(rows []workloadFigures) {
	r.section("Workloads", fmt.Sprintf(`What people do with lists, through the hook and by plain go-redis in turn: elements of 200 bytes, a pool of %d connections. *CPU* is the
server's for a job.`, workloadConnections))
	var t *table
	for i, w := range rows {
		if i == 0 || w.Place != rows[i-1].Place {
			t = r.table(w.Place, "workload", "plain, jobs/s", "hook, jobs/s", "rate", "CPU, plain", "CPU, hook")
		}
		rate := w.Sharded.Ops / w.Plain.Ops
		t.row(w.Name, count(w.Plain.Ops), count(w.Sharded.Ops), times(rate), micros(w.Plain.CPU), micros(w.Sharded.CPU))
		name, _, _ := strings.Cut(w.Name, ":")
		goal := map[string]float64{"": w.Goal, besides: 0.95, across: 0.8 * w.Goal}[w.Place]
		r.target(strings.TrimSuffix("Workload: "+name+", "+w.Place, ", "), fmt.Sprintf("≥ %.2f×", goal), times(rate), rate >= goal)
	}
}
