//go:build !unix

package main

import "os"

// resized returns a channel that never tells anything: the next look draws the screen.
func resized() (changes <-chan os.Signal, stop func()) { return nil, func() {} }
