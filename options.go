package shardedlist

import (
	"fmt"
	"time"

	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
)

const (
	// DefaultCapacity is the number of elements in a full shard where neither WithCapacity nor the server names one.
	DefaultCapacity = oneslot.DefaultCapacity
	// MaxCapacity is the largest capacity. A larger shard would be the big key that this package is there to avoid.
	MaxCapacity = oneslot.MaxCapacity
)

// Option changes how New sets up a list.
type Option func(*settings) error

// settings are what options change.
type settings struct{ oneslot.Config }

// WithCapacity sets the number of elements that a full shard holds, from 1 to MaxCapacity. It counts when a push creates
// the list; a list that exists keeps the capacity it was created with, whatever the clients' options.
//
// Without it, the capacity is the server's list-max-ziplist-entries, or its list-max-listpack-size where that is a number
// of elements, or DefaultCapacity. The first push asks the server once, with CONFIG GET; where that is forbidden the default
// applies.
func WithCapacity(elements int) Option {
	return func(s *settings) error {
		if elements < 1 || elements > MaxCapacity {
			return fmt.Errorf("%w: %d is not in 1..%d", ErrCapacity, elements, MaxCapacity)
		}
		s.Capacity = elements
		return nil
	}
}

// WithoutExactlyOnce gives up the promise that each operation is done once. The server then stores no dedup records, and after a
// failed connection go-redis repeats a push or pop as it repeats RPUSH or LPOP, which may push twice or lose an element. It
// saves the server two calls an operation, and the memory of the records. Callers share operations all the same.
func WithoutExactlyOnce() Option {
	return func(s *settings) error {
		s.WithoutDedup = true
		return nil
	}
}

// WithReplicas makes every push and pop wait, before it returns, until n replicas of the server have it, as WAIT does. It waits
// for as long as timeout, from a millisecond to half of the client's ReadTimeout. Callers that share an operation share the wait,
// which takes no round trip of its own.
//
// If fewer replicas have answered by then, the operation was carried out all the same: it returns its result, the elements of a
// pop included, together with ErrNotReplicated. A pop that found nothing has nothing to wait for. If the master fails during
// the wait, the operation is repeated on the next one, which carries it out unless it has been already.
//
// WAIT makes it unlikely that a failover loses what was acknowledged; it is no consensus. A failover may still elect a replica
// that is not one of the n. With n the number of all replicas, every replica that can be elected has what was acknowledged
// without error, unless one is elected that has lost its data or is still loading it. What other clients have read may still
// be lost, and so may an operation that returned ErrNotReplicated: then pushed elements are gone, and popped elements are
// back in the list. Replicas have the data in memory, which says nothing of their disks.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(s *settings) error {
		longest := script.ReadTimeout(s.Runner.Client) / 2
		if n < 1 || timeout < time.Millisecond || longest > 0 && timeout > longest {
			return fmt.Errorf("%w: %d replicas, %v; at least 1, and 1ms to half the client's ReadTimeout, %v", ErrReplicas, n, timeout, longest)
		}
		s.Runner.Replicas, s.Runner.ReplicaTimeout = n, timeout
		return nil
	}
}
