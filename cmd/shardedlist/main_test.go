package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	logging.Disable()
	goleak.VerifyTestMain(redistest.Main(m))
}

// asProgram is the variable with which the test binary is the program.
const asProgram = "SHARDEDLIST_TEST_AS_PROGRAM"

func TestCommands(t *testing.T) {
	t.Parallel()
	steps := []struct {
		args string
		out  string
		code int
		err  string
	}{
		{args: "check l", code: exitNothing, err: "there is no list \"l\""},
		{args: "info l", code: exitNothing, err: "there is no list \"l\""},
		{args: "llen l", out: "0\n"},
		{args: "lpop l", code: exitNothing},
		{args: "rpop l 5", code: exitNothing},
		{args: "lpop l 0", code: exitNothing},
		{args: "blpop l 0.01", code: exitNothing},
		{args: "brpop l .01", code: exitNothing},
		{args: "lindex l 0", code: exitNothing},
		{args: "lrange l 0 -1"},
		{args: "lrange l 1 2"},
		{args: "del l", out: "0\n"},
		{args: "LLEN l", out: "0\n"},

		{args: "rpush l --capacity 2 c d e", out: "3\n"},
		{args: "lpush l b a", out: "5\n"},
		{args: "llen l", out: "5\n"},
		{args: "lrange l 0 -1", out: "a\nb\nc\nd\ne\n"},
		{args: "lrange l -2 -1", out: "d\ne\n"},
		{args: "lrange l -2 4", out: "d\ne\n"},
		{args: "lrange l 1 -4", out: "b\n"},
		{args: "lrange l -100 100", out: "a\nb\nc\nd\ne\n"},
		{args: "lrange l 3 1"},
		{args: "lrange l -9223372036854775808 9223372036854775807", out: "a\nb\nc\nd\ne\n"},
		{args: "lrange l 0 1 -0", out: "a\x00b\x00"},
		{args: "lrange -0 l -1 -1", out: "e\x00"},
		{args: "lindex l -1", out: "e\n"},
		{args: "lindex l -5 --null", out: "a\x00"},
		{args: "lindex l -6", code: exitNothing},
		{args: "check l", out: "ok\n"},
		{args: "lpop l", out: "a\n"},
		{args: "rpop l 2", out: "e\nd\n"},
		{args: "lpop l 0"},
		{args: "blpop l", out: "b\n"},
		{args: "brpop l 1e-12", out: "c\n"},
		{args: "llen l", out: "0\n"},

		{args: "rpush numbers -1 -2.5 -0.5 3", out: "4\n"},
		{args: "lrange numbers 0 -1", out: "-1\n-2.5\n-0.5\n3\n"},
		{args: "del numbers", out: "1\n"},
		{args: "lpush dashes -- -x --null -1", out: "3\n"},
		{args: "lrange dashes 0 -1", out: "-1\n--null\n-x\n"},
	}
	server := miniredis.RunT(t)
	for _, step := range steps {
		got := run(t, server, nil, strings.Fields(step.args)...)
		if step.err != "" {
			step.err = "shardedlist: " + step.err + "\n"
		}
		assert.Equal(t, result{step.code, step.out, step.err}, got, step.args)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for args, message := range map[string]string{
		"nonsense":               `unknown command "nonsense" for "shardedlist"`,
		"lpsh l":                 `unknown command "lpsh" for "shardedlist"; did you mean: lpush`,
		"foo":                    `unknown command "foo" for "shardedlist"`,
		"lindex l":               `wrong number of arguments; usage: shardedlist lindex LIST INDEX`,
		"queue cancel mail":      `wrong number of arguments; usage: shardedlist queue cancel QUEUE ID...`,
		"lindex l +1":            `invalid index "+1": want an integer`,
		"lrange l 01 2":          `invalid index "01": want an integer`,
		"lpop l +1":              `invalid count "+1": want an integer of at least 0`,
		"script foo l":           `foo runs no script on a list`,
		"lindex l one":           `invalid index "one": want an integer`,
		"lrange l 0":             `wrong number of arguments; usage: shardedlist lrange LIST START STOP`,
		"lrange l 0 1.5":         `invalid index "1.5": want an integer`,
		"lrange l - 1":           `invalid index "-": want an integer`,
		"lpop l -1":              `invalid count "-1": want an integer of at least 0`,
		"lpop l x":               `invalid count "x": want an integer of at least 0`,
		"blpop l -1":             `invalid timeout "-1": want seconds, at least 0`,
		"blpop l NaN":            `invalid timeout "NaN": want seconds, at least 0`,
		"blpop l 1e300":          `invalid timeout "1e300": want seconds, at least 0`,
		"llen l --wrong":         `unknown flag: --wrong`,
		"completion bash --json": `--json: a script for a shell is no JSON`,
		"rpush l -x":             `unknown shorthand flag: 'x' in -x (put values that begin with a dash after --)`,
		"rpush l v --capacity 0": `the capacity is out of range: 0 is not in 1..1048576`,
		"rpush l --capacity -5":  `invalid argument "-5" for "--capacity" flag`,
		"demo --producers 0":     `--producers, --consumers and --backlog must be at least 1`,
		"demo --backlog 0":       `--producers, --consumers and --backlog must be at least 1`,
		"demo --lines=-1":        `--lines must not be negative`,
		"demo --embedded":        `--embedded and --redis exclude each other`,
		"demo --lines 1 a.log":   `FILE and --lines exclude each other`,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			got := run(t, miniredis.RunT(t), nil, strings.Fields(args)...)
			assert.Equal(t, result{exitUsage, "", "shardedlist: " + message + "\n"}, got)
		})
	}
	t.Run("empty name", func(t *testing.T) {
		t.Parallel()
		got := run(t, miniredis.RunT(t), nil, "llen", "")
		assert.Equal(t, result{exitUsage, "", "shardedlist: the name is empty\n"}, got)
	})
}

