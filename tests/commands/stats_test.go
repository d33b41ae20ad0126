package commands

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layoutsOfStats are the layouts of lists whose counters must be the same.
var layoutsOfStats = map[string][]shardedlist.Option{"in one slot": nil, "spread": {shardedlist.WithParts(4)}, "without dedup records": {shardedlist.WithoutExactlyOnce()}}

func TestStatsCountWhatTheMethodsDo(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for name, opts := range layoutsOfStats {
			t.Run(name, func(t *testing.T) {
				list := harness.NewList(t, rdb, opts...)
				assert.Equal(t, shardedlist.Operations{}, list.Stats().Operations)
				_, err := list.RPush(ctx, "a", "b", "c")
				require.NoError(t, err)
				_, err = list.LPush(ctx, "z")
				require.NoError(t, err)
				_, err = list.LPop(ctx)
				require.NoError(t, err)
				_, err = list.RPopCount(ctx, 2)
				require.NoError(t, err)
				_, err = list.BLPop(ctx, time.Second)
				require.NoError(t, err)
				_, err = list.RPushX(ctx, "nowhere")
				require.NoError(t, err)
				_, err = list.LPop(ctx)
				require.ErrorIs(t, err, redis.Nil)

				s := list.Stats()
				assert.EqualValues(t, 4, s.Pushed)
				assert.EqualValues(t, 4, s.Popped)
				assert.EqualValues(t, 1, s.Operations.BlockingPop)
				assert.EqualValues(t, 3, s.Operations.Pop)
				assert.EqualValues(t, 5, s.Batches.Calls, "those that share: not the push onto what exists, nor the blocking pop")
				assert.EqualValues(t, 5, s.Batches.Count)
				assert.Equal(t, shardedlist.BatchSize{Most: 1, Count: 5}, s.Batches.Sizes[0])
				assert.EqualValues(t, 1, s.Waits)
				assert.Zero(t, s.Waiting)
				assert.Positive(t, s.ServerTime)
				assert.Zero(t, [...]int64{s.Moved, s.PutBack, s.Repeats, s.OutcomesUnknown})

				for range 3 {
					_, err = list.LLen(ctx)
					require.NoError(t, err)
				}
				_, err = list.Del(ctx)
				require.NoError(t, err)
				now := list.Stats().Operations
				assert.GreaterOrEqual(t, now.Read-s.Operations.Read, int64(1))
				assert.Positive(t, now.Edit-s.Operations.Edit)
			})
		}
	})
}

func TestStatsCountMovesAtTheirSource(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, lists := t.Context(), newLists(t, server.Client(t), 2)
		_, err := lists[0].RPush(ctx, "a", "b", "c")
		require.NoError(t, err)
		_, err = lists[0].LMoveM(ctx, lists[1], "LEFT", "RIGHT", redis.LMoveMArgs{Count: 2})
		require.NoError(t, err)
		_, _, err = shardedlist.LMPop(ctx, "LEFT", 5, lists[0], lists[1])
		require.NoError(t, err)
		s := lists[0].Stats()
		assert.EqualValues(t, 2, s.Moved)
		assert.EqualValues(t, 1, s.Operations.Move)
		assert.EqualValues(t, 1, s.Popped, "the name of the list is no element")
		assert.Zero(t, lists[1].Stats().Operations)
	})
}

func TestStatsOfAHookAreSums(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, tag := t.Context(), server.Client(t), "{"+harness.UniqueName(t)+"}"
		hook := shardedlist.NewHook(rdb, shardedlist.Match(redisPattern(tag)+"*"))
		rdb.AddHook(hook)
		for _, key := range []string{"a", "b"} {
			require.NoError(t, rdb.RPush(ctx, tag+key, 1, 2).Err())
		}
		_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for range 5 {
				pipe.RPush(ctx, tag+"a", 3)
			}
			pipe.LLen(ctx, tag+"b")
			return nil
		})
		require.NoError(t, err)
		_, err = rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.LPop(ctx, tag+"a")
			pipe.LPopCount(ctx, tag+"a", 2)
			pipe.LSet(ctx, tag+"b", 0, "x")
			return nil
		})
		require.NoError(t, err)
		s := hook.Stats()
		assert.EqualValues(t, 9, s.Pushed)
		assert.EqualValues(t, 3, s.Popped)
		assert.EqualValues(t, 3, s.Operations.Push, "five in the pipeline are one operation")
		assert.EqualValues(t, 1, s.Operations.Pop, "as are two in the transaction")
		assert.EqualValues(t, 1, s.Operations.Edit)
		assert.EqualValues(t, 4, s.Batches.Count)
		assert.EqualValues(t, 9, s.Batches.Calls)
		i := slices.IndexFunc(s.Batches.Sizes, func(size shardedlist.BatchSize) bool { return size.Most >= 5 })
		assert.EqualValues(t, 3, s.Batches.Sizes[i-1].Count)
		assert.EqualValues(t, 4, s.Batches.Sizes[i].Count)
		require.NoError(t, rdb.Del(ctx, tag+"a", tag+"b").Err())
	})
}

