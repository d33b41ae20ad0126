package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that is busy with somebody's script refuses all commands. It has executed nothing, so they are sent again.
func TestOperationsWaitForABusyServer(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "lua-time-limit 1")
			other := server.Client(t, harness.Patient)
			// busy returns once the server is busy, which it then is for a while.
			busy := func(milliseconds int) {
				const hold = `local function now() local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
					local start = now()
					repeat for i = 1, 10000 do end until now() > start + tonumber(ARGV[1])`
				for range 100 {
					over := make(chan struct{})
					go func() {
						defer close(over)
						_ = other.Eval(t.Context(), hold, nil, milliseconds).Err()
					}()
					for running := true; running; {
						if redis.HasErrorPrefix(other.Get(t.Context(), "key").Err(), "BUSY ") {
							return
						}
						select {
						case <-over:
							running = false
						default:
						}
					}
				}
				t.Fatal("the server was never found busy")
			}
			for name, operate := range harness.Operations {
				list := harness.NewList(t, server.Client(t))
				_, err := list.RPush(t.Context(), harness.Numbers(0, 10)...)
				require.NoError(t, err)
				busy(150)
				start := time.Now()
				assert.NoError(t, operate(t.Context(), list), name)
				assert.Less(t, time.Since(start), 5*time.Second, name)
			}
			list := harness.NewList(t, server.Client(t))
			busy(150)
			_, err := list.RPush(t.Context(), "a")
			require.NoError(t, err, "with a new connection, and a capacity to ask for")

			// A caller that does not wait that long is told that nothing was done.
			busy(2000)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err = list.RPush(ctx, "b")
			require.Error(t, err)
			assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
			assert.Equal(t, []string{"a"}, harness.Content(t, list))
		})
	}
}

// What a server lacks for every operation is told in words that help.
func TestAServerThatWillNotDoIsNamed(t *testing.T) {
	t.Parallel()
	newIn := func(t *testing.T, setup func(rdb redis.UniversalClient) redis.UniversalClient, config ...string) *shardedlist.ShardedList {
		rdb := redistest.Start(t, redistest.Redis, config...).Client(t)
		list, err := shardedlist.New(setup(rdb), "jobs", shardedlist.WithCapacity(2))
		require.NoError(t, err)
		return list
	}
	asWorker := func(rules string) func(redis.UniversalClient) redis.UniversalClient {
		return func(rdb redis.UniversalClient) redis.UniversalClient {
			words := []any{"acl", "setuser", "worker"}
			for _, word := range strings.Fields("on >secret ~* " + rules) {
				words = append(words, word)
			}
			require.NoError(t, rdb.Do(t.Context(), words...).Err())
			worker := redis.NewClient(&redis.Options{Addr: rdb.(*redis.Client).Options().Addr, Username: "worker", Password: "secret"})
			t.Cleanup(func() { _ = worker.Close() })
			return worker
		}
	}
	same := func(rdb redis.UniversalClient) redis.UniversalClient { return rdb }
	for name, tt := range map[string]struct {
		setup  func(redis.UniversalClient) redis.UniversalClient
		config []string
		want   string
	}{
		"EVALSHA renamed":     {same, append(redistest.NoFunctions(), `rename-command EVALSHA ""`), "does not allow EVAL and EVALSHA"},
		"EVAL renamed":        {same, append(redistest.NoFunctions(), `rename-command EVAL ""`), "does not allow EVAL and EVALSHA"},
		"EVALSHA not allowed": {asWorker("+@all -fcall -evalsha"), nil, "does not allow EVAL and EVALSHA"},
		"EVAL not allowed":    {asWorker("+@all -fcall -eval"), nil, "does not allow EVAL and EVALSHA"},
		"no RPUSH":            {same, []string{`rename-command RPUSH ""`}, "is older than Redis 6.2, or lacks a command"},
	} {
		t.Run(name, func(t *testing.T) {
			list := newIn(t, tt.setup, tt.config...)
			_, err := list.RPush(t.Context(), "a")
			require.ErrorContains(t, err, tt.want)
			assert.True(t, redis.HasErrorPrefix(err, ""), "the server's reply stays in the chain")
			assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
			rdb := harness.Client(list)
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*"), shardedlist.WithCapacity(2)))
			assert.ErrorContains(t, rdb.RPush(t.Context(), "alone", "a").Err(), tt.want, "through the hook")
			for what, pipelined := range map[string]func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
				"pipeline": rdb.Pipelined, "transaction": rdb.TxPipelined,
			} {
				cmds, err := pipelined(t.Context(), func(pipe redis.Pipeliner) error {
					pipe.RPush(t.Context(), what, "a")
					return pipe.LPushX(t.Context(), what, "b").Err()
				})
				require.Error(t, err)
				for _, cmd := range cmds {
					err = errors.Join(err, cmd.Err())
				}
				assert.ErrorContains(t, err, tt.want, what)
				assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown, what)
			}
			if tt.want != "is older than Redis 6.2, or lacks a command" {
				_, err = list.BLPop(t.Context(), time.Second)
				assert.ErrorContains(t, err, tt.want)
			}
		})
	}
}
