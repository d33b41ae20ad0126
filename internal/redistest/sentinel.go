package redistest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// masterName is the name by which the sentinel knows the master.
const masterName = "main"

// failoverTimeout is how long the sentinel tries to fail over.
const failoverTimeout = 5 * time.Second

// openSentinel starts a master, its replica and the sentinel.
func (s *Server) openSentinel(ctx context.Context, config []string) error {
	// The delay lets more replicas join; there are none.
	config = append([]string{"repl-diskless-sync-delay 0"}, config...)
	if err := s.run(ctx, nil, config); err != nil {
		return err
	}
	master := strings.Replace(s.Addr(), ":", " ", 1)
	config = append(config, "replicaof "+master)
	if err := s.run(ctx, nil, config); err != nil {
		return err
	}
	watch := []string{
		fmt.Sprintf("sentinel monitor %s %s 1", masterName, master),
		fmt.Sprintf("sentinel down-after-milliseconds %s 15000", masterName),
		fmt.Sprintf("sentinel failover-timeout %s %d", masterName, failoverTimeout.Milliseconds()),
	}
	if err := s.run(ctx, []string{"--sentinel"}, watch); err != nil {
		return err
	}
	s.addrs = s.addrs[2:]
	s.awaitHealthy = s.awaitSentinel
	return s.awaitHealthy(ctx)
}

// awaitSentinel waits until the sentinel finds the replica healthy and linked to
// the master, whichever of the two processes is the master now. It returns at
// once if one of the three processes is down.
func (s *Server) awaitSentinel(ctx context.Context) error {
	if !s.allRunning() {
		return nil
	}
	// By default a sentinel checks every ten seconds, so is slow to notice changes,
	// and pings every second, so that one late reply causes a failover. The periods
	// must be set after each start. Those of Redis 6.2 cannot be set.
	sentinel := s.sentinel()
	if s.program.major >= 7 {
		hurry := []any{"SENTINEL", "DEBUG", "INFO-PERIOD", 200, "PUBLISH-PERIOD", 200, "PING-PERIOD", 200}
		if err := sentinel.Do(ctx, hurry...).Err(); err != nil {
			return err
		}
	}
	err := poll(ctx, nil, func() error {
		cmd := redis.NewMapStringStringSliceCmd(ctx, "SENTINEL", "REPLICAS", masterName)
		if err := sentinel.Process(ctx, cmd); err != nil {
			return err
		}
		replicas := cmd.Val()
		if len(replicas) != 1 || replicas[0]["flags"] != "slave" || replicas[0]["master-link-status"] != "ok" {
			return fmt.Errorf("its replicas are %v", replicas)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the sentinel does not find the replica healthy: %w", err)
	}
	return nil
}
