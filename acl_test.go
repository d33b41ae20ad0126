package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
)

// The permissions that docs/guide.md names are enough for every operation, whatever state the list is in.
func TestPermissionsOfTheGuide(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/guide.md")
	require.NoError(t, err)
	exact := regexp.MustCompile(`(?m)^ {4}ACL SETUSER worker (.*)$`).FindSubmatch(page)
	broad := regexp.MustCompile("(?s)server the rule `(.*?)`").FindSubmatch(page)
	require.NotNil(t, exact)
	require.NotNil(t, broad)
	rules := map[string]string{
		"exact": string(exact[1]) + " +scan", // for Check and DelStrays
		"broad": "on >secret " + string(broad[1]),
	}
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		for name, rule := range rules {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				testPermissions(t, redistest.Start(t, kind), rule)
			})
		}
	}
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

	list, err := New(rdb, "{jobs}:a", WithCapacity(2))
	require.NoError(t, err)
	other, err := New(rdb, "{jobs}:b", WithCapacity(2))
	require.NoError(t, err)
	calls := everyCall(list, other)
	for method := range reflect.TypeFor[*ShardedList]().Methods() {
		if method.Name != "Name" && method.Name != "Stats" {
			assert.Contains(t, calls, method.Name)
		}
	}
	calls["a dedup record in meta"] = func(ctx context.Context) error {
		call := script.NewCall(script.Load("pop"), []any{list.keys().Meta}, 6)
		call.Args = append(call.Args, "@"+uniqueName(t), 1, 1000, "L", 2, "no")
		return errorOf((&script.Runner{Client: rdb}).Run(ctx, call))
	}
	elements := []any{"a", "b", "c", "d", "e", "f", "g"}
	for name, call := range calls {
		for size := range len(elements) + 1 {
			for _, expires := range []bool{false, true} {
				require.NoError(t, errorOf(list.Del(ctx)))
				require.NoError(t, errorOf(other.Del(ctx)))
				if size > 0 {
					require.NoError(t, errorOf(list.RPush(ctx, elements[:size]...)))
				}
				if expires {
					require.NoError(t, errorOf(list.Expire(ctx, time.Minute)))
				}
				if err := call(ctx); err != nil {
					assert.NotRegexp(t, "(?i)noperm|permission|can't run", err.Error(), name)
				}
			}
		}
	}
}

