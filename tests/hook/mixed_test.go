package hook

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
				command = []any{pick("brpoplpush"), pick("q1", "q2"), to, "0.01"}
			case 7:
				command = []any{"blmove", pick("q1", "q2"), to, pick(ends...), pick(ends...), "0.01"}
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
				if rng.IntN(2) == 0 && command[0] != "brpoplpush" && command[0] != "blmove" || i%5 == 0 {
					cmds, failure := client.TxPipelined(ctx, func(p redis.Pipeliner) error {
						p.Do(ctx, words...)
						return nil
					})
					reply, err = cmds[0].(*redis.Cmd).Val(), failure
				} else {
					reply, err = client.Do(ctx, words...).Result()
				}
				if array, ok := reply.([]any); ok && command[0] == "lmpop" {
					reply = array[1]
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
			"it waits for the other": {"blmove", "{w}processing", "{w}q", "left", "left", 1},
			"it waits for both":      {"blpop", "{w}processing", "{w}q", 1},
			"another type":           {"lmove", "{w}q", "{w}text", "left", "left"},
			"a shard":                {"lmove", "{w}q", "{w}q:#0d8a54a2c111.7:0", "left", "left"},
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
