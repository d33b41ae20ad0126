package oneslot

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var adoptScript = script.Load("adopt")

// ErrOwnKey is returned for a plain key that has the form of those that lists are stored in.
var ErrOwnKey = errors.New("the key has the form of those that sharded lists are stored in")

// AdoptStep moves elements of the plain list of the same name to the list. It returns how many it has moved, and how many are left.
func (l *List) AdoptStep(ctx context.Context) (moved, left int64, err error) {
	if meta, _ := Owner(l.config.Name); meta != "" {
		return 0, 0, ErrOwnKey
	}
	return l.adoptStep(ctx, l.config.Name, string(l.config.NewcomersAt))
}

// split turns long shards into full ones.
func (l *List) split(ctx context.Context) error {
	for left := int64(1); left > 0; {
		var err error
		if _, left, err = l.adoptStep(ctx, l.keys.Meta, "none"); !script.IsDone(err) {
			return err
		}
	}
	return nil
}

// adoptStep is a step of Adopt or split, see adopt.lua.
func (l *List) adoptStep(ctx context.Context, plain, end string) (moved, left int64, err error) {
	if err := l.Prepare(ctx); err != nil {
		return 0, 0, err
	}
	op := l.sessions.Operation(adoptScript, l.declared, 2, plain)
	op.Append(l.capacity.word(), end)
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

// Newcomers returns the end that elements of the plain list join if those who pop pop at the other end.
func Newcomers(popped layout.End) layout.End {
	if popped == layout.Left {
		return layout.Right
	}
	return layout.Left
}
