package plain

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAdoptTakesAPlainListOver(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, name := t.Context(), server.Client(t), harness.UniqueName(t)
		values := harness.Numbered(3001)
		require.NoError(t, rdb.RPush(ctx, name, values...).Err())
		list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(8))
		var progress [][2]int64
		require.NoError(t, list.Adopt(ctx, func(moved, total int64) { progress = append(progress, [2]int64{moved, total}) }))
		assert.Equal(t, harness.Words(values), harness.Content(t, list))
		assert.Zero(t, rdb.Exists(ctx, name).Val(), "the plain key has gone")
		info, err := list.Info(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 376, info.Shards)
		require.NoError(t, list.Check(ctx))

		assert.Equal(t, [2]int64{0, 2993}, progress[0], "one RENAME; a shard may stay")
		for i, p := range progress[1:] {
			assert.LessOrEqual(t, p[0]-progress[i][0], int64(1000), "a step is bounded")
			assert.InDelta(t, 2993, p[1], 8, "the total stays, but for the last shard")
		}
		last := progress[len(progress)-1]
		assert.Equal(t, last[0], last[1])

		progress = nil
		require.NoError(t, list.Adopt(ctx, func(moved, total int64) { progress = append(progress, [2]int64{moved, total}) }))
		assert.Equal(t, [][2]int64{{0, 0}}, progress, "there is nothing to adopt")
	})
}

// No step moves more than 1,000 elements or 256 KiB: the capacity of a list that was a plain one is chosen so.
func TestStepsOfAdoptAndRestoreAreBounded(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for name, c := range map[string]struct{ size, capacity, want int }{
		"small elements":  {10, 512, 512},
		"many in a shard": {10, 2500, 1000},
		"large elements":  {10_000, 512, 26},
		"huge elements":   {300_000, 512, 1},
	} {
		for _, first := range []string{"Adopt", "RPush", "LPop"} {
			if first != "Adopt" && c.size > 10 && !redistest.Long() {
				continue // it takes long
			}
			t.Run(name+" "+first, func(t *testing.T) {
				t.Parallel()
				ctx, rdb := t.Context(), redistest.Shared(t, redistest.Redis).Client(t)
				list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(c.capacity))
				values := make([]any, 3000)
				if c.size > 10_000 {
					values = values[:600]
				}
				for i := range values {
					values[i] = fmt.Sprintf("%0*d", c.size, i)
				}
				for some := range slices.Chunk(values, 100) {
					require.NoError(t, rdb.RPush(ctx, list.Name(), some...).Err())
				}
				switch first {
				case "RPush":
					_, err := list.RPush(ctx, values[0])
					require.NoError(t, err)
				case "LPop":
					_, err := list.LPop(ctx)
					require.NoError(t, err)
				}
				most := int64(max(1, min(1000, 1<<18/c.size)))
				var before int64
				steps := func(moved, _ int64) {
					assert.LessOrEqual(t, moved-before, most, "elements moved by one step")
					before = moved
				}
				require.NoError(t, list.Adopt(ctx, steps))
				info, err := list.Info(ctx)
				require.NoError(t, err)
				assert.EqualValues(t, c.want, info.Capacity)
				before = 0
				require.NoError(t, list.Restore(ctx, steps))
				assert.Equal(t, info.Length, rdb.LLen(ctx, list.Name()).Val())
				require.NoError(t, list.Check(ctx))
				rdb.Del(ctx, list.Name())
			})
		}
	}
}

