package shardedlist

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/batch"
	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/lua"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// A reply is lost, and then something happens to the list: the repetition has the result of the operation all the same.
func TestARecordedResultOutlivesTheList(t *testing.T) {
	t.Parallel()
	operations := map[string]func(t *testing.T, l *ShardedList) session.Operation{
		"push": func(_ *testing.T, l *ShardedList) session.Operation {
			return l.slot().Pushes(layout.Right).Join([]*batch.Request{{Values: []any{"new"}, Count: 1}})
		},
		"pushx": func(_ *testing.T, l *ShardedList) session.Operation { return l.slot().PushX(layout.Left, []any{"new"}) },
		"pop one": func(_ *testing.T, l *ShardedList) session.Operation {
			return l.slot().Source(layout.Left).Pop(1, blocking.No, "")
		},
		"pop several": func(_ *testing.T, l *ShardedList) session.Operation {
			return l.slot().Source(layout.Right).Pop(5, blocking.First, "")
		},
		"lset":    func(_ *testing.T, l *ShardedList) session.Operation { return l.slot().Set(1, "new") },
		"linsert": func(_ *testing.T, l *ShardedList) session.Operation { return l.slot().Insert("before", 3, "new") },
		"lrem":    func(_ *testing.T, l *ShardedList) session.Operation { return l.slot().Remove(0, 3) },
		"ltrim":   func(_ *testing.T, l *ShardedList) session.Operation { return bare(l.slot().Trim(1, 2)) },
		"expire": func(_ *testing.T, l *ShardedList) session.Operation {
			return bare(l.slot().Expire(layout.Expiry{How: layout.ExpireIn, Milliseconds: time.Hour.Milliseconds()}))
		},
		"script": func(t *testing.T, l *ShardedList) session.Operation {
			source := "return {redis.error_reply('NO'), rpush('new'), lpush('new')}"
			op, err := l.slot().Script(t.Context(), layout.Script{Script: script.LoadAround("script", source), Creates: true})
			require.NoError(t, err)
			return bare(op)
		},
		"rename": func(t *testing.T, l *ShardedList) session.Operation {
			op, err := l.slot().Transfer(layout.Rename, l.slot().Sibling("{"+l.Name()+"}renamed"), true)
			require.NoError(t, err)
			return bare(op)
		},
		"lmove": func(t *testing.T, l *ShardedList) session.Operation {
			call, err := l.slot().Move(l.slot(), layout.Move{From: layout.Left, To: layout.Right, Count: 2})
			require.NoError(t, err)
			return call.Source.Pop(2, blocking.No, "")
		},
		"lmpop": func(t *testing.T, l *ShardedList) session.Operation {
			call, err := l.slot().PopFirst([]layout.List{l.slot()}, layout.Left, 3)
			require.NoError(t, err)
			return call.Source.Pop(3, blocking.No, "")
		},
	}
	harms := map[string]func(t *testing.T, rdb redis.UniversalClient, l *ShardedList){
		"meta is a string": func(t *testing.T, rdb redis.UniversalClient, l *ShardedList) {
			require.NoError(t, rdb.Set(t.Context(), l.keys().Meta, "x", 0).Err())
		},
		"another layout": func(t *testing.T, rdb redis.UniversalClient, l *ShardedList) {
			require.NoError(t, rdb.HSet(t.Context(), l.keys().Meta, "layout", 99).Err())
		},
		"a shard is missing": func(t *testing.T, rdb redis.UniversalClient, l *ShardedList) {
			require.NoError(t, rdb.HSet(t.Context(), l.keys().Meta, "layout", 1, "first", 70, "last", 80, "cap", 2).Err())
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		for harm, strike := range harms {
			for name, operation := range operations {
				list, err := New(rdb, uniqueName(t), WithCapacity(2))
				require.NoError(t, err)
				_, err = list.RPush(t.Context(), numbers(0, 7)...)
				require.NoError(t, err)
				op, s := operation(t, list), list.slot().Sessions().New()
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
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, ctx := server.Client(t), t.Context()
		push := func(list *ShardedList) (record string, ttl time.Duration) {
			_, err := list.RPush(ctx, "x")
			require.NoError(t, err)
			for _, keys := range keysByNode(t, list) {
				for _, key := range keys {
					if strings.HasPrefix(key, list.keys().Records()) {
						record = key
					}
				}
			}
			require.NotEmpty(t, record)
			ttl, err = rdb.PTTL(ctx, record).Result()
			require.NoError(t, err)
			return record, ttl
		}

		list := newList(t, rdb)
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
		short := newList(t, rdb, recordLife(life), WithCapacity(1<<16)) // a push that makes a shard renews the record
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
		list := newList(t, rdb, WithCapacity(2))
		sizes := []int{10, 4090, 4100, 1, 10000, 20000, 2, 3, 30000, 40000}
		for _, size := range sizes {
			_, err := list.RPush(ctx, strings.Repeat("v", size))
			require.NoError(t, err)
		}
		record := list.keys().Records() + "0123456789abcdef"
		for i, size := range sizes {
			want := strings.Repeat("v", size)
			for again := range 2 {
				got, err := rdb.Eval(ctx, lua.Source("pop"), []string{list.keys().Meta}, "0123456789abcdef", i+1, "60000", "L", 1, "no").Result()
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
