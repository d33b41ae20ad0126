package harness

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/stretchr/testify/require"
)

// Operations are all methods that change a list, by name. The list they are run on has the capacity 2.
var Operations = map[string]func(ctx context.Context, list *shardedlist.ShardedList) error{
	"lpush": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LPush(ctx, "new")
		return err
	},
	"rpush": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.RPush(ctx, "new")
		return err
	},
	"lpush many": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LPush(ctx, Numbers(0, 7)...)
		return err
	},
	"rpush many": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.RPush(ctx, Numbers(0, 7)...)
		return err
	},
	"lpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LPop(ctx)
		return IgnoreNil(err)
	},
	"rpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.RPop(ctx)
		return IgnoreNil(err)
	},
	"lpop many": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LPopCount(ctx, 5)
		return IgnoreNil(err)
	},
	"rpop many": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.RPopCount(ctx, 5)
		return IgnoreNil(err)
	},
	"lpop all": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LPopCount(ctx, 100)
		return IgnoreNil(err)
	},
	"blpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.BLPop(ctx, 5*time.Millisecond)
		return IgnoreNil(err)
	},
	"brpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.BRPop(ctx, 5*time.Millisecond)
		return IgnoreNil(err)
	},
	"lmove": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LMove(ctx, Beside(list), "LEFT", "RIGHT")
		return IgnoreNil(err)
	},
	"lmovem": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LMoveM(ctx, Beside(list), "RIGHT", "LEFT", redis.LMoveMArgs{Count: 5})
		return IgnoreNil(err)
	},
	"rotate": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LMove(ctx, list, "RIGHT", "LEFT")
		return IgnoreNil(err)
	},
	"rotate many": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LMoveM(ctx, list, "LEFT", "RIGHT", redis.LMoveMArgs{Count: 4})
		return IgnoreNil(err)
	},
	"turn around": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LMoveM(ctx, list, "LEFT", "LEFT", redis.LMoveMArgs{Count: 3, Order: redis.LMoveMOBO})
		return IgnoreNil(err)
	},
	"blmove": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.BLMove(ctx, Beside(list), "LEFT", "LEFT", 5*time.Millisecond)
		return IgnoreNil(err)
	},
	"lmpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, _, err := shardedlist.LMPop(ctx, "LEFT", 3, list, Beside(list))
		return IgnoreNil(err)
	},
	"blmpop": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, _, err := shardedlist.BLMPop(ctx, 5*time.Millisecond, "RIGHT", 3, list, Beside(list))
		return IgnoreNil(err)
	},
	"del": func(ctx context.Context, list *shardedlist.ShardedList) error { _, err := list.Del(ctx); return err },
	"delstrays": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.DelStrays(ctx)
		return err
	},
	"lpushx": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.LPushX(ctx, Numbers(0, 3)...)
		return err
	},
	"rpushx": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.RPushX(ctx, "new")
		return err
	},
	"lset": func(ctx context.Context, list *shardedlist.ShardedList) error {
		return IgnoreRefusal(list.LSet(ctx, 2, "new"))
	},
	"linsert": func(ctx context.Context, list *shardedlist.ShardedList) error { return InsertAt(ctx, list, 1) },
	"linsert to the right": func(ctx context.Context, list *shardedlist.ShardedList) error {
		return InsertAt(ctx, list, -2)
	},
	"lrem": func(ctx context.Context, list *shardedlist.ShardedList) error { return RemoveAt(ctx, list, 2) },
	"lrem from the right": func(ctx context.Context, list *shardedlist.ShardedList) error {
		return RemoveAt(ctx, list, -3)
	},
	"ltrim":         func(ctx context.Context, list *shardedlist.ShardedList) error { return list.LTrim(ctx, 1, -2) },
	"ltrim to one":  func(ctx context.Context, list *shardedlist.ShardedList) error { return list.LTrim(ctx, 3, 3) },
	"ltrim to none": func(ctx context.Context, list *shardedlist.ShardedList) error { return list.LTrim(ctx, 1, 0) },
	"expire": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.Expire(ctx, time.Hour)
		return err
	},
	"expire at once": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.Expire(ctx, 0)
		return err
	},
	"persist": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.Persist(ctx)
		return err
	},
	"rename": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.RenameNX(ctx, "{"+list.Name()+"}renamed")
		return IgnoreRefusal(err)
	},
	"script rpush": func(ctx context.Context, list *shardedlist.ShardedList) error {
		return shardedlist.NewScript("return rpush('new')").Run(ctx, list, nil).Err()
	},
	"script push many": func(ctx context.Context, list *shardedlist.ShardedList) error {
		return shardedlist.NewScript("return {lpush(unpack(ARGV)), rpush('new')}").Run(ctx, list, nil, Numbers(0, 7)...).Err()
	},
	"script": func(ctx context.Context, list *shardedlist.ShardedList) error {
		return shardedlist.NewScript("return 'nothing changed'").Run(ctx, list, nil).Err()
	},
	"copy": func(ctx context.Context, list *shardedlist.ShardedList) error {
		_, err := list.Copy(ctx, "{"+list.Name()+"}copy", true)
		return err
	},
}

