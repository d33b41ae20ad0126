package foreign

import (
	"bufio"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m).Run())
}

// kinds are the servers that a suite runs on: with -short one of them.
func kinds(short redistest.Kind) []redistest.Kind {
	if testing.Short() {
		return redistest.Kinds(short)
	}
	return redistest.Kinds(redistest.Redis, redistest.Valkey)
}

// missing skips a test that lacks something, or fails it where nothing may be missing.
func missing(t *testing.T, what string) {
	t.Helper()
	const requireServers = "SHARDEDLIST_REQUIRE_SERVERS"
	if os.Getenv(requireServers) == "" {
		t.Skipf("%s: .ci/install-servers installs it", what)
	}
	t.Fatalf("%s, and %s is set: .ci/install-servers installs it", what, requireServers)
}

// readExclusions reads a file of tests that are left out, if there is one. Each is a line with its name, below a comment with the
// reason. Where there is no hook, none is left out.
func readExclusions(t *testing.T, path string) []string {
	t.Helper()
	if path == "" || *plain {
		return nil
	}
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	var names []string
	reason := false
	for lines := bufio.NewScanner(file); lines.Scan(); {
		line := lines.Text()
		switch {
		case line == "":
			reason = false
		case strings.HasPrefix(line, "# "):
			reason = true
		default:
			require.True(t, reason, "%s: no reason is given for %q", path, line)
			require.False(t, slices.Contains(names, line), "%s: %q is there twice", path, line)
			names = append(names, line)
		}
	}
	return names
}
