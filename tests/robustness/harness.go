package main

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// harness stands in for the testing.TB that redistest takes. Fatalf and Skipf panic; try turns that into an error.
type harness struct {
	testing.TB
	mu       sync.Mutex
	failed   error
	cleanups []func()
}

type harnessFailure struct{ error }

func (b *harness) Helper() {}

// Logf has no place to write to: the report says which servers were used.
func (b *harness) Logf(string, ...any) {}

func (b *harness) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

func (b *harness) Errorf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = errors.Join(b.failed, fmt.Errorf(format, args...))
}

func (b *harness) Fatalf(format string, args ...any) {
	panic(harnessFailure{fmt.Errorf(format, args...)})
}
func (b *harness) Skipf(format string, args ...any) { b.Fatalf(format, args...) }

// try calls f and returns the errors that f reported.
func (b *harness) try(f func()) (err error) {
	defer func() {
		switch failure := recover().(type) {
		case nil:
		case harnessFailure:
			err = failure.error
		default:
			panic(failure)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		err, b.failed = errors.Join(err, b.failed), nil
	}()
	f()
	return nil
}

// close runs the cleanups, the last one first.
func (b *harness) close() {
	for i := len(b.cleanups) - 1; i >= 0; i-- {
		b.cleanups[i]()
	}
	b.cleanups = nil
}
