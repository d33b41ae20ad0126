// Package wire breaks the connections of a client at a moment that a test chooses.
package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A Fault is what happens to a request.
type Fault int

const (
	// None lets the request pass.
	None Fault = iota
	// LoseReply lets the server act. The connection breaks before the reply arrives, and go-redis sends the request again.
	LoseReply
	// Crash ends the process of the client, as far as the server can tell: neither this request is sent, nor any after it.
	Crash
)

// ErrCrashed is the error of all requests from the one that crashed on.
var ErrCrashed = errors.New("wire: the client has crashed")

// Wire connects a client to its servers.
type Wire struct {
	mu      sync.Mutex
	traps   []trap
	struck  int
	crashed bool
}

type trap struct {
	words  []byte
	fault  Fault
	before func()
}

// Through makes a client connect by way of the wire.
func (w *Wire) Through(o *redis.UniversalOptions) { o.Dialer = w.dial }

// On waits for the next request that has the words in it, calls before, if it is not nil, and then lets the fault strike. A trap strikes
// once.
func (w *Wire) On(words string, fault Fault, before func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.traps = append(w.traps, trap{[]byte(words), fault, before})
}

// Struck returns how many traps have struck.
func (w *Wire) Struck() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.struck
}

func (w *Wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if w.isCrashed() {
		return nil, ErrCrashed
	}
	inner, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, wire: w}, nil
}

func (w *Wire) isCrashed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.crashed
}

// strike takes the trap that a request runs into, if there is one.
func (w *Wire) strike(request []byte) (t trap, struck bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, t := range w.traps {
		if bytes.Contains(request, t.words) {
			w.traps = append(w.traps[:i:i], w.traps[i+1:]...)
			w.struck++
			w.crashed = w.crashed || t.fault == Crash
			return t, true
		}
	}
	return trap{}, false
}

type conn struct {
	net.Conn
	wire *Wire
	lost bool // the reply to the request that was written last
}

func (c *conn) Write(request []byte) (int, error) {
	if c.wire.isCrashed() {
		return 0, ErrCrashed
	}
	if t, struck := c.wire.strike(request); struck {
		if t.before != nil {
			t.before()
		}
		if t.fault == Crash {
			return 0, ErrCrashed
		}
		c.lost = t.fault == LoseReply
	}
	return c.Conn.Write(request)
}

func (c *conn) Read(reply []byte) (int, error) {
	n, err := c.Conn.Read(reply)
	if c.lost && err == nil {
		_ = c.Close() // the server has acted
		return 0, io.EOF
	}
	return n, err
}