// redisPattern escapes a key for Match.
func redisPattern(key string) string {
	var escaped []byte
	for _, c := range []byte(key) {
		escaped = append(escaped, '\\', c)
	}
	return string(escaped)
}

func TestStatsOfAHookKeepWhatForgottenListsDid(t *testing.T) {
	t.Parallel()
	ctx, rdb := t.Context(), redistest.Start(t, redistest.Redis).Client(t)
	hook := shardedlist.NewHook(rdb, shardedlist.Match("*"))
	rdb.AddHook(hook)
	require.NoError(t, rdb.RPush(ctx, "first", 1).Err())
	const others = 3 * 4096 // the hook keeps fewer lists
	_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range others {
			pipe.LLen(ctx, uniqueNumber(i))
		}
		return nil
	})
	require.NoError(t, err)
	assert.EqualValues(t, others, hook.Stats().Operations.Read)
	assert.EqualValues(t, 1, hook.Stats().Pushed)
	require.NoError(t, rdb.RPush(ctx, "first", 1).Err())
	assert.EqualValues(t, 2, hook.Stats().Pushed)
}

func uniqueNumber(i int) string { return "list:" + string(rune('a'+i%26)) + time.Duration(i).String() }

func TestRepeatsAreCountedAndOperationsOnce(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]shardedlist.Option{"in one slot": nil, "spread": {shardedlist.WithParts(4)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
			ctx, rdb := t.Context(), server.Client(t, harness.Through(proxy), harness.Patient)
			list := harness.NewList(t, rdb, opts...)
			_, err := list.RPush(ctx, "warm") // knows the pointers, and the server's capacity
			require.NoError(t, err)
			before := list.Stats()
			proxy.Set(redistest.Faults{CutReply: 0.3})
			const pushes = 100
			for range pushes {
				_, err := list.RPush(ctx, "x")
				require.NoError(t, err)
			}
			proxy.Set(redistest.Faults{})
			s := list.Stats()
			assert.EqualValues(t, pushes, s.Operations.Push-before.Operations.Push)
			assert.EqualValues(t, pushes, s.Pushed-before.Pushed)
			repeats := s.Repeats - before.Repeats
			assert.Positive(t, repeats)
			assert.LessOrEqual(t, repeats, proxy.Strikes(), "one for each lost reply, but for those to reads of the pointers")
			if opts == nil {
				assert.Equal(t, proxy.Strikes(), repeats)
			}
			assert.Zero(t, s.OutcomesUnknown)
		})
	}
}

func TestUnknownOutcomesAreCounted(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(ctx context.Context, list *shardedlist.ShardedList) error{
		"push": func(ctx context.Context, list *shardedlist.ShardedList) error {
			_, err := list.RPush(ctx, "x")
			return err
		},
		"set": func(ctx context.Context, list *shardedlist.ShardedList) error { return list.LSet(ctx, 0, "x") },
	} {
		for how, fault := range map[string]redistest.Faults{"cut": {CutReply: 1}, "no answer": {DropReply: 1}} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
				rdb := server.Client(t, harness.Through(proxy))
				list := harness.NewList(t, rdb)
				_, err := list.RPush(t.Context(), "a")
				require.NoError(t, err)
				sent := &listens{}
				rdb.AddHook(sent)
				proxy.Set(fault)
				ctx, cancel := context.WithCancel(t.Context())
				var giveUp sync.WaitGroup
				giveUp.Go(func() {
					defer cancel()
					struck := func() bool { return proxy.Strikes() > 1 || proxy.Strikes() == 1 && how == "no answer" }
					assert.Eventually(t, struck, harness.FaultPatience(), time.Millisecond)
				})
				err = call(ctx, list)
				giveUp.Wait()
				require.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
				proxy.Set(redistest.Faults{})
				s := list.Stats()
				assert.EqualValues(t, 1, s.OutcomesUnknown)
				assert.True(t, s.Repeats > 0 || how == "no answer")
				require.Eventually(t, func() bool { return sent.has("resolve") }, harness.FaultPatience(), time.Millisecond, "it is resolved, later")
				_, err = list.RPush(t.Context(), "b")
				require.NoError(t, err)
				assert.EqualValues(t, 1, list.Stats().OutcomesUnknown)
			})
		}
	}
}

