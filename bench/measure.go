package main

import (
	"context"
	"errors"
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// figures are the result of one measurement.
type figures struct {
	Ops    float64       `json:"ops_per_second"`
	P50    time.Duration `json:"p50_ns"` // latency of one call
	P99    time.Duration `json:"p99_ns"`
	CPU    time.Duration `json:"server_cpu_ns"` // CPU time of the server per call
	Allocs float64       `json:"allocs"`        // allocations of the client per call
}

// errEmpty ends a measurement early: there is nothing left to pop.
var errEmpty = errors.New("the list is empty")

// load calls do from that many goroutines for the duration d.
func load(ctx context.Context, s *server, goroutines int, d time.Duration, do func(context.Context) error) (figures, error) {
	return loadEach(ctx, s, goroutines, d, func(ctx context.Context, _ int) error { return do(ctx) })
}

// loadEach is load, with the number of the goroutine that calls.
func loadEach(
	ctx context.Context, s *server, goroutines int, d time.Duration, do func(ctx context.Context, goroutine int) error,
) (figures, error) {
	histograms := make([]histogram, goroutines)
	var stop atomic.Bool
	var failure atomic.Pointer[error]
	worker := func(i int) {
		h := &histograms[i]
		for begin := time.Now(); !stop.Load(); {
			if err := do(ctx, i); err != nil {
				failure.CompareAndSwap(nil, &err)
				stop.Store(true)
				return
			}
			end := time.Now()
			h.add(end.Sub(begin))
			begin = end
		}
	}

	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpuBefore, err := s.cpu(ctx)
	if err != nil {
		return figures{}, err
	}
	start := time.Now()
	timer := time.AfterFunc(d, func() { stop.Store(true) })
	defer timer.Stop()
	var workers sync.WaitGroup
	for i := range histograms {
		workers.Go(func() { worker(i) })
	}
	workers.Wait()
	elapsed := time.Since(start)
	cpuAfter, err := s.cpu(ctx)
	if err != nil {
		return figures{}, err
	}
	runtime.ReadMemStats(&after)
	if err := failure.Load(); err != nil && !errors.Is(*err, errEmpty) {
		return figures{}, *err
	}

	var all histogram
	for i := range histograms {
		all.merge(&histograms[i])
	}
	count := max(all.count, 1)
	return figures{
		Ops:    float64(all.count) / elapsed.Seconds(),
		P50:    all.quantile(0.50),
		P99:    all.quantile(0.99),
		CPU:    (cpuAfter - cpuBefore) / time.Duration(count),
		Allocs: float64(after.Mallocs-before.Mallocs) / float64(count),
	}, nil
}

// histogram counts durations without allocating. A bucket's error is at most 1.6 %.
type histogram struct {
	buckets [64 << fineBits]uint32
	count   int
}

const fineBits = 5 // each power of two has 2^fineBits buckets

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(uint64(max(d, 0)))]++
	h.count++
}

func bucketOf(n uint64) int {
	if n < 1<<fineBits {
		return int(n)
	}
	shift := bits.Len64(n) - 1 - fineBits
	return (shift+1)<<fineBits + int(n>>shift) - 1<<fineBits
}

// middle is the duration in the middle of a bucket.
func middle(bucket int) time.Duration {
	if bucket < 1<<fineBits {
		return time.Duration(bucket)
	}
	shift := bucket>>fineBits - 1
	low := (bucket&(1<<fineBits-1) + 1<<fineBits) << shift
	return time.Duration(low + 1<<shift/2)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
}

func (h *histogram) quantile(q float64) time.Duration {
	rank := int(q * float64(h.count))
	for bucket, n := range h.buckets {
		if rank -= int(n); rank < 0 {
			return middle(bucket)
		}
	}
	return 0
}

// median returns the median of each figure over the runs.
func median(runs []figures) figures {
	return figures{
		Ops:    middleOf(runs, func(f figures) float64 { return f.Ops }),
		P50:    middleOf(runs, func(f figures) time.Duration { return f.P50 }),
		P99:    middleOf(runs, func(f figures) time.Duration { return f.P99 }),
		CPU:    middleOf(runs, func(f figures) time.Duration { return f.CPU }),
		Allocs: middleOf(runs, func(f figures) float64 { return f.Allocs }),
	}
}

func middleOf[R any, N ~int64 | ~float64](runs []R, figure func(R) N) N {
	values := make([]N, len(runs))
	for i, run := range runs {
		values[i] = figure(run)
	}
	return quantile(values, 0.5)
}

// quantile interpolates linearly between the two nearest values.
func quantile[N ~int64 | ~float64](values []N, q float64) N {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + N((at-float64(low))*float64(sorted[high]-sorted[low]))
}
