package main

import (
	"syscall"
	"time"
)

// sleepThread puts the thread to sleep.
func sleepThread(d time.Duration) {
	rest := syscall.NsecToTimespec(d.Nanoseconds())
	for syscall.Nanosleep(&rest, &rest) == syscall.EINTR {
	}
}
