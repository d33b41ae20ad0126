package shardedlist

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// Rename gives the list another name, and deletes a list that has it: RENAME. It returns the server's error "ERR no such key" if
// there is no list. This ShardedList keeps its name, and is of a list that does not exist from then on. Callers blocked in BLPop
// on the new name are served, those on the old one go on waiting. The time at which the list expires goes along.
//
// It is one atomic step. It costs O(shards), where RENAME itself costs O(1): the name of a list is part of the names of its
// shards. A million elements in shards of 512 hold the server for some milliseconds. What is left of a list that had the name is
// swept as after Del.
//
// On a cluster both names must be of one slot, by a common hash tag; else the error is the server's CROSSSLOT, with nothing
// sent. It is done once, as LPush is. Its other errors are those of LPush.
func (l *ShardedList) Rename(ctx context.Context, newName string) error {
	_, err := l.transfer(ctx, layout.Rename, newName, true)
	return l.wrap("rename", err)
}

// RenameNX is Rename if there is no list of the new name, and reports false if there is one: RENAMENX.
func (l *ShardedList) RenameNX(ctx context.Context, newName string) (bool, error) {
	renamed, err := l.transfer(ctx, layout.Rename, newName, false)
	return renamed, l.wrap("renamenx", err)
}

// Copy makes a list of the destination's name with the same elements, the same capacity and the same expiry, and reports
// whether it did: COPY. It does not if this list does not exist, nor if the destination does, unless replace is set. Callers
// blocked in BLPop on the destination are served.
//
// It is one atomic step, which costs O(elements) and holds the server for as long, as COPY does. A server with no room for it
// says so and has changed nothing. The rest is as with Rename.
func (l *ShardedList) Copy(ctx context.Context, destination string, replace bool) (bool, error) {
	copied, err := l.transfer(ctx, layout.Copy, destination, replace)
	return copied, l.wrap("copy", err)
}

// Exists tells whether there is a list, which is one with elements: EXISTS. It costs O(1). Its errors are those of LLen.
func (l *ShardedList) Exists(ctx context.Context) (bool, error) {
	length, err := resultOf[int64](ctx, l, "exists", l.list.Length())
	return length > 0, err
}

// Type returns "list" if there is a list, else "none": TYPE. It costs O(1). Its errors are those of LLen.
func (l *ShardedList) Type(ctx context.Context) (string, error) {
	length, err := resultOf[int64](ctx, l, "type", l.list.Length())
	switch {
	case err != nil:
		return "", err
	case length == 0:
		return "none", nil
	}
	return "list", nil
}

// transfer renames or copies the list, and tells whether it did.
func (l *ShardedList) transfer(ctx context.Context, how layout.Transfer, name string, replace bool) (bool, error) {
	if name == l.Name() {
		result, err := l.list.Length().Run(ctx)
		if err != nil {
			return false, err
		}
		return how.ToItself(result.(int64), replace)
	}
	if name == "" {
		return false, ErrEmptyName
	}
	op, err := l.list.Transfer(how, l.list.Sibling(name), replace)
	if err != nil {
		return false, err
	}
	result, err := op.Run(ctx)
	transferred, _ := result.(bool)
	return transferred, err
}
