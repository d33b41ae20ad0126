package main

import (
	"errors"
	"fmt"
	"sync"
	"testing"
)

// bed stands in for the test that redistest asks for. What would end a test panics, and try turns that into an error.
type bed struct {
	testing.TB
	mu       sync.Mutex
	failed   error
	cleanups []func()
}

type bedFailure struct{ error }

func (b *bed) Helper() {}

func (b *bed) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cleanups = append(b.cleanups, f)
}

func (b *bed) Errorf(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failed = errors.Join(b.failed, fmt.Errorf(format, args...))
}

func (b *bed) Fatalf(format string, args ...any) { panic(bedFailure{fmt.Errorf(format, args...)}) }
func (b *bed) Skipf(format string, args ...any)  { b.Fatalf(format, args...) }

// try calls f and returns what it failed with.
func (b *bed) try(f func()) (err error) {
	defer func() {
		if failure, ok := recover().(bedFailure); ok {
			err = failure.error
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		err, b.failed = errors.Join(err, b.failed), nil
	}()
	f()
	return nil
}

// close undoes what was set up, the last first.
func (b *bed) close() {
	for i := len(b.cleanups) - 1; i >= 0; i-- {
		b.cleanups[i]()
	}
	b.cleanups = nil
}
