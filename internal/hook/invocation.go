package hook

import (
	"fmt"
	"slices"
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
	name    string // in lower case, with the subcommand behind a |
	args    []any
	command *command
	server  *serverCommand // nil if no server is known to have it
	keys    []place
	at      []int // where its keys that match are
	alone   bool  // it is in no transaction of the caller's
}

// recognize returns the call that a command is if it has a key that matches, else nil. Of a command in neither table nobody knows
// the keys. For a command without such a key it allocates nothing.
func (h *Hook) recognize(cmd redis.Cmder) *invocation {
	args := cmd.Args()
	if isOurs(cmd) || len(args) < 2 {
		return nil
	}
	c := invocation{cmd: cmd, name: fullName(args), args: args}
	c.command, c.server = commands[c.name], serverCommands[c.name]
	if c.command == nil && c.server == nil || !h.concerns(&c) {
		return nil
	}
	found := c
	if c.command == nil {
		found.command = &command{arity: c.server.arity, general: true, translate: translateOther}
	}
	found.eachKey(func(key place) {
		if h.matches(found.text(key.at)) {
			found.at = append(found.at, key.at)
		}
		found.keys = append(found.keys, key)
	})
	return &found
}

// concerns reports whether a key of the call matches.
func (h *Hook) concerns(c *invocation) (matches bool) {
	if noKeys := c.command == nil || c.command.general && c.command.keys == (keySpec{}); c.tooShort() || c.tooLong() && noKeys {
		return false // the server says so, and does nothing
	}
	c.eachKey(func(key place) { matches = matches || h.matches(c.text(key.at)) })
	return matches
}

// isOurs tells what this library sends itself.
func isOurs(cmd redis.Cmder) bool {
	switch cmd.(type) {
	case *script.Command, script.Carried:
		return true
	}
	return false
}

// eachKey visits the call's keys. Where they cannot be told, there are none: the server finds the same fault.
func (c *invocation) eachKey(visit func(place)) {
	if c.command == nil || c.command.keys == (keySpec{}) {
		for _, spec := range c.server.keys {
			spec.each(c, visit)
		}
		return
	}
	spec := c.command.keys
	first, last := spec.first, spec.last
	if last < 0 {
		last += len(c.args)
	}
	if at := spec.number; at > 0 {
		number, err := c.integer(at)
		if err != nil || number < 0 || number > int64(len(c.args)-at-1-spec.behind) {
			number = 0
		}
		first, last = at+1, at+int(number)
	}
	for i := first; i <= last; i++ {
		visit(place{at: i})
	}
}

// lists returns the lists of the call's keys.
func (h *Hook) lists(c *invocation) ([]layout.List, error) {
	lists, _, err := h.listsAndReserved(c)
	return lists, err
}

// listsAndReserved also returns those of the keys that may be a list's own.
func (h *Hook) listsAndReserved(c *invocation) (lists []layout.List, maybe []string, err error) {
	if c.command.hint != "" {
		return nil, nil, c.unsupported(c.command.hint)
	}
	if _, cluster := h.client.(*redis.ClusterClient); cluster && c.crossesSlots() {
		return nil, nil, rediserr.CrossSlot
	}
	at := c.listed()
	lists = make([]layout.List, len(at))
	for i, at := range at {
		if lists[i], err = h.list(c.text(at)); err != nil {
			return nil, nil, err
		}
	}
	sure, maybe := lists[0].Reserved(c.written())
	if len(sure) > 0 {
		return nil, nil, c.unsupported(fmt.Sprintf(reserved, sure[0]))
	}
	return lists, maybe, nil
}

// crossesSlots tells whether the keys of the call are in several slots of a cluster.
func (c *invocation) crossesSlots() bool {
	return slices.ContainsFunc(c.keys, func(key place) bool { return script.Slot(c.text(key.at)) != script.Slot(c.text(c.keys[0].at)) })
}

// listed returns where the keys are of which the call needs the lists: a list command those of all, and others those that match.
func (c *invocation) listed() []int {
	if c.command.general {
		return c.at
	}
	at := make([]int, len(c.keys))
	for i, key := range c.keys {
		at[i] = key.at
	}
	return at
}

// unmatched returns the keys that do not match.
func (c *invocation) unmatched() (keys []any) {
	for _, key := range c.keys {
		if !slices.Contains(c.at, key.at) {
			keys = append(keys, c.args[key.at])
		}
	}
	return keys
}

// written returns the keys that match and that the call may write.
func (c *invocation) written() (keys []string) {
	if c.server != nil && c.server.readOnly {
		return nil
	}
	listed := c.listed()
	keys = make([]string, len(listed))
	for i, at := range listed {
		keys[i] = c.text(at)
	}
	return keys
}

// unsupported is the error of what a sharded list does not support.
func (c *invocation) unsupported(hint string) error {
	return fmt.Errorf("shardedlist: %s: %w: %s", strings.ReplaceAll(c.name, "|", " "), ErrUnsupported, hint)
}

// tooLong reports whether the call has more words than the command takes.
func (c *invocation) tooLong() bool { return c.arity() > 0 && len(c.args) > c.arity() }

func (c *invocation) tooShort() bool { return len(c.args) < c.arity() || len(c.args) < -c.arity() }

func (c *invocation) arity() int {
	if c.command == nil {
		return c.server.arity
	}
	return c.command.arity
}

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
