package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]redis.Options{
		"redis://127.0.0.1:6379":         {Network: "tcp", Addr: "127.0.0.1:6379"},
		"redis://host":                   {Network: "tcp", Addr: "host:6379"},
		"host:1234":                      {Network: "tcp", Addr: "host:1234"},
		"redis://ada:secret@host:1234/5": {Network: "tcp", Addr: "host:1234", Username: "ada", Password: "secret", DB: 5},
		"redis://:p%40ss,word@host":      {Network: "tcp", Addr: "host:6379", Password: "p@ss,word"},
		"unix://ada:secret@/s.sock?db=5": {Network: "unix", Addr: "/s.sock", Username: "ada", Password: "secret", DB: 5},
		"/run/redis.sock":                {Network: "unix", Addr: "/run/redis.sock"},
	} {
		rdb, err := newClient(address)
		require.NoError(t, err, address)
		got := rdb.(*redis.Client).Options()
		assert.Equal(t, want, redis.Options{Network: got.Network, Addr: got.Addr, Username: got.Username, Password: got.Password, DB: got.DB})
		assert.Nil(t, got.TLSConfig)
		require.NoError(t, rdb.Close())
	}

	tls, err := newClient("rediss://host:1234")
	require.NoError(t, err)
	assert.Equal(t, "host", tls.(*redis.Client).Options().TLSConfig.ServerName)
	require.NoError(t, tls.Close())

	for _, address := range []string{"a:1,b:2,c:3", "redis://a:1?addr=b:2&addr=c:3"} {
		rdb, err := newClient(address)
		require.NoError(t, err, address)
		assert.Equal(t, []string{"a:1", "b:2", "c:3"}, rdb.(*redis.ClusterClient).Options().Addrs)
		require.NoError(t, rdb.Close())
	}
}

func TestWrongAddresses(t *testing.T) {
	t.Parallel()
	for address, message := range map[string]string{
		"http://host":             "invalid server address: invalid URL scheme: http",
		"redis://host/five":       `invalid server address: invalid database number: "five"`,
		"redis://host?colour=red": "invalid server address: unexpected option: colour",
		"redis://ada:sec%ret@host": "invalid server address: want a URL like redis://user:password@host:6379/0, " +
			"with special bytes as %XX",
	} {
		got := <-start(t.Context(), nil, "llen", "l", "--redis", address)
		assert.Equal(t, result{exitUsage, "", "shardedlist: " + message + "\n"}, got)
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	for _, command := range []string{"llen l", "blpop l", "rpush l a", "demo"} {
		got := <-start(t.Context(), nil, append(strings.Fields(command), "--redis", "redis://:secret@"+address)...)
		assert.Equal(t, exitFailure, got.code)
		assert.Empty(t, got.out)
		assert.Regexp(t, `^shardedlist: cannot connect to `+address+`: .*refused.*; choose another server with --redis or REDIS_URL\n$`, got.err)
	}
	got := <-start(t.Context(), nil, "llen", "l", "--redis", filepath.Join(t.TempDir(), "none.sock"))
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, `^shardedlist: cannot connect to /.*none.sock: .*; choose another.*\n$`, got.err)
}

func TestPassword(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	server.RequireUserAuth("ada", "secret")
	for user, code := range map[string]string{"": "NOAUTH", "ada:wrong@": "WRONGPASS", "bob:secret@": "WRONGPASS"} {
		got := <-start(t.Context(), nil, "llen", "l", "--redis", "redis://"+user+server.Addr())
		assert.Equal(t, exitFailure, got.code)
		assert.Empty(t, got.out)
		assert.Regexp(t, `^shardedlist: `+server.Addr()+`: `+code+` .* Set them with redis://user:password@host\n$`, got.err)
	}
	got := <-start(t.Context(), nil, "llen", "l", "--redis", "redis://ada:secret@"+server.Addr())
	assert.Equal(t, result{exitOK, "0\n", ""}, got)
}

func TestDatabase(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	got := <-start(t.Context(), nil, "rpush", "l", "a", "--redis", "redis://"+server.Addr()+"/3")
	assert.Equal(t, result{exitOK, "1\n", ""}, got)
	assert.Empty(t, server.DB(0).Keys())
	assert.NotEmpty(t, server.DB(3).Keys())
}

func TestUnixSocket(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "") // T.TempDir's paths can be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "redis.sock")
	redistest.Start(t, redistest.Redis, "unixsocket "+socket)
	for _, address := range []string{socket, "unix://" + socket} {
		got := <-start(t.Context(), nil, "llen", "l", "--redis", address)
		assert.Equal(t, result{exitOK, "0\n", ""}, got)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Shared(t, redistest.Cluster)
	addresses := append(cluster.Addrs(), cluster.URL(), strings.Join(cluster.Addrs(), ","))
	for _, address := range addresses {
		for _, list := range []string{"a", "b", "c", "d", "e"} { // on different nodes
			list = t.Name() + list
			run := func(args ...string) result {
				return <-start(t.Context(), nil, append(args, "--redis", address)...)
			}
			assert.Equal(t, result{exitOK, "2\n", ""}, run("rpush", list, "one", "two"))
			assert.Equal(t, result{exitOK, "one\n", ""}, run("blpop", list))
			assert.Equal(t, result{exitOK, "ok\n", ""}, run("check", list))
			assert.Equal(t, result{exitOK, "1\n", ""}, run("del", list))
		}
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	address := redistest.Shared(t, redistest.Sentinel).URL()
	for _, command := range [][]string{{"rpush", t.Name(), "a"}, {"del", t.Name()}} {
		got := <-start(t.Context(), nil, append(command, "--redis", address)...)
		assert.Equal(t, result{exitOK, "1\n", ""}, got)
	}
}

func TestAddressFromTheEnvironment(t *testing.T) {
	server := miniredis.RunT(t)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	got := <-start(t.Context(), nil, "rpush", "l", "a")
	assert.Equal(t, result{exitOK, "1\n", ""}, got)
	assert.NotEmpty(t, server.Keys())
}
