package oneslot

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// Script runs a script of the user's, which may push at both ends.
func (l *List) Script(ctx context.Context, s layout.Script) (session.Operation, error) {
	keys, plain := []any{l.keys.Meta}, l.plain
	for _, key := range s.Keys {
		if err := l.checkKey(key); err != nil {
			return session.Operation{}, err
		}
		keys, plain = append(keys, key), append(plain[:len(plain):len(plain)], "") // not a list's
	}
	if err := l.Prepare(ctx); err != nil {
		return session.Operation{}, err
	}
	op := l.sessions.Operation(s.Script, keys, 1+len(s.Args), plain...)
	if s.Creates {
		op.Append(l.capacity.word())
	} else {
		op.Append("")
	}
	op.Append(s.Args...)
	op.Orders = l.bothEnds()
	op.Finish = func(_ context.Context, reply any) (any, error) { return resultOfScript(reply) }
	return op, nil
}

// checkKey returns an error for a key that a script on the list cannot have: it is on another node, or a list's own.
func (l *List) checkKey(key string) error {
	apart := false
	switch l.Client().(type) {
	case *redis.ClusterClient:
		apart = script.Slot(key) != l.keys.Slot()
	case *redis.Ring:
		apart = script.HashTag(key) != script.HashTag(l.keys.Meta)
	}
	if apart {
		return fmt.Errorf("key %q must have the hash tag of the list, as %q has: %w", key, l.keys.Prefix+"…", rediserr.CrossSlot)
	}
	if meta, sure := Owner(key); sure || meta == l.keys.Meta {
		return fmt.Errorf("key %q: %w", key, ErrOwnKey)
	}
	return nil
}

// resultOfScript reads a reply of script.lua. An error that the list caused wraps the one that stands for it; not so an error of other
// keys.
func resultOfScript(reply any) (any, error) {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return nil, errors.New("the reply is not that of a script")
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	text, _ := parts[0].(string)
	var err error = rediserr.Error(text)
	if ofList := layout.ErrorOf(err); parts[1] == "push" && ofList != nil {
		err = fmt.Errorf("%w: %w", ofList, err)
	}
	return nil, fmt.Errorf("%w: %w", layout.ErrScript, err)
}
