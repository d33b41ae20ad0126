//go:build !unix

package redistest

import (
	"os"
	"syscall"
)

// These signals do not exist here, and sending them fails.
var sigstop, sigcont os.Signal

// childAttr sets nothing: only Linux can make a server end with the test
// process.
func childAttr() *syscall.SysProcAttr { return nil }
