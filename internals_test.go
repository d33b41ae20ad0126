package shardedlist

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/session"
)

// maxCallValues is the number of values above which a call is split, as the documentation says.
const maxCallValues = 262_144

// What tests look at behind the public methods.

func (l *ShardedList) slot() *oneslot.List        { return l.list.(*detect.List).List }
func (l *ShardedList) keys() oneslot.Keys         { return l.slot().Keys() }
func (l *ShardedList) rdb() redis.UniversalClient { return l.slot().Client() }
func (l *ShardedList) left() *blocking.Queue      { return l.list.(*detect.List).Waiters(layout.Left) }

// shard is the key of a shard, which meta names.
func (l *ShardedList) shard(ctx context.Context, id int64) string {
	return shardPrefix(l.rdb().HGet(ctx, l.keys().Meta, "layout").Val(), l.keys().Prefix) + strconv.FormatInt(id, 10)
}

// shardPrefix returns the prefix of the shards' keys that a field layout names, or else that of layout 1,
// which is how the keys of the list begin.
func shardPrefix(layout, former string) string {
	words := strings.SplitN(layout, " ", 6)
	switch {
	case len(words) < 6 || words[5] == "":
		return former
	case strings.HasSuffix(words[5], ":"):
		return words[5]
	}
	return former + words[5] + ":"
}

// Words of the field layout, for pointer and setPointer.
const (
	_ = iota
	firstID
	lastID
	capacity
	digit // whether the list is armed, and the end that newcomers join
	shards
)

// newcomersJoinLeft tells at which end elements of the plain key will join the list, if that has elements.
func (l *ShardedList) newcomersJoinLeft(ctx context.Context) bool {
	n, _ := strconv.Atoi(l.pointer(ctx, digit))
	first, _ := strconv.Atoi(l.pointer(ctx, firstID))
	last, _ := strconv.Atoi(l.pointer(ctx, lastID))
	return first <= last && n/2%2 == 1 && !strings.HasSuffix(l.pointer(ctx, shards), "=") // which says that the plain list is the list
}

// pointer returns a word of the field layout.
func (l *ShardedList) pointer(ctx context.Context, word int) string {
	words := strings.SplitN(l.rdb().HGet(ctx, l.keys().Meta, "layout").Val(), " ", 6)
	if len(words) < 6 {
		return ""
	}
	return words[word]
}

// setPointer replaces a word of the field layout.
func (l *ShardedList) setPointer(ctx context.Context, word int, value string) {
	words := strings.SplitN(l.rdb().HGet(ctx, l.keys().Meta, "layout").Val(), " ", 6)
	words[word] = value
	l.rdb().HSet(ctx, l.keys().Meta, "layout", strings.Join(words, " "))
}

// bare is an operation without the steps that follow its script. Its result is the script's reply.
func bare(op session.Operation) session.Operation {
	op.Finish = nil
	return op
}

// recordLife sets how long the server keeps dedup records.
func recordLife(life time.Duration) Option {
	return func(s *settings) error {
		s.RecordLife = life
		return nil
	}
}

// pastLua lets values of any size be pushed without passing through Lua, see lua/shared/aside.lua.
func pastLua(s *settings) error {
	s.AsideFrom, s.AsideAgain = 1, time.Nanosecond
	return nil
}
