package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/lua"
)

// Libraries of other versions are shown, and deleted when asked. That of this version stays, and lists are not affected.
func TestFunctions(t *testing.T) {
	t.Parallel()
	if redistest.WithoutFunctions() {
		t.Skip("the servers have no functions")
	}
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Cluster, redistest.Sentinel) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			list, err := shardedlist.New(server.Client(t), "jobs")
			require.NoError(t, err)
			_, err = list.RPush(t.Context(), "a")
			require.NoError(t, err)
			const old = "shardedlist_00000000"
			for _, node := range server.Nodes() {
				text := "#!lua name=" + old + "\nredis.register_function('" + old + "_push', function() return 1 end)"
				if err := node.Client(t).FunctionLoad(t.Context(), text).Err(); err != nil {
					require.Regexp(t, "READONLY|unknown command", err.Error(), "a replica or a sentinel")
				}
			}
			run := func(args ...string) string {
				got := <-start(t.Context(), nil, append([]string{"--redis", server.URL(), "functions"}, args...)...)
				require.Equal(t, exitOK, got.code, got.err)
				return got.out
			}
			before := run()
			assert.Regexp(t, `library: +`+old+`\nfunctions: +1\nversion: +other\n`, before)
			assert.Regexp(t, `library: +`+lua.Functions().Name+`\nfunctions: +\d\d+\nversion: +current\n`, before)
			assert.Contains(t, run("--prune", "--json"), `"version":"deleted"`)
			after := run()
			assert.NotContains(t, after, old)
			assert.Equal(t, 1, strings.Count(after, "current"))
			info := <-start(t.Context(), nil, "--redis", server.URL(), "info", "jobs")
			assert.Regexp(t, `mode: +functions\n`, info.out)
		})
	}
}
