package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRenameAndCopyAreThoseOfPlainLists(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		all := redistest.Long() && server.Kind() == redistest.Redis
		for _, restored := range []string{"", "from", "to", "from and to"} {
			for _, command := range []string{"rename", "renamenx", "copy", "copy replace"} {
				for _, length := range []int{0, 1, 7, 300} {
					for _, other := range []int{0, 1, 200} {
						if (restored != "" || !all) && (length == 1 || other == 1) || restored != "" && length == 7 && !all {
							continue // as longer ones
						}
						compareTransfer(t, rdb, command, length, other, restored)
					}
				}
			}
		}
	})
}

// compareTransfer carries out a command of RENAME's kind on two lists and on two plain lists, of the same lengths.
func compareTransfer(t *testing.T, rdb redis.UniversalClient, command string, length, other int, restored string) {
	from, to := harness.Pair(t, rdb, length)
	plain := from.Name()[:strings.Index(from.Name(), "}")+1] + "plain"
	what := fmt.Sprintf("%s of %d onto %d, restored: %q", command, length, other, restored)
	if length > 0 {
		require.NoError(t, rdb.RPush(t.Context(), plain+"from", harness.Numbers(0, length)...).Err())
		require.NoError(t, rdb.Expire(t.Context(), plain+"from", time.Hour).Err())
		_, err := from.Expire(t.Context(), time.Hour)
		require.NoError(t, err)
	}
	if other > 0 {
		require.NoError(t, rdb.RPush(t.Context(), plain+"to", harness.Numbers(0, other)...).Err())
		_, err := to.RPush(t.Context(), harness.Numbers(0, other)...)
		require.NoError(t, err)
		_, err = to.RPop(t.Context())
		require.NoError(t, err)
		require.NoError(t, rdb.RPop(t.Context(), plain+"to").Err())
	}
	for end, list := range map[string]*shardedlist.ShardedList{"from": from, "to": to} {
		if strings.Contains(restored, end) {
			require.NoError(t, list.Restore(t.Context(), nil))
		}
	}
	var got, want bool
	var err, wantErr error
	switch command {
	case "rename":
		err, wantErr = from.Rename(t.Context(), to.Name()), rdb.Rename(t.Context(), plain+"from", plain+"to").Err()
	case "renamenx":
		got, err = from.RenameNX(t.Context(), to.Name())
		want, wantErr = rdb.RenameNX(t.Context(), plain+"from", plain+"to").Result()
	default:
		got, err = from.Copy(t.Context(), to.Name(), command != "copy")
		n, nErr := rdb.Copy(t.Context(), plain+"from", plain+"to", 0, command != "copy").Result()
		want, wantErr = n == 1, nErr
	}
	if wantErr != nil {
		require.ErrorContains(t, err, wantErr.Error(), what)
	} else {
		require.NoError(t, err, what)
	}
	assert.Equal(t, want, got, what)
	for end, list := range map[string]*shardedlist.ShardedList{"from": from, "to": to} {
		wantValues := rdb.LRange(t.Context(), plain+end, 0, -1).Val()
		assert.Equal(t, wantValues, harness.Content(t, list), "%s: %s", what, end)
		if strings.Contains(restored, end) {
			assert.Equal(t, wantValues, rdb.LRange(t.Context(), list.Name(), 0, -1).Val(), "%s: %s", what, end)
		} else if info, err := list.Info(t.Context()); assert.NoError(t, err) && info.Capacity > 0 {
			assert.Zero(t, rdb.Exists(t.Context(), list.Name()).Val(), "%s: %s", what, end)
		}
		ttl, err := list.TTL(t.Context())
		require.NoError(t, err)
		wantTTL := rdb.TTL(t.Context(), plain+end).Val()
		assert.InDelta(t, wantTTL, ttl, float64(time.Minute), "%s: %s", what, end)
		assert.Equal(t, wantTTL < 0, ttl < 0)
		require.NoError(t, list.Check(t.Context()))
		info, err := list.Info(t.Context())
		require.NoError(t, err)
		assert.Zero(t, info.Unswept)
		assert.Equal(t, strings.Contains(restored, end), info.Restored, "%s: that a list is restored belongs to its name: %s", what, end)
		kind, err := list.Type(t.Context())
		require.NoError(t, err)
		assert.Equal(t, rdb.Type(t.Context(), plain+end).Val(), kind)
		if kind != "none" { // and it goes on
			_, err = list.RPush(t.Context(), 1, 2, 3, 4, 5)
			require.NoError(t, err)
			_, err = list.LPush(t.Context(), 1, 2, 3, 4, 5)
			require.NoError(t, err)
			require.NoError(t, list.Check(t.Context()))
		} else if !info.Restored {
			assert.Empty(t, harness.KeysOfList(t, list), what)
		}
		rdb.Del(t.Context(), plain+end)
	}
}

