package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/scan"
)

// What docs/operating.md tells to type works, and shows what the page says.
func TestTheOperatingPage(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	page, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	script := "set -euo pipefail\n"
	for _, box := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		script += box[1]
	}
	program, err := os.Executable()
	require.NoError(t, err)
	redisCLI, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip(err)
	}
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, dir := redistest.Start(t, kind), t.TempDir()
			flags, err := cliFlags(t.Context(), server.Client(t), "jobs")
			require.NoError(t, err)
			for name, command := range map[string]string{
				"shardedlist": asProgram + "=1 " + program + " --redis " + shellWords([]string{server.URL()}),
				"redis-cli":   redisCLI + " " + shellWords(flags),
			} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\nexec env "+command+` "$@"`+"\n"), 0o700))
			}
			cmd := exec.Command("bash", "-c", script)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Regexp(t, "(?s)^5\njobs\n3 0 2 2 . #.*\n5\n5\na\nb\ne\n +3 {jobs}\n", string(out))
			colours := regexp.MustCompile("\x1b[^m]*m")
			session, err := os.ReadFile(filepath.Join(dir, "session"))
			require.NoError(t, err)
			assert.Regexp(t, `(?s)<(redis|command)> RPUSHX {jobs}:#\S+:1 e\n<reply> 3\n.*<(redis|command)> RPOP {jobs}:#\S+:1\n<reply> "e"\n.*`+
				`<value> 1\n<value> {.*\["?last"?\]=1.*<reply> "3 0 2 2 . #.*\(integer\) 5\n.*rolled back`, colours.ReplaceAllString(string(session), ""))
			assert.Regexp(t, "(?s)rolled back\\)\n\n(\\(\\S+s\\)\n)?4\n5\n3 0 2 2 . #\\S+\n1\n$", string(out))
		})
	}
}

// The operator of docs/operating.md can look at everything, and can change nothing.
func TestPermissionsOfAnOperator(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	page, err := os.ReadFile("../../docs/operating.md")
	require.NoError(t, err)
	rule := regexp.MustCompile(`(?m)^ {4}ACL SETUSER operator (.*)$`).FindSubmatch(page)
	require.NotNil(t, rule)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			rdb := server.Client(t)
			setUser := []any{"acl", "setuser", "operator"}
			for _, word := range strings.Fields(string(rule[1])) {
				setUser = append(setUser, word)
			}
			require.NoError(t, scan.EachMaster(t.Context(), rdb, func(ctx context.Context, master redis.UniversalClient) error {
				return master.Do(ctx, setUser...).Err()
			}))
			store(t, rdb, backlogLayout, "backlog", "a", "b")
			store(t, rdb, spreadLayout, "spread", "a", "b", "c", "d", "e")
			addresses := map[string]string{"": server.URL(), "operator": strings.Replace(server.URL(), "://", "://operator:secret@", 1)}
			if kind == redistest.Sentinel {
				addresses["operator"] = server.URL() + "&username=operator&password=secret"
			}
			run := func(user, args string) result {
				got := <-start(t.Context(), nil, append(strings.Fields(args), "--redis", addresses[user])...)
				got.out = strings.Replace(got.out, " --user operator", "", 1) // in a script
				return got
			}
			for i := range 9 {
				require.Zero(t, run("", fmt.Sprintf("rpush --capacity 2 list %d", i)).code)
			}
			require.Zero(t, run("", "expire list 1000").code)
			for _, list := range []string{"list", "backlog", "spread"} {
				for _, command := range []string{
					"llen L", "lrange L 0 -1", "lrange L 1 1", "lindex L 0", "lpos L b COUNT 0", "info L", "check L", "type L", "exists L", "touch L",
					"pexpiretime L", "object encoding L", "memory usage L", "script llen L",
				} {
					command = strings.ReplaceAll(command, "L", list)
					assert.Equal(t, run("", command), run("operator", command), command)
				}
				for _, command := range []string{
					"rpush L x", "lpop L", "lset L 0 x", "lrem L 0 1", "ltrim L 1 0", "linsert L before 1 x", "del L", "expire L 1", "persist L",
					"rename L x", "copy L x", "lmove L L left right", "adopt L", "restore L",
				} {
					command = strings.ReplaceAll(command, "L", list)
					state := func() [2]result { return [2]result{run("", "lrange "+list+" 0 -1"), run("", "pexpiretime "+list)} }
					before := state()
					run("operator", command)
					assert.Equal(t, before, state(), command)
				}
				assert.Equal(t, exitFailure, run("operator", "rpush "+list+" x").code)
				assert.Zero(t, run("operator", "ttl "+list).code)
			}
			assert.Equal(t, "ok\n", run("", "check list").out)
		})
	}
}
