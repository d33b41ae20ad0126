package main

import "testing"

func TestVerdict(t *testing.T) {
	ops, µs := figure{"RPush", "ops/s"}, figure{"RPush", "µs"}
	for _, c := range []struct {
		figure figure
		ratios []float64
		want   string
	}{
		{ops, []float64{1.10, 1.05, 1.20}, "better"},
		{ops, []float64{0.90, 0.95, 0.80}, "worse"},
		{µs, []float64{1.10, 1.05, 1.20}, "worse"},
		{µs, []float64{0.90, 0.95, 0.80}, "better"},
		{ops, []float64{0.90, 0.95, 1.01}, ""},
		{ops, []float64{0.99, 0.985, 0.98}, ""},
	} {
		if got := verdict(c.figure, c.ratios); got != c.want {
			t.Errorf("%s %v is %q, want %q", c.figure.unit, c.ratios, got, c.want)
		}
	}
}

func TestRatiosAreByRound(t *testing.T) {
	c := comparison{values: map[figure]*[2][]float64{}}
	for version, text := range []string{"RPush\t100\tops/s\nLPop\t2.5\tµs\n", "RPush\t50\tops/s\nLPop\t5\tµs\n"} {
		if err := c.add(version, text); err != nil {
			t.Fatal(err)
		}
	}
	if got := *c.values[figure{"LPop", "µs"}]; got[0][0] != 2.5 || got[1][0] != 5 {
		t.Errorf("got %v", got)
	}
	if len(c.order) != 2 || c.add(0, "a panic\n") == nil {
		t.Error("figures are three fields")
	}
}

func TestMedian(t *testing.T) {
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("got %v", got)
	}
}
