package stats

import "strings"

// Kind is a kind of operation.
type Kind uint8

// The kinds.
const (
	Other Kind = iota // the library's own, such as to unlink shards
	Push
	Pop
	BlockingPop // a pop for callers that wait
	Move
	Read
	Edit
	Script // of the user's
	Job    // of package queue
	Kinds
)

// kinds has the scripts that are not the library's own business.
var kinds = map[string]Kind{
	"push": Push, "push_begin": Push, "push_end": Push, "spread_push": Push,
	"pop": Pop, "lmpop": Pop, "spread_pop": Pop,
	"lmove": Move,
	"llen":  Read, "lindex": Read, "lrange": Read, "lpos": Read, "scan": Read, "ttl": Read, "object": Read, "memory": Read, "info": Read,
	"spread_look": Read, "spread_pos": Read, "survey": Read,
	"lset": Edit, "linsert": Edit, "lrem": Edit, "ltrim": Edit, "on_key": Edit, "del": Edit, "keys": Edit, "expire": Edit, "rename": Edit, "copy": Edit, "adopt": Edit, "restore": Edit,
	"spread_set": Edit, "spread_delete": Edit, "spread_expire": Edit,
	"script": Script,
}

// KindOf returns the kind of an operation by the name of its script.
func KindOf(script string) Kind {
	if strings.HasPrefix(script, "queue_") {
		return Job
	}
	return kinds[script]
}
