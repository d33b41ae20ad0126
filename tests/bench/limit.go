package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// emulators are the programs of Debian's qemu-user that run a program of this machine's kind several times more slowly.
var emulators = map[string]string{"amd64": "qemu-x86_64", "arm64": "qemu-aarch64"}

// slowed returns a command that runs a server in an emulator, or the server itself if there is none here.
func slowed(path string) (command []string, err error) {
	if path, err = exec.LookPath(path); err != nil {
		return nil, err
	}
	if emulator, err := exec.LookPath(emulators[runtime.GOARCH]); err == nil {
		return []string{emulator, path}, nil
	}
	return []string{path}, nil
}

// limitEach is how often a limited server is looked at.
const limitEach = 500 * time.Microsecond

// onProcessor returns how long the server has run on a processor. Only Linux tells it precisely.
func (s *server) onProcessor() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	var ran time.Duration
	_, err = fmt.Fscan(strings.NewReader(string(text)), &ran)
	return ran, err
}

// limit gives the server that share of a processor until ctx ends: it is stopped for as long as it has had more. What it does not use is
// lost, as it is with a quota of the kernel.
func (s *server) limit(ctx context.Context, share float64) (err error) {
	defer func() { err = errors.Join(err, s.cmd.Process.Signal(syscall.SIGCONT)) }()
	last, looked := time.Duration(0), time.Now()
	if last, err = s.onProcessor(); err != nil {
		return err
	}
	budget, stopped := time.Duration(0), false
	ticker := time.NewTicker(limitEach)
	defer ticker.Stop()
	for ctx.Err() == nil {
		<-ticker.C
		ran, err := s.onProcessor()
		if err != nil {
			return err
		}
		now := time.Now()
		budget = min(budget+time.Duration(share*float64(now.Sub(looked))), limitEach) - (ran - last)
		last, looked = ran, now
		if stops := budget < 0; stops != stopped {
			stopped = stops
			signal := syscall.SIGCONT
			if stops {
				signal = syscall.SIGSTOP
			}
			if err := s.cmd.Process.Signal(signal); err != nil {
				return err
			}
		}
	}
	return nil
}

// limited calls do while each node has no more than that share of a processor.
func (c *cluster) limited(ctx context.Context, share float64, do func(ctx context.Context) error) error {
	limits, end := context.WithCancel(ctx)
	failures := make(chan error, len(c.nodes))
	var group sync.WaitGroup
	for _, node := range c.nodes {
		group.Go(func() { failures <- node.limit(limits, share) })
	}
	err := do(ctx)
	end()
	group.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	return err
}
