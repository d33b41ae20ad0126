package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// While a slot moves, a list's keys are on two nodes. After each key that moved, every operation is tried: it succeeds, or
// it fails and has changed nothing.
func TestErrorsChangeNothingWhileASlotMoves(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Cluster)
	rdb := server.Client(t, func(o *redis.UniversalOptions) { o.MaxRedirects = 1 })
	var succeeded, failed int
	for name, operate := range harness.Operations {
		t.Run(name, func(t *testing.T) {
			popsOne := name == "blpop" || name == "brpop"
			// The order in which keys move is the server's; other names and contents give other orders.
			for _, setup := range []string{"armed", "one", "short", "long", "swept", "expiring"} {
				if (setup == "one" || setup == "long") && !redistest.Long() {
					continue
				}
				list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
				switch setup {
				case "armed":
					harness.Arm(t, list)
				case "one":
					_, err := list.RPush(t.Context(), 100)
					require.NoError(t, err)
				case "short":
					_, err := list.RPush(t.Context(), harness.Numbers(100, 103)...)
					require.NoError(t, err)
				case "long":
					_, err := list.RPush(t.Context(), harness.Numbers(100, 117)...)
					require.NoError(t, err)
				case "expiring":
					_, err := list.RPush(t.Context(), harness.Numbers(100, 107)...)
					require.NoError(t, err)
					_, err = list.Expire(t.Context(), time.Hour)
					require.NoError(t, err)
				case "swept":
					_, err := list.RPush(t.Context(), harness.Numbers(100, 150)...)
					require.NoError(t, err)
					_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
					require.NoError(t, err)
					_, err = list.RPush(t.Context(), harness.Numbers(100, 105)...)
					require.NoError(t, err)
				}
				slot := harness.Keys(list).Slot()
				home, err := server.SlotOwner(t.Context(), slot)
				require.NoError(t, err)
				left := len(elementsOf(t, list)) // once what callers did not wait for is put back
				require.NoError(t, server.MoveSlot(t.Context(), slot, (home+1)%3, func(moved int) {
					if moved > 30 {
						return
					}
					before, model := harness.Snapshot(t, list), elementsOf(t, list)
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
					defer cancel()
					if err := operate(ctx, list); err != nil {
						failed++
						if popsOne && errors.Is(err, context.DeadlineExceeded) {
							return // it may have popped an element too late, which is put back when the slot has moved
						}
						after := harness.Snapshot(t, list)
						if strings.HasPrefix(name, "b") { // a wait arms the list and may drop old dummies
							for _, keys := range []oneslot.Keys{harness.Keys(list), harness.Keys(harness.Beside(list))} {
								delete(before, keys.Bell)
								delete(after, keys.Bell)
								delete(before, keys.Meta)
								delete(after, keys.Meta)
							}
						}
						if inSteps.MatchString(name) {
							for _, keys := range []map[string]string{before, after} {
								keys[harness.Keys(list).Meta] = notesOfSteps.ReplaceAllString(keys[harness.Keys(list).Meta], "")
							}
						}
						assert.Equal(t, before, after, "%s %s after %d keys: %v", name, setup, moved, err)
						return
					}
					succeeded++
					left = max(0, left-1) // a wait for nothing may time out before its context ends
					if strings.Contains(name, "push ") || strings.HasSuffix(name, "push") {
						assert.Greater(t, len(elementsOf(t, list)), len(model))
					}
				}))
				require.NoError(t, list.Check(t.Context()))
				if popsOne {
					assert.Eventually(t, func() bool { return len(elementsOf(t, list)) == left }, 10*time.Second, 10*time.Millisecond,
						"%s %s: %d of %d", name, setup, len(elementsOf(t, list)), left)
				}
			}
		})
	}
	t.Logf("%d operations succeeded, %d failed", succeeded, failed)
	assert.Positive(t, succeeded)
	assert.Positive(t, failed)
}

var inSteps = regexp.MustCompile(`expire|persist|linsert|lrem`)

// notesOfSteps are what the first steps of a command may leave in meta: the records of their calls, how far the TTLs of the shards are
// set, which does not decide when the list expires, and what a search knows.
var notesOfSteps = regexp.MustCompile(` (ttl|walk|records)[: ]\d+| op:[^\] ]+| searches:[^\]:]*;`)

