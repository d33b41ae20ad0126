package script

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// sampledNodes is how many nodes of a list MEMORY USAGE is to look at: where the server compresses lists, the first is larger than the
// others.
const sampledNodes = 100

// MemoryUsage returns about how many bytes keys take, in one round trip: 0 where the server does not tell.
func MemoryUsage(ctx context.Context, rdb redis.UniversalClient, keys []string) (bytes []int64, err error) {
	for _, samples := range [][]int{{sampledNodes}, nil} { // miniredis takes none
		pipe := rdb.Pipeline()
		for _, key := range keys {
			pipe.MemoryUsage(ctx, key, samples...)
		}
		replies, err := pipe.Exec(ctx)
		if err != nil && err != redis.Nil && !IsReply(err) {
			return nil, err
		}
		bytes = bytes[:0]
		for _, reply := range replies {
			bytes = append(bytes, reply.(*redis.IntCmd).Val())
		}
		if !redis.HasErrorPrefix(err, "syntax error") {
			break
		}
	}
	return bytes, nil
}
