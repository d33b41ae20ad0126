package hook

import (
	"strconv"
	"strings"

	"github.com/shardedlist/shardedlist/internal/value"
)

//go:generate sh -c "go run ./gen redis-server redis-server-8.6 valkey-server valkey-server-9 > table.tmp && mv table.tmp server_table.go"

// serverCommand is what the servers say of a command that has keys.
type serverCommand struct {
	arity    int
	readOnly bool
	blocks   bool // it may
	keys     []serverKeys
}

// serverKeys is a key specification of COMMAND: where to begin, and which words from there are keys.
type serverKeys struct {
	first    int    // the position to begin at,
	keyword  string // or the word to begin behind,
	from     int    // which is looked for from this position, or backwards if that is negative
	last     int    // the last key, counted from the first, or from the end of the command if it is negative
	step     int    // from a key to the next
	limit    int    // keys are the first half of the words that are left if it is 2, the first third if it is 3
	counted  bool   // what is found is the number of keys,
	behind   int    // and the keys begin so far behind it
	replaces bool   // the command does not mind what the key holds, or not always
}

// fullName is the name by which the tables know a command: with its subcommand if it has any, and in lower case.
func fullName(args []any) string {
	name := strings.ToLower(value.Text(args[0]))
	if commands[name] != nil || len(args) < 2 {
		return name
	}
	if _, known := serverCommands[name]; known {
		return name
	}
	return name + "|" + strings.ToLower(value.Text(args[1]))
}

// place is where a call has a key.
type place struct {
	at       int
	replaces bool
}

// each visits where the servers see keys in a call. Where they see a fault instead there are none: they will say so.
func (s *serverKeys) each(c *invocation, visit func(place)) {
	first := s.begin(c)
	last := first + s.last
	switch {
	case first == 0 || first >= len(c.args):
		return
	case s.counted:
		count, err := strconv.Atoi(c.text(first))
		if err != nil || count <= 0 || count > len(c.args) {
			return
		}
		first += s.behind
		last = first + (count-1)*s.step
	case s.last < 0 && s.limit > 1:
		last = first + (len(c.args)-first)/s.limit - 1
	case s.last < 0:
		last = len(c.args) + s.last
	}
	for i := first; i <= last && last < len(c.args); i += s.step {
		visit(place{i, s.replaces})
	}
}

// begin returns the position at which keys begin, or 0.
func (s *serverKeys) begin(c *invocation) int {
	if s.keyword == "" {
		return s.first
	}
	i, step := s.from, 1
	if s.from < 0 {
		i, step = len(c.args)+s.from, -1
	}
	for ; i > 0 && i < len(c.args); i += step {
		if c.is(i, s.keyword) {
			return i + 1
		}
	}
	return 0
}
