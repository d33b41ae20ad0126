package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// newLists returns empty lists that share a cluster slot, each of another capacity if several are given.
func newLists(t testing.TB, rdb redis.UniversalClient, number int, capacities ...int) []*shardedlist.ShardedList {
	t.Helper()
	tag := harness.UniqueName(t)
	lists := make([]*shardedlist.ShardedList, number)
	for i := range lists {
		capacity := 2
		if len(capacities) > 0 {
			capacity = capacities[i%len(capacities)]
		}
		lists[i] = harness.OpenList(t, rdb, fmt.Sprintf("{%s}:%d", tag, i), shardedlist.WithCapacity(capacity))
	}
	return lists
}

// twins are sharded lists and plain lists that hold the same.
type twins struct {
	t     *testing.T
	rdb   redis.UniversalClient
	lists []*shardedlist.ShardedList
	plain []string
	seen  *int // how often check was called
}

func newTwins(t *testing.T, rdb redis.UniversalClient, lists []*shardedlist.ShardedList) twins {
	w := twins{t, rdb, lists, nil, new(int)}
	for _, list := range lists {
		key := list.Name() + ":plain"
		w.plain = append(w.plain, key)
		t.Cleanup(func() { rdb.Del(context.Background(), key) })
	}
	return w
}

func (w twins) push(i int, values ...any) {
	_, err := w.lists[i].RPush(w.t.Context(), values...)
	require.NoError(w.t, err)
	require.NoError(w.t, w.rdb.RPush(w.t.Context(), w.plain[i], values...).Err())
}

// check compares the lists. Now and then it runs Check, too, which looks at all keys of the server.
func (w twins) check() {
	w.t.Helper()
	*w.seen++
	for i, list := range w.lists {
		require.Equal(w.t, w.rdb.LRange(w.t.Context(), w.plain[i], 0, -1).Val(), harness.Content(w.t, list))
		length, err := list.LLen(w.t.Context())
		require.NoError(w.t, err)
		require.Equal(w.t, w.rdb.LLen(w.t.Context(), w.plain[i]).Val(), length)
		if *w.seen%10 == 0 {
			require.NoError(w.t, list.Check(w.t.Context()))
		}
	}
}

var positions = []string{"LEFT", "RIGHT", "left", "Right"}

// Moves and pops of several lists give what the plain commands give, whatever the lists hold and their capacities are.
func TestMovesAndPopsAreThoseOfPlainLists(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, capacities := range [][]int{{1}, {2}, {3}, {512}, {1, 3}, {512, 2}} {
			random := rand.New(rand.NewPCG(uint64(capacities[0]), uint64(len(capacities))))
			w := newTwins(t, rdb, newLists(t, rdb, 3, capacities...))
			for step := range 80 {
				i, j := random.IntN(3), random.IntN(3)
				source, destination := w.lists[i], w.lists[j]
				from, to := positions[random.IntN(4)], positions[random.IntN(4)]
				count := random.IntN(6) + 1
				switch random.IntN(8) {
				case 0, 1:
					w.push(i, harness.Numbers(step*10, step*10+count)...)
				case 2, 3:
					value, err := source.LMove(t.Context(), destination, from, to)
					want := rdb.LMove(t.Context(), w.plain[i], w.plain[j], from, to)
					require.Equal(t, want.Err(), err)
					require.Equal(t, want.Val(), value)
				case 4:
					value, err := source.RPopLPush(t.Context(), destination)
					want := rdb.RPopLPush(t.Context(), w.plain[i], w.plain[j])
					require.Equal(t, want.Err(), err)
					require.Equal(t, want.Val(), value)
				case 5:
					value, err := source.BLMove(t.Context(), destination, from, to, time.Microsecond)
					want := rdb.LMove(t.Context(), w.plain[i], w.plain[j], from, to)
					require.Equal(t, want.Err(), err)
					require.Equal(t, want.Val(), value)
				case 6:
					w.moveMany(i, j, from, to, redis.LMoveMArgs{
						Count: int64(count),
						Mode:  []redis.LMoveMMode{"", redis.LMoveMCount, redis.LMoveMExactly, "exactly"}[random.IntN(4)],
						Order: []redis.LMoveMOrder{"", redis.LMoveMBulk, redis.LMoveMOBO, "obo"}[random.IntN(4)],
					}, random.IntN(2) == 0)
				case 7:
					w.popAny(random.Perm(3), from, count, random.IntN(2) == 0)
				}
				w.check()
			}
		}
	})
}