// Beside is another list whose keys are among those that snapshot takes for the list's.
func Beside(list *shardedlist.ShardedList) *shardedlist.ShardedList {
	other, err := shardedlist.New(Client(list), Keys(list).Prefix+"beside", shardedlist.WithCapacity(2))
	if err != nil {
		panic(err)
	}
	return other
}

// joins matches the digit of the pointers that says which end newcomers join, and that no consumer waits. A "+" in front says that there
// may be other fields.
var joins = regexp.MustCompile(`(layout:3)\+?( -?\d+ -?\d+ \d+ )[02468] `)

// Snapshot is the content of all keys of the list, wherever they are, but those that only wake consumers,
// the dedup records, and the times to live.
func Snapshot(t testing.TB, list *shardedlist.ShardedList) map[string]string {
	t.Helper()
	keys := map[string]string{}
	for node, found := range KeysByNode(t, list) {
		for _, key := range found {
			value := Read(t, node, key)
			if value == "" { // it has expired meanwhile, or is a mark
				continue
			}
			value = joins.ReplaceAllString(value, "${1}${2}x ") // an attempt to pop tells it, too
			if !strings.HasPrefix(key, Keys(list).Bell+":") && !strings.HasPrefix(key, Keys(list).Records()) {
				keys[key] = value
			}
		}
	}
	return keys
}

// Read returns what a key holds on that very node, also if the node is about to receive the key's slot.
func Read(t testing.TB, node *redis.Client, key string) string {
	t.Helper()
	ask := func(args ...any) any {
		reply := Asking(t, node, args...)
		require.NoError(t, reply.Err())
		return reply.Val()
	}
	switch kind := ask("type", key); kind {
	case "list":
		return fmt.Sprint(ask("lrange", key, 0, -1))
	case "hash":
		fields := ask("hgetall", key)
		if pairs, ok := fields.([]any); ok { // in RESP2, and in any order
			sorted := map[any]any{}
			for pair := range slices.Chunk(pairs, 2) {
				sorted[pair[0]] = pair[1]
			}
			fields = sorted
		}
		return fmt.Sprint(fields)
	case "string":
		return fmt.Sprint(ask("get", key))
	case "none":
		return ""
	default:
		t.Fatalf("a %s at %q", kind, key)
		return ""
	}
}

// Asking sends a command to that very node.
func Asking(t testing.TB, node *redis.Client, args ...any) *redis.Cmd {
	pipe := node.Pipeline()
	pipe.Do(t.Context(), "asking")
	reply := pipe.Do(t.Context(), args...)
	_, _ = pipe.Exec(t.Context()) // asking is an error where there is no cluster
	return reply
}

