package expiry

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// keysGone waits until nothing is left of the list, without using it.
func keysGone(t testing.TB, list *shardedlist.ShardedList) {
	t.Helper()
	require.Eventually(t, func() bool { return len(harness.KeysOfList(t, list)) == 0 }, 20*time.Second, 10*time.Millisecond)
}

// expiryChange is one way to change when a list expires, and the same for a plain list.
type expiryChange struct {
	name    string
	sharded func(ctx context.Context, list *shardedlist.ShardedList) (bool, error)
	plain   func(ctx context.Context, rdb redis.Cmdable, key string) *redis.BoolCmd
}

// Whatever the list's state, the time and the condition, the results and what TTL and its like then say are those of a
// plain list.
func TestExpiryIsThatOfAPlainList(t *testing.T) {
	t.Parallel()
	soon, late := time.Now().Add(time.Hour).Add(123*time.Millisecond), time.Now().Add(1000*time.Hour).Add(700*time.Millisecond)
	var changes []expiryChange
	for _, d := range []time.Duration{-time.Second, 0, 10 * time.Minute, 100 * time.Hour, 90 * 24 * time.Hour} {
		for name, pair := range map[string]struct {
			sharded func(*shardedlist.ShardedList, context.Context, time.Duration) (bool, error)
			plain   func(redis.Cmdable, context.Context, string, time.Duration) *redis.BoolCmd
		}{
			"Expire":   {(*shardedlist.ShardedList).Expire, redis.Cmdable.Expire},
			"ExpireNX": {(*shardedlist.ShardedList).ExpireNX, redis.Cmdable.ExpireNX},
			"ExpireXX": {(*shardedlist.ShardedList).ExpireXX, redis.Cmdable.ExpireXX},
			"ExpireGT": {(*shardedlist.ShardedList).ExpireGT, redis.Cmdable.ExpireGT},
			"ExpireLT": {(*shardedlist.ShardedList).ExpireLT, redis.Cmdable.ExpireLT},
			"PExpire":  {(*shardedlist.ShardedList).PExpire, redis.Cmdable.PExpire},
		} {
			changes = append(changes, expiryChange{
				fmt.Sprint(name, " ", d),
				func(ctx context.Context, list *shardedlist.ShardedList) (bool, error) {
					return pair.sharded(list, ctx, d)
				},
				func(ctx context.Context, rdb redis.Cmdable, key string) *redis.BoolCmd {
					return pair.plain(rdb, ctx, key, d)
				},
			})
		}
	}
	for _, at := range []time.Time{time.Unix(1, 0), {}, soon, late} {
		changes = append(changes,
			expiryChange{
				"ExpireAt " + at.String(),
				func(ctx context.Context, list *shardedlist.ShardedList) (bool, error) { return list.ExpireAt(ctx, at) },
				func(ctx context.Context, rdb redis.Cmdable, key string) *redis.BoolCmd {
					return rdb.ExpireAt(ctx, key, at)
				},
			},
			expiryChange{
				"PExpireAt " + at.String(),
				func(ctx context.Context, list *shardedlist.ShardedList) (bool, error) { return list.PExpireAt(ctx, at) },
				func(ctx context.Context, rdb redis.Cmdable, key string) *redis.BoolCmd {
					return rdb.PExpireAt(ctx, key, at)
				},
			})
	}
	changes = append(changes, expiryChange{
		"Persist",
		func(ctx context.Context, list *shardedlist.ShardedList) (bool, error) { return list.Persist(ctx) },
		func(ctx context.Context, rdb redis.Cmdable, key string) *redis.BoolCmd { return rdb.Persist(ctx, key) },
	})

	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, layout := range []struct {
			name   string
			option shardedlist.Option
		}{{"in one slot", shardedlist.WithCapacity(2)}, {"spread", shardedlist.WithParts(3)}} {
			for _, state := range []string{"none", "lasting", "expiring soon", "expiring late"} {
				for _, change := range changes {
					expiryAsPlain(t, server, rdb, layout.name+", "+state, layout.option, change, soon, late)
				}
			}
		}
	})
}

