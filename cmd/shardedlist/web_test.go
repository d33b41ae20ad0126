package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWebServesThePageUntilItIsInterrupted(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	require.Equal(t, exitOK, run(t, server, nil, "rpush", "jobs", "one").code)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, stdout := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(ctx, []string{"--redis", server.Addr(), "web", "--listen", "127.0.0.1:0", "--host", "lists.example.com"}, nil, stdout, io.Discard)
	}()
	address, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)

	status := func(host string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSpace(address)+"/api/list?name=jobs", nil)
		require.NoError(t, err)
		r.Host = host
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		if response.StatusCode == http.StatusOK {
			assert.Contains(t, string(body), `"length":1,`)
		}
		return response.StatusCode
	}
	assert.Equal(t, http.StatusOK, status("lists.example.com"))
	assert.Equal(t, http.StatusForbidden, status("evil.example.com"))
	http.DefaultClient.CloseIdleConnections()
	interrupt()
	assert.Equal(t, exitInterrupted, <-ended)
}

// A browser cannot open http://[::], where a page that listens everywhere listens.
func TestWebPrintsAnAddressToOpen(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{":0", "0.0.0.0:0", "127.0.0.1:0", "localhost:0"} {
		listener, err := net.Listen("tcp", listen)
		require.NoError(t, err)
		assert.Regexp(t, `^http://127\.0\.0\.1:[1-9]\d*$`, pageAddress(listener), listen)
		require.NoError(t, listener.Close())
	}
}

// A host that no browser can ask for is a mistake, and not a page that refuses everybody.
func TestWebRefusesHostsThatNeverMatch(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", "lists.example.com:7380", "https://lists.example.com", "*.example.com"} {
		got := run(t, miniredis.RunT(t), nil, "web", "--listen", "127.0.0.1:0", "--host", host)
		assert.Equal(t, exitUsage, got.code, host)
		assert.Contains(t, got.err, "want a name")
	}
	assert.NoError(t, checkHosts([]string{"lists.example.com", "lists"}))
}

func TestWebWantsAPasswordToBeSeenFromElsewhere(t *testing.T) {
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:7380", "example.com:7380"} {
		for password, message := range map[string]string{"": "set a password in SHARDEDLIST_WEB_PASSWORD", "short": "is too short"} {
			t.Setenv(passwordVariable, password)
			got := run(t, miniredis.RunT(t), nil, "web", "--listen", listen)
			assert.Equal(t, exitUsage, got.code, listen)
			assert.Contains(t, got.err, message)
		}
		assert.NoError(t, checkListen(listen, "correct horse"))
	}
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", "localhost:0"} {
		assert.NoError(t, checkListen(listen, ""))
	}
	assert.Error(t, checkListen("7380", ""))
}
