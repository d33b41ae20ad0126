package queue

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/monitor"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// leaseRecord is what a server has done to the leases of a queue, by MONITOR. So it knows them at every moment, by the clock of the server.
type leaseRecord struct {
	stop   func() error
	err    error              // of a score
	times  string             // the key
	lease  int64              // in milliseconds
	begun  []int64            // when each lease began, in Unix milliseconds: by the score that the script has given it
	counts []leaseCount       // after each script that changed it
	ended  map[string]float64 // when each lease ended, in Unix seconds
	now    map[string]bool    // the members that are leased
	last   float64            // the time of the command before
}

// leaseCount is how many leases there were from a time on.
type leaseCount struct {
	from  float64 // in Unix seconds
	count int
}

// watch begins to record the leases of a queue.
func watch(t *testing.T, server *redistest.Server, q *Queue) *leaseRecord {
	t.Helper()
	r := &leaseRecord{times: q.keys.times, lease: q.lease.Milliseconds(), ended: map[string]float64{}, now: map[string]bool{}}
	var err error
	r.stop, err = monitor.Watch(nodeOf(t, server, q).Addr(), r.add)
	require.NoError(t, err)
	return r
}

// nodeOf returns the node that has the queue.
func nodeOf(t *testing.T, server *redistest.Server, q *Queue) *redistest.Server {
	t.Helper()
	if server.Kind() != redistest.Cluster {
		return server
	}
	slot, err := q.one.Client().ClusterKeySlot(t.Context(), q.keys.times).Result()
	require.NoError(t, err)
	owner, err := server.SlotOwner(t.Context(), int(slot))
	require.NoError(t, err)
	return server.Nodes()[owner]
}

// end ends the record, after all that the server has done.
func (r *leaseRecord) end(t *testing.T) {
	t.Helper()
	require.NoError(t, r.stop())
	require.NoError(t, r.err)
}

// add records a command. A lease that has ended is replaced by two commands of one script, so leases count after it.
func (r *leaseRecord) add(c monitor.Command) {
	if before := len(r.counts); !c.InScript && (before == 0 || r.counts[before-1].count != len(r.now)) {
		r.counts = append(r.counts, leaseCount{r.last, len(r.now)})
	}
	r.last = c.At
	switch {
	case len(c.Args) < 3 || c.Args[1] != r.times:
	case c.Args[0] == "ZADD":
		r.added(c.Args[2:])
	case c.Args[0] == "ZREM":
		for _, member := range c.Args[2:] {
			if r.now[member] {
				r.ended[member] = c.At
			}
			delete(r.now, member)
		}
	}
}

// added records the scores and members of a ZADD.
func (r *leaseRecord) added(pairs []string) {
	if pairs[0] == "XX" {
		pairs = pairs[1:]
	}
	for pair := range slices.Chunk(pairs, 2) {
		score, err := strconv.ParseFloat(pair[0], 64)
		if err != nil {
			r.err = err
		}
		if score < 0 && !r.now[pair[1]] {
			r.now[pair[1]] = true
			r.begun = append(r.begun, int64(-score)-r.lease)
		}
	}
}

// most returns the most leases that began within so many milliseconds.
func (r *leaseRecord) most(window int64) (most int) {
	slices.Sort(r.begun)
	for i, first := range r.begun {
		after, _ := slices.BinarySearch(r.begun, first+window)
		most = max(most, after-i)
	}
	return most
}

// mostLeased returns the most leases at any moment.
func (r *leaseRecord) mostLeased() (most int) {
	for _, l := range r.counts {
		most = max(most, l.count)
	}
	return most
}

// used returns the mean of the leases as a share of the limit, over the time from when the limit was first reached to when it was last.
func (r *leaseRecord) used(limit int) float64 {
	full := func(l leaseCount) bool { return l.count == limit }
	first := slices.IndexFunc(r.counts, full)
	var last int
	for i, l := range r.counts {
		if full(l) {
			last = i
		}
	}
	var sum float64
	for i := first; i < last; i++ {
		sum += float64(r.counts[i].count) * (r.counts[i+1].from - r.counts[i].from)
	}
	return sum / (r.counts[last].from - r.counts[first].from) / float64(limit)
}
