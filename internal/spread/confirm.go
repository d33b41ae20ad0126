package spread

import (
	"context"
	"errors"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

// confirmFor is how long a client waits until a replica has what it has read or written of the pointers, before it acts on it all the same.
const confirmFor = 100 * time.Millisecond

// confirmTimeout is confirmFor, but no longer than half of the client's ReadTimeout, after which its connection fails.
func confirmTimeout(rdb redis.UniversalClient) time.Duration {
	if timeout := script.ReadTimeout(rdb); timeout > 0 {
		return min(confirmFor, timeout/2)
	}
	return confirmFor
}

// replicas tells whether the server of the pointers has a replica, and waits for one.
type replicas struct {
	pool  *session.Pool // whose Runner waits for a replica
	known atomic.Pointer[replicasKnown]
}

type replicasKnown struct {
	any   bool
	until time.Time
}

var connectedReplicas = regexp.MustCompile(`connected_slaves:[1-9]`)

// replicated reports whether the server of the pointers has a replica. It asks every maxAge. A server that does not tell has none.
func (l *List) replicated(ctx context.Context) bool {
	if known := l.replicas.known.Load(); known != nil && time.Now().Before(known.until) {
		return known.any
	}
	known := &replicasKnown{until: time.Now().Add(maxAge)}
	master, err := script.Master(ctx, l.runner.Client, l.config.Meta)
	if err != nil {
		return false // and asks again
	}
	info, err := master.Info(ctx, "replication").Result()
	if err != nil && !script.IsReply(err) {
		return false
	}
	known.any = connectedReplicas.MatchString(info)
	l.replicas.known.Store(known)
	return known.any
}

// runOnMeta runs a script on the pointers. If there is a replica, it waits until one has what the script has written: a failover must not
// take back what clients have acted on.
func (l *List) runOnMeta(ctx context.Context, s *script.Script, args ...any) (any, error) {
	if !l.replicated(ctx) {
		return l.run(ctx, l.sessions.Read(s, l.declared, args...))
	}
	reply, err := l.run(ctx, l.replicas.pool.Confirmed(s, l.declared, args...))
	if errors.Is(err, script.ErrNotReplicated) {
		l.replicas.known.Store(nil) // there may be none any more
		err = nil
	}
	return reply, err
}