// While a slot moves, Check may fail, but it takes nothing that is on the other node for missing.
func TestCheckFindsNoBreachInAMovingSlot(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
	_, err := list.RPush(t.Context(), harness.Numbers(0, 9)...)
	require.NoError(t, err)
	require.NoError(t, harness.Client(list).RPush(t.Context(), harness.Keys(list).Bell, "1").Err())
	require.NoError(t, harness.Client(list).Expire(t.Context(), harness.Keys(list).Bell, time.Minute).Err())
	home, err := server.SlotOwner(t.Context(), harness.Keys(list).Slot())
	require.NoError(t, err)
	passed, failed := 0, 0
	require.NoError(t, server.MoveSlot(t.Context(), harness.Keys(list).Slot(), (home+1)%3, func(int) {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		err := list.Check(ctx)
		assert.NotErrorIs(t, err, shardedlist.ErrBroken)
		if err == nil {
			passed++
		} else {
			failed++
		}
	}))
	assert.Positive(t, passed, "where all keys are on one node")
	assert.Positive(t, failed, "where some are on the other")
	assert.NoError(t, list.Check(t.Context()))
}

// A repair while a slot moves says so, and changes nothing, or mends the list as on any other day. Afterwards it does.
func TestRepairWhileASlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	for damage, prepare := range map[string]func(list *shardedlist.ShardedList, info shardedlist.Info) []string{
		"a gap": func(list *shardedlist.ShardedList, info shardedlist.Info) []string {
			require.NoError(t, harness.Client(list).Del(t.Context(), harness.Shard(list, t.Context(), info.First+2)).Err())
			return append(harness.Words(harness.Numbers(0, 4)), harness.Words(harness.Numbers(6, 19))...)
		},
		"no meta": func(list *shardedlist.ShardedList, _ shardedlist.Info) []string {
			require.NoError(t, harness.Client(list).Del(t.Context(), harness.Keys(list).Meta).Err())
			return harness.Words(harness.Numbers(0, 19))
		},
	} {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		_, err := list.RPush(t.Context(), harness.Numbers(0, 19)...)
		require.NoError(t, err)
		info, err := list.Info(t.Context())
		require.NoError(t, err)
		want := prepare(list, info)
		home, err := server.SlotOwner(t.Context(), harness.Keys(list).Slot())
		require.NoError(t, err)
		failed := 0
		require.NoError(t, server.MoveSlot(t.Context(), harness.Keys(list).Slot(), (home+1)%3, func(moved int) {
			if moved == 0 { // all keys are on one node yet
				return
			}
			before := harness.Snapshot(t, list)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			if _, err := list.Repair(ctx, shardedlist.RepairOptions{}); err != nil {
				failed++
				assert.Equal(t, before, harness.Snapshot(t, list), "%s after %d keys: %v", damage, moved, err)
			}
		}))
		assert.Positive(t, failed, damage)
		_, err = list.Repair(t.Context(), shardedlist.RepairOptions{})
		require.NoError(t, err, damage)
		content, err := list.LRange(t.Context(), 0, -1)
		require.NoError(t, err)
		assert.Equal(t, want, content, damage)
	}
}

// elementsOf are the elements of all live shards, on whatever node.
func elementsOf(t testing.TB, list *shardedlist.ShardedList) []string {
	t.Helper()
	var all []string
	for key, value := range harness.Snapshot(t, list) {
		if key != harness.Keys(list).Meta && !strings.HasPrefix(key, harness.Keys(list).Bell) {
			all = append(all, strings.Fields(strings.Trim(value, "[]"))...)
		}
	}
	return all
}

// A slot moves to another node and back while producers, consumers and waiters use the list: each element comes out once,
// each producer's in order.
func TestASlotMovesUnderLoad(t *testing.T) {
	t.Parallel()
	t.Run("plain", func(t *testing.T) { slotMovesUnderLoad(t, redistest.Times(800, 1500), shardedlist.WithCapacity(2)) })
	t.Run("past Lua", func(t *testing.T) {
		slotMovesUnderLoad(t, redistest.Times(800, 1500), shardedlist.WithCapacity(2), harness.PastLua)
	})
	t.Run("waiting for replicas", func(t *testing.T) {
		slotMovesUnderLoad(t, 250, shardedlist.WithCapacity(2), shardedlist.WithReplicas(1, time.Millisecond))
	})
}

