package shardedlist

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// Adopt makes the plain list at the key of the same name a part of the list, and turns it into shards. There is no Redis command for
// it. If there is no plain list, and no shard is longer than the capacity, it does nothing.
//
// The first step is one RENAME: 10 million elements take microseconds. Further steps move them to shards, at most 1,000 elements or 256 KiB each,
// or one element that is larger. Others can use the list meanwhile; its elements and their order do not change. A plain list that
// expires makes the list expire.
//
// If the list has shards, what other processes have pushed to the key joins them: at the end opposite to that at which elements are
// popped or, as long as nobody has popped, at the end of the first push. Adopt watches the key for a moment to see at which end others pop
// and push. If nobody who uses this library has popped or pushed since the list got shards, and nobody else does while Adopt watches, it
// returns [ErrPoppedAt] and has changed nothing: [WithPoppedAt] has to say which. A list that it leaves
// at most half of one shard is the plain list again when it is used next.
//
// Adopt ends what [ShardedList.Restore] has begun or done. If Restore is called meanwhile, by any process, the error is
// [ErrReversed].
//
// Progress, if it is not nil, is called after each step with the number of elements moved so far and the total known. Adopt returns
// when nothing is left to move. If ctx ends before, or Adopt fails, the list is whole, and another call goes on. Each step is applied
// exactly once.
//
// If the key holds another type, the error is [ErrWrongType]; if it has the form of the keys that sharded lists are stored in,
// [ErrOwnKey]; and [ErrUnsupported] on a Ring, for a name with a closing brace and no hash tag, whose list may be on another server.
func (l *ShardedList) Adopt(ctx context.Context, progress func(moved, total int64)) error {
	return l.inSteps(ctx, "adopt", l.list.AdoptStep, progress)
}

// Restore turns the list into a plain list at the key of its name, the way back from [ShardedList.Adopt]. There is no Redis command
// for it.
//
// It moves the elements to one shard, in steps of at most 1,000 elements or 256 KiB, or one element that is larger, and gives that
// shard the plain key by one RENAME. Others can use the list meanwhile; its elements and their order do not change. An expiry of the
// list becomes that of the key. From then on every operation on the list works on the plain key, however long it gets, and when the list
// has been empty in between: start processes that do not use this library when Restore has
// returned. Adopt ends that. Until then, Rename and Copy fail, and All reads the list as repeated calls of LRange do.
//
// Elements of a plain list beside the list join it as in Adopt, and [WithPoppedAt] says at which end. Progress, if it is not nil, is
// called after each step with the number of elements moved so far and the total known. If ctx ends before, or Restore fails, the list
// is whole, and another call goes on. Each step is applied exactly once. Restore works while the memory of the server is full.
//
// If Adopt is called meanwhile, by any process, the error is [ErrReversed], and the list is sharded. The other errors are those of
// Adopt.
func (l *ShardedList) Restore(ctx context.Context, progress func(moved, total int64)) error {
	return l.inSteps(ctx, "restore", l.list.RestoreStep, progress)
}

// How long the plain key is watched: if it may grow while the list becomes another one, and if it has grown.
const (
	watchBefore    = 50 * time.Millisecond
	watchNewcomers = 2 * time.Second
)

// inSteps moves elements until none are left.
func (l *ShardedList) inSteps(ctx context.Context, operation string,
	step func(ctx context.Context, begin bool, joins layout.Joins) (moved, left int64, err error), progress func(moved, total int64)) error {
	if isApart(l.list.Client(), l.Name()) {
		return l.wrap(operation, errApart)
	}
	joins, err := l.list.WatchKey(ctx, watchBefore)
	if err != nil {
		return l.wrap(operation, err)
	}
	var sum int64
	for begin := true; ; {
		moved, left, err := step(ctx, begin, joins)
		if redis.HasErrorPrefix(err, "UNKNOWNEND") {
			joins, err = l.list.WatchKey(ctx, watchNewcomers)
			switch {
			case err == nil && joins == "" && begin:
				err = ErrPoppedAt
			case err == nil && joins == "":
				joins = layout.PushedRight
				fallthrough
			case err == nil:
				continue
			}
		}
		if !isDone(err) {
			return l.wrap(operation, err)
		}
		begin = false
		sum += moved
		if progress != nil {
			progress(sum, sum+left)
		}
		if left == 0 {
			return l.wrap(operation, err)
		}
	}
}

// WithPoppedAt says at which end the elements of the list are popped, "LEFT" or "RIGHT" in any case. [ShardedList.Adopt] and
// [ShardedList.Restore] then know that the elements of a plain list beside the list join the other end, and the list knows it until it
// is empty. They need not be told if somebody who uses this library has popped or pushed since it was. Other methods ignore it. A bad end
// is [ErrEnd].
func WithPoppedAt(end string) Option {
	return func(s *settings) error {
		popped, err := layout.ParseEnd(end)
		if err != nil {
			return fmt.Errorf("%w: %q", ErrEnd, end)
		}
		s.PoppedAt = popped
		return nil
	}
}