// Whatever is done to a list with a long shard, it is what a plain list would be: see also TestModel.
func TestALongShardIsUsedBeforeItIsSplit(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, name := t.Context(), server.Client(t), harness.UniqueName(t)
		require.NoError(t, rdb.RPush(ctx, name, harness.Numbered(100)...).Err())
		list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(4))
		_, left, err := harness.Inside(list).AdoptStep(ctx, true, "")
		require.NoError(t, err)
		require.EqualValues(t, 96, left)
		before, err := list.Info(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 96, before.Unsplit)
		length, err := list.RPush(ctx, "a", "b", "c", "d", "e")
		require.NoError(t, err)
		require.EqualValues(t, 105, length)
		for range 3 { // onto the long shard, each of which makes it shorter
			_, err = list.LPush(ctx, "x")
			require.NoError(t, err)
		}
		require.NoError(t, list.Check(ctx))
		info, err := list.Info(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 1+3+2, info.Shards)
		want := append([]string{"x", "x", "x"}, append(harness.Words(harness.Numbered(100)), "a", "b", "c", "d", "e")...)
		assert.Equal(t, want, harness.Content(t, list))
		for i, value := range want {
			at, err := list.LIndex(ctx, int64(i))
			require.NoError(t, err)
			require.Equal(t, value, at)
			at, err = list.LIndex(ctx, int64(i-len(want)))
			require.NoError(t, err)
			require.Equal(t, value, at)
		}
	})
}

// All reads each element that stays once, although the list has a long shard at first, and is popped from at either end meanwhile.
func TestAllOfALongShard(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, pop := range map[string]func(*shardedlist.ShardedList) error{
			"lpop": func(l *shardedlist.ShardedList) error { _, err := l.LPop(t.Context()); return err },
			"rpop": func(l *shardedlist.ShardedList) error { _, err := l.RPop(t.Context()); return err },
			"push": func(l *shardedlist.ShardedList) error { _, err := l.LPush(t.Context(), "x"); return err },
		} {
			ctx, rdb, key := t.Context(), server.Client(t), harness.UniqueName(t)+name
			require.NoError(t, rdb.RPush(ctx, key, harness.Numbered(5000)...).Err())
			list := harness.OpenList(t, rdb, key, shardedlist.WithCapacity(10))
			_, _, err := harness.Inside(list).AdoptStep(ctx, true, "") // makes it a shard
			require.NoError(t, err)
			var got []string
			for value, err := range list.All(ctx) {
				require.NoError(t, err)
				got = append(got, value)
				if len(got)%100 == 1 {
					require.NoError(t, pop(list), name)
				}
			}
			want := harness.Words(harness.Numbered(5000))
			assert.Equal(t, want[:4900], got[:4900], name)
			require.NoError(t, list.Check(ctx))
		}
	})
}

func TestAdoptNewcomers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, name := t.Context(), server.Client(t), harness.UniqueName(t)
		list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(3))
		require.NoError(t, rdb.RPush(ctx, name, "a", "b").Err())
		require.NoError(t, list.Adopt(ctx, nil))
		require.NoError(t, rdb.RPush(ctx, name, harness.Numbered(20)...).Err())
		require.ErrorIs(t, list.Adopt(ctx, nil), shardedlist.ErrPoppedAt)
		assert.EqualValues(t, 20, rdb.LLen(ctx, name).Val())

		require.NoError(t, harness.OpenList(t, rdb, name, shardedlist.WithPoppedAt("left")).Adopt(ctx, nil))
		want := append([]string{"a", "b"}, harness.Words(harness.Numbered(20))...)
		assert.Equal(t, want, harness.Content(t, list))
		require.NoError(t, rdb.RPush(ctx, name, "y", "z").Err())
		require.NoError(t, harness.OpenList(t, rdb, name, shardedlist.WithPoppedAt("RIGHT")).Adopt(ctx, nil))
		assert.Equal(t, append(want, "y", "z"), harness.Content(t, list), "the end that newcomers join is known by now")
		require.NoError(t, list.Check(ctx))

		require.NoError(t, rdb.Set(ctx, name, "text", 0).Err())
		require.ErrorIs(t, list.Adopt(ctx, nil), shardedlist.ErrWrongType)
		require.NoError(t, rdb.Del(ctx, name).Err())
		_, err := shardedlist.New(rdb, name, shardedlist.WithPoppedAt("middle"))
		require.ErrorIs(t, err, shardedlist.ErrEnd)
	})
}

