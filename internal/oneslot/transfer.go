package oneslot

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var transfers = map[layout.Transfer]*script.Script{layout.Rename: script.Load("rename"), layout.Copy: script.Load("copy")}

// Transfer renames or copies the list.
func (l *List) Transfer(how layout.Transfer, to layout.List, replace bool) (session.Operation, error) {
	lists, err := several([]layout.List{l, to})
	if err != nil {
		return session.Operation{}, err
	}
	mode := ""
	if replace {
		mode = "replace"
	}
	op := operationOn(lists, transfers[how], 2)
	op.Append(mode)
	op.Finish = func(ctx context.Context, reply any) (any, error) {
		verdict := reply.(int64)
		lists[1].continueExpiry(ctx, verdict)
		return verdict != verdictNo, nil
	}
	return op, nil
}
