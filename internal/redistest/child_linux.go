package redistest

import "syscall"

const (
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)

// childAttr makes a server end with the thread that started it, however the
// test process ends. The server has its own process group, so that an interrupt
// from the keyboard, which goes to the whole group, reaches only the test
// process.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
