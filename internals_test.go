package shardedlist

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/session"
)

// maxCallValues is the number of values above which a call is split, as the documentation says.
const maxCallValues = 262_144

// What tests look at behind the public methods.

func (l *ShardedList) slot() *oneslot.List        { return l.list.(*oneslot.List) }
func (l *ShardedList) keys() oneslot.Keys         { return l.slot().Keys() }
func (l *ShardedList) rdb() redis.UniversalClient { return l.slot().Client() }
func (l *ShardedList) left() *blocking.Queue      { return l.slot().Waiters(layout.Left) }

// shard is the key of a shard, which meta names.
func (l *ShardedList) shard(ctx context.Context, id int64) string {
	prefix := l.keys().Prefix
	if layout := l.rdb().HGet(ctx, l.keys().Meta, "layout").Val(); layout != "1" {
		prefix = layout[1:]
	}
	return prefix + strconv.FormatInt(id, 10)
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
