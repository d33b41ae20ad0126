package redistest

import "syscall"

const (
	sigstop = syscall.SIGSTOP
	sigcont = syscall.SIGCONT
)

// childAttr makes a server end with the thread that started it, whichever way
// the test process ends. It has a process group of its own, so that an
// interrupt from the keyboard, which goes to the whole group, is left to the
// test process.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
