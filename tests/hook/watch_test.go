package hook

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/scan"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// leftOut is a hook that keeps some keys from being watched.
type leftOut func(key string) bool

func (leaves leftOut) DialHook(next redis.DialHook) redis.DialHook { return next }

func (leaves leftOut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); args[0] == "watch" {
			for i, key := range args[1:] {
				if leaves(key.(string)) {
					args[i+1] = "nothing" // of the same slot, on one server
				}
			}
		}
		return next(ctx, cmd)
	}
}

func (leaves leftOut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// conflicts returns which calls by others, between WATCH and EXEC, keep a transaction from being carried out, on a list of that length.
func conflicts(t *testing.T, rdb, other, plain redis.UniversalClient, length int) (aborted []string) {
	ctx := t.Context()
	const key, target, neighbour = "{q}:watched", "{q}:target", "{q}:neighbour"
	for _, call := range changes(key, target, neighbour) {
		require.NoError(t, other.Del(ctx, key, target, neighbour).Err())
		require.NoError(t, other.RPush(ctx, neighbour, 1, 2, 3, 4, 5).Err())
		if length > 0 {
			require.NoError(t, other.RPush(ctx, key, harness.Numbers(0, length)...).Err())
		}
		err := rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) error {
			_ = tx.LRange(ctx, key, 0, -1).Err()
			client := other
			if call.plain {
				client = plain
			}
			for _, command := range strings.Split(call.commands, ";") {
				var args []any
				for word := range strings.FieldsSeq(command) {
					args = append(args, word)
				}
				_ = client.Do(ctx, args...).Err()
			}
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.RPush(ctx, target, "x").Err() })
			return err
		}, key)
		pushed := other.LLen(ctx, target).Val()
		if errors.Is(err, redis.TxFailedErr) {
			require.Zero(t, pushed, call.commands)
			aborted = append(aborted, call.commands)
			continue
		}
		require.NoError(t, err, call.commands)
		require.EqualValues(t, 1, pushed, call.commands)
	}
	return aborted
}

type change struct {
	commands string
	plain    bool // by a process without the hook
}

// changes are calls on a list that is watched.
func changes(key, target, neighbour string) []change {
	var calls []change
	for _, commands := range []string{
		"rpush KEY x", "lpush KEY x", "rpush KEY a b c d e f g", "rpushx KEY x", "lpop KEY", "rpop KEY", "lpop KEY 4", "lpop KEY 100", "lset KEY 0 x",
		"lset KEY 3 x", "lset KEY -1 x", "linsert KEY before 3 x", "linsert KEY after 0 x", "lrem KEY 0 3", "lrem KEY 1 0", "ltrim KEY 1 -2", "ltrim KEY 3 3",
		"ltrim KEY 1 0", "expire KEY 100", "del KEY", "unlink KEY", "rename KEY NEIGHBOUR", "rename NEIGHBOUR KEY", "copy NEIGHBOUR KEY replace",
		"lmove KEY NEIGHBOUR left right", "lmove NEIGHBOUR KEY left right", "lmove KEY KEY left right", "rpoplpush NEIGHBOUR KEY", "lmpop 1 KEY left",
		"blpop KEY 0.01", "del KEY;rpush KEY 0 1 2 3 4 5 6 7 8", "rpush KEY a b c d e f g;ltrim KEY 0 0", "flushdb",
		"llen KEY", "lrange KEY 0 -1", "lindex KEY 3", "ttl KEY", "type KEY", "exists KEY", "lpos KEY 3", "rpush NEIGHBOUR x", "lpop NEIGHBOUR", "set {q}:other 1",
		"lset KEY 1000 x", "lrem KEY 0 none", "lpop KEY 0",
	} {
		commands = strings.NewReplacer("KEY", key, "TARGET", target, "NEIGHBOUR", neighbour).Replace(commands)
		calls = append(calls, change{commands: commands})
	}
	return append(calls, change{"rpush " + key + " newcomer", true})
}

