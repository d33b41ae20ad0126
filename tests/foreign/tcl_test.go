package foreign

import (
	"bufio"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

var (
	plain    = flag.Bool("foreign.plain", false, "leave out the hook, to see what the suites say of plain lists")
	capacity = flag.Int("foreign.capacity", 8, "elements in a full shard")
)

// units are the parts of Redis's test suite that are run. At least so many of their tests must be run, somewhat fewer than there are
// in Redis 7.0.15.
var units = []struct {
	name       string
	least      int
	exclusions string // the file that has them
}{
	{"list", 200, "testdata/redis-list.skip"},
	{"list-2", 2, ""},
	{"list-3", 10, ""},
}

func TestRedisSuite(t *testing.T) {
	source := redisSource(t)
	for _, kind := range kinds(redistest.Redis) {
		for _, unit := range units {
			t.Run(fmt.Sprintf("%s/%s", kind, unit.name), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, kind)
				g := newGateway(t, server, !*plain, shardedlist.WithCapacity(*capacity))
				excluded := readExclusions(t, unit.exclusions)
				runTcl(t, source, "unit/type/"+unit.name, g.port(), excluded).check(t, unit.least, excluded)
			})
		}
	}
}

// redisSource returns the folder of the source of Redis, which has the suite.
func redisSource(t *testing.T) string {
	if _, err := exec.LookPath("tclsh"); err != nil {
		missing(t, "tclsh is not installed")
	}
	cache := os.Getenv("SHARDEDLIST_FOREIGN_CACHE")
	if cache == "" {
		cache = "/var/cache/shardedlist"
	}
	helpers, err := filepath.Glob(filepath.Join(cache, "redis-*", "tests", "test_helper.tcl"))
	require.NoError(t, err)
	if len(helpers) == 0 {
		missing(t, "there is no source of Redis in "+cache)
	}
	require.Len(t, helpers, 1)
	return filepath.Dir(filepath.Dir(helpers[0]))
}

// outcomes are the names of tests by what came of them: ok, err, skip for one that we excluded, ignore for one that the suite itself
// leaves out on a server that it has not started.
type outcomes map[string][]string

var tclLine = regexp.MustCompile(`^\[(ok|err|skip|ignore|exception|TIMEOUT)\]: (.*?)( \(\d+ ms\))?$`)

// runTcl runs a unit against the server at a port.
func runTcl(t *testing.T, source, unit string, port int, excluded []string) outcomes {
	dir := t.TempDir() // the suite writes below the folder it is in
	require.NoError(t, os.CopyFS(filepath.Join(dir, "tests"), os.DirFS(filepath.Join(source, "tests"))))
	skip := filepath.Join(dir, "skip")
	require.NoError(t, os.WriteFile(skip, []byte(strings.Join(excluded, "\n")), 0o600))

	// Its two processes talk on a port of their own, which several that look for one at once must not all find free.
	basePort := 10000 + rand.IntN(20000)
	cmd := exec.CommandContext(t.Context(), "tclsh", "tests/test_helper.tcl", "--host", "127.0.0.1", "--port", strconv.Itoa(port),
		"--baseport", strconv.Itoa(basePort),
		"--singledb", "--durable", "--ignore-encoding", "--timeout", "300", "--skipfile", skip, "--single", unit)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=dumb", "COLOR=no")
	out, err := cmd.CombinedOutput()

	seen := make(outcomes)
	for lines := bufio.NewScanner(strings.NewReader(string(out))); lines.Scan(); {
		if match := tclLine.FindStringSubmatch(lines.Text()); match != nil {
			seen[match[1]] = append(seen[match[1]], match[2])
		}
	}
	assert.NoError(t, err, "the suite ended so:\n%s", tail(string(out), 4000))
	return seen
}

func tail(text string, length int) string { return text[max(0, len(text)-length):] }

// check asserts that enough tests were run, that none failed, and that there still are those that were excluded.
func (o outcomes) check(t *testing.T, least int, excluded []string) {
	ran := len(o["ok"]) + len(o["err"])
	fmt.Printf("%s: %d tests ran, %d excluded by %d names, %d left out by the suite itself\n",
		t.Name(), ran, len(o["skip"]), len(excluded), len(o["ignore"]))
	for _, kind := range []string{"err", "exception", "TIMEOUT"} {
		for _, test := range o[kind] {
			t.Errorf("%s: %s", kind, test)
		}
	}
	assert.GreaterOrEqual(t, ran, least, "tests that ran")
	for _, name := range excluded {
		assert.Contains(t, o["skip"], name, "there is no such test to exclude")
	}
}