// moveMany does LMOVEM as its documentation says, with the commands that all servers have.
func (w twins) moveMany(i, j int, from, to string, args redis.LMoveMArgs, blocking bool) {
	t, ctx := w.t, w.t.Context()
	var got []string
	var err error
	if blocking {
		got, err = w.lists[i].BLMoveM(ctx, w.lists[j], from, to, time.Microsecond, args)
	} else {
		got, err = w.lists[i].LMoveM(ctx, w.lists[j], from, to, args)
	}
	count := int(args.Count)
	if length := int(w.rdb.LLen(ctx, w.plain[i]).Val()); length < count {
		count = length
		if strings.EqualFold(string(args.Mode), "exactly") {
			count = 0
		}
	}
	if count == 0 {
		require.Equal(t, redis.Nil, err)
		return
	}
	require.NoError(t, err)
	var want []string // in the order of the destination
	if strings.EqualFold(from, "LEFT") {
		want = w.rdb.LPopCount(ctx, w.plain[i], count).Val()
	} else {
		want = w.rdb.RPopCount(ctx, w.plain[i], count).Val()
		slices.Reverse(want)
	}
	if strings.EqualFold(string(args.Order), "obo") && strings.EqualFold(from, to) {
		slices.Reverse(want)
	}
	require.Equal(t, want, got)
	values := make([]any, count)
	for k, value := range want {
		values[k] = value
	}
	if strings.EqualFold(to, "LEFT") {
		slices.Reverse(values)
		w.rdb.LPush(ctx, w.plain[j], values...)
	} else {
		w.rdb.RPush(ctx, w.plain[j], values...)
	}
}

func (w twins) popAny(order []int, direction string, count int, blocking bool) {
	t := w.t
	var lists []*shardedlist.ShardedList
	var keys []string
	for _, i := range order {
		lists, keys = append(lists, w.lists[i]), append(keys, w.plain[i])
	}
	var from *shardedlist.ShardedList
	var values []string
	var err error
	if blocking {
		from, values, err = shardedlist.BLMPop(t.Context(), time.Microsecond, direction, int64(count), lists...)
	} else {
		from, values, err = shardedlist.LMPop(t.Context(), direction, int64(count), lists...)
	}
	var wantErr error = redis.Nil // Redis 6.2 has no LMPOP; this is what it does
	var want []string
	for i, key := range keys {
		if w.rdb.LLen(t.Context(), key).Val() == 0 {
			continue
		}
		if strings.EqualFold(direction, "LEFT") {
			want, wantErr = w.rdb.LPopCount(t.Context(), key, count).Result()
		} else {
			want, wantErr = w.rdb.RPopCount(t.Context(), key, count).Result()
		}
		require.Same(t, lists[i], from)
		break
	}
	require.Equal(t, wantErr, err)
	require.Equal(t, want, values)
}

func TestLMPopIsThatOfPlainLists(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		w := newTwins(t, rdb, newLists(t, rdb, 3, 1, 2, 3))
		for step := range 60 {
			w.push(step%3, harness.Numbers(step*10, step*10+step%5+1)...)
			for range step % 4 {
				direction, count := positions[step%4], int64(step%7+1)
				from, values, err := shardedlist.LMPop(t.Context(), direction, count, w.lists...)
				key, want, wantErr := rdb.LMPop(t.Context(), direction, count, w.plain...).Result()
				require.Equal(t, wantErr, err)
				require.Equal(t, want, values)
				if err == nil {
					require.Equal(t, key, from.Name()+":plain")
				}
			}
			w.check()
		}
	})
}

// await runs a blocking call and returns where its result will be, once it is blocked: a push would wake it.
func await(t testing.TB, waits *shardedlist.ShardedList, call func() (string, error)) <-chan harness.Popped {
	t.Helper()
	result := make(chan harness.Popped, 1)
	go func() {
		value, err := call()
		result <- harness.Popped{Value: value, Err: err}
	}()
	require.Eventually(t, func() bool {
		return harness.Pointer(waits, t.Context(), harness.Digit) == "1"
	}, 10*time.Second, time.Millisecond)
	return result
}

func TestABlockedMoveTakesWhatIsPushed(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		lists := newLists(t, server.Client(t), 2, 1)
		source, destination := lists[0], lists[1]
		for i, call := range []func() (string, error){
			func() (string, error) { return source.BLMove(t.Context(), destination, "LEFT", "RIGHT", 0) },
			func() (string, error) { return source.BRPopLPush(t.Context(), destination, time.Minute) },
			func() (string, error) {
				return firstOf(source.BLMoveM(t.Context(), destination, "LEFT", "RIGHT", 0, redis.LMoveMArgs{}))
			},
			func() (string, error) { return source.BLMove(t.Context(), source, "LEFT", "RIGHT", 0) },
			func() (string, error) {
				_, value, err := shardedlist.BLPop(t.Context(), 0, destination, source)
				return value, err
			},
		} {
			for _, list := range lists {
				_, err := list.Del(t.Context())
				require.NoError(t, err)
			}
			result := await(t, source, call)
			_, err := source.RPush(t.Context(), i)
			require.NoError(t, err)
			assert.Equal(t, harness.Got(fmt.Sprint(i)), <-result)
			if i < 3 {
				assert.Equal(t, []string{fmt.Sprint(i)}, harness.Content(t, destination))
				assert.Empty(t, harness.Content(t, source))
			}
		}
	})
}

