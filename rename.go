package shardedlist

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// Rename renames the list, and deletes a list that has the new name: RENAME. It returns the server's error "ERR no such key" if
// the list does not exist. This ShardedList keeps its old name, at which there is then no list. Callers blocked in BLPop on the
// new name are served; those on the old name keep waiting. The list keeps its expiry.
//
// It is one atomic step, which is O(1): the shards keep their keys, in which the old name is. Those of a list that had the new name
// are unlinked in further steps, as by Del. To the name of a list that has been restored (see [ShardedList.Restore]) it is
// O(elements), in bounded steps before the atomic one, unless the list has only one shard.
//
// It is applied exactly once. Before anything is sent, it returns ErrEmptyName if newName is empty and, on a cluster, the
// server's CROSSSLOT if the names are not in one slot. Give them a common hash tag. See [ShardedList] for retries, cancellation
// and other errors.
func (l *ShardedList) Rename(ctx context.Context, newName string) error {
	_, err := l.transfer(ctx, layout.Rename, newName, true)
	return l.wrap("rename", err)
}

// RenameNX is Rename if no list has the new name. Otherwise it returns false: RENAMENX.
func (l *ShardedList) RenameNX(ctx context.Context, newName string) (bool, error) {
	renamed, err := l.transfer(ctx, layout.Rename, newName, false)
	return renamed, l.wrap("renamenx", err)
}

// Copy creates a list named destination with the same elements, capacity and expiry, and reports whether it did: COPY. It
// returns false if this list does not exist, or if the destination exists and replace is not set. Callers blocked in BLPop on
// the destination are served.
//
// It is O(elements), as in Redis. A list of more than 16 shards is copied in steps, to keys that expire if the client dies; the last
// step makes them the other list, which has the elements of that moment. Others wait for a step at the most, unless they change the
// list so fast that the last step has to copy all of it: see Stats. If the memory of the server is full, it fails with the OOM error
// and changes nothing. Its other errors are those of Rename, and the server's error if the destination is this list.
func (l *ShardedList) Copy(ctx context.Context, destination string, replace bool) (bool, error) {
	copied, err := l.transfer(ctx, layout.Copy, destination, replace)
	return copied, l.wrap("copy", err)
}

// Exists reports whether the list exists, that is, has elements: EXISTS. It is O(1).
func (l *ShardedList) Exists(ctx context.Context) (bool, error) {
	length, err := resultOf[int64](ctx, l, "exists", l.list.Length())
	return length > 0, err
}

// Type returns "list" if the list exists, else "none": TYPE. It is O(1).
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

// transfer renames or copies the list, and reports whether it did.
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
