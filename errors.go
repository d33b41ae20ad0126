package shardedlist

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/value"
)

// Errors of New. Nothing was sent.
var (
	// ErrNilClient is returned for no client.
	ErrNilClient = errors.New("shardedlist: the client is nil")
	// ErrEmptyName is returned for an empty name.
	ErrEmptyName = errors.New("shardedlist: the name is empty")
	// ErrCapacity is returned for a capacity below 1 or above MaxCapacity.
	ErrCapacity = errors.New("shardedlist: the capacity is out of range")
	// ErrReplicas is returned for a number of replicas below 1, or a time to wait for them that is out of range.
	ErrReplicas = errors.New("shardedlist: the replicas to wait for are out of range")
)

// Errors of bad arguments. Nothing was sent.
var (
	// ErrNoValues is returned by a push without values.
	ErrNoValues = value.ErrNone
	// ErrValue is returned for a value that go-redis cannot encode.
	ErrValue = value.ErrEncoding
	// ErrNegativeCount is returned by LPopCount and RPopCount for a count below 0.
	ErrNegativeCount = layout.ErrNegativeCount
	// ErrNegativeTimeout is returned by the operations that wait, such as BLPop, for a timeout below 0.
	ErrNegativeTimeout = blocking.ErrNegativeTimeout
	// ErrOtherClient is returned by an operation on several lists that do not all use the same client.
	ErrOtherClient = layout.ErrOtherClient
)

// Errors of operations. An error that the server replied with stays in the chain.
var (
	// ErrOutcomeUnknown is returned by a push, an edit, a move, or a change of expiry or name that was given up before the server
	// replied. It may have been applied or may yet be, until the library fences it: once the server answers again, and, after a
	// push, before anything else is pushed at that end through the same ShardedList.
	ErrOutcomeUnknown = session.ErrOutcomeUnknown
	// ErrNotReplicated is returned, together with the result, by an operation that was carried out, but on fewer replicas than
	// WithReplicas asked for, as far as is known. A failover may undo it.
	ErrNotReplicated = script.ErrNotReplicated
	// ErrWrongType is returned when one of the list's keys holds a value of another type: the server's WRONGTYPE.
	ErrWrongType = layout.ErrWrongType
	// ErrLayout is returned when the list's keys were laid out by another version of this package, or by something else.
	ErrLayout = layout.ErrLayout
	// ErrBroken is returned when a shard that must exist does not, because something else deleted or evicted it. Check
	// tells more.
	ErrBroken = layout.ErrBroken
)

// Errors of a hook.
var (
	// ErrUnsupported is returned for a command that a sharded list does not support. Its text says what to do instead.
	ErrUnsupported = hook.ErrUnsupported
	// ErrPlainList is returned for a key that matches and holds a plain list.
	ErrPlainList = hook.ErrPlainList
)

// wrap says which operation on which list failed, and adds the error above that a reply of the server stands for. redis.Nil stays
// as it is: callers compare it with ==.
func (l *ShardedList) wrap(operation string, err error) error {
	if err == nil || err == redis.Nil {
		return err
	}
	if known := layout.ErrorOf(err); known != nil && !errors.Is(err, known) {
		return fmt.Errorf("shardedlist: %s %q: %w: %w", operation, l.Name(), known, err)
	}
	return fmt.Errorf("shardedlist: %s %q: %w", operation, l.Name(), err)
}

// isDone reports whether an operation was carried out, if only on too few replicas.
func isDone(err error) bool { return script.IsDone(err) }
