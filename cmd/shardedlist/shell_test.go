package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// typed are lines that redis-cli and the shell read from standard input. L is a list, K is another key.
const typed = `rpush L one "two words" 'it\'s' "\x00\xff\n\\\"" ""
lrange L 0 -1

   
LLEN L
2 llen L
lpop L 0
lpop nothing
lrange nothing 0 -1
lset L 0 "a""b
lset L 0 "a"b
lset L 0 'a\n'
lset L 0 pre"in \t"
lset L 9 x
lindex L 0
lpos L one
type L
rename L L
object encoding nothing
set K text
get K
type K
llen K
append K more
incr K
hset K a 1
del K
hset K a 1 b "2 3"
hgetall K
hget K c
mget K nothing
sadd K x
del K
multi
set K 1
get K
exec
select 1
rpush M one
llen M
select 0
llen M
0 llen L
nonsense "one two"
lrange L 0
lpush L
echo "\x41\q\n"
echo a\b
echo 'a\n\'b'
echo 'a' # 1
echo "open
command count extra
eval "return {1, 'two', false, {3, {}}, redis.status_reply('fine')}" 0
eval "return redis.error_reply('MY fault')" 0
lpop L 99
quit
llen L
`

// The shell prints what redis-cli prints, byte for byte, for the same lines.
func TestTheShellRepliesAsRedisCLI(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--no-raw", "--raw", "--json"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			plain, sharded := redistest.Start(t, redistest.Redis), redistest.Start(t, redistest.Redis)
			lines := typed
			if flag == "--json" { // redis-cli prints bytes there that are no JSON
				lines = strings.ReplaceAll(lines, `\xff`, "")
			}
			want := redisCLI(t, plain, lines, flag)
			want = strings.ReplaceAll(want, "Invalid redis-cli repeat", "Invalid repeat")
			got := <-start(t.Context(), strings.NewReader(lines), flag, "shell", "--redis", sharded.Addr())
			assert.Equal(t, withoutTimes(want), withoutTimes(got.out))
			assert.Equal(t, result{exitOK, got.out, ""}, got)
		})
	}
}

// withoutTimes removes how long commands took that took half a second, since the machine is busy.
func withoutTimes(output string) string {
	return regexp.MustCompile(`(?m)^\(\d+\.\d\ds\)\n`).ReplaceAllString(output, "")
}

// The shell works where the other commands do, on lists of each layout.
func TestTheShellOnEachServer(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		for _, parts := range []int{0, 3} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				server := redistest.Shared(t, kind)
				name := t.Name()
				if parts > 0 {
					list, err := shardedlist.New(server.Client(t), name, shardedlist.WithParts(parts), shardedlist.WithCapacity(1))
					require.NoError(t, err)
					_, err = list.RPush(t.Context(), "a")
					require.NoError(t, err)
				} else {
					require.NoError(t, server.Client(t).RPush(t.Context(), name, "a").Err())
				}
				lines := strings.ReplaceAll("rpush L b c\nlrange L 0 -1\nlpop L 2\nset K x\nget K\ndel L K\nmonitor\n", "K", "{"+name+"}key")
				lines = strings.ReplaceAll(lines, "L", name)
				got := <-start(t.Context(), strings.NewReader(lines), "shell", "--redis", server.URL())
				assert.Equal(t, result{exitOK, "3\na\nb\nc\na\nb\nOK\nx\n2\nERR MONITOR has no end: use redis-cli for it\n\n", ""}, got)
			})
		}
	}
}

// While a slot moves, a command of the server goes where its key is: to the old node, or, for keys that have moved and new ones, to the
// other one.
func TestTheShellFollowsASlot(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Cluster)
	rdb := server.Client(t)
	require.NoError(t, rdb.MSet(t.Context(), "{x}1", "one", "{x}2", "two").Err())
	slot, err := rdb.ClusterKeySlot(t.Context(), "{x}").Result()
	require.NoError(t, err)
	owner, err := server.SlotOwner(t.Context(), int(slot))
	require.NoError(t, err)

	stdin, lines := io.Pipe()
	output, stdout := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(t.Context(), []string{"shell", "--redis", server.URL()}, stdin, stdout, io.Discard)
		_ = stdout.Close()
	}()
	replies := make(chan string, 100) // more than there are
	go func() {
		for read := bufio.NewScanner(output); read.Scan(); {
			replies <- read.Text()
		}
	}()
	ask := func(line string) string {
		_, err := io.WriteString(lines, line+"\n")
		assert.NoError(t, err)
		return <-replies
	}
	assert.Equal(t, "one", ask("get {x}1"))
	require.NoError(t, server.MoveSlot(t.Context(), int(slot), (owner+1)%3, func(moved int) {
		assert.Equal(t, "one", ask("get {x}1"), moved)
		assert.Equal(t, "two", ask("get {x}2"), moved)
		assert.Equal(t, "OK", ask(fmt.Sprintf("set {x}new%d new", moved)), moved)
		assert.Equal(t, "new", ask(fmt.Sprintf("get {x}new%d", moved)), moved)
	}))
	assert.Equal(t, "one", ask("get {x}1"))
	assert.Equal(t, "new", ask("get {x}new2"))
	require.NoError(t, lines.Close())
	assert.Equal(t, exitOK, <-ended)
}

