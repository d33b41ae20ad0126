package spread

import (
	"fmt"
	"strings"
	"time"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

// Glance looks at a list whose pointers somebody has read, along with many others: it says what to send, and reads the replies.
type Glance struct {
	p    *pointers
	name string
}

// NewGlance returns how to look at the list whose meta has these fields.
func NewGlance(name, field, old, expiry string) (*Glance, error) {
	p, err := readPointers([]any{field, old, expiry}, time.Now())
	if err != nil {
		return nil, err
	}
	return &Glance{p, name}, nil
}

// Calls are to look at the two end shards.
func (g *Glance) Calls() []script.Call {
	calls := make([]script.Call, 2)
	for side := range calls {
		id := g.p.ids[side]
		calls[side] = script.NewCall(lookScript, []any{g.part(id).Meta}, 9)
		calls[side].Args = append(calls[side].Args, "", "", "", "L", g.p.word, id, sideWords[side], 1, 0)
	}
	return calls
}

// Read reads the replies. Borders are the positions of the ends, lengths those of the shards there. Unless it is certain, somebody is about
// to move a pointer.
func (g *Glance) Read(replies [2]any) (info layout.Info, borders, lengths [2]int64, certain bool) {
	info = layout.Info{First: g.p.ids[left], Last: g.p.ids[right], Capacity: g.p.capacity, Parts: g.p.parts}
	for side, reply := range replies {
		if reply == nil {
			return info, borders, lengths, false
		}
		s, _ := readShard(g.p.ids[side], reply)
		if !s.open[side] {
			return info, borders, lengths, false
		}
		borders[side], lengths[side] = s.borders[side], s.borders[right]-s.borders[left]
	}
	info.Length = max(0, borders[right]-borders[left])
	info.Unswept = g.unswept()
	return info, borders, lengths, true
}

// unswept returns how many shards lists had that were deleted, and that nobody has unlinked yet.
func (g *Glance) unswept() (shards int64) {
	words := strings.Fields(g.p.old)
	for ; len(words) >= 3; words = words[3:] {
		var first, last int64
		if _, err := fmt.Sscan(words[1]+" "+words[2], &first, &last); err == nil {
			shards += last - first + 1
		}
	}
	return shards
}

// Generation tells positions of this list from those of one that was deleted.
func (g *Glance) Generation() int64 { return g.p.generation }

// Expires returns the Unix time in milliseconds at which the list expires, or 0.
func (g *Glance) Expires() int64 { return g.p.expiry.time }

// Samples are the keys of up to so many shards, evenly spread. The first and the last are those at the ends.
func (g *Glance) Samples(most int64) (keys []string) {
	first, shards := g.p.ids[left], g.p.ids[right]-g.p.ids[left]+1
	most = min(shards, most)
	for i := range most {
		id := first + i*(shards-1)/max(1, most-1)
		keys = append(keys, g.part(id).Shard(g.p.generation, id))
	}
	return keys
}

// State is the key of the hash, and the field, with the state of the first shard. Waits tells from the state whether somebody waits, if
// the list is empty.
func (g *Glance) State() (key, field string) {
	return g.part(g.p.ids[left]).Meta, fmt.Sprintf("%d.%d", g.p.generation, g.p.ids[left])
}

func Waits(state string) bool { return len(state) > 2 && (state[2]-'0')%2 == 1 }

func (g *Glance) part(id int64) Part {
	return PartOf(g.name, int((id%g.p.parts+g.p.parts)%g.p.parts), int(g.p.parts))
}
