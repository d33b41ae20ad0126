package blocking

import (
	"context"
	"strconv"
	"strings"
	"sync"
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

// crowd is callers that wait, each on a list of its own.
type crowd struct {
	lists   []*shardedlist.ShardedList
	results []<-chan harness.Popped
}

func newCrowd(t *testing.T, rdb redis.UniversalClient, size int) *crowd {
	c := &crowd{}
	prefix := harness.UniqueName(t)
	for i := range size {
		c.lists = append(c.lists, harness.OpenList(t, rdb, prefix+strconv.Itoa(i), shardedlist.WithCapacity(2)))
	}
	return c
}

// wait has a caller wait on each list.
func (c *crowd) wait(t *testing.T, ctx context.Context) {
	c.results = nil
	for _, list := range c.lists {
		c.results = append(c.results, harness.BlockingPop(t, list, ctx, 0))
	}
	for _, list := range c.lists {
		harness.Blocked(t, list)
	}
}

// push pushes the number of a list to it.
func (c *crowd) push(t *testing.T, producer redis.UniversalClient, i int) {
	_, err := harness.OpenList(t, producer, c.lists[i].Name(), shardedlist.WithCapacity(2)).RPush(t.Context(), i)
	require.NoError(t, err)
}

// served waits until a list's caller has its element.
func (c *crowd) served(t *testing.T, i int) {
	require.Equal(t, harness.Got(strconv.Itoa(i)), <-c.results[i], "list %d", i)
}

// connections counts those that block, or have subscribed, on all servers.
func connections(t *testing.T, server *redistest.Server) (blocked, subscribed int) {
	for _, node := range server.Nodes() {
		clients, err := node.Client(t).(*redis.Client).ClientList(t.Context()).Result()
		require.NoError(t, err)
		blocked += strings.Count(clients, " cmd=blpop ")
		subscribed += strings.Count(clients, " cmd=ssubscribe ")
	}
	return blocked, subscribed
}

// Whatever the number of lists, a few connections wait on them, and other calls find the pool free.
func TestManyListsAreWaitedOnByFewConnections(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for _, poolSize := range []int{0, 1} {
			t.Run("pool of "+strconv.Itoa(poolSize), func(t *testing.T) {
				rdb := server.Client(t, func(o *redis.UniversalOptions) { o.PoolSize = poolSize })
				c := newCrowd(t, rdb, redistest.Times(24, 300))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c.wait(t, ctx)
				if server.Kind() != redistest.Embedded {
					require.Eventually(t, func() bool {
						blocked, subscribed := connections(t, server)
						return blocked <= 8*len(server.Nodes()) && subscribed > 0 && subscribed <= len(server.Nodes())
					}, 10*time.Second, 10*time.Millisecond)
				}
				require.NoError(t, rdb.Set(t.Context(), c.lists[0].Name()+"other", 1, 0).Err())
				producer, woken := server.Client(t), 0
				for i := range c.lists {
					c.push(t, producer, i)
					if server.Kind() != redistest.Embedded { // where nobody can subscribe, so that each list has its turn
						c.served(t, i)
					}
				}
				for i := range c.lists {
					if server.Kind() == redistest.Embedded {
						c.served(t, i)
					}
				}
				for _, list := range c.lists {
					if list.Stats().WakeUps > 0 {
						woken++
					}
				}
				if server.Kind() != redistest.Embedded {
					assert.Greater(t, woken, len(c.lists)*3/4, "the others were found by the look every other second")
				}

				c.wait(t, ctx)
				cancel()
				for _, result := range c.results {
					assert.ErrorIs(t, (<-result).Err, context.Canceled)
				}
			})
		}
	})
}

// Several processes wait on many lists, with one connection that blocks, and subscriptions that are lost again and again: nobody sleeps
// while there are elements.
func TestNoWakeUpOfManyListsIsLost(t *testing.T) {
	t.Parallel()
	for name, killed := range map[string]bool{"whole": false, "killed": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
				if server.Kind() == redistest.Embedded {
					t.Skip("miniredis has no SSUBSCRIBE")
				}
				testNoWakeUpOfManyListsIsLost(t, server, killed)
			})
		})
	}
}