func TestErrorsOfTheServer(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	require.NoError(t, server.Set("{l}:meta", "a string"))
	for _, args := range []string{"llen l", "rpush l a", "lpop l", "blpop l 1", "lrange l 0 -1", "lrange l 0 2", "del l", "info l", "check l"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			got := run(t, server, nil, strings.Fields(args)...)
			assert.Equal(t, exitFailure, got.code)
			assert.Empty(t, got.out)
			assert.Regexp(t, `^shardedlist: \w+ "l": the key "{l}:meta" holds another type: string\n$`, got.err)
		})
	}
}

// A name is in JSON as an element is, and in a line so that a terminal shows it and does nothing else.
func TestNamesOfAnyBytes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis)
	on := func(args ...string) result {
		return <-start(t.Context(), nil, append([]string{"--redis", server.Addr()}, args...)...)
	}
	for name, want := range map[string][2]string{ // in JSON, and in a line
		"\xffx":      {`{"base64":"/3g="}`, `"\xffx"`},
		"a\nb":       {`"a\nb"`, `"a\nb"`},
		"z\x1b\x07<": {`"z\u001b\u0007\u003c"`, `"z\x1b\a<"`},
		`"quoted"`:   {`"\"quoted\""`, `"\"quoted\""`},
		"é":          {`"é"`, "é"},
	} {
		require.NoError(t, server.Client(t).FlushAll(t.Context()).Err())
		require.NoError(t, server.Client(t).RPush(t.Context(), name, "e").Err())
		for _, command := range [][]string{
			{"adopt", "--dry-run", "*"}, {"adopt", name}, {"ls"}, {"top", "--count", "1"}, {"info", name},
			{"restore", "--dry-run", "*"}, {"restore", name},
		} {
			got := on(append(command, "--json")...)
			assert.Equal(t, exitOK, got.code, got.err)
			shown, expected := map[string]any{}, any(nil)
			require.NoError(t, json.Unmarshal([]byte(got.out), &shown), "%q %q", name, command)
			require.NoError(t, json.Unmarshal([]byte(want[0]), &expected))
			assert.Equal(t, expected, shown["name"], command)
			assert.Contains(t, on(command...).out, want[1], command)
		}
	}
}

