package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/shardedlist/shardedlist/internal/child"
)

// demoServer is the server that a demo runs on.
type demoServer struct {
	rdb       redis.UniversalClient
	name      string
	temporary bool   // the data goes when the server stops
	stop      func() // closes the client and stops a temporary server
}

// openServer connects to the server that --redis names. Without one it starts a temporary server: the first of
// serverBinaries that works, else miniredis in this process.
func (d *demo) openServer(ctx context.Context) (*demoServer, error) {
	if d.app.address != "" {
		rdb, hosts, err := connect(ctx, "--redis", d.app.address)
		if err != nil {
			return nil, err
		}
		return &demoServer{rdb, hosts, false, func() { _ = rdb.Close() }}, nil
	}
	if d.embedded {
		return embeddedServer("a real server is faster")
	}
	hint := "install redis-server or valkey-server for a faster one"
	for _, binary := range serverBinaries {
		s, err := startServer(ctx, binary)
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !errors.Is(err, exec.ErrNotFound):
			fmt.Fprintf(d.app.stderr, "shardedlist: cannot start %s: %v\n", binary, err)
			hint = "a real server is faster"
		}
	}
	return embeddedServer(hint)
}

var serverBinaries = []string{"redis-server", "valkey-server"}

func embeddedServer(hint string) (*demoServer, error) {
	embedded, err := miniredis.Run()
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: embedded.Addr(), MaxRetries: -1})
	return &demoServer{rdb, "embedded miniredis (" + hint + ")", true, func() {
		_ = rdb.Close()
		embedded.Close()
	}}, nil
}

// startServer starts a server from PATH on a free port of the loopback interface and waits until it answers.
func startServer(ctx context.Context, binary string) (*demoServer, error) {
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, err
	}
	// The server writes no files, so the directory can go while the server runs. Nothing is left if this process is killed.
	dir, err := os.MkdirTemp("", "shardedlist-demo-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for attempt := 1; ; attempt++ {
		host, port, err := freeAddress()
		if err != nil {
			return nil, err
		}
		s, err := startServerAt(ctx, path, dir, host, port)
		if err == nil || attempt == 3 || !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
}

// errPortTaken says that another process took the free port before the server did.
var errPortTaken = errors.New("address already in use")

func startServerAt(ctx context.Context, path, dir, host, port string) (*demoServer, error) {
	password := rand.Text() // keeps other users of this machine out
	config := []string{
		"bind " + host,
		"port " + port,
		"requirepass " + password,
		`save ""`,
		"appendonly no",
		"loglevel warning",
	}
	var log bytes.Buffer
	cmd := exec.Command(path, "-") // reads its configuration from standard input
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(strings.Join(config, "\n") + "\n")
	cmd.Stdout, cmd.Stderr = &log, &log
	exited, err := child.Start(cmd)
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{
		Addr:          net.JoinHostPort(host, port),
		Password:      password,
		MaxRetries:    -1,
		DialerRetries: 1,
	})
	stop := func() {
		_ = cmd.Process.Kill() // fails if it has exited
		<-exited
		_ = rdb.Close()
	}
	version, err := awaitVersion(ctx, rdb, cmd.Process.Pid, exited)
	if err != nil {
		stop()
		if strings.Contains(strings.ToLower(log.String()), errPortTaken.Error()) {
			return nil, errPortTaken
		}
		if errors.Is(err, errExited) {
			err = fmt.Errorf("%w: %s", err, lastLine(log.String()))
		}
		return nil, err
	}
	name := fmt.Sprintf("%s, started for this demo on %s", version, rdb.Options().Addr)
	return &demoServer{rdb, name, true, stop}, nil
}

// freeAddress returns an address of the loopback interface where nothing listens.
func freeAddress() (host, port string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = listener.Close() }()
	return net.SplitHostPort(listener.Addr().String())
}

const startTimeout = 10 * time.Second

var errExited = errors.New("it exits")

// awaitVersion waits until the server with this process id answers, and returns its name and version. Another server may
// have taken the port: the server then exits.
func awaitVersion(ctx context.Context, rdb *redis.Client, pid int, exited <-chan struct{}) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		info, err := rdb.Info(ctx, "server").Result()
		if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
			return serverVersion(info)
		}
		select {
		case <-exited:
			return "", errExited
		case <-ctx.Done():
			return "", errors.Join(ctx.Err(), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// serverVersion reads a reply of INFO. A server older than Redis 6.2 is an error.
func serverVersion(info string) (string, error) {
	fields := map[string]string{}
	for line := range strings.Lines(info) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		fields[key] = value
	}
	if version := fields["valkey_version"]; version != "" {
		return "Valkey " + version, nil
	}
	version := fields["redis_version"]
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return "", fmt.Errorf("unknown version %q", version)
	}
	if major < 6 || major == 6 && minor < 2 {
		return "", fmt.Errorf("version %s is older than 6.2", version)
	}
	return "Redis " + version, nil
}

func lastLine(log string) (last string) {
	for scanner := bufio.NewScanner(strings.NewReader(log)); scanner.Scan(); {
		last = scanner.Text()
	}
	return last
}
