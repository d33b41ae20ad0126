package hook

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A reply that was lost, and what the server said when go-redis repeated the pipeline by itself: all that a hook hears is the last.
type lostReplies struct {
	lose   func() (err error, acts bool) // the error that takes the place of all replies, nil for none
	struck atomic.Int64
}

func (l *lostReplies) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (l *lostReplies) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (l *lostReplies) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !harness.HasScripts(cmds) {
			return next(ctx, cmds)
		}
		err, acts := l.lose()
		if err == nil {
			return next(ctx, cmds)
		}
		l.struck.Add(1)
		if acts {
			_ = next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
		return err
	}
}

// once loses the replies of one pipeline.
func once(err error, acts bool) func() (error, bool) {
	var done atomic.Bool
	return func() (error, bool) {
		if done.Swap(true) {
			return nil, false
		}
		return err, acts
	}
}

type serverError string

func (e serverError) Error() string { return string(e) }
func (e serverError) RedisError()   {}

// lossy is a client whose list commands are sharded, and whose pipelines lose replies.
func lossy(t *testing.T, server *redistest.Server, prefix string, lose func() (error, bool)) (redis.UniversalClient, *lostReplies) {
	rdb := server.Client(t)
	lost := &lostReplies{lose: lose}
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(2)))
	rdb.AddHook(lost) // behind ours: it sees the scripts
	return rdb, lost
}

func TestAPipelineFindsOutWhatALostReplyHides(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, last := range []error{serverError("LOADING Redis is loading the dataset in memory"), serverError("ERR of some kind"), io.EOF} {
			for _, acts := range []bool{true, false} {
				prefix := "{" + harness.UniqueName(t) + "}"
				rdb, lost := lossy(t, server, prefix, once(last, acts))
				plain := harness.OpenList(t, server.Client(t), prefix+"q", shardedlist.WithCapacity(2))
				_, err := plain.RPush(t.Context(), "job1", "job2", "job3")
				require.NoError(t, err)
				pipe := rdb.Pipeline()
				pop := pipe.LPop(t.Context(), prefix+"q")
				push := pipe.RPush(t.Context(), prefix+"q", "job4")
				_, err = pipe.Exec(t.Context())
				require.EqualValues(t, 1, lost.struck.Load(), "the fault struck")
				if final := strings.HasPrefix(last.Error(), "ERR"); final && !acts {
					assert.Error(t, err)
					assert.Equal(t, []string{"job1", "job2", "job3"}, harness.Content(t, plain))
					continue
				}
				require.NoError(t, err, "%v, %v", last, acts)
				assert.Equal(t, "job1", pop.Val())
				assert.EqualValues(t, 3, push.Val())
				assert.Equal(t, []string{"job2", "job3", "job4"}, harness.Content(t, plain))
			}
		}
	})
}

// One list of a pipeline cannot be served for a moment. What follows on the same list was applied, and is not overtaken.
func TestAPipelineKeepsItsOrder(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		prefix := "{" + harness.UniqueName(t) + "}"
		rdb := server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*")))
		require.NoError(t, rdb.RPush(t.Context(), prefix+"q", "0").Err()) // the server knows the script
		refuses := &refuseFirst{}
		rdb.AddHook(refuses)
		pipe := rdb.Pipeline()
		first := pipe.RPush(t.Context(), prefix+"q", "1")
		pipe.LLen(t.Context(), prefix+"q")
		second := pipe.RPush(t.Context(), prefix+"q", "2")
		_, err := pipe.Exec(t.Context())
		require.EqualValues(t, 1, refuses.struck.Load())
		assert.ErrorContains(t, err, "TRYAGAIN")
		assert.ErrorContains(t, first.Err(), "TRYAGAIN")
		assert.ErrorContains(t, first.Err(), "not repeated")
		require.NoError(t, second.Err())
		assert.Equal(t, []string{"0", "2"}, harness.Content(t, harness.OpenList(t, server.Client(t), prefix+"q")))
	})
}

