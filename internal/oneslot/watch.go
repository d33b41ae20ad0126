package oneslot

import (
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// Watched returns meta, and the plain key that a short list is, and newcomers are at.
func (l *List) Watched() []string { return []string{l.keys.Meta, l.config.Name} }

// Ends returns the shards at the ends of a long list: a write that leaves meta as it is changes one of them.
func (l *List) Ends(layout string) ([]string, error) {
	p, err := l.pointersIn(layout)
	if err != nil || p.shards == "" {
		return nil, err
	}
	return []string{p.shard(p.first), p.shard(p.last)}, nil
}

// pointers are those of a list of shards, see lua/shared/pointers.lua. Where there are no shards, they have no prefix.
type pointers struct {
	first, last, capacity int64
	shards                string // the prefix
}

func (p pointers) shard(id int64) string { return p.shards + strconv.FormatInt(id, 10) }

// pointersIn reads the field layout of meta.
func (l *List) pointersIn(text string) (p pointers, err error) {
	words := strings.SplitN(text, " ", 6)
	if words[0] == "3!" && len(words) == 6 { // a shard is aside, see lua/shared/aside.lua
		words = strings.SplitN(words[5], " ", 6)
	}
	switch {
	case text == "":
		return p, nil
	case words[0] == "4":
		return p, layout.ErrSpread
	case len(words) != 6 || !strings.HasPrefix(words[0], "3"):
		return p, layout.ErrBroken
	case words[5] == "" || strings.HasPrefix(words[5], "="):
		return p, nil
	}
	if p.shards = words[5]; !strings.HasSuffix(p.shards, ":") {
		p.shards = l.keys.Prefix + p.shards + ":"
	}
	for i, n := range []*int64{&p.first, &p.last, &p.capacity} {
		if *n, err = strconv.ParseInt(words[1+i], 10, 64); err != nil {
			return pointers{}, layout.ErrBroken
		}
	}
	return p, nil
}