// An old process goes on pushing to the key meanwhile: Adopt sees at which end, and the order stays.
func TestAdoptSeesWhereTheKeyGrows(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster) {
		for _, command := range []string{"RPUSH", "LPUSH"} {
			t.Run(string(kind)+"/"+command, func(t *testing.T) {
				t.Parallel()
				server, ctx, name := redistest.Start(t, kind), t.Context(), harness.UniqueName(t)
				rdb, hooked := server.Client(t), server.Client(t)
				hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(name))) // which Adopt has to see past
				pushed := 0
				push := func() error {
					pushed++
					return rdb.Do(ctx, command, name, pushed).Err()
				}
				for range 5000 {
					require.NoError(t, push())
				}
				list := harness.OpenList(t, hooked, name, shardedlist.WithCapacity(100))
				adopted := make(chan error, 1)
				go func() { adopted <- list.Adopt(ctx, nil) }()
				for adopting := true; adopting; {
					select {
					case err := <-adopted:
						require.NoError(t, err)
						adopting = false
					default:
						require.NoError(t, push())
					}
				}
				require.Greater(t, pushed, 5000)
				for range 10 {
					require.NoError(t, push())
				}
				want := harness.Words(harness.Numbers(1, pushed+1))
				if command == "LPUSH" {
					slices.Reverse(want)
				}
				assert.Equal(t, want, harness.Content(t, list))
				assert.NoError(t, list.Check(ctx))
			})
		}
	}
}

// Consumers that wait on the empty list get the elements of the plain list.
// Who says where elements are popped need not say it again, also if there was nothing to take in that time.
func TestAdoptKeepsTheEndItIsTold(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, begun := range []string{"a plain list", "a list", "a list and newcomers", "a list turned back"} {
			ctx, rdb, name := t.Context(), server.Client(t), harness.UniqueName(t)
			list, told := harness.OpenList(t, rdb, name), harness.OpenList(t, rdb, name, shardedlist.WithPoppedAt("LEFT"))
			want := []string{"a"}
			if begun == "a plain list" {
				require.NoError(t, rdb.RPush(ctx, name, "a").Err())
			} else {
				_, err := list.RPush(ctx, "a")
				require.NoError(t, err)
			}
			switch begun {
			case "a list and newcomers":
				require.NoError(t, rdb.RPush(ctx, name, "b").Err())
				want = append(want, "b")
			case "a list turned back":
				require.NoError(t, told.Restore(ctx, nil))
				require.NoError(t, list.Adopt(ctx, nil))
			}
			require.NoError(t, told.Adopt(ctx, nil))
			require.NoError(t, rdb.RPush(ctx, name, "c").Err())
			want = append(want, "c")
			require.NoError(t, list.Check(ctx), begun)
			watches := harness.OpenList(t, rdb, name)
			_, err := watches.LPush(ctx, "first") // by itself it says that others join at the left
			require.NoError(t, err)
			assert.Equal(t, append([]string{"first"}, want...), harness.Content(t, watches), begun)
			require.NoError(t, list.Check(ctx), begun)
		}
	})
}

func TestAdoptWakesConsumers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, name := t.Context(), server.Client(t), harness.UniqueName(t)
		list := harness.OpenList(t, rdb, name)
		popped := make(chan string)
		go func() {
			value, err := list.BLPop(ctx, time.Minute)
			assert.NoError(t, err)
			popped <- value
		}()
		harness.Armed(t, list)
		require.NoError(t, rdb.RPush(ctx, name, "a", "b").Err())
		require.NoError(t, list.Adopt(ctx, nil))
		assert.Equal(t, "a", <-popped)
		assert.Equal(t, []string{"b"}, harness.Content(t, list))
	})
}

