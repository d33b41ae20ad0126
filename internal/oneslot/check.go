package oneslot

import (
	"context"
	"errors"
	"fmt"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

var checkScript = script.Load("check")

// Check verifies the invariants of the list, in bounded steps. It returns an error that names each fault.
func (l *List) Check(ctx context.Context) error {
	breaches := l.CheckShards(ctx)
	if breaches != nil && !errors.Is(breaches, layout.ErrBroken) {
		return breaches
	}
	strays, err := l.strays(ctx, "")
	if len(strays) > 0 {
		breaches = errors.Join(breaches, fmt.Errorf("%w: stray shards, which no meta knows: %s", layout.ErrBroken, strays))
	}
	return errors.Join(breaches, err)
}

// CheckShards is Check without the search for stray shards. It checks 250 shards in each step.
func (l *List) CheckShards(ctx context.Context) error {
	var breaches []error
	for next, first := "", true; first || next != ""; first = false {
		reply, err := l.read(checkScript, next).Run(ctx)
		if err != nil {
			return err
		}
		words := reply.([]any)
		next = words[0].(string)
		for _, breach := range words[1:] {
			breaches = append(breaches, fmt.Errorf("%w: %s", layout.ErrBroken, breach))
		}
	}
	return errors.Join(breaches...)
}
