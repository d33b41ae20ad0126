package batch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// reading is Reads under test: its reads wait to be let go.
type reading struct {
	Reads
	began, end chan struct{}
	count      atomic.Int64
}

func newReading() *reading { return &reading{began: make(chan struct{}), end: make(chan struct{})} }

// ask begins to ask, and returns where the answer comes.
func (r *reading) ask(ctx context.Context, failure error) <-chan answer {
	result := make(chan answer, 1)
	go func() {
		elements, err := r.Do(ctx, "question", func(context.Context) (any, error) {
			n := r.count.Add(1)
			r.began <- struct{}{}
			<-r.end
			return []string{fmt.Sprint(n)}, failure
		})
		result <- answer{result: elements, err: err}
	}()
	return result
}

// queue waits until so many callers wait.
func (r *reading) queue(t *testing.T, callers int) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.asked["question"].waiting) == callers
	}, 10*time.Second, time.Millisecond)
}

// busy begins as many reads as may be on their way, and lets others wait for long.
func (r *reading) busy(t *testing.T) (answers []<-chan answer) {
	t.Helper()
	r.took.Store(int64(time.Hour))
	for range readsAtOnce {
		answers = append(answers, r.ask(t.Context(), nil))
		<-r.began
	}
	return answers
}

func TestCallersShareAnswers(t *testing.T) {
	t.Parallel()
	r := newReading()
	early := r.busy(t)
	var late []<-chan answer
	for range 5 {
		late = append(late, r.ask(t.Context(), nil))
	}
	r.queue(t, 5)
	r.end <- struct{}{}
	<-r.began // the next read, for all who wait
	for range readsAtOnce {
		r.end <- struct{}{}
	}
	for _, a := range early {
		assert.NoError(t, (<-a).err)
	}
	for _, a := range late {
		got := <-a
		assert.Equal(t, answer{result: []string{"5"}}, got)
		got.result.([]string)[0] = "changed" // each has its own
	}
	assert.EqualValues(t, readsAtOnce+1, r.count.Load())
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.asked) == 0
	}, 10*time.Second, time.Millisecond)
}

// Callers whose ctx ends leave, whether they wait, are about to read for others, or others read for them.
func TestCallersLeaveSharedReads(t *testing.T) {
	t.Parallel()
	r := newReading()
	r.busy(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone := r.ask(ctx, nil)
	r.queue(t, 1)
	cancel()
	assert.ErrorIs(t, (<-gone).err, context.Canceled)
	r.queue(t, 0)

	first := r.ask(t.Context(), nil)
	r.queue(t, 1)
	ctx, cancel = context.WithCancel(t.Context())
	second, third := r.ask(ctx, nil), r.ask(t.Context(), nil)
	r.queue(t, 3)
	r.end <- struct{}{}
	<-r.began // for the three
	cancel()
	assert.ErrorIs(t, (<-second).err, context.Canceled)
	for range readsAtOnce {
		r.end <- struct{}{}
	}
	assert.NoError(t, (<-first).err)
	assert.NoError(t, (<-third).err)
}

// What one caller's read fails with is not another's error: the others read themselves.
func TestCallersReadThemselvesAfterAnError(t *testing.T) {
	t.Parallel()
	r, failure := newReading(), errors.New("failure")
	r.busy(t)
	failed := r.ask(t.Context(), failure)
	r.queue(t, 1)
	other := r.ask(t.Context(), nil)
	r.queue(t, 2)
	r.end <- struct{}{}
	<-r.began
	for range readsAtOnce {
		r.end <- struct{}{}
	}
	assert.ErrorIs(t, (<-failed).err, failure)
	<-r.began
	r.end <- struct{}{}
	assert.NoError(t, (<-other).err)
}

// A read that gets no reply does not hold up others for long.
func TestCallersDoNotWaitForReadsThatHang(t *testing.T) {
	t.Parallel()
	r := newReading()
	r.busy(t)
	r.took.Store(0)
	other := r.ask(t.Context(), nil)
	<-r.began // by itself: the others still wait
	for range readsAtOnce + 1 {
		r.end <- struct{}{}
	}
	assert.NoError(t, (<-other).err)
}

// An answer is never older than the question.
func TestSharedAnswersAreAskedForAfterTheQuestion(t *testing.T) {
	t.Parallel()
	var reads Reads
	var now atomic.Int64
	var wg sync.WaitGroup
	var count atomic.Int64
	for range 32 {
		wg.Go(func() {
			for range 2000 {
				asked := now.Add(1)
				result, err := reads.Do(t.Context(), "time", func(context.Context) (any, error) {
					count.Add(1)
					at := now.Load()
					runtime.Gosched()
					return at, nil
				})
				if !assert.NoError(t, err) || !assert.GreaterOrEqual(t, result, asked) {
					return
				}
			}
		})
	}
	wg.Wait()
	assert.Less(t, count.Load(), int64(32*2000))
}
