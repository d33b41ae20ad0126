package hook

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/scan"
	"github.com/shardedlist/shardedlist/tests/harness"
)

// forgotten loses the reply of a transaction, passes some requests, and then sends nothing until the dedup records are gone.
type forgotten struct {
	pass    int64
	gone    func() bool
	sent    atomic.Int64
	refused atomic.Int64
}

func (f *forgotten) strike(cmds []redis.Cmder, send func() error) error {
	lose := func() error {
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
	if f.sent.Load() == 0 && cmds[len(cmds)-1].Name() != "exec" {
		return send() // to ask for the functions, say
	}
	switch n := f.sent.Add(1); {
	case n == 1:
		_ = send()
		return lose()
	case n > 1+f.pass && !f.gone():
		f.refused.Add(1)
		return lose()
	}
	return send()
}

func (f *forgotten) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (f *forgotten) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !harness.HasScripts([]redis.Cmder{cmd}) {
			return next(ctx, cmd)
		}
		return f.strike([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (f *forgotten) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !harness.HasScripts(cmds) {
			return next(ctx, cmds)
		}
		return f.strike(cmds, func() error { return next(ctx, cmds) })
	}
}

// A server that cannot be reached for longer than it keeps dedup records: that it has none says nothing about what was done.
func TestATransactionIsNotRepeatedOnceItMayBeForgotten(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			for name, pass := range map[string]int64{"before it was asked after": 0, "before its reply was asked for": 1} {
				t.Run(name, func(t *testing.T) { forgetATransaction(t, server, pass) })
			}
		})
	}
}

func forgetATransaction(t *testing.T, server *redistest.Server, pass int64) {
	rdb, admin := server.Client(t), server.Client(t)
	recorded := func() int64 {
		var records atomic.Int64
		_ = scan.EachMaster(context.Background(), admin, func(ctx context.Context, master redis.UniversalClient) error {
			records.Add(int64(len(master.Keys(ctx, "*:op:*").Val())))
			return nil
		})
		return records.Load()
	}
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("jobs"), shardedlist.WithCapacity(2), harness.RecordLife(2*time.Second)))
	require.NoError(t, rdb.Del(t.Context(), "jobs").Err())
	require.NoError(t, rdb.RPush(t.Context(), "jobs", "a").Err())
	require.Eventually(t, func() bool { return recorded() == 0 }, time.Minute, 50*time.Millisecond)
	var gone atomic.Bool
	fault := &forgotten{pass: pass, gone: func() bool {
		if recorded() == 0 {
			gone.Store(true)
		}
		return gone.Load()
	}}
	rdb.AddHook(fault)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.RPush(ctx, "jobs", "b")
		return nil
	})
	assert.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
	assert.Positive(t, fault.refused.Load())
	require.Eventually(t, fault.gone, time.Minute, 50*time.Millisecond)
	require.NoError(t, rdb.RPush(ctx, "jobs", "c").Err())
	assert.Equal(t, []string{"a", "b", "c"}, rdb.LRange(ctx, "jobs", 0, -1).Val())
}
