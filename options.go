package shardedlist

import (
	"fmt"
	"time"

	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/spread"
)

const (
	// DefaultCapacity is the capacity of a list over many slots if neither WithCapacity nor the server sets one.
	DefaultCapacity = oneslot.DefaultCapacity
	// MaxCapacity is the largest capacity. A larger shard would be the kind of big key that this package avoids.
	MaxCapacity = oneslot.MaxCapacity
)

// Option is an option of New and NewHook.
type Option func(*settings) error

// settings is what options set.
type settings struct {
	oneslot.Config
	parts int
}

// WithCapacity sets the capacity, the number of elements in a full shard, from 1 to MaxCapacity. It applies to a list that outgrows its
// key by a push of this client, which is when it gets longer than the capacity. A list that is sharded keeps its capacity, whatever the
// options of its clients.
//
// Without this option, the capacity is the server's list-max-listpack-size (in Redis 6.2 list-max-ziplist-size) if that is a
// number of elements from 16 to MaxCapacity. The setting list-max-ziplist-entries takes precedence, but no server since Redis 3.2
// has it. Otherwise a shard has about 128 KiB, and from 16 to 8,192 elements, by the lengths of those that the list has when it outgrows
// its key. When elements become larger on the way, new shards hold fewer: none has more than 1 MiB and more than 16 elements. The first
// push asks the server, with CONFIG GET; if that is forbidden, the size decides.
//
// A list that was longer than a shard when it outgrew its key gets a capacity of at most 1,000, and a smaller one if a shard of elements
// like those at its ends would be larger than 256 KiB: so no step of Adopt or Restore takes long.
func WithCapacity(elements int) Option {
	return func(s *settings) error {
		if elements < 1 || elements > MaxCapacity {
			return fmt.Errorf("%w: %d is not in 1..%d", ErrCapacity, elements, MaxCapacity)
		}
		s.Capacity = elements
		return nil
	}
}

// MaxParts is the largest number of parts of a list.
const MaxParts = spread.MaxParts

// WithParts spreads a list that this client creates over that many hash slots, from 1 to MaxParts, and so over all nodes of a Redis
// Cluster: see docs/spread.md. An existing list keeps its layout and its parts, whatever the options of its clients, and every client
// finds out by itself. On a single server it works too.
//
// Some operations cannot be done on such a list, and fail with [ErrSpread], with nothing changed: LInsert, LRem, LTrim, names, moves,
// what concerns several lists, and transactions. Others are weaker than in one slot, as their comments say.
func WithParts(parts int) Option {
	return func(s *settings) error {
		if parts < 1 || parts > MaxParts {
			return fmt.Errorf("%w: %d is not in 1..%d", ErrParts, parts, MaxParts)
		}
		s.parts = parts
		return nil
	}
}

// WithoutExactlyOnce turns exactly-once off. The server then stores no results. After a failed connection, go-redis retries an
// operation as it retries RPUSH or LPOP, which may push twice or lose an element.
//
// It saves at least two calls on the server for each operation, and the memory of the stored results. Callers still share operations.
func WithoutExactlyOnce() Option {
	return func(s *settings) error {
		s.WithoutDedup = true
		return nil
	}
}

// WithReplicas makes each method that changes the list, except Del, DelStrays and Repair, wait until n replicas have the change, as
// WAIT does. The wait takes no extra round trip, and callers that share an operation share it. It lasts for at most timeout, from one
// millisecond to half of the client's ReadTimeout. Pipelines and transactions through the hook do not wait.
//
// If fewer replicas answer in time, the method returns its result together with ErrNotReplicated: the operation was applied. A pop
// that finds no element returns redis.Nil in any case. If the master fails during the wait, the operation is retried on the new
// master, which applies it unless it already has.
//
// This makes it unlikely that a failover loses an acknowledged operation, but it is not consensus: a failover may elect a
// replica that is not one of the n. If n is the number of all replicas, each replica that can be elected has all operations
// that returned without error, unless it has lost its data or is still loading it. An operation that returned ErrNotReplicated
// may be undone: pushed elements are then gone, and popped elements are back in the list. So may one that another client has
// seen and that was not yet acknowledged. Replicas have the data in memory, not necessarily on disk.
func WithReplicas(n int, timeout time.Duration) Option {
	return func(s *settings) error {
		longest := script.ReadTimeout(s.Runner.Client) / 2
		if n < 1 || timeout < time.Millisecond || longest > 0 && timeout > longest {
			return fmt.Errorf("%w: n is %d, timeout is %v; n must be 1 or more, and timeout from 1ms to half the client's ReadTimeout, %v", ErrReplicas, n, timeout, longest)
		}
		s.Runner.Replicas, s.Runner.ReplicaTimeout = n, timeout
		return nil
	}
}
