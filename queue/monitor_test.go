package queue

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// monitor reads from a server, by MONITOR, what it does to the leases of a queue. So it knows them at every moment, by the clock of the
// server.
type monitor struct {
	conn     net.Conn
	finished chan struct{}
	err      error // of reading

	times  string             // the key
	lease  int64              // in milliseconds
	begun  []int64            // when each lease began, in Unix milliseconds: by the score that the script has given it
	counts []leaseCount       // after each script that changed it
	ended  map[string]float64 // when each lease ended, in Unix seconds
	now    map[string]bool    // the members that are leased
	last   float64            // the time of the line before
}

// leaseCount is how many leases there were from a time on.
type leaseCount struct {
	from  float64 // in Unix seconds
	count int
}

// watch begins to record the leases of a queue.
func watch(t *testing.T, server *redistest.Server, q *Queue) *monitor {
	t.Helper()
	m := &monitor{finished: make(chan struct{}), times: q.keys.times, lease: q.lease.Milliseconds(),
		ended: map[string]float64{}, now: map[string]bool{}}
	var err error
	m.conn, err = net.Dial("tcp", nodeOf(t, server, q).Addr())
	require.NoError(t, err)
	_, err = m.conn.Write([]byte("MONITOR\r\n"))
	require.NoError(t, err)
	lines := bufio.NewScanner(m.conn)
	lines.Buffer(nil, 1<<20)
	require.True(t, lines.Scan())
	require.Equal(t, "+OK", lines.Text())
	go func() {
		defer close(m.finished)
		for lines.Scan() && m.err == nil {
			m.err = m.add(lines.Text())
			if strings.Contains(lines.Text(), endOfWatch) {
				return
			}
		}
		if m.err == nil {
			m.err = fmt.Errorf("the server has ended it: %v", lines.Err())
		}
	}()
	t.Cleanup(func() {
		_ = m.conn.Close()
		<-m.finished
	})
	return m
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

const endOfWatch = "the end of the watch"

// end ends the recording, after all that the server has done.
func (m *monitor) end(t *testing.T, q *Queue) {
	t.Helper()
	require.NoError(t, q.one.Client().Set(t.Context(), "{"+q.Name()+"}", endOfWatch, time.Minute).Err())
	<-m.finished
	require.NoError(t, m.err)
}

// add records one line, such as
//
//	+1690000000.123456 [0 lua] "ZADD" "times" "-1690000030123" "member"
//
// Those of a script follow the call of it. A lease that has ended is replaced by two commands of one script.
func (m *monitor) add(line string) error {
	stamp, rest, _ := strings.Cut(strings.TrimPrefix(line, "+"), " ")
	client, command, _ := strings.Cut(rest, "] ")
	at, err := strconv.ParseFloat(stamp, 64)
	if err != nil {
		return err
	}
	if before := len(m.counts); !strings.HasSuffix(client, " lua") && (before == 0 || m.counts[before-1].count != len(m.now)) {
		m.counts = append(m.counts, leaseCount{m.last, len(m.now)})
	}
	m.last = at
	args, err := unquoted(command)
	switch {
	case err != nil || len(args) < 2 || args[1] != m.times:
		return err
	case args[0] == "ZADD":
		return m.added(args[2:])
	case args[0] == "ZREM":
		for _, member := range args[2:] {
			if m.now[member] {
				m.ended[member] = at
			}
			delete(m.now, member)
		}
	}
	return nil
}

// added records the scores and members of a ZADD.
func (m *monitor) added(pairs []string) error {
	if pairs[0] == "XX" {
		pairs = pairs[1:]
	}
	for pair := range slices.Chunk(pairs, 2) {
		score, err := strconv.ParseFloat(pair[0], 64)
		if err != nil {
			return err
		}
		if score < 0 && !m.now[pair[1]] {
			m.now[pair[1]] = true
			m.begun = append(m.begun, int64(-score)-m.lease)
		}
	}
	return nil
}

// unquoted returns the words of a command, as MONITOR quotes them.
func unquoted(command string) (words []string, err error) {
	for command != "" && err == nil {
		var quoted, word string
		if quoted, err = strconv.QuotedPrefix(command); err == nil {
			word, err = strconv.Unquote(quoted)
			words, command = append(words, word), strings.TrimPrefix(command[len(quoted):], " ")
		}
	}
	return words, err
}

// most returns the most leases that began within so many milliseconds.
func (m *monitor) most(window int64) (most int) {
	slices.Sort(m.begun)
	for i, first := range m.begun {
		after, _ := slices.BinarySearch(m.begun, first+window)
		most = max(most, after-i)
	}
	return most
}

// mostLeased returns the most leases at any moment.
func (m *monitor) mostLeased() (most int) {
	for _, l := range m.counts {
		most = max(most, l.count)
	}
	return most
}

// used returns the mean of the leases as a share of the limit, over the time from when the limit was first reached to when it was last.
func (m *monitor) used(limit int) float64 {
	full := func(l leaseCount) bool { return l.count == limit }
	first := slices.IndexFunc(m.counts, full)
	var last int
	for i, l := range m.counts {
		if full(l) {
			last = i
		}
	}
	var sum float64
	for i := first; i < last; i++ {
		sum += float64(m.counts[i].count) * (m.counts[i+1].from - m.counts[i].from)
	}
	return sum / (m.counts[last].from - m.counts[first].from) / float64(limit)
}
