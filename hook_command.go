package shardedlist

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// command is what the hook knows of a Redis command.
type command struct {
	arity   int // words, the command's name among them; if negative, at least as many
	keys    keySpec
	general bool // it applies to keys of any type: to the plain key where there is no sharded list

	// translate gives the scripts that carry it out on the lists of its keys.
	translate func(ctx context.Context, c *invocation, lists []*ShardedList) (*translation, error)
	// direct carries out one that stands alone: a command that shares operations with other callers, or that has to wait.
	direct func(ctx context.Context, c *invocation, lists []*ShardedList) (any, error)
	blocks bool // it may wait
	// instead says what to do where a sharded list does not support it.
	instead string
}

// keySpec tells where a command's keys are.
type keySpec struct {
	first, last int // last counts from the end if negative
	number      int // the position of the number of keys, which stand behind it; then first and last do not count
	behind      int // words that there must be behind those
}

// translation is a command in scripts.
type translation struct {
	steps []step
	// joined is set for a command that can be one operation with its like.
	joined *joined
	// reply makes the command's reply of those of its steps, and of plain if that was needed.
	reply func(replies []any, plain any) (any, error)
	// plain is a command for the server itself, if there is one, and served tells whether the lists have made it needless.
	plain  []any
	served func(replies []any) bool
	// after does what is left, in bounded steps, and may better the replies.
	after func(ctx context.Context, replies []any) error
}

// step is a script on one list.
type step struct {
	list *ShardedList
	op   operation
}

// joined is a request that others at the same end of the same list may join.
type joined struct {
	list    *ShardedList
	end     side
	kind    *kind
	request *request
	reply   func(*request) any
}

// run carries out a step that stands alone.
func (s step) run(ctx context.Context) (reply any, err error) {
	if s.op.lane == 0 {
		reply, err = s.list.send(ctx, s.op.script, s.op.args)
	} else {
		reply, err = s.list.edit(ctx, s.op)
	}
	if err == redis.Nil {
		return nil, nil
	}
	return reply, err
}

// invocation is a command on its way to sharded lists.
type invocation struct {
	cmd     redis.Cmder
	name    string // in lower case
	args    []any
	command *command
	at      []int // its keys that match
}

// recognize returns the call that a command is if it has a key that matches, else nil.
func (h *hook) recognize(cmd redis.Cmder) *invocation {
	args := cmd.Args()
	if _, ours := cmd.(own); ours || len(args) < 2 {
		return nil
	}
	name := cmd.Name()
	spec, known := commands[name]
	switch {
	case !known:
		spec = &otherCommand
	case spec == nil:
		return nil
	}
	if len(args) < spec.arity || len(args) < -spec.arity {
		return nil // the server says so, and does nothing
	}
	c := &invocation{cmd: cmd, name: name, args: args, command: spec}
	for i := range c.keys() {
		if h.match(c.text(i)) {
			c.at = append(c.at, i)
		}
	}
	if len(c.at) == 0 {
		return nil
	}
	return c
}

// keys yields the positions of the call's keys. Where they cannot be told, there are none: the server finds the same fault.
func (c *invocation) keys() func(yield func(int) bool) {
	first, last := c.command.keys.first, c.command.keys.last
	if last < 0 {
		last += len(c.args)
	}
	if at := c.command.keys.number; at > 0 {
		number, err := c.integer(at)
		if err != nil || number < 0 || number > int64(len(c.args)-at-1-c.command.keys.behind) {
			number = 0
		}
		first, last = at+1, at+int(number)
	}
	return func(yield func(int) bool) {
		for i := first; i <= last && yield(i); i++ {
		}
	}
}

// lists returns the lists of the call's keys.
func (h *hook) lists(c *invocation) ([]*ShardedList, error) {
	if c.command.instead != "" {
		return nil, c.unsupported(c.command.instead)
	}
	if !c.command.general {
		for i := range c.keys() {
			if !h.match(c.text(i)) {
				return nil, fmt.Errorf("shardedlist: %s: %w: %q is a plain key, the other a sharded list; both must be of one kind",
					c.name, ErrUnsupported, c.text(i))
			}
		}
	}
	lists := make([]*ShardedList, len(c.at))
	for i, at := range c.at {
		var err error
		if lists[i], err = h.list(c.text(at)); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// unsupported is the error of what a sharded list does not support.
func (c *invocation) unsupported(instead string) error {
	return fmt.Errorf("shardedlist: %s: %w: %s", c.name, ErrUnsupported, instead)
}

// tooLong tells whether it has more words than the command takes.
func (c *invocation) tooLong() bool { return c.command.arity > 0 && len(c.args) > c.command.arity }

// tooShort is what is sent of a command that is too long: the server finds the same fault with it, and no version of it could
// take it for a command on a plain key. The key stays, which a cluster goes by. Where too short would be without one, the whole
// is sent, since those commands do nothing to a key that is not there.
func (c *invocation) tooShort() []any {
	if c.command.arity == 2 {
		return c.args
	}
	return c.args[:2]
}

func (c *invocation) wrongNumber() error {
	return replyError("ERR wrong number of arguments for '" + c.name + "' command")
}

// text is an argument as go-redis sends it.
func (c *invocation) text(i int) string {
	switch arg := c.args[i].(type) {
	case string:
		return arg
	case []byte:
		return string(arg)
	}
	return textOf(c.args[i])
}

// is tells whether an argument is the word, in any case.
func (c *invocation) is(i int, word string) bool { return strings.EqualFold(c.text(i), word) }

// integer reads an argument as Redis reads integers.
func (c *invocation) integer(i int) (int64, error) {
	text := c.text(i)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, errNotInteger
	}
	return n, nil
}

// textOf writes a value as go-redis does.
func textOf(value any) string {
	encoded, err := encodeOne(value)
	if err != nil {
		return ""
	}
	switch value := encoded.(type) {
	case string:
		return value
	case bool:
		if value {
			return "1"
		}
		return "0"
	case float32:
		return strconv.FormatFloat(float64(value), 'f', -1, 64)
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64)
	case time.Time:
		return value.Format(time.RFC3339Nano)
	case time.Duration:
		return strconv.FormatInt(int64(value), 10)
	}
	return fmt.Sprint(encoded)
}
