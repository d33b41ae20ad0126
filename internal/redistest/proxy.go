package redistest

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"os"
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
	DropReply   float64 // drop the reply, and those that follow it, and keep the connection: the client waits in vain
	DropRequest float64 // drop the request, and those that follow it, and keep the connection: with DropReply, a partition
	LateRequest float64 // deliver the request after Delay, when the client no longer waits
	Delay       time.Duration
}

// FaultsVariable is the variable that makes the tests fail that use a proxy, to show that they can. With "all", the first faults that a
// test sets become one that cuts everything, for good. With "none", no fault strikes.
const FaultsVariable = "SHARDEDLIST_FAULTS"

// A Proxy forwards connections between clients and servers, on ports of the loopback interface, and breaks them.
type Proxy struct {
	faults  atomic.Pointer[Faults]
	strikes [6]atomic.Int64 // in the order of the fields of Faults
	seed    uint64

	mu        sync.Mutex
	asked     Faults                  // those of all Sets together
	listeners map[string]net.Listener // by server address
	open      map[net.Conn]bool
	closed    bool
	running   sync.WaitGroup
}

// NewProxy returns a proxy without faults, which closes when the test ends. If the test has set faults and none of them has struck, the
// test fails: it has shown nothing.
func NewProxy(t testing.TB) *Proxy {
	return NewSeededProxy(t, rand.Uint64())
}

// NewSeededProxy returns a proxy whose faults are drawn from a seed. The seed determines what happens to the nth request or reply of
// the mth connection to the kth server, in the order in which their addresses were first used.
func NewSeededProxy(t testing.TB, seed uint64) *Proxy {
	p := &Proxy{seed: seed, listeners: map[string]net.Listener{}, open: map[net.Conn]bool{}}
	p.Set(Faults{})
	t.Cleanup(func() {
		p.close()
		if p.asked != (Faults{}) && p.Strikes() == 0 {
			t.Errorf("redistest: no fault has struck of %+v", p.asked)
		}
	})
	return p
}

// Set changes the faults for the traffic from now on.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.asked
	p.asked = before.or(f)
	switch os.Getenv(FaultsVariable) {
	case "none":
		f = Faults{}
	case "all":
		if before != (Faults{}) {
			return
		}
		if f.CutReply > 0 {
			f = Faults{CutReply: 1}
		} else if f != (Faults{}) {
			f = Faults{CutRequest: 1}
		}
	}
	p.faults.Store(&f)
}

// The kinds of faults, in the order of the fields of Faults.
const (
	cutReply = iota
	cutInReply
	cutRequest
	dropReply
	dropRequest
	lateRequest
)

// or returns the higher of each rate.
func (f Faults) or(other Faults) Faults {
	return Faults{
		CutReply:    max(f.CutReply, other.CutReply),
		CutInReply:  max(f.CutInReply, other.CutInReply),
		CutRequest:  max(f.CutRequest, other.CutRequest),
		DropReply:   max(f.DropReply, other.DropReply),
		DropRequest: max(f.DropRequest, other.DropRequest),
		LateRequest: max(f.LateRequest, other.LateRequest),
		Delay:       max(f.Delay, other.Delay),
	}
}

// Strikes returns how often faults of the kinds that were set have struck.
func (p *Proxy) Strikes() (strikes int64) {
	p.mu.Lock()
	f := p.asked
	p.mu.Unlock()
	for kind, rate := range []float64{f.CutReply, f.CutInReply, f.CutRequest, f.DropReply, f.DropRequest, f.LateRequest} {
		if rate > 0 {
			strikes += p.strikes[kind].Load()
		}
	}
	return strikes
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
			func() bool { return !handshake.Load() && p.drops(dropReply, p.faults.Load().DropReply, replies) })
	})
	both.Go(func() {
		defer server.Close() // the client may have left while a late request was held
		p.pass(client, server, func(piece []byte) bool {
			handshake.Store(bytes.Contains(piece, []byte("\r\nhello\r\n")) || bytes.Contains(piece, []byte("\r\nclient\r\n")))
			return !handshake.Load() && p.request(requests)
		}, func() bool { return !handshake.Load() && p.drops(dropRequest, p.faults.Load().DropRequest, requests) })
	})
	both.Wait()
	p.forget(client, server)
}

// pass copies from one side to the other until a fault strikes or either side closes. What follows a piece that was dropped is dropped,
// too: no connection has a gap, in which one reply could be taken for another.
func (p *Proxy) pass(from, to net.Conn, fault func(piece []byte) (stop bool), drop func() bool) {
	buffer := make([]byte, 64<<10)
	for dropped := false; ; {
		n, err := from.Read(buffer)
		if n > 0 {
			if fault(buffer[:n]) {
				return
			}
			if dropped = dropped || drop(); dropped {
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
		p.strikes[cutReply].Add(1)
		return true
	case roll < f.CutReply+f.CutInReply:
		p.strikes[cutInReply].Add(1)
		_, _ = client.Write(piece[:len(piece)/2])
		return true
	}
	return false
}

func (p *Proxy) request(rng *rand.Rand) (stop bool) {
	f, roll := p.faults.Load(), rng.Float64()
	switch {
	case roll < f.CutRequest:
		p.strikes[cutRequest].Add(1)
		return true
	case roll < f.CutRequest+f.LateRequest:
		p.strikes[lateRequest].Add(1)
		time.Sleep(f.Delay)
	}
	return false
}

func (p *Proxy) drops(kind int, rate float64, rng *rand.Rand) bool {
	drops := rng.Float64() < rate
	if drops {
		p.strikes[kind].Add(1)
	}
	return drops
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