func TestElementsThatArePutBackAreCounted(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]shardedlist.Option{"in one slot": nil, "spread": {shardedlist.WithParts(4)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
			rdb := server.Client(t, harness.Through(proxy))
			list := harness.NewList(t, rdb, opts...)
			_, err := list.RPush(t.Context(), "a", "b", "c", "d")
			require.NoError(t, err)
			_, err = list.LPopCount(t.Context(), 1) // so that the server has the script
			require.NoError(t, err)
			proxy.Set(redistest.Faults{CutReply: 1})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err = list.LPopCount(ctx, 2)
			require.Error(t, err)
			require.False(t, errors.Is(err, shardedlist.ErrOutcomeUnknown))
			proxy.Set(redistest.Faults{})
			require.Eventually(t, func() bool { return list.Stats().PutBack == 2 }, 10*time.Second, time.Millisecond)
			s := list.Stats()
			assert.EqualValues(t, 3, s.Popped)
			assert.EqualValues(t, 4, s.Pushed)
			assert.Zero(t, s.OutcomesUnknown, "the elements are in the list again")
			length, err := list.LLen(t.Context())
			require.NoError(t, err)
			assert.Equal(t, s.Pushed-s.Popped+s.PutBack, length)
		})
	}
}

func TestWaitersAreCountedWhileTheyWait(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, opts := range map[string][]shardedlist.Option{"in one slot": nil, "spread": {shardedlist.WithParts(4)}} {
			t.Run(name, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				list := harness.NewList(t, server.Client(t), opts...)
				_, err := list.RPush(ctx, "first")
				require.NoError(t, err)
				_, err = list.LPop(ctx)
				require.NoError(t, err)
				var results []<-chan harness.Popped
				for range 5 {
					results = append(results, harness.BlockingPop(t, list, ctx, 0))
				}
				waiting := func(number int64) {
					t.Helper()
					require.Eventually(t, func() bool { return list.Stats().Waiting == number }, 10*time.Second, time.Millisecond)
				}
				waiting(5)
				harness.Asleep(t, list)
				assert.Zero(t, list.Stats().WakeUps)
				_, err = list.RPush(ctx, "a", "b", "c")
				require.NoError(t, err)
				waiting(2)
				s := list.Stats()
				assert.EqualValues(t, 1, s.WakeUps, "one connection for all")
				assert.EqualValues(t, 3, s.Waits)
				cancel()
				waiting(0)
				assert.EqualValues(t, 5, list.Stats().Waits)
				assert.Positive(t, list.Stats().WaitTime)
				for _, result := range results {
					<-result
				}
				assert.EqualValues(t, 1, list.Stats().WakeUps, "a caller that gives up releases the connection, which is no wake-up")
			})
		}
	})
}

func TestACallOnSeveralListsIsCountedWhileItWaits(t *testing.T) {
	t.Parallel()
	ctx, lists := t.Context(), newLists(t, redistest.Shared(t, redistest.Redis).Client(t), 2)
	done := make(chan error, 1)
	go func() {
		_, _, err := shardedlist.BLMPop(ctx, time.Minute, "LEFT", 1, lists[0], lists[1])
		done <- err
	}()
	require.Eventually(t, func() bool { return lists[0].Stats().Waiting == 1 }, 10*time.Second, time.Millisecond)
	_, err := lists[1].RPush(ctx, "a")
	require.NoError(t, err)
	require.NoError(t, <-done)
	s := lists[0].Stats()
	assert.Zero(t, s.Waiting)
	assert.EqualValues(t, 1, s.Waits)
	assert.EqualValues(t, 1, s.Popped)
}

