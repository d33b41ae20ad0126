package oneslot

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/script"
)

// Keys are the Redis keys of one list, but those of the shards, which meta names. They share a hash tag, and so a cluster slot. No
// two lists share a key.
type Keys struct {
	Prefix string // with the colon that ends it; also of the shards of a list that was created under this name
	Meta   string // the hash with the pointers
	Bell   string // the list of dummies that blocked consumers wait on
}

// KeysOf returns the keys of the list of that name.
func KeysOf(name string) Keys {
	prefix := tagged(name) + ":"
	return Keys{Prefix: prefix, Meta: prefix + "meta", Bell: prefix + "bell"}
}

// Release returns the key that releases one blocked consumer, named by a UUID.
func (k Keys) Release(id string) string { return k.Bell + ":" + id }

// Records returns the prefix of the keys of all dedup records.
func (k Keys) Records() string { return k.Prefix + "op:" }

// Slot returns the cluster slot of the keys.
func (k Keys) Slot() int { return script.Slot(k.Prefix) }

// Glob returns a pattern that matches the keys of the list. If the name is not UTF-8, it also matches others, because embedded
// servers need a pattern in UTF-8.
func (k Keys) Glob() string { return globOf(k.Prefix) }

// globOf returns a pattern that matches the keys with a prefix.
func globOf(prefix string) string {
	return strings.ToValidUTF8(globEscaper.Replace(prefix), "*") + "*"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// tagged gives a name a hash tag where it has none, so that the name and the result share a slot. Different names get different
// results:
//
//	jobs           {jobs}             the whole name becomes the tag,
//	queue:{a       {queue:{a}         also if it has an opening brace;
//	a}b            {20658}{a\)b}      but no tag has room for a closing one: a number of the same slot is the tag;
//	{user1}:jobs   {user1}:jobs       a name with a tag keeps it;
//	{jobs}         {jobs}{}           only what could be mistaken for a result of the first kinds gets a tail
func tagged(name string) string {
	switch {
	case script.HasHashTag(name) && mistakable.MatchString(name):
		return name + "{}"
	case script.HasHashTag(name):
		return name
	case strings.Contains(name, "}"):
		return "{" + numberIn(script.Slot(name)) + "}{" + braceEscaper.Replace(name) + "}"
	}
	return "{" + name + "}"
}

// mistakable are names that look like the result for another name.
var mistakable = regexp.MustCompile(`^\{[^}]+\}(\{[^{}]*\\\)[^{}]*\})?(\{\})*$`)

// numberIn returns the smallest number whose digits are a key in the slot.
func numberIn(slot int) string {
	for i := 0; ; i++ {
		if number := strconv.Itoa(i); script.Slot(number) == slot {
			return number
		}
	}
}

// NameOf returns the name of the list that has a meta, if there can be such a list.
func NameOf(meta string) (name string, found bool) {
	prefix, found := strings.CutSuffix(meta, ":meta")
	if !found {
		return "", false
	}
	candidates := []string{prefix, strings.TrimSuffix(prefix, "{}")}
	if inner, found := strings.CutPrefix(prefix, "{"); found {
		inner = strings.TrimSuffix(inner, "}")
		_, escaped, _ := strings.Cut(inner, "}{")
		candidates = append(candidates, inner, braceUnescaper.Replace(escaped))
	}
	for _, name := range candidates {
		if name != "" && tagged(name) == prefix {
			return name, true
		}
	}
	return "", false
}

var braceEscaper = strings.NewReplacer(`\`, `\\`, `{`, `\(`, `}`, `\)`)
var braceUnescaper = strings.NewReplacer(`\\`, `\`, `\(`, `{`, `\)`, `}`)
