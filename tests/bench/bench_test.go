package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test program a caller or a pinger where the benchmark starts it as one.
func TestMain(m *testing.M) {
	if os.Getenv(callerEnv) != "" || os.Getenv(pingerEnv) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestReport runs two short sections. It does not judge the figures.
func TestReport(t *testing.T) {
	requireRedis(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "results.json")
	if err := run(t.Context(), []string{"-short", "-runs", "1", "-only", "throughput|cancel", "-o", dir, "-data", data}); err != nil {
		t.Fatal(err)
	}
	page, svg := pages(t, dir), read(t, dir, "bench-rpush.svg")
	for _, want := range []string{
		"cd tests/bench && go run . -short -runs 1 -only throughput|cancel\n",
		"## A cancelled wait\n",
		"| Time of a wait of 3,000 ms that is cancelled after 100 ms | go-redis | ",
		"| RPush, 512 goroutines, against the fastest other client | ≥ 2.50× |",
		"### LPop, 1,024 bytes",
		"| 64 | go-redis AutoPipeline |",
		"| 64 | rueidis |",
		"](bench-lpop.svg)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, wrong := range []string{"NaN", dir} {
		if strings.Contains(page, wrong) {
			t.Errorf("the report contains %q", wrong)
		}
	}

	again := t.TempDir()
	if err := run(t.Context(), []string{"-from", data, "-o", again}); err != nil {
		t.Fatal(err)
	}
	if pages(t, again) != page || read(t, again, "bench-rpush.svg") != svg {
		t.Error("the stored figures make a different report")
	}
}

// pages are the report.
func pages(t *testing.T, dir string) string {
	return read(t, dir, "benchmarks.md") + read(t, dir, figuresPage)
}

// TestNetworkReport runs the short network section. It does not judge the figures, but that the delay is there.
func TestNetworkReport(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	requireRedis(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "results.json")
	if err := run(t.Context(), []string{"-short", "-runs", "1", "-only", "network", "-o", dir, "-data", data}); err != nil {
		t.Fatal(err)
	}
	page := pages(t, dir)
	for _, want := range []string{"### Loopback", "### Round trips of 0.25 ms", "### Round trips of 1 ms", "| LPop | 50 processes of 1 caller each |"} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	stored, err := loadResults(data)
	if err != nil {
		t.Fatal(err)
	}
	idle := 0 // a short run on a busy machine may have no reply in time
	for _, r := range stored.Network.Shared {
		if r.Ops == 0 {
			idle++
		} else if r.P50 < r.RoundTrip {
			t.Errorf("%s of %s took %v over a round trip of %v", r.Op, r.Client, r.P50, r.RoundTrip)
		}
	}
	if idle > len(stored.Network.Shared)/20 {
		t.Errorf("%d of %d figures have no operation", idle, len(stored.Network.Shared))
	}
	if got, want := len(stored.Network.Processes), 2*len(singleOps); got != want {
		t.Errorf("%d figures of processes, want %d", got, want)
	}
	for _, r := range stored.Network.Processes {
		if r.Ops <= 0 || r.CPU <= 0 {
			t.Errorf("%s of %d processes of %s: %v", r.Op, r.Goroutines, r.Client, r.figures)
		}
	}
}

// In each place both clients reach their lists, and the servers tell what that has taken.
func TestPlaces(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	ctx, names := t.Context(), []string{}
	b := &bench{path: "redis-server"}
	err := b.onServer(ctx, func(b *bench, ctx context.Context) error {
		return b.inEachPlace(ctx, func(p *place) error {
			names = append(names, p.name)
			for at := range 2 {
				before, err := p.input(ctx)
				if err != nil {
					return err
				}
				rdb, prefix := p.client(at)
				if n, err := rdb.RPush(ctx, prefix+"list", "a", "b").Result(); err != nil || n != 2 {
					t.Errorf("%q: %d, %v", p.name, n, err)
				}
				if after, err := p.input(ctx); err != nil || after <= before {
					t.Errorf("%q: %v bytes, then %v, %v", p.name, before, after, err)
				}
			}
			if used, err := p.cpu(ctx); err != nil || used <= 0 {
				t.Errorf("%q: %v, %v", p.name, used, err)
			}
			return p.clear(ctx)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(names, []string{"", besides, across}) {
		t.Error(names)
	}
}

// TestShortSections runs sections that say how much they measured. It does not judge the figures.
func TestShortSections(t *testing.T) {
	requireRedis(t)
	dir := t.TempDir()
	data := filepath.Join(dir, "results.json")
	if err := run(t.Context(), []string{"-short", "-runs", "1", "-only", "workloads|everyday|jobs|keys|pairs|many|large|huge|adopt|spread|reshard", "-o", dir, "-data", data}); err != nil {
		t.Fatal(err)
	}
	page := pages(t, dir)
	for _, want := range []string{"| list of 3 | go-redis |", "| Workload: one queue | ≥ 0.80× |", "| Server CPU of `LLEN`, 10000 elements | ≤ 2.20× |", "| Time of `DEL` of 100 lists | ≤ 4.00× |", "| Pops from many lists, against go-redis |", "| LPop | 102,400 | 64 |", "| `LPos` of the last | ", "The same list, beside ", "| by hand, elements/s |",
		"| 0 | asynq | ", "| 10,000 | rmq | ", "| 500 | asynq, looking every 10 ms | ", "| Handlers of 5.00 ms at once in 20 consumers, Concurrency(10) | ≤ 10 | ", "| Jobs leased to 20 consumers with handlers of 50 ms, Concurrency(10) | ≥ 95 % | "} {
		if !strings.Contains(page, want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	stored, err := loadResults(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range stored.Large {
		if r.Ops <= 0 {
			t.Errorf("%s of %s: %v", r.Op, r.Client, r.Ops)
		}
	}
	for _, r := range stored.Jobs.Rates {
		if r.Ops <= 0 {
			t.Errorf("jobs of %s, %d waiting: %v", r.Client, r.Waiting, r.Ops)
		}
	}
	for _, r := range stored.Pairs {
		if r.Ops <= 0 {
			t.Errorf("pairs of %s: %v", r.Client, r.Ops)
		}
	}
}

// TestPageIsUpToDate checks that docs/benchmarks.md is the report of the stored figures.
func TestPageIsUpToDate(t *testing.T) {
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-from", "results.json", "-o", dir}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"benchmarks.md", figuresPage, "bench-rpush.svg", "bench-lpop.svg"} {
		if read(t, dir, name) != read(t, "../../docs", name) {
			t.Errorf("docs/%s is out of date: go run . -from results.json", name)
		}
	}
}

func TestCoreSections(t *testing.T) {
	requireRedis(t)
	for _, section := range coreSections {
		if err := run(t.Context(), []string{"-core", section.name, "-d", "20ms"}); err != nil {
			t.Errorf("%s: %v", section.name, err)
		}
	}
}

func TestSummarySplitsAtOne(t *testing.T) {
	r := &report{}
	r.compareCells("%s", "peer", func(op string, size int) float64 {
		if op == "LPop" && size > 100 {
			return 0.5
		}
		return float64(size) / 8
	})
	var out bytes.Buffer
	r.renderSummary(&out)
	for _, want := range []string{
		"| RPush | peer | 2.00–128 |\n",
		"| LPop, 16 and 100 bytes | peer | 2.00–13 |\n",
		"## Behind\n\n| figure | compared with | factor |\n|---|---|---|\n| LPop, 1,024 bytes | peer | 2.00 |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, &out)
		}
	}
}

func TestTicksEncloseTheRange(t *testing.T) {
	if got := fmt.Sprint(roundTicks(10_750, 622_861)); got != "[10000 20000 50000 100000 200000 500000 1000000]" {
		t.Error(got)
	}
	if got := fmt.Sprint(roundTicks(1, 3)); got != "[1 2 5]" {
		t.Error(got)
	}
}

func requireRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHistogram(t *testing.T) {
	var h histogram
	for i := range 10_000 {
		h.add(time.Duration(i+1) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{0.5: 5 * time.Millisecond, 0.99: 9900 * time.Microsecond} {
		got := h.quantile(q)
		if math.Abs(float64(got-want)) > 0.02*float64(want) {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	for _, d := range []time.Duration{0, 1, 31, 32, 33, 1000, math.MaxInt64} {
		got := middle(bucketOf(uint64(d)))
		if math.Abs(float64(got-d)) > 0.016*float64(d) {
			t.Errorf("%v is counted as %v", d, got)
		}
	}
}

func TestQuantileIsBetweenTheNearestValues(t *testing.T) {
	if got := quantile([]float64{4, 1, 3, 2}, 0.5); got != 2.5 {
		t.Errorf("the median is %v", got)
	}
	if got := quantile([]time.Duration{7}, 0.99); got != 7 {
		t.Errorf("the only value is %v", got)
	}
}

func TestSpreadIsHalfOfTheRange(t *testing.T) {
	for _, c := range []struct {
		ops  []float64
		want float64
	}{
		{[]float64{103, 100, 97}, 0.03},
		{[]float64{90, 100, 130, 101, 99}, 0.2},
		{[]float64{100}, 0},
		{[]float64{0, 0, 5}, 0}, // there is nothing to compare it with
	} {
		var runs []figures
		for _, ops := range c.ops {
			runs = append(runs, figures{Ops: ops, CPU: time.Duration(ops) * time.Microsecond})
		}
		if f := median(runs); math.Abs(f.OpsSpread-c.want) > 1e-9 || math.Abs(f.CPUSpread-c.want) > 1e-9 {
			t.Errorf("the spread of %v is %v, of the same CPU times %v, want %v", c.ops, f.OpsSpread, f.CPUSpread, c.want)
		}
	}
}

func TestClientsTakeTurnsUntilSteady(t *testing.T) {
	for _, c := range []struct {
		spread float64
		want   string // the clients in the order of their measurements
	}{
		{0.04, "012 120 201"},
		{0.06, "012 120 201 012"}, // and another round if there is time
	} {
		b, got := &bench{runs: 3}, ""
		medians, err := b.medians(3, func(client, round int) ([]figures, error) {
			if len(got)%4 == 3 {
				got += " "
			}
			got += fmt.Sprint(client)
			time.Sleep(time.Millisecond)
			ops := 100.0
			if client == 1 {
				ops += 100 * c.spread * float64(round%3-1)
			}
			return []figures{{Ops: ops}}, nil
		})
		if err != nil || medians[0][0].Ops != 100 {
			t.Errorf("%v, %v", medians, err)
		}
		if !strings.HasPrefix(got, c.want) || c.spread <= steady && got != c.want {
			t.Errorf("measured %q, want %q", got, c.want)
		}
	}
}

func TestPageShowsTheSpread(t *testing.T) {
	pairs := []pairsResult{
		{0, ours, figures{Ops: 12345, OpsSpread: 0.021}},
		{0, "go-redis", figures{Ops: 12345, OpsSpread: 0.5}},
	}
	report := newReport(results{Pairs: pairs})
	page := string(report.render()) + string(report.renderFigures())
	for _, want := range []string{"| 12,345 ± 3 % |", "| 12,345 ± 50 % |", "- ± is half of the range of the runs"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	pairs[0].OpsSpread, pairs[1].OpsSpread = 0, 0
	report = newReport(results{Pairs: pairs})
	if page := string(report.render()) + string(report.renderFigures()); strings.Contains(page, "±") {
		t.Errorf("the page has a spread of single runs:\n%s", page)
	}
}

func TestFiguresAreReadable(t *testing.T) {
	for got, want := range map[string]string{
		count(1234567):                  "1,234,567",
		count(999.6):                    "1,000",
		micros(1234 * time.Nanosecond):  "1.23 µs",
		micros(12 * time.Millisecond):   "12 ms",
		micros(123 * time.Microsecond):  "123 µs",
		millis(1500 * time.Microsecond): "1.50 ms",
		times(1.204):                    "1.20×",
		times(12.3):                     "12×",
		times(math.Inf(1)):              "–",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
