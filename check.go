package shardedlist

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// maxStrays bounds the stray shards that Check looks at.
const maxStrays = 10_000

// infoSamples is how many shards Info asks the size of.
const infoSamples = 16

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
	info, err := l.meta(ctx)
	if err == nil {
		info.Bytes, err = l.estimateBytes(ctx, info)
	}
	return info, l.wrap("info", err)
}

// meta is Info without the bytes.
func (l *ShardedList) meta(ctx context.Context) (Info, error) {
	reply, err := l.run(ctx, infoScript)
	if err != nil {
		return Info{}, err
	}
	var n [6]int64
	for i, value := range reply.([]any) {
		n[i] = value.(int64)
	}
	return Info{
		Name: l.name, First: n[0], Last: n[1], Shards: n[1] - n[0] + 1, Capacity: n[2], Length: n[3],
		Slot: l.keys.slot(), Armed: n[4] == 1, Unswept: n[5],
	}, nil
}

// estimateBytes asks for the size of the end shards and of some evenly between them, and takes those for all.
func (l *ShardedList) estimateBytes(ctx context.Context, info Info) (int64, error) {
	samples := min(info.Shards, infoSamples)
	if samples == 0 {
		return 0, nil
	}
	pipe := l.rdb.Pipeline()
	for i := range samples {
		pipe.MemoryUsage(ctx, l.keys.shard(info.First+i*(info.Shards-1)/max(1, samples-1)))
	}
	replies, err := pipe.Exec(ctx)
	if err != nil && !isReply(err) {
		return 0, err
	}
	var ends, between, counted int64
	for i, reply := range replies {
		bytes := reply.(*redis.IntCmd).Val()
		if i == 0 || i == len(replies)-1 {
			ends += bytes
		} else {
			between += bytes
			counted++
		}
	}
	return ends + between*(info.Shards-2)/max(1, counted), nil
}

// Check verifies the list: that its shards are exactly those the pointers enclose, that the ones between the ends are full,
// that no shard is empty or longer than the capacity, that an empty list leaves only keys that expire, and that the bell
// holds one dummy at most. It returns nil if all is well, else an error that wraps ErrBroken and names every breach.
//
// It works in bounded steps of a thousand shards and walks the server's keys with SCAN to find stray shards: it costs
// O(shards + keys of the server). Each step is atomic, the whole is not; it may run while others use the list.
func (l *ShardedList) Check(ctx context.Context) error {
	strays, err := l.outsideShards(ctx)
	if err != nil {
		return l.wrap("check", err)
	}
	var breaches []error
	for next, first := "", true; first || next != ""; first = false {
		reply, err := l.run(ctx, checkScript, append([]any{next}, strays...)...)
		if err != nil {
			return l.wrap("check", err)
		}
		words := reply.([]any)
		next, strays = words[0].(string), nil
		for _, breach := range words[1:] {
			breaches = append(breaches, fmt.Errorf("%w: %s", ErrBroken, breach))
		}
	}
	return l.wrap("check", errors.Join(breaches...))
}

// outsideShards returns the ids of shards that exist and that the pointers do not enclose, as far as a SCAN, during which
// the pointers may move, can tell.
func (l *ShardedList) outsideShards(ctx context.Context) (ids []any, err error) {
	info, err := l.meta(ctx)
	if errors.Is(err, ErrBroken) {
		err = nil // then all shards are looked at
	}
	if err != nil {
		return nil, err
	}
	node, err := l.node(ctx)
	if err != nil {
		return nil, err
	}
	keys := node.Scan(ctx, 0, l.keys.glob(), 10_000).Iterator()
	for keys.Next(ctx) && len(ids) < maxStrays {
		suffix, ours := strings.CutPrefix(keys.Val(), l.keys.prefix)
		id, err := strconv.ParseInt(suffix, 10, 64)
		if ours && err == nil && (id < info.First || id > info.Last) {
			ids = append(ids, id)
		}
	}
	return ids, keys.Err()
}

// glob matches the keys of the list and, where the name is not UTF-8, which embedded servers' patterns must be, some more.
func (k keys) glob() string {
	return strings.ToValidUTF8(globEscaper.Replace(k.prefix), "*") + "*"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// node is the server that holds the list's keys.
func (l *ShardedList) node(ctx context.Context) (redis.Cmdable, error) {
	switch rdb := l.rdb.(type) {
	case *redis.ClusterClient:
		return rdb.MasterForKey(ctx, l.keys.meta)
	case *redis.Ring:
		return rdb.GetShardClientForKey(l.keys.meta)
	}
	return l.rdb, nil
}
