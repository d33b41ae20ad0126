package script

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/rediserr"
	"github.com/shardedlist/shardedlist/lua"
)

// Replies of servers of several versions, word for word.
var replies = []struct {
	text      rediserr.Error
	transient bool
}{
	{"TRYAGAIN Multiple keys request during rehashing of slot", true},
	{"LOADING Redis is loading the dataset in memory", true},
	{"LOADING Valkey is loading the dataset in memory", true},
	{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", true},
	{"CLUSTERDOWN The cluster is down", true},
	{"CLUSTERDOWN Hash slot not served", true},
	{"READONLY You can't write against a read only replica.", true},
	{"MOVED 866 127.0.0.1:7001", true},
	{"ASK 866 127.0.0.1:7001", true},
	{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", true},
	{"BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", true},

	// A key of a script has moved: Redis 6.2, 7.0, 7.2; Redis 7.4 and Valkey 8.0; Valkey 9.1.
	{"ERR Error running script (call to f_0d6b3ff1e2ac6ae6a1b0e1b2ff0d8a5b2c4a4b10): @user_script:137: @user_script: 137: Lua script attempted to access a non local key in a cluster node", true},
	{"ERR Script attempted to access a non local key in a cluster node script: d8c9246195cbefba29732d612ab791c1e75c14ed, on @user_script:135.", true},
	{"ERR ERR Unable to execute command 'exists' in script because undeclared keys were accessed during rehashing of the slot script: d8c9246195cbefba29732d612ab791c1e75c14ed, on @user_script:135.", true},
	{"ERR Attempted to access a non local key in a cluster node script: d8c9246195cbefba29732d612ab791c1e75c14ed, on @user_script:135.", true},
	{"ERR Script attempted to access a slot not served script: d8c9246195cbefba29732d612ab791c1e75c14ed, on @user_script:135.", true},
	{"ERR Error running script (call to f_0d6b3ff1e2ac6ae6a1b0e1b2ff0d8a5b2c4a4b10): @user_script:137: @user_script: 137: Lua script attempted to execute a command while the cluster is down", true},
	{"ERR Script attempted to execute a command while the cluster is down script: d8c9246195cbefba29732d612ab791c1e75c14ed, on @user_script:135.", true},

	{"ERR syntax error", false},
	{"BUSYKEY Target key name already exists.", false},
	{"BUSYGROUP Consumer Group name already exists", false},
	{"OOM command not allowed when used memory > 'maxmemory'.", false},
	{"WRONGTYPE Operation against a key holding the wrong kind of value", false},
	{"NOSCRIPT No matching script. Please use EVAL.", false},
	{"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand", false},
	{"ERR Script attempted to access keys that do not hash to the same slot script: d8c9246195cbefba29732d612ab791c1e75c14ed, on @user_script:135.", false},
}

// Scripts take the same errors for those of a key that has moved, whatever the version of the server.
func TestScriptsKnowTheErrorsOfAMovingSlot(t *testing.T) {
	t.Parallel()
	function := regexp.MustCompile(`(?s)local function is_moving.*?\nend\n`).FindString(lua.Source("llen"))
	require.NotEmpty(t, function)
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	for _, reply := range replies {
		moving, err := rdb.Eval(t.Context(), function+"return is_moving({ err = ARGV[1] })", nil, string(reply.text)).Bool()
		if regexp.MustCompile("TRYAGAIN|non local key|rehashing of the slot").MatchString(string(reply.text)) {
			assert.NoError(t, err)
			assert.True(t, moving, reply.text)
		} else {
			assert.ErrorContains(t, err, string(reply.text), "it is raised again")
		}
	}
}

func TestTransientErrors(t *testing.T) {
	t.Parallel()
	for _, reply := range replies {
		assert.Equal(t, reply.transient, IsTransient(reply.text), reply.text)
		assert.Equal(t, reply.transient, IsTransient(fmt.Errorf("wrapped: %w", reply.text)), reply.text)
		assert.False(t, IsTransient(errors.New(string(reply.text))), "%s is no reply", reply.text)
	}
	assert.False(t, IsTransient(nil))
	assert.False(t, IsTransient(context.DeadlineExceeded))
}

// Redis 6.0 and 7.0 in their own words. They differ in those for what they do not know and what they do not allow.
func TestExplainedErrors(t *testing.T) {
	t.Parallel()
	const old, noEval = "is older than Redis 6.2", "does not allow EVAL and EVALSHA"
	const moves = "if nobody is moving it, end that with redis-cli --cluster fix"
	for text, want := range map[rediserr.Error]string{
		"ERR Error running script (call to f_de619e4caa4e6c7667da29588a82e211d1fcbad9): @user_script:464: @user_script: 464: Wrong number of args calling Redis command From Lua script": old,
		"ERR Error running script (call to f_6513c0c8a56eff8fe2ba70404bd2a30b3e7b1487): @user_script:414: @user_script: 414: Unknown Redis command called from Lua script":               old,
		"ERR Unknown Redis command called from script script: d8c9246195cbefba29732d612ab791c1e75c14ed, on @user_script:135.":                                                            old,
		"ERR unknown command `evalsha`, with args beginning with: `d8c9246195cbefba29732d612ab791c1e75c14ed`, `1`, ":                                                                     noEval,
		"ERR unknown command 'eval', with args beginning with: 'return 1' '1' ":                                                                                                          noEval,
		"NOPERM this user has no permissions to run the 'evalsha' command or its subcommand":                                                                                             noEval,
		"NOPERM User worker has no permissions to run the 'eval' command":                                                                                                                noEval,
		"TRYAGAIN Multiple keys request during rehashing of slot":                                                                                                                        moves,
		"ERR Script attempted to access a non local key in a cluster node script: d8c9246195cbefba29732d612ab791c1e75c14ed, on ":                                                         moves,
		"NOPERM No permissions to access a key":                                                                                 "",
		"NOPERM User worker has no permissions to run the 'blpop' command":                                                      "",
		"ERR The user executing the script can't run this command or subcommand script: d8c9246195cbefba29732d612ab791c1e75c14": "",
		"OOM command not allowed when used memory > 'maxmemory'.":                                                               "",
		"ERR unknown command 'lmpop', with args beginning with: 'evalsha' ":                                                     "",
	} {
		got := Explain(text)
		assert.ErrorIs(t, got, text)
		assert.Contains(t, got.Error(), want)
		assert.Equal(t, want == "", got == error(text), text)
	}
	assert.NoError(t, Explain(nil))
	assert.Equal(t, context.Canceled, Explain(context.Canceled))
}
