// Package shardedlist stores one logical Redis list as many small Redis lists, called shards. It has the methods, results and
// errors of the list commands of go-redis.
//
//	jobs, err := shardedlist.New(rdb, "jobs")
//	length, err := jobs.RPush(ctx, "a", "b", "c")
//	value, err := jobs.BLPop(ctx, time.Minute)
//
// [NewHook] makes the list commands of an existing go-redis client work on sharded lists.
//
//	rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("queue:*"))) // and rdb.RPush(ctx, "queue:mail", "a") is sharded
//
// It is for lists that grow huge, and for queues that must not lose or double an element when a reply is lost. Lists that stay short are
// faster plain: a lone call takes 1.2 to 1.9 times as long, and the README has what 14 workloads lose.
//
// # Model
//
// The list "jobs" has its elements in shards, Redis lists of at most the capacity, 512 if nothing else is said. A hash knows the first shard
// and the last, which share its cluster slot. So a push or a pop works on the shard at its end, and the length and the shard of an index are
// found in O(1). The list creates its keys as it grows, and deletes them as it shrinks: an empty list leaves none for longer than a minute,
// unless a Del was interrupted. Nothing else may write them. docs/design.md describes each.
//
// # Atomicity
//
// A method is one Lua script on the server, unless its comment says otherwise: one atomic step with the result of the Redis command of that
// name. Its work does not grow with the length of the list, unless that of the command does (LRange, LPos, LInsert, LRem, Copy). An error
// reply means that nothing has changed. Pops and Del work while the memory of the server is full.
//
// # Exactly once
//
// A push, pop, move or edit has a number, which the server stores with the result. If a reply is lost, the operation is sent again with that
// number, and so is applied once. A push that gives up before the server answers fails with [ErrOutcomeUnknown]. Elements that a pop took for
// a caller that gave up are put back at their end. [WithoutExactlyOnce] turns this off.
//
// While a server loads, fails over, or moves the slot of the list, operations are retried until the deadline of their context, or for ten
// seconds if it has none.
//
// # Concurrent and blocked callers
//
// Goroutines that push, or pop, at the same end of a *ShardedList while an operation is in flight share the next one. Each has its own result
// and its own context. Callers of BLPop, or of BRPop, share one connection while they wait, and are served in the order they came. A call
// whose context ends returns within a round trip, or within half a second if the server does not answer, and no element is lost.
//
// A Lua script of yours, see [NewScript], can push onto a list in the atomic step in which it works on other keys.
package shardedlist
