// A coupon that at most N members get a day, each member once.
//
// In the naive form, SETNX marks the member, INCR counts, and EXPIRE lets the counter go at the end of the day. A crash between the last
// two leaves a counter that never expires: it reaches N, and from then on the coupon is refused for ever. A crash between the first two
// refuses the member, who has not got the coupon. And a reply to INCR that is lost counts a member twice.
//
// Here one script keeps the members of the day in a set, which counts them by itself, and gives the set its time to live when it creates
// it. A member who asks again gets the same answer, so the script may also be sent again: no record of its result is needed.
package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/examples/internal/demo"
)

// A Cap grants something to Most members in each Window, which begins with the first of them.
type Cap struct {
	rdb    redis.UniversalClient
	name   string
	Most   int
	Window time.Duration
}

var grant = redis.NewScript(`
	if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then
		return 1
	end
	local granted = redis.call('SCARD', KEYS[1])
	if granted >= tonumber(ARGV[2]) then
		return 0
	end
	redis.call('SADD', KEYS[1], ARGV[1])
	if granted == 0 then
		redis.call('PEXPIRE', KEYS[1], ARGV[3])
	end
	return 1`)

func (c Cap) key() string { return "{" + c.name + "}:granted" }

// Grant reports whether a member is among the first Most of the window. Asked again in the same window, it replies the same. It is one step,
// O(1).
func (c Cap) Grant(ctx context.Context, member string) (bool, error) {
	return grant.Run(ctx, c.rdb, []string{c.key()}, member, c.Most, c.Window.Milliseconds()).Bool()
}

func run(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error {
	c := Cap{rdb, "coupon", 2, 24 * time.Hour}
	for _, member := range []string{"ann", "bob", "eve", "ann"} {
		granted, err := c.Grant(ctx, member)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: %t\n", member, granted)
	}
	left, err := rdb.TTL(ctx, c.key()).Result()
	fmt.Fprintln(out, "others may try again in", left.Round(time.Hour))
	return err
}

func main() { demo.Main(run) }
