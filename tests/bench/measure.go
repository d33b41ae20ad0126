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

// figures are the result of one measurement, or the medians of several. Those that were not measured are 0.
type figures struct {
	Ops       float64       `json:"ops_per_second"`
	OpsSpread float64       `json:"ops_spread,omitempty"` // see spreadOf
	P50       time.Duration `json:"p50_ns,omitempty"`     // latency of one call
	P99       time.Duration `json:"p99_ns,omitempty"`
	CPU       time.Duration `json:"server_cpu_ns"` // CPU time of the server per call
	CPUSpread float64       `json:"server_cpu_spread,omitempty"`
	Allocs    float64       `json:"allocs,omitempty"` // allocations of the client per call
}

// errEmpty ends a measurement early: there is nothing left to pop.
var errEmpty = errors.New("the list is empty")

// meter is what tells the CPU time that it has used.
type meter interface {
	cpu(ctx context.Context) (time.Duration, error)
}

// load calls do from that many goroutines for the duration d.
func load(ctx context.Context, s meter, goroutines int, d time.Duration, do func(context.Context) error) (figures, error) {
	histograms := make([]histogram, goroutines)
	var stop atomic.Bool
	var failure atomic.Pointer[error]
	worker := func(h *histogram) {
		for begin := time.Now(); !stop.Load(); {
			if err := do(ctx); err != nil {
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
		workers.Go(func() { worker(&histograms[i]) })
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

const (
	steady     = 0.05 // a spread up to this needs no further runs
	moreRounds = 2    // for clients that are not steady
)

// medians measures each client -runs times, and again while one of them is not steady. The clients take turns, and a different one
// starts each round, so that drift of the machine affects all of them alike. measure returns the figures of each operation; medians
// has them by client and operation. All further rounds together take about half as long as the others, so that the benchmark ends
// in time on a machine where nothing is steady.
func (b *bench) medians(clients int, measure func(client, round int) ([]figures, error)) ([][]figures, error) {
	runs, medians := make([][][]figures, clients), make([][]figures, clients)
	for round := range b.runs + moreRounds {
		further := round >= b.runs
		if further && (b.spare <= 0 || areSteady(medians)) {
			break
		}
		start := time.Now()
		for i := range clients {
			client := (i + round) % clients
			run, err := measure(client, round)
			if err != nil {
				return nil, err
			}
			runs[client] = append(runs[client], run)
			medians[client] = medianOfEach(runs[client])
		}
		if further {
			b.spare -= time.Since(start)
		} else {
			b.spare += time.Since(start) / 2
		}
		tick()
	}
	return medians, nil
}

func areSteady(medians [][]figures) bool {
	for _, f := range slices.Concat(medians...) {
		if max(f.OpsSpread, f.CPUSpread) > steady {
			return false
		}
	}
	return true
}

// medianOfEach returns the medians of each operation. A run has the figures of all.
func medianOfEach(runs [][]figures) []figures {
	medians := make([]figures, len(runs[0]))
	for op := range medians {
		var of []figures
		for _, run := range runs {
			of = append(of, run[op])
		}
		medians[op] = median(of)
	}
	return medians
}

// median returns the median of each figure over the runs, and the spread of those that the tables of the page are about.
func median(runs []figures) figures {
	ops := valuesOf(runs, func(f figures) float64 { return f.Ops })
	cpu := valuesOf(runs, func(f figures) time.Duration { return f.CPU })
	return figures{
		Ops:       quantile(ops, 0.5),
		OpsSpread: spreadOf(ops),
		P50:       quantile(valuesOf(runs, func(f figures) time.Duration { return f.P50 }), 0.5),
		P99:       quantile(valuesOf(runs, func(f figures) time.Duration { return f.P99 }), 0.5),
		CPU:       quantile(cpu, 0.5),
		CPUSpread: spreadOf(cpu),
		Allocs:    quantile(valuesOf(runs, func(f figures) float64 { return f.Allocs }), 0.5),
	}
}

func valuesOf[N ~int64 | ~float64](runs []figures, figure func(figures) N) []N {
	values := make([]N, len(runs))
	for i, run := range runs {
		values[i] = figure(run)
	}
	return values
}

// spreadOf returns half of the range of the values, as a part of their median: 0.03 for values within 3 % of it. It is 0 for a single
// value.
func spreadOf[N ~int64 | ~float64](values []N) float64 {
	middle := quantile(values, 0.5)
	if middle == 0 {
		return 0
	}
	return float64(slices.Max(values)-slices.Min(values)) / 2 / float64(middle)
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
