package oneslot

import (
	"cmp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/session"
)

var pushBegin, pushEnd = script.LoadStep("push_begin", "push"), script.LoadStep("push_end", "push")

// Values past Lua: which pushes take three commands in a transaction, so that their values do not pass through Lua.
const (
	// asideBytes is the size from which that saves time: Lua takes 1.2 µs for each KB, and two scripts take some 10 more than one.
	asideBytes = 8 << 10
	// asideEach is the mean size of values from which it does.
	asideEach = 64
	// asideShards is how many shards such a push may fill, see commands/push_begin.lua.
	asideShards = 16
	// asideAgain is how long pushes do without it after one that a script had to do after all, so that its values were sent twice; twice
	// as long each time, up to asideRefused, as after one that the server refused.
	asideAgain   = time.Second
	asideRefused = time.Minute
)

// aside tells which pushes at an end put the shard aside.
type aside struct {
	found atomic.Int64 // how many elements the last push found
	pause atomic.Int64 // the last pause, in nanoseconds
	until atomic.Int64 // when it ends, as a Unix time in nanoseconds
}

// suitsAside tells whether a push of so many values and bytes puts the shard aside. A list that may be short has no shard.
func (e *end) suitsAside(count, bytes int) bool {
	from := cmp.Or(e.list.config.AsideFrom, max(asideBytes, asideEach*count))
	capacity := int(e.list.capacity.word().(int64))
	if capacity <= 0 {
		capacity = min(max(fewestBySize, shardBytes*count/max(1, bytes)), mostBySize)
	}
	return bytes >= from && count <= asideShards*capacity && e.aside.found.Load() > int64(capacity) && e.list.sessions.MayLeave() &&
		time.Now().UnixNano() >= e.aside.until.Load()
}

// toldAside is told how a push that put the shard aside went. One whose outcome is unknown is sent again as usual, as one that was not run.
func (e *end) toldAside(err error) {
	if err == nil {
		if e.aside.pause.Load() != 0 { // which all read
			e.aside.pause.Store(0)
		}
		return
	}
	pause := min(max(cmp.Or(e.list.config.AsideAgain, asideAgain), 2*time.Duration(e.aside.pause.Load())), asideRefused)
	if script.IsReply(err) && !script.IsTransient(err) {
		pause = asideRefused
	}
	e.aside.pause.Store(int64(pause))
	e.aside.until.Store(time.Now().Add(pause).UnixNano())
}

// countPush is countPushed for a push at the end, which it takes into account.
func (e *end) countPush(op *session.Operation, reply any) int {
	pushed := countPushed(op, reply)
	length, _ := reply.(int64)
	e.aside.found.Store(length - int64(pushed))
	return pushed
}

// pushAside is how values of so many bytes are pushed at the end without passing through Lua.
func (e *end) pushAside(values []any, bytes int) *session.Aside {
	begin, end := e.asideScript(pushBegin, len(values)), e.asideScript(pushEnd, len(values))
	begin.Append(bytes, e.list.capacity.word())
	return &session.Aside{Begin: begin, End: end, Command: strings.ToLower(string(e.side)) + "pushx", Values: values, Told: e.toldAside}
}

func (e *end) asideScript(s *script.Script, count int) session.Operation {
	op := e.list.operation(s, 2)
	op.Append(e.word, count)
	return op
}
