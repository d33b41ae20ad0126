//go:build unix && !linux

package redistest

import "syscall"

const (
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)

// childAttr is where Linux makes a server end with the test process.
func childAttr() *syscall.SysProcAttr { return nil }