func TestRenameOntoItself(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		from, _ := harness.Pair(t, server.Client(t), 5)
		require.NoError(t, from.Rename(t.Context(), from.Name()))
		done, err := from.RenameNX(t.Context(), from.Name())
		require.NoError(t, err)
		assert.False(t, done)
		_, err = from.Copy(t.Context(), from.Name(), true)
		assert.ErrorContains(t, err, "ERR source and destination objects are the same")
		assert.Len(t, harness.Content(t, from), 5)

		_, err = from.Del(t.Context())
		require.NoError(t, err)
		assert.True(t, redis.HasErrorPrefix(from.Rename(t.Context(), from.Name()), "no such key"))
		_, err = from.RenameNX(t.Context(), from.Name())
		assert.ErrorContains(t, err, "ERR no such key")
		assert.ErrorIs(t, from.Rename(t.Context(), ""), shardedlist.ErrEmptyName)
	})
}

// A Del that was cut short has left shards under both names. The renamed ones must keep clear of them.
func TestRenameAndCopyAmongStaleShards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, renames := range []bool{true, false} {
			for _, taken := range []int{0, 4} {
				from, to := harness.Pair(t, server.Client(t), 1000)
				_, err := to.RPush(t.Context(), harness.Numbers(0, 1500)...)
				require.NoError(t, err)
				for _, list := range []*shardedlist.ShardedList{from, to} {
					_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
					require.NoError(t, err)
				}
				_, err = from.LPush(t.Context(), harness.Numbers(0, 30)...)
				require.NoError(t, err)
				_, err = harness.Bare(harness.OneSlot(from).Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()})).Run(t.Context()) // there are more to sweep after it
				require.NoError(t, err)
				if taken > 0 {
					_, err = to.LPush(t.Context(), harness.Numbers(0, taken)...)
					require.NoError(t, err)
				}
				want := harness.Content(t, from)
				if renames {
					require.NoError(t, from.Rename(t.Context(), to.Name()))
				} else {
					done, err := from.Copy(t.Context(), to.Name(), true)
					require.NoError(t, err)
					require.True(t, done)
				}
				assert.Equal(t, want, harness.Content(t, to))
				info, err := to.Info(t.Context())
				require.NoError(t, err)
				assert.Zero(t, info.Unswept)
				assert.Len(t, harness.KeysOfList(t, to), int(info.Shards)+1)
				require.NoError(t, from.Check(t.Context()))
				for range 60 {
					_, err = from.RPop(t.Context())
					require.NoError(t, harness.IgnoreNil(err))
					require.NoError(t, from.Check(t.Context()))
				}
			}
		}
	})
}

func TestRenameAndCopyWakeWhoWaitsForTheNewName(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, renames := range []bool{true, false} {
			from, to := harness.Pair(t, server.Client(t), 5)
			result := harness.BlockingPop(t, to, t.Context(), 0)
			harness.Blocked(t, to)
			if renames {
				require.NoError(t, from.Rename(t.Context(), to.Name()))
			} else {
				_, err := from.Copy(t.Context(), to.Name(), false)
				require.NoError(t, err)
			}
			assert.Equal(t, harness.Got("0"), <-result)
			if renames { // and who waits for the old one goes on waiting
				result = harness.BlockingPop(t, from, t.Context(), 0)
				harness.Blocked(t, from)
				require.NoError(t, to.Rename(t.Context(), from.Name()))
				assert.Equal(t, harness.Got("1"), <-result)
				result = harness.BlockingPop(t, to, t.Context(), 0)
				harness.Blocked(t, to)
				_, err := to.RPush(t.Context(), "again")
				require.NoError(t, err)
				assert.Equal(t, harness.Got("again"), <-result)
			}
			_, err := from.Del(t.Context())
			require.NoError(t, err)
		}
	})
}

// Who waits and is not woken would look again by itself in a while. So look at the bell.
func TestRenameAndCopyRing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, command := range harness.Transfers {
			from, to := harness.Pair(t, server.Client(t), 5)
			harness.Arm(t, to)
			require.Zero(t, harness.Client(to).LLen(t.Context(), harness.Keys(to).Bell).Val())
			require.NoError(t, command(t.Context(), from, to))
			assert.EqualValues(t, 1, harness.Client(to).LLen(t.Context(), harness.Keys(to).Bell).Val())
		}
	})
}

