package shardedlist

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }

// newList returns an empty list of a name of its own. When the test ends, the list's invariants are checked.
func newList(t testing.TB, rdb redis.UniversalClient, opts ...Option) *ShardedList {
	t.Helper()
	return openList(t, rdb, uniqueName(t), opts...)
}

// uniqueName is a name that no other test uses, nor the same one when it is run again.
func uniqueName(t testing.TB) string { return t.Name() + "-" + uuid.NewString() }

// openList is newList for a name that other lists may share.
func openList(t testing.TB, rdb redis.UniversalClient, name string, opts ...Option) *ShardedList {
	t.Helper()
	list, err := New(rdb, name, opts...)
	require.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			assert.NoError(t, list.Check(context.Background()))
		}
	})
	return list
}

// patient lets a client wait for what takes the server long, where the machine is slow or busy with other tests.
func patient(o *redis.UniversalOptions) { o.ReadTimeout = time.Minute }

// numbers are the decimal numbers from..to-1, as values to push.
func numbers(from, to int) []any {
	values := make([]any, 0, to-from)
	for i := from; i < to; i++ {
		values = append(values, i)
	}
	return values
}

func words(values []any) []string {
	result := make([]string, len(values))
	for i, value := range values {
		result[i] = fmt.Sprint(value)
	}
	return result
}

func content(t testing.TB, list *ShardedList) []string {
	t.Helper()
	return collect(t, list.All(t.Context()))
}

func collect(t testing.TB, all iter.Seq2[string, error]) []string {
	t.Helper()
	values := []string{}
	for value, err := range all {
		require.NoError(t, err)
		values = append(values, value)
	}
	return values
}

// keysOfList are all keys that exist of the list, on whatever node, but the dedup records, which it checks do expire.
func keysOfList(t testing.TB, list *ShardedList) []string {
	t.Helper()
	found := []string{}
	for node, keys := range keysByNode(t, list) {
		for _, key := range keys {
			if !strings.HasPrefix(key, list.keys().Records()) {
				found = append(found, key)
			} else if life, err := node.PTTL(t.Context(), key).Result(); err == nil { // the node may be about to receive it
				assert.LessOrEqual(t, life, session.RecordLife)
				assert.NotEqual(t, time.Duration(-1), life, "%q never expires", key)
			}
		}
	}
	return found
}

// keysByNode are all keys of the list, and of lists whose names begin with its keys. A list that has been renamed has its shards
// under the name that it had, so its meta tells whose they are.
func keysByNode(t testing.TB, list *ShardedList) map[*redis.Client][]string {
	t.Helper()
	prefix := list.keys().Prefix
	tag := oneslot.Keys{Prefix: prefix[:strings.Index(prefix, "}")+1]}
	found, owner := map[*redis.Client][]string{}, map[string]string{}
	for _, node := range nodesOf(t, list) {
		keys, err := node.Keys(t.Context(), tag.Glob()).Result()
		require.NoError(t, err)
		found[node] = keys
		for _, key := range keys {
			if !strings.HasSuffix(key, ":meta") {
				continue
			}
			if layout, err := asking(t, node, "hget", key, "layout").Text(); err == nil { // it may be no hash
				owner[shardPrefix(layout, strings.TrimSuffix(key, "meta"))] = key
			}
		}
	}
	for node, keys := range found {
		found[node] = slices.DeleteFunc(keys, func(key string) bool {
			meta, known := owner[key[:strings.LastIndexByte(key, ':')+1]]
			if known {
				return !strings.HasPrefix(meta, prefix)
			}
			return !strings.HasPrefix(key, prefix)
		})
	}
	return found
}

func nodesOf(t testing.TB, list *ShardedList) (nodes []*redis.Client) {
	t.Helper()
	switch rdb := list.rdb().(type) {
	case *redis.ClusterClient:
		added := make(chan *redis.Client, 100)
		require.NoError(t, rdb.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
			added <- node
			return nil
		}))
		close(added)
		for node := range added {
			nodes = append(nodes, node)
		}
	case *redis.Client:
		nodes = append(nodes, rdb)
	}
	return nodes
}

func TestNewRefusesBadInput(t *testing.T) {
	t.Parallel()
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	var noClient *redis.Client
	for _, test := range []struct {
		rdb  redis.UniversalClient
		name string
		opts []Option
		want error
	}{
		{nil, "jobs", nil, ErrNilClient},
		{noClient, "jobs", nil, ErrNilClient},
		{rdb, "", nil, ErrEmptyName},
		{rdb, "jobs", []Option{WithCapacity(0)}, ErrCapacity},
		{rdb, "jobs", []Option{WithCapacity(-1)}, ErrCapacity},
		{rdb, "jobs", []Option{WithCapacity(MaxCapacity + 1)}, ErrCapacity},
		{rdb, "jobs", []Option{WithCapacity(1)}, nil},
		{rdb, "jobs", []Option{WithCapacity(MaxCapacity)}, nil},
		{rdb, "jobs", nil, nil},
	} {
		list, err := New(test.rdb, test.name, test.opts...)
		assert.ErrorIs(t, err, test.want)
		assert.Equal(t, test.want == nil, list != nil)
	}
}

