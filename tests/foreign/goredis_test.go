package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// specs are those of go-redis that are run, each part on the keys that match a pattern. At least so many must be run, somewhat fewer
// than there are in go-redis 9.23.0 for Redis 7.
var specs = []struct {
	name       string
	match      string
	focus      string
	least      int
	exclusions string // the file that has them
}{
	{"lists", "*", "^go-redis Commands lists ", 27, "testdata/goredis-lists.skip"},
	{"keys", "*", "^go-redis Commands keys ", 16, "testdata/goredis-keys.skip"},
	{"pipelines", "*", "^go-redis pipelining ", 18, ""},
	{"transactions", "*", "^go-redis Tx ", 4, ""},
	{"transactions beside lists", "list*", "^go-redis Tx ", 20, ""},
}

func TestGoRedisSpecs(t *testing.T) {
	suite := buildSpecs(t)
	for _, kind := range kinds(redistest.Valkey) {
		for _, part := range specs {
			t.Run(fmt.Sprintf("%s/%s", kind, part.name), func(t *testing.T) {
				t.Parallel()
				match := part.match
				if *plain {
					match = ""
				}
				excluded := readExclusions(t, part.exclusions)
				server := redistest.Start(t, kind)
				runSpecs(t, suite, server.Addr(), match, part.focus, excluded).check(t, part.least, excluded)
			})
		}
	}
}

// buildSpecs compiles the tests of go-redis with the hook on the clients that they make.
func buildSpecs(t *testing.T) string {
	dir := t.TempDir()
	source := filepath.Join(dir, "go-redis")
	require.NoError(t, os.CopyFS(source, os.DirFS(goList(t, "-m", "-f", "{{.Dir}}", "github.com/redis/go-redis/v9"))))

	const plainClient, hookedClient = "redis.NewClient(redisOptions())", "newHookedClient(redisOptions())"
	for _, name := range []string{"commands_test.go", "pipeline_test.go", "tx_test.go", "tx_unwatch_test.go"} {
		path := filepath.Join(source, name)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Contains(t, string(text), plainClient, name)
		writeFile(t, path, bytes.ReplaceAll(text, []byte(plainClient), []byte(hookedClient)))
	}
	text, err := os.ReadFile("testdata/goredis/shardedlist_test.go")
	require.NoError(t, err)
	writeFile(t, filepath.Join(source, "foreign_shardedlist_test.go"), text)

	// In a workspace, go-redis as it was copied is what shardedlist uses, too.
	root := goList(t, "-m", "-f", "{{.Dir}}", "github.com/shardedlist/shardedlist")
	work := filepath.Join(dir, "go.work")
	writeFile(t, work, fmt.Appendf(nil, "go 1.26.0\n\nuse (\n\t%q\n\t%q\n)\n", source, root))
	binary := filepath.Join(dir, "specs")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-trimpath", "-o", binary, ".")
	build.Dir = source
	build.Env = append(os.Environ(), "GOWORK="+work, "GOFLAGS=")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

func goList(t *testing.T, args ...string) string {
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...).Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// writeFile replaces a file that may be read-only, as those of a module are.
func writeFile(t *testing.T, path string, text []byte) {
	require.NoError(t, os.RemoveAll(path))
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// runSpecs runs those specs whose names match the focus.
func runSpecs(t *testing.T, suite, addr, match, focus string, excluded []string) outcomes {
	dir := t.TempDir()
	report := filepath.Join(dir, "report.json")
	args := []string{"-test.run=^TestGinkgoSuite$", "-test.timeout=5m", "-ginkgo.no-color", "-ginkgo.json-report=" + report, "-ginkgo.focus=" + focus}
	for _, name := range excluded {
		args = append(args, "-ginkgo.skip=^go-redis "+regexp.QuoteMeta(name)+"$")
	}
	cmd := exec.CommandContext(t.Context(), suite, args...)
	cmd.Dir = dir
	// RE_CLUSTER keeps the suite from looking for the other servers that it has specs for.
	cmd.Env = append(os.Environ(), "RE_CLUSTER=true", "REDIS_VERSION=7.0", "FOREIGN_ADDR="+addr, "FOREIGN_MATCH="+match)
	out, err := cmd.CombinedOutput()
	assert.NoError(t, err, "the suite ended so:\n%s", tail(string(out), 4000))

	text, err := os.ReadFile(report)
	require.NoError(t, err)
	return readReport(t, text, regexp.MustCompile(focus))
}

// readReport sorts specs by what came of them, as those of Redis's suite.
func readReport(t *testing.T, text []byte, focus *regexp.Regexp) outcomes {
	var suites []struct {
		SpecReports []struct {
			LeafNodeType            string
			ContainerHierarchyTexts []string
			LeafNodeText            string
			State                   string
			Failure                 struct{ Message string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &suites))
	seen := make(outcomes)
	for _, suite := range suites {
		for _, spec := range suite.SpecReports {
			name := strings.Join(append(spec.ContainerHierarchyTexts, spec.LeafNodeText), " ")
			switch {
			case !focus.MatchString("go-redis "+name) || spec.LeafNodeType != "It":
			case spec.State == "passed":
				seen["ok"] = append(seen["ok"], name)
			case spec.State == "skipped" && spec.Failure.Message != "": // the suite's own words
				seen["ignore"] = append(seen["ignore"], name)
			case spec.State == "skipped":
				seen["skip"] = append(seen["skip"], name)
			default:
				seen["err"] = append(seen["err"], name+": "+spec.Failure.Message)
			}
		}
	}
	return seen
}
