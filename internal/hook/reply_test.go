package hook

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/shardedlist/shardedlist/internal/rediserr"
)

// The errors of a server inside a script are what the server replies outside of one.
func TestErrorsInsideScripts(t *testing.T) {
	t.Parallel()
	const sha = "0123456789abcdef0123456789abcdef01234567"
	for text, want := range map[string]string{
		"OOM command not allowed script: " + sha + ", on @user_script:7.":                                           "OOM command not allowed", // Redis 7
		"OOM command not allowed script: " + sha + ", on user_script:7.":                                            "OOM command not allowed",
		"ERR ACL failure in script: User ann has no permissions script: " + sha + ", on @user_script:7.":            "ERR ACL failure in script: User ann has no permissions", // Redis 8
		"ERR no LFU. Please note. script: on @user_script:475.":                                                     "ERR no LFU. Please note.",                               // Valkey 9
		"ERR ACL failure in script: User ann has no permissions":                                                    "ERR ACL failure in script: User ann has no permissions",
		"WRONGTYPE Operation against a key holding the wrong kind of value script: " + sha + ", on @user_script:7.": "WRONGTYPE Operation against a key holding the wrong kind of value",
		"ERR index out of range": "ERR index out of range",
	} {
		assert.EqualError(t, asReplied(rediserr.Error(text)), want)
	}
}
