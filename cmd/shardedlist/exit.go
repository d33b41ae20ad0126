package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/queue"
)

const (
	exitOK          = 0
	exitNothing     = 1
	exitUsage       = 2
	exitFailure     = 3
	exitSignal      = 128 // and the number of the signal
	exitInterrupted = 130
	exitBrokenPipe  = 141
	exitTerminated  = 143
)

// errNothing ends a command that found no element, or found a fault and has printed it.
var errNothing = errors.New("nothing there")

// usageError is a mistake in the command line that cobra does not detect.
type usageError struct{ error }

func usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

// notThereError is the error of a command on a list or an element that does not exist.
type notThereError struct{ error }

// signalError is why the program ends before its work is done.
type signalError struct{ syscall.Signal }

func (s signalError) Error() string { return s.String() }

// exit prints the error, if it needs a message, and returns the exit code.
func (a *app) exit(ctx context.Context, err error) int {
	_, missing := errors.AsType[notThereError](err)
	_, mistaken := errors.AsType[usageError](err)
	_, remote := errors.AsType[*net.OpError](err)
	code := exitFailure
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errNothing):
		return exitNothing
	case ctx.Err() != nil:
		if cause, ok := errors.AsType[signalError](context.Cause(ctx)); ok {
			return exitSignal + int(cause.Signal)
		}
		return exitInterrupted
	case errors.Is(err, syscall.EPIPE) && !remote:
		return exitBrokenPipe
	case missing:
		code = exitNothing
	case !a.started, mistaken, errors.Is(err, shardedlist.ErrCapacity), errors.Is(err, shardedlist.ErrEnd), errors.Is(err, shardedlist.ErrEmptyName),
		errors.Is(err, queue.ErrID):
		code = exitUsage
	}
	fmt.Fprintln(a.stderr, "shardedlist:", oneLine(a.withoutAddresses(err.Error()), err))
	return code
}

// withoutAddresses hides the arguments that may be addresses, as the errors of the command line quote arguments: one may have an
// address where something else belongs.
func (a *app) withoutAddresses(message string) string {
	for _, arg := range a.args {
		_, value, _ := strings.Cut(arg, "=")
		for _, text := range []string{arg, value} {
			if looksLikeAddress.MatchString(text) {
				quoted := strconv.Quote(text)
				message = strings.NewReplacer(text, "…", quoted[1:len(quoted)-1], "…").Replace(message)
			}
		}
	}
	return message
}

var looksLikeAddress = regexp.MustCompile(`(?s)://|:.*@|[?&]password=`)

// oneLine returns the part of an error's message that matters to the user, in one line.
func oneLine(message string, err error) string {
	message = strings.Join(strings.Fields(message), " ")
	message = strings.TrimPrefix(strings.TrimPrefix(message, "shardedlist: "), "queue: ")
	message = strings.ReplaceAll(message, `\x00-`, "-") // see hideMinus
	message = strings.ReplaceAll(message, " Did you mean this? ", "; did you mean: ")
	message, _, _ = strings.Cut(message, ": strconv.")
	message, _, _ = strings.Cut(message, ", with args beginning with") // of a server that knows no AUTH, then comes the password
	if known := shardedlist.ErrWrongType; errors.Is(err, known) {
		message = message[:strings.Index(message, known.Error())+len(known.Error())] // the server's own message follows
	}
	return scriptPosition.ReplaceAllString(message, "")
}

// scriptPosition is the suffix that Redis adds to the errors of a script.
var scriptPosition = regexp.MustCompile(` script: [0-9a-f]{40}, on @user_script:\d+\.`)
