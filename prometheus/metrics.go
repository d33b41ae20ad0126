package shardedlistprom

import (
	"time"

	"github.com/shardedlist/shardedlist"
)

// metric says where a metric gets its values from.
type metric struct {
	name, help string
	gauge      bool   // else a counter
	label      string // beside that of the list, or empty
	values     func(shardedlist.Stats) []value
	batches    func(shardedlist.Stats) shardedlist.Batches // set for a histogram, instead
}

// value is that of a metric, for a value of its label.
type value struct {
	label  string
	number float64
}

// metrics are all that a collector has of a list.
var metrics = []metric{
	{name: "shardedlist_operations_total", label: "operation", values: operations,
		help: "Operations sent to the server, each counted once, by kind."},
	{name: "shardedlist_repeats_total", values: number(func(s shardedlist.Stats) int64 { return s.Repeats }),
		help: "Operations sent again, because a reply was lost or the server could not serve them for the moment."},
	{name: "shardedlist_outcomes_unknown_total", values: number(func(s shardedlist.Stats) int64 { return s.OutcomesUnknown }),
		help: "Calls that failed with ErrOutcomeUnknown."},
	{name: "shardedlist_pushed_elements_total", values: number(func(s shardedlist.Stats) int64 { return s.Pushed }),
		help: "Elements that pushes have added."},
	{name: "shardedlist_popped_elements_total", values: number(func(s shardedlist.Stats) int64 { return s.Popped }),
		help: "Elements that pops have taken."},
	{name: "shardedlist_moved_elements_total", values: number(func(s shardedlist.Stats) int64 { return s.Moved }),
		help: "Elements that moves have taken from the list."},
	{name: "shardedlist_put_back_elements_total", values: number(func(s shardedlist.Stats) int64 { return s.PutBack }),
		help: "Popped elements that went back to the list because no caller took them."},
	{name: "shardedlist_batch_calls", batches: func(s shardedlist.Stats) shardedlist.Batches { return s.Batches },
		help: "Calls that share one operation."},
	{name: "shardedlist_searches_at_once_total", values: number(func(s shardedlist.Stats) int64 { return s.SearchesAtOnce }),
		help: "Searches of long lists that could not be done in steps."},
	{name: "shardedlist_waiting_callers", gauge: true, values: number(func(s shardedlist.Stats) int64 { return s.Waiting }),
		help: "Callers that are blocked now, waiting for elements."},
	{name: "shardedlist_waits_total", values: number(func(s shardedlist.Stats) int64 { return s.Waits }),
		help: "Callers that have waited for elements and wait no longer."},
	{name: "shardedlist_wait_seconds_total", values: seconds(func(s shardedlist.Stats) time.Duration { return s.WaitTime }),
		help: "Time for which callers have waited for elements."},
	{name: "shardedlist_wakeups_total", values: number(func(s shardedlist.Stats) int64 { return s.WakeUps }),
		help: "Waits that a push has ended."},
	{name: "shardedlist_blocked_connections", gauge: true, values: number(func(s shardedlist.Stats) int64 { return s.Blocked }),
		help: "Connections that are blocked now, waiting for elements."},
	{name: "shardedlist_listening_waits", gauge: true, values: number(func(s shardedlist.Stats) int64 { return s.Listening }),
		help: "Waits for elements beyond those, for which one connection has subscribed."},
	{name: "shardedlist_server_seconds_total", values: seconds(func(s shardedlist.Stats) time.Duration { return s.ServerTime }),
		help: "Time for which replies of the server were waited, but for those of blocking commands."},
}

func number(get func(shardedlist.Stats) int64) func(shardedlist.Stats) []value {
	return func(s shardedlist.Stats) []value { return []value{{number: float64(get(s))}} }
}

func seconds(get func(shardedlist.Stats) time.Duration) func(shardedlist.Stats) []value {
	return func(s shardedlist.Stats) []value { return []value{{number: get(s).Seconds()}} }
}

func operations(s shardedlist.Stats) []value {
	o := s.Operations
	return []value{
		{"push", float64(o.Push)}, {"pop", float64(o.Pop)}, {"blocking_pop", float64(o.BlockingPop)}, {"move", float64(o.Move)},
		{"read", float64(o.Read)}, {"edit", float64(o.Edit)}, {"script", float64(o.Script)}, {"job", float64(o.Job)},
		{"other", float64(o.Other)},
	}
}
