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
	// asideAgain is how long pushes do without it after one that a script had to do after all: so its values were sent twice.
	asideAgain = time.Second
	// asideRefused is the same for one that the server refused.
	asideRefused = time.Minute
)

// aside tells which pushes at an end put the shard aside.
type aside struct {
	had  atomic.Bool  // the list had elements when the last push came: else there is no shard
	from atomic.Int64 // when to try it, as a Unix time in nanoseconds
}

func (e *end) suitsAside(bytes int) bool {
	return bytes >= cmp.Or(e.list.config.AsideFrom, asideBytes) && e.aside.had.Load() && e.list.sessions.MayLeave() &&
		time.Now().UnixNano() >= e.aside.from.Load()
}

// countPush is countPushed for a push at the end, which it takes into account.
func (e *end) countPush(op *session.Operation, reply any) int {
	pushed := countPushed(op, reply)
	length, _ := reply.(int64)
	if had := length > int64(pushed); had != e.aside.had.Load() { // which all read
		e.aside.had.Store(had)
	}
	return pushed
}

// notAside is told that a push was sent as usual, and why.
func (e *end) notAside(cause error) {
	wait := cmp.Or(e.list.config.AsideAgain, asideAgain)
	if script.IsReply(cause) {
		wait = asideRefused
	}
	e.aside.from.Store(time.Now().Add(wait).UnixNano())
}

// pushAside is how values are pushed at the end without passing through Lua.
func (e *end) pushAside(values []any) *session.Aside {
	begin, end := e.asideScript(pushBegin, len(values)), e.asideScript(pushEnd, len(values))
	return &session.Aside{Begin: begin, End: end, Command: strings.ToLower(string(e.side)) + "pushx", Values: values, NotRun: e.notAside}
}

func (e *end) asideScript(s *script.Script, count int) session.Operation {
	op := e.list.operation(s, 2)
	op.Append(e.word, count)
	return op
}
