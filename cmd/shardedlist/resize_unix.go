//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// resized returns a channel that tells when the terminal has got another size.
func resized() (changes <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	return signals, func() { signal.Stop(signals) }
}