func expiryAsPlain(t *testing.T, server *redistest.Server, rdb redis.UniversalClient, state string, option shardedlist.Option, change expiryChange, soon, late time.Time) {
	t.Helper()
	if server.Kind() == redistest.Embedded && strings.Contains(change.name, "0001") {
		return // it takes that for the end of time
	}
	what := state + ", " + change.name
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(2), option)
	plain := "plain-" + list.Name()
	if !strings.HasSuffix(state, "none") {
		_, err := list.RPush(t.Context(), 1, 2, 3, 4, 5)
		require.NoError(t, err)
		require.NoError(t, rdb.RPush(t.Context(), plain, 1).Err())
	}
	if at := map[string]time.Time{"soon": soon, "late": late}[state[strings.LastIndex(state, " ")+1:]]; !at.IsZero() {
		_, err := list.PExpireAt(t.Context(), at)
		require.NoError(t, err)
		require.NoError(t, rdb.PExpireAt(t.Context(), plain, at).Err())
	}
	done, err := change.sharded(t.Context(), list)
	require.NoError(t, err, what)
	want, err := change.plain(t.Context(), rdb, plain).Result()
	require.NoError(t, err, what)
	assert.Equal(t, want, done, what)

	exists, err := list.Exists(t.Context())
	require.NoError(t, err)
	assert.Equal(t, rdb.Exists(t.Context(), plain).Val() == 1, exists, what)
	for get, ours := range map[*redis.DurationCmd]func(context.Context) (time.Duration, error){
		rdb.TTL(t.Context(), plain):         list.TTL,
		rdb.PTTL(t.Context(), plain):        list.PTTL,
		rdb.ExpireTime(t.Context(), plain):  list.ExpireTime,
		rdb.PExpireTime(t.Context(), plain): list.PExpireTime,
	} {
		got, err := ours(t.Context())
		require.NoError(t, err, what)
		switch {
		case get.Val() < 0 || server.Kind() != redistest.Embedded && strings.Contains(change.name, "At") && strings.Contains(get.String(), "expiretime"):
			assert.Equal(t, get.Val(), got, "%s %s", what, get.Args()[0])
		default:
			assert.InDelta(t, get.Val(), got, float64(10*time.Second), "%s %s", what, get.Args()[0])
		}
	}
	require.NoError(t, list.Check(t.Context()), what)
	rdb.Del(t.Context(), plain)
	_, err = list.Del(t.Context())
	require.NoError(t, err)
}

func TestTimesThatNothingReaches(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t, redistest.Redis).Client(t)
	list := harness.Filled(t, rdb, 2, 9)
	for _, at := range []time.Time{
		time.UnixMilli(1<<53 - 1), time.UnixMilli(1<<53 + 1), time.UnixMilli(math.MaxInt64 / 2), time.UnixMilli(math.MaxInt64),
	} {
		done, err := list.PExpireAt(t.Context(), at)
		require.NoError(t, err)
		assert.True(t, done)
		reply, err := harness.Bare(harness.OneSlot(list).Lifetime()).Run(t.Context())
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint(at.UnixMilli()), reply.([]any)[0])
		require.NoError(t, list.Check(t.Context()))
	}
	_, err := list.ExpireAt(t.Context(), time.Unix(math.MaxInt64/1000+1, 0))
	assert.ErrorContains(t, err, rdb.ExpireAt(t.Context(), "any", time.Unix(math.MaxInt64/1000+1, 0)).Err().Error())
	done, err := list.Persist(t.Context())
	require.NoError(t, err)
	assert.True(t, done)
}

