package main

import (
	"bytes"
	"context"
	"io"
	"sync/atomic"
)

// keyboard is what is typed on a terminal. It reads all the time, since in the terminal's raw mode Ctrl-C is a key like others, and has to
// be seen while a command runs.
type keyboard struct {
	ctx       context.Context
	typed     chan []byte
	rest      []byte
	interrupt atomic.Pointer[context.CancelFunc]
}

const (
	keyInterrupt = 3
	typedAhead   = 1024 // reads of the terminal that are kept
)

// listen reads the terminal until ctx ends, or until its next key after that.
func listen(ctx context.Context, terminal io.Reader) *keyboard {
	k := &keyboard{ctx: ctx, typed: make(chan []byte, typedAhead)}
	go func() {
		defer close(k.typed)
		for {
			keys := make([]byte, 256)
			n, err := terminal.Read(keys)
			if interrupt := k.interrupt.Load(); interrupt != nil && bytes.IndexByte(keys[:n], keyInterrupt) >= 0 {
				(*interrupt)()
				n = 0
			}
			select {
			case k.typed <- keys[:n]:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return k
}

// onInterrupt has Ctrl-C call a function until the returned one is called.
func (k *keyboard) onInterrupt(call context.CancelFunc) (reset func()) {
	k.interrupt.Store(&call)
	return func() { k.interrupt.Store(nil) }
}

func (k *keyboard) Read(p []byte) (int, error) {
	for len(k.rest) == 0 {
		select {
		case keys, more := <-k.typed:
			if !more {
				return 0, io.EOF
			}
			k.rest = keys
		case <-k.ctx.Done():
			return 0, k.ctx.Err()
		}
	}
	n := copy(p, k.rest)
	k.rest = k.rest[n:]
	return n, nil
}
