package oneslot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

var (
	adoptScript   = script.Load("adopt")
	restoreScript = script.Load("restore")
)

// ErrOwnKey is returned for a plain key that has the form of those that lists are stored in.
var ErrOwnKey = errors.New("the key has the form of those that sharded lists are stored in")

// AdoptStep moves elements of the plain list of the same name to the list. It returns how many it has moved, and how many are left.
func (l *List) AdoptStep(ctx context.Context, begin bool, joins layout.Joins) (moved, left int64, err error) {
	if err := l.Prepare(ctx); err != nil {
		return 0, 0, err
	}
	return l.moveStep(ctx, adoptScript, l.config.Name, l.capacity.word(), string(joins), first(begin))
}

// RestoreStep moves elements of the list to where the plain list of the same name will be, and makes it the plain list when no others
// are left.
func (l *List) RestoreStep(ctx context.Context, begin bool, joins layout.Joins) (moved, left int64, err error) {
	return l.moveStep(ctx, restoreScript, l.config.Name, string(joins), first(begin))
}

// first is how scripts are told of the first of several steps.
func first(begin bool) string {
	if begin {
		return "begin"
	}
	return ""
}

// WatchKey finds out which end newcomers join: the Config says it, or the end at which other processes pop from the plain key, or push to
// it. It looks at its ends until they change, or for so long. It returns at once if the key holds no list.
func (l *List) WatchKey(ctx context.Context, limit time.Duration) (layout.Joins, error) {
	switch l.config.PoppedAt {
	case layout.Left:
		return layout.PoppedLeft, nil
	case layout.Right:
		return layout.PoppedRight, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errWatched)
	defer cancel()
	for former, last := (ends{}), false; ; {
		now, err := l.lookAtEnds(ctx)
		switch {
		case err != nil && context.Cause(ctx) == errWatched, script.IsReply(err) && redis.HasErrorPrefix(err, "WRONGTYPE"):
			return "", nil
		case err != nil || len(now.head) == 0 || last:
			return "", err
		}
		if joins := former.joins(now); joins != "" {
			return joins, nil
		}
		former, last = now, script.Sleep(ctx, watchPause) != nil
	}
}

const (
	watchPause  = time.Millisecond
	watchWindow = 8 // elements
)

var errWatched = errors.New("the plain key was watched for long enough")

// ends are some elements of the plain key, from each end inward.
type ends struct{ head, tail []string }

// lookAtEnds reads the plain key, past a hook to which its name stands for the list.
func (l *List) lookAtEnds(ctx context.Context) (now ends, err error) {
	head := script.NewCommand(ctx, "lrange", l.config.Name, 0, watchWindow-1)
	tail := script.NewCommand(ctx, "lrange", l.config.Name, -watchWindow, -1)
	pipe := l.Client().Pipeline()
	_, _ = pipe.Process(ctx, head), pipe.Process(ctx, tail)
	if _, err := pipe.Exec(ctx); err != nil {
		return ends{}, err
	}
	now = ends{flatten([]any{head.Val()}), flatten([]any{tail.Val()})}
	slices.Reverse(now.tail)
	return now, nil
}

// joins returns what it tells that the ends are other ones now.
func (e ends) joins(now ends) layout.Joins {
	pushedAtHead, poppedAtHead := moved(e.head, now.head)
	pushedAtTail, poppedAtTail := moved(e.tail, now.tail)
	switch {
	case poppedAtHead != poppedAtTail && poppedAtHead:
		return layout.PoppedLeft
	case poppedAtHead != poppedAtTail:
		return layout.PoppedRight
	case pushedAtHead != pushedAtTail && pushedAtHead:
		return layout.PushedLeft
	case pushedAtHead != pushedAtTail:
		return layout.PushedRight
	}
	return ""
}

// moved tells whether elements have come at an end, or gone, as far as it can be seen.
func moved(former, now []string) (pushed, popped bool) {
	if len(former) == 0 || len(now) == 0 || former[0] == now[0] {
		return false, false
	}
	return slices.Contains(now, former[0]), slices.Contains(former, now[0])
}

// split turns long shards into full ones.
func (l *List) split(ctx context.Context) error {
	if err := l.Prepare(ctx); err != nil {
		return err
	}
	for left := int64(1); left > 0; {
		var err error
		if _, left, err = l.moveStep(ctx, adoptScript, "", l.capacity.word(), "none", ""); !script.IsDone(err) {
			return err
		}
	}
	return nil
}

// moveStep is a step that moves elements, see adopt.lua and restore.lua.
func (l *List) moveStep(ctx context.Context, s *script.Script, plain string, args ...any) (moved, left int64, err error) {
	words := []any{""}
	if plain != "" {
		if meta, _ := Owner(plain); meta != "" {
			return 0, 0, ErrOwnKey
		}
		words[0] = "+" + plain
	}
	op := l.sessions.Operation(s, l.declared, len(args), words...)
	op.Append(args...)
	op.Orders = l.bothEnds()
	reply, err := op.Run(ctx)
	if !script.IsDone(err) {
		return 0, 0, err
	}
	if _, scanErr := fmt.Sscan(reply.(string), &moved, &left); scanErr != nil {
		return 0, 0, scanErr
	}
	return moved, left, err
}