func slotMovesUnderLoad(t *testing.T, each int, options ...shardedlist.Option) {
	server := redistest.Start(t, redistest.Cluster)
	name := "moving"
	const producers, consumers = 4, 4
	total := int64(producers * each)
	var received, failed atomic.Int64
	var results ledger.Ledger
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()

	var group, producing sync.WaitGroup
	for p := range producers {
		list := harness.OpenList(t, server.Client(t), name, options...)
		producing.Go(func() {
			for i := range each {
				_, err := list.RPush(ctx, ledger.Name(p, i))
				assert.True(t, script.IsDone(err), err)
				results.Push(ledger.Pushed{Producer: p, First: i, Count: 1, Fate: ledger.Done})
			}
		})
	}
	for c := range consumers {
		list := harness.OpenList(t, server.Client(t), name, options...)
		group.Go(func() {
			for received.Load() < total && ctx.Err() == nil {
				var value string
				var err error
				if c%2 == 0 {
					value, err = list.BLPop(ctx, 100*time.Millisecond)
				} else {
					value, err = list.LPop(ctx)
				}
				if err == redis.Nil || ctx.Err() != nil {
					continue
				}
				if !script.IsDone(err) { // its timeout is over while the list cannot be served
					t.Logf("pop: %v", err)
					failed.Add(1)
					continue
				}
				results.PopValues(c, value)
				received.Add(1)
			}
		})
	}

	list := harness.OpenList(t, server.Client(t), name)
	home, err := server.SlotOwner(t.Context(), harness.Keys(list).Slot())
	require.NoError(t, err)
	moves, keys := 0, 0
	for received.Load() < total && ctx.Err() == nil {
		moves++
		require.NoError(t, server.MoveSlot(t.Context(), harness.Keys(list).Slot(), (home+moves)%3, func(moved int) { keys += min(moved, 1) }))
	}
	producing.Wait()
	group.Wait()
	t.Logf("the slot moved %d times, with %d keys", moves, keys)
	assert.GreaterOrEqual(t, moves, 2)
	assert.Greater(t, keys, moves)
	assert.Less(t, failed.Load(), total/100)

	assert.Equal(t, ledger.Tally{Pushed: int(total), Popped: int(total)}, results.Tally())
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Sentinel)
	list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
	_, err := list.RPush(t.Context(), harness.Numbers(0, 5)...)
	require.NoError(t, err)
	master, replica := server.Nodes()[0], server.Nodes()[1]
	require.Eventually(t, func() bool { // WAIT waits for what its own connection has written
		return replica.Client(t).Exists(t.Context(), harness.Keys(list).Meta).Val() == 1
	}, time.Minute, 10*time.Millisecond)

	result := harness.BlockingPop(t, harness.OpenList(t, server.Client(t), "other"+list.Name()), t.Context(), 0)
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = sentinel.Close() }()
	info, err := sentinel.Masters(t.Context()).Result()
	require.NoError(t, err)
	name := info[0].(map[any]any)["name"].(string)
	require.NoError(t, sentinel.Failover(t.Context(), name).Err())
	was, is := master.Client(t), replica.Client(t)
	require.Eventually(t, func() bool { // until then the old master takes a push, and loses it
		return strings.Contains(is.Info(t.Context(), "replication").Val(), "role:master") &&
			strings.Contains(was.Info(t.Context(), "replication").Val(), "role:slave")
	}, time.Minute, 10*time.Millisecond)

	assert.Equal(t, harness.Words(harness.Numbers(0, 5)), harness.Content(t, list))
	value, err := list.LPop(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "0", value)
	_, err = harness.OpenList(t, server.Client(t), "other"+list.Name()).RPush(t.Context(), "woken")
	require.NoError(t, err)
	assert.Equal(t, harness.Got("woken"), <-result)
}

