package cluster

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/lua"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A redirection that is followed late leads to a node that has yet to receive meta. No list begins there: it would be a second one.
func TestNoListBeginsBesideOneThatIsToArrive(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	for _, word := range []string{"+", "*", "^"} {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), "a", "b", "c")
		require.NoError(t, err)
		home, err := server.SlotOwner(t.Context(), harness.Keys(list).Slot())
		require.NoError(t, err)
		target := server.Nodes()[(home+1)%3].Client(t)
		const session = "0123456789abcdef01234567"
		args := []any{word + list.Name(), session, 5, 60000, "R", 2, "x", "y", "z"} // too many for the short forms
		harness.Interrupted(t, server, list, func() {
			pipe := target.Pipeline()
			pipe.Do(t.Context(), "ASKING")
			pipe.Set(t.Context(), harness.Keys(list).Records()+session, "4:0", time.Minute) // has arrived
			pipe.Do(t.Context(), "ASKING")
			push := pipe.Eval(t.Context(), lua.Source("push"), []string{harness.Keys(list).Meta}, args...)
			_, _ = pipe.Exec(t.Context())
			assert.True(t, script.IsTransient(push.Err()), "%q: %v", word, push.Err())
		})
		assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, list), word)
		require.NoError(t, list.Check(t.Context()), word)
	}
}

// A client whose pops leave their elements in the list of its dedup record goes on doing so: that list must not be deleted first, since a
// key that is absent cannot be made while the slot moves.
func TestPopsLeaveElementsWhileASlotIsStuckInAMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(10))
	_, err := list.RPush(t.Context(), harness.Numbers(0, 20)...)
	require.NoError(t, err)
	pop := func(pop func(ctx context.Context, count int) ([]string, error), count int) []string {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		popped, err := pop(ctx, count)
		require.NoError(t, err)
		return popped
	}
	assert.Equal(t, []string{"19", "18"}, pop(list.RPopCount, 2))
	assert.Equal(t, []string{"0", "1"}, pop(list.LPopCount, 2))
	harness.Interrupted(t, server, list, func() {
		assert.Equal(t, []string{"17", "16", "15"}, pop(list.RPopCount, 3))
		assert.Equal(t, []string{"2", "3"}, pop(list.LPopCount, 2))
		assert.Equal(t, []string{"14", "13"}, pop(list.RPopCount, 2))
	})
	assert.Equal(t, []string{"4", "5", "6"}, pop(list.LPopCount, 3))
	assert.Equal(t, []string{"12", "11", "10", "9", "8", "7"}, pop(list.RPopCount, 20))
	length, err := list.LLen(t.Context())
	require.NoError(t, err)
	assert.Zero(t, length)
}

