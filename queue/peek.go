package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// State is where a job is.
type State string

const (
	Waiting State = "waiting" // in the list
	Delayed State = "delayed" // due later, or to be tried again
	Leased  State = "leased"  // a consumer has it
	Dead    State = "dead"    // it failed too often, or for good
)

// Peek returns up to n jobs in a state, without taking them: those that wait in the order in which they will be taken, the delayed by the
// time at which they are due, the leased by the end of their leases, the dead in the order in which they died. An element of the list
// that no queue has written is a job without an id. O(n).
func (q *Queue) Peek(ctx context.Context, state State, n int) ([]*Job, error) {
	if n < 1 {
		return nil, q.wrap("peek", fmt.Errorf("%w: %d jobs", ErrOption, n))
	}
	peek := map[State]func(context.Context, int64) ([]*Job, error){
		Waiting: q.peekWaiting, Delayed: q.peekDelayed, Leased: q.peekLeased, Dead: q.peekDead,
	}[state]
	if peek == nil {
		return nil, q.wrap("peek", fmt.Errorf("%w: the state %q", ErrOption, state))
	}
	jobs, err := peek(ctx, int64(n))
	return jobs, q.wrap("peek", err)
}

func (q *Queue) peekWaiting(ctx context.Context, n int64) ([]*Job, error) {
	if !q.popRight {
		return parseAll(q.list.LRange(ctx, 0, n-1))
	}
	jobs, err := parseAll(q.list.LRange(ctx, -n, -1))
	slices.Reverse(jobs)
	return jobs, err
}

func (q *Queue) peekDead(ctx context.Context, n int64) ([]*Job, error) {
	return parseAll(q.dead.LRange(ctx, 0, n-1))
}

func parseAll(elements []string, err error) (jobs []*Job, _ error) {
	for _, element := range elements {
		job, err := Parse(element)
		if err != nil {
			job = &Job{Payload: []byte(element)}
		}
		jobs = append(jobs, job)
	}
	return jobs, err
}

func (q *Queue) peekDelayed(ctx context.Context, n int64) ([]*Job, error) {
	by := &redis.ZRangeBy{Min: "(0", Max: "+inf", Count: n}
	return q.jobsAt(ctx, q.one.Client().ZRangeByScoreWithScores(ctx, q.keys.times, by))
}

func (q *Queue) peekLeased(ctx context.Context, n int64) ([]*Job, error) {
	by := &redis.ZRangeBy{Min: "-inf", Max: "(0", Count: n}
	return q.jobsAt(ctx, q.one.Client().ZRevRangeByScoreWithScores(ctx, q.keys.times, by))
}

// jobsAt returns the jobs of members of the sorted set of times, whose scores are negative for those that are leased.
func (q *Queue) jobsAt(ctx context.Context, members *redis.ZSliceCmd) (jobs []*Job, err error) {
	times, err := members.Result()
	if err != nil || len(times) == 0 {
		return nil, err
	}
	ids := make([]string, len(times))
	for i, z := range times {
		ids[i] = z.Member.(string)[:attemptAt-idAt]
	}
	envelopes, err := q.one.Client().HMGet(ctx, q.keys.jobs, ids...).Result()
	if err != nil {
		return nil, err
	}
	for i, envelope := range envelopes {
		text, found := envelope.(string) // or it has ended meanwhile
		if job, err := Parse(text); found && err == nil {
			job.Due = time.UnixMilli(int64(max(times[i].Score, -times[i].Score)))
			if times[i].Score < 0 {
				job.Attempt++ // the envelope counts those that have ended
			}
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}
