package shardedlistprom_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	shardedlistprom "github.com/shardedlist/shardedlist/prometheus"
)

// gather returns the first metric of each family.
func gather(collectors ...prometheus.Collector) (map[string]*dto.Metric, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	first := map[string]*dto.Metric{}
	for _, family := range families {
		first[family.GetName()] = family.GetMetric()[0]
	}
	return first, err
}

// names are those of all metrics, as expressions have them.
func names(t *testing.T) (all []string) {
	t.Helper()
	list, err := shardedlist.New(newClient(t), "jobs")
	require.NoError(t, err)
	families, err := gather(shardedlistprom.NewCollector("jobs", list))
	require.NoError(t, err)
	for name, metric := range families {
		all = append(all, name)
		if metric.Histogram != nil {
			all = append(all, name+"_bucket", name+"_sum", name+"_count")
		}
	}
	return append(all, serverNames()...)
}

// panel is what is checked of a panel of the dashboard.
type panel struct {
	Title       string
	Description string
	Targets     []struct{ Expr string }
}

func dashboard(t *testing.T) []panel {
	t.Helper()
	text, err := os.ReadFile("dashboard.json")
	require.NoError(t, err)
	var d struct {
		Title      string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Query string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &d))
	require.NotEmpty(t, d.Title)
	require.NotEmpty(t, d.Panels)
	return d.Panels
}

var ours = regexp.MustCompile(`\bshardedlist_[a-z_]+`)

// Every metric that the alerts and the dashboard name is one that a collector has, and every metric of a collector is explained.
func TestFilesNameMetricsThatExist(t *testing.T) {
	all := names(t)
	for _, path := range []string{"alerts.yml", "alerts_test.yml", "dashboard.json", "../docs/metrics.md"} {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		found := ours.FindAllString(string(text), -1)
		require.NotEmpty(t, found, path)
		for _, name := range found {
			if strings.HasSuffix(name, "_") {
				continue // a prefix of several
			}
			assert.Contains(t, all, name, path)
		}
	}
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	for _, name := range all {
		base := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		assert.Contains(t, string(page), "`"+base+"`", "docs/metrics.md")
	}
}

func TestThePageExplainsEveryAlert(t *testing.T) {
	rules, err := os.ReadFile("alerts.yml")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/metrics.md")
	require.NoError(t, err)
	var there, explained []string
	for _, found := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(string(rules), -1) {
		there = append(there, found[1])
	}
	for _, found := range regexp.MustCompile("(?m)^\\| `(Sharded\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		explained = append(explained, found[1])
	}
	assert.Equal(t, there, explained)
}

func TestPanelsExplainThemselves(t *testing.T) {
	for _, p := range dashboard(t) {
		assert.NotEmpty(t, p.Title)
		assert.NotEmpty(t, p.Description, p.Title)
		assert.NotEmpty(t, p.Targets, p.Title)
	}
}

// promtool parses the alerts and plays what they say, and parses the expressions of the dashboard.
func TestPromtoolAccepts(t *testing.T) {
	promtool := program(t, "promtool")
	run := func(args ...string) {
		t.Helper()
		output, err := exec.CommandContext(t.Context(), promtool, args...).CombinedOutput()
		require.NoError(t, err, "promtool %s: %s", strings.Join(args, " "), output)
	}
	run("check", "rules", "alerts.yml")
	run("test", "rules", "alerts_test.yml")

	rules := t.TempDir() + "/dashboard.yml" // as rules, which this version of promtool parses
	text := "groups:\n- name: dashboard\n  rules:\n"
	for _, p := range dashboard(t) {
		for _, target := range p.Targets {
			expr := strings.NewReplacer("$__rate_interval", "5m", "$list", ".*", "$instance", ".*").Replace(target.Expr)
			quoted, err := json.Marshal(expr)
			require.NoError(t, err)
			text += "  - record: panel:" + regexp.MustCompile(`\W+`).ReplaceAllString(strings.ToLower(p.Title), "_") + "\n    expr: " + string(quoted) + "\n"
		}
	}
	require.NoError(t, os.WriteFile(rules, []byte(text), 0o600))
	run("check", "rules", "--lint=none", rules)
}
