// A user posts a status message, which gets the next number and the name that the user has.
//
// In the naive form, these are three round trips: read the name, count the message, store it. A crash between the last two leaves a number
// without a message, and readers who count from 1 to the number of posts find a hole. A change of the name between the first and the
// last is lost on the message: it has the old name, although it was posted after the change.
//
// Here one script does all three, so nothing comes between them. All keys of a user share the hash tag {user:<id>}, and so a slot.
//
// What the script does not solve: if its reply is lost, go-redis sends it again, and the message is posted twice. See ../flashsale for a
// script that is applied once.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/examples/internal/demo"
)

// ErrNoUser is returned by Post for a user who has not been created.
var ErrNoUser = errors.New("there is no such user")

// A user is a hash with the fields name, posts and renamed: the number of posts when the name was changed last. The messages are fields
// of another, by number.
func userKey(id string) string     { return "{user:" + id + "}" }
func messagesKey(id string) string { return "{user:" + id + "}:messages" }

var post = redis.NewScript(`
	local name = redis.call('HGET', KEYS[1], 'name')
	if not name then
		return redis.error_reply('NOUSER')
	end
	local number = redis.call('HINCRBY', KEYS[1], 'posts', 1)
	redis.call('HSET', KEYS[2], number, name .. ': ' .. ARGV[1])
	return number`)

// Post stores a message and returns its number, counted from 1. It is one step, O(1).
func Post(ctx context.Context, rdb redis.UniversalClient, user, text string) (int64, error) {
	number, err := post.Run(ctx, rdb, []string{userKey(user), messagesKey(user)}, text).Int64()
	if redis.HasErrorPrefix(err, "NOUSER") {
		return 0, ErrNoUser
	}
	return number, err
}

var rename = redis.NewScript(`
	redis.call('HSET', KEYS[1], 'name', ARGV[1], 'renamed', redis.call('HGET', KEYS[1], 'posts') or 0)`)

// Rename gives a user a name, and creates the user if there is none.
func Rename(ctx context.Context, rdb redis.UniversalClient, user, name string) error {
	if err := rename.Run(ctx, rdb, []string{userKey(user)}, name).Err(); err != redis.Nil {
		return err
	}
	return nil
}

// Messages returns the messages of a user, the oldest first. It fails if one is missing, or has another name than it should.
func Messages(ctx context.Context, rdb redis.UniversalClient, user string) ([]string, error) {
	about, err := rdb.HGetAll(ctx, userKey(user)).Result()
	if err != nil {
		return nil, err
	}
	stored, err := rdb.HGetAll(ctx, messagesKey(user)).Result()
	if err != nil {
		return nil, err
	}
	var posts, renamed int
	_, _ = fmt.Sscan(about["posts"], &posts)
	_, _ = fmt.Sscan(about["renamed"], &renamed)
	var messages []string
	for number := 1; number <= posts; number++ {
		message, found := stored[fmt.Sprint(number)]
		if !found {
			return messages, fmt.Errorf("message %d of %d is missing", number, posts)
		}
		if number > renamed && !strings.HasPrefix(message, about["name"]+": ") {
			return messages, fmt.Errorf("message %d has a former name: %q", number, message)
		}
		messages = append(messages, message)
	}
	return messages, nil
}

func run(ctx context.Context, rdb redis.UniversalClient, out io.Writer) error {
	for _, step := range []func() error{
		func() error { return Rename(ctx, rdb, "7", "ann") },
		func() error { _, err := Post(ctx, rdb, "7", "hello"); return err },
		func() error { return Rename(ctx, rdb, "7", "anna") },
		func() error { _, err := Post(ctx, rdb, "7", "I have a new name"); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	messages, err := Messages(ctx, rdb, "7")
	for i, message := range messages {
		fmt.Fprintf(out, "%d %s\n", i+1, message)
	}
	return err
}

func main() { demo.Main(run) }
