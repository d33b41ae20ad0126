package oneslot

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

var checkScript = script.Load("check")

// maxStrays limits the stray shards that Check examines.
const maxStrays = 10_000

// Check verifies the invariants of the list, a thousand shards in each step. It returns an error that names each fault.
func (l *List) Check(ctx context.Context) error {
	strays, err := l.strays(ctx)
	if err != nil {
		return err
	}
	return l.CheckShards(ctx, strays...)
}

// CheckShards is Check for the shards between the pointers, and the shards with the given ids.
func (l *List) CheckShards(ctx context.Context, strays ...any) error {
	var breaches []error
	for next, first := "", true; first || next != ""; first = false {
		reply, err := l.read(checkScript, append([]any{next}, strays...)...).Run(ctx)
		if err != nil {
			return err
		}
		words := reply.([]any)
		next, strays = words[0].(string), nil
		for _, breach := range words[1:] {
			breaches = append(breaches, fmt.Errorf("%w: %s", layout.ErrBroken, breach))
		}
	}
	return errors.Join(breaches...)
}

// strays returns the ids of existing shards that are not between the pointers, as far as SCAN finds them while the pointers may
// move.
func (l *List) strays(ctx context.Context) (ids []any, err error) {
	info, err := l.meta(ctx)
	if layout.ErrorOf(err) == layout.ErrBroken {
		err = nil // then all shards are looked at
	}
	if err != nil {
		return nil, err
	}
	node, err := script.Master(ctx, l.Client(), l.keys.Meta)
	if err != nil {
		return nil, err
	}
	keys := node.Scan(ctx, 0, l.keys.Glob(), 10_000).Iterator()
	for keys.Next(ctx) && len(ids) < maxStrays {
		suffix, ours := strings.CutPrefix(keys.Val(), l.keys.Prefix)
		id, err := strconv.ParseInt(suffix, 10, 64)
		if ours && err == nil && (id < info.First || id > info.Last) {
			ids = append(ids, id)
		}
	}
	return ids, keys.Err()
}