// A slot is marked as moving, and nothing has moved. Clients that have no dedup record there work all the same.
func TestANewClientUsesAListWhoseSlotIsStuckInAMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewSharded(t, server.Client(t), 100, harness.Numbers(0, 10))
	newClient := func() *shardedlist.ShardedList {
		return harness.OpenList(t, server.Client(t), list.Name(), shardedlist.WithCapacity(100))
	}
	steps := []struct {
		name string
		run  func(ctx context.Context) (any, error)
		want any
	}{
		{"LLen", func(ctx context.Context) (any, error) { return newClient().LLen(ctx) }, int64(10)},
		{"RPush", func(ctx context.Context) (any, error) { return newClient().RPush(ctx, "10") }, int64(11)},
		{"LPush", func(ctx context.Context) (any, error) { return newClient().LPush(ctx, "b", "a") }, int64(13)},
		{"LRange", func(ctx context.Context) (any, error) { return newClient().LRange(ctx, 0, 2) }, []string{"a", "b", "0"}},
		{"LPop", func(ctx context.Context) (any, error) { return newClient().LPop(ctx) }, "a"},
		{"RPop", func(ctx context.Context) (any, error) { return newClient().RPop(ctx) }, "10"},
		{"BLPop", func(ctx context.Context) (any, error) { return newClient().BLPop(ctx, time.Second) }, "b"},
		{"LPopCount", func(ctx context.Context) (any, error) { return newClient().LPopCount(ctx, 3) }, []string{"0", "1", "2"}},
		{"LSet", func(ctx context.Context) (any, error) { return nil, newClient().LSet(ctx, 0, "3!") }, nil},
		{"LSet beyond", func(ctx context.Context) (any, error) {
			return newClient().LSet(ctx, 99, "x").Error(), nil
		}, fmt.Sprintf("shardedlist: lset %q: ERR index out of range", list.Name())},
		{"LInsert", func(ctx context.Context) (any, error) { return newClient().LInsertBefore(ctx, "5", "4½") }, int64(8)},
		{"LRem", func(ctx context.Context) (any, error) { return newClient().LRem(ctx, 0, "4") }, int64(1)},
		{"LMove", func(ctx context.Context) (any, error) {
			list := newClient()
			return list.LMove(ctx, list, "LEFT", "RIGHT")
		}, "3!"},
		{"LTrim", func(ctx context.Context) (any, error) { return nil, newClient().LTrim(ctx, 0, -2) }, nil},
		{"LRange", func(ctx context.Context) (any, error) { return newClient().LRange(ctx, 0, -1) }, []string{"4½", "5", "6", "7", "8", "9"}},
		{"LMPop", func(ctx context.Context) (any, error) {
			_, values, err := shardedlist.LMPop(ctx, "RIGHT", 2, newClient())
			return values, err
		}, []string{"9", "8"}},
		{"Expire", func(ctx context.Context) (any, error) { return newClient().Expire(ctx, time.Hour) }, true},
		{"Persist", func(ctx context.Context) (any, error) { return newClient().Persist(ctx) }, true},
	}
	harness.Interrupted(t, server, list, func() {
		for _, step := range steps {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			got, err := step.run(ctx)
			cancel()
			require.NoError(t, err, step.name)
			assert.Equal(t, step.want, got, step.name)
		}
		for range 3 { // one handle, whose sessions stay
			_, err := list.RPush(t.Context(), "x", "y")
			require.NoError(t, err)
			values, err := list.RPopCount(t.Context(), 2)
			require.NoError(t, err)
			assert.Equal(t, []string{"y", "x"}, values)
		}
	})
	assert.Equal(t, []string{"4½", "5", "6", "7"}, harness.Content(t, list))
	value, err := newClient().LPop(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "4½", value)
	_, err = list.RPush(t.Context(), "end")
	require.NoError(t, err)
	assert.Equal(t, []string{"5", "6", "7", "end"}, harness.Content(t, list))
	require.NoError(t, list.Check(t.Context()))
}

// Replies are lost while a slot is stuck in a move: each operation is done once, also that which empties the list.
func TestRepliesAreLostWhileASlotIsStuckInAMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewSharded(t, server.Client(t), 1<<16, []any{"first"})
	proxy := redistest.NewProxy(t)
	const workers, each, many = 4, 120, 5
	var results ledger.Ledger
	harness.Interrupted(t, server, list, func() {
		inParallel := func(work func(worker int, open func() *shardedlist.ShardedList)) {
			clients := make([]redis.UniversalClient, workers)
			for worker := range clients {
				clients[worker] = server.Client(t, harness.Through(proxy))
				require.NoError(t, clients[worker].Ping(t.Context()).Err())
			}
			proxy.Set(redistest.Faults{CutReply: 0.1, CutRequest: 0.1})
			var group sync.WaitGroup
			for worker, rdb := range clients {
				group.Go(func() {
					work(worker, func() *shardedlist.ShardedList {
						return harness.OpenList(t, rdb, list.Name(), shardedlist.WithCapacity(1<<16))
					})
				})
			}
			group.Wait()
			proxy.Set(redistest.Faults{})
		}
		inParallel(func(worker int, open func() *shardedlist.ShardedList) {
			producer := open()
			for i := range each {
				if i%20 == 0 {
					producer = open() // it has no record
				}
				values := make([]any, many)
				for j := range values {
					values[j] = ledger.Name(worker, i*many+j)
				}
				if _, err := producer.RPush(t.Context(), values...); !assert.NoError(t, err) {
					return
				}
				results.Push(ledger.Pushed{Producer: worker, First: i * many, Count: many, Fate: ledger.Done})
			}
		})
		value, err := list.LPop(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "first", value)
		length, err := list.LLen(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, workers*each*many, length)
		var left atomic.Int64
		left.Store(length)
		inParallel(func(worker int, open func() *shardedlist.ShardedList) {
			consumer := open()
			for i := 0; left.Load() > 0; i++ {
				if i%20 == 0 {
					consumer = open()
				}
				brief, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				values, err := consumer.LPopCount(brief, 1+i%7)
				cancel()
				if left.Load() == 0 { // nobody can tell whether the plain key, which is not here, is on the other node
					return
				}
				if !assert.NoError(t, err) {
					return
				}
				results.PopValues(worker, values...)
				left.Add(-int64(len(values)))
			}
		})
		assert.Greater(t, proxy.Strikes(), int64(100))
	})
	total := workers * each * many
	assert.Equal(t, ledger.Tally{Pushed: total, Popped: total}, results.Tally())
	_, err := list.RPush(t.Context(), "after")
	require.NoError(t, err)
	assert.Equal(t, []string{"after"}, harness.Content(t, list))
	require.NoError(t, list.Check(t.Context()))
}

