package shardedlist_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
)

// This is the contract, from the simple to the special. Each test runs on a server and on a cluster, or on the embedded server
// where none is installed. The folder tests has what proves each promise in full.

func TestMain(m *testing.M) { harness.Main(m) }

// each runs a test on each server, with a client and a name that no other test uses.
func each(t *testing.T, test func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string)) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		test(t, t.Context(), server.Client(t), harness.UniqueName(t))
	})
}

// open returns a list of two elements a shard, whose invariants are checked when the test ends.
func open(t *testing.T, rdb redis.UniversalClient, name string, opts ...shardedlist.Option) *shardedlist.ShardedList {
	return harness.OpenList(t, rdb, name, append([]shardedlist.Option{shardedlist.WithCapacity(2)}, opts...)...)
}

func TestAListKeepsTheOrderOfRedis(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name)
		length, err := list.RPush(ctx, "c", "d", "e")
		require.NoError(t, err)
		assert.EqualValues(t, 3, length)
		length, err = list.LPush(ctx, "b", "a") // one after the other, as LPUSH does
		require.NoError(t, err)
		assert.EqualValues(t, 5, length)

		all, err := list.LRange(ctx, 0, -1)
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b", "c", "d", "e"}, all)
		value, err := list.LPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, "a", value)
		values, err := list.RPopCount(ctx, 2)
		require.NoError(t, err)
		assert.Equal(t, []string{"e", "d"}, values)
		value, err = list.LIndex(ctx, -1)
		require.NoError(t, err)
		assert.Equal(t, "c", value)
		length, err = list.LLen(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 2, length)
	})
}

func TestAnEmptyListIsNoList(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name)
		for range 2 { // before the first push, and when all is popped
			_, err := list.LPop(ctx)
			assert.Equal(t, redis.Nil, err)
			_, err = list.BRPop(ctx, time.Millisecond)
			assert.Equal(t, redis.Nil, err)
			length, err := list.RPushX(ctx, "x")
			require.NoError(t, err)
			assert.Zero(t, length)
			kind, err := list.Type(ctx)
			require.NoError(t, err)
			assert.Equal(t, "none", kind)

			_, err = list.RPush(ctx, 1, 2, 3)
			require.NoError(t, err)
			_, err = list.LPopCount(ctx, 9)
			require.NoError(t, err)
		}
	})
}

// Random operations, on the list and on a plain list of the same server, return the same, value for value.
func TestAListDoesAsAPlainList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		clients := []redis.UniversalClient{server.Client(t), server.Client(t)}
		for seed := range redistest.Times(2, 10) {
			tape := []byte{}
			for i := range 200 {
				tape = append(tape, byte(i*i+seed*7), byte(i*31>>1+seed), byte(i*17), byte(i*101>>2))
			}
			harness.RunModel(t, clients, 1+seed%5, tape)
		}
	})
}

func TestEditsAreThoseOfRedis(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name)
		_, err := list.RPush(ctx, "a", "b", "a", "c", "a")
		require.NoError(t, err)
		require.NoError(t, list.LSet(ctx, 1, "B"))
		length, err := list.LInsertBefore(ctx, "c", "x")
		require.NoError(t, err)
		assert.EqualValues(t, 6, length)
		removed, err := list.LRem(ctx, -2, "a") // from the right
		require.NoError(t, err)
		assert.EqualValues(t, 2, removed)
		require.NoError(t, list.LTrim(ctx, 0, 2))
		assert.Equal(t, []string{"a", "B", "x"}, harness.Content(t, list))
		position, err := list.LPos(ctx, "x", redis.LPosArgs{})
		require.NoError(t, err)
		assert.EqualValues(t, 2, position)
		assert.ErrorContains(t, list.LSet(ctx, 3, "z"), "index out of range")
	})
}

// A blocked consumer gets what is pushed, in the order in which consumers came.
func TestABlockedPopIsWoken(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name)
		first := harness.BlockingPop(t, list, ctx, 0)
		second := harness.BlockingPop(t, list, ctx, time.Minute)
		_, err := list.RPush(ctx, "a", "b")
		require.NoError(t, err)
		assert.Equal(t, harness.Got("a"), <-first)
		assert.Equal(t, harness.Got("b"), <-second)
	})
}

