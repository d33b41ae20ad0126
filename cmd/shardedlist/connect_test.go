package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
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
		rdb, _, err := newClient("--redis", address)
		require.NoError(t, err, address)
		got := rdb.(*redis.Client).Options()
		assert.Equal(t, want, redis.Options{Network: got.Network, Addr: got.Addr, Username: got.Username, Password: got.Password, DB: got.DB})
		assert.Nil(t, got.TLSConfig)
		require.NoError(t, rdb.Close())
	}

	tls, _, err := newClient("--redis", "rediss://host:1234")
	require.NoError(t, err)
	assert.Equal(t, "host", tls.(*redis.Client).Options().TLSConfig.ServerName)
	require.NoError(t, tls.Close())

	for _, address := range []string{"a:1,b:2,c:3", "redis://a:1?addr=b:2&addr=c:3"} {
		rdb, hosts, err := newClient("--redis", address)
		require.NoError(t, err, address)
		assert.Equal(t, "a:1,b:2,c:3", hosts)
		assert.Equal(t, []string{"a:1", "b:2", "c:3"}, rdb.(*redis.ClusterClient).Options().Addrs)
		require.NoError(t, rdb.Close())
	}
}

// No part of an address that is not understood is ever printed: it may be a password. One that is understood shows its hosts only.
func TestPasswordsOfWrongAddressesAreNotPrinted(t *testing.T) {
	const password = "hunter2"
	for _, address := range []string{
		"http://ada:hunter2@host",
		"hunter2://host",
		"ada:hunter2@h1:1,ada:hunter2@h2:2",
		"h1:1,hunter2@h2:2",
		"h1:1,h2:2/hunter2",
		"h1:1/hunter2,h2:2",
		"redis://ada:4711/hunter2?addr=h2:2",
		"h1:1,",
		"redis//:hunter2@h",
		"redis:/:hunter2@h",
		"redis:///:hunter2@h",
		"redis:ada:hunter2@h://",
		"redis://ada:hunter2@h1:1,redis://ada:hunter2@h2:2",
		"redis://ada:x@h1:1 redis://ada:hunter2@h2:2",
		"redis://ada:x@h1:1;redis://ada:hunter2@h2:2",
		"redis://h1:1?addr=ada:hunter2@h2:2",
		"redis://h1:1?addr=ada%3Ahunter2%40h2:2",
		"redis://h1:1?addr=hunter2%40h2:2",
		"redis://h1:1?addr=hunter2@h2:2&master_name=m",
		"redis://ada:sec%hunter2@host",
		"redis://:47/hunter2@host",
		"redis://:47/11@host",
		"redis://:47?hunter2@host",
		"redis://:47?x;hunter2@host",
		"redis://:47#hunter2@host",
		"redis://:47/1#hunter2",
		"redis://host/hunter2",
		"redis://host?db=hunter2",
		"redis://host?hunter2=1",
		"redis://host?read_timeout=hunter2",
		"redis://host?a=1;hunter2=2",
		"redis://host:hunter2",
		"redis://ada:hunter2",
		"ada:hunter2",
		"redis://ho st:1/hunter2",
		"redis://[hunter2@h]:1",
		"unix://hunter2",
		"unix://hunter2/s.sock",
		"unix:///:hunter2@h/s.sock",
		"unix:///s.sock?db=hunter2",
		"/s.sock@hunter2",
		"redis://\x00:hunter2@host",
	} {
		t.Run(address, func(t *testing.T) {
			for source, run := range map[string]func() result{
				"--redis":   func() result { return <-start(t.Context(), nil, "llen", "l", "--redis", address) },
				"REDIS_URL": func() result { return <-start(t.Context(), nil, "llen", "l") },
			} {
				if source == "REDIS_URL" && strings.Contains(address, "\x00") {
					continue // not possible in a variable
				}
				if source == "REDIS_URL" {
					t.Setenv(source, address)
				}
				assert.Equal(t, result{exitUsage, "", "shardedlist: " + source + " is no server address: want " +
					"redis://USER:PASSWORD@HOST:PORT/DATABASE, with special bytes as %XX, or another form in shardedlist --help\n"}, run())
			}
		})
	}
	// Any single slip, in any of the forms, keeps the password out of what is shown.
	for _, address := range []string{
		"redis://ada:PW@1.1.1.1:1/5?protocol=3", "rediss://:PW@[::1]:7", "ada:PW@1.1.1.1", "ada:PW@1.1.1.1:1,2.2.2.2:2",
		"redis://ada:PW@1.1.1.1:1?addr=2.2.2.2:2", "redis://:PW@1.1.1.1:1?master_name=m", "redis://1.1.1.1:1?master_name=m&password=PW", "unix://ada:PW@/run/s.sock?db=5",
	} {
		for _, secret := range []string{password, "47110815"} {
			right := strings.ReplaceAll(address, "PW", secret)
			assert.NotContains(t, shown(t, right), secret)
			for i := range right {
				for _, wrong := range slips(right, i) {
					assert.NotContains(t, shown(t, wrong), secret, wrong)
				}
			}
		}
	}
}

// shown is what messages show of an address.
func shown(t *testing.T, address string) string {
	rdb, hosts, err := newClient("--redis", address)
	if err != nil {
		return err.Error()
	}
	require.NoError(t, rdb.Close())
	return hosts
}

// slips are the addresses that differ at that byte: without it, or with another one there or before it.
func slips(address string, at int) []string {
	wrong := []string{address[:at] + address[at+1:]}
	for _, other := range ":/@?#&;,%[] " {
		wrong = append(wrong, address[:at]+string(other)+address[at+1:], address[:at]+string(other)+address[at:])
	}
	return wrong
}

