package main

import (
	"net"
	"runtime"
	"sync"
	"time"
)

// delayer forwards connections to a server. It delivers what is sent in either direction a fixed time later, as a network does, and does
// not slow down what follows: any number of pieces may be on their way.
type delayer struct {
	listener net.Listener
	delay    time.Duration
	underway chan piece // in the order in which they are due
	readers  sync.WaitGroup
}

// piece is what was read from a connection at once. A nil piece ends the connection.
type piece struct {
	to   net.Conn
	data []byte
	due  time.Time
}

// delayTo returns a delayer in front of the server at addr.
func delayTo(addr string, delay time.Duration) (*delayer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayer{listener: listener, delay: delay, underway: make(chan piece, 1<<16)}
	go d.deliver()
	d.readers.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				_ = client.Close()
				continue
			}
			d.readers.Go(func() { d.read(client, server) })
			d.readers.Go(func() { d.read(server, client) })
		}
	})
	return d, nil
}

// stop waits for the clients to close their connections.
func (d *delayer) stop() {
	_ = d.listener.Close()
	d.readers.Wait()
	close(d.underway)
}

func (d *delayer) read(from, to net.Conn) {
	for buffer := make([]byte, 64<<10); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			d.underway <- piece{to, append([]byte(nil), buffer[:n]...), time.Now().Add(d.delay)}
		}
		if err != nil {
			d.underway <- piece{to: to, due: time.Now().Add(d.delay)}
			return
		}
	}
}

// deliver has a thread of its own, since a goroutine's timers are off by up to a millisecond.
func (d *delayer) deliver() {
	runtime.LockOSThread()
	for p := range d.underway {
		if wait := time.Until(p.due); wait > 0 {
			sleepThread(wait)
		}
		if p.data == nil {
			_ = p.to.Close()
		} else {
			_, _ = p.to.Write(p.data) // the reader of the other direction finds a broken connection
		}
	}
}

// behind returns the same server, for clients that reach it over a network on which a round trip takes that long, and a function that
// ends the network after its clients.
func (s *server) behind(roundTrip time.Duration) (far *server, stop func(), err error) {
	if roundTrip == 0 {
		return s, func() {}, nil
	}
	d, err := delayTo(s.addr, roundTrip/2)
	if err != nil {
		return nil, nil, err
	}
	moved := *s
	moved.addr = d.listener.Addr().String()
	return &moved, d.stop, nil
}