// A short list is the plain list of its name, and so are those that it is renamed to.
func TestAListIsThePlainListOfItsName(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, name := t.Context(), server.Client(t), "{"+harness.UniqueName(t)+"}"
		require.NoError(t, rdb.RPush(ctx, name, "a", "b").Err())
		require.NoError(t, rdb.RPush(ctx, name+"other", "c").Err())
		list := harness.OpenList(t, rdb, name)
		length, err := list.RPush(ctx, "z")
		require.NoError(t, err)
		assert.EqualValues(t, 3, length)
		renamed, err := list.RenameNX(ctx, name+"other")
		require.NoError(t, err)
		assert.False(t, renamed, "there is a list of that name")
		require.NoError(t, list.Rename(ctx, name+"other"))
		assert.Equal(t, []string{"a", "b", "z"}, harness.Content(t, harness.OpenList(t, rdb, name+"other")))
		assert.Equal(t, []string{"a", "b", "z"}, rdb.LRange(ctx, name+"other", 0, -1).Val())
		assert.Zero(t, rdb.Exists(ctx, name).Val())

		require.NoError(t, rdb.Set(ctx, name, "text", 0).Err())
		_, err = list.LLen(ctx)
		require.ErrorIs(t, err, shardedlist.ErrWrongType)
		require.NoError(t, rdb.Del(ctx, name).Err())

		require.NoError(t, rdb.RPush(ctx, name, "x").Err())
		require.NoError(t, rdb.Expire(ctx, name, time.Hour).Err())
		ttl, err := list.TTL(ctx)
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, ttl, float64(time.Minute))
		_, err = list.Del(ctx)
		require.NoError(t, err)

		require.NoError(t, rdb.RPush(ctx, name, "x").Err())
		set, err := list.Expire(ctx, time.Hour)
		require.NoError(t, err)
		assert.True(t, set)
		existed, err := list.Del(ctx)
		require.NoError(t, err)
		assert.True(t, existed)
		require.NoError(t, rdb.RPush(ctx, name, "x").Err())
		existed, err = list.Del(ctx)
		require.NoError(t, err)
		assert.True(t, existed, "it was a plain list")
	})
}

func TestAPlainListThatExpiresMakesTheListExpire(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, name := t.Context(), server.Client(t), harness.UniqueName(t)
		require.NoError(t, rdb.RPush(ctx, name, harness.Numbered(50)...).Err())
		require.NoError(t, rdb.Expire(ctx, name, time.Hour).Err())
		list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(4))
		require.NoError(t, list.Adopt(ctx, nil))
		ttl, err := list.TTL(ctx)
		require.NoError(t, err)
		assert.InDelta(t, time.Hour, ttl, float64(time.Minute))
		_, err = list.RPush(ctx, "new")
		require.NoError(t, err)
		require.NoError(t, list.Check(ctx))
		persisted, err := list.Persist(ctx)
		require.NoError(t, err)
		assert.True(t, persisted)
		require.NoError(t, list.Check(ctx))
	})
}

// A list that has expired leaves nothing to the plain list that comes after it, whichever operation finds it first.
func TestAPlainListAfterOneThatHasExpired(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for first, operation := range map[string]func(*shardedlist.ShardedList) error{
			"llen":  func(l *shardedlist.ShardedList) error { _, err := l.LLen(t.Context()); return err },
			"rpush": func(l *shardedlist.ShardedList) error { _, err := l.RPush(t.Context(), "c"); return err },
			"adopt": func(l *shardedlist.ShardedList) error { return l.Adopt(t.Context(), nil) },
		} {
			ctx, rdb, name := t.Context(), server.Client(t), harness.UniqueName(t)
			list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(2))
			_, err := list.RPush(ctx, 1, 2, 3, 4, 5)
			require.NoError(t, err)
			_, err = list.PExpire(ctx, 20*time.Millisecond)
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				length, err := harness.OpenList(t, rdb, name).LLen(ctx)
				return err == nil && length == 0
			}, 10*time.Second, 5*time.Millisecond)
			require.NoError(t, rdb.RPush(ctx, name, "a", "b").Err())
			require.NoError(t, operation(list))
			assert.Equal(t, []string{"a", "b"}, harness.Content(t, list)[:2], first)
			ttl, err := list.TTL(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, -1, ttl, first)
			require.NoError(t, list.Check(ctx))
			_, err = list.Del(ctx)
			require.NoError(t, err)
		}
	})
}

