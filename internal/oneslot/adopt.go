package oneslot

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	adoptScript   = script.Load("adopt")
	restoreScript = script.Load("restore")
)

// ErrOwnKey is returned for a plain key that has the form of those that lists are stored in.
var ErrOwnKey = errors.New("the key has the form of those that sharded lists are stored in")

// AdoptStep moves elements of the plain list of the same name to the list. It returns how many it has moved, and how many are left.
func (l *List) AdoptStep(ctx context.Context, begin bool) (moved, left int64, err error) {
	if err := l.Prepare(ctx); err != nil {
		return 0, 0, err
	}
	return l.moveStep(ctx, adoptScript, l.config.Name, l.capacity.word(), l.newcomersJoin(), first(begin))
}

// RestoreStep moves elements of the list to where the plain list of the same name will be, and makes it the plain list when no others
// are left.
func (l *List) RestoreStep(ctx context.Context, begin bool) (moved, left int64, err error) {
	return l.moveStep(ctx, restoreScript, l.config.Name, l.newcomersJoin(), first(begin))
}

// first is how scripts are told of the first of several steps.
func first(begin bool) string {
	if begin {
		return "begin"
	}
	return ""
}

// newcomersJoin says which end newcomers join, as lua/shared/pointers.lua has it, or nothing if that is not known.
func (l *List) newcomersJoin() string {
	switch l.config.PoppedAt {
	case layout.Left:
		return "4"
	case layout.Right:
		return "3"
	}
	return ""
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
	op.Orders = []*session.Order{&l.left.order, &l.right.order}
	reply, err := op.Run(ctx)
	if !script.IsDone(err) {
		return 0, 0, err
	}
	if _, scanErr := fmt.Sscan(reply.(string), &moved, &left); scanErr != nil {
		return 0, 0, scanErr
	}
	return moved, left, err
}
