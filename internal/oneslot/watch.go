package oneslot

import (
	"strings"

	"github.com/shardedlist/shardedlist/internal/layout"
)

// Watched returns meta, and the plain key that a short list is, and newcomers are at.
func (l *List) Watched() []string { return []string{l.keys.Meta, l.config.Name} }

// Ends returns the shards at the ends of a long list: a write that leaves meta as it is changes one of them.
func (l *List) Ends(pointers string) ([]string, error) {
	words := strings.SplitN(pointers, " ", 6)
	if words[0] == "3!" && len(words) == 6 { // a shard is aside, see lua/shared/aside.lua
		words = strings.SplitN(words[5], " ", 6)
	}
	switch {
	case pointers == "":
		return nil, nil
	case words[0] == "4":
		return nil, layout.ErrSpread
	case len(words) != 6 || !strings.HasPrefix(words[0], "3"):
		return nil, layout.ErrBroken
	}
	first, last, shards := words[1], words[2], words[5]
	if shards == "" || strings.HasPrefix(shards, "=") {
		return nil, nil
	}
	if !strings.HasSuffix(shards, ":") {
		shards = l.keys.Prefix + shards + ":"
	}
	return []string{shards + first, shards + last}, nil
}