// What cannot be printed is an error, also of the help.
func TestHelpThatCannotBePrinted(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--version", "--help", "lpop --help", "help lpop"} {
		var stderr bytes.Buffer
		assert.Equal(t, exitFailure, execute(t.Context(), strings.Fields(args), nil, &limited{err: syscall.ENOSPC}, &stderr), args)
		assert.Equal(t, exitBrokenPipe, execute(t.Context(), strings.Fields(args), nil, brokenPipe{}, &stderr), args)
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run(t, server, nil, "rpush", "l", "--capacity", "2", "a", "b", "c")

	got := run(t, server, nil, "info", "l")
	assert.Zero(t, got.code)
	assert.Regexp(t, `^name:       l
length:     3
shards:     2
first:      -?\d+
last:       -?\d+
capacity:   2
bytes:      \d+
slot:       \d+
parts:      0
armed:      false
unswept:    0
unsplit:    0
newcomers:  0
form:       sharded
mode:       scripts: the server has no functions
$`, got.out)

	got = run(t, server, nil, "info", "--json", "l")
	assert.Zero(t, got.code)
	assert.Regexp(t, `^\{"armed":false,"bytes":\d+,"capacity":2,.*"length":3,"mode":"scripts: the server has no functions","name":"l",.*"shards":2,.*\}\n$`, got.out)
}

// info and ls call the form of a list the same.
func TestInfoTellsTheFormAsLsDoes(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	run(t, server, nil, "rpush", "--capacity", "1", "sharded", "a", "b")
	for _, name := range []string{"plain", "adopted"} {
		_, err := server.RPush(name, strings.Fields(strings.Repeat("a ", 2000))...)
		require.NoError(t, err)
	}
	run(t, server, nil, "rpush", "--capacity", "500", "adopted", "b") // makes shards of it, and splits nothing
	run(t, server, nil, "rpush", "restored", "a")
	run(t, server, nil, "restore", "restored")
	run(t, server, nil, "lpop", "restored") // it is remembered
	spread, err := shardedlist.New(rdb, "spread", shardedlist.WithParts(3))
	require.NoError(t, err)
	_, err = spread.RPush(t.Context(), "a")
	require.NoError(t, err)
	for _, form := range []string{"sharded", "plain", "adopted", "restored", "spread"} {
		assert.Contains(t, run(t, server, nil, "info", form).out, "form:       "+form+"\n")
		assert.Equal(t, form, strings.Fields(run(t, server, nil, "ls", form).out)[0])
	}
}

func TestCheckPrintsEachBreach(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run(t, server, nil, "rpush", "l", "--capacity", "1", "a", "b", "c")
	words := strings.SplitN(server.HGet("{l}:meta", "layout"), " ", 6)
	first, shards := words[1], "{l}:"+words[5]+":"
	server.Del(shards + first)
	_, err := server.Push(shards+"99", "stray")
	require.NoError(t, err)

	got := run(t, server, nil, "check", "l")
	assert.Equal(t, exitNothing, got.code)
	assert.Contains(t, got.out, "stray shards, which no meta knows: 99 (1 in all)\n")
	assert.Contains(t, got.out, "shard "+first+" is missing\n")
	assert.Equal(t, 2, strings.Count(got.out, "\n"))
	assert.Empty(t, got.err)
}

func TestDelOfStrays(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run(t, server, nil, "rpush", "l", "--capacity", "1", "a", "b", "c")
	server.Del("{l}:meta")
	run(t, server, nil, "rpush", "l", "--capacity", "1", "d")
	got := run(t, server, nil, "check", "l")
	assert.Equal(t, result{exitNothing, "stray shards, which no meta knows: 0..2 (3 in all)\n", ""}, got)
	for _, want := range []string{"3\n", "0\n"} {
		assert.Equal(t, result{exitOK, want, ""}, run(t, server, nil, "del", "--only-strays", "l"))
	}
	assert.Equal(t, result{exitOK, "ok\n", ""}, run(t, server, nil, "check", "l"))
	assert.Equal(t, result{exitOK, "d\n", ""}, run(t, server, nil, "lpop", "l"))
}

func TestInterruptedBlockingPop(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := start(ctx, nil, "blpop", "l", "--redis", server.Addr())
	eventually(t, func() bool { return strings.Contains(server.HGet("{l}:meta", "layout"), " 0 1 ") })
	cancel()
	assert.Equal(t, result{exitInterrupted, "", ""}, <-ended)
}

func TestBlockingPopIsWoken(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	ended := start(t.Context(), nil, "brpop", "l", "60", "--redis", server.Addr())
	eventually(t, func() bool { return strings.Contains(server.HGet("{l}:meta", "layout"), " 0 1 ") })
	run(t, server, nil, "lpush", "l", "a")
	assert.Equal(t, result{exitOK, "a\n", ""}, <-ended)
}

