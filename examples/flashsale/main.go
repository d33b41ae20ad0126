// A flash sale: a few items, each user may buy one, and each order goes to a queue.
//
// In the naive form, the program marks the user, counts the stock down, and pushes the order, in three round trips. A crash between the last
// two loses an order: the item is gone from the stock, and nobody sends it. If the reply to one of them is lost, go-redis sends it
// again: the stock is counted down twice, or the order is queued, and sent, twice.
//
// Here one script does all three, and pushes onto a sharded list. It reads, then pushes, then writes, so it has done all or nothing, also
// when memory is full. And it is applied once: if its reply is lost, the library sends it again, and the server replies what it replied
// first. A plain script would tell the user, whose order it has taken, that she has bought already.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/examples/internal/demo"
)

// Answers of Buy. Nothing has changed.
var (
	ErrSoldOut = errors.New("sold out")
	ErrBought  = errors.New("the user has bought one already")
)

// A Sale is a list of orders, with the stock and the buyers beside it: their keys have the tag of the list's name.
type Sale struct {
	rdb           redis.UniversalClient
	Orders        *shardedlist.ShardedList
	stock, buyers string
}

// NewSale returns the sale of that name. It sends nothing.
func NewSale(rdb redis.UniversalClient, name string) (*Sale, error) {
	orders, err := shardedlist.New(rdb, name)
	return &Sale{rdb, orders, "{" + name + "}:stock", "{" + name + "}:buyers"}, err
}

// Stock sets how many items there are.
func (s *Sale) Stock(ctx context.Context, items int) error {
	return s.rdb.Set(ctx, s.stock, items, 0).Err()
}

var buy = shardedlist.NewScript(`
	local user = ARGV[1]
	if redis.call('SISMEMBER', KEYS[2], user) == 1 then
		return redis.error_reply('BOUGHT')
	elseif tonumber(redis.call('GET', KEYS[1]) or 0) < 1 then
		return redis.error_reply('SOLDOUT')
	end
	local orders = rpush(user)
	redis.call('DECR', KEYS[1])
	redis.call('SADD', KEYS[2], user)
	return orders`)

// Buy orders an item for a user, exactly once, and returns how many orders are waiting. It returns ErrSoldOut or ErrBought.
func (s *Sale) Buy(ctx context.Context, user string) (waiting int64, err error) {
	waiting, err = buy.Run(ctx, s.Orders, []string{s.stock, s.buyers}, user).Int64()
	switch {
	case redis.HasErrorPrefix(err, "BOUGHT"):
		return 0, ErrBought
	case redis.HasErrorPrefix(err, "SOLDOUT"):
		return 0, ErrSoldOut
	}
	return waiting, err
}

// Check returns what is wrong with a sale of so many items: as many must be ordered as are gone from the stock, each by another buyer.
func (s *Sale) Check(ctx context.Context, items int) error {
	left, err := s.rdb.Get(ctx, s.stock).Int()
	if err != nil {
		return err
	}
	orders, err := s.Orders.LRange(ctx, 0, -1)
	if err != nil {
		return err
	}
	once := map[string]bool{}
	for _, user := range orders {
		if once[user] {
			return fmt.Errorf("the order of %s is queued twice", user)
		}
		once[user] = true
	}
	if len(orders) != items-left {
		return fmt.Errorf("%d items are gone from the stock, and %d are ordered", items-left, len(orders))
	}
	return s.Orders.Check(ctx)
}

func run(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error {
	const items = 2
	sale, err := NewSale(rdb, "orders")
	if err != nil {
		return err
	}
	if err := sale.Stock(ctx, items); err != nil {
		return err
	}
	for _, user := range []string{"ann", "bob", "ann", "eve"} {
		waiting, err := sale.Buy(ctx, user)
		switch err {
		case nil:
			fmt.Fprintf(out, "%s has bought one, %d orders are waiting\n", user, waiting)
		case ErrBought, ErrSoldOut:
			fmt.Fprintf(out, "%s gets nothing: %v\n", user, err)
		default:
			return err
		}
	}
	order, err := sale.Orders.LPop(ctx)
	fmt.Fprintln(out, "the first to be sent is that of", order)
	return err
}

func main() { demo.Main(run) }
