package shardedlist

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/stats"
)

// Stats are counters of what one ShardedList, or one Hook, has done since it was created. Only Waiting, Blocked and Listening can decrease. Other processes and
// other handles have their own. docs/metrics.md says what to alert on.
type Stats struct {
	// Operations are the scripts that were sent to the server, each counted once, however often it was sent.
	Operations Operations
	// Repeats counts the operations that were sent again, because the reply was lost, or because the server could not serve them for
	// the moment. It does not count what go-redis repeats by itself, such as reads after a lost connection.
	Repeats int64
	// OutcomesUnknown counts the calls that failed with ErrOutcomeUnknown.
	OutcomesUnknown int64

	// Pushed and Popped count the elements that pushes and pops have added and taken, also for callers that had given up. Moved counts
	// those of moves, at the list that they came from. What edits and scripts of yours add and remove is not counted.
	Pushed, Popped, Moved int64
	// PutBack counts the popped elements that went back to the list, since no caller took them. They are among Popped, not among Pushed.
	PutBack int64

	// Batches are the pushes and pops by the number of calls that shared one.
	Batches Batches

	// SearchesAtOnce is the number of searches of long lists, by LPos, LRem and LInsert, and of copies, that were one long step on the server, because
	// others changed the list too fast, or because the user must not write.
	SearchesAtOnce int64

	// Waiting is the number of callers that are blocked now, in BLPop and the like.
	Waiting int64
	// Waits counts the callers that were, and WaitTime adds up how long.
	Waits    int64
	WaitTime time.Duration
	// WakeUps counts the waits that a push has ended. Callers that wait at one end of a list share one.
	WakeUps int64
	// Blocked is the number of connections on which waits block now, at most eight for a client on one server. Listening is the number of
	// waits beyond, for which one connection has subscribed.
	Blocked, Listening int64

	// ServerTime adds up the time for which replies were waited, those to pipelines of the Hook's client and to blocking commands not
	// included.
	ServerTime time.Duration
}

// Operations are numbers of operations by kind.
type Operations struct {
	Push        int64 // RPush, LPushX and the like
	Pop         int64 // LPop, RPopCount, LMPop and the like, and BLPop while the list has elements for all
	BlockingPop int64 // pops for callers that wait, repeated every other second while they do
	Move        int64 // LMove, BLMoveM and the like
	Read        int64 // LLen, LIndex, LRange, LPos, TTL, Info and the like
	Edit        int64 // LSet, LInsert, LRem, LTrim, Expire, Rename, Del and the like
	Script      int64 // scripts of yours
	Job         int64 // of package queue
	Other       int64 // of the library's own, such as to unlink shards
}

// Batches are how many calls shared an operation. A call that was alone is a batch of one.
type Batches struct {
	Count int64 // of batches
	Calls int64 // in all of them
	Sizes []BatchSize
}

// BatchSize is a class of a histogram.
type BatchSize struct {
	Most  int64 // calls in a batch
	Count int64 // of batches with no more than that
}

// Stats returns the counters of this handle: what its methods have done, also in the background. It sends nothing.
//
// Lists that are renamed or copied keep what was counted. A list of package queue counts the jobs' operations: see [Operations].
func (l *ShardedList) Stats() Stats { return statsOf(l.list.Stats().Counters) }

// Stats returns the counters of the hook: the sums over all lists that it has made, also those that it no longer keeps. It sends nothing.
func (h *Hook) Stats() Stats { return statsOf(h.counters) }

func statsOf(c *stats.Counters) Stats {
	s := Stats{
		Operations: Operations{
			Push:        c.Operations[stats.Push].Load(),
			Pop:         c.Operations[stats.Pop].Load(),
			BlockingPop: c.Operations[stats.BlockingPop].Load(),
			Move:        c.Operations[stats.Move].Load(),
			Read:        c.Operations[stats.Read].Load(),
			Edit:        c.Operations[stats.Edit].Load(),
			Script:      c.Operations[stats.Script].Load(),
			Job:         c.Operations[stats.Job].Load(),
			Other:       c.Operations[stats.Other].Load(),
		},
		Repeats:         c.Repeats.Load(),
		SearchesAtOnce:  c.AtOnce.Load(),
		OutcomesUnknown: c.Lost.Load(),
		Pushed:          c.Pushed.Load(),
		Popped:          c.Popped.Load(),
		Moved:           c.Moved.Load(),
		PutBack:         c.PutBack.Load(),
		Waiting:         c.Waiting.Load(),
		Waits:           c.Waits.Load(),
		WaitTime:        time.Duration(c.WaitTime.Load()),
		WakeUps:         c.WakeUps.Load(),
		Blocked:         c.Blocked.Load(),
		Listening:       c.Listening.Load(),
		ServerTime:      time.Duration(c.ServerTime.Load()),
		Batches:         Batches{Calls: c.Calls.Load(), Sizes: make([]BatchSize, len(stats.BatchSizes))},
	}
	for class := range c.Batches {
		s.Batches.Count += c.Batches[class].Load()
		if class < len(s.Batches.Sizes) {
			s.Batches.Sizes[class] = BatchSize{Most: stats.BatchSizes[class], Count: s.Batches.Count}
		}
	}
	return s
}

// CommandInfo tells a go-redis hook of yours, such as one that traces or logs, what a command that it sees is for: the name of the list,
// and the operation, such as "push". Either is empty if there is none; both are for a command that is not the library's.
//
// What the library sends is FCALL or EVALSHA, mostly. Its FullName is "shardedlist.push" or the like, by which redisotel and others name spans.
func CommandInfo(cmd redis.Cmder) (list, operation string) {
	switch ours := cmd.(type) {
	case *script.Command:
		return ours.About()
	case script.Carried:
		return ours.About()
	}
	return "", ""
}