func TestBrokenPipe(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	run(t, server, strings.NewReader(strings.Repeat("line\n", 50_000)), "rpush", "l", "--capacity", "512") // in larger shards the embedded server takes seconds
	for _, args := range []string{"lrange l 0 -1", "lrange l 1 -1", "lrange l 0 0", "lindex l 0", "lpop l 20000", "llen l", "info l", "check l"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			var stderr bytes.Buffer
			code := execute(t.Context(), append(strings.Fields(args), "--redis", server.Addr()), nil, brokenPipe{}, &stderr)
			assert.Equal(t, exitBrokenPipe, code)
			assert.Empty(t, stderr.String())
		})
	}
}

func TestBrokenConnectionIsNoBrokenPipe(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	a := &app{stderr: &stderr, started: true}
	code := a.exit(t.Context(), &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE})
	assert.Equal(t, exitFailure, code)
	assert.Equal(t, "shardedlist: write tcp: broken pipe\n", stderr.String())
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestHelp(t *testing.T) {
	t.Parallel()
	got := run(t, miniredis.RunT(t), nil, "--version")
	assert.Zero(t, got.code)
	assert.Regexp(t, `^shardedlist version \S+\ncommit +.*\ndate +.*\ngo +go1\.\S+ .*\ngo-redis +v9\.\S+\n$`, got.out)
	text := got.out
	var object map[string]string
	require.NoError(t, json.Unmarshal([]byte(run(t, miniredis.RunT(t), nil, "--version", "--json").out), &object))
	for _, name := range []string{"version", "commit", "date", "go", "go-redis"} {
		assert.Regexp(t, name+" +"+regexp.QuoteMeta(object[name])+"\n", text)
	}

	for _, command := range (&app{}).rootCommand().Commands() {
		assert.NotEmpty(t, command.Example, command.Name())
		got := run(t, miniredis.RunT(t), nil, command.Name(), "--help")
		assert.Zero(t, got.code)
		assert.Contains(t, got.out, "shardedlist "+command.Use)
		for line := range strings.Lines(got.out) {
			assert.LessOrEqual(t, len(line), 105, line)
		}
	}
}

// Each command prints JSON values and nothing else if it is told to.
func TestEveryCommandPrintsJSON(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Redis)
	tried := map[string]bool{}
	for _, line := range strings.Split(jsonCommands, "\n") {
		words := strings.Fields(line)
		tried[words[0]] = true
		ctx, cancel := context.WithCancel(t.Context())
		if words[0] == "web" || words[0] == "watch" { // they do not end
			time.AfterFunc(time.Second, cancel)
		}
		got := <-start(ctx, strings.NewReader("llen l\nget nothing\n"), append(words, "--json", "--redis", server.Addr())...)
		cancel()
		assert.NotEqual(t, exitUsage, got.code, line)
		assert.NotEqual(t, exitFailure, got.code, "%s: %s", line, got.err)
		values := json.NewDecoder(strings.NewReader(got.out))
		for values.More() {
			var value any
			if !assert.NoError(t, values.Decode(&value), "%s: %s", line, got.out) {
				break
			}
		}
		assert.True(t, words[0] == "watch" || words[0] == "functions" || got.out != "", line)
	}
	for _, command := range (&app{}).rootCommand().Commands() {
		assert.True(t, tried[command.Name()] || command.Name() == "help", command.Name())
	}
}

const jsonCommands = `functions
rpush l a b c d
lpush l e
rpushx l f
lpushx l g
llen l
lindex l 0
lindex l 99
lrange l 0 -1
lset l 0 x
linsert l before a y
lrem l 0 y
ltrim l 0 -2
lpos l a count 0
lpop l
lpop nothing
rpop l 1
blpop l 1
brpop nothing 0.01
lmove l m left right
blmove l m left right 1
lmovem l m left right
blmovem l m left right 1
rpoplpush m l
brpoplpush m l 1
lmpop 1 l left
blmpop 1 1 m left
rpush l 1 2 3
exists l
touch l
type l
expire l 100
pexpire l 100000
expireat l 99999999999
pexpireat l 99999999999000
ttl l
pttl l
expiretime l
pexpiretime l
persist l
copy l n
rename n o
renamenx o n
object encoding n
memory usage n
ls
top --count 1
info n
check n
repair n
doctor
watch n
web --listen 127.0.0.1:0
script rpush n a
shell
queue stats q
restore n
adopt n
unlink n
del l m
demo --lines 10`