// A cancelled consumer returns at once, and takes nothing with it.
func TestACancelledBlockingPopReturns(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name)
		waiting, cancel := context.WithCancel(ctx)
		result := harness.BlockingPop(t, list, waiting, 0)
		cancel()
		assert.ErrorIs(t, (<-result).Err, context.Canceled)
		_, err := list.RPush(ctx, "stays")
		require.NoError(t, err)
		value, err := list.LPop(ctx)
		require.NoError(t, err)
		assert.Equal(t, "stays", value)
	})
}

func TestElementsMoveBetweenLists(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		from, to := open(t, rdb, "{"+name+"}from"), open(t, rdb, "{"+name+"}to") // the hash tag puts both in one slot
		_, err := from.RPush(ctx, "a", "b", "c")
		require.NoError(t, err)
		value, err := from.LMove(ctx, to, "LEFT", "RIGHT")
		require.NoError(t, err)
		assert.Equal(t, "a", value)
		value, err = from.BRPopLPush(ctx, to, time.Second)
		require.NoError(t, err)
		assert.Equal(t, "c", value)
		assert.Equal(t, []string{"c", "a"}, harness.Content(t, to))

		list, values, err := shardedlist.LMPop(ctx, "LEFT", 9, from, to)
		require.NoError(t, err)
		assert.Equal(t, from, list)
		assert.Equal(t, []string{"b"}, values)
		require.NoError(t, to.Rename(ctx, from.Name()))
		assert.Equal(t, []string{"c", "a"}, harness.Content(t, from))
	})
}

func TestAListExpires(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name)
		_, err := list.RPush(ctx, "a", "b", "c")
		require.NoError(t, err)
		set, err := list.Expire(ctx, time.Hour)
		require.NoError(t, err)
		assert.True(t, set)
		life, err := list.TTL(ctx)
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, life, float64(time.Minute))
		set, err = list.ExpireAt(ctx, time.Now().Add(-time.Second))
		require.NoError(t, err)
		assert.True(t, set)
		_, err = list.LPop(ctx)
		assert.Equal(t, redis.Nil, err, "a time that has passed deletes the list")
	})
}

// Replies are cut. The client asks again, the server answers with the result that it has stored, and every element comes out once.
// TestExactlyOnceOverABrokenNetwork has all faults, ends and servers.
func TestALostReplyDoublesNothingAndLosesNothing(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
	intact := open(t, server.Client(t), harness.UniqueName(t))
	list := open(t, server.Client(t, harness.Through(proxy)), intact.Name())
	proxy.Set(redistest.Faults{CutReply: 0.1})
	var popped []string
	for i := range 300 {
		_, err := list.RPush(t.Context(), i)
		require.NoError(t, err)
		if i%3 == 2 {
			values, err := list.LPopCount(t.Context(), 3)
			require.NoError(t, err)
			popped = append(popped, values...)
		}
	}
	assert.Equal(t, harness.Words(harness.Numbers(0, 300)), popped)
	assert.Greater(t, proxy.Strikes(), int64(10))
}

// Many goroutines share the list: each element goes to one of them.
func TestAListIsSafeForConcurrentUse(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name)
		var group sync.WaitGroup
		var mu sync.Mutex
		var popped []string
		for worker := range 10 {
			group.Go(func() {
				for i := range 20 {
					_, err := list.RPush(ctx, worker*20+i)
					assert.NoError(t, err)
				}
			})
			group.Go(func() {
				for range 20 {
					value, err := list.BLPop(ctx, 0)
					assert.NoError(t, err)
					mu.Lock()
					popped = append(popped, value)
					mu.Unlock()
				}
			})
		}
		group.Wait()
		assert.ElementsMatch(t, harness.Words(harness.Numbers(0, 200)), popped)
	})
}

