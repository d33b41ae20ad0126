package spread

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
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

// A spread list expires as a whole, at whatever end it is used next, and a list that is pushed after that does not.
func TestASpreadListExpires(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for name, use := range map[string]func(*shardedlist.ShardedList) (any, error){
			"LLen": func(l *shardedlist.ShardedList) (any, error) { return l.LLen(ctx) },
			"LIndex": func(l *shardedlist.ShardedList) (any, error) {
				v, err := l.LIndex(ctx, 3)
				return int64(len(v)), notNil(err)
			},
			"LRange": func(l *shardedlist.ShardedList) (any, error) {
				v, err := l.LRange(ctx, 0, -1)
				return int64(len(v)), err
			},
			"LPop": func(l *shardedlist.ShardedList) (any, error) {
				v, err := l.LPop(ctx)
				return int64(len(v)), notNil(err)
			},
			"RPop": func(l *shardedlist.ShardedList) (any, error) {
				v, err := l.RPopCount(ctx, 9)
				return int64(len(v)), notNil(err)
			},
			"Del": func(l *shardedlist.ShardedList) (any, error) {
				existed, err := l.Del(ctx)
				return map[bool]int64{true: 1}[existed], err
			},
			"RPush":  func(l *shardedlist.ShardedList) (any, error) { n, err := l.RPush(ctx, "x"); return n - 1, err },
			"LPush":  func(l *shardedlist.ShardedList) (any, error) { n, err := l.LPush(ctx, "x"); return n - 1, err },
			"LPushX": func(l *shardedlist.ShardedList) (any, error) { return l.LPushX(ctx, "x") },
			"BLPop": func(l *shardedlist.ShardedList) (any, error) {
				v, err := l.BLPop(ctx, time.Millisecond)
				return int64(len(v)), notNil(err)
			},
			"TTL": func(l *shardedlist.ShardedList) (any, error) { ttl, err := l.TTL(ctx); return int64(ttl + 2), err },
			"Expire": func(l *shardedlist.ShardedList) (any, error) {
				set, err := l.Expire(ctx, time.Hour)
				return map[bool]int64{true: 1}[set], err
			},
			"LPos": func(l *shardedlist.ShardedList) (any, error) {
				v, err := l.LPosCount(ctx, "7", 0, redis.LPosArgs{})
				return int64(len(v)), err
			},
		} {
			list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
			other := harness.OpenList(t, server.Client(t), list.Name()) // it has pointers from before
			_, err := list.RPush(ctx, harness.Numbered(20)...)
			require.NoError(t, err)
			_, err = other.LLen(ctx)
			require.NoError(t, err)
			set, err := list.PExpire(ctx, 50*time.Millisecond)
			require.NoError(t, err)
			require.True(t, set)
			ttl, err := other.PTTL(ctx)
			require.NoError(t, err)
			assert.LessOrEqual(t, ttl, 50*time.Millisecond, name)
			waitUntil(t, server, rdb, time.Now().Add(60*time.Millisecond))
			seen, err := use(other)
			require.NoError(t, err, name)
			assert.EqualValues(t, 0, seen, name)
			_, err = list.RPush(ctx, "new")
			require.NoError(t, err)
			ttl, err = other.TTL(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, -1, ttl, name)
			require.NoError(t, list.Check(ctx))
		}
	})
}

func notNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

// waitUntil waits until the clock of the server has passed a time.
func waitUntil(t *testing.T, server *redistest.Server, rdb redis.UniversalClient, at time.Time) {
	t.Helper()
	if server.Kind() == redistest.Embedded {
		time.Sleep(time.Until(at))
		return
	}
	require.Eventually(t, func() bool {
		now, err := rdb.Time(t.Context()).Result()
		return err == nil && now.After(at)
	}, 10*time.Second, 5*time.Millisecond)
}

