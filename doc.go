// Package shardedlist stores one logical Redis list as many small Redis lists, called shards. It has the methods, results and
// errors of the list commands of go-redis.
//
//	jobs, err := shardedlist.New(rdb, "jobs")
//	length, err := jobs.RPush(ctx, "a", "b", "c")
//	value, err := jobs.BLPop(ctx, time.Minute)
//
// [NewHook] makes the list commands of an existing go-redis client work on sharded lists.
//
// # Model
//
// The list "jobs" owns these keys and no others. They share a hash tag, so that one atomic script can access all of them on
// a cluster. A list that has been renamed keeps its shards under the name that it was created with:
//
//	{jobs}:meta    hash    first and last, the ids of the end shards; the capacity; the version of the layout; the prefix
//	                       of the shards' keys
//	{jobs}:#…:<id> list    the shard with that id; ids grow to the right and may be negative
//	{jobs}:bell    list    dummy elements that wake blocked consumers; never data
//	{jobs}:bell:…  list    dummy elements that end the wait of one consumer
//	{jobs}:op:…    string  the number and the result of the last operation of a client, for a minute; a list beside it
//	                       holds the elements of a pop of several, and another is the end shard while a large push is under way
//
// Each shard between the end shards holds exactly the capacity, which is fixed while the list exists. So the length, and the
// shard that holds an index, are found in O(1). A push to a full end shard creates the next shard. A pop that empties an end
// shard moves the pointer inward. An empty list leaves no key for longer than a minute, unless a Del was interrupted.
//
// # Atomicity
//
// Each method is one Lua script on the server, which is atomic and has the result of the Redis command of that name, unless
// the comment of the method says otherwise. The work of a script does not grow with the length of the list, unless that of the
// Redis command does (LRange, LPos, LInsert, LRem, Copy).
//
// An error reply means that nothing has changed. Pops and Del work while the server refuses writes because its memory is
// full. Pushes then fail with the server's OOM error.
//
// # Exactly once
//
// Each push, pop, move and edit has a number, which the server stores with the result. If a reply is lost, the operation is
// sent again with the same number, and so is applied once. A push that gives up before the server answers fails with
// [ErrOutcomeUnknown]. Elements that a pop took for a caller that gave up are put back at their end.
// [WithoutExactlyOnce] turns this off.
//
// # Concurrent calls
//
// Goroutines that push, or pop, at the same end of a *ShardedList while an operation is in flight share the next operation. A
// single caller is sent at once. Each caller has its own result and its own context.
//
// # Blocking
//
// A caller of BLPop or BRPop waits on the bell, not on a shard, and takes its element with the same atomic pop as other
// callers. All callers that wait at one end of a *ShardedList share one connection and are served in the order they came. When
// a context is cancelled, the call returns within a round trip, or within half a second if the server does not answer, and no
// element is lost.
//
// # Scripts
//
// A Lua script of yours, see [NewScript], can push onto a list in the same atomic step in which it works on other keys. It is applied
// exactly once as a whole.
//
// # Failures
//
// While a server loads, fails over, or moves the cluster slot of the list, operations are retried until the deadline of their
// context, or for ten seconds if it has none.
package shardedlist