// The commands of a client with the hook go to sharded lists: alone, in a pipeline and in a transaction, beside other commands.
func TestTheHook(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*:jobs"), shardedlist.WithCapacity(2)))
		jobs, done := "{"+name+"}:jobs", "{"+name+"}:done"
		require.NoError(t, rdb.RPush(ctx, jobs, "a", "b", "c").Err())
		assert.Equal(t, []string{jobs, "a"}, rdb.BLPop(ctx, time.Second, jobs).Val())

		var length *redis.IntCmd
		var value *redis.StringCmd
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, done)
			length, value = p.LPush(ctx, jobs, "z"), p.RPop(ctx, jobs)
			return nil
		})
		require.NoError(t, err)
		assert.EqualValues(t, 3, length.Val())
		assert.Equal(t, "c", value.Val())

		_, err = rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
			value = p.LPop(ctx, jobs)
			p.Incr(ctx, done)
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, "z", value.Val())
		assert.Equal(t, "2", rdb.Get(ctx, done).Val())
		assert.Equal(t, []string{"b"}, harness.Content(t, open(t, rdb, jobs)))
	})
}

// A plain list of the same name becomes the sharded one, with all its elements, and goes back.
func TestAPlainListIsTakenOverAndGivenBack(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		require.NoError(t, rdb.RPush(ctx, name, 1, 2, 3, 4, 5).Err())
		list := open(t, rdb, name)
		require.NoError(t, list.Adopt(ctx, nil))
		assert.Equal(t, []string{"1", "2", "3", "4", "5"}, harness.Content(t, list))
		require.NoError(t, list.Restore(ctx, nil))
		assert.Equal(t, []string{"1", "2", "3", "4", "5"}, rdb.LRange(ctx, name, 0, -1).Val())
		require.NoError(t, list.Adopt(ctx, nil))
	})
}

// A list over several slots keeps each producer's order.
func TestAListOverAWholeCluster(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list := open(t, rdb, name, shardedlist.WithParts(4))
		_, err := list.RPush(ctx, harness.Numbers(0, 100)...)
		require.NoError(t, err)
		values, err := list.LPopCount(ctx, 100)
		require.NoError(t, err)
		assert.Equal(t, harness.Words(harness.Numbers(0, 100)), values)
		_, err = list.LRem(ctx, 0, "x")
		assert.ErrorIs(t, err, shardedlist.ErrSpread)
	})
}

// Bad input has a clear error, and changes nothing.
func TestBadInputChangesNothing(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		_, err := shardedlist.New(nil, "jobs")
		assert.ErrorIs(t, err, shardedlist.ErrNilClient)
		_, err = shardedlist.New(rdb, "")
		assert.ErrorIs(t, err, shardedlist.ErrEmptyName)
		_, err = shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(0))
		assert.ErrorIs(t, err, shardedlist.ErrCapacity)

		ended, cancel := context.WithCancel(ctx)
		cancel()
		list := open(t, rdb, name)
		_, err = list.RPush(ctx, "kept")
		require.NoError(t, err)
		for what, call := range map[string]func() error{
			"no value":                 func() error { _, err := list.RPush(ctx); return err },
			"a value":                  func() error { _, err := list.RPush(ctx, "x", struct{}{}); return err },
			"a negative count":         func() error { _, err := list.LPopCount(ctx, -1); return err },
			"a side":                   func() error { _, err := list.LMove(ctx, list, "UP", "LEFT"); return err },
			"a context that has ended": func() error { _, err := list.LPop(ended); return err },
		} {
			assert.Error(t, call(), what)
		}
		assert.Equal(t, []string{"kept"}, harness.Content(t, list))
	})
}

func TestAKeyOfAnotherTypeIsAnError(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		list, err := shardedlist.New(rdb, name)
		require.NoError(t, err)
		require.NoError(t, rdb.Set(ctx, "{"+name+"}:meta", "not a list", time.Minute).Err())
		_, err = list.RPush(ctx, "x")
		assert.ErrorIs(t, err, shardedlist.ErrWrongType)
		assert.ErrorContains(t, err, "WRONGTYPE")
		assert.Equal(t, "not a list", rdb.Get(ctx, "{"+name+"}:meta").Val())
	})
}

// Scan finds every list of the server once.
func TestScanFindsLists(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, rdb redis.UniversalClient, name string) {
		var want []string
		for i := range 5 {
			want = append(want, fmt.Sprint(name, "-", i))
			_, err := open(t, rdb, want[i]).RPush(ctx, "x")
			require.NoError(t, err)
		}
		found := harness.Collect(t, shardedlist.Scan(ctx, rdb, name+"-*"))
		slices.Sort(found)
		assert.Equal(t, want, found)
	})
}