// What one move brings wakes the next, and a pop at the end.
func TestAChainOfBlockedMoves(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const length = 4
		lists := newLists(t, server.Client(t), length+1)
		var results []<-chan harness.Popped
		for i := range length {
			results = append(results, await(t, lists[i], func() (string, error) {
				return lists[i].BLMove(t.Context(), lists[i+1], "LEFT", "RIGHT", 0)
			}))
		}
		last := harness.BlockingPop(t, lists[length], t.Context(), 0)
		harness.Blocked(t, lists[length])
		_, err := lists[0].RPush(t.Context(), "x")
		require.NoError(t, err)
		assert.Equal(t, harness.Got("x"), <-last)
		for _, result := range results {
			assert.Equal(t, harness.Got("x"), <-result)
		}
	})
}

func TestAMoveOfExactlyManyWaitsForThem(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		lists := newLists(t, server.Client(t), 2)
		args := redis.LMoveMArgs{Mode: redis.LMoveMExactly, Count: 3}
		_, err := lists[0].BLMoveM(t.Context(), lists[1], "LEFT", "LEFT", time.Millisecond, args)
		require.Equal(t, redis.Nil, err)
		var values []string
		result := await(t, lists[0], func() (string, error) {
			var err error
			values, err = lists[0].BLMoveM(t.Context(), lists[1], "LEFT", "LEFT", 0, args)
			return "", err
		})
		for i := range 4 {
			_, err := lists[0].RPush(t.Context(), i)
			require.NoError(t, err)
			_, err = lists[0].BLMoveM(t.Context(), lists[1], "LEFT", "LEFT", time.Millisecond, redis.LMoveMArgs{
				Mode: redis.LMoveMExactly, Count: 5})
			require.Equal(t, redis.Nil, err)
		}
		require.NoError(t, (<-result).Err)
		assert.Len(t, values, 3)
		assert.Equal(t, values, harness.Content(t, lists[1]))
		assert.Len(t, harness.Content(t, lists[0]), 1)
	})
}

func TestBlockedMovesAndPopsOfSeveralListsTimeOut(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		lists := newLists(t, server.Client(t), 3)
		calls := map[string]func(time.Duration) error{
			"blmove": func(timeout time.Duration) error {
				_, err := lists[0].BLMove(t.Context(), lists[1], "LEFT", "LEFT", timeout)
				return err
			},
			"brpoplpush": func(timeout time.Duration) error {
				_, err := lists[0].BRPopLPush(t.Context(), lists[0], timeout)
				return err
			},
			"blmpop": func(timeout time.Duration) error {
				from, _, err := shardedlist.BLMPop(t.Context(), timeout, "LEFT", 3, lists...)
				assert.Nil(t, from)
				return err
			},
			"brpop": func(timeout time.Duration) error {
				_, _, err := shardedlist.BRPop(t.Context(), timeout, lists...)
				return err
			},
			"blpop of one list": func(timeout time.Duration) error {
				_, _, err := shardedlist.BLPop(t.Context(), timeout, lists[0])
				return err
			},
		}
		for name, call := range calls {
			timeouts := []time.Duration{time.Nanosecond, time.Millisecond, 50 * time.Millisecond}
			if name == "blmove" {
				timeouts = append(timeouts, 1800*time.Millisecond) // longer than a slice
			}
			for _, timeout := range timeouts {
				start := time.Now()
				assert.Equal(t, redis.Nil, call(timeout), name)
				assert.GreaterOrEqual(t, time.Since(start), timeout, name)
			}
			assert.ErrorIs(t, call(-1), shardedlist.ErrNegativeTimeout, name)
		}
		for _, list := range lists {
			harness.AssertAllExpire(t, list)
		}
	})
}