// WATCH of a list: a transaction is carried out only if nobody has changed the list meanwhile, as with a list of Redis.
func TestHookWatchesLists(t *testing.T) {
	t.Parallel()
	servers := redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster)
	for _, kind := range servers {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			plain, hooked, other := server.Client(t), hookOn(t, server, "*"), hookOn(t, server, "*")
			for _, length := range []int{0, 1, 2, 3, 5, 9} {
				want := conflicts(t, plain, plain, plain, length)
				got := conflicts(t, hooked, other, plain, length)
				// An empty list changes when somebody waits for it, and those that change nothing may write.
				allowed := append([]string{"blpop {q}:watched 0.01"}, want...)
				assert.Subset(t, got, want, "%d elements", length)
				assert.Subset(t, allowed, got, "%d elements", length)
			}
			if kind != redistest.Redis {
				return
			}
			for name, leaves := range map[string]leftOut{
				"meta": func(key string) bool { return strings.HasSuffix(key, ":meta") },
				"ends": func(key string) bool { return strings.Contains(key, ":#") },
				"name": func(key string) bool { return !strings.Contains(key, ":meta") && !strings.Contains(key, ":#") },
			} {
				broken := hookOn(t, server, "*")
				broken.AddHook(leaves)
				missed := false
				for _, length := range []int{1, 9} {
					want := conflicts(t, plain, plain, plain, length)
					missed = missed || len(conflicts(t, broken, other, plain, length)) < len(want)
				}
				assert.True(t, missed, "without %s", name)
			}
		})
	}
}

// Callers that count in a list by optimistic transactions lose no increment, while it becomes long and short.
func TestCountingInAWatchedList(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		for _, fault := range []string{"none", "functions", "kill", "slot", "failover"} {
			single := kind == redistest.Redis || kind == redistest.Valkey
			if fault == "kill" && !single || fault == "slot" && kind != redistest.Cluster || (fault == "failover") != (kind == redistest.Sentinel) {
				continue
			}
			if fault == "failover" && !redistest.Long() {
				continue // it takes a minute
			}
			t.Run(fmt.Sprintf("%s/%s", kind, fault), func(t *testing.T) {
				t.Parallel()
				countInAWatchedList(t, kind, fault, func(*redis.UniversalOptions) {})
			})
		}
	}
}

func TestCountingInAWatchedListOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t)
			countInAWatchedList(t, kind, "cut", func(o *redis.UniversalOptions) {
				proxy.Set(redistest.Faults{CutReply: 0.01, CutRequest: 0.01}) // now that there is a server
				harness.Through(proxy)(o)
			})
			assert.Positive(t, proxy.Strikes())
		})
	}
}