// SELECT and AUTH take the shell to another database and user, also behind Sentinel.
func TestTheShellFollowsSelectAndAuth(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Sentinel} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t, kind)
			lines := "rpush L a\nselect 1\nrpush L b c\nset L-key x\nselect 0\nllen L\nacl setuser L on >secret ~* &* +@all\nauth L secret\n" +
				"rpush L d\nacl whoami\nselect 1\nllen L\nacl whoami\ndel L L-key\nselect 0\ndel L\n"
			got := <-start(t.Context(), strings.NewReader(strings.ReplaceAll(lines, "L", "select")), "shell", "--redis", server.URL())
			assert.Equal(t, result{exitOK, "1\nOK\n2\nOK\nOK\n1\nOK\nOK\n2\nselect\nOK\n2\nselect\n2\nOK\n1\n", ""}, got)
		})
	}
}

// Lists and other keys are of the same database, whatever takes the raw connection to another one. And each command has a reply.
func TestTheShellStaysInOneDatabase(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	lines := "select 1\nrpush L a\nmulti\nselect 0\nexec\nllen L\nmulti\nreset\nllen L\nset L-key x\nselect 1\nllen L\ndel L\nexists L-key\n" +
		"client reply off\nselect 0\ndel L-key\n"
	got := <-start(t.Context(), strings.NewReader(strings.ReplaceAll(lines, "L", "databases")), "shell", "--redis", server.URL())
	assert.Equal(t, result{exitOK, "OK\n1\nOK\nERR a transaction of the shell has no SELECT\n\n" +
		"EXECABORT Transaction discarded because of previous errors.\n\n1\nOK\nRESET\n0\nOK\nOK\n1\n1\n0\n" +
		"ERR CLIENT REPLY leaves commands without replies: use redis-cli for it\n\nOK\n1\n", ""}, got)
}

func TestATransactionOfTheShellRefusesLists(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := miniredis.RunT(t)
	got := run(t, server, strings.NewReader("multi\nrpush l a\ndiscard\nrpush l a\n"), "shell")
	const refused = "ERR a transaction of the shell has no commands on lists: use TxPipeline in Go\n\n"
	assert.Equal(t, "OK\n"+refused+"OK\n1\n", got.out)
	got = run(t, server, strings.NewReader("multi\nset k 1\nrpush l b\nset k 2\nexec\nexists k\nmulti\nset k 3\nexec\n"), "shell")
	assert.Equal(t, "OK\nQUEUED\n"+refused+"QUEUED\nEXECABORT Transaction discarded because of previous errors.\n\n0\nOK\nQUEUED\nOK\n", got.out,
		"half a transaction is none")
	cluster := redistest.Shared(t, redistest.Cluster)
	got = <-start(t.Context(), strings.NewReader("multi\n"), "shell", "--redis", cluster.URL())
	assert.Equal(t, "ERR MULTI needs one connection, and this is a cluster\n\n", got.out)
}

// What the shell popped and cannot print is put back, as by other commands.
func TestTheShellPutsBack(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(everyKind...) {
		for _, layout := range everyLayout {
			t.Run(string(kind)+"/"+layout, func(t *testing.T) {
				t.Parallel()
				server := redistest.Shared(t, kind)
				for i, line := range []string{"lpop l 2", "RPOP l", "blpop l 1", "lpop l 9", "lmpop 1 l right count 3"} {
					if layout == spreadLayout && strings.HasPrefix(line, "lmpop") {
						continue
					}
					name := fmt.Sprintf("shell-puts-back-%d-%s", i, layout)
					store(t, server.Client(t), layout, name, "a", "b", "c")
					lines := strings.ReplaceAll(line+"\nlpop l\n", " l", " "+name)
					var stderr bytes.Buffer
					code := execute(t.Context(), []string{"shell", "--redis", server.URL()}, strings.NewReader(lines), &limited{err: syscall.ENOSPC}, &stderr)
					assert.Equal(t, exitFailure, code)
					assert.Contains(t, stderr.String(), "elements put back")
					got := <-start(t.Context(), nil, "lrange", name, "0", "-1", "--redis", server.URL())
					assert.Equal(t, result{exitOK, "a\nb\nc\n", ""}, got, line)
					got = <-start(t.Context(), nil, "info", "--json", name, "--redis", server.URL())
					assert.Equal(t, layout == spreadLayout, strings.Contains(got.out, `"parts":3`), line)
				}
			})
		}
	}
}

func TestHistoryKeepsNoPasswords(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "history")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("old\n", maxHistory)+"older\n"), 0o644))
	h := openHistory(file)
	assert.Equal(t, maxHistory, h.Len())
	secrets := []string{
		"auth hunter2", "AUTH ann hunter2", "  2 auth hunter2", `auth "hunter2`, "acl setuser ann on >hunter2", "ACL GETUSER hunter2",
		"config set requirepass hunter2", "CONFIG SET maxmemory 1 masterauth hunter2", "hello 3 AUTH ann hunter2",
		"migrate h 1 k 0 1 AUTH hunter2", "migrate h 1 k 0 1 AUTH2 a hunter2",
	}
	for _, line := range append(secrets, "", "  ", "llen l", "llen l", "config set maxmemory 1", "acl whoami", "2 llen l") {
		h.Add(line)
	}
	assert.Equal(t, maxHistory, h.Len())
	assert.Equal(t, []string{"2 llen l", "acl whoami", "config set maxmemory 1", "llen l"}, []string{h.At(0), h.At(1), h.At(2), h.At(3)})
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.NotContains(t, string(text), "hunter2")
	assert.True(t, strings.HasSuffix(string(text), "older\nllen l\nconfig set maxmemory 1\nacl whoami\n2 llen l\n"))
	stat, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), stat.Mode())
	openHistory("/dev/null").Add("x")
	openHistory(filepath.Join(t.TempDir(), "no", "such")).Add("x")
}