func TestBadArgumentsOfMovesAndPopsSendNothing(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1}) // nothing listens there
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}, HeartbeatFn: func(context.Context, *redis.Client) bool { return true }})
	defer func() { _, _, _ = rdb.Close(), cluster.Close(), ring.Close() }()
	open := func(rdb redis.UniversalClient, name string) *shardedlist.ShardedList {
		list, err := shardedlist.New(rdb, name, shardedlist.WithCapacity(2))
		require.NoError(t, err)
		return list
	}
	a, b, ctx := open(rdb, "a"), open(rdb, "b"), t.Context()
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	ignore := func(_ any, err error) { add(err) }
	both := func(_, _ any, err error) { add(err) }

	ignore(a.LMove(ctx, b, "", "LEFT"))
	ignore(a.LMove(ctx, b, "LEFT", "UP"))
	ignore(a.BLMove(ctx, b, "LEFT", "UP", 0))
	ignore(a.LMoveM(ctx, b, "LEFT", "LEFT", redis.LMoveMArgs{Mode: "MOST", Count: 1}))
	ignore(a.BLMoveM(ctx, b, "LEFT", "LEFT", 0, redis.LMoveMArgs{Order: "RANDOM", Count: 1}))
	both(shardedlist.LMPop(ctx, "UP", 1, a, b))
	for _, err := range errs {
		assert.ErrorContains(t, err, "ERR syntax error")
	}
	errs = nil
	both(shardedlist.LMPop(ctx, "LEFT", 0, a, b))
	both(shardedlist.BLMPop(ctx, 0, "LEFT", -1, a, b))
	for _, err := range errs {
		assert.ErrorContains(t, err, "ERR count should be greater than 0")
	}
	errs = nil
	both(shardedlist.LMPop(ctx, "LEFT", 1))
	both(shardedlist.BLMPop(ctx, 0, "LEFT", 1))
	for _, err := range errs {
		assert.ErrorContains(t, err, "ERR numkeys should be greater than 0")
	}
	errs = nil
	both(shardedlist.BLPop(ctx, 0))
	assert.ErrorContains(t, errs[0], "ERR wrong number of arguments for 'blpop' command")

	errs = nil
	other := open(cluster, "a")
	ignore(a.LMove(ctx, other, "LEFT", "LEFT"))
	ignore(a.BLMove(ctx, other, "LEFT", "LEFT", 0))
	both(shardedlist.LMPop(ctx, "LEFT", 1, a, b, other))
	both(shardedlist.BRPop(ctx, 0, a, other))
	for _, err := range errs {
		assert.ErrorIs(t, err, shardedlist.ErrOtherClient)
	}
	for _, rdb := range []redis.UniversalClient{cluster, ring} {
		a, b := open(rdb, "a"), open(rdb, "b")
		errs = nil
		ignore(a.LMove(ctx, b, "LEFT", "LEFT"))
		ignore(a.BLMove(ctx, b, "LEFT", "LEFT", 0))
		both(shardedlist.LMPop(ctx, "LEFT", 1, a, a, b))
		both(shardedlist.BLPop(ctx, 0, a, b))
		for _, err := range errs {
			assert.ErrorContains(t, err, "CROSSSLOT Keys in request don't hash to the same slot")
			assert.True(t, redis.HasErrorPrefix(err, "CROSSSLOT"))
		}
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	errs = nil
	ignore(a.LMove(cancelled, b, "LEFT", "LEFT"))
	ignore(a.BLMove(cancelled, b, "LEFT", "LEFT", 0))
	both(shardedlist.BLMPop(cancelled, 0, "LEFT", 1, a, b))
	for _, err := range errs {
		assert.ErrorIs(t, err, context.Canceled)
	}
}

// A source or a destination of another type is the error that it is in Redis, at the same moment, and changes nothing.
func TestMovesOfWrongTypesAreAsInRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		foreign := func(list *shardedlist.ShardedList, plain string) {
			require.NoError(t, rdb.Set(t.Context(), harness.Keys(list).Meta, "x", 0).Err())
			require.NoError(t, rdb.Set(t.Context(), plain, "x", 0).Err())
		}
		for _, setup := range []string{"wrong source", "wrong destination", "wrong destination, empty source", "all wrong"} {
			t.Run(setup, func(t *testing.T) {
				tag := harness.UniqueName(t)
				var lists []*shardedlist.ShardedList
				var plain []string
				for i := range 2 {
					list, err := shardedlist.New(rdb, fmt.Sprintf("{%s}:%d", tag, i), shardedlist.WithCapacity(2))
					require.NoError(t, err)
					lists, plain = append(lists, list), append(plain, list.Name()+":plain")
				}
				if setup == "wrong source" || setup == "all wrong" {
					foreign(lists[0], plain[0])
				}
				if setup != "wrong source" {
					foreign(lists[1], plain[1])
				}
				if setup == "wrong destination" {
					_, err := lists[0].RPush(t.Context(), "a", "b", "c")
					require.NoError(t, err)
					require.NoError(t, rdb.RPush(t.Context(), plain[0], "a", "b", "c").Err())
				}
				before := []map[string]string{harness.Snapshot(t, lists[0]), harness.Snapshot(t, lists[1])}
				_, err := lists[0].LMove(t.Context(), lists[1], "LEFT", "LEFT")
				want := rdb.LMove(t.Context(), plain[0], plain[1], "LEFT", "LEFT").Err()
				if server.Kind() == redistest.Embedded && want == nil {
					want = redis.Nil // it does not look
				}
				if want == redis.Nil {
					assert.Equal(t, want, err)
				} else {
					assert.ErrorIs(t, err, shardedlist.ErrWrongType)
				}
				if setup != "wrong destination, empty source" {
					_, err = lists[0].BLMove(t.Context(), lists[1], "LEFT", "LEFT", 0)
					assert.ErrorIs(t, err, shardedlist.ErrWrongType)
				}
				assert.Equal(t, before, []map[string]string{harness.Snapshot(t, lists[0]), harness.Snapshot(t, lists[1])})

				_, values, err := shardedlist.LMPop(t.Context(), "LEFT", 1, lists...)
				if setup == "wrong destination" {
					assert.NoError(t, err)
					assert.Equal(t, []string{"a"}, values)
				} else {
					assert.ErrorIs(t, err, shardedlist.ErrWrongType)
				}
			})
		}
	})
}

