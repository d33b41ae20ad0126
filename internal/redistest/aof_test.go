package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a script wrote when the server was killed is there after restarts, or is not, wherever its log was torn.
func TestAScriptIsNotTornByAKill(t *testing.T) {
	t.Parallel()
	const script = `redis.call('SET', 'before', '1') redis.call('RPUSH', 'list', 'x') return redis.call('SET', 'behind', '1')`
	for _, kind := range []Kind{Redis, Valkey} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			ctx, server := t.Context(), Start(t, kind, "appendonly yes", "appendfsync always")
			client := server.Client(t)
			for _, last := range []string{"MULTI", "SET", "before", "RPUSH", "x", "behind", "EXEC", ""} {
				require.NoError(t, client.FlushAll(ctx).Err())
				require.NoError(t, client.Set(ctx, "kept", 1, 0).Err())
				require.NoError(t, client.Eval(ctx, script, nil).Err())
				server.Kill()
				tear(t, server.processes[0].dir, last)
				if strings.HasPrefix(server.Version(), "Redis 7") && last != "MULTI" { // which is no transaction yet
					fixed := fixed(t, server.processes[0].dir)
					require.NoError(t, server.processes[0].mend())
					assert.Equal(t, fixed, read(t, server.processes[0].dir), last)
				}
				server.Restart(t)
				times := int64(1)
				if last != "" {
					times = 0
				}
				assert.EqualValues(t, 1+3*times, client.Exists(ctx, "kept", "before", "list", "behind").Val(), last)
				require.NoError(t, client.Eval(ctx, script, nil).Err(), "as a client repeats it")
				server.Restart(t)
				assert.Equal(t, times+1, client.LLen(ctx, "list").Val(), last)
			}
		})
	}
}

// fixed returns the log as docs/servers.md has it mended, with the tool of Redis 7.
func fixed(t *testing.T, dir string) string {
	t.Helper()
	there := t.TempDir()
	require.NoError(t, os.CopyFS(there, os.DirFS(dir)))
	fix := exec.CommandContext(t.Context(), "redis-check-aof", "--fix", "appendonlydir/appendonly.aof.manifest")
	fix.Dir, fix.Stdin = there, strings.NewReader("y\n")
	output, err := fix.CombinedOutput()
	require.NoError(t, err, "%s", output)
	return read(t, there)
}

func read(t *testing.T, dir string) string {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof"))
	require.NoError(t, err)
	return string(log)
}

// tear ends the log within the last transaction, in the middle of a word. If that is empty, it leaves it whole.
func tear(t *testing.T, dir, word string) {
	t.Helper()
	log := read(t, dir)
	begun := strings.LastIndex(log, "\r\nMULTI\r\n")
	require.Positive(t, begun)
	if word != "" {
		at := strings.Index(log[begun:], "\r\n"+word+"\r\n")
		require.GreaterOrEqual(t, at, 0, word)
		end := begun + at + 2 + len(word)/2
		require.NoError(t, os.Truncate(filepath.Join(dir, "appendonlydir", "appendonly.aof.1.incr.aof"), int64(end)))
	}
}
