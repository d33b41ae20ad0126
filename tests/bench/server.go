package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// server is a redis-server that the benchmark starts on loopback, without persistence.
type server struct {
	addr    string
	dir     string
	cmd     *exec.Cmd
	control *redis.Client // for what is not measured
}

func startServer(ctx context.Context, path string, more ...string) (*server, error) {
	return startProgram(ctx, []string{path}, more...)
}

// startProgram starts a server by a command, to which the options are added.
func startProgram(ctx context.Context, command []string, more ...string) (*server, error) {
	dir, err := os.MkdirTemp("", "shardedlist-bench-")
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{addr: net.JoinHostPort("127.0.0.1", port), dir: dir}
	command = append(slices.Clip(command), "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
		"--maxclients", "15000", "--logfile", "server.log")
	s.cmd = exec.Command(command[0], append(command[1:], more...)...)
	if err := s.cmd.Start(); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	s.control = s.client(func(o *redis.Options) { o.ReadTimeout = 10 * time.Minute })
	for range 100 {
		if err = s.dial(); err == nil {
			err = s.control.Ping(ctx).Err()
		}
		if err == nil {
			return s, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("%s does not answer: %w", s.cmd, err)
}

func (s *server) stop() {
	_ = s.control.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	_ = os.RemoveAll(s.dir)
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return port, err
}

func (s *server) dial() error {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// client returns a go-redis client with the default options, except for those given.
func (s *server) client(options ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{
		Addr:                     s.addr,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	for _, option := range options {
		option(o)
	}
	return redis.NewClient(o)
}

func poolSize(connections int) func(*redis.Options) {
	return func(o *redis.Options) { o.PoolSize = connections }
}

// info returns a section of INFO.
func (s *server) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := s.control.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// number returns one figure of INFO.
func (s *server) number(ctx context.Context, section, field string) (float64, error) {
	fields, err := s.info(ctx, section)
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(fields[field], 64)
}

// cpu returns the CPU time that the server has used.
func (s *server) cpu(ctx context.Context) (time.Duration, error) {
	fields, err := s.info(ctx, "cpu")
	if err != nil {
		return 0, err
	}
	user, err := strconv.ParseFloat(fields["used_cpu_user"], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields["used_cpu_sys"], 64)
	return time.Duration((user + system) * float64(time.Second)), err
}

// callTime returns the server's time per call of the command and the number of calls since CONFIG RESETSTAT.
func (s *server) callTime(ctx context.Context, command string) (perCall time.Duration, calls int, err error) {
	fields, err := s.info(ctx, "commandstats")
	if err != nil {
		return 0, 0, err
	}
	var micros float64
	for _, part := range strings.Split(fields["cmdstat_"+command], ",") {
		name, value, _ := strings.Cut(part, "=")
		switch name {
		case "calls":
			calls, err = strconv.Atoi(value)
		case "usec_per_call":
			micros, err = strconv.ParseFloat(value, 64)
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return time.Duration(micros * float64(time.Microsecond)), calls, nil
}

// clear flushes the server and waits until it has freed the memory.
func (s *server) clear(ctx context.Context) error {
	if err := s.control.Do(ctx, "flushall", "sync").Err(); err != nil {
		return err
	}
	for {
		pending, err := s.number(ctx, "memory", "lazyfree_pending_objects")
		if err != nil || pending == 0 {
			return err
		}
		if err := sleep(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
