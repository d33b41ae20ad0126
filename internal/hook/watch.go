package hook

import (
	"context"
	"fmt"
	"time"

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
	cmd := script.NewCommand(ctx, words...)
	if err := onceMoved(ctx, cmd, next); err != nil {
		return setReply(c.cmd, nil, err)
	}
	if err := h.watchEnds(ctx, lists, next); err != nil {
		_ = next(ctx, script.NewCommand(ctx, "unwatch")) // which go-redis leaves out after an error, and the connection goes back to its pool
		return setReply(c.cmd, nil, err)
	}
	return setReply(c.cmd, cmd.Val(), nil)
}

// watchEnds watches the ends of lists whose other keys are watched, and that have a hash each which says where they are.
func (h *Hook) watchEnds(ctx context.Context, lists map[layout.List]string, next redis.ProcessHook) error {
	more := []any{"watch"}
	for list, hash := range lists {
		// For the transaction: the pool may have no other connection. It is the right server, since it has taken the WATCH.
		(&script.Runner{Client: h.client}).PrepareBy(ctx, hash, true, next)
		read := script.NewCommand(ctx, "hget", hash, "layout")
		if err := onceMoved(ctx, read, next); err != nil && err != redis.Nil {
			return err
		}
		pointers, _ := read.Val().(string)
		ends, err := list.Ends(pointers)
		if err != nil {
			return err
		}
		more = append(more, array(ends)...)
	}
	if len(more) == 1 {
		return nil
	}
	return onceMoved(ctx, script.NewCommand(ctx, more...), next)
}

// onceMoved sends a command again while the slot of its keys moves. For ASK go-redis would go to the other node, which sends it back, and its
// Watch returns nil after a few such redirections, as if all had been done.
func onceMoved(ctx context.Context, cmd *script.Command, next redis.ProcessHook) error {
	until := script.Deadline(ctx)
	for attempt := 0; ; attempt++ {
		err := next(ctx, cmd)
		if err == nil || !redis.HasErrorPrefix(err, "ASK ") && !redis.HasErrorPrefix(err, "TRYAGAIN ") {
			return err
		}
		if time.Until(until) < script.Backoff(attempt) || script.Sleep(ctx, script.Backoff(attempt)) != nil {
			return fmt.Errorf("shardedlist: watch: the cluster slot of the list is moving to another node: %v", err) // no redirection to go-redis
		}
	}
}