func TestDelTellsWhetherTheListExisted(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := newList(t, server.Client(t), WithCapacity(2))
		existed, err := list.Del(t.Context())
		require.NoError(t, err)
		assert.False(t, existed)

		_, err = list.RPush(t.Context(), numbers(0, 9)...)
		require.NoError(t, err)
		existed, err = list.Del(t.Context())
		require.NoError(t, err)
		assert.True(t, existed)
		assert.Empty(t, keysOfList(t, list))
	})
}

// A Del or a Rename whose client dies right after the atomic step leaves shards without a list. Whatever others then do with the
// list must neither see them nor keep them.
func TestLaterOperationsFinishAnInterruptedDel(t *testing.T) {
	t.Parallel()
	interrupted := map[string]func(t *testing.T, list *ShardedList){
		"del": func(t *testing.T, list *ShardedList) {
			_, err := list.RPush(t.Context(), numbers(0, 400)...)
			require.NoError(t, err)
			_, err = list.LPopCount(t.Context(), 10) // so that ids do not begin at 0
			require.NoError(t, err)
			_, err = bare(list.slot().Delete()).Run(t.Context()) // and no sweep after it
			require.NoError(t, err)
		},
		"rename": func(t *testing.T, list *ShardedList) { // of three lists onto each other, all with shards to be swept
			prefix := "{" + list.Name() + "}"
			for i, name := range []string{prefix + "a", prefix + "b", prefix + "a"} {
				other, err := New(list.rdb(), name, WithCapacity(1))
				require.NoError(t, err)
				_, err = other.RPush(t.Context(), numbers(0, 150)...)
				require.NoError(t, err)
				_, err = bare(other.slot().Trim(50, 100)).Run(t.Context())
				require.NoError(t, err)
				renaming, err := other.slot().Transfer(layout.Rename, list.slot(), true)
				require.NoError(t, err)
				_, err = bare(renaming).Run(t.Context())
				require.NoError(t, err)
				require.Len(t, content(t, list), 51, "rename %d", i)
			}
			_, err := bare(list.slot().Delete()).Run(t.Context())
			require.NoError(t, err)
		},
	}
	later := map[string]func(ctx context.Context, list *ShardedList, i int) error{
		"rpush": func(ctx context.Context, list *ShardedList, i int) error {
			_, err := list.RPush(ctx, i)
			return err
		},
		"lpush": func(ctx context.Context, list *ShardedList, i int) error {
			_, err := list.LPush(ctx, i)
			return err
		},
		"lpush many": func(ctx context.Context, list *ShardedList, i int) error {
			_, err := list.LPush(ctx, numbers(0, 300)...) // beyond what one step sweeps, over the stale shards
			return err
		},
		"push and pop": func(ctx context.Context, list *ShardedList, i int) error {
			if _, err := list.LPush(ctx, i); err != nil {
				return err
			}
			_, err := list.RPop(ctx)
			return err
		},
		"pop of nothing": func(ctx context.Context, list *ShardedList, i int) error {
			_, err := list.LPop(ctx)
			return ignoreNil(err)
		},
		"blocking pop": func(ctx context.Context, list *ShardedList, i int) error {
			_, err := list.BLPop(ctx, time.Millisecond)
			return ignoreNil(err)
		},
		"rotation": func(ctx context.Context, list *ShardedList, i int) error {
			if _, err := list.LPush(ctx, numbers(0, 3)...); err != nil {
				return err
			}
			_, err := list.LMoveM(ctx, list, "RIGHT", "LEFT", redis.LMoveMArgs{Count: int64(i + 1)})
			return err
		},
		"move away": func(ctx context.Context, list *ShardedList, i int) error {
			if _, err := list.LPush(ctx, i); err != nil {
				return err
			}
			_, err := list.LMove(ctx, beside(list), "LEFT", "LEFT")
			return err
		},
		"lmpop of nothing": func(ctx context.Context, list *ShardedList, i int) error {
			_, _, err := LMPop(ctx, "LEFT", 1, list)
			return ignoreNil(err)
		},
		"del": func(ctx context.Context, list *ShardedList, i int) error {
			_, err := list.Del(ctx)
			return err
		},
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, operate := range later {
			for cut, interrupt := range interrupted {
				t.Run(cut+", "+name, func(t *testing.T) {
					list := newList(t, server.Client(t), WithCapacity(1))
					interrupt(t, list)

					length, err := list.LLen(t.Context())
					require.NoError(t, err)
					require.Zero(t, length)
					require.Empty(t, content(t, list))
					info, err := list.Info(t.Context())
					require.NoError(t, err)
					require.Greater(t, info.Unswept, int64(200))

					for i := range 20 {
						require.NoError(t, operate(t.Context(), list, i))
						if i%4 == 0 {
							require.NoError(t, list.Check(t.Context()))
						}
					}
					info, err = list.Info(t.Context())
					require.NoError(t, err)
					assert.Zero(t, info.Unswept)
					for _, name := range []string{"a", "b"} {
						assert.Empty(t, keysOfList(t, openList(t, list.rdb(), "{"+list.Name()+"}"+name)), "of the lists that were renamed")
					}
					shards := 0
					for _, key := range keysOfList(t, list) {
						if key != list.keys().Meta && !strings.HasPrefix(key, list.keys().Bell) && !strings.HasPrefix(key, beside(list).keys().Prefix) {
							shards++
						}
					}
					assert.EqualValues(t, info.Shards, shards)
					assert.Len(t, content(t, list), int(info.Length))
				})
			}
		}
	})
}

func ignoreNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

func TestDelOfAMillionElementsTakesBoundedSteps(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t).(*redis.Client)
	list := newList(t, rdb)
	for i := 0; i < 1_000_000; i += 100_000 {
		_, err := list.RPush(t.Context(), numbers(i, i+100_000)...)
		require.NoError(t, err)
	}
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())

	reply, err := bare(list.slot().Delete()).Run(t.Context())
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), int64(1)}, reply)
	calls := commandCalls(t, rdb)
	assert.LessOrEqual(t, calls["unlink"], 100)
	assert.Less(t, calls["unlink"]+calls["exists"]+calls["hset"]+calls["llen"], 220)

	existed, err := list.Del(t.Context())
	require.NoError(t, err)
	assert.False(t, existed)
	assert.Empty(t, keysOfList(t, list))
	calls = commandCalls(t, rdb)
	assert.LessOrEqual(t, calls["unlink"], 320*(calls["evalsha"]+calls["eval"]), "steps grow while they are fast")
}

// The capacity belongs to the list, whoever pushes.
func TestTheListKeepsTheCapacityItWasCreatedWith(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		creator := newList(t, rdb, WithCapacity(3))
		other, err := New(rdb, creator.Name(), WithCapacity(100))
		require.NoError(t, err)

		_, err = creator.RPush(t.Context(), 0)
		require.NoError(t, err)
		_, err = other.RPush(t.Context(), numbers(1, 10)...)
		require.NoError(t, err)
		info, err := other.Info(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 3, info.Capacity)
		assert.EqualValues(t, 4, info.Shards)

		_, err = other.LPopCount(t.Context(), 10)
		require.NoError(t, err)
		_, err = other.RPush(t.Context(), 0)
		require.NoError(t, err)
		info, err = creator.Info(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 100, info.Capacity, "a list that was empty is created again")
	})
}

func TestCapacityComesFromTheServer(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Valkey} {
		for setting, want := range map[string]int64{
			"list-max-listpack-size 37": 37,
			"list-max-ziplist-size 41":  41,
			"list-max-ziplist-size 16":  16,
			"list-max-ziplist-size 15":  DefaultCapacity, // too small for keys
			"list-max-ziplist-size 1":   DefaultCapacity,
			"list-max-ziplist-size -2":  DefaultCapacity, // a size in bytes
			`rename-command CONFIG ""`:  DefaultCapacity, // as managed services do
		} {
			t.Run(string(kind)+" "+setting, func(t *testing.T) {
				t.Parallel()
				if strings.Contains(setting, "listpack") && strings.HasPrefix(redistest.Shared(t, kind).Version(), "Redis 6.") {
					t.Skip("the setting has another name before Redis 7")
				}
				list := newList(t, redistest.Start(t, kind, setting).Client(t))
				_, err := list.RPush(t.Context(), "a")
				require.NoError(t, err)
				info, err := list.Info(t.Context())
				require.NoError(t, err)
				assert.Equal(t, want, info.Capacity)
			})
		}
	}
}

// configFails fails the first CONFIG commands of a client with these errors, and counts all.
type configFails struct {
	calls  atomic.Int64
	errors []error
}