// To every operation an expired list is a list that does not exist, with nothing in its way.
func TestAnExpiredListIsEmptyForEveryOperation(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for name, operate := range harness.Operations {
			list := harness.Filled(t, rdb, 2, 250)
			done, err := list.PExpire(t.Context(), time.Millisecond)
			require.NoError(t, err)
			require.True(t, done)
			harness.Expired(t, list)
			require.NoError(t, list.Check(t.Context()))
			before := harness.Snapshot(t, list)
			for _, err := range list.All(t.Context()) {
				require.NoError(t, err)
				t.Fatal("an element of an expired list")
			}
			_, err = list.LIndex(t.Context(), 0)
			require.Equal(t, redis.Nil, err)
			values, err := list.LRange(t.Context(), 0, -1)
			require.NoError(t, err)
			require.Empty(t, values)
			_, err = list.Info(t.Context())
			require.NoError(t, err)
			ttl, err := list.TTL(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, -2, ttl)
			require.Equal(t, before, harness.Snapshot(t, list), "what reads does not write")

			fresh := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			wantErr := operate(t.Context(), fresh)
			err = operate(t.Context(), list)
			if wantErr == nil {
				require.NoError(t, err, name)
			} else {
				require.ErrorContains(t, err, "no such key", name)
			}
			require.Equal(t, harness.Content(t, fresh), harness.Content(t, list), name)
			require.NoError(t, list.Check(t.Context()), name)
			assert.Equal(t, ignoreError(fresh.TTL(t.Context())), ignoreError(list.TTL(t.Context())), name)
		}
	})
}

func ignoreError[T any](value T, _ error) T { return value }

// The new list must not take over the shards' old ends of life: Check finds a shard that expires under a list that does not.
func TestAPushOverStaleShardsTakesTheirExpiryAway(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for what, end := range map[string]func(list *shardedlist.ShardedList){
			"expired": func(list *shardedlist.ShardedList) { harness.Expired(t, list) },
			"deleted": func(list *shardedlist.ShardedList) {
				_, err := harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
				require.NoError(t, err)
			},
		} {
			list := harness.Filled(t, server.Client(t), 1, 1000)
			life := time.Hour
			if what == "expired" {
				life = time.Millisecond
			}
			_, err := list.PExpire(t.Context(), life)
			require.NoError(t, err)
			end(list)
			_, err = list.LPush(t.Context(), harness.Numbers(0, 500)...)
			require.NoError(t, err)
			require.NoError(t, list.Check(t.Context()), what)
			assert.Len(t, harness.Content(t, list), 500)
			ttl, err := list.TTL(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, -1, ttl)
		}
	})
}

// A list that has been emptied does not pass its expiry on to the next one.
func TestAnEmptiedListForgetsItsExpiry(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, empty := range map[string]func(ctx context.Context, list *shardedlist.ShardedList) error{
			"lpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
				_, err := list.LPopCount(ctx, 9)
				return err
			},
			"rpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
				_, err := list.RPopCount(ctx, 5)
				return err
			},
			"del": func(ctx context.Context, list *shardedlist.ShardedList) error { _, err := list.Del(ctx); return err },
			"lrem": func(ctx context.Context, list *shardedlist.ShardedList) error {
				for i := 1; i <= 5; i++ {
					if _, err := list.LRem(ctx, 0, i); err != nil {
						return err
					}
				}
				return nil
			},
			"ltrim": func(ctx context.Context, list *shardedlist.ShardedList) error { return list.LTrim(ctx, 1, 0) },
			"lmovem": func(ctx context.Context, list *shardedlist.ShardedList) error {
				_, err := list.LMoveM(ctx, harness.Beside(list), "LEFT", "RIGHT", redis.LMoveMArgs{Count: 9})
				return err
			},
			"lmpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
				_, _, err := shardedlist.LMPop(ctx, "LEFT", 9, list)
				return err
			},
			"blmove": func(ctx context.Context, list *shardedlist.ShardedList) error {
				for range 5 {
					if _, err := list.BLMove(ctx, harness.Beside(list), "LEFT", "LEFT", 0); err != nil {
						return err
					}
				}
				_, err := list.BLMove(ctx, harness.Beside(list), "LEFT", "LEFT", time.Millisecond)
				return harness.IgnoreNil(err)
			},
			"blpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
				for range 5 {
					if _, err := list.BLPop(ctx, 0); err != nil {
						return err
					}
				}
				_, err := list.BLPop(ctx, time.Millisecond)
				return harness.IgnoreNil(err)
			},
		} {
			for _, remains := range []bool{false, true} {
				list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
				if remains {
					_, err := list.RPush(t.Context(), harness.Numbers(0, 2000)...)
					require.NoError(t, err)
					_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
					require.NoError(t, err)
				}
				_, err := list.RPush(t.Context(), 1, 2, 3, 4, 5)
				require.NoError(t, err)
				if remains { // which one step does not sweep, nor does Expire here go on with it
					_, err = harness.Bare(harness.OneSlot(list).Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()})).Run(t.Context())
				} else {
					_, err = list.Expire(t.Context(), time.Hour)
				}
				require.NoError(t, err)
				assert.Equal(t, remains, harness.Client(list).PTTL(t.Context(), harness.Keys(list).Meta).Val() < 0, "meta stays while others do")
				require.NoError(t, empty(t.Context(), list), name)
				_, err = list.RPush(t.Context(), 1)
				require.NoError(t, err)
				ttl, err := list.TTL(t.Context())
				require.NoError(t, err)
				assert.EqualValues(t, -1, ttl, name)
				require.NoError(t, list.Check(t.Context()), name)
			}
		}
	})
}

