package survey_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/survey"
)

func TestWriteMetrics(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	rows := []survey.Row{
		{Name: "jobs", Form: survey.Sharded, Length: 12_000_000, Shards: 3, Capacity: 512, Bytes: 4096, TTL: 1500 * time.Millisecond, At: at,
			Queue: &survey.Queue{Delayed: 1, Leased: 2, Dead: 3, Done: 4, Failed: 5, Buried: 6, Oldest: at.Add(-90 * time.Second)}},
		{Name: "odd \"name\"\n\\", Form: survey.Adopted, Length: 1, Backlog: 7, Newcomers: 8, Unswept: 9, Strays: 10, Armed: true},
		{Name: "\xff", Form: survey.Unknown, Err: errors.New("broken")},
	}
	var out strings.Builder
	require.NoError(t, survey.WriteMetrics(&out, rows))
	for _, line := range []string{
		"# TYPE shardedlist_list_length gauge",
		`shardedlist_list_length{list="jobs"} 1.2e+07`,
		`shardedlist_list_length{list="odd \"name\"\n\\"} 1`,
		`shardedlist_list_up{list="jobs"} 1`,
		`shardedlist_list_up{list="\"\\xff\""} 0`,
		`shardedlist_list_form{list="jobs",form="sharded"} 1`,
		`shardedlist_list_shards{list="jobs"} 3`,
		`shardedlist_list_capacity{list="jobs"} 512`,
		`shardedlist_list_memory_bytes{list="jobs"} 4096`,
		`shardedlist_list_backlog_elements{list="odd \"name\"\n\\"} 7`,
		`shardedlist_list_newcomer_elements{list="odd \"name\"\n\\"} 8`,
		`shardedlist_list_unswept_shards{list="odd \"name\"\n\\"} 9`,
		`shardedlist_list_stray_shards{list="odd \"name\"\n\\"} 10`,
		`shardedlist_list_armed{list="odd \"name\"\n\\"} 1`,
		`shardedlist_list_ttl_seconds{list="jobs"} 1.5`,
		`shardedlist_queue_jobs{list="jobs",state="waiting"} 1.2e+07`,
		`shardedlist_queue_jobs{list="jobs",state="delayed"} 1`,
		`shardedlist_queue_jobs{list="jobs",state="leased"} 2`,
		`shardedlist_queue_jobs{list="jobs",state="dead"} 3`,
		`shardedlist_queue_oldest_wait_seconds{list="jobs"} 90`,
		`shardedlist_queue_paused{list="jobs"} 0`,
		"# TYPE shardedlist_queue_done_total counter",
		`shardedlist_queue_done_total{list="jobs"} 4`,
		`shardedlist_queue_failed_total{list="jobs"} 5`,
		`shardedlist_queue_buried_total{list="jobs"} 6`,
	} {
		assert.Contains(t, out.String(), line+"\n")
	}
	assert.NotContains(t, out.String(), `shardedlist_list_length{list="\"\\xff\""}`, "what is not known")
	assert.Equal(t, 1, strings.Count(out.String(), "shardedlist_list_ttl_seconds{"))
	line := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{list="([^"\\\n]|\\["\\n])*"(,[a-z]+="[a-z]+")?\} [0-9.e+]+)$`)
	for text := range strings.Lines(out.String()) {
		assert.Regexp(t, line, strings.TrimSuffix(text, "\n"))
	}
}

// Prometheus's own tool has nothing to say against what a scrape of the page returns.
func TestPromtoolAcceptsTheMetrics(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("SHARDEDLIST_REQUIRE_SERVERS") == "" {
		t.Skip("promtool is not installed")
	}
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, survey.WriteMetrics(&text, []survey.Row{
		{Name: "jobs", Form: survey.Sharded, Length: 1, TTL: time.Second, Queue: &survey.Queue{Done: 1, Oldest: time.Unix(1, 0)}},
		{Name: "odd \"name\"\n\\\xff", Form: survey.Adopted, Length: 1, Newcomers: 1, Strays: 1, Armed: true},
	}))
	for _, m := range survey.Metrics {
		require.Contains(t, text.String(), m.Name+"{")
	}
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = &text
	output, err := check.CombinedOutput()
	require.NoError(t, err, string(output))
	assert.Empty(t, string(output))
}

// Names follow the conventions of Prometheus, and no two lists share a label.
func TestNamesOfMetrics(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, m := range survey.Metrics {
		assert.Regexp(t, `^shardedlist_(list|queue)_[a-z_]+$`, m.Name)
		assert.False(t, seen[m.Name], m.Name)
		seen[m.Name] = true
		assert.Equal(t, m.Counter, strings.HasSuffix(m.Name, "_total"), m.Name)
		assert.Regexp(t, `^[A-Z0-9].*\.$`, m.Help)
	}
	assert.Equal(t, "plain", survey.Label("plain"))
	assert.NotEqual(t, survey.Label("\xff"), survey.Label(`"\xff"`))
}
