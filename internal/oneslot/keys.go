package oneslot

import (
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/script"
)

// Keys are the Redis keys of one list. They share a hash tag, and so a cluster slot. No two lists share a key.
type Keys struct {
	Prefix string // with the colon that ends it
	Meta   string // the hash with the pointers
	Bell   string // the list of dummies that blocked consumers wait on
}

// KeysOf returns the keys of the list of that name.
func KeysOf(name string) Keys {
	prefix := tagged(name) + ":"
	return Keys{Prefix: prefix, Meta: prefix + "meta", Bell: prefix + "bell"}
}

// Shard returns the key of the shard with the given id.
func (k Keys) Shard(id int64) string { return k.Prefix + strconv.FormatInt(id, 10) }

// ShardID returns the id of the shard that has this key, or false if none of the list's shards ever has it.
func (k Keys) ShardID(key string) (id int64, ok bool) {
	id, err := strconv.ParseInt(strings.TrimPrefix(key, k.Prefix), 10, 64)
	return id, err == nil && key == k.Shard(id)
}

// Release returns the key that releases one blocked consumer, named by a UUID.
func (k Keys) Release(id string) string { return k.Bell + ":" + id }

// Records returns the prefix of the keys of all dedup records.
func (k Keys) Records() string { return k.Prefix + "op:" }

// Slot returns the cluster slot of the keys.
func (k Keys) Slot() int { return script.Slot(k.Prefix) }

// Glob returns a pattern that matches the keys of the list. If the name is not UTF-8, it also matches others, because embedded
// servers need a pattern in UTF-8.
func (k Keys) Glob() string {
	return strings.ToValidUTF8(globEscaper.Replace(k.Prefix), "*") + "*"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// tagged gives a name a hash tag where it has none. Different names get different results:
//
//	jobs           {jobs}             the whole name becomes the tag,
//	a}b            {a\)b}             its braces escaped, so that the tag ends where it should
//	{user1}:jobs   {user1}:jobs       a name with a tag keeps it;
//	{jobs}         {jobs}{}           only what could be mistaken for a name wrapped here gets a tail
func tagged(name string) string {
	if !script.HasHashTag(name) {
		return "{" + braceEscaper.Replace(name) + "}"
	}
	core := name
	for strings.HasSuffix(core, "{}") {
		core = strings.TrimSuffix(core, "{}")
	}
	if tag, wrapped := strings.CutPrefix(core, "{"); wrapped && strings.IndexAny(tag, "{}") == len(tag)-1 {
		return name + "{}"
	}
	return name
}

var braceEscaper = strings.NewReplacer(`\`, `\\`, `{`, `\(`, `}`, `\)`)