// Whichever key of the destination holds something else, a move that meets it fails, and both lists are as before.
func TestAWrongTypeAtTheDestinationChangesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for what, key := range map[string]func(list *shardedlist.ShardedList) string{
			"meta":  func(list *shardedlist.ShardedList) string { return harness.Keys(list).Meta },
			"bell":  func(list *shardedlist.ShardedList) string { return harness.Keys(list).Bell },
			"plain": (*shardedlist.ShardedList).Name,
			"first": func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), 0) },
			"last":  func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), 1) },
		} {
			for _, count := range []int64{1, 5} {
				tag := harness.UniqueName(t)
				source := harness.OpenList(t, rdb, "{"+tag+"}:source", shardedlist.WithCapacity(2))
				destination, err := shardedlist.New(rdb, "{"+tag+"}:destination", shardedlist.WithCapacity(2))
				require.NoError(t, err)
				_, err = source.RPush(t.Context(), harness.Numbers(0, 6)...)
				require.NoError(t, err)
				switch what {
				case "bell":
					harness.Arm(t, destination)
				case "first", "last":
					_, err = destination.RPush(t.Context(), "x", "y", "z")
					require.NoError(t, err)
				}
				require.NoError(t, rdb.Set(t.Context(), key(destination), "foreign", 0).Err())
				before := []map[string]string{harness.Snapshot(t, source), harness.Snapshot(t, destination)}
				_, err = source.LMoveM(t.Context(), destination, "LEFT", "RIGHT", redis.LMoveMArgs{Count: count})
				if err == nil {
					assert.Equal(t, "first", what, "it has no business with that key")
					continue
				}
				assert.ErrorIs(t, err, shardedlist.ErrWrongType, what)
				assert.Equal(t, before, []map[string]string{harness.Snapshot(t, source), harness.Snapshot(t, destination)}, what)
			}
		}
	})
}

// On a server whose memory is full, a move fails with nothing changed, and a pop of several lists works.
func TestMovesAndPopsWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
			lists := newLists(t, rdb, 3)
			_, err := lists[0].RPush(t.Context(), harness.Numbers(0, 10)...)
			require.NoError(t, err)
			_, err = lists[0].LPop(t.Context()) // the end at which newcomers join is known
			require.NoError(t, err)
			full := func(bytes string) { require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", bytes).Err()) }
			for _, destination := range lists[:2] {
				for _, args := range []redis.LMoveMArgs{{}, {Count: 5, Order: redis.LMoveMOBO}} {
					for _, to := range []string{"LEFT", "RIGHT"} {
						before := []map[string]string{harness.Snapshot(t, lists[0]), harness.Snapshot(t, lists[1])}
						full("1")
						_, err = lists[0].LMoveM(t.Context(), destination, "LEFT", to, args)
						assert.ErrorContains(t, err, "OOM")
						_, err = lists[0].BLMoveM(t.Context(), destination, "LEFT", to, 0, args)
						assert.ErrorContains(t, err, "OOM", "%v to %s", args, to)
						full("0")
						assert.Equal(t, before, []map[string]string{harness.Snapshot(t, lists[0]), harness.Snapshot(t, lists[1])})
					}
				}
			}
			// A blocked move that finds no room hands its wake-up on, to a pop that needs none.
			_, _, err = shardedlist.LMPop(t.Context(), "LEFT", 9, lists...)
			require.NoError(t, err)
			harness.OneSlot(lists[0]).MaxSlice = 10 * time.Minute
			slow := harness.OpenList(t, rdb, lists[0].Name()) // the pop comes second
			harness.OneSlot(slow).MaxSlice = 10 * time.Minute
			move := await(t, lists[0], func() (string, error) { return lists[0].BLMove(t.Context(), lists[1], "LEFT", "LEFT", 0) })
			asleepIn(t, rdb, 1)
			pop := await(t, lists[0], func() (string, error) {
				_, value, err := shardedlist.BLPop(t.Context(), 0, lists[2], slow)
				return value, err
			})
			asleepIn(t, rdb, 2)
			pipe := rdb.TxPipeline()
			push := harness.OneSlot(lists[0]).Pushes(layout.Right).Join([]*batch.Request{{Values: []any{"x"}, Count: 1}})
			pipe.Do(t.Context(), push.Prepare().Whole(t.Context()).Args()...)
			pipe.ConfigSet(t.Context(), "maxmemory", "1")
			_, err = pipe.Exec(t.Context())
			require.NoError(t, err)
			assert.ErrorContains(t, (<-move).Err, "OOM")
			assert.Equal(t, harness.Got("x"), <-pop)
			_, _, err = shardedlist.LMPop(t.Context(), "LEFT", 9, lists...)
			assert.Equal(t, redis.Nil, err)
			full("0")
		})
	}
}

// asleepIn waits until a number of clients is blocked.
func asleepIn(t testing.TB, rdb *redis.Client, number int) {
	t.Helper()
	require.Eventually(t, func() bool {
		return strings.Contains(rdb.Info(t.Context(), "clients").Val(), fmt.Sprintf("blocked_clients:%d", number))
	}, 10*time.Second, time.Millisecond)
}