// The examples in the help of Redis's commands are right.
func TestExamplesOfRedisCommandsRun(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	server := redistest.Start(t, redistest.Redis)
	for _, c := range redisCommands {
		require.NoError(t, server.Client(t).FlushAll(t.Context()).Err())
		for _, list := range []string{"jobs", "logs", "urgent"} {
			require.NoError(t, server.Client(t).RPush(t.Context(), list, "one", "two", "three").Err())
		}
		got := <-start(t.Context(), nil, append(strings.Fields(c.example), "--redis", server.Addr())...)
		assert.Equal(t, result{exitOK, got.out, ""}, got, c.example)
		assert.NotEmpty(t, got.out, c.example)
	}
}

// result is what a run of the program came to.
type result struct {
	code     int
	out, err string
}

func run(t *testing.T, server *miniredis.Miniredis, stdin io.Reader, args ...string) result {
	t.Helper()
	return <-start(t.Context(), stdin, append([]string{"--redis", server.Addr()}, args...)...)
}

// start runs the program in the background.
func start(ctx context.Context, stdin io.Reader, args ...string) <-chan result {
	ended := make(chan result, 1)
	go func() {
		var stdout, stderr bytes.Buffer
		code := execute(ctx, args, stdin, &stdout, &stderr)
		ended <- result{code, stdout.String(), stderr.String()}
	}()
	return ended
}

func eventually(t *testing.T, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, time.Millisecond)
}

func TestAdopt(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	for _, key := range []string{"queue:a", "queue:b", "other"} {
		for i := range 10 {
			_, err := server.RPush(key, strconv.Itoa(i))
			require.NoError(t, err)
		}
	}
	run(t, server, nil, "rpush", "queue:c", "a") // its shard is a list too
	assert.Equal(t, result{exitOK, "queue:a\t10\nqueue:b\t10\nqueue:c\t1\n", ""}, run(t, server, nil, "adopt", "--dry-run", "*queue:*"))
	assert.True(t, server.Exists("queue:a"), "nothing has changed")
	assert.Equal(t, result{exitOK, "queue:a\t10\nqueue:b\t10\nqueue:c\t1\n", ""}, run(t, server, nil, "adopt", "--capacity", "4", "*queue:*"))
	assert.False(t, server.Exists("queue:a"))
	assert.Equal(t, "10\n", run(t, server, nil, "llen", "queue:a").out)
	assert.Contains(t, run(t, server, nil, "info", "queue:b").out, "shards:     3\n")

	run(t, server, nil, "del", "queue:a")
	for i := range 10 {
		_, err := server.RPush("queue:a", strconv.Itoa(i))
		require.NoError(t, err)
	}
	run(t, server, nil, "adopt", "queue:a")
	_, err := server.RPush("queue:a", "new") // and nobody has told where elements are pushed or popped
	require.NoError(t, err)
	assert.Contains(t, run(t, server, nil, "info", "queue:a").out, "newcomers:  1\n")
	got := run(t, server, nil, "adopt", "queue:a")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.err, "give --popped left or --popped right")
	assert.Equal(t, result{exitOK, "queue:a\t11\n", ""}, run(t, server, nil, "adopt", "--popped", "left", "queue:a", "queue:a"))
	assert.Equal(t, "new\n", run(t, server, nil, "rpop", "queue:a").out)
	assert.Equal(t, exitUsage, run(t, server, nil, "adopt", "--popped", "top", "queue:a").code)
	assert.Equal(t, result{exitNothing, "", "shardedlist: there is no list \"nothing\"\n"}, run(t, server, nil, "adopt", "nothing"))

	for range 2000 {
		_, err := server.RPush("half", "a")
		require.NoError(t, err)
	}
	_, err = server.RPush("", "a") // no list has this name
	require.NoError(t, err)
	run(t, server, nil, "rpush", "half", "--capacity", "500", "a") // makes shards of the list, as the first step of adopt does
	require.False(t, server.Exists("half"))
	require.Contains(t, run(t, server, nil, "info", "half").out, "unsplit:    1500\n")
	assert.Equal(t, result{exitOK, "half\t2001\n", ""}, run(t, server, nil, "adopt", "--dry-run", "h*"))
	assert.Equal(t, result{exitOK, "half\t2001\nother\t10\nqueue:a\t10\n", ""}, run(t, server, nil, "adopt", "*"))
	assert.Contains(t, run(t, server, nil, "info", "half").out, "unsplit:    0\n")
	assert.Equal(t, result{exitOK, "", ""}, run(t, server, nil, "adopt", "*"))
}

