package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/queue"
)

// jobKeys are the keys of a queue as they were found.
type jobKeys struct {
	name          string
	waiting, dead []string // elements of the lists
	times         []redis.Z
	jobs          map[string]string
	unique        []string
	done          int64
}

// places is where the jobs of a queue are, by payload.
type places map[string]string

// places verifies that each job is in one place, and that the keys agree with each other. attempts is how often a job is tried.
func (k jobKeys) places(attempts int) (places, error) {
	found, ids := places{}, map[string]string{}
	add := func(where, element string) error {
		job, err := queue.Parse(element)
		if err != nil {
			return fmt.Errorf("%s: %w: %.60q", where, err, element)
		}
		if before := cmp.Or(ids[job.ID], found[string(job.Payload)]); before != "" {
			return fmt.Errorf("%s, the job %s, is %s, and %s, too", job.Payload, job.ID, before, where)
		}
		ids[job.ID], found[string(job.Payload)] = where, where
		if where == "dead" && job.Attempt < attempts && !strings.Contains(job.LastError, queue.ErrDead.Error()) {
			return fmt.Errorf("%s is dead after %d attempts of %d: %s", job.Payload, job.Attempt, attempts, job.LastError)
		}
		return nil
	}
	var problems error
	for _, element := range k.waiting {
		problems = errors.Join(problems, add("waiting", element))
	}
	for _, element := range k.dead {
		problems = errors.Join(problems, add("dead", element))
	}
	if len(k.times) != len(k.jobs) {
		problems = errors.Join(problems, fmt.Errorf("%d jobs have a time, and %d an envelope", len(k.times), len(k.jobs)))
	}
	for _, z := range k.times {
		member, where := z.Member.(string), "delayed"
		if z.Score < 0 {
			where = "leased"
		}
		envelope, has := k.jobs[member[:16]]
		if !has {
			problems = errors.Join(problems, fmt.Errorf("%x is %s without an envelope", member, where))
			continue
		}
		if named := idOf(envelope); named != hex.EncodeToString([]byte(member[:16])) {
			problems = errors.Join(problems, fmt.Errorf("%x has the envelope of %s", member, named))
		}
		problems = errors.Join(problems, add(where, envelope))
	}
	return found, problems
}

// idOf returns the id of an envelope in hex, as members of the sorted set begin.
func idOf(envelope string) string {
	job, err := queue.Parse(envelope)
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(job.ID, "-", "")
}

// readKeys reads the keys of a queue that nobody uses.
func (sc *scenario) readKeys(ctx context.Context, q jobQueueSpec) (k jobKeys, err error) {
	k.name = q.Name
	opened := sc.openJobs(q)
	err = errors.Join(opened.List().Check(ctx), opened.Dead().Check(ctx))
	if err == nil {
		k.waiting, err = opened.List().LRange(ctx, 0, -1)
	}
	if err == nil {
		k.dead, err = opened.Dead().LRange(ctx, 0, -1)
	}
	if err == nil {
		k.times, err = sc.rdb.ZRangeWithScores(ctx, q.Name+":queue:times", 0, -1).Result()
	}
	if err == nil {
		k.jobs, err = sc.rdb.HGetAll(ctx, q.Name+":queue:jobs").Result()
	}
	if err == nil {
		var stats queue.Stats
		stats, err = opened.Stats(ctx)
		k.done = stats.Done
	}
	for i := range uniqueKeys {
		if err != nil {
			break
		}
		name := uniqueKeyOf(q.Name, fmt.Sprint(i))
		var exists int64
		if exists, err = sc.rdb.Exists(ctx, name).Result(); exists > 0 {
			k.unique = append(k.unique, name)
		}
	}
	return k, err
}

// openJobs returns the harness's own handle of a queue.
func (sc *scenario) openJobs(q jobQueueSpec) *queue.Queue {
	opened, err := queue.New(sc.rdb, q.Name, sc.jobsSpec().options(q)...)
	if err != nil {
		panic(err)
	}
	return opened
}

// checkJobs returns where the jobs of all queues are, when nobody uses them. accept tells what is wrong with that. What is still under
// way is given some seconds.
func (sc *scenario) checkJobs(spec jobsSpec, accept func(found places, keys []jobKeys) error) (found places) {
	var problem error
	for deadline := time.Now().Add(keysPatience); sc.ctx.Err() == nil; sc.sleep(200 * time.Millisecond) {
		var keys []jobKeys
		found, keys, problem = sc.findJobs(spec)
		problem = errors.Join(accept(found, keys), problem)
		if problem == nil || time.Now().After(deadline) {
			break
		}
	}
	if problem != nil {
		sc.violate("the keys of the queues: %.2000s %s", problem.Error(), sc.keepLog())
	}
	return found
}

// keepLog copies the directory of a server that has an append-only file, which tells what each script has changed. It returns where it is.
func (sc *scenario) keepLog() string {
	if !slices.Contains(sc.fault.config, "appendonly yes") {
		return ""
	}
	config, err := sc.rdb.ConfigGet(sc.ctx, "*").Result()
	if err != nil {
		return err.Error()
	}
	kept := fmt.Sprintf("%s/%s-%s-log-%d", sc.out, sc.fault.name, sc.kind, sc.lap)
	err = errors.Join(os.RemoveAll(kept), os.CopyFS(kept, os.DirFS(config["dir"])))
	if err != nil {
		return err.Error()
	}
	return kept
}

// keysPatience is how long what workers have left behind may take: requests that are late, and jobs that are given back.
const keysPatience = 3 * time.Second

func (sc *scenario) findJobs(spec jobsSpec) (all places, keys []jobKeys, problem error) {
	all = places{}
	for _, q := range spec.Queues {
		var k jobKeys
		err := sc.retry(func(ctx context.Context) (err error) {
			k, err = sc.readKeys(ctx, q)
			return err
		})
		found, wrong := k.places(q.Attempts)
		for payload, where := range found {
			all[payload] = where
		}
		keys = append(keys, k)
		problem = errors.Join(problem, err, wrong)
	}
	return all, keys, problem
}
