package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
)

func TestDemoStartsAServer(t *testing.T) {
	for binary, name := range map[string]string{"redis-server": "Redis", "valkey-server": "Valkey"} {
		t.Run(binary, func(t *testing.T) {
			t.Setenv("PATH", pathWith(t, binary))
			t.Setenv("REDIS_URL", "redis://127.0.0.1:1") // does not count
			t.Setenv("TMPDIR", t.TempDir())
			got := <-start(t.Context(), nil, "demo", "--lines", "3000")
			assert.Zero(t, got.code)
			assert.Empty(t, withoutProgress(got.err))
			assert.Regexp(t, `(?m)^Server: +`+name+` \d+\.\d+\.\d+, started for this demo on 127\.0\.0\.1:\d+$`, got.out)
			assert.Regexp(t, `(?m)^  elements out: +3,000$`, got.out)
			assertStopped(t, startedServer(t, got.out))
			assertEmpty(t, os.TempDir())
		})
	}
}

func TestServerEndsWithTheDemo(t *testing.T) {
	t.Parallel()
	path := pathWith(t, "redis-server")
	for _, test := range []struct {
		name string
		end  func(*os.Process) error
		code int
	}{
		{"interrupt", func(p *os.Process) error { return p.Signal(os.Interrupt) }, exitInterrupted},
		{"termination", func(p *os.Process) error { return p.Signal(syscall.SIGTERM) }, exitTerminated},
		{"kill", (*os.Process).Kill, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.code == -1 && runtime.GOOS != "linux" {
				t.Skip("only Linux ends the server with a demo that is killed")
			}
			tmp := t.TempDir()
			program, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.Command(program, "demo", "-")
			cmd.Env = append(os.Environ(), asProgram+"=1", "PATH="+path, "TMPDIR="+tmp)
			stdin, err := cmd.StdinPipe()
			require.NoError(t, err)
			defer stdin.Close()
			stdout, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var setup strings.Builder
			for lines := bufio.NewScanner(stdout); lines.Scan() && lines.Text() != ""; {
				setup.WriteString(lines.Text() + "\n")
			}
			address := startedServer(t, setup.String())
			assert.True(t, accepts(address))

			require.NoError(t, test.end(cmd.Process))
			require.Error(t, cmd.Wait())
			assert.Equal(t, test.code, cmd.ProcessState.ExitCode())
			if test.code == -1 {
				eventually(t, func() bool { return !accepts(address) })
			}
			assertStopped(t, address)
			assertEmpty(t, tmp)
		})
	}
}

func TestDemoWithoutAServer(t *testing.T) {
	t.Setenv("PATH", "")
	got := <-start(t.Context(), nil, "demo", "--lines", "1000")
	assert.Zero(t, got.code)
	assert.Empty(t, withoutProgress(got.err))
	assert.Contains(t, got.out, "Server:   embedded miniredis (install redis-server or valkey-server for a faster one)\n")
	assert.Regexp(t, `(?m)^  elements out: +1,000$`, got.out)
}

func TestDemoWhereTheServerDoesNotStart(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no shell scripts here")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho starting\necho out of order >&2\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o700))
	t.Setenv("PATH", dir)
	got := <-start(t.Context(), nil, "demo", "--lines", "1000")
	assert.Zero(t, got.code)
	assert.Equal(t, "shardedlist: cannot start redis-server: it exits: out of order\n", withoutProgress(got.err))
	assert.Contains(t, got.out, "Server:   embedded miniredis (a real server is faster)\n")
}

func TestDemoKeepsOffAnotherServer(t *testing.T) {
	t.Parallel()
	other := redistest.Start(t, redistest.Redis)
	path, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	host, port, err := net.SplitHostPort(other.Addr())
	require.NoError(t, err)
	_, err = startServerAt(t.Context(), path, t.TempDir(), host, port)
	assert.ErrorIs(t, err, errPortTaken)
}

func TestServerVersion(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{
		"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\n":                     "Redis 7.0.15",
		"# Server\r\nredis_version:6.2.0\r\n":                                               "Redis 6.2.0",
		"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.0.1\r\n": "Valkey 8.0.1",
		"# Server\r\nredis_version:6.0.16\r\n":                                              "version 6.0.16 is older than 6.2",
		"# Server\r\n":                                                                      `unknown version ""`,
	} {
		got, err := serverVersion(info)
		if err != nil {
			got = err.Error()
		}
		assert.Equal(t, want, got)
	}
}

// pathWith returns a PATH where this is the only program.
func pathWith(t *testing.T, binary string) string {
	t.Helper()
	path, err := exec.LookPath(binary)
	if err != nil && os.Getenv("SHARDEDLIST_REQUIRE_SERVERS") == "" {
		t.Skip(binary, "is not installed")
	}
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(path, filepath.Join(dir, binary)))
	return dir
}

// startedServer returns the address of the server that a demo says it started.
func startedServer(t *testing.T, output string) string {
	t.Helper()
	found := regexp.MustCompile(`started for this demo on (\S+)\n`).FindStringSubmatch(output)
	require.NotNil(t, found, output)
	return found[1]
}

func accepts(address string) bool {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func assertStopped(t *testing.T, address string) {
	t.Helper()
	assert.False(t, accepts(address), "the server still runs")
}

func assertEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}
