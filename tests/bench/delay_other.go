//go:build !linux

package main

import "time"

func sleepThread(d time.Duration) { time.Sleep(d) }
