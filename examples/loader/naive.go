package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// naiveScript is a script that was loaded when the program started.
type naiveScript struct{ hash string }

// loadNaive loads the script by the first node that answers.
func loadNaive(ctx context.Context, rdb redis.UniversalClient, source string) *naiveScript {
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		if node, err := cluster.MasterForKey(ctx, "any key"); err == nil {
			return &naiveScript{node.ScriptLoad(ctx, source).Val()}
		}
	}
	return &naiveScript{rdb.ScriptLoad(ctx, source).Val()}
}

func (s *naiveScript) queue(ctx context.Context, pipe redis.Pipeliner, keys []string, args ...any) *redis.Cmd {
	return pipe.EvalSha(ctx, s.hash, keys, args...)
}
