package exactlyonce

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/lua"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A reply is lost, and then something happens to the list: the repetition has the result of the operation all the same.
func TestARecordedResultOutlivesTheList(t *testing.T) {
	t.Parallel()
	operations := map[string]func(t *testing.T, l *shardedlist.ShardedList) session.Operation{
		"push": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.OneSlot(l).Pushes(layout.Right).Join([]*batch.Request{{Values: []any{"new"}, Count: 1}})
		},
		"pushx": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.OneSlot(l).PushX(layout.Left, []any{"new"})
		},
		"pop one": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.OneSlot(l).Source(layout.Left).Pop(1, blocking.No, "")
		},
		"pop several": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.OneSlot(l).Source(layout.Right).Pop(5, blocking.First, "")
		},
		"lset": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.OneSlot(l).Set(1, "new")
		},
		"linsert": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.OneSlot(l).Insert("before", 3, "new")
		},
		"lrem": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.OneSlot(l).Remove(0, 3)
		},
		"ltrim": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.Bare(harness.OneSlot(l).Trim(1, 2))
		},
		"expire": func(_ *testing.T, l *shardedlist.ShardedList) session.Operation {
			return harness.Bare(harness.OneSlot(l).Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()}))
		},
		"script": func(t *testing.T, l *shardedlist.ShardedList) session.Operation {
			source := "return {redis.error_reply('NO'), rpush('new'), lpush('new')}"
			op, err := harness.OneSlot(l).Script(t.Context(), layout.Script{Script: script.LoadAround("script", source), Creates: true})
			require.NoError(t, err)
			return harness.Bare(op)
		},
		"rename": func(t *testing.T, l *shardedlist.ShardedList) session.Operation {
			op, err := harness.OneSlot(l).Transfer(layout.Rename, harness.OneSlot(l).Sibling("{"+l.Name()+"}renamed"), true)
			require.NoError(t, err)
			return harness.Bare(op)
		},
		"lmove": func(t *testing.T, l *shardedlist.ShardedList) session.Operation {
			call, err := harness.OneSlot(l).Move(harness.OneSlot(l), layout.Move{From: layout.Left, To: layout.Right, Count: 2})
			require.NoError(t, err)
			return call.Source.Pop(2, blocking.No, "")
		},
		"lmpop": func(t *testing.T, l *shardedlist.ShardedList) session.Operation {
			call, err := harness.OneSlot(l).PopFirst([]layout.List{harness.OneSlot(l)}, layout.Left, 3)
			require.NoError(t, err)
			return call.Source.Pop(3, blocking.No, "")
		},
	}
	harms := map[string]func(t *testing.T, rdb redis.UniversalClient, l *shardedlist.ShardedList){
		"meta is a string": func(t *testing.T, rdb redis.UniversalClient, l *shardedlist.ShardedList) {
			require.NoError(t, rdb.Set(t.Context(), harness.Keys(l).Meta, "x", 0).Err())
		},
		"another layout": func(t *testing.T, rdb redis.UniversalClient, l *shardedlist.ShardedList) {
			require.NoError(t, rdb.HSet(t.Context(), harness.Keys(l).Meta, "layout", 99).Err())
		},
		"a shard is missing": func(t *testing.T, rdb redis.UniversalClient, l *shardedlist.ShardedList) {
			require.NoError(t, rdb.HSet(t.Context(), harness.Keys(l).Meta, "layout", 1, "first", 70, "last", 80, "cap", 2).Err())
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for harm, strike := range harms {
			for name, operation := range operations {
				list, err := shardedlist.New(rdb, harness.UniqueName(t), shardedlist.WithCapacity(2))
				require.NoError(t, err)
				_, err = list.RPush(t.Context(), harness.Numbers(0, 7)...)
				require.NoError(t, err)
				op, s := operation(t, list), harness.OneSlot(list).Sessions().New()
				s.Begin()
				first := s.Do(t.Context(), script.Deadline(t.Context()), op)
				require.NoError(t, first.Err, name)
				strike(t, rdb, list)
				again := s.Do(t.Context(), script.Deadline(t.Context()), op)
				require.NoError(t, again.Err, "%s, %s", name, harm)
				if name == "ltrim" {
					continue // its reply tells only what is to be swept
				}
				assert.Equal(t, elementsIn(first.Reply), elementsIn(again.Reply), "%s, %s", name, harm)
			}
		}
	})
}