func testNoWakeUpOfManyListsIsLost(t *testing.T, server *redistest.Server, killed bool) {
	const lists, processes = 8, 2
	rounds := redistest.Times(15, 500)
	prefix := harness.UniqueName(t)
	ctx, stop := context.WithTimeout(t.Context(), 60*time.Second)
	defer stop()
	got := make([]chan string, lists)
	var consumers, producers sync.WaitGroup
	for i := range lists {
		got[i] = make(chan string)
	}
	for range processes {
		rdb := server.Client(t, func(o *redis.UniversalOptions) {
			o.ReadTimeout, o.PipelinePoolSize, o.PoolSize = 20*time.Minute, 3, 20
		})
		for i := range lists {
			list := harness.OpenList(t, rdb, prefix+strconv.Itoa(i), shardedlist.WithCapacity(2))
			harness.OneSlot(list).MaxSlice = 10 * time.Minute // the end of a slice would hide that a wake-up was lost
			for range 2 {
				consumers.Go(func() {
					for {
						value, err := list.BLPop(ctx, 0)
						if err != nil {
							return
						}
						got[i] <- value
					}
				})
			}
		}
	}
	producing := server.Client(t)
	var kills atomic.Int64
	for i := range lists {
		list := harness.OpenList(t, producing, prefix+strconv.Itoa(i), shardedlist.WithCapacity(2))
		producers.Go(func() {
			for round := 0; round < rounds || killed && kills.Load() == 0 && ctx.Err() == nil; round++ { // each of which needs a ring
				values := harness.Numbers(0, 1+round%3)
				_, err := list.RPush(t.Context(), values...)
				assert.NoError(t, err)
				for range values {
					select {
					case <-got[i]:
					case <-ctx.Done():
						t.Errorf("nobody was woken in round %d of list %d", round, i)
						return
					}
				}
			}
		})
	}
	killing, end := context.WithCancel(ctx)
	if killed {
		consumers.Go(func() {
			for killing.Err() == nil {
				for _, node := range server.Nodes() {
					n, _ := node.Client(t).(*redis.Client).ClientKillByFilter(killing, "TYPE", "pubsub").Result()
					kills.Add(n)
				}
				_ = script.Sleep(killing, 100*time.Millisecond)
			}
		})
	}
	producers.Wait()
	end()
	stop()
	consumers.Wait()
	if killed {
		assert.Positive(t, kills.Load())
	}
}

// A user who may not subscribe, or not on these channels, waits in turns; producers who may not publish leave it to those who wait to look.
func TestManyListsAreWaitedOnWithoutChannels(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		if server.Kind() == redistest.Embedded {
			t.Skip("miniredis has no ACL")
		}
		admin := server.Client(t).(*redis.Client)
		for name, rights := range map[string][]any{
			"channels": {"resetchannels"}, "command": {"allchannels", "-ssubscribe"}, "producer": {"allchannels"},
		} {
			user := "user-" + harness.UniqueName(t)
			as := func(user string) func(o *redis.UniversalOptions) {
				return func(o *redis.UniversalOptions) { o.Username, o.Password = user, "secret" }
			}
			require.NoError(t, admin.Do(t.Context(), append([]any{"acl", "setuser", user, "on", ">secret", "~*", "+@all"}, rights...)...).Err())
			consuming, producing := server.Client(t, as(user)), server.Client(t)
			if name == "producer" {
				silent := "user-" + harness.UniqueName(t)
				require.NoError(t, admin.Do(t.Context(), "acl", "setuser", silent, "on", ">secret", "~*", "+@all", "resetchannels").Err())
				producing = server.Client(t, as(silent))
			}
			c := newCrowd(t, consuming, 20)
			c.wait(t, t.Context())
			require.NoError(t, admin.Do(t.Context(), "acl", "log", "reset").Err())
			for i := range c.lists {
				c.push(t, producing, i)
			}
			for i := range c.lists {
				c.served(t, i)
			}
			if name == "producer" {
				assert.Empty(t, admin.Do(t.Context(), "acl", "log").Val(), "it does not try what it may not")
			}
		}
	})
}

// Callers that wait, by whatever connection, learn that their client is closed.
func TestAClientIsClosedWhileManyWait(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		c, prefix := &crowd{}, harness.UniqueName(t)
		for i := range 40 { // without harness.OpenList, which checks them in the end
			list, err := shardedlist.New(rdb, prefix+strconv.Itoa(i))
			require.NoError(t, err)
			c.lists = append(c.lists, list)
		}
		c.wait(t, t.Context())
		require.NoError(t, rdb.Close())
		for _, result := range c.results {
			assert.ErrorIs(t, (<-result).Err, redis.ErrClosed)
		}
	})
}
