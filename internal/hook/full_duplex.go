package hook

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// An autopipeline in full duplex sends a command first and calls the hooks then: a list command has reached the plain key. All that a
// hook can do is to say so.

// ErrFullDuplex is the error of commands on keys that match, where go-redis has been told to send them past hooks.
var ErrFullDuplex = fmt.Errorf("shardedlist: %w: an AutoPipeline with FullDuplex sends commands past hooks: set FullDuplex to false", ErrUnsupported)

// calledInFullDuplex tells, in a method of a hook, who calls. go-redis calls ProcessHook for each command there, and otherwise once
// for all of a client, a Conn or a Tx.
func calledInFullDuplex() bool { return calledBy("fdEngine).hostHook") }

// calledForOneConnection tells, in a method of a hook, that it is called for a Conn or a Tx.
func calledForOneConnection() bool { return calledBy(".newConn", ".newTx") }

// calledBy tells whether the method of the hook that calls it was called by one of these functions of go-redis.
func calledBy(functions ...string) bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if slices.ContainsFunc(functions, func(name string) bool { return strings.HasSuffix(frame.Function, name) }) {
			return true
		}
		if !more {
			return false
		}
	}
}

// refuse lets a command pass that cannot be stopped, and fails it if it has a key that matches.
func (h *Hook) refuse(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if h.recognize(cmd) != nil {
			err = fmt.Errorf("%w; this one has been carried out, on the plain key", ErrFullDuplex)
		}
		return err
	}
}
