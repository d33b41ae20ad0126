package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// WithReplicas makes every push and pop wait, before it returns, until n replicas of the server have it, as WAIT does. It waits
// for as long as timeout, from a millisecond to half of the client's ReadTimeout. Callers that share an operation share the wait,
// which takes no round trip of its own.
//
// If fewer replicas have answered by then, the operation has been done all the same: it returns its result, the elements of a pop
// included, together with ErrNotReplicated. A pop that found nothing has nothing to wait for. If the master fails while it
// waits, the operation is repeated under its number on the next one: it is done there, unless it has been already.
//
// WAIT makes it unlikely that a failover loses what was acknowledged; it is no consensus. A failover may still elect a replica
// that is not one of the n. With n the number of all replicas, every replica that can be elected has what was acknowledged
// without error, as long as none that has lost its data or is still loading it is elected. What other clients have read may
// still be lost, and so may an operation that returned ErrNotReplicated: then elements pushed are gone, and elements popped are
// back in the list. Replicas have it in memory, which says nothing of their disks.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(l *ShardedList) error {
		longest := readTimeout(l.rdb) / 2
		if n < 1 || timeout < time.Millisecond || longest > 0 && timeout > longest {
			return fmt.Errorf("%w: %d replicas, %v; at least 1, and 1ms to half the client's ReadTimeout, %v", ErrReplicas, n, timeout, longest)
		}
		l.replicas, l.replicaTimeout = n, timeout
		return nil
	}
}

// isDone tells whether an operation has been done, be it on fewer replicas than asked for.
func isDone(err error) bool {
	return err == nil || errors.Is(err, ErrNotReplicated)
}

// replicate sends an operation, after other commands or none, and WAIT behind it on the same connection. The error is that of the
// operation; or ErrNotReplicated; or one of the connection, if it failed before WAIT was answered.
func (l *ShardedList) replicate(ctx context.Context, operation own, before ...redis.Cmder) error {
	master, err := l.master(ctx)
	if err == nil {
		err = l.replicateOn(ctx, master, operation, before...)
	}
	cluster, isCluster := l.rdb.(*redis.ClusterClient)
	if isDone(err) || !isCluster {
		return err
	}
	cluster.ReloadState(ctx) // go-redis does it for errors that it sees by itself
	asks := redis.HasErrorPrefix(err, "ASK ") && len(before) == 0
	if !asks && !redis.HasErrorPrefix(err, "MOVED ") {
		return err
	}
	words := strings.Fields(err.Error())
	if master = nodeAt(ctx, cluster, words[len(words)-1]); master == nil {
		return err
	}
	if asks {
		before = []redis.Cmder{own{redis.NewCmd(ctx, "asking"), operation.once}}
	}
	return l.replicateOn(ctx, master, operation, before...)
}

func (l *ShardedList) replicateOn(ctx context.Context, master redis.Cmdable, operation own, before ...redis.Cmder) error {
	wait := own{redis.NewCmd(ctx, "wait", l.replicas, l.replicaTimeout.Milliseconds()), operation.once}
	pipe := master.Pipeline()
	for _, cmd := range append(before, operation, wait) {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err := operation.Err(); err != nil {
		return err
	}
	replicas, err := wait.Int()
	switch {
	case err == nil && replicas >= l.replicas:
		return nil
	case err == nil:
		return fmt.Errorf("%w: on %d of %d", ErrNotReplicated, replicas, l.replicas)
	case !isReply(err):
		return err
	case redis.HasErrorPrefix(err, "UNBLOCKED ") || redis.HasErrorPrefix(err, "WAIT cannot be used with replica"):
		return fmt.Errorf("the master has become a replica: %v", err) // not a reply to the operation: it may be lost
	}
	return fmt.Errorf("%w: %w", ErrNotReplicated, err)
}

// master is the client of the one server that has the list. go-redis would send WAIT, which has no key, to any.
func (l *ShardedList) master(ctx context.Context) (redis.Cmdable, error) {
	switch rdb := l.rdb.(type) {
	case *redis.ClusterClient:
		return rdb.MasterForKey(ctx, l.keys.meta)
	case *redis.Ring:
		return rdb.GetShardClientForKey(l.keys.meta)
	}
	return l.rdb, nil
}

// nodeAt is the client of the cluster's master at an address, or nil if go-redis knows none.
func nodeAt(ctx context.Context, cluster *redis.ClusterClient, addr string) redis.Cmdable {
	var found atomic.Pointer[redis.Client]
	_ = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		if node.Options().Addr == addr {
			found.Store(node)
		}
		return nil
	})
	if node := found.Load(); node != nil {
		return node
	}
	return nil
}
