package shardedlist

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// maxCallPops is the number of elements above which a count-pop is done in several atomic parts.
const maxCallPops = 1 << 18

// LPop removes the leftmost element and returns it: LPOP. It returns redis.Nil if the list is empty.
//
// It costs O(1), and works on a server whose memory is full. It returns ErrWrongType or ErrLayout for a list that is not
// one of ours, and the server's own errors, with nothing changed.
//
// It is done once: if a reply is lost, it is repeated under its number until the deadline of ctx, or for ten seconds if it has
// none, and for thirty at the most. What it took for a caller that has given up goes back to the end it came from, as long as the
// server can be reached within a minute. Callers at the same end that find a pop in flight share the next one.
func (l *ShardedList) LPop(ctx context.Context) (string, error) {
	value, err := l.popOne(ctx, left)
	return value, l.wrap("lpop", err)
}

// RPop is LPop at the right end: RPOP.
func (l *ShardedList) RPop(ctx context.Context) (string, error) {
	value, err := l.popOne(ctx, right)
	return value, l.wrap("rpop", err)
}

// LPopCount removes up to count elements from the left end and returns them in the order they are popped: LPOP with a
// count. It returns redis.Nil if the list is empty, and no elements for a count of 0 if it is not.
//
// It is atomic, whatever number of shards the elements come from, and costs O(count). A count above 262,144 is split into
// atomic parts of that size; an error then comes with the elements of the parts that were popped. It returns
// ErrNegativeCount, with nothing sent, and otherwise the errors of LPop.
func (l *ShardedList) LPopCount(ctx context.Context, count int) ([]string, error) {
	values, err := l.popCount(ctx, left, count)
	return values, l.wrap("lpop", err)
}

// RPopCount is LPopCount at the right end, the rightmost element first: RPOP with a count.
func (l *ShardedList) RPopCount(ctx context.Context, count int) ([]string, error) {
	values, err := l.popCount(ctx, right, count)
	return values, l.wrap("rpop", err)
}

func (l *ShardedList) popOne(ctx context.Context, end side) (string, error) {
	values, err := l.pop(ctx, end, 1)
	if !isDone(err) {
		return "", err
	}
	if len(values) == 0 {
		return "", redis.Nil
	}
	return values[0], err
}

func (l *ShardedList) popCount(ctx context.Context, end side, count int) ([]string, error) {
	if count < 0 {
		return nil, ErrNegativeCount
	}
	if count == 0 {
		length, err := l.length(ctx)
		if err == nil && length == 0 {
			err = redis.Nil
		}
		if err != nil {
			return nil, err
		}
		return []string{}, nil
	}
	var popped []string
	var shortfall error
	for len(popped) < count {
		part := min(count-len(popped), maxCallPops)
		values, err := l.pop(ctx, end, part)
		popped = append(popped, values...)
		if !isDone(err) {
			return popped, err
		}
		if err != nil && len(values) > 0 {
			shortfall = err
		}
		if len(values) < part {
			break
		}
	}
	if len(popped) == 0 {
		return nil, redis.Nil
	}
	return popped, shortfall
}

// pop pops up to count elements in one atomic step. An empty list is no error.
func (l *ShardedList) pop(ctx context.Context, end side, count int) ([]string, error) {
	commits := &l.rpop
	if end == left {
		commits = &l.lpop
	}
	r := newRequest()
	r.count = count
	err := commits.do(ctx, r)
	if !isDone(err) {
		return nil, err
	}
	popped := r.popped
	requests.Put(r)
	return popped, err
}

// waiting is what a pop that finds too few elements does, as the script spells it.
type waiting string

const (
	dontWait  waiting = "no"
	waitFirst waiting = "first" // the list is armed, for a BLPOP on the bell to follow
	waitWoken waiting = "woken" // that BLPOP has ended
)

var pops = kind{
	join: func(l *ShardedList, end side, requests []*request) operation {
		count := 0
		for _, r := range requests {
			count += r.count
		}
		return l.popOperation(end, count, dontWait, "")
	},
	share: func(requests []*request, reply any) []string {
		popped, _ := elements(reply)
		for _, r := range requests {
			if r.gone {
				continue
			}
			part := min(r.count, len(popped))
			r.popped, popped = popped[:part:part], popped[part:]
		}
		return popped
	},
}

// popOperation pops up to count elements. A woken one looks at its release key.
func (l *ShardedList) popOperation(end side, count int, wait waiting, release string) operation {
	o := l.operation(popScript, 4)
	o.args = append(o.args, string(end), count, string(wait), release)
	return o
}

// elements reads a pop's reply: whether it is repeated, and arrays of elements, one a shard.
func elements(reply any) (values []string, repeated bool) {
	parts := reply.([]any)
	return flatten(parts[1:]), parts[0] == int64(1)
}

// flatten reads arrays of elements.
func flatten(shards []any) []string {
	total := 0
	for _, shard := range shards {
		total += len(shard.([]any))
	}
	values := make([]string, 0, total)
	for _, shard := range shards {
		for _, value := range shard.([]any) {
			values = append(values, value.(string))
		}
	}
	return values
}