// The server refuses a push and accepts the next one of the pipeline, and all replies are lost. The first one is not pushed behind the
// second, neither by go-redis nor by the hook. A plain command between them is repeated.
func TestAPipelineWhoseRepliesAreLostKeepsItsOrder(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Start(t, kind), redistest.NewProxy(t)
			direct, rdb := server.Client(t), server.Client(t, harness.Through(proxy))
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue*")))
			require.NoError(t, rdb.RPush(t.Context(), "queue", "0").Err())
			require.NoError(t, direct.ConfigSet(t.Context(), "maxmemory", "1").Err())
			pipe := rdb.Pipeline()
			first := pipe.RPush(t.Context(), "queue", "1")
			plain := pipe.ConfigSet(t.Context(), "maxmemory", "0")
			second := pipe.RPush(t.Context(), "queue", "2")
			proxy.Set(redistest.Faults{CutReply: 1})
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = pipe.Exec(t.Context())
			}()
			require.Eventually(t, func() bool { return proxy.Strikes() > 0 }, 10*time.Second, time.Millisecond)
			proxy.Set(redistest.Faults{})
			<-ended
			assert.Error(t, first.Err())
			assert.NotErrorIs(t, first.Err(), shardedlist.ErrOutcomeUnknown)
			require.NoError(t, plain.Err())
			require.NoError(t, second.Err())
			assert.EqualValues(t, 2, second.Val())
			assert.Equal(t, []string{"0", "2"}, harness.Content(t, harness.OpenList(t, direct, "queue")))
		})
	}
}

// The commands of a pipeline that are not on lists are repeated where go-redis would have repeated the pipeline, and only there.
func TestPlainCommandsOfAPipelineAreRepeatedAsByGoRedis(t *testing.T) {
	t.Parallel()
	loading, unreadable, open := serverError("LOADING Redis is loading the dataset in memory"), errors.New("redis: can't parse"), errors.New("circuit open")
	for name, tt := range map[string]struct {
		lost    error // in place of the replies to the pipeline
		acts    bool
		then    error // in place of those to the plain commands that are sent again
		retries int
		fragile bool // there is a command that go-redis must not repeat
		err     error
		done    int64
	}{
		"lost":                    {io.EOF, true, nil, 0, false, nil, 2},
		"never arrived":           {io.EOF, false, nil, 0, false, nil, 1},
		"not served yet":          {loading, false, nil, 0, false, nil, 1},
		"without retries":         {io.EOF, true, nil, -1, false, io.EOF, 1},
		"unreadable":              {unreadable, true, nil, 0, false, unreadable, 1},
		"not to be repeated":      {io.EOF, true, nil, 0, true, io.EOF, 1},
		"kept from being resent":  {io.EOF, true, open, 0, false, open, 1},
		"cancelled in the middle": {context.Canceled, true, nil, 0, false, context.Canceled, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, server *redistest.Server) {
				prefix := "{" + harness.UniqueName(t) + "}"
				rdb := server.Client(t, func(o *redis.UniversalOptions) { o.MaxRetries, o.MaxRedirects = tt.retries, tt.retries })
				rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"q")))
				require.NoError(t, rdb.RPush(t.Context(), prefix+"q", "0").Err())
				lost := &lostReplies{lose: once(tt.lost, tt.acts)}
				rdb.AddHook(lost)
				rdb.AddHook(&refusesPlain{tt.then})
				pipe := rdb.Pipeline()
				pushes := []*redis.IntCmd{pipe.RPush(t.Context(), prefix+"q", "1")}
				plain := pipe.Incr(t.Context(), prefix+"plain")
				if tt.fragile {
					_ = pipe.Process(t.Context(), script.NewCommandOnce(t.Context(), "get", prefix+"plain"))
				}
				pushes = append(pushes, pipe.RPush(t.Context(), prefix+"q", "2"))
				_, _ = pipe.Exec(t.Context())
				require.EqualValues(t, 1, lost.struck.Load(), "the fault struck")
				assert.Equal(t, tt.err, plain.Err())
				done, err := server.Client(t).Get(t.Context(), prefix+"plain").Int64()
				require.NoError(t, err)
				assert.Equal(t, tt.done, done)
				for _, push := range pushes {
					require.NoError(t, push.Err())
				}
				assert.Equal(t, []string{"0", "1", "2"}, harness.Content(t, harness.OpenList(t, server.Client(t), prefix+"q")))
			})
		})
	}
}

// refusesPlain keeps pipelines of plain commands from being sent, and marks no command.
type refusesPlain struct{ err error }

func (r *refusesPlain) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (r *refusesPlain) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (r *refusesPlain) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if r.err != nil && cmds[0].Name() == "incr" {
			return r.err
		}
		return next(ctx, cmds)
	}
}

