package hook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func serversAndCluster(t *testing.T, test func(t *testing.T, server *redistest.Server)) {
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			test(t, redistest.Start(t, kind))
		})
	}
}

// A command may have a key that matches and another that does not. That stays a plain list, whatever its length.
func TestHookOnAMatchingAndAnotherList(t *testing.T) {
	t.Parallel()
	serversAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, plain := t.Context(), server.Client(t)
		rdb := server.Client(t)
		rdb.AddHook(shardedlist.NewHook(rdb, shardedlist.Match("{tag}q*"), shardedlist.WithCapacity(3)))
		rng := rand.New(rand.NewPCG(1, 2))
		ends := []string{"LEFT", "RIGHT", "left"}
		pick := func(of ...string) string { return of[rng.IntN(len(of))] }
		// A key of the twin has the same name, but for the tag.
		name := func(key string, hooked bool) string {
			if hooked {
				return "{tag}" + key
			}
			return "{tag}plain" + key
		}
		content, refused := map[string]bool{}, map[string]bool{}
		for i := range 600 {
			from, to := pick("q1", "q2", "other"), pick("q1", "q2", "other", "more")
			var command []any
			keys := []int{1, 2}
			switch rng.IntN(11) {
			case 0, 1, 2:
				command, keys = []any{pick("rpush", "lpush"), from}, []int{1}
				for j := range 1 + rng.IntN(6) {
					command = append(command, fmt.Sprint(i, ".", j))
				}
			case 3:
				command = []any{"lmove", from, to, pick(ends...), pick(ends...)}
			case 4:
				command = []any{"rpoplpush", from, to}
			case 5:
				command, keys = []any{"lmpop", 2, from, to, pick(ends...), "count", 1 + rng.IntN(5)}, []int{2, 3}
			case 6:
				command = []any{pick("brpoplpush"), from, to, "0.01"}
			case 7:
				command = []any{"blmove", from, to, pick(ends...), pick(ends...), "0.01"}
				if rng.IntN(2) == 0 {
					command = []any{pick("blpop", "brpop"), from, to, "0.01"}
				}
			case 8, 9:
				command = []any{pick("rename", "renamenx", "copy"), from, to}
			case 10:
				command = []any{"copy", from, to, "replace"}
			}
			var replies [2]string
			for at, client := range []redis.UniversalClient{rdb, plain} {
				hooked := at == 0
				words := append([]any(nil), command...)
				for _, key := range keys {
					words[key] = name(command[key].(string), hooked)
				}
				var reply any
				var err error
				if rng.IntN(2) == 0 && fmt.Sprint(command[0])[0] != 'b' || i%5 == 0 {
					cmds, failure := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
						p.Do(ctx, words...)
						return nil
					})
					reply, err = cmds[0].(*redis.Cmd).Val(), failure
				} else {
					reply, err = client.Do(ctx, words...).Result()
				}
				if array, ok := reply.([]any); ok {
					reply = array[1] // behind the name
				}
				if errors.Is(err, shardedlist.ErrUnsupported) && len(keys) == 2 && command[0] != "lmpop" {
					refused[fmt.Sprint(command[0], len(command))] = true // a long list at a name that does not match, or replaced by a copy
					replies[1] = fmt.Sprint(reply, err)
					replies[0] = replies[1]
					break
				}
				replies[at] = fmt.Sprint(reply, err)
			}
			require.Equal(t, replies[0], replies[1], "%d: %v", i, command)
			for _, key := range []string{"q1", "q2", "other", "more"} {
				want := plain.LRange(ctx, name(key, false), 0, -1).Val()
				client := redis.UniversalClient(plain) // the key itself
				if key[0] == 'q' {
					client = rdb
				}
				require.Equal(t, want, client.LRange(ctx, name(key, true), 0, -1).Val(), "%d: %v: %s", i, command, key)
				content[fmt.Sprint(key, len(want) > 3)] = true
			}
		}
		assert.Len(t, content, 8, "each list was short and long: %v", content)
		assert.True(t, refused["rename3"] && refused["copy4"], refused)
		for _, key := range []string{"other", "more"} {
			assert.Zero(t, plain.Exists(ctx, "{tag}"+key+":meta").Val(), key)
		}
		for _, key := range []string{"q1", "q2"} {
			list, err := shardedlist.New(rdb, "{tag}"+key)
			require.NoError(t, err)
			assert.NoError(t, list.Check(ctx))
		}
	})
}

