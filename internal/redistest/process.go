package redistest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/shardedlist/shardedlist/internal/child"
)

// A process is a redis-server or valkey-server with its own directory, which
// outlives a crash: kill and start make the server crash and come back.
type process struct {
	argv []string
	dir  string
	addr string

	// release frees the port. Until then no other server gets it, even while this
	// one is down.
	release func()

	cmd    *exec.Cmd
	exited <-chan struct{} // closed when cmd has ended
	paused bool

	// client is the package's own client, for queries and configuration.
	client *redis.Client
}

// notInstalledError is the name of a server that is not installed.
type notInstalledError string

func (e notInstalledError) Error() string {
	return fmt.Sprintf("%s is not installed: Debian has it in the package %[1]s, which .ci/install-servers installs", string(e))
}

// startProcess starts the server and waits until it answers.
func startProcess(ctx context.Context, placement Placement, program binary, args, config []string) (p *process, err error) {
	release, err := withPort(func(port int) error {
		lines := slices.Concat([]string{fmt.Sprint("port ", port)}, placement.config(), program.config(), config)
		if WithoutFunctions() && !slices.Contains(args, "--sentinel") {
			lines = append(lines, noFunctions)
		}
		argv := slices.Concat(placement.Via, []string{program.path, "redis.conf"}, args)
		if p, err = newProcess(argv, placement.addr(port), lines); err != nil {
			return err
		}
		if err = p.start(ctx); err != nil {
			p.close()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	p.release = release
	return p, nil
}

// newProcess prepares the directory to start the server in.
func newProcess(argv []string, addr string, config []string) (*process, error) {
	dir, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, err
	}
	text := strings.Join(config, "\n") + "\n"
	if err := os.WriteFile(filepath.Join(dir, "redis.conf"), []byte(text), 0o600); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &process{
		argv: argv,
		dir:  dir,
		addr: addr,
		client: redis.NewClient(&redis.Options{
			Addr:                     addr,
			DialerRetries:            1,
			MaxRetries:               1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
	}, nil
}

// start starts the server, which must not be running, and waits until it
// answers.
func (p *process) start(ctx context.Context) error {
	log, err := os.OpenFile(p.log(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()

	if err := p.mend(); err != nil {
		return err
	}
	p.cmd = exec.Command(p.argv[0], p.argv[1:]...)
	p.cmd.Dir = p.dir
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.paused = false
	if p.exited, err = child.Start(p.cmd); err != nil {
		return err
	}
	return p.ready(ctx)
}

// ready waits until the server has loaded its data and answers.
func (p *process) ready(ctx context.Context) error {
	// Another server may have taken the port and answer for this one.
	self := fmt.Sprintf("process_id:%d\r\n", p.cmd.Process.Pid)
	err := poll(ctx, p.exited, func() error {
		if err := tryDial(p.addr); err != nil { // the client would log the error
			return err
		}
		info, err := p.client.Info(ctx).Result()
		if err != nil {
			return err
		}
		if !strings.Contains(info, self) {
			return errors.New("another server answers")
		}
		return p.client.Ping(ctx).Err() // an error while it is loading
	})
	switch {
	case err == nil:
		return nil
	case strings.Contains(p.logTail(), "Address already in use"):
		return fmt.Errorf("%s: %w", p.addr, syscall.EADDRINUSE)
	default:
		return fmt.Errorf("%s is not ready: %w; its log ends:\n%s", p.addr, err, p.logTail())
	}
}

// running reports whether the server is neither dead nor paused.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return !p.paused
	}
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails if it has ended already
	<-p.exited
}

func (p *process) pause() {
	p.signal(sigstop)
	p.paused = true
}

func (p *process) resume() {
	p.signal(sigcont)
	p.paused = false
}

func (p *process) signal(sig os.Signal) {
	if err := p.cmd.Process.Signal(sig); err != nil {
		panic(fmt.Sprintf("redistest: %s: %v: %v", p.addr, sig, err))
	}
}

// close kills the server, if it was started, and removes its directory.
func (p *process) close() {
	if p.cmd != nil && p.cmd.Process != nil {
		p.kill()
	}
	_ = p.client.Close()
	_ = os.RemoveAll(p.dir)
	if p.release != nil {
		p.release()
	}
}

func (p *process) log() string { return filepath.Join(p.dir, "server.log") }

// logTail returns the last lines the server has logged.
func (p *process) logTail() string {
	log, err := os.ReadFile(p.log())
	if err != nil {
		return err.Error()
	}
	lines := bytes.SplitAfter(log, []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-20):], nil))
}

// withPort calls listen with a free port, and with another if the port is taken
// before listen can use it. The port is the caller's until it is released.
func withPort(listen func(port int) error) (release func(), err error) {
	for attempt := 0; ; attempt++ {
		port, claim, err := claimPort()
		if err != nil {
			return nil, err
		}
		if err = listen(port); err == nil {
			return func() { _ = claim.Close() }, nil
		}
		_ = claim.Close()
		if attempt == 9 || !errors.Is(err, syscall.EADDRINUSE) {
			return nil, err
		}
	}
}

// claimPort returns a free port that a cluster node can use, for which the port
// 10000 above must be free as well.
//
// Both are below the ports of outgoing connections, so that none of those takes
// the port of a killed server before it restarts. A claim keeps other servers of
// these tests off the port, in this and in other processes: it holds the UDP port
// of that number, which no server uses.
func claimPort() (port int, claim io.Closer, err error) {
	const lowest, highest, bus = 11000, 20999, 10000
	for range 100 {
		port = lowest + rand.IntN(highest-lowest+1)
		if claim, err = net.ListenPacket("udp", loopback(port)); err != nil {
			continue
		}
		if err = errors.Join(tryPort(port), tryPort(port+bus)); err == nil {
			return port, claim, nil
		}
		_ = claim.Close()
	}
	return 0, nil, fmt.Errorf("no free port: %w", err)
}

func tryPort(port int) error {
	l, err := net.Listen("tcp", loopback(port))
	if err != nil {
		return err
	}
	return l.Close()
}

func tryDial(addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

func loopback(port int) string { return Placement{}.addr(port) }
