package shardedlist

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// pair are two lists of one slot, the first with some elements.
func pair(t testing.TB, rdb redis.UniversalClient, length int) (from, to *ShardedList) {
	t.Helper()
	tag := "{" + uniqueName(t) + "}"
	from, to = openList(t, rdb, tag+"from", WithCapacity(2)), openList(t, rdb, tag+"to", WithCapacity(3))
	if length > 0 {
		_, err := from.RPush(t.Context(), numbers(0, length)...)
		require.NoError(t, err)
	}
	return from, to
}

func TestRenameAndCopyAreThoseOfPlainLists(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for _, command := range []string{"rename", "renamenx", "copy", "copy replace"} {
			for _, length := range []int{0, 1, 7, 300} {
				for _, other := range []int{0, 1, 500} {
					from, to := pair(t, rdb, length)
					plain := from.Name()[:strings.Index(from.Name(), "}")+1] + "plain"
					if length > 0 {
						require.NoError(t, rdb.RPush(t.Context(), plain+"from", numbers(0, length)...).Err())
						require.NoError(t, rdb.Expire(t.Context(), plain+"from", time.Hour).Err())
						_, err := from.Expire(t.Context(), time.Hour)
						require.NoError(t, err)
					}
					if other > 0 {
						require.NoError(t, rdb.RPush(t.Context(), plain+"to", numbers(0, other)...).Err())
						_, err := to.RPush(t.Context(), numbers(0, other)...)
						require.NoError(t, err)
						_, err = to.RPop(t.Context())
						require.NoError(t, err)
						require.NoError(t, rdb.RPop(t.Context(), plain+"to").Err())
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
						assert.ErrorContains(t, err, wantErr.Error())
					} else {
						require.NoError(t, err)
					}
					assert.Equal(t, want, got, "%s of %d onto %d", command, length, other)
					for end, list := range map[string]*ShardedList{"from": from, "to": to} {
						assert.Equal(t, rdb.LRange(t.Context(), plain+end, 0, -1).Val(), content(t, list), "%s of %d onto %d: %s", command, length, other, end)
						ttl, err := list.TTL(t.Context())
						require.NoError(t, err)
						wantTTL := rdb.TTL(t.Context(), plain+end).Val()
						assert.InDelta(t, wantTTL, ttl, float64(time.Minute))
						assert.Equal(t, wantTTL < 0, ttl < 0)
						require.NoError(t, list.Check(t.Context()))
						info, err := list.Info(t.Context())
						require.NoError(t, err)
						assert.Zero(t, info.Unswept)
						kind, err := list.Type(t.Context())
						require.NoError(t, err)
						assert.Equal(t, rdb.Type(t.Context(), plain+end).Val(), kind)
						if kind == "none" {
							assert.Empty(t, keysOfList(t, list))
						} else { // and it goes on
							_, err = list.RPush(t.Context(), 1, 2, 3, 4, 5)
							require.NoError(t, err)
							_, err = list.LPush(t.Context(), 1, 2, 3, 4, 5)
							require.NoError(t, err)
							require.NoError(t, list.Check(t.Context()))
						}
						rdb.Del(t.Context(), plain+end)
					}
				}
			}
		}
	})
}

func TestRenameOntoItself(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		from, _ := pair(t, server.Client(t), 5)
		require.NoError(t, from.Rename(t.Context(), from.Name()))
		done, err := from.RenameNX(t.Context(), from.Name())
		require.NoError(t, err)
		assert.False(t, done)
		_, err = from.Copy(t.Context(), from.Name(), true)
		assert.ErrorContains(t, err, "ERR source and destination objects are the same")
		assert.Len(t, content(t, from), 5)

		_, err = from.Del(t.Context())
		require.NoError(t, err)
		assert.True(t, redis.HasErrorPrefix(from.Rename(t.Context(), from.Name()), "no such key"))
		_, err = from.RenameNX(t.Context(), from.Name())
		assert.ErrorContains(t, err, "ERR no such key")
		assert.ErrorIs(t, from.Rename(t.Context(), ""), ErrEmptyName)
	})
}

