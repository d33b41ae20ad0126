package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
)

var (
	cancelScript = script.Load("queue_cancel")
	pauseScript  = script.Load("queue_pause")
	resumeScript = script.Load("queue_resume")
	retryScript  = script.Load("queue_retry")
	statsScript  = script.Load("queue_stats")
)

// Stats is what [Queue.Stats] returns.
type Stats struct {
	Waiting int64 // jobs in the list
	Delayed int64 // jobs that are due later, or are to be tried again
	Leased  int64 // jobs that consumers have
	Dead    int64 // jobs in the list of the dead

	// How often, since the queue was created.
	Done   int64 // jobs were done
	Failed int64 // attempts failed, but for those after which a job was dead
	Buried int64 // jobs became dead

	Paused bool
	Oldest time.Time // when the next job of the list was pushed, by the clock of its pusher; zero if there is none, or it is not known
}

// Stats returns the numbers of a queue, as they are at one moment. O(log(jobs leased and delayed)).
func (q *Queue) Stats(ctx context.Context) (Stats, error) {
	metas := []any{q.one.Keys().Meta, q.grave.Keys().Meta}
	op := q.one.Sessions().ReadBeside(statsScript, metas, []any{q.one.Plain(), ""}, "", "", "", len(metas), string(q.end()))
	reply, err := op.Run(ctx)
	if err != nil {
		return Stats{}, q.wrap("stats", err)
	}
	words := reply.([]any)
	number := func(i int) int64 { return words[i].(int64) }
	s := Stats{
		Waiting: number(0), Delayed: number(1), Leased: number(2), Dead: number(3),
		Done: number(4), Failed: number(5), Buried: number(6), Paused: number(7) == 1,
	}
	if first, found := words[8].(string); found && len(first) == headerSize { // without what the flags say
		if job, err := Parse(mark + "\x00" + first[idAt:]); err == nil && first[:flagsAt] == mark {
			s.Oldest = job.PushedAt
		}
	}
	return s, nil
}

// Pause makes all consumers take no more jobs, until [Queue.Resume]. Jobs that run go on. O(1).
func (q *Queue) Pause(ctx context.Context) error {
	return q.wrap("pause", q.confirmed(ctx, pauseScript))
}

// Resume ends [Queue.Pause], and wakes the consumers. O(1).
func (q *Queue) Resume(ctx context.Context) error {
	return q.wrap("resume", q.confirmed(ctx, resumeScript))
}

// confirmed runs a script on the keys of the queue that may run twice.
func (q *Queue) confirmed(ctx context.Context, s *script.Script) error {
	_, err := q.one.Sessions().Confirmed(s, []any{q.one.Keys().Meta}).Run(ctx)
	return err
}

// Cancel removes a job that is delayed, or waits to be tried again. It returns ErrRunning for one that is leased, and ErrNotFound for
// any other: one that waits in the list can only be found by looking at all of them. Its unique key is free again.
// O(log(jobs leased and delayed)).
func (q *Queue) Cancel(ctx context.Context, id string) error {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return q.wrap("cancel", fmt.Errorf("%w: %q", ErrID, id))
	}
	op := q.operation(cancelScript, 1)
	op.Append(string(parsed[:]))
	removed, err := op.Run(ctx)
	if script.IsDone(err) {
		switch removed {
		case int64(0):
			err = ErrNotFound
		case int64(-1):
			err = ErrRunning
		}
	}
	return q.wrap("cancel", err)
}

// Retry takes a job out of the list of the dead, and lets the queue try it from the start, before all jobs that wait. It returns
// ErrNotFound if no dead job has the id. It reads the list of the dead up to the job: O(jobs dead). The job does not get its unique key
// back: another one may have it.
func (q *Queue) Retry(ctx context.Context, id string) error {
	return q.wrap("retry", q.retry(ctx, id))
}

func (q *Queue) retry(ctx context.Context, id string) error {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return fmt.Errorf("%w: %q", ErrID, id)
	}
	for element, err := range q.dead.All(ctx) {
		if err != nil {
			return err
		}
		if job, err := Parse(element); err == nil && job.ID == parsed.String() {
			return q.retryOne(ctx, element, job)
		}
	}
	return ErrNotFound
}

// retryOne lets the queue try a dead job again. It returns ErrNotFound if another process was faster.
func (q *Queue) retryOne(ctx context.Context, element string, job *Job) error {
	job.Attempt, job.LastError = 0, ""
	op := q.onBoth(retryScript, 2)
	op.Append(element, job.envelope())
	removed, err := op.Run(ctx)
	if script.IsDone(err) && removed != int64(1) {
		return ErrNotFound
	}
	return err
}

// RetryAll does what Retry does for all jobs that are dead when it begins, the oldest first, and returns how many there were. Each is
// one step: if ctx ends, or one fails, those before have been done. Elements that no queue has written stay.
func (q *Queue) RetryAll(ctx context.Context) (retried int64, err error) {
	left, err := q.dead.LLen(ctx)
	for strangers := int64(0); left > 0 && err == nil; left-- {
		var element string
		if element, err = q.dead.LIndex(ctx, strangers); err != nil {
			break
		}
		job, parseErr := Parse(element)
		if parseErr != nil {
			strangers++
			continue
		}
		err = q.retryOne(ctx, element, job)
		if script.IsDone(err) {
			retried++
		}
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
	}
	if err == redis.Nil { // others were faster
		err = nil
	}
	return retried, q.wrap("retry", err)
}