// everyCall makes a call of every method, for the errors they return.
func everyCall(list, other *ShardedList) map[string]func(ctx context.Context) error {
	const blink = time.Millisecond
	several := redis.LMoveMArgs{Count: 2}
	soon := time.Now().Add(time.Minute)
	return map[string]func(ctx context.Context) error{
		"Adopt":   func(ctx context.Context) error { return list.Adopt(ctx, nil) },
		"Restore": func(ctx context.Context) error { return errors.Join(list.Restore(ctx, nil), list.Adopt(ctx, nil)) },
		"a script": func(ctx context.Context) error {
			return NewScript("return {lpush(1, 2, 3), rpush(4)}").Run(ctx, list, nil).Err()
		},
		"LPush":      func(ctx context.Context) error { return errorOf(list.LPush(ctx, "x", "y", "z")) },
		"RPush":      func(ctx context.Context) error { return errorOf(list.RPush(ctx, "x")) },
		"LPushX":     func(ctx context.Context) error { return errorOf(list.LPushX(ctx, "x")) },
		"RPushX":     func(ctx context.Context) error { return errorOf(list.RPushX(ctx, "x", "y", "z")) },
		"LPop":       func(ctx context.Context) error { return errorOf(list.LPop(ctx)) },
		"RPop":       func(ctx context.Context) error { return errorOf(list.RPop(ctx)) },
		"LPopCount":  func(ctx context.Context) error { return errorOf(list.LPopCount(ctx, 3)) },
		"RPopCount":  func(ctx context.Context) error { return errorOf(list.RPopCount(ctx, 9)) },
		"BLPop":      func(ctx context.Context) error { return errorOf(list.BLPop(ctx, blink)) },
		"BRPop":      func(ctx context.Context) error { return errorOf(list.BRPop(ctx, blink)) },
		"LMove":      func(ctx context.Context) error { return errorOf(list.LMove(ctx, list, "LEFT", "RIGHT")) },
		"RPopLPush":  func(ctx context.Context) error { return errorOf(list.RPopLPush(ctx, other)) },
		"BLMove":     func(ctx context.Context) error { return errorOf(list.BLMove(ctx, other, "LEFT", "LEFT", blink)) },
		"BRPopLPush": func(ctx context.Context) error { return errorOf(list.BRPopLPush(ctx, list, blink)) },
		"LMoveM":     func(ctx context.Context) error { return errorOf(list.LMoveM(ctx, list, "LEFT", "LEFT", several)) },
		"BLMoveM": func(ctx context.Context) error {
			return errorOf(list.BLMoveM(ctx, other, "LEFT", "LEFT", blink, several))
		},
		"LSet":          func(ctx context.Context) error { return list.LSet(ctx, 1, "x") },
		"LInsert":       func(ctx context.Context) error { return errorOf(list.LInsert(ctx, "BEFORE", "a", "x")) },
		"LInsertBefore": func(ctx context.Context) error { return errorOf(list.LInsertBefore(ctx, "c", "x")) },
		"LInsertAfter":  func(ctx context.Context) error { return errorOf(list.LInsertAfter(ctx, "f", "x")) },
		"LRem":          func(ctx context.Context) error { return errorOf(list.LRem(ctx, 0, "c")) },
		"LTrim":         func(ctx context.Context) error { return list.LTrim(ctx, 1, -2) },
		"LPos":          func(ctx context.Context) error { return errorOf(list.LPos(ctx, "c", redis.LPosArgs{})) },
		"LPosCount":     func(ctx context.Context) error { return errorOf(list.LPosCount(ctx, "c", 0, redis.LPosArgs{})) },
		"LLen":          func(ctx context.Context) error { return errorOf(list.LLen(ctx)) },
		"LIndex":        func(ctx context.Context) error { return errorOf(list.LIndex(ctx, 2)) },
		"LRange":        func(ctx context.Context) error { return errorOf(list.LRange(ctx, 0, -1)) },
		"Expire":        func(ctx context.Context) error { return errorOf(list.Expire(ctx, time.Minute)) },
		"ExpireNX":      func(ctx context.Context) error { return errorOf(list.ExpireNX(ctx, time.Minute)) },
		"ExpireXX":      func(ctx context.Context) error { return errorOf(list.ExpireXX(ctx, time.Minute)) },
		"ExpireGT":      func(ctx context.Context) error { return errorOf(list.ExpireGT(ctx, time.Hour)) },
		"ExpireLT":      func(ctx context.Context) error { return errorOf(list.ExpireLT(ctx, time.Second)) },
		"ExpireAt":      func(ctx context.Context) error { return errorOf(list.ExpireAt(ctx, soon)) },
		"PExpire":       func(ctx context.Context) error { return errorOf(list.PExpire(ctx, -1)) },
		"PExpireAt":     func(ctx context.Context) error { return errorOf(list.PExpireAt(ctx, soon)) },
		"Persist":       func(ctx context.Context) error { return errorOf(list.Persist(ctx)) },
		"TTL":           func(ctx context.Context) error { return errorOf(list.TTL(ctx)) },
		"PTTL":          func(ctx context.Context) error { return errorOf(list.PTTL(ctx)) },
		"ExpireTime":    func(ctx context.Context) error { return errorOf(list.ExpireTime(ctx)) },
		"PExpireTime":   func(ctx context.Context) error { return errorOf(list.PExpireTime(ctx)) },
		"Rename":        func(ctx context.Context) error { return list.Rename(ctx, other.Name()) },
		"RenameNX":      func(ctx context.Context) error { return errorOf(list.RenameNX(ctx, other.Name())) },
		"Copy":          func(ctx context.Context) error { return errorOf(list.Copy(ctx, other.Name(), true)) },
		"Exists":        func(ctx context.Context) error { return errorOf(list.Exists(ctx)) },
		"Type":          func(ctx context.Context) error { return errorOf(list.Type(ctx)) },
		"Del":           func(ctx context.Context) error { return errorOf(list.Del(ctx)) },
		"Info":          func(ctx context.Context) error { return errorOf(list.Info(ctx)) },
		"Check":         list.Check,
		"Repair":        list.Repair,
		"DelStrays":     func(ctx context.Context) error { return errorOf(list.DelStrays(ctx)) },
		"All": func(ctx context.Context) error {
			for _, err := range list.All(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func errorOf[T any](_ T, err error) error { return err }

// Those that docs/spread.md adds are enough for a spread list.
func TestPermissionsOfASpreadList(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("docs/guide.md")
	require.NoError(t, err)
	page, err := os.ReadFile("docs/spread.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ {4}ACL SETUSER worker (.*)$`).FindSubmatch(guide)
	added := regexp.MustCompile("(?s)a user needs `(.*?)`.*?also\n`(.*?)`.*?replicas `(.*?)`").FindSubmatch(page)
	require.NotNil(t, rule)
	require.NotNil(t, added)
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
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
			list, err := New(rdb, "jobs", WithParts(3), WithCapacity(2))
			require.NoError(t, err)
			calls := everyCall(list, beside(list))
			delete(calls, "Adopt") // needs the plain key
			delete(calls, "Restore")
			for name, call := range calls {
				for size := range 7 {
					require.NoError(t, errorOf(list.Del(ctx)))
					for value := range size {
						require.NoError(t, errorOf(list.RPush(ctx, value)))
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
