package main

import (
	"context"
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// needNetworks skips a test where there can be no network namespaces.
func needNetworks(t *testing.T) {
	if err := canIsolate(); err != nil {
		t.Skip(err)
	}
}

// A cut separates the two sides and nothing else, and heal joins them.
func TestACutPartsTwoSides(t *testing.T) {
	needNetworks(t)
	b := &harness{}
	defer b.close()
	n, err := newNetwork(b)
	require.NoError(t, err)
	var addrs []string
	for _, placement := range n.placements() {
		server := redistest.StartAt(b, redistest.Redis, []redistest.Placement{placement})
		addrs = append(addrs, server.Addr())
	}
	// reach connects from the address of a client or a node. It waits longer where the connection should succeed.
	reach := func(want bool, from string, node int) {
		t.Helper()
		patience := 300 * time.Millisecond
		if want {
			patience = time.Minute
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		host, port, err := net.SplitHostPort(addrs[node])
		require.NoError(t, err)
		argv := []string{"redis-cli", "-h", host, "-p", port, "PING"}
		for i := range n.nodes {
			if from == n.node(i) {
				err = exec.CommandContext(ctx, "nsenter", append(n.nodes[i].enter()[1:], argv...)...).Run()
				assert.Equal(t, want, err == nil, "from %s to %s: %v", from, addrs[node], err)
				return
			}
		}
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}).DialContext(ctx, "tcp", addrs[node])
		if assert.Equal(t, want, err == nil, "from %s to %s: %v", from, addrs[node], err); err == nil {
			_ = conn.Close()
		}
	}
	require.NoError(t, n.cut([]string{n.node(0), n.client(0)}))
	reach(true, n.client(0), 0)
	reach(false, n.client(0), 1)
	reach(false, n.client(1), 0)
	reach(true, n.client(1), 1)
	reach(false, n.node(0), 1)
	reach(false, n.node(1), 0)
	reach(true, n.node(1), 2)
	reach(true, n.subnet+"1", 0) // the harness
	reach(true, n.subnet+"1", 1)

	require.NoError(t, n.heal())
	reach(true, n.client(0), 1)
	reach(true, n.client(1), 0)
	reach(true, n.node(0), 1)
}

// A short run keeps all promises, and the failover undoes what a master that is cut off has done.
func TestAMasterThatIsCutOffIsReplaced(t *testing.T) {
	needNetworks(t)
	scenarios, err := selectScenarios("minority", "all", methods)
	require.NoError(t, err)
	sc := scenarios[0]
	sc.seed, sc.span, sc.out = 1, time.Second, t.TempDir()
	r, err := sc.run(t.Context())
	require.NoError(t, err)
	assert.Empty(t, r.Violation)
	assert.Positive(t, r.Faults)
	assert.Positive(t, r.Excused)
}