// A list takes its expiry along to another name, or that it has none, whether the two lists are short or long.
func TestRenameAndCopyTakeTheExpiryAlong(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		for _, source := range []int{1, 3, 9} {
			for _, target := range []int{0, 1, 4, 9, 40} {
				for how := range 8 {
					if server.Kind() == redistest.Embedded && how == 2 && source+target < 7 {
						continue // COPY of miniredis leaves the old expiry
					}
					tag := "{" + harness.UniqueName(t) + "}"
					from, to := harness.OpenList(t, rdb, tag+"from", shardedlist.WithCapacity(3)), harness.OpenList(t, rdb, tag+"to", shardedlist.WithCapacity(3))
					for i, list := range []*shardedlist.ShardedList{from, to} {
						if number := []int{source, target}[i]; number > 0 {
							require.NoError(t, harness.ErrorOf(list.RPush(ctx, harness.Numbers(0, number)...)))
							if how>>i&1 == 1 {
								require.NoError(t, harness.ErrorOf(list.Expire(ctx, time.Duration(1+i)*time.Hour)))
							}
						}
					}
					if how>>2 == 1 {
						require.NoError(t, from.Rename(ctx, to.Name()))
					} else {
						require.NoError(t, harness.ErrorOf(from.Copy(ctx, to.Name(), true)))
					}
					ttl, err := to.TTL(ctx)
					require.NoError(t, err)
					want := time.Duration(-1)
					if how&1 == 1 {
						want, ttl = time.Hour, ttl.Round(time.Minute)
					}
					assert.Equal(t, want, ttl, "%d elements over %d, %b", source, target, how)
					assert.Equal(t, harness.Words(harness.Numbers(0, source)), harness.Content(t, to))
				}
			}
		}
	})
}

// What changes a list in any other way leaves its keys their lives, and gives new shards theirs.
func TestChangesKeepTheExpiry(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, operate := range harness.Operations {
			if strings.Contains(name, "expire") || slices.Contains([]string{"del", "persist", "rename", "lpop all", "ltrim to none"}, name) {
				continue
			}
			list := harness.Filled(t, server.Client(t), 2, 20)
			_, err := list.Expire(t.Context(), time.Hour)
			require.NoError(t, err)
			require.NoError(t, operate(t.Context(), list), name)
			require.NoError(t, list.Check(t.Context()), name)
			ttl, err := list.TTL(t.Context())
			require.NoError(t, err)
			assert.InDelta(t, time.Hour, ttl, float64(time.Minute), name)
			info, err := list.Info(t.Context())
			require.NoError(t, err)
			assert.Zero(t, info.Unswept, name)
			ending := []string{harness.Keys(list).Meta}
			if info.Capacity == 0 {
				ending = []string{list.Name()} // it is short by now
				info.First, info.Last = 0, -1
			}
			for id := info.First; id <= info.Last; id++ {
				ending = append(ending, harness.Shard(list, t.Context(), id))
			}
			for _, key := range ending {
				assert.Positive(t, harness.Client(list).PTTL(t.Context(), key).Val(), "%s: %s", name, key)
			}
		}
	})
}

