package redistest

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Faults are what a [Proxy] does to the traffic. The rates are from 0 to 1, per piece of traffic: a request or a reply, if the client
// waits for each reply. The handshake of a connection always passes, so that there are connections to break.
type Faults struct {
	CutReply    float64 // drop the reply and close the connection: the server has acted
	CutInReply  float64 // pass the first half of the reply and close
	CutRequest  float64 // drop the request and close
	DropReply   float64 // drop the reply and keep the connection: the client waits in vain
	DropRequest float64 // drop the request and keep the connection: with DropReply, a partition
	LateRequest float64 // deliver the request after Delay, when the client no longer waits
	Delay       time.Duration
}

// A Proxy forwards connections between clients and servers, on ports of the loopback interface, and breaks them.
type Proxy struct {
	faults atomic.Pointer[Faults]
	counts [4]atomic.Int64
	seed   uint64

	mu        sync.Mutex
	listeners map[string]net.Listener // by server address
	open      map[net.Conn]bool
	closed    bool
	running   sync.WaitGroup
}

// NewProxy returns a proxy without faults, which closes when the test ends.
func NewProxy(t testing.TB) *Proxy {
	return NewSeededProxy(t, rand.Uint64())
}

// NewSeededProxy returns a proxy whose faults are drawn from a seed. The seed determines what happens to the nth request or reply of
// the mth connection to the kth server, in the order in which their addresses were first used.
func NewSeededProxy(t testing.TB, seed uint64) *Proxy {
	p := &Proxy{seed: seed, listeners: map[string]net.Listener{}, open: map[net.Conn]bool{}}
	p.Set(Faults{})
	t.Cleanup(p.close)
	return p
}

// Set changes the faults for the traffic from now on.
func (p *Proxy) Set(f Faults) { p.faults.Store(&f) }

// Counts returns how often each fault has struck, in the order of the fields of [Faults].
func (p *Proxy) Counts() (cutReply, cutInReply, cutRequest, lateRequest int64) {
	return p.counts[0].Load(), p.counts[1].Load(), p.counts[2].Load(), p.counts[3].Load()
}

// Dial connects to the server at addr through the proxy. It is a Dialer for go-redis, so that connections to the nodes of a cluster,
// whose addresses the client learns from the cluster, also go through the proxy.
func (p *Proxy) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	listener, err := p.Addr(addr)
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, listener)
}

// Addr returns the proxy's address for the server at addr, for clients in other processes.
func (p *Proxy) Addr(addr string) (string, error) {
	listener, err := p.listener(addr)
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), nil
}

func (p *Proxy) listener(addr string) (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, net.ErrClosed
	}
	if listener := p.listeners[addr]; listener != nil {
		return listener, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	server := len(p.listeners)
	p.listeners[addr] = listener
	p.running.Go(func() {
		for connection := 0; ; connection++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() {
				p.serve(client, addr, p.rng(server, connection, "request"), p.rng(server, connection, "reply"))
			})
		}
	})
	return listener, nil
}

// rng returns the source of the faults in one direction of a connection.
func (p *Proxy) rng(server, connection int, direction string) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprint(h, server, connection, direction)
	return rand.New(rand.NewPCG(p.seed, h.Sum64()))
}

// serve forwards one connection.
func (p *Proxy) serve(client net.Conn, addr string, requests, replies *rand.Rand) {
	server, err := net.Dial("tcp", addr)
	if err != nil {
		_ = client.Close()
		return
	}
	if !p.track(client, server) {
		return
	}
	end := func() {
		_ = client.Close()
		_ = server.Close()
	}
	var handshake atomic.Bool // the last request was part of it
	var both sync.WaitGroup
	both.Go(func() {
		defer end()
		p.pass(server, client, func(piece []byte) bool { return !handshake.Load() && p.reply(piece, client, replies) },
			func() bool { return !handshake.Load() && replies.Float64() < p.faults.Load().DropReply })
	})
	both.Go(func() {
		defer server.Close() // the client may have left while a late request was held
		p.pass(client, server, func(piece []byte) bool {
			handshake.Store(bytes.Contains(piece, []byte("\r\nhello\r\n")) || bytes.Contains(piece, []byte("\r\nclient\r\n")))
			return !handshake.Load() && p.request(requests)
		}, func() bool { return !handshake.Load() && requests.Float64() < p.faults.Load().DropRequest })
	})
	both.Wait()
	p.forget(client, server)
}

// pass copies from one side to the other until a fault strikes or either side closes.
func (p *Proxy) pass(from, to net.Conn, fault func(piece []byte) (stop bool), drop func() bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if fault(buffer[:n]) {
				return
			}
			if drop() {
				continue
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) reply(piece []byte, client net.Conn, rng *rand.Rand) (stop bool) {
	f, roll := p.faults.Load(), rng.Float64()
	switch {
	case roll < f.CutReply:
		p.counts[0].Add(1)
		return true
	case roll < f.CutReply+f.CutInReply:
		p.counts[1].Add(1)
		_, _ = client.Write(piece[:len(piece)/2])
		return true
	}
	return false
}

func (p *Proxy) request(rng *rand.Rand) (stop bool) {
	f, roll := p.faults.Load(), rng.Float64()
	switch {
	case roll < f.CutRequest:
		p.counts[2].Add(1)
		return true
	case roll < f.CutRequest+f.LateRequest:
		p.counts[3].Add(1)
		time.Sleep(f.Delay)
	}
	return false
}

func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		if p.closed {
			_ = conn.Close()
		}
		p.open[conn] = true
	}
	return !p.closed
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		delete(p.open, conn)
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	for _, listener := range p.listeners {
		_ = listener.Close()
	}
	for conn := range p.open {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
}
