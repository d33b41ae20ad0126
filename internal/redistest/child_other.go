//go:build !unix

package redistest

import (
	"os"
	"syscall"
)

// There are no such signals here, and sending them fails.
var sigstop, sigcont os.Signal

// childAttr is where Linux makes a server end with the test process.
func childAttr() *syscall.SysProcAttr { return nil }