// A plain list may expire as late as Redis lets it.
func TestAPlainListThatExpiresVeryLate(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, rdb, name := t.Context(), redistest.Shared(t, kind).Client(t), harness.UniqueName(t)
			require.NoError(t, rdb.RPush(ctx, name, "a", "b", "c").Err())
			require.NoError(t, rdb.Do(ctx, "pexpireat", name, "9223372036854775807").Err())
			list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(1))
			length, err := list.RPush(ctx, "d")
			require.NoError(t, err)
			assert.EqualValues(t, 4, length)
			require.NoError(t, list.Adopt(ctx, nil))
			assert.Equal(t, []string{"a", "b", "c", "d"}, harness.Content(t, list))
			require.NoError(t, list.Check(ctx))
		})
	}
}

// One list takes its plain list over, and the other, of New, has none.
func TestAMoveBetweenListsOfWhichOneIsWithPlain(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, tag := t.Context(), server.Client(t), "{"+harness.UniqueName(t)+"}"
		require.NoError(t, rdb.RPush(ctx, tag+"a", "1", "2").Err())
		a, b := harness.OpenList(t, rdb, tag+"a"), harness.OpenList(t, rdb, tag+"b")
		moved, err := a.LMove(ctx, b, "LEFT", "RIGHT")
		require.NoError(t, err)
		assert.Equal(t, "1", moved)
		moved, err = b.LMove(ctx, a, "LEFT", "RIGHT")
		require.NoError(t, err)
		assert.Equal(t, "1", moved)
		assert.Equal(t, []string{"2", "1"}, harness.Content(t, a))
	})
}

// Keys that lists are stored in are left alone by reads through the hook.
func TestHookTakesOverNoShard(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		_, err := list.RPush(ctx, "a", "b", "c")
		require.NoError(t, err)
		hooked := server.Client(t)
		hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("*")))
		for _, key := range []string{harness.Shard(list, ctx, 0), harness.Keys(list).Bell} {
			hooked.LLen(ctx, key)
			hooked.LRange(ctx, key, 0, -1)
			hooked.LIndex(ctx, key, 0)
		}
		other := harness.OpenList(t, rdb, list.Name()+"other")
		_, _ = other.RenameNX(ctx, harness.Shard(list, ctx, 0))
		assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, list))
		require.NoError(t, list.Check(ctx))
	})
}

// A move to a full server is refused, although it would take a plain list over first.
func TestAMoveFromAPlainListWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	ctx, server, tag := t.Context(), redistest.Start(t, redistest.Redis), "{"+harness.UniqueName(t)+"}"
	rdb := server.Client(t)
	require.NoError(t, rdb.RPush(ctx, tag+"a", "1", "2").Err())
	hooked := server.Client(t)
	hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(tag+"*")))
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
	require.ErrorContains(t, hooked.LMove(ctx, tag+"a", tag+"b", "LEFT", "RIGHT").Err(), "OOM")
	require.ErrorContains(t, hooked.RPush(ctx, tag+"c", "x").Err(), "OOM")
	assert.Equal(t, "1", hooked.LPop(ctx, tag+"a").Val())
	require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
	assert.Zero(t, hooked.LLen(ctx, tag+"b").Val())
}

// Each step is applied once, whatever replies are lost, and a call that was interrupted is continued by another. Consumers and
// producers of the hook go on meanwhile, and see one list.
func TestAdoptOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server, proxy, name := t.Context(), redistest.Shared(t, kind), redistest.NewProxy(t), harness.UniqueName(t)
			const total = 60_000
			calm := server.Client(t)
			require.NoError(t, calm.RPush(ctx, name, harness.Numbered(total)...).Err())
			list := harness.OpenList(t, calm, name, shardedlist.WithCapacity(16))
			_, _, err := harness.Inside(list).AdoptStep(ctx, true, "")
			require.NoError(t, err)
			popped, want := migrate(t, server, proxy, name, total, (*shardedlist.ShardedList).Adopt)
			assert.Equal(t, want, append(popped, harness.Content(t, list)...))
			require.NoError(t, list.Check(ctx))
		})
	}
}

