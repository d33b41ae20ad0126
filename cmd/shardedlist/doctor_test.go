package main

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
)

// examined returns what doctor finds, by level, and its exit code.
func examined(t *testing.T, url string) (levels map[string]string, code int) {
	t.Helper()
	got := <-start(t.Context(), nil, "--redis", url, "--json", "doctor")
	var findings []finding
	require.NoError(t, json.Unmarshal([]byte(got.out), &findings), "%s %s", got.out, got.err)
	levels = map[string]string{}
	for _, f := range findings {
		levels[f.Level] += f.Subject + ": " + f.Text + " " + f.Mend + "\n"
	}
	return levels, got.code
}

// Doctor names what is wrong, with the command that mends it, and changes no key.
func TestDoctor(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, kind)
			ctx, rdb := t.Context(), server.Client(t).(*redis.Client)
			levels, code := examined(t, server.URL())
			assert.Equal(t, exitOK, code)
			assert.Empty(t, levels[fault])
			assert.Contains(t, levels[sound], "maxmemory-policy is noeviction")
			assert.Contains(t, levels[note], "there is no replica")
			assert.Contains(t, levels[sound], "the user may do all that the library calls")

			values := make([]any, 40)
			for i := range values {
				values[i] = i
			}
			var lists []*shardedlist.ShardedList
			for _, name := range []string{"whole", "lost", "gap", "it's"} {
				list, err := shardedlist.New(rdb, name, shardedlist.WithCapacity(3))
				require.NoError(t, err)
				_, err = list.RPush(ctx, values...)
				require.NoError(t, err)
				lists = append(lists, list)
			}
			require.NoError(t, lists[3].Rename(ctx, "renamed"))
			require.NoError(t, rdb.Del(ctx, oneslot.KeysOf("lost").Meta).Err())
			for _, key := range rdb.Keys(ctx, "{gap}:#*:5").Val() {
				require.NoError(t, rdb.Del(ctx, key).Err())
			}
			require.NoError(t, rdb.RPush(ctx, "huge", strings.Repeat("x", hugeBytes)).Err())
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory-policy", "volatile-lru").Err())
			before := rdb.Keys(ctx, "*").Val()
			levels, code = examined(t, server.URL())
			assert.Equal(t, exitNothing, code)
			assert.Contains(t, levels[fault], "list lost: 14 shards are there that no meta knows")
			assert.ElementsMatch(t, before, rdb.Keys(ctx, "*").Val())
			ls := (<-start(ctx, nil, "--redis", server.URL(), "ls", "--json")).out
			assert.Contains(t, ls, "no meta knows its shards: 14")
			_, err := lists[1].RPush(ctx, "since") // before repair --before below
			require.NoError(t, err)
			ls = (<-start(ctx, nil, "--redis", server.URL(), "ls", "--json")).out
			assert.Contains(t, ls, `"strays":14`)
			top := (<-start(ctx, nil, "--redis", server.URL(), "top", "--count", "1", "--json")).out
			assert.Equal(t, 1, strings.Count(top, `"strays":14`))
			levels, _ = examined(t, server.URL())
			assert.Contains(t, levels[fault], "list lost: 14 shards are there that no meta knows shardedlist repair --dry-run lost\n")
			assert.Contains(t, levels[fault], "list gap: list is broken: shard 5 is missing shardedlist repair --dry-run gap\n")
			assert.Equal(t, 2, strings.Count(levels[fault], "\n"), levels[fault])
			assert.Contains(t, levels[note], "maxmemory-policy is volatile-lru")
			assert.Contains(t, levels[note], "list huge: a plain list with 1 elements shardedlist adopt huge\n")
			require.NoError(t, rdb.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru").Err())
			levels, _ = examined(t, server.URL())
			assert.Contains(t, levels[fault], "redis-cli config set maxmemory-policy noeviction")
			for _, name := range []string{"lost", "gap"} {
				got := <-start(ctx, nil, "--redis", server.URL(), "repair", "--before", name)
				require.Equal(t, exitOK, got.code, got.out)
				assert.True(t, strings.HasSuffix(got.out, "ok\n"))
			}
			got := <-start(ctx, nil, "--redis", server.URL(), "doctor")
			assert.NotContains(t, got.out, "repair")
			assert.Contains(t, got.out, "ok     lists: 5 lists with ")

			require.NoError(t, rdb.Do(ctx, "acl", "setuser", "reader", "on", ">secret", "~*", "+@read", "-@dangerous", "+ping", "+scan", "+hello").Err())
			levels, code = examined(t, strings.Replace(server.URL(), "redis://", "redis://reader:secret@", 1))
			assert.Equal(t, exitNothing, code)
			assert.Contains(t, levels[note], "INFO is refused")
			assert.Contains(t, levels[fault], "user: the user may not use lists")

			require.NoError(t, rdb.Do(ctx, "acl", "setuser", "worker", "on", ">secret", "~{gap}:*", "~gap", "resetchannels", "+@all", "-rpush", "-wait", "-config|get").Err())
			levels, code = examined(t, strings.Replace(server.URL(), "redis://", "redis://worker:secret@", 1))
			assert.Equal(t, exitNothing, code)
			assert.NotContains(t, levels[fault], "list huge")
			assert.Contains(t, levels[note], "the user may not use 4 of the lists", levels[fault])
			assert.Contains(t, levels[fault], "user: the user lacks what it needs for lists redis-cli acl setuser NAME +rpush\n")
			assert.Contains(t, levels[note], "for WithReplicas redis-cli acl setuser NAME +wait\n")
			assert.Contains(t, levels[note], "+config|get\n")
			assert.Contains(t, levels[note], "+ssubscribe '&*:bell' ")
			assert.NotContains(t, levels[note], "+memory")
			require.NoError(t, rdb.Do(ctx, "acl", "setuser", "operator", "on", ">secret", "~*", "&*", "+@all", "-lpush", "-rpush", "-lpop", "-rpop", "-set").Err())
			levels, _ = examined(t, strings.Replace(server.URL(), "redis://", "redis://operator:secret@", 1))
			assert.Contains(t, levels[note], "the user may read lists, and not change them")
			assert.NotContains(t, levels[fault], "user: ")
			require.NoError(t, rdb.Do(ctx, "acl", "setuser", "worker", "resetkeys", "~other").Err())
			levels, _ = examined(t, strings.Replace(server.URL(), "redis://", "redis://worker:secret@", 1))
			assert.Contains(t, levels[note], "it may use none of the lists looked at")
		})
	}
}