// A transaction is carried out as a whole while the slot moves, although Redis does not know which keys a script is going to use, and
// carries out the commands beside one that finds its keys on the other node.
func TestTransactionsAreWholeWhileASlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	tag := "{" + harness.UniqueName(t) + "}"
	a, b, counter, text := tag+"q:a", tag+"q:b", tag+"counter", tag+"q:text" // text matches, but is no list
	slot := harness.Keys(harness.OpenList(t, server.Client(t), a)).Slot()
	var pushed, popped, refused atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var group sync.WaitGroup
	for worker := range 5 {
		rdb := server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match(tag+"q:*"), shardedlist.WithCapacity(2)))
		pushes, transaction := worker > 0, rdb.TxPipelined
		if worker == 4 { // within WATCH
			transaction = func(ctx context.Context, fn func(redis.Pipeliner) error) (cmds []redis.Cmder, err error) {
				err = errors.New("too many redirections: Watch has not called the function") // and returns no error, in go-redis 9.23
				watchErr := rdb.(harness.Watcher).Watch(ctx, func(tx *redis.Tx) error {
					cmds, err = tx.TxPipelined(ctx, fn)
					return nil
				}, tag+"watched")
				return cmds, cmp.Or(watchErr, err)
			}
		}
		group.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				ctx := context.WithoutCancel(ctx)
				cmds, err := transaction(ctx, func(p redis.Pipeliner) error {
					if pushes {
						p.RPush(ctx, a, i)
						p.RPush(ctx, b, i)
						p.Incr(ctx, counter)
						p.Append(ctx, text, "x")
					} else {
						p.LPop(ctx, a)
						p.LPop(ctx, b)
					}
					return nil
				})
				switch {
				case err == nil && pushes:
					pushed.Add(1)
				case err == nil:
					popped.Add(1)
					assert.Equal(t, cmds[0].(*redis.StringCmd).Val(), cmds[1].(*redis.StringCmd).Val())
				case err == redis.Nil:
					assert.Equal(t, redis.Nil, cmds[0].Err())
					assert.Equal(t, redis.Nil, cmds[1].Err())
				default:
					refused.Add(1)
					for _, cmd := range cmds {
						assert.Error(t, cmd.Err(), "%v beside %v", cmd, err)
					}
				}
			}
		})
	}
	for range 8 {
		home, err := server.SlotOwner(t.Context(), slot)
		require.NoError(t, err)
		require.NoError(t, server.MoveSlot(t.Context(), slot, (home+1)%3, nil))
	}
	stop()
	group.Wait()
	rdb := server.Client(t)
	left := harness.Content(t, harness.OpenList(t, rdb, a))
	assert.Equal(t, left, harness.Content(t, harness.OpenList(t, rdb, b)))
	assert.EqualValues(t, pushed.Load(), len(left)+int(popped.Load()))
	assert.Equal(t, fmt.Sprint(pushed.Load()), rdb.Get(t.Context(), counter).Val())
	assert.Equal(t, pushed.Load(), rdb.StrLen(t.Context(), text).Val())
	met := refusals(t, rdb)
	assert.Positive(t, met, "transactions met the moving slot")
	assert.Greater(t, pushed.Load()+popped.Load(), refused.Load(), "most were carried out")
	t.Logf("%d pushed, %d popped, %d refused, %d attempts met the moving slot", pushed.Load(), popped.Load(), refused.Load(), met)
}

// refusals returns how many commands the masters of a cluster have refused because their slot moves.
func refusals(t *testing.T, rdb redis.UniversalClient) (refused int) {
	t.Helper()
	var mu sync.Mutex
	require.NoError(t, rdb.(*redis.ClusterClient).ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		stats, err := node.Info(ctx, "errorstats").Result()
		for _, count := range regexp.MustCompile(`errorstat_(?:TRYAGAIN|EXECABORT):count=(\d+)`).FindAllStringSubmatch(stats, -1) {
			n, _ := strconv.Atoi(count[1])
			mu.Lock()
			refused += n
			mu.Unlock()
		}
		return err
	}))
	return refused
}

// go-redis leaves a redirection as the error of a command that it has sent again, in a pipeline, if the connection fails then. A pop behind
// a BLPOP that has failed so may have taken an element.
func TestAWokenPopIsNotLostBehindARedirection(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]shardedlist.Option{"one slot": nil, "spread": {shardedlist.WithParts(4)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Start(t, redistest.Cluster), redistest.NewProxy(t)
			misled := redis.NewClusterClient(&redis.ClusterOptions{
				Dialer:      proxy.Dial,
				ReadTimeout: 10 * time.Second,
				ClusterSlots: func(context.Context) (slots []redis.ClusterSlot, _ error) { // each slot is with the node before
					for i, node := range server.Nodes() {
						first := (i + 1) % 3 * 5461
						slots = append(slots, redis.ClusterSlot{Start: first, End: first + 5461, Nodes: []redis.ClusterNode{{Addr: node.Addr()}}})
					}
					return slots, nil
				},
			})
			t.Cleanup(func() { _ = misled.Close() })
			list := harness.NewList(t, server.Client(t), options...)
			result := harness.BlockingPop(t, harness.OpenList(t, misled, list.Name(), options...), t.Context(), 30*time.Second)
			awaitBlocked(t, server.Nodes()...)
			assertWokenBehindACutReply(t, list, proxy, result)
		})
	}
}