func TestNothingStaysOfALongListThatExpires(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			list := harness.Filled(t, redistest.Shared(t, kind).Client(t), 10, 100_000)
			_, err := list.LPopCount(t.Context(), 15)
			require.NoError(t, err)
			harness.OneSlot(list).ExpiryGrace = 200 * time.Millisecond
			done, err := list.PExpire(t.Context(), 100*time.Millisecond)
			require.NoError(t, err)
			require.True(t, done)
			keysGone(t, list)
		})
	}
}

func TestAStepOfExpireIsBounded(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.Filled(t, rdb, 10, 100_000)
	most := func(step func()) {
		require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
		step()
		calls := harness.CommandCalls(t, rdb)
		assert.LessOrEqual(t, calls["pexpireat"]+calls["persist"], 102*calls["call"])
	}
	most(func() {
		verdict, err := harness.Bare(harness.OneSlot(list).Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Minute.Milliseconds()})).Run(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, int64(2), verdict)
	})
	most(func() {
		verdict, err := harness.Bare(harness.OneSlot(list).Expire(layout.Expiry{How: layout.ExpireNever, Conditions: "XX"})).Run(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, int64(-1), verdict)
	})
	most(func() {
		done, err := list.Expire(t.Context(), time.Hour)
		require.NoError(t, err)
		require.True(t, done)
	})
	require.NoError(t, list.Check(t.Context()))
	for id := range int64(10_000) {
		require.Positive(t, rdb.PTTL(t.Context(), harness.Shard(list, t.Context(), id)).Val())
	}
	require.Greater(t, rdb.PTTL(t.Context(), harness.Keys(list).Meta).Val(), rdb.PTTL(t.Context(), harness.Shard(list, t.Context(), 5)).Val())
}

// A queue whose expiry is put off with each push must not pay for its length each time.
func TestPuttingOffAgainAndAgainVisitsNoShard(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.Filled(t, rdb, 10, 10_000)
	_, err := list.Expire(t.Context(), time.Hour)
	require.NoError(t, err)
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	for i := range 100 {
		_, err = list.RPush(t.Context(), i)
		require.NoError(t, err)
		done, err := list.Expire(t.Context(), time.Hour+time.Duration(i)*time.Second)
		require.NoError(t, err)
		require.True(t, done)
	}
	calls := harness.CommandCalls(t, rdb)
	assert.Equal(t, 200, calls["call"])
	assert.LessOrEqual(t, calls["pexpireat"], 100+11, "meta's, and those of new shards")
	assert.Zero(t, calls["persist"])
	require.NoError(t, list.Check(t.Context()))
}