// However a list becomes empty, what is pushed next does not expire.
func TestASpreadListThatBecomesEmptyDoesNotExpire(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for seed := range uint64(40) {
			ctx, random := t.Context(), rand.New(rand.NewPCG(seed, 0))
			list := harness.NewList(t, server.Client(t), shardedlist.WithParts(1+random.IntN(4)), shardedlist.WithCapacity(1+random.IntN(3)))
			lists := []*shardedlist.ShardedList{list, harness.OpenList(t, server.Client(t), list.Name()), harness.OpenList(t, server.Client(t), list.Name())}
			pushed := 2 + random.IntN(16)
			_, err := list.RPush(ctx, harness.Numbered(pushed/2)...)
			require.NoError(t, err)
			_, err = list.LPush(ctx, harness.Numbered(pushed-pushed/2)...)
			require.NoError(t, err)
			for _, l := range lists {
				_, err = l.LLen(ctx)
				require.NoError(t, err)
			}
			set, err := lists[random.IntN(3)].Expire(ctx, time.Hour)
			require.NoError(t, err)
			require.True(t, set)
			for left := pushed; left > 0; { // and nobody asks for more than there is, and finds the list empty
				l, count := lists[random.IntN(3)], 1+random.IntN(min(3, left))
				pop := []func(context.Context, int) ([]string, error){l.LPopCount, l.RPopCount}[random.IntN(2)]
				elements, err := pop(ctx, count)
				require.NoError(t, err)
				left -= len(elements)
			}
			pushes := []func(context.Context, ...any) (int64, error){lists[random.IntN(3)].RPush, lists[random.IntN(3)].LPush}
			_, err = pushes[random.IntN(2)](ctx, harness.Numbered(1+random.IntN(5))...)
			require.NoError(t, err)
			for _, l := range lists {
				ttl, err := l.TTL(ctx)
				require.NoError(t, err)
				require.EqualValues(t, -1, ttl, "seed %d", seed)
			}
		}
	})
}

// A client dies after it has moved a pointer to a shard that it has not made. Whoever takes the last element then looks there before it
// returns, so what is pushed to that shard next does not expire.
func TestASpreadListThatBecomesEmptyBesideAShardThatIsNotMade(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		for name, pop := range map[string]func(*shardedlist.ShardedList) error{
			"LPop":      func(l *shardedlist.ShardedList) error { return harness.ErrorOf(l.LPop(ctx)) },
			"LPopCount": func(l *shardedlist.ShardedList) error { return harness.ErrorOf(l.LPopCount(ctx, 1)) },
			"BLPop":     func(l *shardedlist.ShardedList) error { return harness.ErrorOf(l.BLPop(ctx, time.Second)) },
		} {
			list := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(1))
			_, err := list.RPush(ctx, "last")
			require.NoError(t, err)
			set, err := list.Expire(ctx, time.Hour)
			require.NoError(t, err)
			require.True(t, set)
			mortality, cancel := context.WithCancel(ctx)
			m, dying := &mortal{death: cancel}, server.Client(t)
			m.left.Store(1000)
			dying.AddHook(m)
			victim, err := shardedlist.New(dying, list.Name())
			require.NoError(t, err)
			_, err = victim.LLen(mortality)
			require.NoError(t, err)
			m.left.Store(2) // the push that finds the shard full, and the move
			require.Error(t, harness.ErrorOf(victim.RPush(mortality, "never")))
			require.True(t, m.died.Load())
			require.NoError(t, pop(harness.OpenList(t, server.Client(t), list.Name())), name)
			_, err = harness.OpenList(t, server.Client(t), list.Name()).RPush(ctx, "next")
			require.NoError(t, err)
			ttl, err := list.TTL(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, -1, ttl, name)
			assert.Equal(t, []string{"next"}, harness.Content(t, list), name)
		}
	})
}

// Clients that push, pop, set expiries and remove them at once get each element once at most, and lose none but those that expire.
func TestASpreadListExpiresUnderTraffic(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		ctx := t.Context()
		_, err := list.RPush(ctx, "first")
		require.NoError(t, err)
		var (
			group        sync.WaitGroup
			mutex        sync.Mutex
			popped       = map[string]int{}
			pushed       int
			expired, set int
		)
		for client := range 6 {
			l := harness.OpenList(t, server.Client(t), list.Name(), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
			random := rand.New(rand.NewPCG(uint64(client), 0))
			group.Go(func() {
				for i := range 150 {
					var values []string
					var err error
					switch random.IntN(5) {
					case 0, 1:
						push := []func(context.Context, ...any) (int64, error){l.LPush, l.RPush}[random.IntN(2)]
						_, err = push(ctx, fmt.Sprint(client, ".", i))
						mutex.Lock()
						pushed++
						mutex.Unlock()
					case 2:
						values, err = l.LPopCount(ctx, 1+random.IntN(3))
					case 3:
						values, err = l.RPopCount(ctx, 1)
					case 4:
						var done bool
						if done, err = l.PExpire(ctx, time.Duration(1+random.IntN(5))*time.Millisecond); random.IntN(3) == 0 && err == nil {
							_, err = l.Persist(ctx)
						}
						mutex.Lock()
						set += map[bool]int{true: 1}[done]
						mutex.Unlock()
					}
					assert.NoError(t, notNil(err))
					mutex.Lock()
					for _, v := range values {
						popped[v]++
					}
					mutex.Unlock()
				}
			})
		}
		group.Wait()
		_, err = list.Persist(ctx)
		require.NoError(t, err)
		for _, v := range harness.Content(t, list) {
			popped[v]++
		}
		for v, n := range popped {
			assert.Equal(t, 1, n, v)
		}
		expired = pushed + 1 - len(popped)
		assert.Positive(t, set, "expiries set")
		assert.Positive(t, expired, "elements that have expired")
		assert.Positive(t, len(popped))
		require.NoError(t, list.Check(ctx))
	})
}