// Doctor asks for the commands that the page names.
func TestDoctorAsksForWhatThePageNames(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/servers.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`\+([a-z|\\]+)`)
	rules := func(text string) (all []string) {
		for _, words := range named.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.ReplaceAll(words[1], `\`, ""))
		}
		return all
	}
	var asked []string
	for _, use := range uses {
		for _, command := range use.commands {
			words := strings.Fields(command)
			if strings.Contains("function config memory", words[0]) {
				words[0] += "|" + words[1]
			}
			asked = append(asked, words[0])
		}
	}
	core := regexp.MustCompile(`(?m)^ {4}ACL SETUSER worker (.*)$`).FindString(string(page))
	require.Greater(t, len(rules(core)), 30)
	assert.Subset(t, asked, rules(core))
	_, section, _ := strings.Cut(string(page), "## Permissions")
	assert.Subset(t, rules(section), asked)
}

// On a cluster, doctor looks at all masters, and names slots that move.
func TestDoctorOfACluster(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Cluster) {
		server := redistest.Start(t, kind)
		levels, _ := examined(t, server.URL())
		assert.Equal(t, 3, strings.Count(levels[sound], "maxmemory-policy is noeviction"))
		assert.NotContains(t, levels[note], "is moving")
		moveSlot100(t, server)
		levels, _ = examined(t, server.URL())
		assert.Contains(t, levels[note], "slot 100 is moving")
	}
}

// moveSlot100 makes a slot move, without an end.
func moveSlot100(t *testing.T, server *redistest.Server) {
	ctx, ids, nodes := t.Context(), []string{}, []*redis.Client{}
	for _, node := range server.Nodes() {
		rdb := node.Client(t).(*redis.Client)
		if !strings.Contains(rdb.Info(ctx, "replication").Val(), "role:master") {
			continue
		}
		id, err := rdb.Do(ctx, "cluster", "myid").Text()
		require.NoError(t, err)
		ids, nodes = append(ids, id), append(nodes, rdb)
	}
	owner, err := server.SlotOwner(ctx, 100)
	require.NoError(t, err)
	require.NoError(t, nodes[owner].Do(ctx, "cluster", "setslot", 100, "migrating", ids[(owner+1)%len(ids)]).Err())
}
