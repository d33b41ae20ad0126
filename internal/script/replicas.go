package script

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// replicate sends a command, and WAIT after it on the same connection; the commands in before come first. It returns the
// command's error, or ErrNotReplicated, or the error of a connection that failed before the reply to WAIT.
func (r *Runner) replicate(ctx context.Context, key string, cmd *Command, before ...redis.Cmder) error {
	master, err := Master(ctx, r.Client, key)
	if err == nil {
		err = r.replicateOn(ctx, master, cmd, before...)
	}
	cluster, isCluster := r.Client.(*redis.ClusterClient)
	if IsDone(err) || !isCluster {
		return err
	}
	cluster.ReloadState(ctx) // go-redis does so for errors that it sees by itself
	asks := redis.HasErrorPrefix(err, "ASK ") && len(before) == 0
	if !asks && !redis.HasErrorPrefix(err, "MOVED ") {
		return err
	}
	words := strings.Fields(err.Error())
	if master = masterAt(ctx, cluster, words[len(words)-1]); master == nil {
		return err
	}
	cmd.SetErr(nil) // it would remain if the connection failed now
	if asks {
		before = []redis.Cmder{newCommand(ctx, cmd.noRetry, []any{"asking"})}
	}
	return r.replicateOn(ctx, master, cmd, before...)
}

func (r *Runner) replicateOn(ctx context.Context, master redis.Cmdable, cmd *Command, before ...redis.Cmder) error {
	wait := newCommand(ctx, cmd.noRetry, []any{"wait", r.Replicas, r.ReplicaTimeout.Milliseconds()})
	pipe := master.Pipeline()
	for _, cmd := range append(before, cmd, wait) {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err := cmd.Err(); err != nil {
		return err
	}
	replicas, err := wait.Int()
	switch {
	case err == nil && replicas >= r.Replicas:
		return nil
	case err == nil:
		return fmt.Errorf("%w: on %d of %d", ErrNotReplicated, replicas, r.Replicas)
	case !IsReply(err):
		return err
	case redis.HasErrorPrefix(err, "UNBLOCKED ") || redis.HasErrorPrefix(err, "WAIT cannot be used with replica"):
		// Not a reply to the command, which may be lost: hence %v.
		return fmt.Errorf("the master has become a replica: %v", err)
	}
	return fmt.Errorf("%w: %w", ErrNotReplicated, err)
}