func TestBatchesAreCountedOnceForAllThatShareThem(t *testing.T) {
	t.Parallel()
	list := harness.NewList(t, redistest.Shared(t, redistest.Redis).Client(t))
	var running sync.WaitGroup
	for range 64 {
		running.Go(func() {
			for range 20 {
				_, err := list.RPush(t.Context(), "x")
				assert.NoError(t, err)
			}
		})
	}
	running.Wait()
	s := list.Stats()
	assert.EqualValues(t, 64*20, s.Batches.Calls)
	assert.EqualValues(t, 64*20, s.Pushed)
	assert.Equal(t, s.Operations.Push, s.Batches.Count)
	assert.Less(t, s.Batches.Count, s.Batches.Calls, "some shared")
	last := int64(0)
	for _, size := range s.Batches.Sizes {
		assert.GreaterOrEqual(t, size.Count, last, "the classes are cumulative")
		last = size.Count
	}
	assert.Equal(t, s.Batches.Count, last, "none is larger than the number of callers")
}

// told is what a hook has seen of a command.
// called is in place of the name of a command that calls a script or a function.
const called = "call"

type told struct{ name, fullName, list, operation string }

// listens is a hook that notes what it sees.
type listens struct {
	mu   sync.Mutex
	seen []told
}

func (l *listens) note(cmd redis.Cmder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, operation := shardedlist.CommandInfo(cmd)
	name := cmd.Name()
	if redistest.IsCall(name) {
		name = called
	}
	l.seen = append(l.seen, told{name, cmd.FullName(), list, operation})
}

// has tells whether the script of an operation was sent.
func (l *listens) has(operation string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.seen, func(cmd told) bool { return cmd.operation == operation })
}

func (l *listens) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *listens) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		l.note(cmd)
		return next(ctx, cmd)
	}
}

func (l *listens) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			l.note(cmd)
		}
		return next(ctx, cmds)
	}
}

func TestHooksLearnWhatCommandsAreFor(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, before := t.Context(), server.Client(t), &listens{}
		list := harness.NewList(t, rdb)
		_, err := list.RPush(ctx, "a")
		require.NoError(t, err)
		rdb.AddHook(before)
		_, err = list.RPush(ctx, "a")
		require.NoError(t, err)
		_, err = list.LIndex(ctx, 0)
		require.NoError(t, err)
		require.NoError(t, rdb.Ping(ctx).Err())
		for _, expected := range []told{
			{called, "shardedlist.push", list.Name(), "push"},
			{called, "shardedlist.lindex", list.Name(), "lindex"},
			{"ping", "ping", "", ""},
		} {
			assert.Contains(t, before.seen, expected)
		}

		tag, heard := harness.UniqueName(t), &listens{}
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(redisPattern(tag)+"*")))
		rdb.AddHook(heard) // sees what the library's hook sends
		require.NoError(t, rdb.Set(ctx, tag+"string", "x", time.Minute).Err())
		_, err = rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			pipe.LLen(ctx, tag+"list")
			pipe.LLen(ctx, tag+"list")
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, redis.Nil, rdb.LPos(ctx, tag+"list", "x", redis.LPosArgs{}).Err())
		for _, expected := range []told{
			{called, "set", "", ""},                // a command of another type keeps its name
			{"llen", "llen", tag + "list", "llen"}, // a short list is its key
			{called, "shardedlist.lpos", tag + "list", "lpos"},
		} {
			assert.Contains(t, heard.seen, expected)
		}
	})
}

func TestElementsAreCountedOnceThoughShardsSendCallersOn(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for name, opts := range map[string][]shardedlist.Option{"in one slot": nil, "spread": {shardedlist.WithParts(4)}} {
			t.Run(name, func(t *testing.T) {
				list := harness.NewList(t, rdb, append(opts, shardedlist.WithCapacity(3))...)
				for i := range 40 {
					_, err := list.RPush(ctx, i)
					require.NoError(t, err)
				}
				for range 5 {
					_, err := list.LPopCount(ctx, 7)
					require.NoError(t, err)
				}
				s := list.Stats()
				assert.EqualValues(t, 40, s.Pushed)
				assert.EqualValues(t, 35, s.Popped)
				if opts != nil {
					assert.Greater(t, s.Operations.Push, int64(40), "some were sent on")
				}
			})
		}
	})
}
