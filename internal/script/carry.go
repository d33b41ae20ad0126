package script

import (
	"context"
	"math"
	"time"

	"github.com/redis/go-redis/v9"
)

// Carried is a command that a script carries out: the script is sent, and its reply is read as the command's own.
type Carried struct {
	redis.Cmder
	args   []any
	script *Script
}

// carry returns the command as a call, for which the words are sent. keyAt is where in the command's own words its first key is, by which
// go-redis chooses the node.
func carry(cmd redis.Cmder, call Call, words []any, keyAt int) Carried {
	if keyAt <= math.MaxInt8 {
		cmd.SetFirstKeyPos(int8(keyAt))
	}
	return Carried{cmd, words, call.Script}
}

// Name is that of what is sent: go-redis must not treat it as the command.
func (c Carried) Name() string { return "evalsha" }

// FullName tells those who trace commands which one is carried out.
func (c Carried) FullName() string { return c.Cmder.FullName() }

// Args returns the words that are sent.
func (c Carried) Args() []any { return c.args }

// Clone returns a copy.
func (c Carried) Clone() redis.Cmder { return Carried{c.Cmder.Clone(), c.args, c.script} }

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
