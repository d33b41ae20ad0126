package script_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
)

func TestMain(m *testing.M) {
	script.FarAway = time.Hour // whatever the machine
	os.Exit(redistest.Main(m).Run())
}

// gate holds calls by themselves until it opens, and sees the pipelines.
type gate struct {
	held      atomic.Int64
	opened    chan struct{}
	mu        sync.Mutex
	pipelines []int // how many calls each had
	refusal   error // of pipelines
	panics    bool
}

func (g *gate) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if _, ours := cmd.(*script.Command); ours { // and not what go-redis greets a server with
			g.held.Add(1)
			<-g.opened
		}
		return next(ctx, cmd)
	}
}

func (g *gate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if _, ours := cmds[0].(*script.Command); !ours {
			return next(ctx, cmds)
		}
		g.mu.Lock()
		g.pipelines = append(g.pipelines, len(cmds))
		g.mu.Unlock()
		if g.panics {
			panic("a hook")
		}
		if g.refusal != nil {
			return g.refusal
		}
		return next(ctx, cmds)
	}
}

// server has a client whose calls by themselves wait for the gate, and calls of which number n replies with n.
func gated(t *testing.T, callers int) (g *gate, call func(ctx context.Context, n int) (any, error)) {
	t.Helper()
	ctx, server := t.Context(), redistest.Start(t, redistest.Redis)
	llen, admin, rdb := script.Load("llen"), server.Client(t), server.Client(t)
	for n := 1; n <= callers; n++ {
		require.NoError(t, admin.RPush(ctx, fmt.Sprint("list", n), make([]string, n)).Err())
	}
	runner := script.Runner{Client: rdb}
	call = func(ctx context.Context, n int) (any, error) {
		name := fmt.Sprint("list", n)
		return runner.Once(ctx, script.NewCall(llen, []any{"{" + name + "}:meta"}, 0, "+"+name))
	}
	_, err := call(ctx, 1) // the server has the functions
	require.NoError(t, err)
	g = &gate{opened: make(chan struct{})}
	rdb.AddHook(g)
	return g, call
}

// A crowd of callers shares writes, and each gets its own reply.
func TestACrowdSharesWrites(t *testing.T) {
	t.Parallel()
	const callers = 60
	g, call := gated(t, callers)
	var calling sync.WaitGroup
	for n := 1; n <= callers; n++ {
		calling.Go(func() {
			reply, err := call(t.Context(), n)
			assert.NoError(t, err)
			assert.EqualValues(t, n, reply)
		})
	}
	for g.seen() == 0 { // what waits is sent although no call by itself has ended
		runtime.Gosched()
	}
	close(g.opened)
	calling.Wait()
	together := 0
	for _, calls := range g.pipelines {
		together += calls
	}
	assert.EqualValues(t, callers, int(g.held.Load())+together)
	assert.Positive(t, together)
	assert.LessOrEqual(t, len(g.pipelines), callers/8, "%v", g.pipelines)
}

// A caller whose context ends before its call is sent returns at once, and the call is not sent.
func TestACallerLeavesTheCrowd(t *testing.T) {
	t.Parallel()
	const callers = 40
	g, call := gated(t, callers)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var calling sync.WaitGroup
	for n := 1; n <= callers; n++ {
		calling.Go(func() { _, _ = call(t.Context(), n) })
	}
	for g.held.Load() < 16 {
		runtime.Gosched()
	}
	left := 0
	for n := range 100 {
		if _, err := call(ctx, 1+n%callers); errors.Is(err, context.Canceled) {
			left++
		}
	}
	assert.Positive(t, left)
	close(g.opened)
	calling.Wait()
}

// A pipeline that another hook refuses fails for each of its callers.
func TestARefusedWriteFailsForAll(t *testing.T) {
	t.Parallel()
	const callers = 40
	g, call := gated(t, callers)
	g.refusal = errors.New("refused")
	var failed atomic.Int64
	var calling sync.WaitGroup
	for n := 1; n <= callers; n++ {
		calling.Go(func() {
			reply, err := call(t.Context(), n)
			if errors.Is(err, g.refusal) {
				failed.Add(1)
				return
			}
			assert.NoError(t, err)
			assert.EqualValues(t, n, reply)
		})
	}
	for g.seen() == 0 {
		runtime.Gosched()
	}
	close(g.opened)
	calling.Wait()
	assert.EqualValues(t, callers, failed.Load()+g.held.Load())
}

// A hook that panics in a caller who sends for others leaves nobody behind.
func TestAPanicLeavesNobodyBehind(t *testing.T) {
	t.Parallel()
	const callers = 40
	g, call := gated(t, callers)
	g.panics = true
	var ended, panicked atomic.Int64
	var calling sync.WaitGroup
	for n := 1; n <= callers; n++ {
		calling.Go(func() {
			defer ended.Add(1)
			defer func() {
				if recover() != nil {
					panicked.Add(1)
				}
			}()
			_, _ = call(t.Context(), n)
		})
	}
	for g.seen() == 0 {
		runtime.Gosched()
	}
	close(g.opened)
	calling.Wait()
	assert.EqualValues(t, callers, ended.Load())
	assert.Positive(t, panicked.Load())
}

func (g *gate) seen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.pipelines)
}
