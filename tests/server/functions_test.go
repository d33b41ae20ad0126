package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/lua"
	"github.com/shardedlist/shardedlist/tests/harness"
)

// withFunctions runs a test on servers that have functions.
func withFunctions(t *testing.T, test func(t *testing.T, server *redistest.Server)) {
	if redistest.WithoutFunctions() {
		t.Skip("the servers have no functions")
	}
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t, kind))
		})
	}
}

// onMasters does something on each master.
func onMasters(t *testing.T, rdb redis.UniversalClient, do func(ctx context.Context, node *redis.Client) error) {
	t.Helper()
	if cluster, ok := rdb.(*redis.ClusterClient); ok {
		require.NoError(t, cluster.ForEachMaster(t.Context(), do))
		return
	}
	require.NoError(t, do(t.Context(), rdb.(*redis.Client)))
}

func flush(ctx context.Context, node *redis.Client) error {
	return node.Do(ctx, "FUNCTION", "FLUSH", "SYNC").Err()
}

// flushBefore is a hook that flushes the functions right before a pipeline with calls is sent.
type flushBefore struct {
	t     *testing.T
	admin redis.UniversalClient
	armed atomic.Bool
}

func (f *flushBefore) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (f *flushBefore) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (f *flushBefore) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if harness.HasScripts(cmds) && f.armed.Swap(false) {
			onMasters(f.t, f.admin, flush)
		}
		return next(ctx, cmds)
	}
}

// The functions go the moment before a transaction or a pipeline is sent: nothing is lost, done twice, or done by half.
func TestFunctionsGoBeforeAPipelineIsSent(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb, tag := t.Context(), server.Client(t), "{"+harness.UniqueName(t)+"}"
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(tag+"*"), shardedlist.WithCapacity(2)))
		fault := &flushBefore{t: t, admin: server.Client(t)}
		rdb.AddHook(fault)
		for name, together := range map[string]func(context.Context, func(redis.Pipeliner) error) ([]redis.Cmder, error){
			"pipeline": rdb.Pipelined, "transaction": rdb.TxPipelined,
		} {
			for round := range 3 {
				fault.armed.Store(round == 1)
				var count, length *redis.IntCmd
				var popped *redis.StringCmd
				_, err := together(ctx, func(pipe redis.Pipeliner) error {
					count = pipe.Incr(ctx, "counter:"+tag+name)
					length = pipe.RPush(ctx, tag+name, round, "x")
					popped = pipe.LPop(ctx, tag+name)
					return nil
				})
				require.NoError(t, err, name)
				assert.False(t, fault.armed.Load(), "it has struck")
				assert.EqualValues(t, round+1, count.Val(), name)
				assert.EqualValues(t, round+2, length.Val(), name)
				assert.NotEmpty(t, popped.Val(), name)
			}
			for round := range 3 { // of one call, what is sent again is as short as can be
				fault.armed.Store(round == 1)
				var count, length *redis.IntCmd
				_, err := together(ctx, func(pipe redis.Pipeliner) error {
					count = pipe.Incr(ctx, "counter:"+tag+name)
					length = pipe.RPush(ctx, tag+name, "y")
					return nil
				})
				require.NoError(t, err, name)
				assert.False(t, fault.armed.Load(), "it has struck")
				assert.EqualValues(t, round+4, count.Val(), name)
				assert.EqualValues(t, round+4, length.Val(), name)
			}
		}
	})
}

// A user who may call functions and not load them gets scripts, unless somebody else has loaded the library.
func TestAUserWhoMayNotLoadFunctions(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, server *redistest.Server) {
		ctx, admin := t.Context(), server.Client(t)
		for _, node := range server.Nodes() {
			_ = node.Client(t).Do(ctx, "ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all", "-function|load").Err() // a sentinel has no users of lists
		}
		as := func(o *redis.UniversalOptions) { o.Username, o.Password = "caller", "secret" }
		for i, want := range []string{"scripts: NOPERM", "functions"} {
			list := harness.OpenList(t, server.Client(t, as), harness.UniqueName(t))
			_, err := list.RPush(ctx, "a", "b")
			require.NoError(t, err)
			value, err := list.LPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, "a", value)
			info, err := list.Info(ctx)
			require.NoError(t, err)
			assert.True(t, strings.HasPrefix(info.Mode, want), "%d: %s", i, info.Mode)
			onMasters(t, admin, func(ctx context.Context, node *redis.Client) error {
				err := node.FunctionLoad(ctx, lua.Functions().Text).Err()
				if err != nil && strings.Contains(err.Error(), "already exists") {
					err = nil
				}
				return err
			})
		}
	})
}

// A library of this name that lacks the functions is replaced; those of other versions stay, and are used beside it.
func TestLibrariesOfOtherVersions(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, server *redistest.Server) {
		ctx, rdb := t.Context(), server.Client(t)
		const other = "shardedlist_00000000"
		for _, name := range []string{lua.Functions().Name, other} {
			onMasters(t, rdb, func(ctx context.Context, node *redis.Client) error {
				return node.FunctionLoad(ctx, "#!lua name="+name+"\nredis.register_function('"+name+"_other', function() return 1 end)").Err()
			})
		}
		list := harness.NewList(t, rdb)
		_, err := list.RPush(ctx, "a", "b")
		require.NoError(t, err)
		info, err := list.Info(ctx)
		require.NoError(t, err)
		assert.Equal(t, "functions", info.Mode)
		assert.EqualValues(t, 1, rdb.FCall(ctx, other+"_other", []string{list.Name()}).Val())
	})
}