// So it is for the library itself, which follows redirections where it waits for replicas.
func TestAWokenPopWithReplicasIsNotLostBehindARedirection(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Cluster), redistest.NewProxy(t)
	list := harness.NewList(t, server.Client(t))
	for i := range 60 { // all nodes get to know the script, but for one chance in 10 ** 10
		_, err := harness.OpenList(t, server.Client(t), fmt.Sprint(i)).LPop(t.Context())
		require.Equal(t, redis.Nil, err)
	}
	consumer := harness.OpenList(t, server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) { o.ReadTimeout = 10 * time.Second }),
		list.Name(), shardedlist.WithReplicas(1, time.Millisecond))
	result := harness.BlockingPop(t, consumer, t.Context(), 30*time.Second)
	awaitBlocked(t, server.Nodes()...)
	owner, err := server.SlotOwner(t.Context(), harness.Keys(list).Slot())
	require.NoError(t, err)
	target := (owner + 1) % 3
	var move sync.WaitGroup
	move.Go(func() { assert.NoError(t, server.MoveSlot(t.Context(), harness.Keys(list).Slot(), target, nil)) })
	awaitBlocked(t, server.Nodes()[target])
	assertWokenBehindACutReply(t, list, proxy, result)
	move.Wait()
}

// A cluster client sends a pipeline again for which it had no connection, and leaves that error to a command whose reply is lost then. The
// pop behind a BLPOP may have taken an element all the same, also where the node cannot be reached for some time.
func TestAWokenPopIsNotLostBehindAFailedConnection(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Cluster), redistest.NewProxy(t)
	list := harness.NewList(t, server.Client(t))
	var refused refuser
	rdb := server.Client(t, harness.Through(proxy), func(o *redis.UniversalOptions) {
		o.ReadTimeout, o.DialerRetries, o.PoolSize = 10*time.Second, 1, 1
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if refused.dials.Add(-1) >= 0 {
				return nil, errRefused
			}
			return proxy.Dial(ctx, network, addr)
		}
	})
	consumer := harness.OpenList(t, rdb, list.Name())
	_, err := consumer.LPop(t.Context())
	require.Equal(t, redis.Nil, err)
	refused.once = sync.OnceFunc(func() {
		for _, node := range server.Nodes() {
			assert.NoError(t, node.Client(t).ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		}
		refused.dials.Store(2)
	})
	rdb.AddHook(&refused)
	result := harness.BlockingPop(t, consumer, t.Context(), 30*time.Second)
	awaitBlocked(t, server.Nodes()...)
	require.Negative(t, refused.dials.Load(), "connections that were refused before")
	assertWokenBehindACutReply(t, list, proxy, result)
	assert.Negative(t, refused.commands.Load(), "commands that could not be sent after that")
}

// refuser is a hook for a client that has no connections at times.
type refuser struct {
	once            func() // is called before the first pipeline
	dials, commands atomic.Int64
}

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

func (r *refuser) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *refuser) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if r.commands.Add(-1) >= 0 {
			cmd.SetErr(errRefused)
			return errRefused
		}
		return next(ctx, cmd)
	}
}

// A blocked pop that breaks off is followed by four commands that cannot be sent.
func (r *refuser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		r.once()
		err := next(ctx, cmds)
		if cmds[0].Name() == "blpop" && cmds[0].Err() != nil && cmds[0].Err() != redis.Nil {
			r.commands.Store(4)
		}
		return err
	}
}

// awaitBlocked waits until a client is blocked in BLPOP at one of the nodes.
func awaitBlocked(t *testing.T, nodes ...*redistest.Server) {
	t.Helper()
	clients := make([]redis.UniversalClient, len(nodes))
	for i, node := range nodes {
		clients[i] = node.Client(t)
	}
	require.Eventually(t, func() bool {
		return slices.ContainsFunc(clients, func(rdb redis.UniversalClient) bool {
			return strings.Contains(rdb.ClientList(t.Context()).Val(), " cmd=blpop ")
		})
	}, 20*time.Second, time.Millisecond)
}

// assertWokenBehindACutReply wakes a blocked pop whose reply is cut.
func assertWokenBehindACutReply(t *testing.T, list *shardedlist.ShardedList, proxy *redistest.Proxy, result <-chan harness.Popped) {
	t.Helper()
	proxy.Set(redistest.Faults{CutReply: 1})
	_, err := list.RPush(t.Context(), "a")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return proxy.Strikes() > 0 }, 20*time.Second, time.Millisecond)
	proxy.Set(redistest.Faults{})
	got := <-result
	assert.True(t, script.IsDone(got.Err), got.Err)
	assert.Equal(t, "a", got.Value)
	assert.Empty(t, harness.Content(t, list))
}
