package survey

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/detect"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/spread"
)

var surveyScript = script.Load("survey")

const (
	samples  = 6                                       // shards that are measured
	idle     = 30 * time.Second                        // the TTL of an empty list, which each look of a consumer that waits renews
	headSize = 16                                      // of a job's id
	mostTTL  = math.MaxInt64 / int64(time.Millisecond) // what a time.Duration holds, 292 years
)

// look is one look at some lists, in steps, each a pipeline for all of them.
type look struct {
	ctx    context.Context
	runner *script.Runner
	single bool // there is one server, and an error of its connection concerns all lists
	rows   []Row
	spread map[int]*spread.Glance
}

// lookAt returns the rows of the lists of these names that are there.
func lookAt(ctx context.Context, rdb redis.UniversalClient, names []string, o Options) ([]Row, error) {
	_, single := rdb.(*redis.Client)
	l := &look{ctx: ctx, runner: &script.Runner{Client: rdb}, single: single, rows: make([]Row, len(names)), spread: map[int]*spread.Glance{}}
	for i, name := range names {
		keys := oneslot.KeysOf(name)
		l.rows[i] = Row{Name: name, Slot: keys.Slot(), Node: nodeOf(ctx, rdb, keys.Meta), LookedAgo: -1}
	}
	if err := l.first(o); err != nil {
		return nil, err
	}
	if err := l.further(); err != nil {
		return nil, err
	}
	if err := l.rest(!o.WithoutBytes); err != nil {
		return nil, err
	}
	found := l.rows[:0]
	for _, row := range l.rows {
		if row.isThere() && !row.isBell() {
			found = append(found, row)
		}
	}
	return found, nil
}

// isThere reports whether there is anything to tell of.
func (r Row) isThere() bool {
	return r.Err != nil || r.Length > 0 || r.Armed || r.Unswept > 0 || r.Queue != nil || r.Form == Restored || r.Form == Restoring
}

// isBell reports whether a plain list is what wakes those who wait for a list, a queue or a limiter. It may outlive them for half a
// minute. A list of somebody else's that has such a name has no such TTL.
func (r Row) isBell() bool {
	return r.Form == Plain && r.Length == 1 && 0 < r.TTL && r.TTL <= idle && bellForm.MatchString(r.Name)
}

var bellForm = regexp.MustCompile(`(?s)\{.+\}.*[:/]bell(:[0-9a-f-]{36})?$`)

// callOf is the script for a list.
func callOf(name string, samples int) script.Call {
	var plain []any
	if _, own := oneslot.Owner(name); !own {
		plain = []any{"+" + name}
	}
	call := script.NewCall(surveyScript, []any{oneslot.KeysOf(name).Meta}, 1, plain...)
	call.Args = append(call.Args, samples)
	return call
}

// first asks for what one script tells.
func (l *look) first(o Options) error {
	measured := samples
	if o.WithoutBytes {
		measured = 0
	}
	calls := make([]script.Call, len(l.rows))
	for i, row := range l.rows {
		calls[i] = callOf(row.Name, measured)
	}
	for i, reply := range l.runner.Each(l.ctx, calls) {
		row := &l.rows[i]
		row.At = time.Now()
		if err := l.failed(row, reply.Err); err != nil {
			return err
		}
		fields, _ := reply.Value.([]any)
		switch {
		case fields == nil:
		case fields[0] == "spread":
			row.Form = Spread
			glance, err := spread.NewGlance(row.Name, fields[1].(string), fields[2].(string), fields[3].(string))
			if err != nil {
				row.fail(fmt.Errorf("%w: %w", layout.ErrBroken, err))
				continue
			}
			l.spread[i] = glance
		default:
			row.read(fields[1:])
		}
	}
	return nil
}

// failed notes an error that concerns one list, or the one server of several that has it, and returns any other.
func (l *look) failed(row *Row, err error) error {
	switch {
	case err == nil:
		return nil
	case script.RefusesScripts(err), !script.IsReply(err) && !l.isElsewhere(err):
		return err
	}
	if known := layout.ErrorOf(err); known != nil {
		err = fmt.Errorf("%w: %w", known, err)
	}
	row.fail(err)
	return nil
}

// isElsewhere reports whether an error is that of a connection to one of several servers.
func (l *look) isElsewhere(err error) bool { return !l.single && script.IsLost(err) }

func (r *Row) fail(err error) { r.Form, r.Err = Unknown, err }

// read reads what the script replies for a list that is not spread, see lua/commands/survey.lua.
func (r *Row) read(fields []any) {
	info := fields[0].([]any)
	number := func(i int) int64 { return info[i].(int64) }
	first, last, prefix, state := number(0), number(1), info[6].(string), info[9].(string)
	head, tail, left, metaTTL := fields[1].(int64), fields[2].(int64), fields[4].(int64), fields[5].(int64)

	r.Capacity, r.Length, r.Armed, r.Unswept = number(2), number(3), number(4) == 1, number(5)
	r.Newcomers, r.Backlog = number(7), number(10)
	r.First, r.Last, r.Head, r.Tail, r.life = first, last, head, tail, prefix
	r.Shards, r.Bytes = last-first+1, fields[3].(int64)
	if left >= 0 {
		r.TTL = max(time.Duration(min(left, mostTTL))*time.Millisecond, time.Millisecond)
	}
	switch {
	case state != "":
		r.Form = Form(state)
	case prefix == "" && r.Length > 0:
		r.Form = Plain
	case r.Backlog > 0:
		r.Form = Adopted
	default:
		r.Form = Sharded
	}
	if r.Form == Plain || r.Form == Restored {
		r.Backlog = 0
	}
	if ago := idle - time.Duration(metaTTL)*time.Millisecond; r.Armed && metaTTL > 0 && ago >= 0 {
		r.LookedAgo = ago
	}
	if first < last && number(11) == 0 { // positions count full shards
		r.ends = ends{prefix, (first+1)*r.Capacity - head, last*r.Capacity + tail}
	}
	if numbers, isQueue := fields[6].([]any); isQueue {
		r.Queue = readQueue(numbers)
	}
}