// The server forgets its scripts in the middle of a pipeline. A command is repeated, but not behind later ones of its list: it fails
// with an error that says so, and has changed nothing.
func TestScriptsAreFlushedInsideAPipeline(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, name, rdb := t.Context(), harness.UniqueName(t), redistest.Start(t, kind).Client(t)
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(name+"*")))
			require.NoError(t, rdb.RPush(ctx, name+":q", "0").Err())
			pipe := rdb.Pipeline()
			pipe.RPush(ctx, name+":q", "1") // sent in full
			pipe.ScriptFlush(ctx)
			pipe.Do(ctx, "FUNCTION", "FLUSH", "SYNC")
			failed, repeated := pipe.RPush(ctx, name+":q", "2"), pipe.RPush(ctx, name+":other", "3")
			_, err := pipe.Exec(ctx)
			require.NoError(t, err)
			assert.EqualValues(t, 3, failed.Val())
			require.NoError(t, repeated.Err())
			assert.Equal(t, []string{"0", "1", "2"}, harness.Content(t, harness.OpenList(t, rdb, name+":q")))
			assert.Equal(t, []string{"3"}, harness.Content(t, harness.OpenList(t, rdb, name+":other")))
		})
	}
}

// refuseFirst has the server refuse the first command of one pipeline, with nothing changed.
type refuseFirst struct {
	lostReplies
	done atomic.Bool
}

func (r *refuseFirst) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !harness.HasScripts(cmds) || r.done.Swap(true) {
			return next(ctx, cmds)
		}
		r.struck.Add(1)
		_ = next(ctx, cmds[1:])
		cmds[0].SetErr(serverError("TRYAGAIN Multiple keys request during rehashing of slot"))
		return cmds[0].Err()
	}
}

func TestATransactionIsNeverUndoneByParts(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, last := range []error{io.EOF, serverError("LOADING Redis is loading the dataset in memory")} {
			for _, acts := range []bool{true, false} {
				prefix := "{" + harness.UniqueName(t) + "}"
				rdb, lost := lossy(t, server, prefix, once(last, acts))
				in, busy := harness.OpenList(t, server.Client(t), prefix+"in", shardedlist.WithCapacity(2)), harness.OpenList(t, server.Client(t), prefix+"busy", shardedlist.WithCapacity(2))
				_, err := in.RPush(t.Context(), "job1", "job2", "job3")
				require.NoError(t, err)
				var pop *redis.StringCmd
				var push, plain *redis.IntCmd
				_, err = rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
					pop = pipe.LPop(t.Context(), prefix+"in")
					push = pipe.RPush(t.Context(), prefix+"busy", "job1")
					plain = pipe.Incr(t.Context(), "counter"+prefix)
					return nil
				})
				require.EqualValues(t, 1, lost.struck.Load(), "the fault struck")
				if !acts {
					assert.ErrorIs(t, err, last)
					assert.NotErrorIs(t, err, shardedlist.ErrReplyLost)
					assert.Equal(t, []string{"job1", "job2", "job3"}, harness.Content(t, in))
					assert.Empty(t, harness.Content(t, busy))
					continue
				}
				assert.Equal(t, "job1", pop.Val())
				assert.NoError(t, pop.Err())
				assert.EqualValues(t, 1, push.Val())
				assert.NoError(t, push.Err())
				assert.ErrorIs(t, plain.Err(), shardedlist.ErrReplyLost, "there is no record of it")
				assert.ErrorIs(t, err, shardedlist.ErrReplyLost)
				assert.Equal(t, []string{"job2", "job3"}, harness.Content(t, in))
				assert.Equal(t, []string{"job1"}, harness.Content(t, busy))
				assert.Equal(t, "1", server.Client(t).Get(t.Context(), "counter"+prefix).Val())
			}
		}
	})
}

// A transaction arrives when its caller has gone on. There are no records of what it does to plain keys, so it cannot be fenced: it is
// carried out as a whole, and its caller has been told that it may be.
func TestALateTransactionIsCarriedOutAsAWhole(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		prefix := "{" + harness.UniqueName(t) + "}"
		rdb, plain := server.Client(t), server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(2)))
		late := &lateTransaction{}
		rdb.AddHook(late)
		in, busy := harness.OpenList(t, plain, prefix+"in", shardedlist.WithCapacity(2)), harness.OpenList(t, plain, prefix+"busy", shardedlist.WithCapacity(2))
		_, err := in.RPush(t.Context(), "job1", "job2", "job3")
		require.NoError(t, err)
		take := func(job string) error {
			_, err := rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
				pipe.LPop(t.Context(), prefix+"in")
				pipe.RPush(t.Context(), prefix+"busy", job)
				pipe.Incr(t.Context(), "counter"+prefix)
				return nil
			})
			return err
		}
		assert.ErrorIs(t, take("job1"), shardedlist.ErrOutcomeUnknown)
		require.NotEmpty(t, late.held, "the fault struck")
		assert.Equal(t, []string{"job1", "job2", "job3"}, harness.Content(t, in))
		require.NoError(t, take("job1"), "its operations have other records")

		_, _ = plain.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error { // one command is there to fail, see memoryGuard
			for _, args := range late.held {
				pipe.Do(t.Context(), args...)
			}
			return nil
		})
		assert.Equal(t, []string{"job3"}, harness.Content(t, in))
		assert.Equal(t, []string{"job1", "job1"}, harness.Content(t, busy))
		assert.Equal(t, "2", plain.Get(t.Context(), "counter"+prefix).Val())
	})
}