// A dedup record in meta is there as long as it may be needed, whatever becomes of the list, and not for much longer.
func TestARecordInMetaOutlivesTheList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		runner := script.Runner{Client: harness.Client(list)}
		run := func(name string, args ...any) any {
			call := script.NewCall(script.Load(name), []any{harness.Keys(list).Meta}, len(args))
			call.Args = append(call.Args, args...)
			reply, err := runner.Run(t.Context(), call)
			require.NoError(t, err)
			return reply
		}
		minute := time.Minute.Milliseconds()
		elements := []any{"", "1:", "=@\x00", "x", "y"}
		_, err := list.RPush(t.Context(), elements...)
		require.NoError(t, err)

		popped := func(again int64) []any { return []any{again, elements} }
		assert.Equal(t, []any{int64(0), elements[:2], elements[2:4], elements[4:]}, run("pop", "@a", 1, minute, "L", 9, "no", ""))
		for range 2 {
			assert.Equal(t, popped(1), run("pop", "@a", 1, minute, "L", 9, "no", ""))
		}
		assert.Empty(t, harness.Content(t, list))
		_, err = list.RPush(t.Context(), "z")
		require.NoError(t, err)
		_, err = list.LPop(t.Context()) // by a session whose record is a key
		require.NoError(t, err)
		harness.Arm(t, list)
		assert.Greater(t, harness.Client(list).PTTL(t.Context(), harness.Keys(list).Meta).Val(), 50*time.Second)
		_, err = list.RPush(t.Context(), harness.Numbers(0, 9)...)
		require.NoError(t, err)
		_, err = list.Del(t.Context())
		require.NoError(t, err)
		assert.Equal(t, popped(1), run("pop", "@a", 1, minute, "L", 9, "no", ""))
		assert.Equal(t, int64(1), run("forget", "@a", 1, minute))
		assert.Nil(t, run("resolve", "@b", 1, minute), "a fence where there is no record")
		require.NoError(t, list.Check(t.Context()))

		// Old records go with the next one, and when all are old, with the next sweep.
		require.NoError(t, harness.Client(list).Del(t.Context(), harness.Keys(list).Meta).Err())
		_, err = list.RPush(t.Context(), harness.Numbers(0, 9)...)
		require.NoError(t, err)
		fields := func() string {
			fields, err := harness.Client(list).HKeys(t.Context(), harness.Keys(list).Meta).Result()
			require.NoError(t, err)
			return strings.Join(fields, " ")
		}
		assert.Equal(t, []any{int64(0), []any{"0"}}, run("pop", "@c", 1, 1, "L", 1, "no", ""))
		assert.Contains(t, fields(), "op:@c")
		require.Eventually(t, func() bool {
			run("pop", "@"+harness.UniqueName(t), 1, 1, "L", 0, "no", "")
			return !strings.Contains(fields(), "op:@c")
		}, 10*time.Second, time.Millisecond)
		require.Eventually(t, func() bool {
			_, err := list.LRem(t.Context(), 1, "nothing")
			require.NoError(t, err)
			return !strings.Contains(fields(), "op:") && !strings.Contains(fields(), "records")
		}, 10*time.Second, time.Millisecond)
		require.NoError(t, list.Check(t.Context()))
	})
}

