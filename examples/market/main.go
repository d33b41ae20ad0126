// An item changes hands on a market: the buyer pays, the seller is paid, and the item moves.
//
// In the naive form, the program looks whether the item is for sale and the buyer has the money, and then acts. Two buyers who look at
// the same moment both act: the item is sold twice, the seller is paid twice, and a buyer who spends on two items at once gets into debt.
//
// There are two remedies from before scripts. WATCH makes the transaction fail if any of the keys has changed, and the program starts
// again: under contention, most work is thrown away. A lock lets one program act at a time: all others wait and ask, and if its
// holder is slow, the lock expires under its hands.
//
// Here one script looks and acts. The program prints how many trades a second each of the three makes, with 8 traders at once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/examples/internal/demo"
)

// Errors of a trade, which then has changed nothing.
var (
	ErrNotForSale = errors.New("the seller does not offer the item at that price")
	ErrNoFunds    = errors.New("the buyer does not have the money")
)

// A Market is three keys with one hash tag: the funds of all users, the owners of all items, and the prices of those for sale.
type Market struct {
	rdb                   redis.UniversalClient
	funds, owners, prices string
}

// NewMarket returns the market of that name.
func NewMarket(rdb redis.UniversalClient, name string) Market {
	return Market{rdb, "{" + name + "}:funds", "{" + name + "}:owners", "{" + name + "}:prices"}
}

func (m Market) keys() []string { return []string{m.funds, m.owners, m.prices} }

// A Trade is what a buyer wants.
type Trade struct {
	Item, Seller, Buyer string
	Price               int64
}

var trade = redis.NewScript(`
	local item, seller, buyer, price = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
	if redis.call('HGET', KEYS[2], item) ~= seller or tonumber(redis.call('HGET', KEYS[3], item) or -1) ~= price then
		return redis.error_reply('NOTFORSALE')
	elseif tonumber(redis.call('HGET', KEYS[1], buyer) or 0) < price then
		return redis.error_reply('NOFUNDS')
	end
	redis.call('HINCRBY', KEYS[1], buyer, -price)
	redis.call('HINCRBY', KEYS[1], seller, price)
	redis.call('HSET', KEYS[2], item, buyer)
	redis.call('HDEL', KEYS[3], item)
	return 1`)

// Buy makes a trade, in one step of O(1). It returns ErrNotForSale or ErrNoFunds. If its reply is lost, go-redis sends it again, and finds
// the item sold: ErrNotForSale may then come from the trade's own first run.
func (m Market) Buy(ctx context.Context, t Trade) error {
	err := trade.Run(ctx, m.rdb, m.keys(), t.Item, t.Seller, t.Buyer, t.Price).Err()
	switch {
	case redis.HasErrorPrefix(err, "NOTFORSALE"):
		return ErrNotForSale
	case redis.HasErrorPrefix(err, "NOFUNDS"):
		return ErrNoFunds
	}
	return err
}

// Offer puts an item up for sale. The first offer of an item brings it to the market.
func (m Market) Offer(ctx context.Context, item, owner string, price int64) error {
	_, err := m.rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, m.owners, item, owner)
		pipe.HSet(ctx, m.prices, item, price)
		return nil
	})
	return err
}

// Pay gives a user money from outside.
func (m Market) Pay(ctx context.Context, user string, amount int64) error {
	return m.rdb.HIncrBy(ctx, m.funds, user, amount).Err()
}

// Funds returns the money of each user.
func (m Market) Funds(ctx context.Context) (map[string]int64, error) {
	texts, err := m.rdb.HGetAll(ctx, m.funds).Result()
	funds := map[string]int64{}
	for user, text := range texts {
		var amount int64
		_, _ = fmt.Sscan(text, &amount)
		funds[user] = amount
	}
	return funds, err
}

// measure lets traders buy items of their own from sellers of their own for a while, all on one market. It returns the trades per second.
func measure(ctx context.Context, m Market, traders int, during time.Duration, buy func(ctx context.Context, t Trade) error) (float64, error) {
	var trades atomic.Int64
	var group sync.WaitGroup
	failed := make(chan error, traders)
	end := time.Now().Add(during)
	for trader := range traders {
		group.Go(func() {
			t := Trade{fmt.Sprint("item ", trader), fmt.Sprint("seller ", trader), fmt.Sprint("buyer ", trader), 1}
			err := m.Pay(ctx, t.Buyer, 1_000_000)
			for again := true; err == nil && again; again = time.Now().Before(end) { // at least once, on a slow machine too
				if err = m.Offer(ctx, t.Item, t.Seller, t.Price); err == nil {
					err = buy(ctx, t)
					trades.Add(1)
				}
			}
			failed <- err
		})
	}
	group.Wait()
	close(failed)
	var err error
	for one := range failed {
		err = errors.Join(err, one)
	}
	return float64(trades.Load()) / during.Seconds(), err
}

func run(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error {
	m := NewMarket(rdb, "market")
	if err := errors.Join(m.Pay(ctx, "ann", 100), m.Offer(ctx, "sword", "bob", 70), m.Offer(ctx, "shield", "bob", 70)); err != nil {
		return err
	}
	fmt.Fprintln(out, "ann buys the sword:", m.Buy(ctx, Trade{"sword", "bob", "ann", 70}))
	fmt.Fprintln(out, "ann buys the shield:", m.Buy(ctx, Trade{"shield", "bob", "ann", 70}))
	return compare(ctx, rdb, out, time.Second/2)
}

// compare prints how many trades each form makes, and the ratios.
func compare(ctx context.Context, rdb redis.UniversalClient, out io.Writer, during time.Duration) error {
	const traders = 8
	var script float64
	for _, form := range []struct {
		name string
		buy  func(m Market) func(ctx context.Context, t Trade) error
	}{
		{"script", func(m Market) func(ctx context.Context, t Trade) error { return m.Buy }},
		{"WATCH", func(m Market) func(ctx context.Context, t Trade) error { return m.buyWatching }},
		{"lock", func(m Market) func(ctx context.Context, t Trade) error { return m.buyLocked }},
	} {
		m := NewMarket(rdb, form.name)
		rate, err := measure(ctx, m, traders, during, form.buy(m))
		if err != nil {
			return err
		}
		if form.name == "script" {
			script = rate
		}
		fmt.Fprintf(out, "%s: %.0f trades/s, %.2f of the script's\n", form.name, rate, rate/script)
	}
	return nil
}

func main() { demo.Main(run) }