// lateTransaction holds the first transaction, as a network may.
type lateTransaction struct {
	lostReplies
	held [][]any
}

func (l *lateTransaction) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !harness.HasScripts(cmds) || l.held != nil {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds[1 : len(cmds)-1] {
			l.held = append(l.held, slices.Clone(cmd.Args()))
		}
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
}

// As in Redis, a transaction that would add elements is refused as a whole while memory is full.
func TestATransactionThatMemoryRefusesChangesNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind, "maxmemory-policy noeviction")
			rdb, admin := server.Client(t), server.Client(t)
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*"), shardedlist.WithCapacity(2)))
			move := func(to string) error {
				_, err := rdb.TxPipelined(t.Context(), func(pipe redis.Pipeliner) error {
					pipe.LPop(t.Context(), "in")
					pipe.RPush(t.Context(), to, "job")
					return nil
				})
				return err
			}
			require.NoError(t, rdb.RPush(t.Context(), "in", "job1", "job2", "job3", "job4").Err())
			require.NoError(t, move("busy"), "to an empty list")
			require.NoError(t, move("busy"))
			require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "1").Err())
			for _, to := range []string{"busy", "new"} {
				assert.Error(t, move(to))
			}
			require.NoError(t, admin.ConfigSet(t.Context(), "maxmemory", "0").Err())
			assert.Equal(t, []string{"job3", "job4"}, rdb.LRange(t.Context(), "in", 0, -1).Val())
			assert.Equal(t, []string{"job", "job"}, rdb.LRange(t.Context(), "busy", 0, -1).Val())
			assert.Empty(t, rdb.LRange(t.Context(), "new", 0, -1).Val())
		})
	}
}

// While the outcome of a transaction cannot be learned, all of it is unknown. Nothing of it is undone later, but what only took.
func TestATransactionThatIsGivenUpIsUnknownAsAWhole(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		prefix := "{" + harness.UniqueName(t) + "}"
		// giveUp sends a transaction whose first attempt is carried out, while no replies come. The client is its own, since the outcome
		// is asked for in the background.
		giveUp := func(fn func(ctx context.Context, pipe redis.Pipeliner)) (comeBack func()) {
			var away atomic.Bool
			var attempts atomic.Int64
			away.Store(true)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			rdb, lost := lossy(t, server, prefix, func() (error, bool) {
				if !away.Load() {
					return nil, false
				}
				attempt := attempts.Add(1)
				if attempt == 3 {
					cancel()
				}
				return io.EOF, attempt == 1
			})
			_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				fn(ctx, pipe)
				return nil
			})
			assert.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
			assert.Greater(t, lost.struck.Load(), int64(1), "the outcome was asked for")
			return func() { away.Store(false) }
		}
		in, busy := harness.OpenList(t, server.Client(t), prefix+"in"), harness.OpenList(t, server.Client(t), prefix+"busy")
		_, err := in.RPush(t.Context(), "job1", "job2", "job3")
		require.NoError(t, err)
		comeBack := giveUp(func(ctx context.Context, pipe redis.Pipeliner) {
			pipe.LPop(ctx, prefix+"in")
			pipe.RPush(ctx, prefix+"busy", "job1")
		})
		comeBack()
		_, err = in.LPushX(t.Context(), "job0") // a write, so that the lists are used
		require.NoError(t, err)
		assert.Equal(t, []string{"job0", "job2", "job3"}, harness.Content(t, in))
		assert.Equal(t, []string{"job1"}, harness.Content(t, busy))

		// Elements that were taken and nothing else go back.
		comeBack = giveUp(func(ctx context.Context, pipe redis.Pipeliner) { pipe.LPop(ctx, prefix+"in") })
		length, err := in.LLen(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 2, length, "it was carried out")
		comeBack()
		require.Eventually(t, func() bool { return len(harness.Content(t, in)) == 3 }, 20*time.Second, time.Millisecond)
		assert.Equal(t, []string{"job0", "job2", "job3"}, harness.Content(t, in))
	})
}