// A list is renamed, the dedup records in its meta are not.
func TestRecordsInMetaStayWithTheirName(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		name := "{" + harness.UniqueName(t) + "}"
		rdb := server.Client(t)
		from, to := harness.OpenList(t, rdb, name+"from", shardedlist.WithCapacity(2)), harness.OpenList(t, rdb, name+"to", shardedlist.WithCapacity(2))
		runner := script.Runner{Client: rdb}
		pop := func(list *shardedlist.ShardedList, session string) any {
			call := script.NewCall(script.Load("pop"), []any{harness.Keys(list).Meta}, 7, "+"+list.Name())
			call.Args = append(call.Args, session, 1, time.Minute.Milliseconds(), "L", 1, "no", "")
			reply, err := runner.Run(t.Context(), call)
			require.NoError(t, err)
			return reply
		}
		for _, list := range []*shardedlist.ShardedList{from, to} {
			_, err := list.RPush(t.Context(), list.Name()+"1", list.Name()+"2")
			require.NoError(t, err)
			assert.Equal(t, []any{int64(0), []any{list.Name() + "1"}}, pop(list, "@"+list.Name()))
		}
		require.NoError(t, from.Rename(t.Context(), to.Name()))
		for _, list := range []*shardedlist.ShardedList{from, to} {
			assert.Equal(t, []any{int64(1), []any{list.Name() + "1"}}, pop(list, "@"+list.Name()), "it has been done")
		}
		assert.Empty(t, harness.Content(t, from))
		assert.Equal(t, []string{from.Name() + "2"}, harness.Content(t, to))
		require.NoError(t, from.Check(t.Context()))
		require.NoError(t, to.Check(t.Context()))
		_, err := from.RPush(t.Context(), "new")
		require.NoError(t, err)
		assert.Equal(t, []string{"new"}, harness.Content(t, from))
	})
}

// Through the hook, alone, in a pipeline and in a transaction.
func TestANewHookUsesAListWhoseSlotIsStuckInAMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	key := "{" + harness.UniqueName(t) + "}q"
	hooked := func() redis.UniversalClient {
		rdb := server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(strings.TrimSuffix(key, "q")+"*"), shardedlist.WithCapacity(100)))
		return rdb
	}
	require.NoError(t, hooked().RPush(t.Context(), key, harness.Numbers(0, 10)...).Err())
	list := harness.OpenList(t, server.Client(t), key, shardedlist.WithPoppedAt("LEFT"))
	require.NoError(t, list.Adopt(t.Context(), nil))
	plain, foreign := server.Client(t), key+":plain"
	require.NoError(t, plain.RPush(t.Context(), foreign, harness.Numbers(0, 1000)...).Err())
	require.NoError(t, plain.Set(t.Context(), key+":number", 1, 0).Err())
	harness.Interrupted(t, server, list, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		require.NoError(t, hooked().RPush(ctx, key, "10").Err())
		value, err := hooked().LPop(ctx, key).Result()
		require.NoError(t, err)
		assert.Equal(t, "0", value)
		require.NoError(t, hooked().LSet(ctx, key, 0, "one").Err())

		brief, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer stop()
		assert.Error(t, hooked().RPush(brief, foreign, "x").Err(), "no list begins on the other node, beside a plain one here")
		assert.EqualValues(t, 1000, hooked().LLen(ctx, foreign).Val(), "it is read where it is")
		brief, stop = context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer stop()
		assert.Error(t, hooked().LPop(brief, foreign).Err(), "nor can its dedup record be made")

		// Commands of other types find what is here.
		assert.EqualValues(t, 2, hooked().Incr(ctx, key+":number").Val())
		assert.Equal(t, "2", hooked().Get(ctx, key+":number").Val())
		require.NoError(t, hooked().Set(ctx, key+":number", 5, 0).Err())
		assert.EqualValues(t, 1, hooked().Exists(ctx, key+":number").Val())
		assert.ErrorContains(t, hooked().SAdd(ctx, foreign, "x").Err(), "WRONGTYPE")

		pipe := hooked().Pipeline()
		pushed, popped := pipe.RPush(ctx, key, "11"), pipe.LPopCount(ctx, key, 2)
		_, err = pipe.Exec(ctx)
		require.NoError(t, err)
		assert.EqualValues(t, 11, pushed.Val())
		assert.Equal(t, []string{"one", "2"}, popped.Val())

		pipe = hooked().TxPipeline()
		pipe.RPush(t.Context(), key, harness.Numbers(100, 200)...) // needs a shard, which the node refuses to create
		pipe.Incr(t.Context(), key+":number")
		_, err = pipe.Exec(t.Context()) // a deadline might end it during an attempt, whose outcome would be unknown
		require.ErrorContains(t, err, "TRYAGAIN", "a transaction is not carried out in part, however long the slot moves")
		require.ErrorContains(t, err, "--cluster fix")
		require.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
	})
	assert.Equal(t, harness.Words(harness.Numbers(3, 12)), harness.Content(t, list))
	assert.Equal(t, "5", hooked().Get(t.Context(), key+":number").Val())
	assert.Equal(t, harness.Words(harness.Numbers(0, 1000)), plain.LRange(t.Context(), foreign, 0, -1).Val())
	assert.EqualValues(t, 1001, hooked().RPush(t.Context(), foreign, "x").Val(), "it is taken over when the slot has moved")
	require.NoError(t, list.Check(t.Context()))
}

