package session

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
)

// Status is what is known of an operation.
type Status uint8

const (
	// Done operations were carried out.
	Done Status = iota
	// Refused operations changed nothing, and never will.
	Refused
	// Unknown operations may have been carried out, or may yet be, until they are resolved.
	Unknown
)

// Outcome is what became of an operation.
type Outcome struct {
	Status Status
	Reply  any   // of an operation that is Done
	Err    error // why it is not Done, or ErrNotReplicated
}

// ErrOutcomeUnknown is returned for an operation that changes a list and was given up while its outcome was unknown.
var ErrOutcomeUnknown = errors.New("outcome unknown")

// Lost is the error of a caller who gives up an operation whose outcome is unknown. An operation that reclaims what it took has
// nothing more to tell than why.
func Lost(cause error, reclaims bool) error {
	if reclaims {
		return cause
	}
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
}

// recorded are the errors that scripts record as results, in Redis's words.
var recorded = []rediserr.Error{rediserr.NoSuchKey, rediserr.Index, rediserr.Syntax}

// IsRecorded reports whether the error is an operation's result, which a repetition gives again.
func IsRecorded(err error) bool {
	return script.IsReply(err) && slices.Contains(recorded, rediserr.Error(err.Error()))
}

// mayHaveActed reports whether the server may have carried out an operation that failed with err.
func mayHaveActed(err error) bool {
	if script.IsReply(err) || errors.Is(err, redis.ErrClosed) || errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) {
		return false
	}
	var connection *net.OpError
	return !errors.As(err, &connection) || connection.Op != "dial"
}

// largeResult is the size in bytes of a result that the server is asked to drop, if it still holds it once the session is idle.
const largeResult = 4 << 10

// isLarge reports whether a record with that result is worth a call that makes it small.
func isLarge(reply any) bool { return size(reply, 0) > largeResult }

// size adds the bytes of a reply to total, and stops once that is large.
func size(reply any, total int) int {
	switch reply := reply.(type) {
	case string:
		return total + len(reply)
	case []any:
		for _, part := range reply {
			if total = size(part, total); total > largeResult {
				break
			}
		}
	}
	return total
}