// A large pop through the hook that fails in its second part has the elements of the first.
func TestAHookedPopHandsOverWhatItHasBesideAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	key := harness.UniqueName(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rdb := server.Client(t, harness.Patient)
	hooked := shardedlist.NewHook(rdb, shardedlist.Match("*"+key))
	rdb.AddHook(hooked)
	rdb.AddHook(&cancelAfterPop{cancel: cancel})
	list := harness.OpenList(t, server.Client(t, harness.Patient), key)
	values := make([]any, 300_000)
	for i := range values {
		values[i] = "x"
	}
	_, err := list.RPush(t.Context(), values...)
	require.NoError(t, err)
	popped, err := rdb.LPopCount(ctx, key, len(values)).Result()
	assert.ErrorIs(t, err, context.Canceled)
	assert.Len(t, popped, harness.MaxCallValues)
	left, err := list.LLen(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, len(values), int64(len(popped))+left)
}

// cancelAfterPop cancels a context when a script has popped.
type cancelAfterPop struct {
	lostReplies
	cancel context.CancelFunc
	once   sync.Once
}

func (c *cancelAfterPop) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (c *cancelAfterPop) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Val() any }); err == nil && ok && redistest.IsCall(cmd.Name()) {
			if parts, isPop := reply.Val().([]any); isPop && len(parts) > 1 {
				c.once.Do(c.cancel)
			}
		}
		return err
	}
}

// A hooked caller can tell what a server's reply alone does not say.
func TestTheHookKeepsWhatTheLibraryKnows(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t)
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("q*"), shardedlist.WithReplicas(1, 5*time.Millisecond)))
	length, err := rdb.RPush(t.Context(), "q", "a").Result()
	assert.ErrorIs(t, err, shardedlist.ErrNotReplicated)
	assert.EqualValues(t, 1, length)

	admin := server.Client(t)
	require.NoError(t, admin.Do(t.Context(), "acl", "setuser", "default", "-wait").Err())
	length, err = rdb.RPush(t.Context(), "q", "b").Result()
	assert.ErrorIs(t, err, shardedlist.ErrNotReplicated, "a WAIT that is forbidden is no push that failed")
	assert.False(t, errors.Is(err, shardedlist.ErrOutcomeUnknown))
	assert.EqualValues(t, 2, length)
}

// The reply of a fence is lost, too, and the fence repeated: what was not applied must not look as if it had been.
func TestAFenceMayBeRepeated(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for kind, unsent := range map[string]error{"pipeline": serverError("ERR of some kind"), "transaction": io.EOF} {
			prefix := "{" + harness.UniqueName(t) + "}"
			rdb := server.Client(t)
			rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(prefix+"*"), shardedlist.WithCapacity(2)))
			fault := &unsentThenLost{unsent: unsent}
			_, err := rdb.Pipelined(t.Context(), func(pipe redis.Pipeliner) error { // makes sure that the server has the functions
				return pipe.LLen(t.Context(), prefix+"q").Err()
			})
			require.NoError(t, err)
			rdb.AddHook(fault)
			list := harness.OpenList(t, server.Client(t), prefix+"q", shardedlist.WithCapacity(2))
			_, err = list.RPush(t.Context(), "a", "b", "c")
			require.NoError(t, err)
			pipe := rdb.Pipeline()
			if kind == "transaction" {
				pipe = rdb.TxPipeline()
			}
			pipe.LPop(t.Context(), prefix+"q")
			pipe.RPush(t.Context(), prefix+"q", "d")
			_, err = pipe.Exec(t.Context())
			require.True(t, fault.lost.Load(), "%s: a fence was lost", kind)
			if kind == "transaction" && server.Kind() == redistest.Cluster { // it is certain that it was not carried out, so it is repeated
				require.NoError(t, err)
				assert.Equal(t, []string{"b", "c", "d"}, harness.Content(t, list))
				continue
			}
			assert.Error(t, err, kind)
			assert.NotErrorIs(t, err, shardedlist.ErrReplyLost, kind)
			assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown, kind)
			assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, list), kind)
		}
	})
}

// unsentThenLost does not send the first scripts. Of the next ones that the server carries out, it loses the replies.
type unsentThenLost struct {
	unsent       error
	struck, lost atomic.Bool
}

func (u *unsentThenLost) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *unsentThenLost) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return u.process([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (u *unsentThenLost) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		return u.process(cmds, func() error { return next(ctx, cmds) })
	}
}

func (u *unsentThenLost) process(cmds []redis.Cmder, next func() error) (err error) {
	if !harness.HasScripts(cmds) {
		return next()
	}
	if !u.struck.Swap(true) {
		err = u.unsent
	} else if err = next(); (err == nil || err == redis.Nil) && !u.lost.Swap(true) {
		err = io.EOF
	} else {
		return err
	}
	for _, cmd := range cmds {
		cmd.SetErr(err)
	}
	return err
}