// Pops of several lists, pops of one and moves wait on the same bells: nobody sleeps while there are elements.
func TestNoWakeUpIsLostBetweenLists(t *testing.T) {
	t.Parallel()
	longSlices := func(o *redis.UniversalOptions) { o.ReadTimeout = 20 * time.Minute }
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		names := newLists(t, server.Client(t), 3)
		const processes, each = 4, 150
		var left atomic.Int64
		left.Store(processes * each)
		var received ledger.Ledger
		ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		var group sync.WaitGroup
		loop := func(call func() ([]string, error)) {
			group.Go(func() {
				for ctx.Err() == nil {
					values, err := call()
					if err != nil {
						continue
					}
					received.PopValues(0, values...)
					if left.Add(-int64(len(values))) == 0 {
						stop()
					}
				}
			})
		}
		for p := range processes {
			rdb := server.Client(t, longSlices, func(o *redis.UniversalOptions) { o.PoolSize = 30 })
			var lists []*shardedlist.ShardedList
			for _, list := range names {
				list = harness.OpenList(t, rdb, list.Name(), shardedlist.WithCapacity(2))
				harness.OneSlot(list).MaxSlice = 10 * time.Minute // the end of a slice would hide that a wake-up was lost
				lists = append(lists, list)
			}
			loop(func() ([]string, error) {
				_, values, err := shardedlist.BLMPop(ctx, 0, "LEFT", int64(p+1), lists[1], lists[2])
				return values, err
			})
			loop(func() ([]string, error) { return harness.Single(lists[2].BLPop(ctx, 0)) })
			loop(func() ([]string, error) {
				_, value, err := shardedlist.BRPop(ctx, 0, lists[2], lists[1])
				return harness.Single(value, err)
			})
			for i := range 2 {
				group.Go(func() {
					for ctx.Err() == nil {
						_, _ = lists[0].BLMove(ctx, lists[1+i], "LEFT", "RIGHT", 0)
						if i == 0 {
							_, _ = lists[1].LMove(ctx, lists[2], "RIGHT", "LEFT")
						}
					}
				})
			}
			producer := harness.OpenList(t, server.Client(t), names[0].Name(), shardedlist.WithCapacity(2))
			group.Go(func() {
				for i := 0; i < each; i += 2 {
					_, err := producer.RPush(t.Context(), ledger.Name(p, i), ledger.Name(p, i+1))
					assert.NoError(t, err)
					received.Push(ledger.Pushed{Producer: p, First: i, Count: 2, Fate: ledger.Done})
				}
			})
		}
		group.Wait()
		tally := received.Tally()
		tally.Misplaced = 0 // the lists have several ways to one consumer
		assert.Equal(t, ledger.Tally{Pushed: processes * each, Popped: processes * each}, tally)
	})
}

// Cancellations strike at any moment while elements pass from list to list; each is received once or still there.
func TestCancellationOfMovesAtAnyMoment(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		lists := newLists(t, rdb, 3, 1, 2)
		producer := harness.OpenList(t, server.Client(t), lists[0].Name(), shardedlist.WithCapacity(1))
		const elements = 500
		var done, cancelled atomic.Int64
		var group sync.WaitGroup
		received := make([][]string, 4)
		for c := range received {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(c), 0))
				for done.Load() < elements {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(2000))*time.Microsecond)
					timeout := time.Duration(random.IntN(3000)+1) * time.Microsecond
					var values []string
					var err error
					if c%2 == 0 {
						_, err = lists[0].BLMove(ctx, lists[1+c/2], "LEFT", "RIGHT", timeout)
					} else {
						_, values, err = shardedlist.BLMPop(ctx, timeout, "LEFT", int64(c), lists[1:]...)
					}
					cancel()
					if err != nil && err != redis.Nil {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
						cancelled.Add(1)
					}
					received[c] = append(received[c], values...)
					done.Add(int64(len(values)))
				}
			})
		}
		for i := range elements {
			_, err := producer.RPush(t.Context(), i)
			require.NoError(t, err)
		}
		group.Wait()
		all := slices.Concat(received...)
		slices.Sort(all)
		assert.Len(t, slices.Compact(all), elements)
		assert.Len(t, all, elements)
		assert.Greater(t, cancelled.Load(), int64(len(received)))
		for _, list := range lists {
			assert.Empty(t, harness.Content(t, list))
		}
	})
}

