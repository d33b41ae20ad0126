package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheReportRenders runs the short form of the throughput part. What it measures is not judged.
func TestTheReportRenders(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not installed")
	}
	dir := t.TempDir()
	if err := run(t.Context(), []string{"-short", "-runs", "1", "-only", "throughput", "-o", dir}); err != nil {
		t.Fatal(err)
	}
	report, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cd bench && go run . -short -runs 1 -only throughput\n",
		"## Targets",
		"| RPush, goroutines: 512, against the fastest peer | ≥ 2.5× |",
		"### LPop, 1024 bytes",
		"| 64 | go-redis AutoPipeline |",
		"| 64 | rueidis |",
		"](bench-lpop.svg)",
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	for _, wrong := range []string{"NaN", dir} {
		if strings.Contains(string(report), wrong) {
			t.Errorf("the report has %q", wrong)
		}
	}
	svg, err := os.ReadFile(filepath.Join(dir, "bench-rpush.svg"))
	if err != nil || !strings.Contains(string(svg), "<svg") {
		t.Errorf("no plot: %v", err)
	}
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