// Whoever dies between two steps leaves a list that loses no shard before its time, is empty then, and is swept later.
func TestExpireAndPersistCutShort(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	const length = 400
	sweep := func(t *testing.T, list *shardedlist.ShardedList) {
		harness.Expired(t, list)
		for range 24 {
			_, err := list.LPop(t.Context())
			require.Equal(t, redis.Nil, err)
			require.NoError(t, list.Check(t.Context()))
		}
		assert.Empty(t, harness.KeysOfList(t, list))
	}
	whole := func(t *testing.T, list *shardedlist.ShardedList) {
		require.NoError(t, list.Check(t.Context()))
		require.Len(t, harness.Content(t, list), length)
	}
	step := func(t *testing.T, list *shardedlist.ShardedList, want int64, how layout.ExpiryKind, d time.Duration) {
		verdict, err := harness.Bare(harness.OneSlot(list).Expire(layout.Expiry{How: how, Milliseconds: d.Milliseconds()})).Run(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, verdict)
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		t.Run("expire", func(t *testing.T) {
			list := harness.Filled(t, rdb, 1, length)
			step(t, list, int64(2), layout.ExpireIn, 100*time.Millisecond)
			sweep(t, list)
		})
		t.Run("persist", func(t *testing.T) {
			list := harness.Filled(t, rdb, 1, length)
			_, err := list.PExpire(t.Context(), 6*time.Second)
			require.NoError(t, err)
			step(t, list, int64(-1), layout.ExpireNever, 0)
			step(t, list, int64(-1), layout.ExpireNever, 0)
			whole(t, list)
			ttl, err := list.PTTL(t.Context())
			require.NoError(t, err)
			require.Positive(t, ttl)
			sweep(t, list)
		})
		t.Run("persist, and others go on", func(t *testing.T) {
			list := harness.Filled(t, rdb, 1, length)
			_, err := list.Expire(t.Context(), time.Hour)
			require.NoError(t, err)
			step(t, list, int64(-1), layout.ExpireNever, 0)
			_, err = harness.OneSlot(list).Expire(layout.Expiry{How: oneslot.ContinueExpiry}).Run(t.Context())
			require.NoError(t, err)
			whole(t, list)
			step(t, list, int64(2), layout.ExpireIn, 2*time.Hour)
			whole(t, list)
			done, err := list.Persist(t.Context())
			require.NoError(t, err)
			require.True(t, done)
			whole(t, list)
			require.NotContains(t, harness.Snapshot(t, list)[harness.Keys(list).Meta], "ttl")
		})
		t.Run("put off", func(t *testing.T) {
			list := harness.Filled(t, rdb, 1, length)
			_, err := list.Expire(t.Context(), time.Hour)
			require.NoError(t, err)
			step(t, list, int64(-1), layout.ExpireIn, 100*time.Hour)
			whole(t, list)
			ttl, err := list.TTL(t.Context())
			require.NoError(t, err)
			require.LessOrEqual(t, ttl, time.Hour)
			step(t, list, int64(2), layout.ExpireIn, time.Minute) // brought forward, at once
			whole(t, list)
			step(t, list, int64(-1), layout.ExpireIn, 100*time.Hour)
			_, err = list.LPush(t.Context(), "new")
			require.NoError(t, err)
			_, err = list.LPop(t.Context())
			require.NoError(t, err)
			done, err := list.Expire(t.Context(), 100*time.Hour)
			require.NoError(t, err)
			require.True(t, done)
			whole(t, list)
			done, err = list.PExpire(t.Context(), time.Millisecond)
			require.NoError(t, err)
			require.True(t, done)
			sweep(t, list)
		})
	})
}

// Clients that set different times at once do not keep each other from it.
func TestManySetTheExpiryAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.Filled(t, server.Client(t), 1, 600)
		done := make(chan error)
		for i := range 6 {
			rdb := server.Client(t)
			go func() {
				var err error
				other, _ := shardedlist.New(rdb, list.Name())
				for k := range 5 {
					switch (i + k) % 3 {
					case 0:
						_, err = other.Persist(context.Background())
					default:
						_, err = other.Expire(context.Background(), time.Duration(k+1)*time.Duration(i+1)*time.Hour)
					}
					if err != nil {
						break
					}
				}
				done <- err
			}()
		}
		for range 6 {
			require.NoError(t, <-done)
		}
		require.NoError(t, list.Check(t.Context()))
		require.Len(t, harness.Content(t, list), 600)
	})
}

func TestExpiryOutlivesARestart(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "appendonly yes", "appendfsync always")
			list := harness.Filled(t, server.Client(t), 3, 1000)
			at := time.Now().Add(time.Hour).Truncate(time.Millisecond)
			_, err := list.PExpireAt(t.Context(), at)
			require.NoError(t, err)
			server.Restart(t)
			expires, err := list.PExpireTime(t.Context())
			require.NoError(t, err)
			assert.EqualValues(t, at.UnixMilli(), expires/time.Millisecond)
			assert.Len(t, harness.Content(t, list), 1000)
			require.NoError(t, list.Check(t.Context()))
			_, err = list.PExpire(t.Context(), time.Millisecond)
			require.NoError(t, err)
			harness.Expired(t, list)
			server.Restart(t)
			assert.Empty(t, harness.Content(t, list))
			_, err = list.LPush(t.Context(), "new")
			require.NoError(t, err)
			server.Restart(t)
			assert.Equal(t, []string{"new"}, harness.Content(t, list))
		})
	}
}