// An expiry is set once, though replies are lost, and while memory is full.
func TestExpiryOfASpreadListOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server, proxy := t.Context(), redistest.Shared(t, kind), redistest.NewProxy(t)
			calm := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
			_, err := calm.RPush(ctx, harness.Numbered(20)...)
			require.NoError(t, err)
			list := harness.OpenList(t, server.Client(t, harness.Through(proxy)), calm.Name())
			_, err = list.LLen(ctx)
			require.NoError(t, err)
			proxy.Set(redistest.Faults{CutReply: 0.2})
			t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
			for i := range 30 {
				set, err := list.ExpireNX(ctx, time.Hour)
				require.NoError(t, err)
				require.True(t, set, i)
				ttl, err := calm.TTL(ctx)
				require.NoError(t, err)
				require.Positive(t, ttl)
				removed, err := list.Persist(ctx)
				require.NoError(t, err)
				require.True(t, removed, i)
				ttl, err = calm.TTL(ctx)
				require.NoError(t, err)
				require.EqualValues(t, -1, ttl)
			}
		})
	}
}

func TestExpiryOfASpreadListWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, rdb := t.Context(), redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t)
			list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
			_, err := list.RPush(ctx, harness.Numbered(20)...)
			require.NoError(t, err)
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
			set, err := list.Expire(ctx, time.Hour)
			require.NoError(t, err)
			assert.True(t, set)
			for i := range 20 {
				value, err := list.LPop(ctx)
				require.NoError(t, err)
				assert.Equal(t, strconv.Itoa(i), value)
			}
			_, err = list.RPush(ctx, "x")
			require.ErrorContains(t, err, "OOM")
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
			_, err = list.RPush(ctx, "x")
			require.NoError(t, err)
			ttl, err := list.TTL(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, -1, ttl)
		})
	}
}

// Through the hook, expiry works too, and a blocked consumer goes on beyond it.
func TestHookExpiresSpreadLists(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, key, rdb := t.Context(), "queue:"+harness.UniqueName(t), server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*"), shardedlist.WithParts(3), shardedlist.WithCapacity(2)))
		require.NoError(t, rdb.RPush(ctx, key, harness.Numbered(9)...).Err())
		pipe := rdb.Pipeline()
		set, ttl, removed := pipe.Expire(ctx, key, time.Minute), pipe.TTL(ctx, key), pipe.Persist(ctx, key)
		_, err := pipe.Exec(ctx)
		require.NoError(t, err)
		assert.True(t, set.Val())
		assert.InDelta(t, time.Minute, ttl.Val(), float64(10*time.Second))
		assert.True(t, removed.Val())
		require.True(t, rdb.PExpire(ctx, key, 20*time.Millisecond).Val())
		list := harness.OpenList(t, server.Client(t), key)
		harness.Expired(t, list)
		woken := make(chan string, 1)
		go func() {
			value, err := list.BLPop(ctx, 20*time.Second)
			assert.NoError(t, err)
			woken <- value
		}()
		harness.Blocked(t, list)
		require.NoError(t, rdb.RPush(ctx, key, "after").Err())
		assert.Equal(t, "after", <-woken)
	})
}

func TestExpiryOfASpreadListWithReplicas(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, name := t.Context(), harness.NewList(t, server.Client(t)).Name()
		list := harness.OpenList(t, server.Client(t), name, shardedlist.WithParts(3), shardedlist.WithCapacity(2), shardedlist.WithReplicas(1, time.Millisecond))
		_, err := list.RPush(ctx, harness.Numbered(9)...)
		require.ErrorIs(t, err, shardedlist.ErrNotReplicated)
		set, err := list.Expire(ctx, time.Hour)
		assert.True(t, set)
		require.ErrorIs(t, err, shardedlist.ErrNotReplicated)
		removed, err := list.Persist(ctx)
		assert.True(t, removed)
		require.ErrorIs(t, err, shardedlist.ErrNotReplicated)
		removed, err = list.Persist(ctx)
		assert.False(t, removed)
		require.NoError(t, err, "nothing was changed, nothing to wait for")
	})
}