// A caller that gives up on a server that does not answer returns all the same; what a pop then takes goes back, what a move
// then moves is where it was to go.
func TestGivingUpMovesAndPopsOfAStalledServer(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			rdb := server.Client(t)
			lists := newLists(t, rdb, 4, 1)
			ctx, cancel := context.WithCancel(t.Context())
			pop := await(t, lists[1], func() (string, error) {
				_, value, err := shardedlist.BLPop(ctx, 0, lists[0], lists[1])
				return value, err
			})
			move := await(t, lists[2], func() (string, error) { return lists[2].BLMove(ctx, lists[3], "LEFT", "RIGHT", 0) })
			asleepIn(t, rdb.(*redis.Client), 2)
			producer := server.Client(t, func(o *redis.UniversalOptions) { o.ReadTimeout = 30 * time.Second })
			require.NoError(t, producer.Ping(t.Context()).Err())
			server.Pause()
			pushed := make(chan error)
			go func() {
				_, err := harness.OpenList(t, producer, lists[1].Name(), shardedlist.WithCapacity(1)).RPush(context.Background(), "a", "b", "c")
				pushed <- err
				_, err = harness.OpenList(t, producer, lists[2].Name(), shardedlist.WithCapacity(1)).RPush(context.Background(), "d")
				pushed <- err
			}()
			cancelled := time.Now()
			cancel()
			assert.ErrorIs(t, (<-pop).Err, context.Canceled)
			harness.AssertStalled(t, time.Since(cancelled))
			err := (<-move).Err
			assert.ErrorIs(t, err, context.Canceled)
			assert.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
			harness.AssertStalled(t, time.Since(cancelled))
			server.Resume()
			require.NoError(t, <-pushed)
			require.NoError(t, <-pushed)
			require.Eventually(t, func() bool {
				return slices.Equal([]string{"a", "b", "c"}, harness.Content(t, lists[1]))
			}, 10*time.Second, time.Millisecond)
			assert.Equal(t, []string{"d"}, slices.Concat(harness.Content(t, lists[2]), harness.Content(t, lists[3])))
		})
	}
}

// Connections break: each element that was pushed comes out of a pop of several lists once, and a moved one is in one place.
func TestMovesAndPopsAreDoneOnceOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster} {
		for fault, rates := range harness.Faults {
			for _, blocking := range []bool{false, true} {
				if !redistest.Long() && fault != "everything" && (kind != redistest.Redis || blocking) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %s, blocking %t", kind, fault, blocking), func(t *testing.T) {
					t.Parallel()
					server, proxy := redistest.Shared(t, kind), redistest.NewProxy(t)
					rdb := server.Client(t, harness.Through(proxy))
					var lists []*shardedlist.ShardedList
					intact := newLists(t, server.Client(t), 3, 5, 1)
					for _, list := range intact {
						lists = append(lists, harness.OpenList(t, rdb, list.Name(), shardedlist.WithCapacity(5)))
					}
					proxy.Set(rates)
					var moves, failed atomic.Int64
					move := func(err error) {
						if moves.Add(1); err != redis.Nil && !script.IsDone(err) {
							failed.Add(1)
						}
					}
					traffic := harness.NewTraffic(4)
					traffic.Run(t, harness.FaultOperations()/2, harness.Strikes(proxy), func(ctx context.Context, value string) error {
						_, err := lists[0].RPush(ctx, value)
						return err
					}, func(ctx context.Context, i int) ([]string, error) {
						switch {
						case i%3 == 0 && blocking:
							_, err := lists[0].BLMove(ctx, lists[1+i%2], "LEFT", "RIGHT", 20*time.Millisecond)
							move(err)
						case i%3 == 0:
							_, err := lists[0].LMoveM(ctx, lists[1+i%2], "LEFT", "RIGHT", redis.LMoveMArgs{Count: 3})
							move(err)
						case blocking:
							_, values, err := shardedlist.BLMPop(ctx, 20*time.Millisecond, "LEFT", int64(1+i%5), lists...)
							return values, err
						}
						_, values, err := shardedlist.LMPop(ctx, "LEFT", int64(1+i%5), lists...)
						return values, err
					})
					proxy.Set(redistest.Faults{})
					for _, list := range intact {
						traffic.PopValues(ledger.Rest, harness.Content(t, list)...) // given up
					}
					traffic.AssertOnce(t)
					assert.Greater(t, moves.Load(), 2*failed.Load(), "most moves were acknowledged")
				})
			}
		}
	}
}

// A pop that is given up when it has taken elements puts them back, in their order.
func TestElementsOfAGivenUpPopGoBack(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	rdb := server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) { o.ReadTimeout = 250 * time.Millisecond })
	lists := newLists(t, server.Client(t), 2)
	broken := []*shardedlist.ShardedList{harness.OpenList(t, rdb, lists[0].Name()), harness.OpenList(t, rdb, lists[1].Name())}
	_, err := lists[1].RPush(t.Context(), harness.Numbers(0, 9)...)
	require.NoError(t, err)
	_, _, err = shardedlist.LMPop(t.Context(), "LEFT", 1, broken[0]) // the server knows the scripts from here on
	require.Equal(t, redis.Nil, err)
	_, err = broken[0].LMove(t.Context(), broken[1], "LEFT", "LEFT")
	require.Equal(t, redis.Nil, err)
	for _, direction := range []string{"LEFT", "RIGHT"} {
		proxy.Set(redistest.Faults{DropReply: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		_, _, err = shardedlist.LMPop(ctx, direction, 4, broken...)
		assert.Error(t, err)
		assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
		assert.Len(t, harness.Content(t, lists[1]), 5)
		_, err = broken[1].LMove(ctx, broken[0], "LEFT", "LEFT")
		assert.Error(t, err)
		cancel()
		proxy.Set(redistest.Faults{})
		require.Eventually(t, func() bool { return len(harness.Content(t, lists[1]))+len(harness.Content(t, lists[0])) == 9 }, 10*time.Second, time.Millisecond)
	}
	assert.Equal(t, harness.Words(harness.Numbers(0, 9)), slices.Concat(harness.Content(t, lists[0]), harness.Content(t, lists[1])))
}

func TestNoGoroutineIsLeftBehindByMoves(t *testing.T) {
	server := redistest.Start(t, redistest.Redis)
	before := goleak.IgnoreCurrent()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), PoolSize: 100})
	a, err := shardedlist.New(rdb, "{x}:a")
	require.NoError(t, err)
	b, err := shardedlist.New(rdb, "{x}:b")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { _, _ = a.BLMove(ctx, b, "LEFT", "LEFT", 0) })
		group.Go(func() { _, _, _ = shardedlist.BLPop(ctx, 0, a, b) })
		group.Go(func() { _, _, _ = shardedlist.BRPop(t.Context(), 30*time.Millisecond, b, a) })
	}
	require.Eventually(t, func() bool {
		s := a.Stats()
		return s.Blocked+s.Listening == 21 // those of BLPop wait together
	}, 10*time.Second, time.Millisecond)
	cancel()
	group.Wait()
	require.NoError(t, rdb.Close())
	goleak.VerifyNone(t, before)
}