func (f *configFails) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *configFails) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *configFails) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "config" {
			return next(ctx, cmd)
		}
		if call := f.calls.Add(1); int(call) <= len(f.errors) {
			cmd.SetErr(f.errors[call-1])
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func TestAClientAsksForTheCapacityOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		count := &configFails{}
		rdb := server.Client(t)
		rdb.AddHook(count)
		prefix := uniqueName(t)
		rdb.AddHook(NewHook(rdb, Match(prefix+"hooked*")))
		for i := range 5 {
			require.NoError(t, rdb.RPush(t.Context(), fmt.Sprint(prefix, "hooked", i), "a").Err())
			_, err := openList(t, rdb, fmt.Sprint(prefix, i)).RPush(t.Context(), "a")
			require.NoError(t, err)
		}
		assert.EqualValues(t, 1, count.calls.Load())
	})
}

// What the server answers about its capacity is kept. A reply that it cannot tell now is not an answer.
func TestTheServersCapacityIsAskedForUntilItTells(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, "list-max-ziplist-size 37")
	const loading = rediserr.Error("LOADING Redis is loading the dataset in memory")
	for name, tt := range map[string]struct {
		errors []error
		want   []int64 // capacities of lists created in turn
		calls  int64
	}{
		"none":      {nil, []int64{37, 37}, 1},
		"passing":   {[]error{loading, loading, rediserr.Error("BUSY Redis is busy running a script.")}, []int64{37, 37}, 4},
		"cut":       {[]error{io.EOF, io.ErrUnexpectedEOF}, []int64{37, 37}, 3},
		"other":     {[]error{rediserr.Error("ERR not now")}, []int64{DefaultCapacity, 37, 37}, 2},
		"forbidden": {[]error{rediserr.Error("NOPERM User worker has no permissions to run the 'config|get' command")}, []int64{DefaultCapacity, DefaultCapacity}, 1},
		"unknown":   {[]error{rediserr.Error("ERR unknown command 'config', with args beginning with: 'get' ")}, []int64{DefaultCapacity, DefaultCapacity}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails := &configFails{errors: tt.errors}
			rdb := server.Client(t)
			rdb.AddHook(fails)
			list := newList(t, rdb)
			for _, want := range tt.want {
				_, err := list.RPush(t.Context(), "a")
				require.NoError(t, err)
				info, err := list.Info(t.Context())
				require.NoError(t, err)
				assert.Equal(t, want, info.Capacity)
				_, err = list.Del(t.Context())
				require.NoError(t, err)
			}
			assert.Equal(t, tt.calls, fails.calls.Load())
		})
	}

	t.Run("for ever", func(t *testing.T) {
		t.Parallel()
		rdb := server.Client(t)
		rdb.AddHook(&configFails{errors: slices.Repeat([]error{loading}, 1000)})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newList(t, rdb).RPush(ctx, "a")
		assert.ErrorIs(t, err, loading)
		assert.NotErrorIs(t, err, ErrOutcomeUnknown, "nothing was sent")
	})
}

func TestAnEmptyListLeavesNoKeyForLongerThanAMinute(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := newList(t, rdb, WithCapacity(2))
		_, err := list.RPush(t.Context(), numbers(0, 7)...)
		require.NoError(t, err)
		_, err = list.RPopCount(t.Context(), 7)
		require.NoError(t, err)
		assert.Empty(t, keysOfList(t, list))

		// Consumers that waited leave an armed list or a dummy, with a short life.
		arm(t, list)
		require.NotEmpty(t, keysOfList(t, list))
		assertAllExpire(t, list)
		_, err = list.RPush(t.Context(), "rings")
		require.NoError(t, err)
		assert.Negative(t, rdb.TTL(t.Context(), list.keys().Meta).Val(), "a list with elements lives on")
		_, err = list.LPop(t.Context())
		require.NoError(t, err)
		assertAllExpire(t, list)
	})
}

func assertAllExpire(t *testing.T, list *ShardedList) {
	t.Helper()
	for _, key := range keysOfList(t, list) {
		life := list.rdb().PTTL(t.Context(), key).Val()
		assert.Positive(t, life, key)
		assert.LessOrEqual(t, life, time.Minute, key)
	}
}

// commandCalls is how often each command ran since the last CONFIG RESETSTAT, from within scripts too.
func commandCalls(t testing.TB, rdb *redis.Client) map[string]int {
	t.Helper()
	stats := rdb.InfoMap(t.Context(), "commandstats")
	require.NoError(t, stats.Err())
	calls := map[string]int{}
	for name, stat := range stats.Val()["Commandstats"] {
		var count int
		_, err := fmt.Sscanf(stat, "calls=%d", &count)
		require.NoError(t, err)
		calls[name[len("cmdstat_"):]] = count
	}
	return calls
}