func TestRestore(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	for _, list := range []string{"queue:a", "queue:{b}", "other"} {
		run(t, server, nil, "rpush", list, "--capacity", "2", "x", "y", "z")
	}
	assert.Equal(t, result{exitOK, "queue:a\t3\nqueue:{b}\t3\n", ""}, run(t, server, nil, "restore", "--dry-run", "queue:*"))
	assert.False(t, server.Exists("queue:a"), "nothing has changed")
	assert.Equal(t, result{exitOK, "queue:a\t3\nqueue:{b}\t3\n", ""}, run(t, server, nil, "restore", "queue:*"))
	for _, key := range []string{"queue:a", "queue:{b}"} {
		elements, err := server.List(key)
		require.NoError(t, err)
		assert.Equal(t, []string{"x", "y", "z"}, elements)
		assert.Contains(t, run(t, server, nil, "info", key).out, "form:       restored\n")
	}
	assert.Equal(t, "x\n", run(t, server, nil, "lpop", "queue:a").out)
	assert.Equal(t, result{exitOK, "queue:a\t2\n", ""}, run(t, server, nil, "adopt", "queue:a"))
	assert.False(t, server.Exists("queue:a"))
	assert.Contains(t, run(t, server, nil, "info", "queue:a").out, "form:       sharded\n")

	for _, command := range []string{"restore", "adopt"} {
		for _, flag := range []string{"--dry-run", "--json"} {
			got := run(t, server, nil, command, flag, "typo")
			assert.Equal(t, result{exitNothing, "", "shardedlist: there is no list \"typo\"\n"}, got, command)
		}
	}
	assert.False(t, server.Exists("{typo}:meta"))
	run(t, server, nil, "rpop", "queue:{b}", "3") // that it was restored outlives its last element
	assert.Contains(t, run(t, server, nil, "info", "queue:{b}").out, "form:       restored\n")
	assert.Equal(t, result{exitOK, "queue:{b}\t0\n", ""}, run(t, server, nil, "adopt", "queue:{b}"))
	assert.Equal(t, exitNothing, run(t, server, nil, "info", "queue:{b}").code)
}

// What docs/adopting.md says to type works, one command after the other.
func TestTheAdoptingPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/adopting.md")
	require.NoError(t, err)
	server := miniredis.RunT(t)
	commands := 0
	for line := range strings.Lines(string(page)) {
		command, found := strings.CutPrefix(strings.TrimSpace(line), "shardedlist ")
		if !found || !strings.HasPrefix(line, "    ") {
			continue
		}
		if !strings.Contains(command, "--popped") && !strings.Contains(command, "--dry-run") && !strings.Contains(command, "info") {
			run(t, server, nil, "del", "queue:mail")
		}
		_, err := server.RPush("queue:mail", "a", "b")
		require.NoError(t, err)
		got := run(t, server, nil, strings.Fields(strings.ReplaceAll(command, "'", ""))...)
		assert.Equal(t, exitOK, got.code, "%s: %s", command, got.err)
		commands++
	}
	assert.Positive(t, commands)
}

func TestCheckRepairs(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	list, err := shardedlist.New(rdb, "l", shardedlist.WithParts(3), shardedlist.WithCapacity(1))
	require.NoError(t, err)
	for _, value := range []string{"a", "b", "c"} {
		_, err := list.RPush(t.Context(), value)
		require.NoError(t, err)
	}
	assert.Equal(t, result{exitOK, "ok\n", ""}, run(t, server, nil, "repair", "l"))
	server.Del("{l}:meta")

	got := run(t, server, nil, "check", "--parts", "3", "l")
	assert.Equal(t, exitNothing, got.code)
	assert.Equal(t, 3, strings.Count(got.out, "the pointers do not name shard"))
	got = run(t, server, nil, "repair", "--parts", "3", "l")
	assert.Equal(t, exitOK, got.code, got.err)
	assert.Equal(t, 3, strings.Count(got.out, "the pointers do not name shard"))
	assert.True(t, strings.HasSuffix(got.out, "\nok\n"), got.out)
	assert.Equal(t, result{exitOK, "a\nb\nc\n", ""}, run(t, server, nil, "lrange", "l", "0", "-1"))
	assert.Equal(t, result{exitOK, "ok\n", ""}, run(t, server, nil, "check", "l"))
}