// Commands of any type find what is at a key, a short list or not, where it is; so do methods.
func TestShortListsAndOtherKeysInASlotThatMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	tag := "{" + harness.UniqueName(t) + "}"
	rdb := server.Client(t)
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(tag+"*"), shardedlist.WithCapacity(3)))
	home, err := server.SlotOwner(t.Context(), script.Slot(tag))
	require.NoError(t, err)
	calls := map[string]func(ctx context.Context, commands ...[]any) []any{
		"alone": func(ctx context.Context, commands ...[]any) (replies []any) {
			for _, command := range commands {
				reply, err := rdb.Do(ctx, command...).Result()
				assert.NoError(t, err, "%v", command)
				replies = append(replies, reply)
			}
			return replies
		},
		"pipeline": func(ctx context.Context, commands ...[]any) (replies []any) {
			for _, command := range commands { // one of them changes what the next finds
				cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
					p.Do(ctx, command...)
					return p.Do(ctx, "exists", tag+"other").Err()
				})
				assert.NoError(t, err, "%v", command)
				replies = append(replies, cmds[0].(*redis.Cmd).Val())
			}
			return replies
		},
		"methods": nil,
	}
	for how, call := range calls {
		for what, is := range map[string]struct {
			fill  []any
			kind  string
			there int64
		}{
			"short": {[]any{"rpush", tag + "key", 1, 2}, "list", 1}, "text": {[]any{"set", tag + "key", "x"}, "string", 1}, "nothing": {[]any{"del", tag + "key"}, "none", 0},
		} {
			if call == nil && what == "text" {
				continue
			}
			require.NoError(t, rdb.Do(t.Context(), is.fill...).Err())
			struck := false
			require.NoError(t, server.MoveSlot(t.Context(), script.Slot(tag), (home+1)%3, func(moved int) {
				if struck || moved > 0 {
					return
				}
				struck = true
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				if call == nil {
					list, err := shardedlist.New(server.Client(t), tag+"key") // which has not seen the slot move
					require.NoError(t, err)
					left, err := list.TTL(ctx)
					assert.NoError(t, err)
					assert.Equal(t, is.there-2, int64(left), what)
					existed, err := list.Del(ctx)
					assert.NoError(t, err)
					assert.Equal(t, is.there == 1, existed, what)
					return
				}
				assert.Equal(t, []any{is.there, is.kind, is.there - 2, is.there, int64(0)}, call(ctx, []any{"exists", tag + "key"}, []any{"type", tag + "key"},
					[]any{"ttl", tag + "key"}, []any{"del", tag + "key"}, []any{"exists", tag + "key"}), "%s: %s", how, what)
			}))
			assert.True(t, struck, "%s: %s", how, what)
			home = (home + 1) % 3
			require.NoError(t, rdb.Del(t.Context(), tag+"key").Err())
		}
	}
}

