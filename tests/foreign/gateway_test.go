package foreign

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// A gateway lets programs in any language use sharded lists: it listens as a Redis server does, and gives what it is sent to a
// go-redis client with the hook. Each connection to it has one connection of that client. The commands between MULTI and EXEC are
// one TxPipeline.
//
// As in Redis, one command is carried out at a time; one that waits lets the others go on.
//
// What the hook leaves alone goes to the server and comes back byte for byte. The gateway itself answers what depends on who is
// blocked, since callers that wait on a sharded list share connections: CLIENT UNBLOCK, and blocked_clients in INFO.
// It has no Pub/Sub, no MONITOR and no replication.
type gateway struct {
	listener net.Listener
	client   *redis.Client
	serving  sync.WaitGroup
	turn     chan struct{} // holds an element while a command is carried out

	mu    sync.Mutex
	peers map[string]*peer // by what CLIENT ID returns
	conns map[net.Conn]bool
}

// newGateway starts a gateway to the server, on which every key is that of a sharded list unless sharded is false. It stops
// when the test ends.
func newGateway(t *testing.T, server *redistest.Server, sharded bool, opts ...shardedlist.Option) *gateway {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gateway{
		listener: listener,
		client: redis.NewClient(&redis.Options{
			Addr:                     server.Addr(),
			Protocol:                 2, // until a client says HELLO 3
			PoolSize:                 100,
			MaxRetries:               -1, // a plain server does not repeat commands either
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
		turn:  make(chan struct{}, 1),
		peers: make(map[string]*peer),
		conns: make(map[net.Conn]bool),
	}
	if sharded {
		g.client.AddHook(shardedlist.NewHook(g.client, shardedlist.Match("*"), opts...))
	}
	g.client.AddHook(verbatim{})
	g.serving.Go(g.accept)
	t.Cleanup(g.close)
	return g
}

func (g *gateway) port() int { return g.listener.Addr().(*net.TCPAddr).Port }

func (g *gateway) close() {
	_ = g.listener.Close()
	g.mu.Lock()
	for conn := range g.conns {
		_ = conn.Close()
	}
	g.mu.Unlock()
	g.serving.Wait()
	_ = g.client.Close()
}

func (g *gateway) accept() {
	for {
		conn, err := g.listener.Accept()
		if err != nil {
			return
		}
		g.mu.Lock()
		g.conns[conn] = true
		g.mu.Unlock()
		g.serving.Go(func() { g.serve(conn) })
	}
}

func (g *gateway) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		g.mu.Lock()
		delete(g.conns, conn)
		g.mu.Unlock()
	}()
	ctx := context.Background()
	p := &peer{gateway: g, conn: g.client.Conn(), out: bufio.NewWriter(conn)}
	defer func() {
		p.conn.Do(ctx, "RESET") // so that the next user of the connection finds it new
		_ = p.conn.Close()
	}()
	id, err := p.conn.ClientID(ctx).Result()
	if err != nil {
		return
	}
	p.register(strconv.FormatInt(id, 10))
	defer p.unregister()

	connected, disconnect := context.WithCancelCause(ctx)
	requests := make(chan []any, 1024) // so many are read ahead, to notice that the connection ends
	g.serving.Go(func() {
		defer close(requests)
		disconnect(readRequests(bufio.NewReader(conn), requests))
	})
	for request := range requests {
		p.answer(connected, request)
		if err := p.out.Flush(); err != nil || p.quit {
			_ = conn.Close()
		}
	}
}

// A peer is the other end of a connection to a gateway.
type peer struct {
	gateway *gateway
	id      string
	conn    *redis.Conn
	out     *bufio.Writer
	resp3   bool
	quit    bool

	multi  bool
	queued []*call // since MULTI

	unblock atomic.Pointer[context.CancelCauseFunc] // ends the wait that it is in
}

func (p *peer) register(id string) {
	p.id = id
	p.gateway.mu.Lock()
	p.gateway.peers[id] = p
	p.gateway.mu.Unlock()
}

func (p *peer) unregister() {
	p.gateway.mu.Lock()
	delete(p.gateway.peers, p.id)
	p.gateway.mu.Unlock()
}

func (p *peer) answer(connected context.Context, request []any) {
	p.gateway.turn <- struct{}{}
	endTurn := sync.OnceFunc(func() { <-p.gateway.turn })
	defer endTurn()
	c := newCall(request)
	ctx := context.Background()
	switch name := c.Name(); {
	case name == "quit":
		p.status("OK")
		p.quit = true
	case unavailable[name]:
		p.error(fmt.Errorf("ERR the gateway has no %s", strings.ToUpper(name)))
	case name == "exec" && p.multi:
		p.exec(ctx)
	case name == "discard" && p.multi:
		p.multi, p.queued = false, nil
		p.unwatch(ctx)
		p.status("OK")
	case p.multi && (name == "multi" || name == "watch"):
		p.error(fmt.Errorf("ERR %s inside MULTI is not allowed", strings.ToUpper(name)))
	case p.multi:
		p.queued = append(p.queued, c)
		p.status("QUEUED")
	case name == "multi" && len(request) == 1:
		p.multi = true
		p.status("OK")
	case blocking[name]:
		p.await(connected, c, endTurn)
	case name == "client" && p.unblockOther(request):
	case name == "info":
		p.info(ctx, request)
	default:
		_ = p.conn.Process(ctx, c)
		p.resp3 = name == "hello" && len(request) > 1 && request[1] == "3" || name != "hello" && p.resp3
		p.reply(c)
	}
}

