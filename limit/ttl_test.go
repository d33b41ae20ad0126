package limit

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// ttlAfterEachScript is a hook that looks at all keys of a name after each script: there is no other moment to look at.
type ttlAfterEachScript struct {
	t    *testing.T
	rdb  redis.UniversalClient // another client
	name string

	mu   sync.Mutex
	seen map[string]bool // what kinds of keys there were
	over bool
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:]+Z`)

func (h *ttlAfterEachScript) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *ttlAfterEachScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.mu.Lock()
		defer h.mu.Unlock()
		if name := cmd.Name(); !h.over && redistest.IsCall(name) {
			checkKeys(h.t, h.rdb, h.name)
			for _, key := range keysOf(h.t, h.rdb, h.name) {
				h.seen[uuids.ReplaceAllString(strings.TrimPrefix(key, "{"+h.name+"}:"), "*")] = true
			}
		}
		return err
	}
}

func (h *ttlAfterEachScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// end ends the looks: calls in the background may go on.
func (h *ttlAfterEachScript) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
}

// After each script of each call of each limiter, each key has a TTL: also when the call is refused, given back, or repeated since its
// reply was lost.
func TestEachKeyHasATTLAfterEachScript(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, lost := server.Client(t), &loseReply{}
		name := newName(t, rdb)
		looks := &ttlAfterEachScript{t: t, rdb: server.Client(t), name: name, seen: map[string]bool{}}
		t.Cleanup(looks.end)
		rdb.AddHook(lost)
		rdb.AddHook(looks) // inside of lost: it sees what the server has done
		for _, losing := range []bool{false, true} {
			for what, calls := range callsOf(t, rdb, name) {
				for i, call := range calls {
					lost.next.Store(losing)
					call(t, fmt.Sprintf("%s, call %d, its reply lost: %t", what, i, losing))
				}
			}
			lost.next.Store(false)
			for _, key := range keysOf(t, looks.rdb, name) {
				require.NoError(t, looks.rdb.Del(soon(t), key).Err())
			}
		}
		looks.end()
		for _, kind := range []string{
			"fixed/meta", "sliding/meta", "bucket/meta", "day/*/meta", "semaphore/meta", "lock/meta",
			"semaphore/bell", "lock/bell",
		} {
			assert.Contains(t, looks.seen, kind)
		}
	})
}

// callsOf returns what each limiter can do, in an order that makes sense.
func callsOf(t *testing.T, rdb redis.UniversalClient, name string) map[string][]func(t *testing.T, what string) {
	t.Helper()
	type calls = []func(t *testing.T, what string)
	fixed, err := NewFixedWindow(rdb, name, 2, time.Hour)
	require.NoError(t, err)
	sliding, err := NewSlidingWindow(rdb, name, 2, time.Hour)
	require.NoError(t, err)
	bucket, err := NewTokenBucket(rdb, name, 1, time.Hour, 2)
	require.NoError(t, err)
	capped, err := NewDailyCap(rdb, name, 2, time.UTC)
	require.NoError(t, err)
	allow := func(allow func(context.Context, int64) (Decision, error), n int64, want bool) func(*testing.T, string) {
		return func(t *testing.T, what string) {
			d, err := allow(soon(t), n)
			assert.NoError(t, err, what)
			assert.Equal(t, want, d.Allowed, what)
		}
	}
	// cancelled waits until the key has changed, since the caller waits, and then cancels the wait: the turn is given back.
	cancelled := func(wait func(context.Context) error, key string) func(*testing.T, string) {
		return func(t *testing.T, what string) {
			before := rdb.HGetAll(soon(t), key).Val()
			ctx, cancel := context.WithCancel(t.Context()) // without a deadline, which would be too early
			ended := make(chan error)
			go func() { ended <- wait(ctx) }()
			require.Eventually(t, func() bool { return !assert.ObjectsAreEqual(before, rdb.HGetAll(soon(t), key).Val()) }, patience, time.Millisecond, what)
			cancel()
			assert.ErrorIs(t, <-ended, context.Canceled, what)
		}
	}
	add := func(member string, want Addition) func(*testing.T, string) {
		return func(t *testing.T, what string) {
			a, err := capped.Add(soon(t), member)
			assert.NoError(t, err, what)
			assert.Equal(t, want.New, a.New, what)
		}
	}
	all := map[string]calls{
		"fixed": {allow(fixed.AllowN, 1, true), allow(fixed.AllowN, 2, false), allow(fixed.AllowN, 1, true), allow(fixed.AllowN, 1, false)},
		"sliding": {
			allow(sliding.AllowN, 1, true), allow(sliding.AllowN, 2, false), allow(sliding.AllowN, 1, true),
			cancelled(sliding.Wait, sliding.state()), allow(sliding.AllowN, 1, false),
		},
		"bucket": {
			allow(bucket.AllowN, 1, true), allow(bucket.AllowN, 2, false), allow(bucket.AllowN, 1, true),
			cancelled(bucket.Wait, bucket.state()), allow(bucket.AllowN, 1, false),
		},
		"day": {
			add("a", Addition{New: true}), add("a", Addition{}), add("b", Addition{New: true}), add("c", Addition{}),
			func(t *testing.T, what string) { _, err := capped.Count(soon(t)); assert.NoError(t, err, what) },
		},
	}
	semaphore := newSemaphore(t, rdb, name, 1, time.Minute, WithoutRefresh())
	lock, err := NewLock(rdb, name, time.Minute, WithoutRefresh())
	require.NoError(t, err)
	for kind, h := range map[string]*holders{"semaphore": semaphore.holders, "lock": lock.holders} {
		all[kind] = holding(rdb, h)
	}
	return all
}

// holding returns what can be done with a share, of which there is one.
func holding(rdb redis.UniversalClient, h *holders) []func(t *testing.T, what string) {
	var held, next *permit
	waits := func(ctx context.Context) chan *permit {
		got := make(chan *permit)
		go func() { p, _ := h.wait(ctx); got <- p }()
		return got
	}
	return []func(t *testing.T, what string){
		func(t *testing.T, what string) { // an acquisition that has not arrived yet is released
			_, _, err := h.release(soon(t), true, uuid.NewString())
			assert.NoError(t, err, what)
		},
		func(t *testing.T, what string) {
			var err error
			held, err = h.try(soon(t))
			require.NoError(t, err, what)
		},
		func(t *testing.T, what string) { assert.NoError(t, held.Refresh(soon(t)), what) },
		func(t *testing.T, what string) {
			_, err := h.try(soon(t))
			assert.ErrorIs(t, err, ErrNotAcquired, what)
		},
		func(t *testing.T, what string) { // a wait that is given up
			ctx, cancel := context.WithCancel(soon(t))
			got := waits(ctx)
			blocked(t, rdb, h)
			cancel()
			assert.Nil(t, <-got, what)
		},
		func(t *testing.T, what string) { // a release wakes who waits
			got := waits(soon(t))
			blocked(t, rdb, h)
			assert.NoError(t, held.Release(soon(t)), what)
			next = <-got
			require.NotNil(t, next, what)
		},
		func(t *testing.T, what string) { assert.ErrorIs(t, held.Release(soon(t)), ErrLost, what) },
		func(t *testing.T, what string) { assert.ErrorIs(t, held.Refresh(soon(t)), ErrLost, what) },
		func(t *testing.T, what string) { assert.NoError(t, next.Release(soon(t)), what) },
	}
}