func countInAWatchedList(t *testing.T, kind redistest.Kind, fault string, client func(*redis.UniversalOptions)) {
	var config []string
	if fault == "kill" {
		config = []string{"appendonly yes", "appendfsync always"}
	}
	server := redistest.Start(t, kind, config...)
	ctx, admin := t.Context(), server.Client(t)
	ctx, cancel := context.WithTimeout(ctx, harness.FaultPatience())
	defer cancel()
	callers, each := redistest.Times(8, 64), redistest.Times(40, 5)
	if fault == "failover" || fault == "kill" {
		each = 5 // there are few moments when the server serves them
	}
	rdb := hookOn(t, server, "{q}*", func(o *redis.UniversalOptions) { o.PoolSize = callers / 2 }, client) // fewer connections than callers
	slot := script.Slot("{q}")
	strikes := map[string]struct {
		pause  time.Duration
		strike func(i int) error
	}{
		"functions": {50 * time.Millisecond, func(int) error { // to load them takes 10
			return scan.EachMaster(ctx, admin, func(ctx context.Context, master redis.UniversalClient) error {
				return master.Do(ctx, "function", "flush", "sync").Err() // Valkey 8.0 crashes when it frees functions in the background
			})
		}},
		"kill":     {200 * time.Millisecond, func(int) error { server.Restart(t); return nil }},
		"slot":     {200 * time.Millisecond, func(i int) error { return server.MoveSlot(ctx, slot, i%3, nil) }},
		"failover": {2 * time.Second, func(int) error { server.Failover(t, slot); return nil }},
	}
	require.NoError(t, admin.RPush(ctx, "{q}", 0).Err())
	var done, unknown atomic.Int64
	var pushed sync.Map
	increment := func(tx *redis.Tx, carriedOut *bool) error {
		last, err := tx.LIndex(ctx, "{q}", -1).Int()
		if err != nil {
			return fmt.Errorf("%w: %w", errBefore, err)
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.RPush(ctx, "{q}", last+1)
			if last%5 == 0 {
				p.LTrim(ctx, "{q}", -1, -1)
			}
			return nil
		})
		if *carriedOut = err == nil; *carriedOut {
			_, twice := pushed.LoadOrStore(last+1, true)
			assert.False(t, twice, "two callers have pushed %d", last+1)
		}
		return err
	}
	stop := make(chan struct{})
	var disturbing, calling sync.WaitGroup
	faults := 0
	if s, ok := strikes[fault]; ok {
		disturbing.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(s.pause):
					faults++
					assert.NoError(t, s.strike(faults))
				}
			}
		})
	}
	for range callers {
		calling.Go(func() {
			for range each {
				for {
					carriedOut := false
					err := rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) error { return increment(tx, &carriedOut) }, "{q}")
					if carriedOut {
						done.Add(1)
					} else if err == nil { // as go-redis says of one that it has redirected too often
						continue
					} else if !errors.Is(err, redis.TxFailedErr) && !errors.Is(err, errBefore) {
						unknown.Add(1)
					}
					if err == nil || ctx.Err() != nil {
						break
					}
				}
			}
		})
	}
	calling.Wait()
	close(stop)
	disturbing.Wait()
	list, err := shardedlist.New(admin, "{q}", shardedlist.WithCapacity(2))
	require.NoError(t, err)
	content := harness.Content(t, list)
	if _, ok := strikes[fault]; ok {
		assert.Positive(t, faults)
	}
	last, err := strconv.ParseInt(content[len(content)-1], 10, 64)
	require.NoError(t, err)
	t.Logf("%d increments, %d whose outcome is unknown, %d faults; the list ends with %d", done.Load(), unknown.Load(), faults, last)
	assert.GreaterOrEqual(t, last, done.Load(), "%v", content)
	assert.LessOrEqual(t, last, done.Load()+unknown.Load())
	assert.Less(t, last-done.Load(), done.Load()/2, "most increments are acknowledged")
	if fault == "none" {
		assert.Zero(t, unknown.Load())
	}
	require.NoError(t, list.Check(ctx))
}

// errBefore tells that a transaction was not sent.
var errBefore = errors.New("before the transaction")

// Who watches a list whose keys are on the other node already waits for the slot to have moved. go-redis would be redirected there and back, and
// say in the end that all was done.
func TestWatchingAListWhoseSlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Cluster)
	ctx, key := t.Context(), "{"+harness.UniqueName(t)+"}"
	rdb := hookOn(t, server, key)
	require.NoError(t, rdb.RPush(ctx, key, "a").Err())
	slot := script.Slot(key)
	home, err := server.SlotOwner(ctx, slot)
	require.NoError(t, err)
	between, goOn, moved := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		moved <- server.MoveSlot(ctx, slot, (home+1)%3, func(keys int) {
			if keys == 1 { // of one
				close(between)
				<-goOn
			}
		})
	}()
	<-between
	watched := make(chan error, 1)
	done := false
	go func() {
		var err error = redis.TxFailedErr
		for errors.Is(err, redis.TxFailedErr) { // the other node may have no functions yet
			err = rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) error {
				_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.RPush(ctx, key, "b").Err() })
				done = err == nil
				return err
			}, key)
		}
		watched <- err
	}()
	select {
	case err := <-watched:
		require.Fail(t, "it did not wait", "%v", err)
	case <-time.After(500 * time.Millisecond): // redirections take less
	}
	close(goOn)
	require.NoError(t, <-moved)
	require.NoError(t, <-watched)
	assert.True(t, done)
	assert.Equal(t, []string{"a", "b"}, rdb.LRange(ctx, key, 0, -1).Val())
}
