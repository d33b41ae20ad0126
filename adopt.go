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
// microseconds, and everything works on them from then on. Further steps move them to shards, at most 1,000 elements or those of one
// shard each. Others can use the list meanwhile; its elements and their order do not change. A plain list that expires makes the list
// expire.
//
// If the list has elements, those of the plain list join the end that [WithPoppedAt] leaves: the other one than that at which
// consumers pop. So elements that a process which does not use this library has pushed to the plain key in the meantime come behind
// those that are there. Without the option, Adopt returns [ErrPoppedAt] and changes nothing. The expiry of such a plain list is
// dropped.
//
// Progress, if it is not nil, is called after each step with the number of elements moved so far and the total known. Adopt returns
// when nothing is left to move. If ctx ends before, or Adopt fails, the list is whole, and another call goes on. Each step is applied
// exactly once.
//
// If the key holds another type, the error is [ErrWrongType]; if it has the form of the keys that sharded lists are stored in,
// [ErrOwnKey]; and [ErrUnsupported] on a Ring, for a name with a closing brace and no hash tag, whose list may be on another server.
func (l *ShardedList) Adopt(ctx context.Context, progress func(moved, total int64)) error {
	if isApart(l.list.Client(), l.Name()) {
		return l.wrap("adopt", errApart)
	}
	var sum int64
	for {
		moved, left, err := l.list.AdoptStep(ctx)
		if !isDone(err) {
			if redis.HasErrorPrefix(err, "UNKNOWNEND") {
				err = ErrPoppedAt
			}
			return l.wrap("adopt", err)
		}
		sum += moved
		if progress != nil {
			progress(sum, sum+left)
		}
		if left == 0 {
			return l.wrap("adopt", err)
		}
	}
}

// WithPoppedAt says at which end the elements of the list are popped, "LEFT" or "RIGHT" in any case. [ShardedList.Adopt] then knows
// that the elements of a plain list join the other end. Other methods ignore it.
func WithPoppedAt(end string) Option {
	return func(s *settings) error {
		popped, err := layout.ParseEnd(end)
		if err != nil {
			return fmt.Errorf("%w: %q", ErrEnd, end)
		}
		s.NewcomersAt = oneslot.Newcomers(popped)
		return nil
	}
}

// WithPlain makes the list and a plain list at the key of its name one list, as the hook does: if the list is empty, it takes the plain
// list over. The first operation that finds it, a read too, renames it in O(1), whatever its length, and works on it from then on; see
// [ShardedList.Adopt] for the steps that turn it into shards. If the key holds another type while the list is empty, operations fail
// with [ErrWrongType]. What other processes push to the key while the list has elements stays there until the list is empty, or until
// Adopt.
//
// New returns [ErrOwnKey] for a name that has the form of the keys that sharded lists are stored in. Without this option, the list and the key have nothing to do with each other, but for Adopt. NewHook needs no such option.
func WithPlain() Option {
	return func(s *settings) error {
		if meta, _ := oneslot.Owner(s.Name); meta != "" {
			return fmt.Errorf("shardedlist: plain list %q: %w", s.Name, ErrOwnKey)
		}
		s.StandsFor = s.Name
		return nil
	}
}
