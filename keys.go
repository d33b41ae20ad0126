package shardedlist

import (
	"strconv"
	"strings"
)

// keys names the Redis keys of one list. They share a hash tag, hence a cluster slot, and no two lists share a key.
type keys struct {
	prefix string // with the colon that ends it
	meta   string // the hash with the pointers
	bell   string // the list of dummies that blocked consumers wait on
}

func keysOf(name string) keys {
	prefix := tagged(name) + ":"
	return keys{prefix: prefix, meta: prefix + "meta", bell: prefix + "bell"}
}

// shard is the key of the shard with the given id.
func (k keys) shard(id int64) string { return k.prefix + strconv.FormatInt(id, 10) }

// release is the key that frees one blocked consumer, named by a UUID, from outside.
func (k keys) release(id string) string { return k.bell + ":" + id }

// record is the key of a lane's last operation and its result; a list behind it, :popped, has the elements that a pop took.
func (k keys) record(lane string) string { return k.prefix + "op:" + lane }

// tagged gives a name a hash tag where it has none. Different names get different results:
//
//	jobs           {jobs}             the whole name becomes the tag,
//	a}b            {a\)b}             its braces escaped, so that the tag ends where it should
//	{user1}:jobs   {user1}:jobs       a name with a tag keeps it;
//	{jobs}         {jobs}{}           only what could be mistaken for a name wrapped here gets a tail
func tagged(name string) string {
	if !hasHashTag(name) {
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

// hasHashTag tells whether Redis Cluster hashes only a part of the key: what stands between the first { and the first }
// after it, if anything does.
func hasHashTag(key string) bool {
	_, rest, _ := strings.Cut(key, "{")
	return strings.Index(rest, "}") > 0
}

// tag is what Redis Cluster hashes of the keys.
func (k keys) tag() string {
	if !hasHashTag(k.prefix) {
		return k.prefix
	}
	_, rest, _ := strings.Cut(k.prefix, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

// slot is the cluster slot of the keys: CRC16 (XMODEM) of their tag modulo 16384, as the cluster specification defines it.
func (k keys) slot() int {
	var crc uint16
	for _, b := range []byte(k.tag()) {
		crc ^= uint16(b) << 8
		for range 8 {
			carry := crc & 0x8000
			crc <<= 1
			if carry != 0 {
				crc ^= 0x1021
			}
		}
	}
	return int(crc % 16384)
}