// An Expire that was cut short goes on under the other name.
func TestRenameAndCopyTakeAnUnfinishedExpireAlong(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, command := range harness.Transfers {
			from, to := harness.Pair(t, server.Client(t), 2000)
			_, err := from.LPopCount(t.Context(), 1000)
			require.NoError(t, err)
			_, err = harness.Bare(harness.OneSlot(from).Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()})).Run(t.Context())
			require.NoError(t, err)
			require.NoError(t, command(t.Context(), from, to))
			require.NoError(t, to.Check(t.Context()))
			assert.NotContains(t, harness.Snapshot(t, to)[harness.Keys(to).Meta], "walk")
			assert.Positive(t, harness.Client(to).PTTL(t.Context(), harness.Keys(to).Meta).Val())
		}
	})
}

// What the server does in a Rename does not depend on the number of shards, whether they expire or not.
func TestRenameTakesTheSameCallsForAnyLength(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t).(*redis.Client)
			for name, prepare := range map[string]func(t *testing.T, from, to *shardedlist.ShardedList){
				"plain": func(*testing.T, *shardedlist.ShardedList, *shardedlist.ShardedList) {},
				"expiring": func(t *testing.T, from, _ *shardedlist.ShardedList) {
					_, err := from.Expire(t.Context(), time.Hour)
					require.NoError(t, err)
				},
				"onto another list": func(t *testing.T, _, to *shardedlist.ShardedList) {
					_, err := to.RPush(t.Context(), "replaced", "as", "well")
					require.NoError(t, err)
				},
			} {
				calls := map[int]map[string]int{}
				for _, shards := range []int{10, 10, 5000} { // once to load the scripts
					tag := "{" + harness.UniqueName(t) + "}"
					from, to := harness.OpenList(t, rdb, tag+"from", shardedlist.WithCapacity(2), shardedlist.WithoutExactlyOnce()), harness.OpenList(t, rdb, tag+"to", shardedlist.WithCapacity(2))
					_, err := from.RPush(t.Context(), harness.Numbers(0, 2*shards)...)
					require.NoError(t, err)
					prepare(t, from, to)
					require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
					require.NoError(t, from.Rename(t.Context(), to.Name()))
					calls[shards] = harness.CommandCalls(t, rdb)
					info, err := to.Info(t.Context())
					require.NoError(t, err)
					require.EqualValues(t, shards, info.Shards)
				}
				assert.Equal(t, 1, calls[10]["rename"], name)
				assert.Equal(t, calls[10], calls[5000], name)
			}
		})
	}
}

// A list that has been renamed keeps its shards where they are. New lists of the old name must not meet them, not even if they are
// created in the same transaction, in which the server's clock may stand still.
func TestNewListsOfTheOldNameKeepClearOfRenamedOnes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, options := range [][]shardedlist.Option{{shardedlist.WithCapacity(2)}, {shardedlist.WithCapacity(2), shardedlist.WithoutExactlyOnce()}} {
			rdb, tag := server.Client(t), "{"+harness.UniqueName(t)+"}"
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(tag+"*"), options...))
			const lists = 5
			for _, run := range []func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){rdb.Pipelined, rdb.TxPipelined} {
				cmds, err := run(t.Context(), func(p redis.Pipeliner) error {
					for i := range lists {
						p.RPush(t.Context(), tag+"new", harness.Numbers(10*i, 10*i+10)...)
						p.LPopCount(t.Context(), tag+"new", i) // not all have their first shard
						p.Rename(t.Context(), tag+"new", fmt.Sprint(tag, i))
					}
					p.RPush(t.Context(), tag+"new", "newest")
					return nil
				})
				require.NoError(t, err)
				require.Len(t, cmds, 3*lists+1)
				for i := range lists {
					assert.Equal(t, harness.Words(harness.Numbers(11*i, 10*i+10)), rdb.LRange(t.Context(), fmt.Sprint(tag, i), 0, -1).Val())
					require.NoError(t, harness.OpenList(t, server.Client(t), fmt.Sprint(tag, i)).Check(t.Context()))
				}
				assert.Equal(t, []string{"newest"}, rdb.LRange(t.Context(), tag+"new", 0, -1).Val())
				for i := range lists {
					require.NoError(t, rdb.Del(t.Context(), fmt.Sprint(tag, i)).Err())
				}
				require.NoError(t, rdb.Del(t.Context(), tag+"new").Err())
			}
			assert.Empty(t, harness.KeysOfList(t, harness.OpenList(t, server.Client(t), tag+"new")))
		}
	})
}

// Without numbers go-redis may send a push twice. If the list that it created has been renamed in between, that is another list.
func TestAPushSentTwiceKeepsClearOfARenamedList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		tag := "{" + harness.UniqueName(t) + "}"
		rdb, sent := server.Client(t), &lastScript{}
		rdb.AddHook(sent)
		from, to := harness.OpenList(t, rdb, tag+"from", shardedlist.WithCapacity(2), shardedlist.WithoutExactlyOnce()), harness.OpenList(t, rdb, tag+"to")
		_, err := from.RPush(t.Context(), 1, 2, 3)
		require.NoError(t, err)
		push := sent.args
		_, err = from.LPopCount(t.Context(), 2)
		require.NoError(t, err)
		require.NoError(t, from.Rename(t.Context(), to.Name()))
		require.NoError(t, server.Client(t).Do(t.Context(), push...).Err())
		assert.Equal(t, []string{"3"}, harness.Content(t, to))
		assert.Equal(t, []string{"1", "2", "3"}, harness.Content(t, from))
	})
}

