package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/examples/internal/wire"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m).Run() }

const items = 3

// saleOn returns a sale by way of the wire, and one that checks it. That one watches the plain list, onto which the naive form pushes.
func saleOn(t *testing.T, server *redistest.Server, faulty *wire.Wire) (sale, check *Sale) {
	t.Helper()
	name := uuid.NewString()
	sale, err := NewSale(server.Client(t, faulty.Through), name)
	require.NoError(t, err)
	rdb := server.Client(t)
	check, err = NewSale(rdb, name)
	require.NoError(t, err)
	check.Orders, err = shardedlist.New(rdb, name)
	require.NoError(t, err)
	require.NoError(t, check.Stock(t.Context(), items))
	return sale, check
}

// Both forms meet the same faults, at the request with these words, when ann buys.
func TestOrdersUnderFaults(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		naive, script := (*Sale).naiveBuy, (*Sale).Buy
		for name, tt := range map[string]struct {
			buy   func(s *Sale, ctx context.Context, user string) (int64, error)
			words string
			fault wire.Fault
			want  string // the error of Check
		}{
			"naive, crash before the push":      {naive, "rpush", wire.Crash, "2 items are gone from the stock, and 1 are ordered"},
			"naive, the reply to DECR is lost":  {naive, "decr", wire.LoseReply, "3 items are gone from the stock, and 2 are ordered"},
			"naive, the reply to RPUSH is lost": {naive, "rpush", wire.LoseReply, "the order of ann is queued twice"},
			"script, crash":                     {script, "ann", wire.Crash, ""},
			"script, the reply is lost":         {script, "ann", wire.LoseReply, ""},
		} {
			var faulty wire.Wire
			sale, check := saleOn(t, server, &faulty)
			_, err := tt.buy(sale, t.Context(), "bob") // the server knows the script
			require.NoError(t, err, name)
			faulty.On(tt.words, tt.fault, nil)
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if tt.fault == wire.Crash { // the library would ask for ten seconds what became of the order
				ctx, cancel = context.WithTimeout(ctx, 200*time.Millisecond)
			}
			waiting, err := tt.buy(sale, ctx, "ann")
			cancel()
			require.Equal(t, 1, faulty.Struck(), "the fault of %s has struck", name)
			assert.Equal(t, tt.fault == wire.Crash, err != nil, "%s: %v", name, err)
			if tt.want != "" {
				assert.EqualError(t, check.Check(t.Context(), items), tt.want, name)
				continue
			}
			assert.NoError(t, check.Check(t.Context(), items), name)
			if tt.fault == wire.LoseReply {
				assert.EqualValues(t, 2, waiting, "the reply of the first run")
			}
		}
	})
}

// A script that is run by go-redis is sent again, too, and does not know that it has run.
func TestAPlainScriptRefusesItsOwnBuyer(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		plain := redis.NewScript(`
			if redis.call('SISMEMBER', KEYS[2], ARGV[1]) == 1 then return redis.error_reply('BOUGHT') end
			redis.call('DECR', KEYS[1])
			redis.call('SADD', KEYS[2], ARGV[1])
			return redis.call('RPUSH', KEYS[3], ARGV[1])`)
		var faulty wire.Wire
		sale, _ := saleOn(t, server, &faulty)
		keys := []string{sale.stock, sale.buyers, sale.Orders.Name()}
		require.NoError(t, plain.Run(t.Context(), sale.rdb, keys, "bob").Err())
		faulty.On("ann", wire.LoseReply, nil)
		err := plain.Run(t.Context(), sale.rdb, keys, "ann").Err()
		require.Equal(t, 1, faulty.Struck())
		assert.True(t, redis.HasErrorPrefix(err, "BOUGHT"), "ann is told that she has bought: %v", err)
	})
}

// Many users want few items, each several times.
func TestTheStockIsSoldOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		var none wire.Wire
		sale, check := saleOn(t, server, &none)
		var group sync.WaitGroup
		for user := range 20 {
			group.Go(func() {
				for range 3 {
					_, err := sale.Buy(t.Context(), fmt.Sprint("user ", user))
					if err != ErrBought && err != ErrSoldOut {
						assert.NoError(t, err)
					}
				}
			})
		}
		group.Wait()
		require.NoError(t, check.Check(t.Context(), items))
		orders, err := check.Orders.LLen(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, items, orders)
	})
}

func TestDemo(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), redistest.Start(t, redistest.Embedded).Client(t), &out))
	assert.Equal(t, `ann has bought one, 1 orders are waiting
bob has bought one, 2 orders are waiting
ann gets nothing: the user has bought one already
eve gets nothing: sold out
the first to be sent is that of ann
`, out.String())
}
