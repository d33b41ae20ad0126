package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
)

// redisCommand is a command that the hook of the library carries out as it stands. Its arguments, its reply and its errors are those
// of Redis.
type redisCommand struct {
	use     string // its name and its arguments
	short   string
	example string
	least   int // arguments
	most    int
	lists   func(args []string) []string // those of the arguments that name lists
}

// redisCommands are the commands of Redis but for those that take standard input, or print as they read.
var redisCommands = []redisCommand{
	{"lpushx LIST VALUE...", "Push values onto the left end of a list that exists", "lpushx jobs one two", 2, anyNumber, first(1)},
	{"rpushx LIST VALUE...", "Push values onto the right end of a list that exists", "rpushx jobs one two", 2, anyNumber, first(1)},
	{"llen LIST", "Print the length", "llen logs", 1, 1, first(1)},
	{"lset LIST INDEX VALUE", "Replace the element at an index", "lset logs -1 last", 3, 3, first(1)},
	{"linsert LIST BEFORE|AFTER PIVOT VALUE", "Insert a value beside the leftmost element that equals PIVOT", "linsert jobs before two one-and-a-half", 4, 4, first(1)},
	{"lrem LIST COUNT VALUE", "Remove the first COUNT elements that equal VALUE; the last if COUNT < 0, all if 0", "lrem jobs 0 two", 3, 3, first(1)},
	{"ltrim LIST START STOP", "Remove the elements outside of a range", "ltrim logs -1000 -1", 3, 3, first(1)},
	{"lpos LIST VALUE [RANK N] [COUNT N] [MAXLEN N]", "Print the index of a value", "lpos jobs two rank -1", 2, 8, first(1)},

	{"lmove FROM TO LEFT|RIGHT LEFT|RIGHT", "Move an element from one end of a list to another list", "lmove jobs done LEFT RIGHT", 4, 4, first(2)},
	{"blmove FROM TO LEFT|RIGHT LEFT|RIGHT TIMEOUT", "Wait for an element and move it; a TIMEOUT of 0 is forever", "blmove jobs done LEFT RIGHT 5", 5, 5, first(2)},
	{"lmovem FROM TO LEFT|RIGHT LEFT|RIGHT [COUNT|EXACTLY N BULK|OBO]", "Move several elements, as a row or one by one", "lmovem jobs done LEFT RIGHT COUNT 10 BULK", 4, 7, first(2)},
	{"blmovem FROM TO LEFT|RIGHT LEFT|RIGHT TIMEOUT [COUNT|EXACTLY N BULK|OBO]", "Wait for elements and move several", "blmovem jobs done LEFT RIGHT 5 COUNT 10 BULK", 5, 8, first(2)},
	{"rpoplpush FROM TO", "Move an element from the right end of a list to the left of another", "rpoplpush jobs done", 2, 2, first(2)},
	{"brpoplpush FROM TO TIMEOUT", "Wait for an element, and move it as rpoplpush does", "brpoplpush jobs done 5", 3, 3, first(2)},
	{"lmpop NUMBER LIST... LEFT|RIGHT [COUNT N]", "Pop from the first of NUMBER lists that has elements", "lmpop 2 urgent jobs LEFT COUNT 10", 3, anyNumber, numbered(0)},
	{"blmpop TIMEOUT NUMBER LIST... LEFT|RIGHT [COUNT N]", "Wait, and pop from the first of NUMBER lists that has elements", "blmpop 5 2 urgent jobs LEFT", 4, anyNumber, numbered(1)},

	{"unlink LIST...", "Delete lists, as del does", "unlink logs", 1, anyNumber, everyOne},
	{"exists LIST...", "Print how many of the lists exist", "exists logs jobs", 1, anyNumber, everyOne},
	{"touch LIST...", "Print how many of the lists exist, as exists does", "touch logs", 1, anyNumber, everyOne},
	{"type LIST", "Print list, or none, or the type of the key that is there", "type logs", 1, 1, first(1)},
	{"expire LIST SECONDS [NX|XX|GT|LT]", "Let a list expire", "expire logs 3600", 2, anyNumber, first(1)},
	{"pexpire LIST MILLISECONDS [NX|XX|GT|LT]", "Let a list expire", "pexpire logs 1500", 2, anyNumber, first(1)},
	{"expireat LIST UNIX-TIME [NX|XX|GT|LT]", "Let a list expire at a time", "expireat logs 1893456000", 2, anyNumber, first(1)},
	{"pexpireat LIST UNIX-MILLISECONDS [NX|XX|GT|LT]", "Let a list expire at a time", "pexpireat logs 1893456000000 NX", 2, anyNumber, first(1)},
	{"ttl LIST", "Print for how many seconds a list lives on; -1 is forever, -2 no such list", "ttl logs", 1, 1, first(1)},
	{"pttl LIST", "Print for how many milliseconds a list lives on", "pttl logs", 1, 1, first(1)},
	{"expiretime LIST", "Print the Unix time at which a list expires", "expiretime logs", 1, 1, first(1)},
	{"pexpiretime LIST", "Print the Unix time in milliseconds at which a list expires", "pexpiretime logs", 1, 1, first(1)},
	{"persist LIST", "Let a list live forever again", "persist logs", 1, 1, first(1)},
	{"rename LIST NAME", "Give a list another name", "rename logs logs:old", 2, 2, first(2)},
	{"renamenx LIST NAME", "Give a list another name, if that is free", "renamenx logs logs:old", 2, 2, first(2)},
	{"copy FROM TO [REPLACE]", "Copy a list", "copy logs logs:copy REPLACE", 2, 5, first(2)},
	{"object ENCODING|FREQ|IDLETIME|REFCOUNT LIST", "Print what the server knows of a list's first shard", "object encoding logs", 2, 2, behind(1)},
	{"memory USAGE LIST [SAMPLES N]", "Print the estimated bytes of a list", "memory usage logs", 2, 4, behind(1)},
}