// A list that is begun anew after its pointers were lost has none of the former one's expiry.
func TestANewSpreadListDoesNotExpireAsTheLastOne(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list, err := shardedlist.New(rdb, harness.UniqueName(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		require.NoError(t, err)
		_, err = list.RPush(ctx, harness.Numbered(10)...)
		require.NoError(t, err)
		_, err = list.LPopCount(ctx, 3)
		require.NoError(t, err)
		set, err := list.PExpire(ctx, 30*time.Millisecond)
		require.NoError(t, err)
		require.True(t, set)
		require.NoError(t, rdb.Del(ctx, harness.Keys(list).Meta).Err())
		waitUntil(t, server, rdb, time.Now().Add(40*time.Millisecond))
		fresh, err := shardedlist.New(server.Client(t), list.Name(), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		require.NoError(t, err)
		for i := range 9 {
			_, err := fresh.RPush(ctx, i)
			require.NoError(t, err)
		}
		assert.Equal(t, harness.Words(harness.Numbered(9)), harness.Content(t, fresh))
		_, err = fresh.Del(ctx)
		require.NoError(t, err)
		_, err = fresh.DelStrays(ctx)
		require.NoError(t, err)
	})
}

// A client that has not heard of a PERSIST finds the list as it is.
func TestACheckAfterAnotherClientsPersist(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		other := harness.OpenList(t, server.Client(t), list.Name())
		for _, value := range harness.Numbered(12) { // one by one: a push is never divided
			_, err := list.RPush(ctx, value)
			require.NoError(t, err)
		}
		set, err := list.PExpire(ctx, 3*time.Second)
		require.NoError(t, err)
		require.True(t, set)
		_, err = list.LLen(ctx)
		require.NoError(t, err)
		removed, err := other.Persist(ctx)
		require.NoError(t, err)
		require.True(t, removed)
		waitUntil(t, server, rdb, time.Now().Add(3010*time.Millisecond))
		require.NoError(t, list.Check(ctx))
		assert.Equal(t, harness.Words(harness.Numbered(12)), harness.Content(t, list))
	})
}

// Pops that are given up while they look inward put their elements back.
func TestCancelledPopsOfASpreadListThatIsToExpire(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithParts(3), shardedlist.WithCapacity(1))
		const total = 200
		for _, value := range harness.Numbered(total) {
			_, err := list.RPush(ctx, value)
			require.NoError(t, err)
		}
		_, err := list.Expire(ctx, time.Hour)
		require.NoError(t, err)
		popped, cancelled := map[string]int{}, 0
		random := rand.New(rand.NewPCG(1, 0))
		for len(popped) < total/2 {
			short, cancel := context.WithTimeout(ctx, time.Duration(random.IntN(1500+50*cancelled))*time.Microsecond)
			value, err := list.LPop(short)
			cancel()
			if err != nil {
				cancelled++
				continue
			}
			popped[value]++
		}
		require.Eventually(t, func() bool { return len(harness.Content(t, list))+len(popped) == total }, 20*time.Second, 10*time.Millisecond)
		for _, value := range harness.Content(t, list) {
			popped[value]++
		}
		for value, n := range popped {
			assert.Equal(t, 1, n, value)
		}
		assert.Positive(t, cancelled)
		require.NoError(t, list.Check(ctx))
	})
}

// An Expire whose replies are lost until its time is up may have been applied, and says so.
func TestAnExpireOfASpreadListThatIsGivenUp(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		calm := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		_, err := calm.RPush(ctx, harness.Numbered(9)...)
		require.NoError(t, err)
		unlucky, hook := server.Client(t), &afterOnMeta{args: 8, always: true, then: lost}
		unlucky.AddHook(hook)
		list := harness.OpenList(t, unlucky, calm.Name())
		_, err = list.LLen(ctx) // it is connected
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = list.Expire(short, time.Hour)
		require.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
		assert.True(t, hook.done)
	})
}

// An expiry in the past deletes the list for which its condition was met, and not another that has replaced it.
func TestAnExpiryInThePastOfASpreadListThatIsReplaced(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx := t.Context()
		list := harness.NewList(t, server.Client(t), shardedlist.WithParts(3), shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, "old")
		require.NoError(t, err)
		_, err = list.Expire(ctx, time.Hour)
		require.NoError(t, err)
		hook := &afterOnMeta{args: 8, then: func() error {
			existed, err := list.Del(ctx)
			assert.NoError(t, err)
			assert.True(t, existed)
			_, err = list.RPush(ctx, "new")
			return err
		}}
		slow := server.Client(t)
		slow.AddHook(hook)
		set, err := harness.OpenList(t, slow, list.Name()).ExpireXX(ctx, -time.Minute)
		require.NoError(t, err)
		assert.True(t, hook.done)
		assert.False(t, set)
		assert.Equal(t, []string{"new"}, harness.Content(t, list))
	})
}
