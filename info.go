package shardedlist

import "context"

// Info describes how a list is stored.
type Info struct {
	Name     string
	First    int64 // id of the leftmost shard
	Last     int64 // id of the rightmost shard; First-1 if the list is empty
	Shards   int64 // number of shards
	Capacity int64 // elements in a full shard; 0 if the list is empty
	Length   int64 // number of elements
	Bytes    int64 // memory of all shards, estimated from a few of them; 0 where the server has no MEMORY USAGE
	Slot     int   // cluster slot of all its keys, also on a server that is no cluster
	Armed    bool  // consumers were waiting when the list became empty, or since
	Unswept  int64 // shards of a deleted list still to be unlinked, at the most
}

// Info returns how the list is stored, in O(1), whatever its length: one atomic step for all but Bytes, which a pipeline of
// MEMORY USAGE, for sixteen shards at most, asks for after it. Its errors are those of LLen.
func (l *ShardedList) Info(ctx context.Context) (Info, error) {
	info, err := l.list.Info(ctx)
	if err != nil {
		return Info{}, l.wrap("info", err)
	}
	return Info{
		Name:     l.Name(),
		First:    info.First,
		Last:     info.Last,
		Shards:   info.Shards(),
		Capacity: info.Capacity,
		Length:   info.Length,
		Bytes:    info.Bytes,
		Slot:     info.Slot,
		Armed:    info.Armed,
		Unswept:  info.Unswept,
	}, nil
}

// Check verifies the list: that its shards are exactly those the pointers enclose, that the ones between the ends are full,
// that no shard is empty or longer than the capacity, that an empty list leaves only keys that expire, and that the bell
// holds one dummy at most. It returns nil if all is well, else an error that wraps ErrBroken and names every breach.
//
// It works in bounded steps of a thousand shards and walks the server's keys with SCAN to find stray shards: it costs
// O(shards + keys of the server). Each step is atomic, the whole is not; it may run while others use the list.
func (l *ShardedList) Check(ctx context.Context) error {
	return l.wrap("check", l.list.Check(ctx))
}