// The master that gets the slot of a list, and one that has lost its functions, do not know them.
func TestAMasterWithoutTheFunctions(t *testing.T) {
	t.Parallel()
	if redistest.WithoutFunctions() {
		t.Skip("the servers have no functions")
	}
	server := redistest.Start(t, redistest.Cluster)
	ctx, rdb := t.Context(), server.Client(t)
	list := harness.NewList(t, rdb)
	pushes := 0
	push := func() {
		pushes++
		length, err := list.RPush(ctx, pushes)
		require.NoError(t, err)
		assert.EqualValues(t, pushes, length)
	}
	push()
	slot := harness.Keys(list).Slot()
	home, err := server.SlotOwner(ctx, slot)
	require.NoError(t, err)
	for i := 1; i < 3; i++ {
		require.NoError(t, flush(ctx, server.Nodes()[(home+i)%3].Client(t).(*redis.Client))) // the master that gets the slot
		require.NoError(t, server.MoveSlot(ctx, slot, (home+i)%3, nil))
		push()
	}
	onMasters(t, rdb, flush)
	push()
	info, err := list.Info(ctx)
	require.NoError(t, err)
	assert.Equal(t, "functions", info.Mode)
}

// Callers that find no library at the same time load it once, or nearly.
func TestManyFirstCallers(t *testing.T) {
	t.Parallel()
	withFunctions(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t, harness.Patient)
		var callers sync.WaitGroup
		start := make(chan struct{})
		for i := range 64 {
			list := harness.OpenList(t, rdb, fmt.Sprintf("{%s}%d", t.Name(), i))
			callers.Go(func() {
				<-start
				_, err := list.RPush(t.Context(), "a")
				assert.NoError(t, err)
			})
		}
		close(start)
		callers.Wait()
		loads := 0
		onMasters(t, rdb, func(ctx context.Context, node *redis.Client) error {
			info, err := node.Info(ctx, "commandstats").Result()
			if match := regexp.MustCompile(`cmdstat_function\|load:calls=(\d+)`).FindStringSubmatch(info); match != nil {
				n, _ := strconv.Atoi(match[1])
				loads += n
			}
			return err
		})
		assert.Equal(t, 1, loads, "all lists are on one master")
	})
}

// While memory is full, a library cannot be loaded: the first calls are scripts. A user without EVAL hears that memory is full, and not that
// EVAL is missing.
func TestFunctionsWhileMemoryIsFull(t *testing.T) {
	t.Parallel()
	if redistest.WithoutFunctions() {
		t.Skip("the servers have no functions")
	}
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx, admin := t.Context(), server.Client(t)
			list := harness.NewList(t, admin)
			_, err := list.RPush(ctx, "a", "b")
			require.NoError(t, err)
			require.NoError(t, admin.Do(ctx, "ACL", "SETUSER", "caller", "on", ">secret", "~*", "&*", "+@all", "-eval", "-evalsha").Err())
			restricted := harness.OpenList(t, server.Client(t, func(o *redis.UniversalOptions) { o.Username, o.Password = "caller", "secret" }), list.Name())

			require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "1").Err())
			_, err = restricted.RPush(ctx, "c")
			require.ErrorContains(t, err, "OOM")
			assert.NotContains(t, err.Error(), "EVAL")
			value, err := restricted.LPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, "a", value)

			require.NoError(t, admin.Do(ctx, "FUNCTION", "FLUSH", "SYNC").Err())
			fresh := harness.OpenList(t, server.Client(t), list.Name())
			_, err = fresh.RPush(ctx, "c")
			require.ErrorContains(t, err, "OOM")
			value, err = fresh.LPop(ctx)
			require.NoError(t, err)
			assert.Equal(t, "b", value)
			info, err := fresh.Info(ctx)
			require.NoError(t, err)
			assert.Regexp(t, "^scripts: OOM ", info.Mode)
			require.NoError(t, admin.ConfigSet(ctx, "maxmemory", "0").Err())
		})
	}
}

// Each call of a function finds nothing of the call before: the tests also pass if all that a call may leave is something else then.
func TestACallFindsNothingOfTheCallBefore(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	if redistest.WithoutFunctions() {
		t.Skip("there are no functions")
	}
	redistest.Shared(t, redistest.Redis) // is installed
	run := func(leftovers string, packages ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1"}, packages...)...)
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), redistest.LeftoversVariable+"="+leftovers)
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
	output, err := run("all", ".", "./tests/commands", "./tests/plain", "./tests/spread", "./queue", "./limit", "-run", "/redis")
	assert.NoError(t, err, "%s", output)
	output, err = run("RECORD_MS=nil", "./tests/commands", "-run", "TestEditsCostWhatMoves")
	assert.Error(t, err, "something is left over")
	assert.Contains(t, output, "RECORD_MS")
}