// EveryCall makes a call of every method, for the errors they return.
func EveryCall(list, other *shardedlist.ShardedList) map[string]func(ctx context.Context) error {
	const blink = time.Millisecond
	several := redis.LMoveMArgs{Count: 2}
	soon := time.Now().Add(time.Minute)
	return map[string]func(ctx context.Context) error{
		"Adopt":   func(ctx context.Context) error { return list.Adopt(ctx, nil) },
		"Restore": func(ctx context.Context) error { return errors.Join(list.Restore(ctx, nil), list.Adopt(ctx, nil)) },
		"a script": func(ctx context.Context) error {
			return shardedlist.NewScript("return {lpush(1, 2, 3), rpush(4)}").Run(ctx, list, nil).Err()
		},
		"LPush":      func(ctx context.Context) error { return ErrorOf(list.LPush(ctx, "x", "y", "z")) },
		"RPush":      func(ctx context.Context) error { return ErrorOf(list.RPush(ctx, "x")) },
		"LPushX":     func(ctx context.Context) error { return ErrorOf(list.LPushX(ctx, "x")) },
		"RPushX":     func(ctx context.Context) error { return ErrorOf(list.RPushX(ctx, "x", "y", "z")) },
		"LPop":       func(ctx context.Context) error { return ErrorOf(list.LPop(ctx)) },
		"RPop":       func(ctx context.Context) error { return ErrorOf(list.RPop(ctx)) },
		"LPopCount":  func(ctx context.Context) error { return ErrorOf(list.LPopCount(ctx, 3)) },
		"RPopCount":  func(ctx context.Context) error { return ErrorOf(list.RPopCount(ctx, 9)) },
		"BLPop":      func(ctx context.Context) error { return ErrorOf(list.BLPop(ctx, blink)) },
		"BRPop":      func(ctx context.Context) error { return ErrorOf(list.BRPop(ctx, blink)) },
		"LMove":      func(ctx context.Context) error { return ErrorOf(list.LMove(ctx, list, "LEFT", "RIGHT")) },
		"RPopLPush":  func(ctx context.Context) error { return ErrorOf(list.RPopLPush(ctx, other)) },
		"BLMove":     func(ctx context.Context) error { return ErrorOf(list.BLMove(ctx, other, "LEFT", "LEFT", blink)) },
		"BRPopLPush": func(ctx context.Context) error { return ErrorOf(list.BRPopLPush(ctx, list, blink)) },
		"LMoveM":     func(ctx context.Context) error { return ErrorOf(list.LMoveM(ctx, list, "LEFT", "LEFT", several)) },
		"BLMoveM": func(ctx context.Context) error {
			return ErrorOf(list.BLMoveM(ctx, other, "LEFT", "LEFT", blink, several))
		},
		"LSet":          func(ctx context.Context) error { return list.LSet(ctx, 1, "x") },
		"LInsert":       func(ctx context.Context) error { return ErrorOf(list.LInsert(ctx, "BEFORE", "a", "x")) },
		"LInsertBefore": func(ctx context.Context) error { return ErrorOf(list.LInsertBefore(ctx, "c", "x")) },
		"LInsertAfter":  func(ctx context.Context) error { return ErrorOf(list.LInsertAfter(ctx, "f", "x")) },
		"LRem":          func(ctx context.Context) error { return ErrorOf(list.LRem(ctx, 0, "c")) },
		"LTrim":         func(ctx context.Context) error { return list.LTrim(ctx, 1, -2) },
		"LPos":          func(ctx context.Context) error { return ErrorOf(list.LPos(ctx, "c", redis.LPosArgs{})) },
		"LPosCount":     func(ctx context.Context) error { return ErrorOf(list.LPosCount(ctx, "c", 0, redis.LPosArgs{})) },
		"LLen":          func(ctx context.Context) error { return ErrorOf(list.LLen(ctx)) },
		"LIndex":        func(ctx context.Context) error { return ErrorOf(list.LIndex(ctx, 2)) },
		"LRange":        func(ctx context.Context) error { return ErrorOf(list.LRange(ctx, 0, -1)) },
		"Expire":        func(ctx context.Context) error { return ErrorOf(list.Expire(ctx, time.Minute)) },
		"ExpireNX":      func(ctx context.Context) error { return ErrorOf(list.ExpireNX(ctx, time.Minute)) },
		"ExpireXX":      func(ctx context.Context) error { return ErrorOf(list.ExpireXX(ctx, time.Minute)) },
		"ExpireGT":      func(ctx context.Context) error { return ErrorOf(list.ExpireGT(ctx, time.Hour)) },
		"ExpireLT":      func(ctx context.Context) error { return ErrorOf(list.ExpireLT(ctx, time.Second)) },
		"ExpireAt":      func(ctx context.Context) error { return ErrorOf(list.ExpireAt(ctx, soon)) },
		"PExpire":       func(ctx context.Context) error { return ErrorOf(list.PExpire(ctx, -1)) },
		"PExpireAt":     func(ctx context.Context) error { return ErrorOf(list.PExpireAt(ctx, soon)) },
		"Persist":       func(ctx context.Context) error { return ErrorOf(list.Persist(ctx)) },
		"TTL":           func(ctx context.Context) error { return ErrorOf(list.TTL(ctx)) },
		"PTTL":          func(ctx context.Context) error { return ErrorOf(list.PTTL(ctx)) },
		"ExpireTime":    func(ctx context.Context) error { return ErrorOf(list.ExpireTime(ctx)) },
		"PExpireTime":   func(ctx context.Context) error { return ErrorOf(list.PExpireTime(ctx)) },
		"Rename":        func(ctx context.Context) error { return list.Rename(ctx, other.Name()) },
		"RenameNX":      func(ctx context.Context) error { return ErrorOf(list.RenameNX(ctx, other.Name())) },
		"Copy":          func(ctx context.Context) error { return ErrorOf(list.Copy(ctx, other.Name(), true)) },
		"Exists":        func(ctx context.Context) error { return ErrorOf(list.Exists(ctx)) },
		"Type":          func(ctx context.Context) error { return ErrorOf(list.Type(ctx)) },
		"Del":           func(ctx context.Context) error { return ErrorOf(list.Del(ctx)) },
		"Info":          func(ctx context.Context) error { return ErrorOf(list.Info(ctx)) },
		"Check":         list.Check,
		"Repair":        func(ctx context.Context) error { return ErrorOf(list.Repair(ctx, shardedlist.RepairOptions{})) },
		"DelStrays":     func(ctx context.Context) error { return ErrorOf(list.DelStrays(ctx)) },
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

func ErrorOf[T any](_ T, err error) error { return err }