var (
	unavailable = set("monitor", "psync", "psubscribe", "replconf", "ssubscribe", "subscribe", "sync")
	blocking    = set("blmove", "blmpop", "blpop", "brpop", "brpoplpush")
)

func (p *peer) exec(ctx context.Context) {
	queued := p.queued
	p.multi, p.queued = false, nil
	if len(queued) == 0 { // go-redis sends nothing
		p.unwatch(ctx)
		p.length('*', 0)
		return
	}
	_, err := p.conn.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, c := range queued {
			_ = pipe.Process(ctx, c)
		}
		return nil
	})
	var replied redis.Error
	switch {
	case errors.Is(err, redis.TxFailedErr):
		p.null(true)
		return
	case err != nil && !errors.As(err, &replied), errors.Is(err, shardedlist.ErrUnsupported):
		p.error(fmt.Errorf("EXECABORT Transaction discarded because of: %w", err))
		return
	}
	for _, c := range queued {
		if redis.HasErrorPrefix(c.Err(), "EXECABORT") {
			p.error(c.Err())
			return
		}
	}
	p.length('*', len(queued))
	for _, c := range queued {
		p.reply(c)
	}
}

func (p *peer) unwatch(ctx context.Context) { p.conn.Do(ctx, "UNWATCH") }

// errTimeout and errUnblocked end a wait as CLIENT UNBLOCK asks for.
var (
	errTimeout   = errors.New("timeout")
	errUnblocked = errors.New("UNBLOCKED client unblocked via CLIENT UNBLOCK")
)

// await carries out a command that may wait, until the peer has gone. There is no way to see when a call has come to its wait, but if
// it has not returned after a while, it has.
func (p *peer) await(connected context.Context, c *call, endTurn func()) {
	const awhile = 20 * time.Millisecond
	ctx, cancel := context.WithCancelCause(connected)
	defer cancel(nil)
	waiting := make(chan struct{})
	timer := time.AfterFunc(awhile, func() {
		p.unblock.Store(&cancel)
		close(waiting)
		endTurn()
	})
	err := p.conn.Process(ctx, c)
	if !timer.Stop() {
		<-waiting
		p.unblock.Store(nil)
	}
	switch cause := context.Cause(ctx); {
	case err == nil || cause == nil:
		p.reply(c)
	case errors.Is(cause, errTimeout):
		p.null(true)
	default:
		p.error(cause)
	}
}

// unblockOther carries out CLIENT UNBLOCK if it is for a peer that waits.
func (p *peer) unblockOther(request []any) bool {
	if len(request) < 3 || len(request) > 4 || !strings.EqualFold(request[1].(string), "unblock") {
		return false
	}
	cause := errTimeout
	if len(request) == 4 {
		switch strings.ToLower(request[3].(string)) {
		case "timeout":
		case "error":
			cause = errUnblocked
		default:
			return false
		}
	}
	p.gateway.mu.Lock()
	other := p.gateway.peers[request[2].(string)]
	p.gateway.mu.Unlock()
	if other == nil {
		return false
	}
	unblock := other.unblock.Load()
	if unblock == nil {
		return false
	}
	(*unblock)(cause)
	p.integer(1)
	return true
}

var blockedClients = regexp.MustCompile(`blocked_clients:\d+`)

func (p *peer) info(ctx context.Context, request []any) {
	text, err := p.conn.Do(ctx, request...).Text()
	if err != nil {
		p.error(err)
		return
	}
	blocked := 0
	p.gateway.mu.Lock()
	for _, other := range p.gateway.peers {
		if other.unblock.Load() != nil {
			blocked++
		}
	}
	p.gateway.mu.Unlock()
	p.bulk(blockedClients.ReplaceAllString(text, fmt.Sprint("blocked_clients:", blocked)))
}

// A call is a command on its way through the client. It gets a value from the hook, or raw bytes from the server.
type call struct {
	*redis.Cmd
	raw []byte
}

func newCall(request []any) *call { return &call{Cmd: redis.NewCmd(context.Background(), request...)} }

// verbatim is a hook behind the other: calls that get there are sent so that their replies come back as they are.
type verbatim struct{}

func (verbatim) DialHook(next redis.DialHook) redis.DialHook { return next }

func (verbatim) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c, ok := cmd.(*call)
		if !ok {
			return next(ctx, cmd)
		}
		raw := redis.NewRawCmd(ctx, c.Args()...)
		err := next(ctx, raw)
		c.raw = raw.Val()
		c.SetErr(err)
		return err
	}
}

func (verbatim) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			sent[i] = cmd
			if c, ok := cmd.(*call); ok {
				sent[i] = redis.NewRawCmd(ctx, c.Args()...)
			}
		}
		err := next(ctx, sent)
		for i, cmd := range cmds {
			if c, ok := cmd.(*call); ok {
				c.raw = sent[i].(*redis.RawCmd).Val()
				c.SetErr(sent[i].Err())
			}
		}
		return err
	}
}

func set(names ...string) map[string]bool {
	s := make(map[string]bool)
	for _, name := range names {
		s[name] = true
	}
	return s
}
