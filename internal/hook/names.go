package hook

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/value"
)

// KEYS and SCAN have lists under their names, and none of the keys that they are stored in.
//
// A list is the key of its name while it is short, and a meta when it is long. Both forms are looked for one after the other: first the keys
// that the caller asks for, then the metas, which tell the names of long lists. A list that becomes short between the two leaves a mark,
// see lua/shared/shrink.lua, which counts as a meta. So SCAN has a second half, which a bit of its cursor tells.

// Naming tells what keys are for. The name of a list that a key belongs to is empty if it belongs to none; sure tells that nobody else
// gives keys such names; isMeta, that the key is a meta or a mark.
type Naming func(key string) (name string, sure, isMeta bool)

const (
	secondHalf = 1 << 63 // in a cursor; servers do not use it
	metaGlob   = "*meta" // matches the metas and the marks
	metaCount  = 1000    // keys that a SCAN of the second half looks at, at least: it replies with few
)

// listing is a call of KEYS or SCAN.
type listing struct {
	cmd     redis.Cmder
	isScan  bool
	pattern string
	count   int64
	cursor  uint64
	lists   bool // it asks for lists, perhaps among others
}

// listing returns what a command is if it lists keys, else nil. It allocates nothing for any other command.
func (h *Hook) listing(cmd redis.Cmder) *listing {
	args := cmd.Args()
	if len(args) < 2 || isOurs(cmd) {
		return nil
	}
	name, _ := args[0].(string)
	switch {
	case strings.EqualFold(name, "keys") && len(args) == 2:
		return &listing{cmd: cmd, pattern: value.Text(args[1]), lists: true}
	case !strings.EqualFold(name, "scan"):
		return nil
	}
	l := &listing{cmd: cmd, isScan: true, pattern: "*", lists: true}
	var err error
	if l.cursor, err = strconv.ParseUint(value.Text(args[1]), 10, 64); err != nil {
		return nil // the server says so
	}
	for i := 2; i+1 < len(args); i += 2 {
		switch word, text := value.Text(args[i]), value.Text(args[i+1]); {
		case strings.EqualFold(word, "match"):
			l.pattern = text
		case strings.EqualFold(word, "count"):
			l.count, _ = strconv.ParseInt(text, 10, 64)
		case strings.EqualFold(word, "type"):
			l.lists = strings.EqualFold(text, "list")
		}
	}
	return l
}

// inMetas tells whether the call continues with the metas.
func (l *listing) inMetas() bool { return l.isScan && l.cursor&secondHalf != 0 }

// metas returns the command that finds metas.
func (l *listing) metas(ctx context.Context) *script.Command {
	if !l.isScan {
		return script.NewCommand(ctx, "keys", metaGlob)
	}
	return script.NewCommand(ctx, "scan", l.cursor&^secondHalf, "match", metaGlob, "count", max(l.count, metaCount))
}

// listings returns the commands that list keys, by their places, or nil if there are none.
func (h *Hook) listings(cmds []redis.Cmder) (listings []*listing) {
	for i, cmd := range cmds {
		if l := h.listing(cmd); l != nil {
			if listings == nil {
				listings = make([]*listing, len(cmds))
			}
			listings[i] = l
		}
	}
	return listings
}

// listKeys carries out a call that stands alone.
func (h *Hook) listKeys(ctx context.Context, l *listing, next redis.ProcessHook) error {
	if l.inMetas() {
		found := l.metas(ctx)
		if err := next(ctx, found); err != nil {
			return setReply(l.cmd, nil, err)
		}
		return h.endListing(ctx, l, found)
	}
	if err := next(ctx, l.cmd); err != nil {
		return err
	}
	if l.isScan {
		return h.endListing(ctx, l, nil)
	}
	found := l.metas(ctx)
	if err := next(ctx, found); err != nil {
		return setReply(l.cmd, nil, err)
	}
	return h.endListing(ctx, l, found)
}

