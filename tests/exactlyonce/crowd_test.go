package exactlyonce

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
)

// together counts the calls that a client sends in pipelines.
type together struct{ calls atomic.Int64 }

func (s *together) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *together) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *together) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if _, ours := cmds[0].(*script.Command); ours && len(cmds) > 2 {
			s.calls.Add(int64(len(cmds)))
		}
		return next(ctx, cmds)
	}
}

// A crowd of callers on many lists, whose calls share writes, pushes and pops each element once, although writes are cut and delayed, and
// callers leave.
func TestACrowdOnManyListsIsServedOnce(t *testing.T) {
	t.Parallel()
	const lists, workers = 60, 40
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Sentinel) {
		for name, fault := range map[string]redistest.Faults{
			"cut":  {CutReply: 0.03, CutInReply: 0.02, CutRequest: 0.02},
			"late": {LateRequest: 0.03, Delay: 300 * time.Millisecond},
		} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				ctx, server, proxy, sent := t.Context(), redistest.Shared(t, kind), redistest.NewProxy(t), &together{}
				rdb := server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) {
					o.ReadTimeout, o.PoolSize = 200*time.Millisecond, 2*workers
				})
				rdb.AddHook(sent)
				all := make([]*shardedlist.ShardedList, lists)
				for i := range all {
					all[i] = harness.NewList(t, rdb, shardedlist.WithCapacity(3))
				}
				_, err := all[0].LLen(ctx)
				require.NoError(t, err)
				proxy.Set(fault)
				traffic := harness.NewTraffic(workers)
				traffic.Run(t, max(workers*15, harness.FaultOperations()), harness.Strikes(proxy), func(ctx context.Context, value string) error {
					_, err := all[rand.IntN(lists)].RPush(ctx, value)
					return err
				}, func(ctx context.Context, i int) ([]string, error) {
					for at := range lists {
						callCtx, cancel := ctx, context.CancelFunc(func() {})
						if i%5 == 0 {
							callCtx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(2000))*time.Microsecond)
						}
						value, err := all[(i+at)%lists].LPop(callCtx)
						cancel()
						if err != redis.Nil {
							if errors.Is(err, context.DeadlineExceeded) {
								err = context.DeadlineExceeded
							}
							return harness.Single(value, err)
						}
					}
					return nil, redis.Nil
				})
				proxy.Set(redistest.Faults{})
				for end := time.Now().Add(harness.FaultPatience()); traffic.Tally().Lost > 0 && time.Now().Before(end); {
					for i, list := range all { // what went back for callers that had left
						for value, err := list.LPop(ctx); err != redis.Nil; value, err = list.LPop(ctx) {
							require.NoError(t, err)
							traffic.PopValues(i%workers, value)
						}
					}
				}
				traffic.AssertOnce(t)
				assert.Positive(t, sent.calls.Load(), "calls have shared writes")
			})
		}
	}
}