// An address in the place of another argument is not printed either.
func TestMisplacedAddressesAreNotPrinted(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"redis://ada:hunter2@h:1", "redis//:hunter2@h", "ada:hunter2@h1:1,ada:hunter2@h2:2", "redis://:a \"hunter2 @h"} {
		for _, args := range [][]string{
			{address},
			{"--url", address},
			{"--url=" + address},
			{"-redis=" + address, "llen", "l"},
			{"-r" + address, "llen", "l"},
			{"llen", "l", address},
			{"lindex", "l", address},
			{"lpop", "l", address},
			{"blpop", "l", address},
			{"rpush", "--capacity", address, "l"},
			{"rpush", "--capacity=" + address, "l"},
			{"lrange", "--null=" + address, "l", "0", "-1"},
			{"demo", address},
			{"help", address},
		} {
			got := <-start(t.Context(), nil, args...)
			assert.NotEqual(t, exitOK, got.code, args)
			assert.NotContains(t, got.out+got.err, "hunter2", args)
		}
	}
}

func TestHelpShowsNoAddressInUse(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://ada:hunter2@host")
	for _, args := range []string{"--help", "llen --help", "--redis redis://ada:hunter2@host --help", "help demo"} {
		got := <-start(t.Context(), nil, strings.Fields(args)...)
		assert.Zero(t, got.code)
		assert.NotEmpty(t, got.out)
		assert.NotContains(t, got.out+got.err, "hunter2", args)
	}
}

// Such a server quotes the password in its reply.
func TestAServerThatKnowsNoAuth(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, `rename-command AUTH ""`, `rename-command HELLO ""`)
	for _, user := range []string{"ada", ""} {
		got := <-start(t.Context(), nil, "llen", "l", "--redis", "redis://"+user+":hunter2@"+server.Addr())
		assert.Equal(t, exitFailure, got.code)
		assert.Empty(t, got.out)
		assert.Regexp(t, `^shardedlist: `+server.Addr()+`: ERR unknown command .(?i:auth).\n$`, got.err)
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
	got := <-start(t.Context(), nil, "llen", "l", "--redis", address+"&username=ann&password=wrong")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.err, "Set them with redis://user:password@host; those of the master with &username=USER&password=PASSWORD\n")
}

func TestAddressFromTheEnvironment(t *testing.T) {
	server := miniredis.RunT(t)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	got := <-start(t.Context(), nil, "rpush", "l", "a")
	assert.Equal(t, result{exitOK, "1\n", ""}, got)
	assert.NotEmpty(t, server.Keys())
}

// Whoever may only look at lists would be refused CLIENT SETINFO at each connection, and the server would log it.
func TestTheProgramDoesNotIntroduceItself(t *testing.T) {
	t.Parallel()
	cluster := redistest.Shared(t, redistest.Cluster)
	for _, address := range []string{redistest.Shared(t, redistest.Redis).URL(), redistest.Shared(t, redistest.Sentinel).URL(), cluster.URL(), "redis://" + cluster.Addr()} {
		rdb, _, err := connect(t.Context(), "--redis", address)
		require.NoError(t, err)
		switch rdb := rdb.(type) {
		case *redis.Client:
			assert.True(t, rdb.Options().DisableIdentity, address)
		case *redis.ClusterClient:
			assert.True(t, rdb.Options().DisableIdentity, address)
		}
		require.NoError(t, rdb.Close())
	}
}

// On a cluster, the lists of a pattern are on all masters, and each shares a slot with its key, whatever its name.
func TestAdoptAndRestoreOnACluster(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	cluster := redistest.Shared(t, redistest.Cluster)
	ctx, rdb := t.Context(), cluster.Client(t)
	var names []string
	for _, name := range []string{"plain", "other", "third", "{a}", "a{b}c", "a{}b", "{a", "a}b", "with space", "glob*?[x]", `back\slash`, "naïve", "\xff\x00"} {
		names = append(names, t.Name()+name)
		require.NoError(t, rdb.RPush(ctx, t.Name()+name, "x", "y", "z").Err())
	}
	slices.Sort(names)
	run := func(args ...string) []string {
		got := <-start(ctx, nil, append(args, "--json", "--redis", cluster.URL())...)
		assert.Equal(t, exitOK, got.code, "%s", got.err)
		return strings.Split(strings.TrimSuffix(got.out, "\n"), "\n")
	}
	var want []string
	for _, name := range names {
		want = append(want, fmt.Sprintf(`{"name":%s,"length":3}`, jsonString(name)))
	}
	all := t.Name() + "*"
	assert.Equal(t, want, run("adopt", "--dry-run", all))
	assert.Equal(t, want, run("adopt", "--capacity", "2", all))
	for _, name := range names {
		assert.Zero(t, rdb.Exists(ctx, name).Val(), "%q", name)
		assert.Equal(t, []string{`["ok"]`}, run("check", name), "%q", name)
	}
	assert.Equal(t, want, run("restore", "--dry-run", all))
	assert.Equal(t, want, run("restore", all))
	for _, name := range names {
		assert.Equal(t, []string{"x", "y", "z"}, rdb.LRange(ctx, name, 0, -1).Val(), "%q", name)
	}
	literally := t.Name() + `glob\*\?\[x]`
	one := slices.IndexFunc(want, func(line string) bool { return strings.Contains(line, "glob") })
	assert.Equal(t, want[one:one+1], run("adopt", literally))
	assert.Equal(t, slices.Delete(slices.Clone(want), one, one+1), run("adopt", all))
	for _, name := range names {
		assert.Zero(t, rdb.Exists(ctx, name).Val(), "%q", name)
	}
}
