package shardedlistprom_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// inPage returns what docs/operating.md has between two texts.
func inPage(t *testing.T, before, behind string) string {
	t.Helper()
	page, err := os.ReadFile("../docs/operating.md")
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), before)
	require.True(t, found)
	text, _, found = strings.Cut(text, behind)
	require.True(t, found)
	return text
}

// program returns the path of a program, and skips the test where it is not installed, unless it has to be.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("SHARDEDLIST_REQUIRE_SERVERS") == "" {
		t.Skip(name, "is not installed")
	}
	require.NoError(t, err)
	return path
}

// The query of an autoscaler has the length of a list, 0 if there is no list, and no value if nobody knows.
func TestTheQueryOfAnAutoscaler(t *testing.T) {
	promtool, dir := program(t, "promtool"), t.TempDir()
	query := inPage(t, "query: ", "\n")
	rules := "groups: [{name: g, rules: [{record: scale, expr: '" + query + "'}]}]\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "rules.yml"), []byte(rules), 0o600))
	tests := "rule_files: [rules.yml]\nevaluation_interval: 1m\ntests:\n"
	for _, test := range []struct{ series, samples string }{
		{"{series: 'shardedlist_list_length{list=\"jobs\", job=\"shardedlist\"}', values: '70x5'}, {series: 'up{job=\"shardedlist\"}', values: '1x5'}", "[{labels: scale, value: 70}]"},
		{"{series: 'up{job=\"shardedlist\"}', values: '1x5'}", "[{labels: scale, value: 0}]"},
		{"{series: 'up{job=\"shardedlist\"}', values: '0x5'}", "[]"},
	} {
		tests += "  - {interval: 1m, input_series: [" + test.series + "], promql_expr_test: [{expr: scale, eval_time: 4m, exp_samples: " + test.samples + "}]}\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tests.yml"), []byte(tests), 0o600))
	output, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "tests.yml")).CombinedOutput()
	require.NoError(t, err, "%s", output)
	assert.Contains(t, serverNames(), "shardedlist_list_length")
}

// redis_exporter with the script of the page exports the lengths of a short list and of a long one.
func TestTheScriptOfRedisExporter(t *testing.T) {
	exporter, dir := program(t, "prometheus-redis-exporter"), t.TempDir()
	server := redistest.Start(t, redistest.Redis)
	rdb := server.Client(t)
	jobs, err := shardedlist.New(rdb, "jobs", shardedlist.WithCapacity(4))
	require.NoError(t, err)
	_, err = jobs.RPush(t.Context(), 1, 2, 3)
	require.NoError(t, err)
	mail, err := shardedlist.New(rdb, "post")
	require.NoError(t, err)
	for _, size := range []int{10, 5000, 10} { // the capacities of its shards differ
		for range 40 {
			values := slices.Repeat([]any{strings.Repeat("-", size)}, 25_000/size)
			_, err = mail.RPush(t.Context(), values...)
			require.NoError(t, err)
		}
	}
	length, err := mail.LLen(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, rdb.HGet(t.Context(), "{post}:meta", "caps").Val())
	require.NoError(t, mail.Rename(t.Context(), "mail")) // the keys of its shards keep the former name
	require.NoError(t, rdb.RPush(t.Context(), "mail", "a newcomer").Err())

	script := filepath.Join(dir, "lengths.lua")
	require.NoError(t, os.WriteFile(script, []byte(inPage(t, "```lua\n", "```")), 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	cmd := exec.CommandContext(t.Context(), exporter, "-redis.addr", server.URL(), "-script", script, "-web.listen-address", address)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var metrics string
	require.Eventually(t, func() bool {
		response, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		metrics = string(body)
		return err == nil && strings.Contains(metrics, "redis_up 1")
	}, time.Minute, 50*time.Millisecond)
	assert.Equal(t, []string{`redis_script_values{key="jobs"} 3`, fmt.Sprintf(`redis_script_values{key="mail"} %d`, length+1)},
		regexp.MustCompile(`(?m)^redis_script_values.*`).FindAllString(metrics, -1))
}
