package survey

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Metric is a metric of Prometheus that has samples of lists. The label "list" is the name of the list, see Label; there may be one more.
type Metric struct {
	Name    string
	Help    string
	Counter bool   // else a gauge
	Label   string // the other label, or empty
	// Samples are the values of a list, by that of the other label, or by "" if there is none. A list may have none.
	Samples func(Row) []Sample
}

// Sample is a value of a metric.
type Sample struct {
	Label string
	Value float64
}

// StrayShards is the metric that lists have in a second row, see Row.Again.
const StrayShards = "shardedlist_list_stray_shards"

// Metrics are those of lists, from the side of the servers. Whoever exports them surveys the lists first.
var Metrics = []Metric{
	{Name: "shardedlist_list_up", Help: "1 if the list could be read, 0 if it is broken, or its cluster slot moves.",
		Samples: func(r Row) []Sample { return flag(r.Err == nil) }},
	{Name: "shardedlist_list_form", Help: "1 for the form in which the list is stored.", Label: "form",
		Samples: func(r Row) []Sample { return []Sample{{string(r.Form), 1}} }},
	{Name: "shardedlist_list_length", Help: "Elements in the list.", Samples: readable(func(r Row) int64 { return r.Length })},
	{Name: "shardedlist_list_shards", Help: "Shards, the Redis lists that hold the elements.",
		Samples: readable(func(r Row) int64 { return r.Shards })},
	{Name: "shardedlist_list_capacity", Help: "Elements in a full shard, 0 if the list is empty or plain.",
		Samples: readable(func(r Row) int64 { return r.Capacity })},
	{Name: "shardedlist_list_memory_bytes", Help: "Memory of the shards, estimated from a few of them.",
		Samples: readable(func(r Row) int64 { return r.Bytes })},
	{Name: "shardedlist_list_backlog_elements", Help: "Elements of a plain list that was taken over, which are not in shards yet.",
		Samples: readable(func(r Row) int64 { return r.Backlog })},
	{Name: "shardedlist_list_newcomer_elements", Help: "Elements at the plain key beside the list, which its next operation takes in.",
		Samples: readable(func(r Row) int64 { return r.Newcomers })},
	{Name: "shardedlist_list_unswept_shards", Help: "Shards that were deleted and are not unlinked yet, at the most.",
		Samples: readable(func(r Row) int64 { return r.Unswept })},
	{Name: StrayShards, Help: "Shards that no meta knows, of lists that have lost some: see shardedlist repair.", Samples: strays},
	{Name: "shardedlist_list_armed", Help: "1 if the list is empty and a consumer has begun to wait.",
		Samples: func(r Row) []Sample { return flag(r.Armed) }},
	{Name: "shardedlist_list_ttl_seconds", Help: "Time until the list expires, of lists that do.", Samples: ttl},
	{Name: "shardedlist_queue_jobs", Help: "Jobs of the queue that are waiting, delayed, leased or dead.", Label: "state", Samples: jobs},
	{Name: "shardedlist_queue_oldest_wait_seconds", Help: "Time since the next job of the queue was pushed, 0 if none waits.", Samples: oldest},
	{Name: "shardedlist_queue_paused", Help: "1 if the consumers take no jobs.",
		Samples: ofQueue(func(r Row) []Sample { return flag(r.Queue.Paused) })},
	{Name: "shardedlist_queue_done_total", Help: "Jobs that were done.", Counter: true,
		Samples: ofQueue(func(r Row) []Sample { return number(r.Queue.Done) })},
	{Name: "shardedlist_queue_failed_total", Help: "Attempts that failed, but for those after which a job was dead.", Counter: true,
		Samples: ofQueue(func(r Row) []Sample { return number(r.Queue.Failed) })},
	{Name: "shardedlist_queue_buried_total", Help: "Jobs that became dead.", Counter: true,
		Samples: ofQueue(func(r Row) []Sample { return number(r.Queue.Buried) })},
}

func number(n int64) []Sample { return []Sample{{"", float64(n)}} }

func flag(is bool) []Sample {
	if is {
		return number(1)
	}
	return number(0)
}

// readable are the samples of lists that can be read.
func readable(value func(Row) int64) func(Row) []Sample {
	return func(r Row) []Sample {
		if r.Err != nil {
			return nil
		}
		return number(value(r))
	}
}

// ofQueue are the samples of queues.
func ofQueue(samples func(Row) []Sample) func(Row) []Sample {
	return func(r Row) []Sample {
		if r.Queue == nil {
			return nil
		}
		return samples(r)
	}
}

func ttl(r Row) []Sample {
	if r.TTL == 0 {
		return nil
	}
	return []Sample{{"", r.TTL.Seconds()}}
}

func strays(r Row) []Sample {
	if r.Strays == 0 {
		return nil
	}
	return number(r.Strays)
}

func jobs(r Row) []Sample {
	if r.Queue == nil {
		return nil
	}
	return []Sample{
		{"waiting", float64(r.Length)}, {"delayed", float64(r.Queue.Delayed)}, {"leased", float64(r.Queue.Leased)},
		{"dead", float64(r.Queue.Dead)},
	}
}

// oldest leaves out a queue whose next job does not tell when it was pushed.
func oldest(r Row) []Sample {
	switch {
	case r.Queue == nil, r.Length > 0 && r.Queue.Oldest.IsZero():
		return nil
	case r.Length == 0:
		return number(0)
	}
	return []Sample{{"", max(0, r.At.Sub(r.Queue.Oldest)).Seconds()}}
}

// Label returns a name as the value of a label, which must be UTF-8. A name that is not, or that could be taken for such a one, is quoted
// as in Go.
func Label(name string) string {
	if utf8.ValidString(name) && !strings.HasPrefix(name, `"`) {
		return name
	}
	return strconv.Quote(name)
}

// ContentType is the type of what WriteMetrics writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// WriteMetrics writes the metrics of lists in the text format of Prometheus.
func WriteMetrics(w io.Writer, rows []Row) error {
	out := bufio.NewWriter(w)
	for _, m := range Metrics {
		kind := "gauge"
		if m.Counter {
			kind = "counter"
		}
		fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", m.Name, helpEscaper.Replace(m.Help), m.Name, kind)
		for _, row := range rows {
			for _, s := range m.Samples(row) {
				fmt.Fprintf(out, `%s{list="%s"`, m.Name, labelEscaper.Replace(Label(row.Name)))
				if m.Label != "" {
					fmt.Fprintf(out, `,%s="%s"`, m.Label, labelEscaper.Replace(s.Label))
				}
				fmt.Fprintf(out, "} %s\n", strconv.FormatFloat(s.Value, 'g', -1, 64))
			}
		}
	}
	return out.Flush()
}

var (
	helpEscaper  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)