// lastScript is a hook that keeps the words of the last script.
type lastScript struct{ args []any }

func (*lastScript) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*lastScript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (l *lastScript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if redistest.IsCall(cmd.Name()) {
			l.args = slices.Clone(cmd.Args())
		}
		return next(ctx, cmd)
	}
}

// Readers and poppers see the list under one name or the other, whole.
func TestRenameIsAtomic(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		from, to := harness.Pair(t, server.Client(t), 40)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				if from.Rename(context.Background(), to.Name()) == nil {
					_ = to.Rename(context.Background(), from.Name())
				}
			}
		}()
		for range 100 {
			for _, list := range []*shardedlist.ShardedList{from, to} {
				values, err := list.LRange(t.Context(), 0, -1)
				require.NoError(t, err)
				require.Contains(t, []int{0, 40}, len(values))
			}
		}
		stop()
		<-done
		require.NoError(t, from.Check(t.Context()))
	})
}

func TestNamesOfTwoSlotsAreAnErrorWithNothingSent(t *testing.T) {
	t.Parallel()
	rdb := redistest.Shared(t, redistest.Cluster).Client(t)
	list := harness.Filled(t, rdb, 2, 5)
	plain := "plain-" + list.Name()
	want := rdb.Rename(t.Context(), plain, "other").Err()
	before := harness.Snapshot(t, list)
	_, errNX := list.RenameNX(t.Context(), "other")
	_, errCopy := list.Copy(t.Context(), "other", true)
	for _, err := range []error{list.Rename(t.Context(), "other"), errNX, errCopy} {
		assert.ErrorContains(t, err, want.Error())
		assert.True(t, redis.HasErrorPrefix(err, "CROSSSLOT"))
	}
	assert.Equal(t, before, harness.Snapshot(t, list))
}

func TestRenameAndCopyWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t)
			from, to := harness.Pair(t, rdb, 500)
			_, err := to.RPush(t.Context(), harness.Numbers(0, 10)...)
			require.NoError(t, err)
			_, err = to.PExpire(t.Context(), time.Millisecond)
			require.NoError(t, err)
			harness.Expired(t, to)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			before, beforeTo := harness.Snapshot(t, from), harness.Snapshot(t, to)
			_, err = from.Copy(t.Context(), to.Name(), true)
			assert.ErrorContains(t, err, "OOM")
			assert.Equal(t, before, harness.Snapshot(t, from))
			assert.Equal(t, beforeTo, harness.Snapshot(t, to))
			require.NoError(t, from.Rename(t.Context(), to.Name()))
			assert.Len(t, harness.Content(t, to), 500)
			assert.Empty(t, harness.KeysOfList(t, from))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		})
	}
}

// What is not the same when it is done twice is done once, also when replies are lost.
func TestRenameAndExpireOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for name, fault := range harness.Faults {
		if fault.Delay > 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
			sound, _ := harness.Pair(t, server.Client(t), 5)
			from, to := harness.OpenList(t, server.Client(t, harness.Through(proxy)), sound.Name()), sound.Name()[:len(sound.Name())-len("from")]+"to"
			back := harness.OpenList(t, harness.Client(from), to)
			ctx, cancel := context.WithTimeout(t.Context(), harness.FaultPatience())
			defer cancel()
			struck := harness.Strikes(proxy)
			proxy.Set(fault)
			for i := 0; (i < 20 || !struck()) && ctx.Err() == nil; i++ {
				for i, change := range []func(context.Context) (bool, error){
					func(ctx context.Context) (bool, error) { return from.RenameNX(ctx, to) },
					func(ctx context.Context) (bool, error) { return back.ExpireNX(ctx, time.Hour) },
					func(ctx context.Context) (bool, error) { return back.Persist(ctx) },
					func(ctx context.Context) (bool, error) { return back.Copy(ctx, from.Name(), false) },
					func(ctx context.Context) (bool, error) { return back.ExpireXX(ctx, 0) },
					func(ctx context.Context) (bool, error) { return back.ExpireNX(ctx, 0) },
				} {
					done, err := change(ctx)
					require.NoError(t, err)
					require.Equal(t, i != 4, done, "only a list that does not expire is left as it is")
				}
			}
			proxy.Set(redistest.Faults{})
			assert.Len(t, harness.Content(t, sound), 5)
		})
	}
}
