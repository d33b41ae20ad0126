package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// redisCLI runs redis-cli on a server.
func redisCLI(t *testing.T, server *redistest.Server, stdin string, args ...string) string {
	t.Helper()
	program, err := exec.LookPath("redis-cli")
	if err != nil {
		if os.Getenv("SHARDEDLIST_REQUIRE_SERVERS") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command(program, append([]string{"-u", "redis://" + server.Addr()}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Run(), out.String())
	return out.String()
}

// comparedCommands are run by both programs, one after the other. L and M are lists, of which L has some elements at first, and S is a
// string. Lists over many slots have the lines with a star only.
const comparedCommands = `
* llen L
* LLEN M
* rpush L one two three
* lpush L zero
* lpushx L minus-one
* rpushx M nothing
* lrange L 0 -1
* lrange L -2 -1
* lrange L 5 1
* lrange M 0 -1
* lindex L 0
* lindex L -100
* lset L 0 quoted"\	and	tabs
* lset L 99 x
* lset L one x
* lset M 0 x
* lpos L two
* lpos L nothing
* lpos L two RANK 0
* lpos L two rank -1 count 0 maxlen 100
* lpos L nothing COUNT 0
* lpos L two TWICE 0
  linsert L before two 1.5
  linsert L AFTER nothing x
  linsert L beside two x
  lrem L 0 two
  lrem L one two
  ltrim L 0 -2
* lpop L
* rpop L
* lpop L 2
* rpop L 0
* lpop M
* lpop M 2
* lpop M 0
  lmove L M LEFT RIGHT
  lmove L M LEFT UP
  blmove L M RIGHT LEFT 0.1
  rpoplpush L M
  brpoplpush M L 1
  brpoplpush N L 0.01
  lmpop 2 N L LEFT
  lmpop 2 N L left count 2
  lmpop 1 N LEFT
  lmpop 0 N LEFT
  blmpop 0.01 1 N RIGHT
  blmpop 1 2 N L RIGHT count 2
  blpop N L 1
  brpop N L 1
  blpop N O 0.01
* exists L L N
* exists N
* type L
* type N
* type S
* touch L N
* ttl L
* ttl N
* expire L 1000
* expire L 1000 NX
* expire L 10 GT
* expire L 10 LT XX
* expire L 10 SOON
* expire L soon
* persist L
* persist L
* pexpireat L 33177117420000
* pexpiretime L
* expiretime L
* expireat L 33177117421 XX
* persist L
  copy L N
  copy L N
  copy L N REPLACE
  rename N O
  rename N O
  renamenx O L
  renamenx O N
* lpush S x
* llen S
* rpop S
* lrange S 0 -1
* rpush L binary-ÿ€ Grüße -1 1.5
* lrange L -4 -1
* lpop L 1000000
* del L N S
* unlink L M
`

// Each command prints what redis-cli prints, byte for byte, for a plain list, in each format and on each layout of a list. There is one
// difference: if there is no element, other programs get no line.
func TestRepliesAreThoseOfRedisCLI(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range []redistest.Kind{redistest.Redis, redistest.Cluster, redistest.Sentinel} {
		for i, layout := range everyLayout {
			for j, flag := range []string{"--no-raw", "--raw", "--json"} {
				if !redistest.Long() && (i%3 != j || kind != redistest.Redis) {
					continue
				}
				t.Run(strings.Join([]string{string(kind), layout, flag}, "/"), func(t *testing.T) {
					t.Parallel()
					compareWithRedisCLI(t, redistest.Shared(t, kind), layout, flag)
				})
			}
		}
	}
}

func compareWithRedisCLI(t *testing.T, server *redistest.Server, layout, flag string) {
	plain := redistest.Shared(t, redistest.Redis)
	ours, theirs := server.Client(t), plain.Client(t)
	tag := "{" + t.Name() + "}"
	name := func(key string) string { return tag + key }
	seed := []string{"a", "b", "c", "d", "e", "f"}
	words := func(line, suffix string) []string {
		words := strings.Split(line, " ")
		for i, word := range words {
			if len(word) == 1 && strings.Contains("LMNOS", word) {
				words[i] = name(word) + suffix
			}
		}
		return words
	}
	// The list of redis-cli has another name only in front of the tag, so that both can be on one server.
	const suffix = "'"
	require.NoError(t, theirs.RPush(t.Context(), name("L")+suffix, seed).Err())
	require.NoError(t, theirs.Set(t.Context(), name("S")+suffix, "text", 0).Err())
	require.NoError(t, ours.Set(t.Context(), name("S"), "text", 0).Err())
	store(t, ours, layout, name("L"), seed...)
	for line := range strings.Lines(strings.TrimPrefix(comparedCommands, "\n")) {
		mark, line := line[:2], strings.TrimSuffix(line[2:], "\n")
		if layout == spreadLayout && mark != "* " {
			continue
		}
		want := redisCLI(t, plain, "", append([]string{flag}, words(line, suffix)...)...)
		want = strings.ReplaceAll(want, suffix+`"`, `"`)
		want = strings.ReplaceAll(want, suffix+"\n", "\n")
		got := <-start(t.Context(), nil, append([]string{flag, "--redis", server.URL()}, words(line, "")...)...)
		compare(t, line, want, got)
	}
	list, err := shardedlist.New(ours, name("L"))
	require.NoError(t, err)
	require.NoError(t, list.Check(t.Context()))
}

func compare(t *testing.T, line, want string, got result) {
	t.Helper()
	message := strings.TrimSpace(want)
	for _, prefix := range []string{"(error) ", "error:"} {
		message = strings.TrimPrefix(message, prefix)
	}
	message = strings.ReplaceAll(strings.Trim(message, `"`), `\"`, `"`)
	switch {
	case strings.HasPrefix(message, "WRONGTYPE"):
		assert.Contains(t, got.err, `S" holds another type: string`, line)
		assert.Equal(t, exitFailure, got.code, line)
	case strings.HasPrefix(message, "ERR "):
		assert.Contains(t, got.err, message, line)
		assert.Empty(t, got.out, line)
		code := exitUsage
		if strings.Contains(message, "no such key") || line == "lset L 99 x" {
			code = exitNothing
		}
		assert.Equal(t, code, got.code, line)
	case want == "\n":
		assert.Empty(t, got.out+got.err, line)
	default:
		assert.Equal(t, want, got.out, line)
		assert.Empty(t, got.err, line)
	}
	if message == "(nil)" || message == "null" {
		assert.Equal(t, exitNothing, got.code, line)
	}
}