// A Del that was cut short has left shards under both names. The renamed ones must keep clear of them.
func TestRenameAndCopyAmongStaleShards(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, renames := range []bool{true, false} {
			for _, taken := range []int{0, 4} {
				from, to := pair(t, server.Client(t), 1000)
				_, err := to.RPush(t.Context(), numbers(0, 1500)...)
				require.NoError(t, err)
				for _, list := range []*ShardedList{from, to} {
					_, err = bare(list.slot().Delete()).Run(t.Context())
					require.NoError(t, err)
				}
				_, err = from.LPush(t.Context(), numbers(0, 30)...)
				require.NoError(t, err)
				_, err = bare(from.slot().Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()})).Run(t.Context()) // there are more to sweep after it
				require.NoError(t, err)
				if taken > 0 {
					_, err = to.LPush(t.Context(), numbers(0, taken)...)
					require.NoError(t, err)
				}
				want := content(t, from)
				if renames {
					require.NoError(t, from.Rename(t.Context(), to.Name()))
				} else {
					done, err := from.Copy(t.Context(), to.Name(), true)
					require.NoError(t, err)
					require.True(t, done)
				}
				assert.Equal(t, want, content(t, to))
				info, err := to.Info(t.Context())
				require.NoError(t, err)
				assert.Zero(t, info.Unswept)
				assert.Len(t, keysOfList(t, to), int(info.Shards)+1)
				require.NoError(t, from.Check(t.Context()))
				for range 10 {
					_, err = from.RPop(t.Context())
					require.NoError(t, ignoreNil(err))
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
			from, to := pair(t, server.Client(t), 5)
			result := blockingPop(t, to, t.Context(), 0)
			blocked(t, to)
			if renames {
				require.NoError(t, from.Rename(t.Context(), to.Name()))
			} else {
				_, err := from.Copy(t.Context(), to.Name(), false)
				require.NoError(t, err)
			}
			assert.Equal(t, popped{"0", nil}, <-result)
			if renames { // and who waits for the old one goes on waiting
				result = blockingPop(t, from, t.Context(), 0)
				blocked(t, from)
				require.NoError(t, to.Rename(t.Context(), from.Name()))
				assert.Equal(t, popped{"1", nil}, <-result)
				result = blockingPop(t, to, t.Context(), 0)
				blocked(t, to)
				_, err := to.RPush(t.Context(), "again")
				require.NoError(t, err)
				assert.Equal(t, popped{"again", nil}, <-result)
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
		for _, command := range []layout.Transfer{layout.Rename, layout.Copy} {
			from, to := pair(t, server.Client(t), 5)
			arm(t, to)
			require.Zero(t, to.rdb().LLen(t.Context(), to.keys().Bell).Val())
			_, err := from.transfer(t.Context(), command, to.Name(), true)
			require.NoError(t, err)
			assert.EqualValues(t, 1, to.rdb().LLen(t.Context(), to.keys().Bell).Val())
		}
	})
}

// An Expire that was cut short goes on under the other name.
func TestRenameAndCopyTakeAnUnfinishedExpireAlong(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, command := range []layout.Transfer{layout.Copy, layout.Rename} {
			from, to := pair(t, server.Client(t), 2000)
			_, err := from.LPopCount(t.Context(), 1000)
			require.NoError(t, err)
			_, err = bare(from.slot().Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()})).Run(t.Context())
			require.NoError(t, err)
			_, err = from.transfer(t.Context(), command, to.Name(), true)
			require.NoError(t, err)
			require.NoError(t, to.Check(t.Context()))
			assert.NotContains(t, snapshot(t, to)[to.keys().Meta], "walk")
			assert.Positive(t, to.rdb().PTTL(t.Context(), to.keys().Meta).Val())
		}
	})
}

// Readers and poppers see the list under one name or the other, whole.
func TestRenameIsAtomic(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		from, to := pair(t, server.Client(t), 40)
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
			for _, list := range []*ShardedList{from, to} {
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
	list := filled(t, rdb, 2, 5)
	plain := list.Name()
	want := rdb.Rename(t.Context(), plain, "other").Err()
	before := snapshot(t, list)
	_, errNX := list.RenameNX(t.Context(), "other")
	_, errCopy := list.Copy(t.Context(), "other", true)
	for _, err := range []error{list.Rename(t.Context(), "other"), errNX, errCopy} {
		assert.ErrorContains(t, err, want.Error())
		assert.True(t, redis.HasErrorPrefix(err, "CROSSSLOT"))
	}
	assert.Equal(t, before, snapshot(t, list))
}

func TestRenameAndCopyWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t)
			from, to := pair(t, rdb, 500)
			_, err := to.RPush(t.Context(), numbers(0, 10)...)
			require.NoError(t, err)
			_, err = to.PExpire(t.Context(), time.Millisecond)
			require.NoError(t, err)
			expired(t, to)
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
			before, beforeTo := snapshot(t, from), snapshot(t, to)
			_, err = from.Copy(t.Context(), to.Name(), true)
			assert.ErrorContains(t, err, "OOM")
			assert.Equal(t, before, snapshot(t, from))
			assert.Equal(t, beforeTo, snapshot(t, to))
			require.NoError(t, from.Rename(t.Context(), to.Name()))
			assert.Len(t, content(t, to), 500)
			assert.Empty(t, keysOfList(t, from))
			require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
		})
	}
}

// What is not the same when it is done twice is done once, also when replies are lost.
func TestRenameAndExpireOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for name, fault := range faults {
		if fault.Delay > 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Shared(t, redistest.Redis), redistest.NewProxy(t)
			sound, _ := pair(t, server.Client(t), 5)
			from, to := openList(t, server.Client(t, through(proxy)), sound.Name()), sound.Name()[:len(sound.Name())-len("from")]+"to"
			back := openList(t, from.rdb(), to)
			ctx, cancel := context.WithTimeout(t.Context(), *faultPatience)
			defer cancel()
			struck := strikes(proxy)
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
			assert.Len(t, content(t, sound), 5)
		})
	}
}