// listInPipeline carries out commands of which some list keys: send carries them out. Metas are looked for in the same pipeline or transaction.
func (h *Hook) listInPipeline(ctx context.Context, cmds []redis.Cmder, listings []*listing, send redis.ProcessPipelineHook) error {
	sent, metas := slices.Clone(cmds), make([]*script.Command, len(listings))
	for i, l := range listings {
		if l == nil || l.isScan && !l.inMetas() {
			continue
		}
		metas[i] = l.metas(ctx)
		if l.inMetas() {
			sent[i] = metas[i]
		}
	}
	end := len(sent)
	if isTransaction(cmds) {
		end--
	}
	for i, l := range listings {
		if l != nil && !l.isScan {
			sent = slices.Insert(sent, end, redis.Cmder(metas[i]))
		}
	}
	err := send(ctx, sent)
	for i, l := range listings {
		if l == nil {
			continue
		}
		failed := l.cmd.Err()
		if metas[i] != nil {
			failed = cmp.Or(failed, metas[i].Err())
		}
		if failed == nil {
			failed = h.endListing(ctx, l, metas[i])
		}
		l.cmd.SetErr(failed)
	}
	return cmp.Or(err, firstError(cmds))
}

// endListing turns what has been found into the reply. metas has what the command that finds them replied, or is nil.
func (h *Hook) endListing(ctx context.Context, l *listing, metas *script.Command) error {
	var keys []string
	next := uint64(0)
	if !l.inMetas() {
		if keys, next = repliedKeys(l.cmd); l.isScan && next == 0 && l.lists {
			next = secondHalf
		}
		keys = slices.DeleteFunc(keys, h.hides)
	}
	if metas != nil {
		found, cursor := repliedKeys(metas)
		if l.inMetas() && cursor != 0 {
			next = cursor | secondHalf
		}
		names, err := h.longLists(ctx, l, found, keys)
		if err != nil {
			return setReply(l.cmd, nil, err)
		}
		keys = append(keys, names...)
	}
	switch cmd := l.cmd.(type) {
	case *redis.ScanCmd:
		cmd.SetVal(keys, next)
		cmd.SetErr(nil)
		return nil
	case *redis.StringSliceCmd:
		cmd.SetVal(keys)
		cmd.SetErr(nil)
		return nil
	}
	if !l.isScan {
		return setReply(l.cmd, array(keys), nil)
	}
	return setReply(l.cmd, []any{strconv.FormatUint(next, 10), array(keys)}, nil)
}

// hides tells whether a key is one that a list is stored in.
func (h *Hook) hides(key string) bool {
	name, sure, _ := h.naming(key)
	return sure || name != "" && h.matches(name)
}

// longLists returns the names of the lists that metas tell of, if they match, have elements, and are not among the keys.
func (h *Hook) longLists(ctx context.Context, l *listing, metas, keys []string) (names []string, err error) {
	known := make(map[string]bool, len(keys))
	for _, key := range keys {
		known[key] = true
	}
	for _, meta := range metas {
		name, _, isMeta := h.naming(meta)
		if isMeta && !known[name] && h.matches(name) && globMatches(l.pattern, name) {
			names, known[name] = append(names, name), true
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	pipe := h.client.Pipeline()
	types := make([]*redis.StatusCmd, len(names))
	for i, name := range names {
		types[i] = pipe.Type(ctx, name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	found := names[:0]
	for i, name := range names {
		if types[i].Val() == "list" {
			found = append(found, name)
		}
	}
	return found, nil
}

// repliedKeys returns the keys of a reply to KEYS or SCAN, and the cursor of SCAN.
func repliedKeys(cmd redis.Cmder) (keys []string, cursor uint64) {
	switch cmd := cmd.(type) {
	case *redis.ScanCmd:
		return cmd.Val()
	case *redis.StringSliceCmd:
		return cmd.Val(), 0
	case *redis.SliceCmd:
		return keysIn(cmd.Val())
	case interface{ Val() any }:
		reply, _ := cmd.Val().([]any)
		return keysIn(reply)
	}
	return nil, 0
}

// keysIn returns the keys of a reply as the server sends it.
func keysIn(reply []any) (keys []string, cursor uint64) {
	if len(reply) == 2 {
		if found, isScan := reply[1].([]any); isScan {
			cursor, _ = strconv.ParseUint(value.Text(reply[0]), 10, 64)
			reply = found
		}
	}
	return each[string](reply), cursor
}
