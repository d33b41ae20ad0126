package hook

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/redis/go-redis/v9"
)

// An autopipeline in full duplex sends a command first and calls the hooks then: a list command has reached the plain key. All that a
// hook can do is to say so.

// ErrFullDuplex is the error of commands on keys that match, where go-redis has been told to send them past hooks.
var ErrFullDuplex = fmt.Errorf("shardedlist: %w: an AutoPipeline with FullDuplex sends commands past hooks: set FullDuplex to false", ErrUnsupported)

// calledInFullDuplex tells, in a method of a hook, who calls. go-redis calls ProcessHook for each command there, and otherwise once
// for all.
func calledInFullDuplex() bool {
	var callers [8]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "fdEngine).hostHook") {
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
