package stats

import (
	"testing"
	"time"
)

// BenchmarkOperation is all that an operation that callers share costs to be counted.
func BenchmarkOperation(b *testing.B) {
	l := NewList("jobs")
	for b.Loop() {
		start := time.Now()
		l.Operation(Push, 1)
		l.Elements(Push, 1, 0)
		l.Replied(time.Since(start))
	}
}

// BenchmarkWait is what a caller that waits costs.
func BenchmarkWait(b *testing.B) {
	l := NewList("jobs")
	for b.Loop() {
		l.EndWait(l.Wait())
	}
}