// A large result does not stay on the server until its record expires.
func TestLargeResultsOfMovesAreForgotten(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		lists := newLists(t, rdb, 2, 100)
		_, err := lists[0].RPush(t.Context(), harness.Numbers(0, 3000)...)
		require.NoError(t, err)
		moved, err := lists[0].LMoveM(t.Context(), lists[1], "RIGHT", "LEFT", redis.LMoveMArgs{Count: 2500})
		require.NoError(t, err)
		assert.Equal(t, harness.Words(harness.Numbers(500, 3000)), moved)
		_, values, err := shardedlist.LMPop(t.Context(), "LEFT", 2000, lists[1], lists[0])
		require.NoError(t, err)
		assert.Equal(t, harness.Words(harness.Numbers(500, 2500)), values)
		awaitForgotten(t, lists[0])
	})
}

func TestMovesAndPopsWithoutExactlyOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		tag, rdb := harness.UniqueName(t), server.Client(t)
		a := harness.OpenList(t, rdb, "{"+tag+"}:a", shardedlist.WithCapacity(2), shardedlist.WithoutExactlyOnce())
		b := harness.OpenList(t, rdb, "{"+tag+"}:b", shardedlist.WithCapacity(3), shardedlist.WithoutExactlyOnce())
		result := await(t, a, func() (string, error) { return a.BLMove(t.Context(), b, "LEFT", "RIGHT", 0) })
		_, err := a.RPush(t.Context(), harness.Numbers(0, 7)...)
		require.NoError(t, err)
		assert.Equal(t, harness.Got("0"), <-result)
		moved, err := a.LMoveM(t.Context(), b, "RIGHT", "LEFT", redis.LMoveMArgs{Count: 4})
		require.NoError(t, err)
		assert.Equal(t, harness.Words(harness.Numbers(3, 7)), moved)
		from, values, err := shardedlist.LMPop(t.Context(), "RIGHT", 5, a, b)
		require.NoError(t, err)
		assert.Same(t, a, from)
		assert.Equal(t, []string{"2", "1"}, values)
		_, _, err = shardedlist.BLMPop(t.Context(), time.Millisecond, "RIGHT", 5, a, a)
		assert.Equal(t, redis.Nil, err)
		assert.Equal(t, []string{"3", "4", "5", "6", "0"}, harness.Content(t, b))
		for _, list := range []*shardedlist.ShardedList{a, b} {
			assert.Empty(t, rdb.Keys(t.Context(), harness.Keys(list).Glob()+"op:*").Val())
		}
	})
}

// Who waits for more elements than there are polls now and then, and neither sleeps through the push nor keeps the server busy.
func TestAWaitForMoreElementsThanThereAre(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	ctx := t.Context()
	source, destination := harness.NewList(t, rdb), harness.NewList(t, rdb)
	_, err := source.RPush(ctx, "a")
	require.NoError(t, err)
	exactly := redis.LMoveMArgs{Count: 3, Mode: redis.LMoveMExactly}
	_, err = source.BLMoveM(ctx, destination, "LEFT", "RIGHT", 500*time.Millisecond, exactly)
	require.Equal(t, redis.Nil, err)
	calls := harness.CommandCalls(t, rdb)
	assert.Zero(t, calls["blpop"], "nobody rings")
	assert.Less(t, calls["call"], 100)

	moved := make(chan []string)
	go func() {
		values, err := source.BLMoveM(ctx, destination, "LEFT", "RIGHT", time.Minute, exactly)
		assert.NoError(t, err)
		moved <- values
	}()
	_, err = source.RPush(ctx, "b", "c")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b", "c"}, <-moved)
}

// firstOf returns the only one of some values.
func firstOf(values []string, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return values[0], nil
}
