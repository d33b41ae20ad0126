// Package shardedlist is the Redis list for lists of any size: one logical list, kept as a row of small Redis lists behind
// a first and a last pointer, with the methods, results and errors of go-redis's list commands.
//
//	jobs, err := shardedlist.New(rdb, "jobs")
//	length, err := jobs.RPush(ctx, "a", "b", "c")
//	value, err := jobs.BLPop(ctx, time.Minute)
//
// # Model
//
// The list "jobs" owns these keys and no others. They share a hash tag, so that on a cluster one atomic script can touch
// all of them:
//
//	{jobs}:meta   hash   first and last, the ids of the end shards; the capacity; the layout's version
//	{jobs}:<id>   list   the shard of that id, a run of the elements; ids grow to the right and may be negative
//	{jobs}:bell   list   dummy elements that wake blocked consumers; never data
//	{jobs}:bell:… list   dummy elements that release one blocked consumer that gives up
//	{jobs}:op:…   string the number and the result of a client's last operation of one kind, for a minute; beside it, a
//	                     list of the elements, if it popped several
//
// All shards between the ends hold exactly the capacity, which is fixed while the list exists. Hence the length, and
// the shard that holds an index, are found in O(1). A push to a full end shard makes the next one; a pop that empties an end
// shard moves the pointer inward. An empty list leaves no key behind for longer than a minute.
//
// # Atomicity
//
// Every method is one Lua script on the server, atomic and with the result of its Redis twin, unless its comment says
// otherwise. No script's work grows with the length of the list, unless its twin's does (LRange). Scripts write only after
// they have read all they need, but that a push of one value may take it back, so that an error reply means that nothing has
// changed. Pops and Del work while the server refuses writes for want of memory; pushes then fail cleanly with the server's OOM
// error.
//
// # Exactly once
//
// A push or pop whose reply is lost is repeated under its number until the server tells what it did, and is done once. A push
// that is given up before that fails with ErrOutcomeUnknown; what a pop took for a caller that has given up goes back to the end
// it came from. WithoutExactlyOnce turns this off.
//
// Callers of one kind, say RPush, that find an operation in flight share the next one. A caller that finds none is sent at
// once. Each has a result, and a context, of its own.
//
// # Blocking
//
// A caller blocked in BLPop or BRPop waits on the bell, not on a shard, and takes its element with the same atomic pop as
// everyone else. All callers of one *ShardedList that wait on the same end share one connection and are served in the order
// they came. Cancelling a context ends the wait within a round trip, or half a second if the server does not answer, and loses
// no element.
//
// # Failures
//
// While a server is loading, failing over, or moving the list's cluster slot, operations are repeated until the deadline of
// their context, or for ten seconds if it has none.
package shardedlist
