package limit

import (
	"errors"
	"fmt"

	"github.com/shardedlist/shardedlist/internal/session"
)

var (
	// ErrLimit is returned for arguments that are out of range: a nil client, an empty name, a limit, rate or number below 1, a
	// span or lease that is too short or too long, or a number above what could ever be admitted. Nothing was sent.
	ErrLimit = errors.New("limit: an argument is out of range")
	// ErrNotAcquired is returned by TryAcquire and TryLock if no share is free, and by Wait if its turn would come after the
	// deadline of its context. Nothing was taken.
	ErrNotAcquired = errors.New("limit: not acquired")
	// ErrLost is returned for a permit or a lock that is held no more: its lease has ended, it was released before, or the
	// server has lost it.
	ErrLost = errors.New("limit: not held any more")
	// ErrOutcomeUnknown is returned by AllowN and Allow, together with the cause, if they give up before the server has
	// answered. The call may have been counted.
	ErrOutcomeUnknown = session.ErrOutcomeUnknown
)

// invalid returns ErrLimit with what is wrong.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrLimit, fmt.Sprintf(format, args...))
}
