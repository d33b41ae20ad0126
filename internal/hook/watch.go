package hook

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

// refuseWatch is for WATCH in a pipeline.
func refuseWatch(_ context.Context, c *invocation, _ []layout.List) (*translation, error) {
	return nil, c.unsupported("it stands for several commands: send it by Watch, or alone")
}

// watch watches lists on the connection of the caller. What changes between the first WATCH and the second is watched by then, or the caller
// has yet to read it.
func (h *Hook) watch(ctx context.Context, c *invocation, next redis.ProcessHook) error {
	words := []any{"watch"}
	lists := map[layout.List]string{} // and the hash that says more
	for _, key := range c.keys {
		if !h.matches(c.text(key.at)) {
			words = append(words, c.text(key.at))
			continue
		}
		list, err := h.list(c.text(key.at))
		if err != nil {
			return setReply(c.cmd, nil, err)
		}
		watched := list.Watched()
		lists[list], words = watched[0], append(words, array(watched)...)
	}
	for _, hash := range lists {
		(&script.Runner{Client: h.client}).PrepareBy(ctx, hash, true, next) // for the transaction: the pool may have no other connection
	}
	cmd := script.NewCommand(ctx, words...)
	if err := next(ctx, cmd); err != nil {
		return setReply(c.cmd, nil, err)
	}
	more := []any{"watch"}
	for list, hash := range lists {
		read := script.NewCommand(ctx, "hget", hash, "layout")
		if err := next(ctx, read); err != nil && err != redis.Nil {
			return setReply(c.cmd, nil, err)
		}
		pointers, _ := read.Val().(string)
		ends, err := list.Ends(pointers)
		if err != nil {
			return setReply(c.cmd, nil, err)
		}
		more = append(more, array(ends)...)
	}
	if len(more) > 1 {
		if err := next(ctx, script.NewCommand(ctx, more...)); err != nil {
			return setReply(c.cmd, nil, err)
		}
	}
	return setReply(c.cmd, cmd.Val(), nil)
}
