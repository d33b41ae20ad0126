// Names are completed while a user types, from a sorted set of all names.
//
// The naive form is that of Redis in Action, section 6.1.2, from before sorted sets had lexical ranges. It inserts two members that stand
// right before and behind the prefix, reads what is between them, and removes them, in a WATCH loop. Whoever looks at the same moment
// changes the set, so all others start again. A crash in between leaves the two members in the set for good, where they take the places of
// names in what later users get.
//
// Here a script reads the range, and with it the details of each name from a hash, in one step that writes nothing. Without the details, a
// single ZRANGEBYLEX would do. With them, two commands could read a name that is removed in between.
//
// The program prints how often each form had to start again with 8 users at once.
package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/examples/internal/demo"
)

// The names are members of a sorted set, all with the score 0, and their details fields of a hash.
const (
	namesKey   = "{guild}:names"
	detailsKey = "{guild}:details"
	most       = 10
)

// A Suggestion is a name with its details.
type Suggestion struct{ Name, Details string }

// Add adds a name, in one transaction.
func Add(ctx context.Context, rdb redis.UniversalClient, name, details string) error {
	_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZAdd(ctx, namesKey, redis.Z{Member: name})
		pipe.HSet(ctx, detailsKey, name, details)
		return nil
	})
	return err
}

// Remove removes a name, in one transaction.
func Remove(ctx context.Context, rdb redis.UniversalClient, name string) error {
	_, err := rdb.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.ZRem(ctx, namesKey, name)
		pipe.HDel(ctx, detailsKey, name)
		return nil
	})
	return err
}

// No UTF-8 text contains the byte 255, so it is behind all names with the prefix.
var complete = redis.NewScript(`
	local found = {}
	for _, name in ipairs(redis.call('ZRANGEBYLEX', KEYS[1], '[' .. ARGV[1], '(' .. ARGV[1] .. '\255', 'LIMIT', 0, ARGV[2])) do
		found[#found + 1] = name
		found[#found + 1] = redis.call('HGET', KEYS[2], name) or ''
	end
	return found`)

// Complete returns the first names with the prefix, in their order, each with its details: O(log names + results).
func Complete(ctx context.Context, rdb redis.UniversalClient, prefix string) ([]Suggestion, error) {
	found, err := complete.Run(ctx, rdb, []string{namesKey, detailsKey}, prefix, most).StringSlice()
	if err != nil {
		return nil, err
	}
	suggestions := []Suggestion{}
	for i := 0; i < len(found); i += 2 {
		suggestions = append(suggestions, Suggestion{found[i], found[i+1]})
	}
	return suggestions, nil
}

// retries calls a form from many users at once, and returns how often it had to start again.
func retries(ctx context.Context, users, calls int, complete func(ctx context.Context, prefix string) (again int, err error)) (int64, error) {
	var total atomic.Int64
	var group sync.WaitGroup
	failed := make(chan error, users)
	for range users {
		group.Go(func() {
			for range calls {
				again, err := complete(ctx, "an")
				total.Add(int64(again))
				if err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	return total.Load(), <-failed
}

func run(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error {
	for _, name := range []string{"ann", "anna", "annabel", "bob"} {
		if err := Add(ctx, rdb, name, "level "+fmt.Sprint(len(name))); err != nil {
			return err
		}
	}
	suggestions, err := Complete(ctx, rdb, "anna")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, suggestions)

	const users, calls = 8, 25
	naive, err := retries(ctx, users, calls, func(ctx context.Context, prefix string) (int, error) {
		_, again, err := naiveComplete(ctx, rdb, prefix)
		return again, err
	})
	if err != nil {
		return err
	}
	script, err := retries(ctx, users, calls, func(ctx context.Context, prefix string) (int, error) {
		_, err := Complete(ctx, rdb, prefix)
		return 0, err // it has nothing to start again for
	})
	fmt.Fprintf(out, "%d calls of %d users: the WATCH loop started again %d times, the script %d times\n", users*calls, users, naive, script)
	return err
}

func main() { demo.Main(run) }