// elementsIn is a reply without the mark that says whether it is a repetition. A lone pop replies with the element alone.
func elementsIn(reply any) any {
	parts, ok := reply.([]any)
	if !ok || len(parts) == 0 {
		return []any{reply}
	}
	var values []any
	for _, part := range parts[1:] {
		shard, _ := part.([]any)
		values = append(values, shard...)
	}
	return values
}

// Most operations leave the TTL of their record as it is. Whatever has become of it, a record is there after an operation, and
// expires.
func TestARecordIsRenewedInTime(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, ctx := server.Client(t), t.Context()
		push := func(list *shardedlist.ShardedList) (record string, ttl time.Duration) {
			_, err := list.RPush(ctx, "x")
			require.NoError(t, err)
			for _, keys := range harness.KeysByNode(t, list) {
				for _, key := range keys {
					if strings.HasPrefix(key, harness.Keys(list).Records()) {
						record = key
					}
				}
			}
			require.NotEmpty(t, record)
			ttl, err = rdb.PTTL(ctx, record).Result()
			require.NoError(t, err)
			return record, ttl
		}

		list := harness.NewList(t, rdb)
		record, ttl := push(list)
		assert.Greater(t, ttl, session.RecordLife/2)
		require.NoError(t, rdb.Expire(ctx, record, time.Hour).Err())
		_, ttl = push(list)
		assert.Greater(t, ttl, 30*time.Minute, "the push has not set it")
		require.NoError(t, rdb.Del(ctx, record).Err())
		_, ttl = push(list)
		assert.Positive(t, ttl)
		assert.LessOrEqual(t, ttl, session.RecordLife)

		const life = 3 * time.Second
		short := harness.NewList(t, rdb, harness.RecordLife(life), shardedlist.WithCapacity(1<<16)) // a push that makes a shard renews the record
		for start := time.Now(); time.Since(start) < 2*life; {
			_, ttl := push(short)
			assert.Greater(t, ttl, life/3)
			assert.LessOrEqual(t, ttl, life)
		}
	})
}

// A result that is large is replayed as others are, and is not in the record that each operation reads.
func TestALargeResultIsReplayed(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, ctx := server.Client(t), t.Context()
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		sizes := []int{10, 4090, 4100, 1, 10000, 20000, 2, 3, 30000, 40000}
		for _, size := range sizes {
			_, err := list.RPush(ctx, strings.Repeat("v", size))
			require.NoError(t, err)
		}
		record := harness.Keys(list).Records() + "0123456789abcdef"
		for i, size := range sizes {
			want := strings.Repeat("v", size)
			for again := range 2 {
				got, err := rdb.Eval(ctx, lua.Source("pop"), []string{harness.Keys(list).Meta}, "+"+list.Name(), "0123456789abcdef", i+1, "60000", "L", 1, "no").Result()
				require.NoError(t, err)
				assert.Equal(t, []any{want}, elementsIn(got), "%d bytes", size)
				if again > 0 {
					assert.Equal(t, int64(1), got.([]any)[0], "%d bytes", size)
				}
			}
			if i > 0 && sizes[i-1] > 4096 { // the first large one is not known to be one
				assert.Less(t, rdb.StrLen(ctx, record).Val(), int64(100), "%d bytes after %d", size, sizes[i-1])
			}
		}
		require.NoError(t, list.Check(ctx))
	})
}
