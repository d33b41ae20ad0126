// Package child starts processes that do not outlive this one.
package child

import (
	"os/exec"
	"runtime"
)

// Start starts cmd and returns a channel that is closed when the process has ended and cmd.Wait has returned. It sets
// cmd.SysProcAttr.
//
// On Linux the kernel kills the child when this process ends, however it ends, and an interrupt from the keyboard reaches
// only this process. On other systems the caller must end the child, and the keyboard interrupts both.
func Start(cmd *exec.Cmd) (exited <-chan struct{}, err error) {
	cmd.SysProcAttr = attr()
	started, done := make(chan error), make(chan struct{})
	go func() {
		// The kernel kills the child when the thread that started it ends, so the goroutine keeps its thread.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(done)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	return done, <-started
}
