package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

// aheadEnv tells a worker that buildAhead built how far its wall clock is ahead.
const aheadEnv = "ROBUSTNESS_AHEAD"

// clocksOfWorkers is how far the workers' clocks are ahead. Calls are recorded by the monotonic clock, which stays the same.
var clocksOfWorkers = [workers]time.Duration{-time.Hour, 0, time.Hour}

// clocksOfServers is how far the clocks of the first processes of replicated servers are ahead. A master and its replica differ by
// less than half a minute. An operation is retried for half a minute and its dedup record lives for a minute, so the record exists on
// both.
var clocksOfServers = map[redistest.Kind][]time.Duration{
	redistest.Sentinel:          {0, 20 * time.Second},
	redistest.ReplicatedCluster: {-10 * time.Second, 0, 10 * time.Second, 10 * time.Second, -20 * time.Second, 30 * time.Second},
}

// canSetClocks returns an error if workers cannot have clocks of their own.
func canSetClocks() error {
	if out, err := exec.Command("go", "list", ownPackage).CombinedOutput(); err != nil {
		return fmt.Errorf("setting clients' clocks takes a build of this program, in its directory: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

const ownPackage = "github.com/shardedlist/shardedlist/tests/robustness"

// canSetAllClocks returns an error if servers and workers cannot have clocks of their own.
func canSetAllClocks() error {
	_, err := libfaketime()
	return errors.Join(canSetClocks(), err)
}

func libfaketime() (string, error) {
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if len(found) == 0 {
		return "", errors.New("libfaketime is not installed: Debian has it in the package faketime")
	}
	return found[0], nil
}

// clockPlacements returns placements of servers whose clocks are ahead.
func clockPlacements(ahead []time.Duration) (placements []redistest.Placement, err error) {
	if len(ahead) == 0 {
		return nil, nil
	}
	library, err := libfaketime()
	for _, d := range ahead {
		placements = append(placements, redistest.Placement{Via: []string{"env",
			// While it starts, jemalloc asks libfaketime for the time, and libfaketime asks jemalloc for memory. Preloading libc breaks
			// the cycle.
			"LD_PRELOAD=" + library + " libc.so.6", fmt.Sprintf("FAKETIME=%+ds", int(d.Seconds())), "FAKETIME_DONT_FAKE_MONOTONIC=1"}})
	}
	return placements, err
}

// clocks returns how far the clocks of the first servers are ahead.
func (sc *scenario) clocks() []time.Duration {
	if !sc.fault.clocks {
		return nil
	}
	return clocksOfServers[sc.kind]
}

// checkClocks verifies that the servers' clocks are as set.
func (sc *scenario) checkClocks(ahead []time.Duration) {
	for i, d := range ahead {
		before := time.Now()
		got, err := sc.server.Nodes()[i].Client(&sc.harness).Time(sc.ctx).Result()
		sc.note(errors.Join(err, isAhead(got, d, before)))
	}
}

// isAhead returns an error unless told, which a clock showed between before and now, is ahead by d.
func isAhead(told time.Time, d time.Duration, before time.Time) error {
	if after := time.Now(); told.Before(before.Add(d-time.Millisecond)) || told.After(after.Add(d+time.Millisecond)) {
		return fmt.Errorf("a clock that should be %v ahead shows %v when it is %v", d, told, after)
	}
	return nil
}

// programAhead is the path of this program, built once for all scenarios with a standard library whose time.Now is ahead by aheadEnv.
// removeAhead removes it. Preloading a library does not work here: Go's runtime reads the clock without one.
var programAhead = sync.OnceValues(func() (program string, err error) {
	if aheadDir, err = os.MkdirTemp("", "robustness-"); err != nil {
		return "", err
	}
	return buildAhead(aheadDir)
})

var aheadDir string // "" until it exists

func removeAhead() {
	if aheadDir != "" {
		_ = os.RemoveAll(aheadDir)
	}
}

// buildAhead builds the program in a directory.
func buildAhead(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return "", err
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		return "", fmt.Errorf("time.Now in %s is not the expected code and cannot be changed", source)
	}
	changed, added, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "ahead.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"): changed, filepath.Join(source, "robustness_ahead.go"): added,
	}})
	err = errors.Join(err, os.WriteFile(changed, []byte(strings.Replace(string(text), now, now+"\tsec += ahead\n", 1)), 0o600),
		os.WriteFile(added, []byte(aheadSource), 0o600), os.WriteFile(overlay, replace, 0o600))
	if err != nil {
		return "", err
	}
	worker := filepath.Join(dir, "worker")
	build := []string{"build"}
	if testing.Testing() {
		build = []string{"test", "-c"} // includes the variants that tests add
	}
	out, err := exec.Command("go", append(build, "-overlay", overlay, "-o", worker, ownPackage)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go %s: %w: %s", build[0], err, out)
	}
	return worker, nil
}

const aheadSource = `package time

import "syscall"

var ahead = func() int64 {
	value, _ := syscall.Getenv("` + aheadEnv + `")
	d, _ := ParseDuration(value)
	return int64(d / Second)
}()
`
