package oneslot

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/stats"
	"github.com/shardedlist/shardedlist/internal/value"
)

var (
	guardScript  = script.Load("guard")
	memoryScript = script.Load("memory")
	keysScript   = script.Load("keys")
)

var (
	errNameOfMeta = errors.New("a script does not know the name of the meta of a list")
	errNotInPlace = errors.New("some of the lists have lately been long")
)

// Guard returns the script that carries out a command, unless a list stands where it has a key.
func (l *List) Guard(g layout.Guard) (script.Call, error) {
	keys, args, err := guardWords(g, "run")
	if err != nil {
		return script.Call{}, err
	}
	call := script.NewCall(guardScript, keys, len(args))
	call.Args, call.List = append(call.Args, args...), l.stats
	return call, nil
}

// Vacant is an operation that fails as the command does if a list stands where the command has a key.
func (l *List) Vacant(g layout.Guard) (session.Operation, error) {
	keys, args, err := guardWords(g, "check")
	return l.sessions.Read(guardScript, keys, args...), err
}

// guardWords are the keys and the arguments of guard.lua.
func guardWords(g layout.Guard, how string) (keys, args []any, err error) {
	lists, err := several(g.Lists)
	if err != nil {
		return nil, nil, err
	}
	args = append(make([]any, 0, 4+2*len(g.At)+len(g.Words)), len(lists), 0, how, g.RESP)
	for _, list := range lists {
		keys, args = append(keys, list.config.Name), append(args, list.keys.Meta)
	}
	for _, key := range g.Keys {
		if !slices.Contains(keys, any(key)) {
			keys = append(keys, key)
		}
	}
	for _, key := range g.Written {
		if meta, _ := Owner(key); meta != "" {
			args = append(args, meta)
		}
	}
	args[1] = len(args) - 4 - len(lists)
	for _, at := range g.At {
		args = append(args, at)
	}
	return keys, append(args, g.Words...), nil
}

var (
	ownForm = regexp.MustCompile(`(?s)^(.*):(?:meta|bell|` + certainForm + `)$`)
	certain = regexp.MustCompile(`(?s):(?:` + certainForm + `)$`)
)

const (
	uuidForm    = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`
	recordForm  = `op:` + uuidForm + `(?::popped|:[1-9][0-9]*)?`
	certainForm = `bell:` + uuidForm + `|` + recordForm + `|` + shardForm + `|` + partForm + `|short\.meta`
	partForm    = `part\.(?:meta|bell(?::` + uuidForm + `)?|` + recordForm + `|[0-9]{16}\.(?:0|-?[1-9][0-9]{0,18}))` // see package spread
	shardForm   = `#[0-9a-f]{12}\.[0-9]+:(?:0|-?[1-9][0-9]{0,18})`
)

// Owner returns the meta of the list to which a key belongs if that list exists, or nothing. sure tells that the key is a list's
// whether it exists or not: nobody else gives keys such names.
func Owner(key string) (meta string, sure bool) {
	if !strings.Contains(key, "}") || !mayBeOwned(key) { // as most keys
		return "", false
	}
	match := ownForm.FindStringSubmatch(key)
	if match == nil || !script.HasHashTag(match[1]) {
		return "", false
	}
	return match[1] + ":meta", certain.MatchString(key)
}

// mayBeOwned tells cheaply of most keys that they have no form of those of a list.
func mayBeOwned(key string) bool {
	return strings.HasSuffix(key, "meta") || strings.HasSuffix(key, ":bell") ||
		slices.ContainsFunc(ownParts, func(part string) bool { return strings.Contains(key, part) })
}

var ownParts = []string{":#", ":op:", ":bell:", ":part."}

// Naming tells which list a key belongs to by its form; see hook.Naming.
func Naming(key string) (name string, sure, isMeta bool) {
	meta, sure := Owner(key)
	if meta != "" {
		name, _ = NameOf(meta)
	}
	return name, sure, name != "" && (key == meta || strings.HasSuffix(key, ":short.meta"))
}

// Reserved tells which of the keys may be a list's own, by their form: those that surely are, and those that are if the list exists.
func (l *List) Reserved(keys []string) (sure, maybe []string) {
	for _, key := range keys {
		switch meta, isSure := Owner(key); {
		case isSure:
			sure = append(sure, key)
		case meta != "":
			maybe = append(maybe, key)
		}
	}
	slices.Sort(sure)
	slices.Sort(maybe)
	return slices.Compact(sure), slices.Compact(maybe)
}

// CountKeys carries out a command that counts keys, those of the lists among them, or has nil if each list is to be looked at. Then it is not
// tried again for a second where the first list is the same, and the next such command takes one round trip, too.
func (l *List) CountKeys(words []any, lists []layout.List, alone bool) (session.Operation, error) {
	all, err := several(lists)
	if err != nil {
		return session.Operation{}, err
	} else if alone && !all[0].MayBeInPlace() {
		return session.Operation{}, errNotInPlace
	}
	if name := strings.ToLower(value.Text(words[0])); !alone || name == "del" || name == "unlink" {
		forms, known := metaForms(words[1:], all)
		if !known {
			return session.Operation{}, errNameOfMeta
		}
		op := l.sessions.Read(keysScript, l.declared, append([]any{words[0], forms}, words[1:]...)...)
		if name == "exists" || name == "touch" {
			op.Kind = stats.Read
		}
		op.Finish = func(_ context.Context, reply any) (any, error) {
			if reply == nil {
				all[0].NotInPlace()
			}
			return reply, nil
		}
		return op, nil
	}
	metas := append(make([]any, 0, 1+len(all)), "exists")
	for _, list := range all {
		metas = append(metas, list.declared[0])
	}
	return session.Steps(func(ctx context.Context) (any, error) {
		l.sessions.List.Operation(stats.Read, 0)
		replies, err := l.sessions.Runner.Together(ctx, metas, words)
		if script.LacksCommand(err) {
			return nil, err
		} else if err != nil {
			return nil, nil
		} else if replies[0] != int64(0) {
			all[0].NotInPlace()
			return nil, nil
		}
		return replies[1], nil
	}), nil
}

// metaForms says of each key how commands/keys.lua makes the name of its list's meta, which is shorter than the names. It is not known of a
// few names with braces. The lists are in the order of their keys.
func metaForms(keys []any, lists []*List) (forms string, known bool) {
	text := make([]byte, len(keys))
	for i, key := range keys {
		text[i] = '-'
		if len(lists) == 0 || value.Text(key) != lists[0].config.Name {
			continue
		}
		name, prefix := lists[0].config.Name, lists[0].keys.Prefix
		switch lists = lists[1:]; {
		case len(prefix) == len(name)+len(":"):
			text[i] = '='
		case prefix == "{"+name+"}:":
			text[i] = '{'
		default:
			return "", false
		}
	}
	return string(text), len(lists) == 0
}

// Memory has the bytes that the shards take, estimated as Info does.
func (l *List) Memory(key ...any) session.Operation {
	return orKey(l.sessions.Read(memoryScript, l.declared, append([]any{infoSamples}, key...)...), asReplied)
}
