//go:build unix && !linux

package redistest

import "syscall"

const (
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)

// childAttr sets nothing: only Linux can make a server end with the test
// process.
func childAttr() *syscall.SysProcAttr { return nil }
