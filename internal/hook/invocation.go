package hook

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/value"
)

// invocation is a call of a command on sharded lists.
type invocation struct {
	cmd     redis.Cmder
	name    string // in lower case
	args    []any
	command *command
	at      []int // its keys that match
}

// recognize returns the call of a command that has a key that matches, else nil.
func (h *Hook) recognize(cmd redis.Cmder) *invocation {
	args := cmd.Args()
	if _, ours := cmd.(script.Command); ours || len(args) < 2 {
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

// keys yields the positions of the call's keys. If they cannot be determined, it yields none: the server finds the same fault.
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
func (h *Hook) lists(c *invocation) ([]layout.List, error) {
	if c.command.hint != "" {
		return nil, c.unsupported(c.command.hint)
	}
	if !c.command.general {
		for i := range c.keys() {
			if !h.match(c.text(i)) {
				return nil, fmt.Errorf("shardedlist: %s: %w: %q is a plain key, the other a sharded list; both must be of one kind",
					c.name, ErrUnsupported, c.text(i))
			}
		}
	}
	lists := make([]layout.List, len(c.at))
	for i, at := range c.at {
		var err error
		if lists[i], err = h.list(c.text(at)); err != nil {
			return nil, err
		}
	}
	return lists, nil
}

// unsupported returns the error for a command that a sharded list does not support.
func (c *invocation) unsupported(hint string) error {
	return fmt.Errorf("shardedlist: %s: %w: %s", c.name, ErrUnsupported, hint)
}

// tooLong reports whether the call has more words than the command takes.
func (c *invocation) tooLong() bool { return c.command.arity > 0 && len(c.args) > c.command.arity }

// truncated returns what is sent of a command that is too long, so that the server reports the arity error: no version of the server
// can take it for a command on a plain key. The key stays, which a cluster needs. Where a truncated command would have no key, the
// whole is sent, since those commands do nothing to a key that does not exist.
func (c *invocation) truncated() []any {
	if c.command.arity == 2 {
		return c.args
	}
	return c.args[:2]
}

func (c *invocation) wrongNumber() error {
	return rediserr.WrongNumber(c.name)
}

// text returns an argument as go-redis sends it.
func (c *invocation) text(i int) string {
	return value.Text(c.args[i])
}

// is reports whether an argument is the word, in any case.
func (c *invocation) is(i int, word string) bool { return strings.EqualFold(c.text(i), word) }

// integer parses an argument as Redis parses integers.
func (c *invocation) integer(i int) (int64, error) {
	text := c.text(i)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != text {
		return 0, rediserr.NotInteger
	}
	return n, nil
}