func first(n int) func(args []string) []string {
	return func(args []string) []string { return args[:min(n, len(args))] }
}

// behind is the one argument after so many.
func behind(n int) func(args []string) []string {
	return func(args []string) []string { return args[min(n, len(args)):min(n+1, len(args))] }
}

func everyOne(args []string) []string { return args }

// numbered are the arguments behind one that says how many they are.
func numbered(at int) func(args []string) []string {
	return func(args []string) []string {
		n, err := parseCount(args[min(at, len(args)):min(at+1, len(args))], 0)
		if err != nil {
			return nil
		}
		from := min(at+1, len(args))
		return args[from : from+min(n, len(args)-from)]
	}
}

func (c redisCommand) name() string {
	name, _, _ := strings.Cut(c.use, " ")
	return name
}

func (a *app) redisCommand(c redisCommand) *cobra.Command {
	cmd := &cobra.Command{
		Use:     c.use,
		Short:   c.short,
		Long:    c.short + ".\n\nThe arguments, the reply and the errors are those of the Redis command " + strings.ToUpper(c.name()) + ".",
		Example: "  shardedlist " + c.example,
		Args:    takes(c.least, c.most),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onServer(cmd, func(ctx context.Context, rdb redis.UniversalClient) error {
				return a.runRedis(ctx, rdb, c.lists(args), append([]string{c.name()}, args...))
			})
		},
	}
	a.addNullFlag(cmd)
	a.completesLists(cmd, c.lists)
	return cmd
}

// runRedis runs a command on the lists by the hook, and prints the reply.
func (a *app) runRedis(ctx context.Context, rdb redis.UniversalClient, lists, words []string) error {
	if slices.Contains(lists, "") {
		return shardedlist.ErrEmptyName // no list has it, but a plain key may
	}
	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("*")))
	r, err := do(ctx, rdb, words)
	if err != nil {
		return a.explained(ctx, rdb, words[0], lists, err)
	}
	if err := a.printReply(r); err != nil {
		elements, push := popped(rdb, words, r)
		return a.putBack(ctx, push, elements, err)
	}
	return nil
}

// do runs a command on a client with the hook. A reply of nil is no error.
func do(ctx context.Context, rdb redis.UniversalClient, words []string) (reply, error) {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	value, err := rdb.Do(ctx, args...).Result()
	if err != nil && err != redis.Nil {
		return reply{}, err
	}
	return replyOf(value, statuses[strings.ToLower(words[0])]), nil
}

// statuses are the commands of lists whose replies are no elements but statuses, as OK is.
var statuses = map[string]bool{"lset": true, "ltrim": true, "rename": true, "type": true}

// explained adds to an error what it is about: the command and the lists, or the key that holds another type.
func (a *app) explained(ctx context.Context, rdb redis.UniversalClient, command string, lists []string, err error) error {
	if redis.HasErrorPrefix(err, "WRONGTYPE") || errors.Is(err, shardedlist.ErrWrongType) {
		for _, list := range lists {
			if key, kind := foreignKey(ctx, rdb, list); key != "" {
				return fmt.Errorf("%s %q: the key %q holds another type: %s", command, list, key, kind)
			}
		}
	}
	if strings.HasPrefix(err.Error(), "shardedlist: ") {
		return err
	}
	names := make([]string, len(lists))
	for i, list := range lists {
		names[i] = fmt.Sprintf("%q", list)
	}
	err = fmt.Errorf("%s: %w", strings.Join(slices.Concat([]string{command}, names), " "), err)
	switch {
	case noElement.MatchString(err.Error()):
		return notThereError{err}
	case wrongArgument.MatchString(err.Error()):
		return usageError{err}
	}
	return err
}

// The errors of Redis that say that there is no such element, and those that say that an argument is wrong.
var (
	noElement     = regexp.MustCompile(`: ERR (no such key|index out of range)`)
	wrongArgument = regexp.MustCompile(`: ERR (syntax error|wrong number of arguments|unknown subcommand|source and destination|Unsupported option|` +
		`NX and XX|GT and LT|invalid expire time|(value|count|numkeys|timeout|samples|RANK|COUNT|MAXLEN)\b)`)
)

// foreignKey returns the key that has to hold something else, or nothing, for the list to be in use, and the type that it holds.
func foreignKey(ctx context.Context, rdb redis.UniversalClient, list string) (key, kind string) {
	keys := oneslot.KeysOf(list)
	for _, of := range []struct{ key, kind string }{{keys.Meta, "hash"}, {keys.Bell, "list"}, {list, "list"}} {
		kind, err := do(ctx, rdb, []string{"type", of.key})
		if err == nil && kind.text != "none" && kind.text != of.kind {
			return of.key, kind.text
		}
	}
	return "", ""
}
