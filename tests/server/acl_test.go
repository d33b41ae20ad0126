package server

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The permissions that docs/servers.md names are enough for every operation, whatever state the list is in.
func TestPermissionsOfTheGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/servers.md")
	require.NoError(t, err)
	exact := regexp.MustCompile(`(?m)^ {4}ACL SETUSER worker (.*)$`).FindSubmatch(page)
	broad := regexp.MustCompile("(?s)server the rule `(.*?)`").FindSubmatch(page)
	require.NotNil(t, exact)
	require.NotNil(t, broad)
	rules := map[string]string{
		"exact": string(exact[1]) + " +scan", // for Check and DelStrays
		"broad": "on >secret " + string(broad[1]),
	}
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for name, rule := range rules {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				testPermissions(t, redistest.Start(t, kind), rule)
			})
		}
	}
}

// A user without MULTI, or without a command that functions do not need, reads short lists by functions, and is refused once. A key that
// the user may not read tells nothing of others.
func TestReadsOfAUserWithoutTransactions(t *testing.T) {
	t.Parallel()
	for _, forbidden := range []string{"multi", "ttl"} {
		t.Run(forbidden, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Redis)
			ctx, admin := t.Context(), server.Client(t)
			require.NoError(t, admin.Do(ctx, "acl", "setuser", "worker", "on", ">secret", "~queue:*", "~{*", "+@all", "-"+forbidden).Err())
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "worker", Password: "secret"})
			t.Cleanup(func() { _ = rdb.Close() })
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*")))
			keys := []string{"queue:{a}:1", "queue:{a}:2", "queue:{a}:3"}
			require.NoError(t, admin.RPush(ctx, keys[0], "a", "b").Err())
			require.NoError(t, admin.RPush(ctx, keys[1], "a").Err())
			for range 5 {
				cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.LRange(ctx, keys[0], 0, -1)
					p.TTL(ctx, keys[0])
					return p.LLen(ctx, keys[1]).Err()
				})
				require.NoError(t, err)
				assert.Equal(t, []string{"a", "b"}, cmds[0].(*redis.StringSliceCmd).Val())
				assert.EqualValues(t, 1, cmds[2].(*redis.IntCmd).Val())
				assert.EqualValues(t, 2, rdb.Exists(ctx, keys...).Val())
			}
			entries, err := admin.ACLLog(ctx, 100).Result()
			require.NoError(t, err)
			require.Len(t, entries, 1)
			assert.Equal(t, forbidden, entries[0].Object)
			assert.EqualValues(t, 1, entries[0].Count)
		})
	}
	t.Run("key", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t, redistest.Redis)
		ctx, admin := t.Context(), server.Client(t)
		require.NoError(t, admin.Do(ctx, "acl", "setuser", "worker", "on", ">secret", "~queue:*", "~{queue:*", "+@all").Err())
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "worker", Password: "secret"})
		t.Cleanup(func() { _ = rdb.Close() })
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*")))
		read := func(keys ...string) error {
			_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				for _, key := range keys {
					p.LLen(ctx, key)
				}
				return nil
			})
			return err
		}
		require.ErrorContains(t, read("other:1", "other:2"), "NOPERM")
		require.NoError(t, admin.ConfigResetStat(ctx).Err())
		require.NoError(t, read("queue:1", "queue:2"))
		assert.Contains(t, admin.Info(ctx, "commandstats").Val(), "cmdstat_exec:")
	})
}

func testPermissions(t *testing.T, server *redistest.Server, rule string) {
	ctx := t.Context()
	setUser := []any{"acl", "setuser", "worker"}
	for _, word := range strings.Fields(rule) {
		setUser = append(setUser, word)
	}
	require.NoError(t, server.Client(t).Do(ctx, setUser...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "worker", Password: "secret"})
	t.Cleanup(func() { _ = rdb.Close() })
	require.ErrorContains(t, rdb.FlushAll(ctx).Err(), "NOPERM", "the user is a restricted one")

	list, err := shardedlist.New(rdb, "{jobs}:a", shardedlist.WithCapacity(2))
	require.NoError(t, err)
	other, err := shardedlist.New(rdb, "{jobs}:b", shardedlist.WithCapacity(2))
	require.NoError(t, err)
	calls := harness.EveryCall(list, other)
	for method := range reflect.TypeFor[*shardedlist.ShardedList]().Methods() {
		if method.Name != "Name" && method.Name != "Stats" {
			assert.Contains(t, calls, method.Name)
		}
	}
	calls["a dedup record in meta"] = func(ctx context.Context) error {
		call := script.NewCall(script.Load("pop"), []any{harness.Keys(list).Meta}, 6)
		call.Args = append(call.Args, "@"+harness.UniqueName(t), 1, 1000, "L", 2, "no")
		return harness.ErrorOf((&script.Runner{Client: rdb}).Run(ctx, call))
	}
	elements := []any{"a", "b", "c", "d", "e", "f", "g"}
	for name, call := range calls {
		for size := range len(elements) + 1 {
			for _, expires := range []bool{false, true} {
				require.NoError(t, harness.ErrorOf(list.Del(ctx)))
				require.NoError(t, harness.ErrorOf(other.Del(ctx)))
				if size > 0 {
					require.NoError(t, harness.ErrorOf(list.RPush(ctx, elements[:size]...)))
				}
				if expires {
					require.NoError(t, harness.ErrorOf(list.Expire(ctx, time.Minute)))
				}
				if err := call(ctx); err != nil {
					assert.NotRegexp(t, "(?i)noperm|permission|can't run", err.Error(), name)
				}
			}
		}
	}
}

// Those that docs/spread.md adds are enough for a spread list.
func TestPermissionsOfASpreadList(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../docs/servers.md")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/spread.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ {4}ACL SETUSER worker (.*)$`).FindSubmatch(guide)
	added := regexp.MustCompile("(?s)a user needs `(.*?)`.*?also\n`(.*?)`.*?replicas `(.*?)`").FindSubmatch(page)
	require.NotNil(t, rule)
	require.NotNil(t, added)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), redistest.Start(t, kind)
			setUser := []any{"acl", "setuser", "worker"}
			for _, word := range strings.Fields(fmt.Sprintf("%s %s %s +scan", rule[1], added[1], added[2])) {
				setUser = append(setUser, word)
			}
			require.NoError(t, server.Client(t).Do(ctx, setUser...).Err())
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "worker", Password: "secret"})
			t.Cleanup(func() { _ = rdb.Close() })
			list, err := shardedlist.New(rdb, "jobs", shardedlist.WithParts(3), shardedlist.WithCapacity(2))
			require.NoError(t, err)
			calls := harness.EveryCall(list, harness.Beside(list))
			delete(calls, "Adopt") // needs the plain key
			delete(calls, "Restore")
			for name, call := range calls {
				for size := range 7 {
					require.NoError(t, harness.ErrorOf(list.Del(ctx)))
					for value := range size {
						require.NoError(t, harness.ErrorOf(list.RPush(ctx, value)))
					}
					if err := call(ctx); err != nil {
						assert.NotRegexp(t, "(?i)noperm|permission|can't run", err.Error(), "%s of %d", name, size)
					}
				}
			}
			log := server.Client(t).Do(ctx, "acl", "log").Val()
			for _, entry := range log.([]any) {
				assert.Contains(t, fmt.Sprint(entry), "info", "only the question for replicas was refused")
			}
		})
	}
}
