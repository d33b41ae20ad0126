package hook

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/value"
)

// Commands of other types. Two things must never stand at one key: a sharded list and a value of another type. So a command that may
// create a key is carried out by a script that looks for a list first, in the same atomic step.

// maxWords bounds the words of a command that a script carries out: Lua cannot hand on more.
const maxWords = 7000

// native is a command that reads its own reply from the server.
type native struct {
	call   *script.Call // the script that carries it out, if any
	keyAt  int          // where in its own words its first key is
	runner *script.Runner
}

// nulls are the commands whose reply may have nulls within an array, which Lua cannot tell in RESP3. In RESP2, which has them,
// their replies are the same.
var nulls = map[string]bool{"bitfield": true, "hgetdel": true, "hgetex": true}

// translateOther has Redis refuse a command of another type where there is a sharded list.
func translateOther(_ context.Context, c *invocation, lists []layout.List) (*translation, error) {
	if c.name == "mget" {
		return nil, nil // a list is nil to it
	}
	g := c.guard(lists)
	if c.reads() {
		if c.waits() {
			g.Words = nil
		}
		check, err := lists[0].Vacant(g)
		if err != nil {
			return nil, err
		}
		t := single(check)
		t.native = &native{keyAt: c.at[0]}
		return t, nil
	}
	if len(c.args) > maxWords {
		return nil, c.unsupported(fmt.Sprintf("it has more than %d words, and must be one step with the search for a list at its keys: send it in parts", maxWords))
	}
	call, err := lists[0].Guard(g)
	if err != nil {
		return nil, err
	}
	return &translation{native: &native{&call, c.at[0], &script.Runner{Client: lists[0].Client()}}}, nil
}

// reads tells whether a search for the list first is as good as one atomic step with the command: it creates nothing, and the moment
// at which there was no list will do for what it finds at the one key that it has. So it must be for commands that wait, which scripts
// cannot, and for those whose replies Lua cannot hand on: it loses the order of maps, and what is behind a null in an array.
func (c *invocation) reads() bool {
	return c.server.readOnly && len(c.keys) == 1 || c.waits() || slices.Contains([]string{"xread", "xreadgroup", "lcs"}, c.name)
}

// waits tells whether the call may wait.
func (c *invocation) waits() bool {
	if c.command.blocks || c.server == nil || !c.server.blocks {
		return c.command.blocks
	}
	if c.name != "xread" && c.name != "xreadgroup" {
		return true
	}
	return slices.ContainsFunc(c.args[:c.keys[0].at], func(word any) bool { return strings.EqualFold(value.Text(word), "block") })
}

// guard describes the call for a search for lists at its keys.
func (c *invocation) guard(lists []layout.List) layout.Guard {
	g := layout.Guard{Words: c.args, Written: c.written(), Lists: lists, RESP: protocol(lists[0].Client())}
	if nulls[c.name] {
		g.RESP = 2
	}
	replaced := map[int]bool{}
	for _, key := range c.keys {
		g.Keys = append(g.Keys, c.text(key.at))
		replaced[key.at] = key.replaces
	}
	for _, at := range c.at {
		if replaced[at] && !c.onlyIfAbsent() {
			g.At = append(g.At, 0)
		} else {
			g.At = append(g.At, at+1)
		}
	}
	return g
}

// protocol returns the version of RESP that a client speaks.
func protocol(rdb redis.UniversalClient) int {
	version := 0
	switch rdb := rdb.(type) {
	case *redis.Client:
		version = rdb.Options().Protocol
	case *redis.ClusterClient:
		version = rdb.Options().Protocol
	case *redis.Ring:
		version = rdb.Options().Protocol
	}
	if version == 2 {
		return 2
	}
	return 3 // which is go-redis's default
}

// onlyIfAbsent tells whether the call leaves what it finds as it is, although the table says that it may replace it.
func (c *invocation) onlyIfAbsent() bool {
	if c.name == "setnx" || c.name == "msetnx" || c.name == "bitfield" {
		return true
	}
	return c.name == "set" && slices.ContainsFunc(c.args[3:], func(word any) bool { return strings.EqualFold(value.Text(word), "nx") })
}

// reserved says why a key of the library's own is refused.
const reserved = "%q has the form of a key that a sharded list is stored in"

// plainGuard puts a search for the list to which a key belongs, if it has such a form, in front of what is sent for plain keys: DEL must
// not delete a shard.
func (t *translation) plainGuard(c *invocation, lists []layout.List) error {
	if t.plain == nil || c.tooLong() {
		return nil
	}
	written := c.written()
	if _, maybe := lists[0].Reserved(written); len(maybe) == 0 {
		return nil
	}
	call, err := lists[0].Guard(layout.Guard{Words: t.plain, Keys: written, Written: written, Lists: nil, RESP: 2})
	if err == nil {
		t.plain = call.Eval()
	}
	return err
}

// notReserved is the error of a call that would write a key of a list that exists. The plain keys are guarded once more when they are
// written: this keeps half a command from being carried out.
func (c *invocation) notReserved(ctx context.Context, lists []layout.List) error {
	if commands[c.name] == nil || !c.command.general && c.command.keys != twoKeys {
		return nil
	}
	written := c.written()
	if _, maybe := lists[0].Reserved(written); len(maybe) == 0 {
		return nil
	}
	check, err := lists[0].Vacant(layout.Guard{Keys: written, Written: written, RESP: 2})
	if err == nil {
		_, err = check.Run(ctx)
	}
	return err
}

// runNative carries out a command that stands alone and reads its own reply.
func (t *translation) runNative(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	for _, step := range t.steps {
		if _, err := step.Run(ctx); err != nil {
			return setReply(cmd, nil, asAlone(cmd, err))
		}
	}
	var err error
	if t.native.call == nil {
		err = next(ctx, cmd)
	} else {
		err = asReplied(asAlone(cmd, script.RunCarried(ctx, next, cmd, *t.native.call, t.native.keyAt)))
	}
	cmd.SetErr(err)
	return err
}

// asAlone returns the error of a command that a script has called in the words that it has for a command alone.
func asAlone(cmd redis.Cmder, err error) error {
	switch {
	case script.IsUnknownInScript(err):
		var words []string
		for _, word := range cmd.Args() {
			words = append(words, value.Text(word))
		}
		return rediserr.Unknown(words)
	case script.IsMiscounted(err):
		return rediserr.WrongNumber(strings.ToLower(cmd.Name()))
	}
	return err
}

// prepare returns what is sent for the command in a pipeline.
func (n *native) prepare(cmd redis.Cmder, batch *script.Batch) redis.Cmder {
	if n.call == nil {
		return cmd
	}
	return batch.Carry(n.runner, cmd, *n.call, n.keyAt)
}