// migrate has a list of numbered elements migrated, again and again for a moment until it is done, over a network that loses replies and
// beside a client with the hook. It returns what that has popped, and what has to come out in all.
func migrate(t *testing.T, server *redistest.Server, proxy *redistest.Proxy, name string, total int,
	move func(*shardedlist.ShardedList, context.Context, func(moved, total int64)) error) (popped, all []string) {
	t.Helper()
	ctx := t.Context()
	list := harness.OpenList(t, server.Client(t, harness.Through(proxy)), name)
	t.Cleanup(func() { proxy.Set(redistest.Faults{}) })
	_, err := list.LLen(ctx)
	require.NoError(t, err)
	proxy.Set(redistest.Faults{CutReply: 0.35})
	var group sync.WaitGroup
	defer group.Wait()
	group.Go(func() {
		hooked := server.Client(t)
		hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match(name)))
		for i := range 1000 {
			value, err := hooked.LPop(ctx, name).Result()
			assert.NoError(t, err)
			popped = append(popped, value)
			assert.NoError(t, hooked.RPush(ctx, name, fmt.Sprint("new", i)).Err())
		}
	})
	for attempt := 0; ; attempt++ {
		short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		err := move(list, short, nil)
		cancel()
		if err == nil {
			break
		}
		require.Less(t, attempt, 400, "%v", err)
	}
	group.Wait()
	all = harness.Words(harness.Numbered(total))
	for i := range 1000 {
		all = append(all, fmt.Sprint("new", i))
	}
	return popped, all
}

// A server whose memory is full adopts: nothing grows.
func TestAdoptWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server, name := t.Context(), redistest.Start(t, kind), harness.UniqueName(t)
			rdb := server.Client(t)
			require.NoError(t, rdb.RPush(ctx, name, harness.Numbered(500)...).Err())
			list := harness.OpenList(t, rdb, name, shardedlist.WithCapacity(8), shardedlist.WithPoppedAt("LEFT"))
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
			require.Error(t, rdb.RPush(ctx, name, "x").Err(), "memory is full")
			require.NoError(t, list.Adopt(ctx, nil))
			value, err := list.LPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, "0", value)
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
			require.NoError(t, rdb.RPush(ctx, name, harness.Numbered(500)...).Err())
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "1").Err())
			require.NoError(t, list.Adopt(ctx, nil))
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
			assert.Equal(t, append(harness.Words(harness.Numbered(500))[1:], harness.Words(harness.Numbered(500))...), harness.Content(t, list))
			require.NoError(t, list.Check(ctx))
		})
	}
}

// Key and list share a slot, whatever the name. Keys that lists are stored in are no plain lists.
func TestAdoptAnyName(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, name := range []string{"a}b", "{a", "{tag}a", "{tag}", "a{}b"} {
			name = harness.UniqueName(t) + name
			require.NoError(t, rdb.RPush(ctx, name, "a").Err())
			list := harness.OpenList(t, rdb, name)
			require.NoError(t, list.Adopt(ctx, nil), name)
			assert.Equal(t, []string{"a"}, harness.Content(t, list), name)
			_, err := list.Del(ctx)
			require.NoError(t, err)
		}
		list := harness.OpenList(t, rdb, harness.UniqueName(t), shardedlist.WithCapacity(1))
		_, err := list.RPush(ctx, "a", "b")
		require.NoError(t, err)
		for _, key := range []string{harness.Shard(list, ctx, 0), harness.Keys(list).Bell} {
			_, err = shardedlist.New(rdb, key)
			require.ErrorIs(t, err, shardedlist.ErrOwnKey)
		}
	})
}
