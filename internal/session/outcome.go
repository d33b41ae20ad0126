package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/internal/script"
)

// Status is what is known of the outcome of an operation.
type Status uint8

const (
	// Done operations were applied.
	Done Status = iota
	// Refused operations changed nothing, and never will.
	Refused
	// Unknown operations may have been applied, or may yet be, until they are resolved.
	Unknown
)

// Outcome is the outcome of an operation.
type Outcome struct {
	Status Status
	Reply  any   // of an operation that is Done
	Err    error // why it is not Done, or ErrNotReplicated

	reclaimer Reclaimer // of an operation that was resolved, if it took elements
}

// Reclaim puts back the elements that an operation, which was resolved, took for a caller who has gone. It may take until the server
// has memory for them.
func (o Outcome) Reclaim() {
	if o.Status == Done && o.reclaimer != nil {
		o.reclaimer.Reclaim(o.Reply)
	}
}

// ErrOutcomeUnknown is returned if a caller gives up on an operation that changes a list while its outcome is unknown.
var ErrOutcomeUnknown = errors.New("outcome unknown")

// ErrNoAnswer is the error of a caller whose time is up before the server has answered it.
var ErrNoAnswer = fmt.Errorf("the server has not answered: %w", context.DeadlineExceeded)

// Lost returns the error for a caller that gives up while the outcome of its operation is unknown. If the operation puts back
// what it took, that is the cause alone.
func (p *Pool) Lost(cause error, reclaims bool) error {
	if reclaims {
		return cause
	}
	p.List.Lose()
	return fmt.Errorf("%w: %w", ErrOutcomeUnknown, cause)
}

// recorded are the errors that scripts store as results.
var recorded = []rediserr.Error{rediserr.NoSuchKey, rediserr.Index, rediserr.Syntax}

// IsRecorded reports whether an error is the stored result of an operation, which a retry returns again.
func IsRecorded(err error) bool {
	return script.IsReply(err) && slices.Contains(recorded, rediserr.Error(err.Error()))
}

// RecordMoves reports whether an operation was refused because its dedup record may be on another node.
func RecordMoves(err error) bool {
	return script.IsReply(err) && strings.Contains(err.Error(), "the dedup record is moving")
}

// largeResult is the size in bytes above which the server is asked to drop a stored result once the session is idle.
const largeResult = 4 << 10

// isLarge reports whether a stored result is large enough to be worth a call that drops it.
func isLarge(reply any) bool { return size(reply, 0) > largeResult }

// size adds the bytes of a reply to total, and stops once that exceeds largeResult.
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
