package script

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Master returns the client of the server that holds the key. go-redis sends commands without a key to any server.
func Master(ctx context.Context, rdb redis.UniversalClient, key string) (redis.Cmdable, error) {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.MasterForKey(ctx, key)
	case *redis.Ring:
		return rdb.GetShardClientForKey(key)
	}
	return rdb, nil
}

// masterAt returns the client of the cluster master at an address, or nil if go-redis knows none.
func masterAt(ctx context.Context, cluster *redis.ClusterClient, addr string) redis.Cmdable {
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

// ReadTimeout returns how long the client waits for a reply before the connection fails. 0 or less means forever.
func ReadTimeout(rdb redis.UniversalClient) time.Duration {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb.Options().ReadTimeout
	case *redis.ClusterClient:
		return rdb.Options().ReadTimeout
	case *redis.Ring:
		return rdb.Options().ReadTimeout
	}
	return time.Second
}

// Retries reports whether go-redis repeats pipelines of the client whose connection has failed.
func Retries(rdb redis.UniversalClient) bool {
	switch rdb := rdb.(type) {
	case *redis.Client:
		return rdb != nil && rdb.Options().MaxRetries > 0
	case *redis.ClusterClient:
		return rdb != nil && rdb.Options().MaxRedirects > 0
	}
	return false
}
