package script

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/stats"
)

// Carried is a command that a script carries out: the script is sent, and its reply is read as the command's own. Without a script, it is
// sent as it is, to read a list.
type Carried struct {
	redis.Cmder
	args   []any
	script *Script
	list   *stats.List
}

// carry returns the command as a call, for which the words are sent. keyAt is where in the command's own words its first key is, by which
// go-redis chooses the node.
func carry(cmd redis.Cmder, call Call, words []any, keyAt int) Carried {
	if keyAt <= math.MaxInt8 {
		cmd.SetFirstKeyPos(int8(keyAt))
	}
	return Carried{Cmder: cmd, args: words, script: call.Script}
}

// AsItIs returns a command on the plain key of a list that the hook passes through.
func AsItIs(cmd redis.Cmder, list *stats.List) Carried {
	return Carried{Cmder: cmd, args: cmd.Args(), list: list}
}

// Name is that of what is sent: go-redis must not treat it as the command.
func (c Carried) Name() string {
	if c.script == nil {
		return c.Cmder.Name()
	}
	return "evalsha"
}

// About returns the name of the list that a command without a script is for, and that of the command.
func (c Carried) About() (list, operation string) {
	if c.list == nil {
		return "", ""
	}
	return c.list.Name, c.Cmder.Name()
}

// FullName tells those who trace commands which one is carried out.
func (c Carried) FullName() string { return c.Cmder.FullName() }

// Args returns the words that are sent.
func (c Carried) Args() []any { return c.args }

// Clone returns a copy.
func (c Carried) Clone() redis.Cmder { return Carried{c.Cmder.Clone(), c.args, c.script, c.list} }

// RunCarried has a script, which is no function, carry out a command, for as long as the server cannot serve it for the moment, as Runner.Run does.
func RunCarried(ctx context.Context, process redis.ProcessHook, cmd redis.Cmder, call Call, keyAt int) error {
	until := Deadline(ctx)
	for attempt := 0; ; attempt++ {
		err := process(ctx, carry(cmd, call, call.Args, keyAt))
		if isNoScript(err) {
			err = process(ctx, carry(cmd, call, call.Eval(), keyAt))
		}
		if !IsTransient(err) || time.Until(until) < Backoff(attempt) || Sleep(ctx, Backoff(attempt)) != nil {
			return err
		}
	}
}
