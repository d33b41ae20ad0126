package shardedlist

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
)

// Adopt makes the plain list at the key of the same name a part of the list, and turns it into shards. There is no Redis command for
// it. If there is no plain list, and no shard is longer than the capacity, it does nothing.
//
// If the list is empty, it has the elements of the plain list after the first step, which is one RENAME: 10 million elements take
// microseconds, and everything works on them from then on. Further steps move them to shards, at most 1,000 elements or 256 KiB each,
// or one element that is larger. Others can use the list meanwhile; its elements and their order do not change. A plain list that
// expires makes the list expire.
//
// If the list has elements, those of the plain list join an end as [WithPlain] says. If nobody who watches the key has popped or
// pushed yet, [WithPoppedAt] has to say which; without it, Adopt returns [ErrPoppedAt] and changes nothing.
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
// list becomes that of the key. From then on every operation on the list works on the plain key, also of processes that do not use
// [WithPlain] or the hook, and when the list has been empty in between: start processes that do not use this library when Restore has
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

// inSteps moves elements until none are left.
func (l *ShardedList) inSteps(ctx context.Context, operation string,
	step func(ctx context.Context, begin bool) (moved, left int64, err error), progress func(moved, total int64)) error {
	if isApart(l.list.Client(), l.Name()) {
		return l.wrap(operation, errApart)
	}
	var sum int64
	for begin := true; ; begin = false {
		moved, left, err := step(ctx, begin)
		if !isDone(err) {
			if redis.HasErrorPrefix(err, "UNKNOWNEND") {
				err = ErrPoppedAt
			}
			return l.wrap(operation, err)
		}
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
// is empty. They need not be told if somebody who watches the key has popped or pushed since it was. Other methods ignore it. A bad end
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

// WithPlain makes the list and a plain list at the key of its name one list, as the hook does.
//
// If the list is empty, the first operation that changes it takes the plain list over, whatever its length: it renames it, in O(1), and
// works on it from then on; see [ShardedList.Adopt] for the steps that turn it into shards. Operations that only read, read the plain
// list, and leave it to the consumers. If the list has elements, what other processes have pushed to the key since joins the list
// with the next operation: at the end opposite to that at which elements are popped or, as long as nobody has popped, at the end of
// the first push. So a queue keeps its order. A plain list that expires makes the list expire.
//
// If the key holds another type while the list is empty, operations fail with [ErrWrongType]. New returns [ErrOwnKey] for a name that
// has the form of the keys that sharded lists are stored in. The cost is one EXISTS for each operation.
//
// A list without this option does not look at the key, unless the list is empty: if there is a plain list then, operations fail with
// [ErrPlainList]. NewHook needs no such option.
func WithPlain() Option {
	return func(s *settings) error {
		if meta, _ := oneslot.Owner(s.Name); meta != "" {
			return fmt.Errorf("shardedlist: plain list %q: %w", s.Name, ErrOwnKey)
		}
		s.StandsFor, s.WithoutPlain = s.Name, false
		return nil
	}
}

// WithoutPlain makes a hook leave plain lists alone, if no process uses them any more: it saves one EXISTS for each operation. Operations
// that find the sharded list empty, and a plain list at the key, fail with [ErrPlainList]. A list that New returns is so without any
// option.
func WithoutPlain() Option {
	return func(s *settings) error {
		s.WithoutPlain = true
		return nil
	}
}