// On a full server an expired list is as empty as elsewhere, what takes out and what sets an expiry works, and a push fails.
func TestExpiryWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t)
			list, pushed, long := harness.Filled(t, rdb, 2, 500), harness.Filled(t, rdb, 2, 500), harness.Filled(t, rdb, 2, 500)
			harness.OneSlot(list).ExpiryGrace = 200 * time.Millisecond // if PExpire is faster than the expiry, the server deletes the shards
			for _, l := range []*shardedlist.ShardedList{list, pushed} {
				_, err := l.PExpire(t.Context(), time.Millisecond)
				require.NoError(t, err)
				harness.Expired(t, l)
			}
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())

			before := harness.Snapshot(t, pushed)
			for name, operate := range harness.Operations {
				if strings.Contains(name, "push") {
					assert.ErrorContains(t, operate(t.Context(), pushed), "OOM", name)
				}
			}
			assert.Equal(t, before, harness.Snapshot(t, pushed))
			for _, pop := range []func(context.Context) (string, error){list.LPop, list.RPop, list.LPop, list.RPop} {
				_, err := pop(t.Context())
				assert.Equal(t, redis.Nil, err)
			}
			keysGone(t, list)

			for _, change := range []func() (bool, error){
				func() (bool, error) { return long.Expire(t.Context(), time.Hour) },
				func() (bool, error) { return long.Expire(t.Context(), 50*time.Hour) },
				func() (bool, error) { return long.Persist(t.Context()) },
			} {
				done, err := change()
				require.NoError(t, err)
				assert.True(t, done)
				require.NoError(t, long.Check(t.Context()))
			}
			_, err := harness.Bare(harness.OneSlot(long).Expire(layout.Expiry{How: oneslot.ContinueExpiry})).Run(t.Context()) // finds nothing to do
			require.NoError(t, err)
			done, err := long.ExpireNX(t.Context(), 0)
			require.NoError(t, err)
			assert.True(t, done)
			assert.Empty(t, harness.KeysOfList(t, long))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		})
	}
}

