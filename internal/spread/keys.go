package spread

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/script"
)

const slots = 16384

// tagOf returns the hash tag of a part of the list of that name, without braces. The slots are divided into as many equal ranges as
// there are parts, and the tag's slot is in the part's own: so parts lie evenly on nodes that own ranges of slots.
func tagOf(name string, part, parts int) string {
	stem := fmt.Sprintf("%s/%d/", braceEscaper.Replace(name), part)
	from, to := part*slots/parts, (part+1)*slots/parts
	for i := 0; ; i++ {
		tag := stem + strconv.Itoa(i)
		if slot := script.Slot(tag); slot >= from && slot < to {
			return tag
		}
	}
}

var braceEscaper = strings.NewReplacer(`\`, `\\`, `{`, `\(`, `}`, `\)`)

// prefixOf returns what the keys of a part begin with. None is a key of another list: lists in one slot have no key with such a word
// behind the tag.
func prefixOf(tag string) string { return "{" + tag + "}:part." }

// Part is the keys of a part of a list.
type Part struct {
	prefix string
	Meta   string // the hash with the states of its shards
	Bell   string // the list of dummies that blocked consumers wait on
}

// PartOf returns the keys of a part of the list of that name.
func PartOf(name string, part, parts int) Part {
	prefix := prefixOf(tagOf(name, part, parts))
	return Part{prefix: prefix, Meta: prefix + "meta", Bell: prefix + "bell"}
}

// Shard returns the key of a shard's elements.
func (p Part) Shard(generation, id int64) string {
	return fmt.Sprintf("%s%d.%d", p.prefix, generation, id)
}

// release returns the key that releases one blocked consumer, named by a UUID.
func (p Part) release(id string) string { return p.Bell + ":" + id }

// SlotOf returns the slot of a part of the list of that name.
func SlotOf(name string, part, parts int) int { return script.Slot(tagOf(name, part, parts)) }
