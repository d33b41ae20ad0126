// A script is loaded on every node of a cluster, and still runs where it is not.
//
// EVALSHA sends the hash of a script instead of its text. The naive form loads the script once, when the program starts, and sends the hash
// from then on. It fails with NOSCRIPT on each node that has not got it: one on which it was not loaded, one that has restarted, a replica
// that has become the master, and any after SCRIPT FLUSH. A command alone can be sent again. But a pipeline goes on behind the
// error, so what it does is done in part, and nobody can repeat it without doing the other part twice.
//
// Here a script alone is sent by its hash, and again as text if the node does not know it. In a pipeline, which cannot be answered
// before it has been sent, each script is sent as text: EVAL does not fail so. Load, on every master, saves the first run of a script alone
// from being sent twice. Nothing depends on it.
package main

import (
	"context"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/examples/internal/demo"
)

// A Script is a Lua script.
type Script struct {
	source, hash string
}

// NewScript returns a script. It sends nothing.
func NewScript(source string) *Script {
	return &Script{source, redis.NewScript(source).Hash()}
}

// Load loads scripts on every master that the client knows.
func Load(ctx context.Context, rdb redis.UniversalClient, scripts ...*Script) error {
	load := func(ctx context.Context, node *redis.Client) error {
		for _, s := range scripts {
			if err := node.ScriptLoad(ctx, s.source).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, load)
	case *redis.Ring:
		return rdb.ForEachShard(ctx, load)
	case *redis.Client:
		return load(ctx, rdb)
	}
	return fmt.Errorf("nobody knows the nodes of a %T", rdb)
}

// Run runs the script alone.
func (s *Script) Run(ctx context.Context, rdb redis.Cmdable, keys []string, args ...any) *redis.Cmd {
	cmd := rdb.EvalSha(ctx, s.hash, keys, args...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		return rdb.Eval(ctx, s.source, keys, args...)
	}
	return cmd
}

// Queue adds the script to a pipeline or a transaction.
func (s *Script) Queue(ctx context.Context, pipe redis.Pipeliner, keys []string, args ...any) *redis.Cmd {
	return pipe.Eval(ctx, s.source, keys, args...)
}

// increase counts in a key, up to a limit.
var increase = NewScript(`
	local count = tonumber(redis.call('GET', KEYS[1]) or 0)
	return count < tonumber(ARGV[1]) and redis.call('INCR', KEYS[1]) or count`)

// counts runs increase on many keys, all in one pipeline, and returns how many of them it failed on.
func counts(ctx context.Context, rdb redis.UniversalClient, keys []string,
	queue func(ctx context.Context, pipe redis.Pipeliner, keys []string, args ...any) *redis.Cmd) (failed int, first error) {
	pipe := rdb.Pipeline()
	for _, key := range keys {
		queue(ctx, pipe, []string{key}, 100)
	}
	cmds, _ := pipe.Exec(ctx)
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	return failed, first
}

func run(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error {
	var keys []string
	for i := range 5 {
		keys = append(keys, fmt.Sprint("count:", i))
	}
	naive := loadNaive(ctx, rdb, increase.source)
	failed, err := counts(ctx, rdb, keys, naive.queue)
	fmt.Fprintf(out, "naive: %d of %d fail: %v\n", failed, len(keys), err)
	if err := rdb.ScriptFlush(ctx).Err(); err != nil { // as a restart or a failover does
		return err
	}
	failed, err = counts(ctx, rdb, keys, naive.queue)
	fmt.Fprintf(out, "naive, when the server has lost its scripts: %d of %d fail: %v\n", failed, len(keys), err)
	failed, err = counts(ctx, rdb, keys, increase.Queue)
	fmt.Fprintf(out, "text in the pipeline: %d of %d fail: %v\n", failed, len(keys), err)
	if err := rdb.ScriptFlush(ctx).Err(); err != nil {
		return err
	}
	fmt.Fprintln(out, "alone:", increase.Run(ctx, rdb, keys[:1], 100).Val())
	return err
}

func main() { demo.Main(run) }