func readQueue(fields []any) *Queue {
	number := func(i int) int64 { return fields[i].(int64) }
	q := &Queue{
		Delayed: number(0), Leased: number(1), Done: number(2), Failed: number(3), Buried: number(4), Paused: number(5) == 1,
		Waits: fields[6] != "",
	}
	if id := fields[7].(string); len(id) == headSize && id[6]>>4 == 7 { // a UUID of version 7 begins with a time
		q.Oldest = time.UnixMilli(int64(binary.BigEndian.Uint64([]byte(id)) >> 16))
	}
	return q
}

// further asks for what other keys tell: the end shards of lists that are spread, and the dead of queues.
func (l *look) further() error {
	var calls []script.Call
	var readers []func(replies []script.Reply) error
	for i := range l.rows {
		row := &l.rows[i]
		if glance := l.spread[i]; glance != nil {
			at := len(calls)
			calls = append(calls, glance.Calls()...)
			readers = append(readers, func(replies []script.Reply) error { return l.readEnds(row, glance, replies[at], replies[at+1]) })
		}
		if row.Queue != nil {
			at := len(calls)
			calls = append(calls, callOf(oneslot.KeysOf(row.Name).Prefix+"dead", 0))
			readers = append(readers, func(replies []script.Reply) error { return l.readDead(row, replies[at]) })
		}
	}
	replies := l.runner.Each(l.ctx, calls)
	for _, read := range readers {
		if err := read(replies); err != nil {
			return err
		}
	}
	return nil
}

func (l *look) readDead(row *Row, reply script.Reply) error {
	if fields, ok := reply.Value.([]any); ok && len(fields) > 1 {
		if info, ok := fields[1].([]any); ok {
			row.Queue.Dead = info[3].(int64)
		}
	}
	return l.failed(row, reply.Err)
}

// readEnds reads the end shards of a list that is spread. If a pointer is about to move, the list is asked by itself.
func (l *look) readEnds(row *Row, glance *spread.Glance, first, last script.Reply) error {
	for _, reply := range []script.Reply{first, last} {
		if reply.Err != nil {
			return l.failed(row, reply.Err)
		}
	}
	info, borders, lengths, certain := glance.Read([2]any{first.Value, last.Value})
	if certain {
		row.ends = ends{fmt.Sprint(glance.Generation()), borders[0], borders[1]}
		row.Head, row.Tail = lengths[0], lengths[1]
	} else {
		row.Head, row.Tail = -1, -1
		var err error
		list := detect.New(oneslot.Config{Runner: l.runner, Name: row.Name}, 0)
		if info, err = list.Info(l.ctx); err != nil {
			return l.failed(row, err)
		}
	}
	row.Length, row.Capacity, row.Parts, row.Unswept = info.Length, info.Capacity, info.Parts, info.Unswept
	row.Shards, row.First, row.Last = info.Shards(), info.First, info.Last
	if expires := glance.Expires(); expires > 0 && row.Length > 0 {
		row.TTL = max(time.Until(time.UnixMilli(expires)), time.Millisecond)
	}
	return nil
}

// rest asks of lists that are spread what no script tells: of those that are empty whether somebody waits, and of others their memory.
func (l *look) rest(measures bool) error {
	pipe := l.runner.Client.Pipeline()
	var readers []func()
	send := func(args ...any) *script.Command {
		cmd := script.NewCommand(l.ctx, args...)
		_ = pipe.Process(l.ctx, cmd)
		return cmd
	}
	for i, glance := range l.spread {
		switch row := &l.rows[i]; {
		case row.Length == 0:
			key, field := glance.State()
			state := send("hget", key, field)
			readers = append(readers, func() {
				text, _ := state.Val().(string)
				row.Armed = spread.Waits(text)
			})
		case measures:
			var sizes []*script.Command
			for _, key := range glance.Samples(samples) {
				sizes = append(sizes, send("memory", "usage", key))
			}
			readers = append(readers, func() { row.Bytes = extrapolate(sizes, row.Shards) })
		}
	}
	if _, err := pipe.Exec(l.ctx); err != nil && err != redis.Nil && !script.IsReply(err) && !l.isElsewhere(err) {
		return err
	}
	for _, read := range readers {
		read()
	}
	return nil
}

// extrapolate returns the memory of all shards, from that of the ends and of some between.
func extrapolate(sizes []*script.Command, shards int64) int64 {
	var ends, between int64
	for i, size := range sizes {
		bytes, _ := size.Val().(int64)
		if i == 0 || i == len(sizes)-1 {
			ends += bytes
		} else {
			between += bytes
		}
	}
	return ends + between*(shards-2)/max(1, int64(len(sizes)-2))
}