// A caller that waits at a list that matches is woken, and its element goes to the other list.
func TestHookWaitsToMoveToAnotherList(t *testing.T) {
	t.Parallel()
	serversAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, plain := t.Context(), server.Client(t)
		rdb := hookOn(t, server, "{w}q")
		moved := make(chan *redis.StringCmd, 1)
		go func() { moved <- rdb.BRPopLPush(ctx, "{w}q", "{w}processing", time.Minute) }()
		require.Eventually(t, func() bool { return plain.Exists(ctx, "{w}q:meta").Val() == 1 }, 10*time.Second, time.Millisecond)
		require.NoError(t, rdb.LPush(ctx, "{w}q", "job").Err())
		require.Equal(t, "job", (<-moved).Val())
		assert.Equal(t, []string{"job"}, plain.LRange(ctx, "{w}processing", 0, -1).Val())

		canceled, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		assert.Error(t, rdb.BLMove(canceled, "{w}q", "{w}processing", "LEFT", "LEFT", time.Minute).Err())
		for command, words := range map[string][]any{
			"another type": {"lmove", "{w}q", "{w}text", "left", "left"},
			"a shard":      {"lmove", "{w}q", "{w}q:#0d8a54a2c111.7:0", "left", "left"},
		} {
			require.NoError(t, plain.Set(ctx, "{w}text", "x", 0).Err())
			require.NoError(t, rdb.RPush(ctx, "{w}q", "stays").Err())
			err := rdb.Do(ctx, words...).Err()
			if command == "another type" {
				assert.ErrorContains(t, err, "WRONGTYPE")
			} else {
				assert.ErrorIs(t, err, shardedlist.ErrUnsupported, command)
			}
			assert.Equal(t, []string{"stays"}, rdb.LRange(ctx, "{w}q", 0, -1).Val(), command)
			require.NoError(t, rdb.Del(ctx, "{w}q").Err())
		}
	})
}

// A caller that waits at lists of both kinds is woken by a push to any of them, also by a process without the hook, in the order of its keys.
func TestHookWaitsAtBothKinds(t *testing.T) {
	t.Parallel()
	serversAndCluster(t, func(t *testing.T, server *redistest.Server) {
		ctx, plain := t.Context(), server.Client(t)
		rdb := hookOn(t, server, "{w}q")
		for _, wait := range []struct {
			words  []any
			pushTo string
			want   any
			left   map[string][]string
		}{
			{[]any{"blpop", "{w}other", "{w}q", 0}, "{w}other", []any{"{w}other", "a"}, map[string][]string{"{w}other": {"b"}}},
			{[]any{"blpop", "{w}q", "{w}other", 0}, "{w}other", []any{"{w}other", "a"}, map[string][]string{"{w}other": {"b"}}},
			{[]any{"brpop", "{w}q", "{w}other", 0}, "{w}q", []any{"{w}q", "b"}, map[string][]string{"{w}q": {"a"}}},
			{[]any{"blmpop", 0, 3, "{w}more", "{w}q", "{w}other", "right", "count", 2}, "{w}other", []any{"{w}other", []any{"b", "a"}}, nil},
			{[]any{"blmove", "{w}other", "{w}q", "left", "right", 0}, "{w}other", "a", map[string][]string{"{w}other": {"b"}, "{w}q": {"a"}}},
			{[]any{"brpoplpush", "{w}other", "{w}q", 0}, "{w}other", "b", map[string][]string{"{w}other": {"a"}, "{w}q": {"b"}}},
		} {
			got := make(chan *redis.Cmd, 1)
			go func() { got <- rdb.Do(ctx, wait.words...) }()
			require.Eventually(t, func() bool { return isBlocked(t, plain, "blpop") }, 10*time.Second, time.Millisecond, "%v", wait.words)
			require.Eventually(t, func() bool { return isBlocked(t, plain, "blmove") }, 10*time.Second, time.Millisecond, "%v: the end of a BLPOP is not what wakes it", wait.words)
			pushed := time.Now()
			require.NoError(t, plain.RPush(ctx, wait.pushTo, "a", "b").Err())
			if wait.pushTo == "{w}q" {
				require.NoError(t, rdb.LLen(ctx, "{w}q").Err()) // which takes in what a process without the hook has pushed
			}
			cmd := <-got
			require.NoError(t, cmd.Err(), "%v", wait.words)
			assert.Equal(t, wait.want, cmd.Val(), "%v", wait.words)
			assert.Less(t, time.Since(pushed), 10*time.Second)
			for key, want := range wait.left {
				assert.Equal(t, want, rdb.LRange(ctx, key, 0, -1).Val(), "%v: %s", wait.words, key)
			}
			require.NoError(t, rdb.Del(ctx, "{w}q").Err())
			require.NoError(t, rdb.Del(ctx, "{w}other").Err())
		}
		// Nobody waits any more, and nothing of the list that does not match is stored elsewhere.
		canceled, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, rdb.BLPop(canceled, 0, "{w}other", "{w}q").Err(), context.DeadlineExceeded)
		assert.Zero(t, plain.Exists(ctx, "{w}other:meta").Val())
		require.NoError(t, rdb.RPush(ctx, "{w}other", "stays").Err())
		require.Eventually(t, func() bool { return !isBlocked(t, plain, "blmove") }, 10*time.Second, 10*time.Millisecond)
		assert.Equal(t, []string{"stays"}, plain.LRange(ctx, "{w}other", 0, -1).Val())
	})
}

// isBlocked tells whether a client is blocked in that command, on the node that has these lists.
func isBlocked(t *testing.T, rdb redis.UniversalClient, name string) bool {
	node, single := rdb.(*redis.Client)
	if !single {
		var err error
		node, err = rdb.(*redis.ClusterClient).MasterForKey(t.Context(), "{w}q")
		require.NoError(t, err)
	}
	clients, err := node.ClientList(t.Context()).Result()
	require.NoError(t, err)
	return regexp.MustCompile(` flags=b .* cmd=` + name + ` `).MatchString(clients)
}
