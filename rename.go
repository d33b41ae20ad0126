package shardedlist

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Errors as the server words them.
const (
	errNoSuchKey  = replyError("ERR no such key")
	errSameObject = replyError("ERR source and destination objects are the same")
	errCrossSlot  = replyError("CROSSSLOT Keys in request don't hash to the same slot")
)

// replyError is an error that the server would reply with, found without asking it.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

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
	verdict, err := l.transfer(ctx, "RENAME", newName, true)
	if err == nil && verdict == verdictNoList {
		err = errNoSuchKey
	}
	return l.wrap("rename", err)
}

// RenameNX is Rename if there is no list of the new name, and reports false if there is one: RENAMENX.
func (l *ShardedList) RenameNX(ctx context.Context, newName string) (bool, error) {
	verdict, err := l.transfer(ctx, "RENAME", newName, false)
	if err == nil && verdict == verdictNoList {
		err = errNoSuchKey
	}
	return err == nil && verdict != verdictNo, l.wrap("renamenx", err)
}

// Copy makes a list of the destination's name with the same elements, the same capacity and the same expiry, and reports
// whether it did: COPY. It does not if this list does not exist, nor if the destination does, unless replace is set. Callers
// blocked in BLPop on the destination are served.
//
// It is one atomic step, which costs O(elements) and holds the server for as long, as COPY does. A server with no room for it
// says so and has changed nothing. The rest is as with Rename.
func (l *ShardedList) Copy(ctx context.Context, destination string, replace bool) (bool, error) {
	if destination == l.name {
		return false, l.wrap("copy", errSameObject)
	}
	verdict, err := l.transfer(ctx, "COPY", destination, replace)
	return err == nil && verdict > verdictNo, l.wrap("copy", err)
}

// Exists tells whether there is a list, which is one with elements: EXISTS. It costs O(1). Its errors are those of LLen.
func (l *ShardedList) Exists(ctx context.Context) (bool, error) {
	length, err := l.length(ctx)
	return length > 0, l.wrap("exists", err)
}

// Type returns "list" if there is a list, else "none": TYPE. It costs O(1). Its errors are those of LLen.
func (l *ShardedList) Type(ctx context.Context) (string, error) {
	length, err := l.length(ctx)
	switch {
	case err != nil:
		return "", l.wrap("type", err)
	case length == 0:
		return "none", nil
	}
	return "list", nil
}

const verdictNoList = int64(-1) // of transfer.lua

// transfer renames or copies the list.
func (l *ShardedList) transfer(ctx context.Context, command, name string, replace bool) (int64, error) {
	if name == l.name {
		return l.renameToItself(ctx, replace)
	}
	other, err := New(l.rdb, name)
	if err != nil {
		return 0, err
	}
	if !l.reaches(other.keys) {
		return 0, errCrossSlot
	}
	o := newOperation(transferScript, append([]string{l.keys.meta, other.keys.meta}, l.scriptKeys[1:]...), 3)
	mode := ""
	if replace {
		mode = "replace"
	}
	o.args = append(o.args, 2, command, mode)
	reply, err := l.edit(ctx, o)
	if err != nil {
		return 0, err
	}
	other.forgetful, other.expiryGrace = l.forgetful, l.expiryGrace
	other.tend(ctx, reply)
	return reply.(int64), nil
}

// renameToItself is what RENAME and RENAMENX make of a name that the list has already.
func (l *ShardedList) renameToItself(ctx context.Context, replace bool) (int64, error) {
	length, err := l.length(ctx)
	switch {
	case err != nil || length > 0 && !replace:
		return verdictNo, err
	case length == 0:
		return verdictNoList, nil
	}
	return verdictNo + 1, nil
}

// reaches tells whether one script can have the keys of this list and those of another one.
func (l *ShardedList) reaches(other keys) bool {
	switch l.rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
		return l.keys.slot() == other.slot()
	}
	return true // or the server will say
}
