package shardedlist

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/blocking"
	"github.com/shardedlist/shardedlist/internal/hook"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/shardedlist/shardedlist/internal/value"
)

// Errors of New, which sends nothing.
var (
	// ErrNilClient is returned if the client is nil.
	ErrNilClient = errors.New("shardedlist: the client is nil")
	// ErrEmptyName is returned for an empty name, also by Rename, RenameNX and Copy.
	ErrEmptyName = errors.New("shardedlist: the name is empty")
	// ErrCapacity is returned for a capacity below 1 or above MaxCapacity.
	ErrCapacity = errors.New("shardedlist: the capacity is out of range")
	// ErrParts is returned for a number of parts below 1 or above MaxParts.
	ErrParts = errors.New("shardedlist: the number of parts is out of range")
	// ErrReplicas is returned if an argument of WithReplicas is out of range.
	ErrReplicas = errors.New("shardedlist: an argument of WithReplicas is out of range")
	// ErrEnd is returned if the argument of WithPoppedAt is neither LEFT nor RIGHT.
	ErrEnd = errors.New("shardedlist: the end is neither LEFT nor RIGHT")
)

// Errors for invalid arguments, returned before anything is sent.
var (
	// ErrRepair is returned if RepairOptions has both Before and After.
	ErrRepair = errors.New("elements cannot come both before and after those of the list")
	// ErrNilList is returned by an operation on several lists for one that is nil.
	ErrNilList = errors.New("the list is nil")
	// ErrNoValues is returned by a push without values.
	ErrNoValues = value.ErrNone
	// ErrValue is returned for a value that go-redis cannot encode.
	ErrValue = value.ErrEncoding
	// ErrNegativeCount is returned by LPopCount and RPopCount for a count below 0.
	ErrNegativeCount = layout.ErrNegativeCount
	// ErrNegativeTimeout is returned for a timeout below 0 by methods and functions that wait, such as BLPop.
	ErrNegativeTimeout = blocking.ErrNegativeTimeout
	// ErrOtherClient is returned by an operation on several lists if they do not all have the same client.
	ErrOtherClient = layout.ErrOtherClient
)

// Errors of operations. The error that the server replied with, if any, is in the chain.
var (
	// ErrOutcomeUnknown is returned by a push, an edit, a move, or a change of expiry or name that gave up before the server
	// answered. The operation may have been applied, or may yet be. The library then makes sure that it can no longer be
	// applied: in the background, if the server answers within thirty seconds, and after LPush or RPush, at the latest before
	// the next of them at that end through the same ShardedList.
	//
	// Until then, for those thirty seconds, nothing else adds elements there through the same ShardedList or hook, alone, in a
	// pipeline or in a transaction: a push at that end, an LInsert, or a move to that end waits, and fails if its time is over
	// first. An LInsert that gave up holds back both ends. No other operation waits, and none waits for an edit of another kind
	// or for a change of expiry or name: so a pop, or Copy and Rename onto the list, may be applied before what was given up.
	//
	// A transaction through the hook that also has commands on plain keys is not stopped: it may still be applied, as a whole.
	ErrOutcomeUnknown = session.ErrOutcomeUnknown
	// ErrNotReplicated is returned together with the result by an operation that was applied, if fewer replicas acknowledged it
	// than WithReplicas asks for. A failover may undo the operation.
	ErrNotReplicated = script.ErrNotReplicated
	// ErrSpread is returned by an operation that a list over many slots does not support, see WithParts. Nothing was changed.
	ErrSpread = layout.ErrSpread
	// ErrScript is returned by [Script.Run] for an error that the script itself has raised or returned. What it did before that stays.
	ErrScript = layout.ErrScript
	// ErrReversed is returned by Adopt if Restore was called for the same list meanwhile, and by Restore if Adopt was.
	ErrReversed = layout.ErrReversed
	// ErrPoppedAt is returned by Adopt and Restore if both the list and the plain key have elements, and WithPoppedAt does not say at which end
	// those of the plain key belong. The list and the key have the elements that they had.
	ErrPoppedAt = errors.New("both the list and the plain key of its name have elements: say WithPoppedAt which end is popped")
	// ErrOwnKey is returned by New for a name that has the form of the keys that sharded lists are stored in,
	// such as {jobs}:bell. Nothing was changed.
	ErrOwnKey = oneslot.ErrOwnKey
	// ErrWrongType is returned if a key of the list holds another type. It wraps the server's WRONGTYPE.
	ErrWrongType = layout.ErrWrongType
	// ErrLayout is returned if another version of this package, or something else, wrote the keys of the list.
	ErrLayout = layout.ErrLayout
	// ErrBroken is returned if a shard is missing, because it was evicted or removed by other means, or if a shard or the
	// metadata of the list is otherwise inconsistent. Check names each fault.
	ErrBroken = layout.ErrBroken
)

// Errors of the hook.
var (
	// ErrNilMatch is returned for every command with a key by a hook that has no function to match keys with. Nothing was sent.
	ErrNilMatch = errors.New("shardedlist: the function that matches keys is nil")
	// ErrUnsupported is returned for a command that a sharded list does not support. Its text says what to do instead.
	ErrUnsupported = hook.ErrUnsupported
	// ErrReplyLost is returned for a command of a transaction whose EXEC was carried out, while its reply was lost. List operations
	// have records, and so their results all the same; commands on plain keys do not.
	ErrReplyLost = session.ErrReplyLost
)

// errApart is the error of the hook for a key of a ring that cannot be on one server with its list.
var errApart = fmt.Errorf("shardedlist: %w of a ring whose key has a closing brace, but no hash tag: the list could be on another server than the key; give the key a hash tag", ErrUnsupported)

// wrap adds the operation and the list to an error, and the sentinel error that a reply of the server stands for. It returns
// redis.Nil unchanged, because callers compare it with ==.
func (l *ShardedList) wrap(operation string, err error) error {
	if err == nil || err == redis.Nil {
		return err
	}
	if known := layout.ErrorOf(err); known != nil && !errors.Is(err, known) && !errors.Is(err, ErrScript) {
		return fmt.Errorf("shardedlist: %s %q: %w: %w", operation, l.Name(), known, err)
	}
	return fmt.Errorf("shardedlist: %s %q: %w", operation, l.Name(), err)
}

// isDone reports whether an operation was applied, even if on too few replicas.
func isDone(err error) bool { return script.IsDone(err) }