// Any sequence of operations, in which lists get and lose their expiry, against plain lists; shards are never at variance.
func TestExpiryModel(t *testing.T) {
	t.Parallel()
	steps := redistest.Times(20, 60)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		tag := harness.UniqueName(t)
		names := []string{"{" + tag + "}a", "{" + tag + "}b", "{" + tag + "}c"}
		lists := make([]*shardedlist.ShardedList, len(names))
		plain := func(i int) string { return "{" + tag + "}plain:" + fmt.Sprint(i) }
		for i, name := range names {
			lists[i] = harness.OpenList(t, rdb, name, shardedlist.WithCapacity(i+1))
		}
		random := rand.New(rand.NewPCG(1, 2))
		for step := range steps {
			i, k := random.IntN(len(names)), random.IntN(len(names))
			list, key, what := lists[i], plain(i), ""
			var got, want any
			var err error
			switch random.IntN(22) {
			case 0, 1:
				values := harness.Numbers(step*1000, step*1000+1+random.IntN(5)*random.IntN(80))
				got, err = list.LPush(t.Context(), values...)
				what, want = "lpush", rdb.LPush(t.Context(), key, values...).Val()
			case 2, 3:
				values := harness.Numbers(step*1000, step*1000+1+random.IntN(5)*random.IntN(80))
				got, err = list.RPush(t.Context(), values...)
				what, want = "rpush", rdb.RPush(t.Context(), key, values...).Val()
			case 4:
				count := 1 + random.IntN(300)
				got, err = list.LPopCount(t.Context(), count)
				what, want, err = "lpop", rdb.LPopCount(t.Context(), key, count).Val(), harness.IgnoreNil(err)
			case 5:
				count := 1 + random.IntN(300)
				got, err = list.RPopCount(t.Context(), count)
				what, want, err = "rpop", rdb.RPopCount(t.Context(), key, count).Val(), harness.IgnoreNil(err)
			case 6, 7, 8:
				d := time.Hour * time.Duration(1+random.IntN(100))
				got, err = list.Expire(t.Context(), d)
				what, want = "expire", rdb.Expire(t.Context(), key, d).Val()
			case 9:
				got, err = list.Persist(t.Context())
				what, want = "persist", rdb.Persist(t.Context(), key).Val()
			case 10:
				got, err = list.ExpireXX(t.Context(), 0)
				what, want = "expire in the past", rdb.ExpireXX(t.Context(), key, 0).Val()
			case 11, 12:
				replace := random.IntN(2) == 0
				if i == k {
					continue
				}
				got, err = list.Copy(t.Context(), names[k], replace)
				what, want = "copy", rdb.Copy(t.Context(), key, plain(k), 0, replace).Val() == 1
			case 14, 15:
				pivot := rdb.LIndex(t.Context(), key, int64(random.IntN(200))).Val()
				got, err = list.LInsertAfter(t.Context(), pivot, step)
				what, want = "linsert", rdb.LInsertAfter(t.Context(), key, pivot, step).Val()
			case 16:
				value := rdb.LIndex(t.Context(), key, int64(random.IntN(3))).Val()
				got, err = list.LRem(t.Context(), 0, value)
				what, want = "lrem", rdb.LRem(t.Context(), key, 0, value).Val()
			case 17:
				start, stop := int64(random.IntN(20)), int64(-random.IntN(20))
				what, err = "ltrim", list.LTrim(t.Context(), start, stop)
				rdb.LTrim(t.Context(), key, start, stop)
			case 18, 19:
				what, want = "lmove", ""
				for range random.IntN(12) {
					want = rdb.LMove(t.Context(), key, plain(k), "LEFT", "RIGHT").Val()
					got, err = list.LMove(t.Context(), lists[k], "LEFT", "RIGHT")
					require.Equal(t, want, got)
					err = harness.IgnoreNil(err)
				}
				got = want
			case 13, 20, 21:
				what, err = "rename", list.Rename(t.Context(), names[k])
				if wantErr := rdb.Rename(t.Context(), key, plain(k)).Err(); wantErr != nil {
					require.ErrorContains(t, err, wantErr.Error())
					err = nil
				}
			}
			require.NoError(t, err, what)
			require.Equal(t, want, got, what)
			for n, l := range lists {
				require.Equal(t, rdb.LRange(t.Context(), plain(n), 0, -1).Val(), harness.Content(t, l), what)
				require.NoError(t, l.Check(t.Context()), what)
				ttl, err := l.TTL(t.Context())
				require.NoError(t, err)
				require.InDelta(t, rdb.TTL(t.Context(), plain(n)).Val(), ttl, float64(time.Minute), what)
				require.Equal(t, rdb.TTL(t.Context(), plain(n)).Val() < 0, ttl < 0, what)
			}
		}
		for n, l := range lists {
			rdb.Del(t.Context(), plain(n))
			_, err := l.Del(t.Context())
			require.NoError(t, err)
		}
		for _, l := range lists {
			assert.Empty(t, harness.KeysOfList(t, l), "no shard is left under a former name")
		}
	})
}

func TestCheckNamesEveryBreachOfAnExpiry(t *testing.T) {
	t.Parallel()
	breaches := map[string]func(ctx context.Context, rdb redis.UniversalClient, list *shardedlist.ShardedList){
		"shard 1 expires before the list": func(ctx context.Context, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Expire(ctx, harness.Shard(list, ctx, 1), time.Minute)
		},
		"shard 1 never expires, the list does": func(ctx context.Context, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Persist(ctx, harness.Shard(list, ctx, 1))
		},
		"shard 1 expires after meta": func(ctx context.Context, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.Expire(ctx, harness.Shard(list, ctx, 1), 1000*time.Hour)
		},
		"the meta of a list with elements expires": func(ctx context.Context, rdb redis.UniversalClient, list *shardedlist.ShardedList) {
			rdb.HSet(ctx, harness.Keys(list).Meta, "walk", 1)
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for words, breach := range breaches {
			list, err := shardedlist.New(rdb, harness.UniqueName(t), shardedlist.WithCapacity(3))
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), harness.Numbers(0, 11)...)
			require.NoError(t, err)
			_, err = list.Expire(t.Context(), time.Hour)
			require.NoError(t, err)
			require.NoError(t, list.Check(t.Context()))
			breach(t.Context(), rdb, list)
			assert.ErrorContains(t, list.Check(t.Context()), words)
		}
	})
}
