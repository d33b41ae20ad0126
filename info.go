package shardedlist

import (
	"context"

	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/script"
)

// Info describes how a list is stored.
type Info struct {
	Name     string
	First    int64 // id of the leftmost shard
	Last     int64 // id of the rightmost shard; First-1 if the list is empty
	Shards   int64 // number of shards
	Capacity int64 // elements in a full shard; 0 if the list is empty or plain
	Length   int64 // number of elements
	Bytes    int64 // memory of all shards, estimated from at most sixteen; 0 if the server has no MEMORY USAGE
	Slot     int   // cluster slot of the keys, or of the pointers of a list that is spread; computed even if the server is not a cluster
	Parts    int64 // parts over which the list is spread, see WithParts; 0 if it is in one slot
	Armed    bool  // the list is empty, and the next push will wake blocked consumers
	Unswept  int64 // upper bound for the shards that Del or LTrim removed from the list and that are not yet unlinked

	Unsplit   int64 // elements of a plain list that was taken over, or is one, which Adopt has yet to move to shards
	Newcomers int64 // elements at the plain key of the same name beside the list, which the next operation takes in
	Restoring bool  // Restore has begun, and has not returned
	Restored  bool  // Restore has turned the list into the plain list at that key

	// Mode is how the server carries out operations: "functions", or "scripts" and, behind a colon, why.
	Mode string
}

// Info describes how the list is stored. It is O(1): one atomic step, and then a pipeline of MEMORY USAGE on at most sixteen
// shards, from which it estimates Bytes. See [ShardedList] for errors.
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
		Parts:    info.Parts,
		Armed:    info.Armed,
		Unswept:  info.Unswept,

		Mode:      (&script.Runner{Client: l.list.Client()}).Mode().String(),
		Unsplit:   info.Unsplit,
		Newcomers: info.Newcomers,
		Restoring: info.State == layout.Restoring,
		Restored:  info.State == layout.Restored,
	}, nil
}

// Check verifies the list. It returns nil if the list is sound, else an error that wraps ErrBroken and names each fault. It
// checks that
//
//   - the shards are exactly those from the first to the last
//   - each shard between the end shards is full, and no shard is empty or overfull
//   - the keys of an empty list expire
//   - the list that wakes blocked consumers holds at most one dummy element
//
// Of a list [WithParts], it checks that positions go on from shard to shard, that shards between the ends are closed and have elements,
// and that there are no others.
//
// It verifies the shards in bounded steps, and looks for stray ones with SCAN, so it is O(shards + keys of the server). Each step
// is atomic, but not the whole. Other clients may use the list meanwhile. See [ShardedList] for other errors.
func (l *ShardedList) Check(ctx context.Context) error {
	return l.wrap("check", l.list.Check(ctx))
}

// RepairOptions say how [ShardedList.Repair] mends a list. The zero value is for a list that nobody has pushed to since it lost its meta.
type RepairOptions struct {
	// Before and After say where elements go that no meta knows, if the list has been begun anew since: before its elements or after them.
	Before, After bool
	// Generation is which of them are the list, as the report names it, if there are those of several lists of that name.
	Generation string
	// DryRun changes nothing. The report says what would be done.
	DryRun bool
}

// Repair mends a damaged list. It returns what it has found and done, a line each, and as an error what [ShardedList.Check] finds then: nil
// if the list is sound. The report of a sound list is empty.
//
//   - If the hash {name}:meta has been deleted or evicted, the shards are a list without it. They become the list again. What others have
//     pushed since is kept: the options say which comes first. Without them, nothing is changed.
//   - If a shard between the ends is missing or has lost elements, what is behind it moves up. The report says between which elements
//     how many are gone. Until then pops and pushes work as far as the gap, and fail there with [ErrBroken].
//
// A list that was being deleted while its meta was lost comes back as far as it is left. An expiry is lost with the meta.
//
// Of a list [WithParts], Repair mends what a failover has left: shards that the pointers do not name are a part of it again; pointers that
// are lost are made again from the shards, of which the latest list counts; a lost shard is replaced by an empty one. The option WithParts must
// say how many parts it had. Clients with pointers that a failover took back may put elements outside again, for half a minute: Check tells.
//
// Other clients may use the list meanwhile. Elements that join an end shard by shard are popped there as far as they have come. Repair is
// O(shards + keys of the server), in bounded steps, and may be called again if it fails. It does not wait for replicas. See [ShardedList]
// for errors.
func (l *ShardedList) Repair(ctx context.Context, o RepairOptions) (report []string, err error) {
	how := layout.Repair{Generation: o.Generation, DryRun: o.DryRun}
	switch {
	case o.Before && o.After:
		return nil, l.wrap("repair", ErrRepair)
	case o.Before:
		how.Joins = layout.Before
	case o.After:
		how.Joins = layout.After
	}
	report, err = l.list.Repair(ctx, how)
	return report, l.wrap("repair", err)
}

// DelStrays deletes the stray shards of the list, and returns their number. A shard is stray if it is there but not in the list,
// because the hash {name}:meta was evicted or deleted while the list had elements. One that expires within three minutes is not: a
// Copy may be making it. No call notices stray shards: the list is empty without that hash, the next push begins it anew, and Del deletes
// only what was pushed since. Check names them.
//
// The list itself stays as it is, and other clients may use it meanwhile. A list that was renamed from this name keeps its shards, but
// must not be renamed again while DelStrays runs. It finds shards with SCAN, and so is O(keys of the server), in bounded steps. If it
// fails, it has deleted as many as it returns, or a hundred more. Those of a list [WithParts] are found in its parts; see
// [ShardedList.Repair], which makes those that belong to the list a part of it again. While the cluster slot of the list moves, it may miss some, or fail.
// It is not applied exactly once, and does not wait for replicas. See [ShardedList] for errors.
func (l *ShardedList) DelStrays(ctx context.Context) (deleted int64, err error) {
	deleted, err = l.list.DeleteStrays(ctx)
	return deleted, l.wrap("delstrays", err)
}