// A command of many keys does not wait for the end of the move, whichever key is on the other node. Only a list that has an end there is not
// deleted, which the command says.
func TestAHookCountsKeysWhileTheirSlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	tag := "{" + harness.UniqueName(t) + "}"
	rdb := server.Client(t)
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(tag+"*"), shardedlist.WithCapacity(3)))
	home, err := server.SlotOwner(t.Context(), script.Slot(tag))
	require.NoError(t, err)
	for i, away := range []string{"a", "b", "text", "a:meta", "a:#*:0", "a:#*:1", "a:#*:2"} {
		for _, length := range []int{3, 8} { // as one call, and as a call for each list
			prefix := fmt.Sprint(tag, i, length)
			keys := []string{prefix + "a", prefix + "b", prefix + "text", prefix + "nothing"}
			require.NoError(t, rdb.RPush(t.Context(), keys[0], harness.Numbers(0, length)...).Err())
			require.NoError(t, rdb.RPush(t.Context(), keys[1], 1).Err())
			require.NoError(t, rdb.Set(t.Context(), keys[2], "x", 0).Err())
			source, target := server.Nodes()[home].Client(t), server.Nodes()[(home+1)%3]
			found := source.Keys(t.Context(), prefix+away).Val()
			if len(found) == 0 { // a list of three has no meta and no shards, and a longer one no key of its name
				continue
			}
			refused := strings.HasSuffix(away, ":0") || strings.HasSuffix(away, ":2")
			struck := false
			require.NoError(t, server.MoveSlot(t.Context(), script.Slot(tag), (home+1)%3, func(moved int) {
				if moved > 0 {
					return
				}
				struck = true
				host, port, err := net.SplitHostPort(target.Addr())
				require.NoError(t, err)
				require.Equal(t, "OK", source.Migrate(t.Context(), host, port, found[0], 0, time.Minute).Val())
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				count, err := rdb.Exists(ctx, keys...).Result()
				assert.NoError(t, err)
				assert.EqualValues(t, 3, count, "%d elements, %s is away", length, away)
				if length == 3 { // a pipeline of reads finds short lists where they are
					cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
						p.LRange(ctx, keys[0], 0, -1)
						return p.LLen(ctx, keys[1]).Err()
					})
					assert.NoError(t, err, away)
					assert.Equal(t, []string{"0", "1", "2"}, cmds[0].(*redis.StringSliceCmd).Val(), away)
					assert.EqualValues(t, 1, cmds[1].(*redis.IntCmd).Val(), away)
				}
				if refused {
					for _, command := range [][]any{{"del", keys[0]}, {"object", "encoding", keys[0]}, {"memory", "usage", keys[0]}} {
						if command[0] != "del" && strings.HasSuffix(away, ":2") {
							continue // which asks the first shard
						}
						brief, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
						assert.Error(t, rdb.Do(brief, command...).Err(), "%v: %s is away", command[0], away)
						stop()
						brief, stop = context.WithTimeout(t.Context(), 300*time.Millisecond)
						_, err := rdb.Pipelined(brief, func(p redis.Pipeliner) error { return p.Do(brief, command...).Err() })
						assert.Error(t, err, "%v in a pipeline: %s is away", command[0], away)
						stop()
					}
					return
				}
				count, err = rdb.Del(ctx, keys...).Result()
				assert.NoError(t, err)
				assert.EqualValues(t, 3, count, "%d elements, %s is away", length, away)
				assert.Zero(t, rdb.Exists(ctx, keys...).Val())
			}))
			assert.True(t, struck)
			home = (home + 1) % 3
			if refused {
				assert.EqualValues(t, length, rdb.LLen(t.Context(), keys[0]).Val(), away)
				require.NoError(t, rdb.Del(t.Context(), keys...).Err())
			}
			assert.Zero(t, rdb.Exists(t.Context(), keys...).Val(), away)
		}
	}
}

// A record in the meta of a renamed list leaves the keys of its shards as they are, whichever list a script uses last.
func TestARecordInTheMetaOfARenamedList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb, ctx := server.Client(t), t.Context()
		for name, run := range map[string]struct {
			command string
			args    []any
		}{
			"copy":     {"copy", []any{2, ""}},
			"renamenx": {"rename", []any{2, ""}},
			"lmpop":    {"lmpop", []any{2, "L", 0, "woken", ""}},
			"lmove":    {"lmove", []any{2, "L", "R", 2, 1, "", "", "no", ""}},
		} {
			from, to := harness.Pair(t, rdb, 0)
			_, err := to.RPush(ctx, "a", "b", "c", "d")
			require.NoError(t, err)
			require.NoError(t, to.Rename(ctx, from.Name()))
			_, err = to.RPush(ctx, "x")
			require.NoError(t, err)
			before := harness.Shard(from, ctx, 0)
			args := append([]any{"+" + from.Name(), "+" + to.Name(), "@0123456789abcdef", 1, "60000"}, run.args...)
			err = rdb.Eval(ctx, lua.Source(run.command), []string{harness.Keys(from).Meta, harness.Keys(to).Meta}, args...).Err()
			require.NoError(t, harness.IgnoreNil(err), name)
			require.Contains(t, rdb.HGet(ctx, harness.Keys(from).Meta, "layout").Val(), "3+ ", "%s: a record is in it", name)
			assert.Equal(t, before, harness.Shard(from, ctx, 0), name)
			require.NoError(t, from.Check(ctx), name)
			require.NoError(t, to.Check(ctx), name)
			assert.Contains(t, strings.Join(harness.Content(t, from), ""), "bc", name)
			deleted, err := to.DelStrays(ctx)
			require.NoError(t, err)
			assert.Zero(t, deleted, name)
		}
	})
}
