package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// What script prints does, as EVAL, what the command does; in the debugger, it replies the same and changes nothing.
func TestScriptsRunAsTheirCommands(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind) // sessions of the debugger disturb each other, and on Valkey 9 other scripts as well
			for _, parts := range []int{0, 3} {
				t.Run(strconv.Itoa(parts), func(t *testing.T) { testScripts(t, server, parts) })
			}
		})
	}
}

func testScripts(t *testing.T, server *redistest.Server, parts int) {
	redisCLI(t, server, "", "ping") // or the test is skipped
	name := t.Name()
	for _, step := range []struct {
		command []string
		reply   string
		after   string
		one     bool // in one slot only
	}{
		{command: []string{"rpush", "l", "d"}, reply: "(integer) 4\n", after: "abcd", one: true},
		{command: []string{"LPUSH", "l", "it's", "two words"}, reply: "(integer) 5\n", after: "two wordsit'sabc", one: true},
		{command: []string{"rpush", "l", "\xff\n"}, reply: "(integer) 4\n", after: "abc\xff\n", one: true},
		{command: []string{"lpop", "l"}, reply: "a", after: "bc"},
		{command: []string{"rpop", "l", "2"}, reply: "c", after: "a"},
		{command: []string{"llen", "l"}, reply: "(integer) 3\n", after: "abc", one: true},
		{command: []string{"lindex", "l", "-1"}, reply: "\"c\"\n", after: "abc", one: true},
		{command: []string{"lrange", "l", "0", "-1"}, reply: "2) \"b\"\n", after: "abc", one: true},
		{command: []string{"linsert", "l", "before", "b", ","}, reply: "(integer) 4\n", after: "a,bc", one: true},
		{command: []string{"blpop", "l", "1"}, reply: "a", after: "bc", one: true},
		{command: []string{"del", "l"}, reply: "(integer) 1\n", after: ""},
	} {
		if step.one && parts > 0 {
			continue
		}
		list, err := shardedlist.New(server.Client(t), name, append(map[bool][]shardedlist.Option{true: {shardedlist.WithParts(3)}}[parts > 0],
			shardedlist.WithCapacity(2))...)
		require.NoError(t, err)
		content := func() string {
			values, err := list.LRange(t.Context(), 0, -1)
			require.NoError(t, err)
			return strings.Join(values, "")
		}
		_, err = list.Del(t.Context())
		require.NoError(t, err)
		for _, value := range []string{"a", "b", "c"} {
			_, err = list.RPush(t.Context(), value)
			require.NoError(t, err)
		}
		step.command[1] = name
		debugged := printedScript(t, server, append(step.command, "--ldb"))("c\n")
		assert.Contains(t, debugged, "Lua debugging session started")
		assert.Contains(t, debugged, "dataset changes rolled back")
		assert.NotContains(t, debugged, "rror", step.command)
		if parts == 0 {
			assert.Contains(t, debugged, step.reply, step.command)
		}
		assert.Equal(t, "abc", content(), step.command)
		if parts > 0 {
			continue // it takes several
		}
		run := printedScript(t, server, step.command)
		for range 2 { // the second run finds the record of the first
			assert.Contains(t, run(""), step.reply, step.command)
			assert.Equal(t, step.after, content(), step.command)
			if step.command[0] == "linsert" || step.command[0] == "del" {
				break
			}
		}
		require.NoError(t, list.Check(t.Context()))
	}
}

// printedScript stores what script prints for a command, and returns what does what its comment says, and returns the output.
func printedScript(t *testing.T, server *redistest.Server, command []string) (run func(stdin string) string) {
	t.Helper()
	got := <-start(t.Context(), nil, append([]string{"--redis", server.URL(), "script"}, command...)...)
	require.Equal(t, exitOK, got.code, got.err)
	file := filepath.Join(t.TempDir(), "a script.lua")
	require.NoError(t, os.WriteFile(file, []byte(got.out), 0o600))
	line := strings.TrimPrefix(strings.Split(got.out, "\n")[1], "--   redis-cli")
	line = "redis-cli --no-raw" + strings.ReplaceAll(strings.ReplaceAll(line, "$(cat FILE)", `$(cat "$FILE")`), " FILE ", ` "$FILE" `)
	return func(stdin string) string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-c", line)
		cmd.Env = append(os.Environ(), "FILE="+file)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
}

func TestScriptAsJSON(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	got := run(t, server, nil, "script", "rpush", "l", "it's", "\xff", "--json")
	require.Equal(t, exitOK, got.code, got.err)
	var object struct {
		Command, Keys, Argv []any
		Run, Script         string
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &object))
	assert.Contains(t, object.Script, "\n-- requires: ", "with its comments, which the server does not get")
	notText := map[string]any{"base64": "/w=="}
	assert.Equal(t, []any{"rpush", "l", "it's", notText}, object.Command)
	assert.Contains(t, object.Keys, "{l}:meta")
	assert.Contains(t, object.Argv, "it's")
	host, port, err := net.SplitHostPort(server.Addr())
	require.NoError(t, err)
	assert.Contains(t, object.Run, "redis-cli -h "+host+" -p "+port+" eval ")
	assert.Contains(t, object.Script, "return ")
}

// The command line for redis-cli has what it needs to reach the server, and no password.
func TestFlagsForRedisCLI(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://127.0.0.1:6379":                    "",
		"redis://127.0.0.1:6380/3":                  "-h 127.0.0.1 -p 6380 -n 3",
		"rediss://ann:secret@[::1]:6379":            "-h ::1 -p 6379 --tls --user ann",
		"unix://:secret@/run/a%20b/redis.sock?db=2": "-s '/run/a b/redis.sock' -n 2",
	} {
		rdb, _, err := newClient("--redis", url)
		require.NoError(t, err, url)
		defer rdb.Close()
		flags, err := cliFlags(t.Context(), rdb, "key")
		require.NoError(t, err)
		assert.Equal(t, want, shellWords(flags))
	}
}

func TestScriptsThatThereAreNot(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	for command, message := range map[string]string{
		"ping":           "ping runs no script on a list",
		"set k-script v": "set runs no script on a list",
		"rpush":          "rpush: ERR wrong number of arguments for 'rpush' command",
		"lset l x y":     "", // the script that finds out whether there is a list
		"dump l":         "dump: shardedlist: dump: not supported on a sharded list: read it with LRANGE and push what was read",
	} {
		got := <-start(t.Context(), nil, append([]string{"--redis", server.Addr(), "script"}, strings.Fields(command)...)...)
		assert.Equal(t, message == "", got.code == exitOK, command)
		assert.Contains(t, got.err, message)
	}
	assert.Zero(t, server.Client(t).Exists(t.Context(), "k-script").Val(), "it was not sent")
	got := <-start(t.Context(), nil, "--redis", server.Addr(), "script", "rpush", "l", "a\x00b")
	assert.Equal(t, exitUsage, got.code, "a NUL byte")
}
