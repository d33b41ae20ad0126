package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/layout"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ownKey is a key of the user's in the slot of the list.
func ownKey(list *shardedlist.ShardedList, name string) string {
	return "{" + script.HashTag(harness.Keys(list).Meta) + "}of the user:" + name
}

// asPlain gives a source the functions that it has in a script on a list, on the plain list that is its last key.
const asPlain = `local LIST = table.remove(KEYS)
local function lpush(...) return redis.call('LPUSH', LIST, ...) end
local function rpush(...) return redis.call('RPUSH', LIST, ...) end
`

// mixed pushes as its arguments say, 'L' or 'R' and how many values, counts what it does in its key, and replies with all lengths.
const mixed = `local lengths, at = {}, 1
while ARGV[at] do
  local values, count = {}, tonumber(ARGV[at + 1])
  for i = 1, count do
    values[i] = i % 3 == 0 and i / 2 or ARGV[at] .. i .. ' of ' .. redis.call('INCR', KEYS[1])
  end
  local push = ARGV[at] == 'L' and lpush or rpush
  lengths[#lengths + 1] = push(unpack(values))
  at = at + 2
end
return lengths`

// A script does on a list what it does on a plain one, beside pops and pushes of others.
func TestAScriptPushesAsOnAPlainList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		script := shardedlist.NewScript(mixed)
		for seed := range uint64(25) {
			random := rand.New(rand.NewPCG(seed, 1))
			rdb, options := server.Client(t), []shardedlist.Option{shardedlist.WithCapacity(1 + random.IntN(5))}
			switch seed % 3 {
			case 1:
				options = append(options, shardedlist.WithCapacity(1))
			case 2:
				options = append(options, shardedlist.WithoutExactlyOnce())
			}
			list := harness.NewList(t, rdb, options...)
			plain := ownKey(list, "plain")
			for range 12 {
				switch random.IntN(4) {
				case 0:
					values, err := list.LPopCount(t.Context(), 6)
					require.NoError(t, harness.IgnoreNil(err))
					want := rdb.LPopCount(t.Context(), plain, 6)
					assert.Equal(t, len(want.Val()), len(values))
					if len(values) > 0 {
						assert.Equal(t, want.Val(), values)
					}
				case 1:
					length, err := list.LPush(t.Context(), seed)
					require.NoError(t, err)
					assert.Equal(t, rdb.LPush(t.Context(), plain, seed).Val(), length)
				default:
					var args []any
					for range 1 + random.IntN(3) {
						args = append(args, []string{"L", "R"}[random.IntN(2)], 1+random.IntN(12))
					}
					want, err := rdb.Eval(t.Context(), asPlain+mixed, []string{ownKey(list, "a"), plain}, args...).Result()
					require.NoError(t, err)
					got, err := script.Run(t.Context(), list, []string{ownKey(list, "b")}, args...).Result()
					require.NoError(t, err)
					assert.Equal(t, want, got)
				}
				require.Equal(t, rdb.LRange(t.Context(), plain, 0, -1).Val(), harness.Content(t, list), "seed %d", seed)
			}
			require.NoError(t, list.Check(t.Context()))
		}
	})
}

// Many values, in pieces that Lua can unpack, and a list that a full shard is carved from.
func TestAScriptPushesManyValues(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t, harness.Patient)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(64))
		require.NoError(t, rdb.RPush(t.Context(), list.Name(), harness.Numbers(0, 5000)...).Err())
		length, err := shardedlist.NewScript(`local length
			for i = 1, 20 do
				local values = {}
				for j = 1, 1500 do values[j] = i .. ' ' .. j end
				length = rpush(unpack(values))
			end
			return length`).Run(t.Context(), list, nil).Int64()
		require.NoError(t, err)
		assert.EqualValues(t, 35000, length)
		all := harness.Content(t, list)
		require.Len(t, all, 35000)
		assert.Equal(t, []string{"0", "4999", "1 1", "20 1500"}, []string{all[0], all[4999], all[5000], all[34999]})
	})
}

func TestAScriptWakesConsumers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		other := harness.OpenList(t, server.Client(t), list.Name())
		first, second := harness.BlockingPop(t, list, t.Context(), 0), harness.BlockingPop(t, other, t.Context(), 0)
		harness.Asleep(t, list)
		harness.Asleep(t, other)
		start := time.Now()
		require.NoError(t, shardedlist.NewScript("rpush('a') return lpush('b', 'c')").Run(t.Context(), list, nil).Err())
		got := []string{(<-first).Value, (<-second).Value}
		assert.ElementsMatch(t, []string{"c", "b"}, got)
		assert.Less(t, time.Since(start), 10*time.Second)
		assert.Equal(t, []string{"a"}, harness.Content(t, list))
	})
}

// A reply is lost, and the script is sent again: it has run once, and the reply is that of the first run, also if that is an error.
func TestAScriptWhoseReplyIsLostRunsOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for _, tt := range []struct{ source, want, err string }{
			{"return redis.call('INCR', KEYS[1]) + rpush('a')", "2", ""},
			{"redis.call('INCR', KEYS[1]) rpush('a') return redis.call('TIME')[2] and 'x' .. string.char(0, 255, 10)", "x\x00\xff\n", ""},
			{"redis.call('INCR', KEYS[1]) rpush('a')", "<nil>", "redis: nil"},
			{"redis.call('INCR', KEYS[1]) rpush('a') return redis.error_reply('SOLD out')", "<nil>", "SOLD out"},
			{"rpush('a') redis.call('INCR', KEYS[1]) error('behind the push')", "<nil>", "behind the push"},
			{"rpush('a') redis.call('INCR', KEYS[1]) redis.call('LPUSH', KEYS[1], 'x')", "<nil>", "WRONGTYPE"},
			{"redis.call('INCR', KEYS[1]) return {rpush('a'), 'ok', {ok='FINE'}}", "[1 ok FINE]", ""},
		} {
			rdb := server.Client(t)
			list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
			lost, sent := false, 0
			hook := &harness.Scripts{}
			hook.Set(func(_ string, send func() error) error {
				sent++
				err := send()
				if redis.HasErrorPrefix(err, "NOSCRIPT") || lost {
					return err
				}
				lost = true
				return io.EOF
			})
			rdb.AddHook(hook)
			cmd := shardedlist.NewScript(tt.source).Run(t.Context(), list, []string{ownKey(list, "n")})
			hook.Set(nil)
			require.True(t, lost, "the fault has struck")
			assert.GreaterOrEqual(t, sent, 2, tt.source)
			assert.Equal(t, tt.want, fmt.Sprint(cmd.Val()), tt.source)
			if tt.err == "" {
				assert.NoError(t, cmd.Err(), tt.source)
			} else {
				assert.ErrorContains(t, cmd.Err(), tt.err, tt.source)
			}
			assert.Equal(t, "1", rdb.Get(t.Context(), ownKey(list, "n")).Val(), tt.source)
			assert.Equal(t, []string{"a"}, harness.Content(t, list), tt.source)
			require.NoError(t, list.Check(t.Context()))
		}
	})
}

// buildReply makes a value of the bytes of ARGV[1], and leaves as much as Lua can.
const buildReply = `local tape, at = ARGV[1], 0
local function byte() at = at + 1 return string.byte(tape, at) or 0 end
local function build(depth)
  local kind = byte() % 10
  if kind == 0 then return nil
  elseif kind == 1 then return false
  elseif kind == 2 then return true
  elseif kind == 3 then return byte() - 128
  elseif kind == 4 then return (byte() - 100) / 7
  elseif kind == 5 then return ({1/0, -1/0, 2^53, -2^63, 1e300, 2^62, 0.1})[byte() % 7 + 1]
  elseif kind == 6 then local from = at + 2 at = from + byte() % 32 return string.sub(tape, from, at)
  elseif kind == 7 then return {ok = 'S' .. string.gsub(string.sub(tape, at + 1, at + 9), '%c', '')}
  elseif kind == 8 and depth > 1 then return {err = 'CODE ' .. byte()}
  end
  local t = {}
  if depth < 30 then
    for i = 1, byte() % 6 do t[i] = build(depth + 1) end
    if byte() % 4 == 0 then t.more = build(depth + 1) end
    if byte() % 4 == 0 then t[9] = build(depth + 1) end
  end
  return t
end
return build(1)`

// replayed checks that a repetition of a script replies as its first run.
func replayed(t testing.TB, list *shardedlist.ShardedList, tape []byte) {
	t.Helper()
	source := script.LoadAround("script", buildReply)
	op, err := harness.OneSlot(list).Script(t.Context(), layout.Script{Script: source, Args: []any{string(tape)}, Creates: true})
	require.NoError(t, err)
	s := harness.OneSlot(list).Sessions().New()
	s.Begin()
	first := s.Do(t.Context(), script.Deadline(t.Context()), harness.Bare(op))
	require.NoError(t, first.Err)
	again := s.Do(t.Context(), script.Deadline(t.Context()), harness.Bare(op))
	require.NoError(t, again.Err)
	require.Equal(t, first.Reply, again.Reply)
	plain, plainErr := harness.Client(list).Eval(t.Context(), buildReply, []string{harness.Keys(list).Meta}, string(tape)).Result()
	got, err := oneReply(first.Reply)
	assert.Equal(t, plain, got, "as without the library")
	assert.Equal(t, fmt.Sprint(plainErr), fmt.Sprint(err))
}

// oneReply is the reply of EVAL that the array of script.lua stands for.
func oneReply(reply any) (any, error) {
	parts := reply.([]any)
	switch {
	case len(parts) > 1:
		return nil, errors.New(parts[0].(string))
	case parts[0] == nil:
		return nil, redis.Nil
	}
	return parts[0], nil
}

func TestAnyReplyIsReplayed(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Embedded, redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			list := harness.NewList(t, redistest.Shared(t, kind).Client(t))
			random := rand.New(rand.NewPCG(1, 2))
			for range redistest.Times(60, 300) {
				tape := make([]byte, random.IntN(60))
				for i := range tape {
					tape[i] = byte(random.IntN(256))
				}
				replayed(t, list, tape)
			}
		})
	}
}

// A record in meta, as that of a session which has met a slot that moves.
func TestAScriptWithItsRecordInMeta(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(2))
		runner := script.Runner{Client: harness.Client(list)}
		run := func(session, source string) (any, error) {
			call := script.NewCall(script.LoadAround("script", source), []any{harness.Keys(list).Meta, ownKey(list, "n")}, 4)
			call.Args = append(call.Args, session, 1, time.Minute.Milliseconds(), 2)
			return runner.Run(t.Context(), call)
		}
		for session, source := range map[string]string{
			"@a": "redis.call('INCR', KEYS[1]) return {rpush('!', '@'), '@!=:', {err = 'NO'}}",
			"@b": "redis.call('INCR', KEYS[1]) error('@')",
			"@c": "redis.call('INCR', KEYS[1]) return",
		} {
			first, err := run(session, source)
			require.NoError(t, err)
			again, err := run(session, source)
			require.NoError(t, err)
			assert.Equal(t, first, again, source)
		}
		assert.Equal(t, "3", harness.Client(list).Get(t.Context(), ownKey(list, "n")).Val())
		assert.Equal(t, []string{"!", "@"}, harness.Content(t, list))
		require.NoError(t, list.Check(t.Context()))
	})
}

func FuzzReplies(f *testing.F) {
	for _, tape := range []string{"", "\x06\x03abc", "\x09\x05\x01\x02\x03\x99\x05\x00\x07!@\x08", "\x09\x02\x08\x09\x01\x00\x00\x00", "\x06\x1f!=@:;s1:\x00\xff"} {
		f.Add([]byte(tape))
	}
	list := harness.NewList(f, redistest.Fastest(f).Client(f))
	f.Fuzz(func(t *testing.T, tape []byte) { replayed(t, list, tape) })
}

// Whatever a script ends with, the reply is that of EVAL.
func TestRepliesOfScripts(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb)
		run := func(source string, args ...any) *redis.Cmd {
			return shardedlist.NewScript(source).Run(t.Context(), list, []string{ownKey(list, "k")}, args...)
		}
		for source, want := range map[string]any{
			"return 3.99":                        int64(3),
			"return -3.99":                       int64(-3),
			"return true":                        int64(1),
			"return {1, 2, nil, 4}":              []any{int64(1), int64(2)},
			"return {1, false, {'x'}}":           []any{int64(1), nil, []any{"x"}},
			"return {ok = 'FINE'}":               "FINE",
			"return KEYS[1] .. #KEYS":            ownKey(list, "k") + "1",
			"return ARGV":                        []any{"a", "2.5", "\x00\xff", "1"},
			"return redis.call('TYPE', KEYS[1])": "none",
			"local t = {} for i = 1, 3 do t[i] = i end return #t -- a comment": int64(3),
		} {
			got, err := run(source, "a", 2.5, []byte{0, 255}, true).Result()
			require.NoError(t, err, source)
			assert.Equal(t, want, got, source)
		}
		for _, source := range []string{"", "return", "return nil", "return false", "return KEYS.plain", "return KEYS.source", "return ARGV[1]"} {
			assert.Equal(t, redis.Nil, run(source).Err(), source)
		}
		number, err := run("return rpush(ARGV[1])", []string{"a lone slice is spread"}).Int()
		require.NoError(t, err)
		assert.Equal(t, 1, number)
		assert.Equal(t, []string{"a lone slice is spread"}, harness.Content(t, list))

		for source, want := range map[string]string{
			"return redis.error_reply('SOLDOUT no more')":  "SOLDOUT no more",
			"return redis.error_reply('OOM it says')":      "OOM it says", // go-redis has types for these
			"return redis.error_reply('NOPERM it says')":   "NOPERM it says",
			"return redis.error_reply('TRYAGAIN it says')": "TRYAGAIN it says",
			"error({err = 'READONLY it says'})":            "READONLY it says",
			"error('boom')":                                "boom",
			"error({err = 'CODE of a table'})":             "CODE of a table",
			"error({})":                                    "ERR the script has raised a table",
			"local t = {} t[1] = t return t":               "ERR the reply is nested too deeply",
			"return rpush()":                               "wrong number of arguments",
			"return rpush('a', nil, 'b')":                  "must be a string or a number",
			"return lpush({})":                             "must be a string or a number",
			"return redis.call('NOSUCHCOMMAND')":           "nknown",
			"return {META, PREFIX, open, ring}":            "", // names of the library
			"a = 1":                                        "", // a global variable
			"return redis.call('HSET', KEYS[1], 'a')":      "",
			"redis.call('SET', KEYS[1], 1) return redis.call('LPUSH', KEYS[1], 2)": "WRONGTYPE",
		} {
			err := run(source).Err()
			require.ErrorIs(t, err, shardedlist.ErrScript, source)
			assert.ErrorContains(t, err, want, source)
			assert.NotErrorIs(t, err, shardedlist.ErrWrongType, "no key of the list")
			assert.True(t, redis.HasErrorPrefix(err, ""), "the server's reply is in the chain")
		}
		assert.Len(t, harness.Content(t, list), 1, "nothing was pushed")

		for _, source := range []string{"local x = = 3", "return 1 end", "if true then return 1", "return 'a"} {
			err := run(source).Err()
			require.ErrorContains(t, err, "the source does not compile", source)
			assert.NotErrorIs(t, err, shardedlist.ErrScript)
			assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
		}
		if server.Kind() == redistest.Redis { // the embedded one cannot reply a function, and has other words
			assert.Equal(t, []any{nil, "x"}, run("return {pcall, 'x'}").Val())
			assert.ErrorContains(t, run("return 1\n+ nil").Err(), "user_script:")
			assert.ErrorContains(t, run("\n\nlocal x = = 3").Err(), "user_script:3:", "the line in the source")
			assert.ErrorContains(t, run("\nerror('x')").Err(), "user_script:2: x")
		}
		assert.Len(t, harness.Content(t, list), 1)
	})
}

// A source may use as many locals as Lua has, and names of the library.
func TestASourceHasTheNamesForItself(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t))
		var source strings.Builder
		for _, name := range []string{"META", "PREFIX", "open", "list", "ring", "push", "pushed", "ok", "reply", "redis_"} {
			fmt.Fprintf(&source, "local %s = 'mine'\n", name)
		}
		for i := range 180 {
			fmt.Fprintf(&source, "local v%d = %d\n", i, i)
		}
		source.WriteString("local function f() return v0")
		for i := range 50 {
			fmt.Fprintf(&source, " + v%d", i)
		}
		source.WriteString(" end\nreturn f() + v179 + rpush('a')")
		number, err := shardedlist.NewScript(source.String()).Run(t.Context(), list, nil).Int()
		require.NoError(t, err)
		assert.Equal(t, 49*25+179+1, number)
	})
}

// The protocol that a source chooses is not that of the library.
func TestASourceThatSpeaksRESP3(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			list := harness.NewList(t, redistest.Shared(t, kind).Client(t), shardedlist.WithCapacity(2))
			script := shardedlist.NewScript(`redis.setresp(3) rpush(1, 2, 3) redis.setresp(3) return {true, rpush(4), redis.call('TYPE', KEYS[1])}`)
			for i := range 3 {
				got, err := script.Run(t.Context(), list, []string{ownKey(list, "k")}).Result()
				require.NoError(t, err)
				assert.Equal(t, []any{int64(1), int64(4 * (i + 1)), "none"}, got)
			}
			kind := shardedlist.NewScript(`redis.call('HSET', KEYS[1], 'a', 1) redis.setresp(3) rpush(1) return type(redis.call('HGETALL', KEYS[1]).map)`)
			assert.Equal(t, "nil", kind.Run(t.Context(), list, []string{ownKey(list, "k")}).Val(), "an array, as in RESP2")
			assert.EqualValues(t, 1, shardedlist.NewScript("redis.setresp(3) return true").Run(t.Context(), list, nil).Val())
		})
	}
}

// Over maxmemory, a push fails with nothing changed, and a source may handle that.
func TestAScriptWhenMemoryIsFull(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		for name, options := range map[string][]shardedlist.Option{"once": nil, "without exactly once": {shardedlist.WithoutExactlyOnce()}} {
			t.Run(string(kind)+"/"+name, func(t *testing.T) {
				t.Parallel()
				rdb := redistest.Start(t, kind, "maxmemory-policy noeviction").Client(t).(*redis.Client)
				list := harness.NewList(t, rdb, append(options, shardedlist.WithCapacity(2))...)
				run := func(source string) *redis.Cmd {
					return shardedlist.NewScript(source).Run(t.Context(), list, []string{ownKey(list, "k"), ownKey(list, "l")})
				}
				require.NoError(t, run("redis.call('SET', KEYS[1], 1) redis.call('SET', KEYS[2], 1) return rpush('a', 'b', 'c')").Err())
				full := func(is bool) {
					require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", map[bool]string{true: "1", false: "0"}[is]).Err())
				}
				full(true)
				for _, source := range []string{"rpush('x') redis.call('INCR', KEYS[1])", "return lpush(1, 2, 3, 4, 5)", "redis.call('INCR', KEYS[1]) rpush('x')"} {
					err := run(source).Err()
					require.ErrorContains(t, err, "OOM", source)
					assert.NotErrorIs(t, err, shardedlist.ErrScript, "nothing has changed")
				}
				assert.Equal(t, "1", rdb.Get(t.Context(), ownKey(list, "k")).Val())
				assert.Equal(t, []string{"a", "b", "c"}, harness.Content(t, list))

				text, err := run("return redis.call('GET', KEYS[1]) .. ' read'").Text()
				require.NoError(t, err)
				assert.Equal(t, "1 read", text)
				text, err = run("local ok, err = pcall(rpush, 'x', 'y') return ok and 'pushed' or 'full'").Text()
				require.NoError(t, err)
				assert.Equal(t, "full", text)
				// Once a script has freed something, Redis lets it write. The list is as it was before the push that failed.
				length, err := run("local ok = pcall(rpush, 1, 2, 3, 4) redis.call('DEL', KEYS[2]) return rpush('d')").Int()
				require.NoError(t, err)
				assert.Equal(t, 4, length)
				// Newcomers are taken in by what OOM allows, but not on behalf of a push.
				mixed := harness.OpenList(t, rdb, harness.UniqueName(t), append(options, shardedlist.WithCapacity(2))...)
				full(false)
				require.NoError(t, harness.ErrorOf(mixed.RPush(t.Context(), "a", "b", "c")))
				require.NoError(t, rdb.RPush(t.Context(), mixed.Name(), "newcomer").Err())
				full(true)
				assert.ErrorContains(t, shardedlist.NewScript("return rpush('x')").Run(t.Context(), mixed, nil).Err(), "OOM")
				assert.EqualValues(t, 1, rdb.LLen(t.Context(), mixed.Name()).Val())
				full(false)
				require.NoError(t, list.Check(t.Context()))
				assert.Equal(t, []string{"a", "b", "c", "d"}, harness.Content(t, list))
			})
		}
	}
}

// Whatever is wrong with the list is found before the source runs.
func TestASourceDoesNotRunIfAPushWouldFail(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		shard := func(id int64) func(*shardedlist.ShardedList) string {
			return func(list *shardedlist.ShardedList) string { return harness.Shard(list, context.Background(), id) }
		}
		both := shardedlist.NewScript("redis.call('INCR', KEYS[1]) lpush('x') return rpush('x')")
		for name, key := range map[string]func(*shardedlist.ShardedList) string{
			"meta": func(list *shardedlist.ShardedList) string { return harness.Keys(list).Meta },
			"bell": func(list *shardedlist.ShardedList) string { return harness.Keys(list).Bell },
			"left": shard(-2), "next left": shard(-3), "right": shard(0), "next right": shard(1),
		} {
			list, err := shardedlist.New(rdb, harness.UniqueName(t), shardedlist.WithCapacity(2))
			require.NoError(t, err)
			if name == "bell" {
				harness.Arm(t, list)
			} else {
				require.NoError(t, harness.ErrorOf(list.LPush(t.Context(), "a", "b", "c", "d")))
				require.NoError(t, harness.ErrorOf(list.RPush(t.Context(), "e", "f")))
				require.Equal(t, []string{"-2", "0"}, []string{harness.Pointer(list, t.Context(), harness.FirstID), harness.Pointer(list, t.Context(), harness.LastID)})
			}
			foreign, want := key(list), shardedlist.ErrWrongType
			require.NoError(t, rdb.Set(t.Context(), foreign, "foreign", 0).Err())
			for range 2 {
				err := both.Run(t.Context(), list, []string{ownKey(list, "n")}).Err()
				require.ErrorIs(t, err, want, name)
				assert.NotErrorIs(t, err, shardedlist.ErrScript, name)
				if strings.HasPrefix(name, "next") || name == "bell" || name == "meta" {
					break
				}
				require.NoError(t, rdb.Del(t.Context(), foreign).Err())
				want = shardedlist.ErrBroken
			}
			assert.Zero(t, rdb.Exists(t.Context(), ownKey(list, "n")).Val(), name)
		}
	})
}

// What else a push does: it creates a list of the server's capacity, decides the end that newcomers join, splits a long shard, and goes
// on with an interrupted Del.
func TestAScriptDoesAllThatAPushDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, "list-max-listpack-size 100")
	rdb, push := server.Client(t, harness.Patient), shardedlist.NewScript("return lpush(unpack(ARGV))")
	list := harness.NewList(t, rdb)
	require.NoError(t, push.Run(t.Context(), list, nil, harness.Numbers(0, 101)...).Err())
	info, err := list.Info(t.Context())
	require.NoError(t, err)
	assert.EqualValues(t, 100, info.Capacity)

	plain := harness.NewList(t, rdb, shardedlist.WithCapacity(1))
	require.NoError(t, push.Run(t.Context(), plain, nil, "a", "b").Err())
	assert.True(t, harness.NewcomersJoinLeft(plain, t.Context()))

	long := harness.NewList(t, rdb, shardedlist.WithCapacity(64))
	require.NoError(t, rdb.RPush(t.Context(), long.Name(), harness.Numbers(0, 5000)...).Err())
	require.NoError(t, harness.ErrorOf(long.RPush(t.Context(), "makes a second shard")))
	for range 20 { // each of which moves a bounded number of elements
		require.Equal(t, redis.Nil, shardedlist.NewScript("for i = 1, 100 do lpush(i) end").Run(t.Context(), long, nil).Err())
	}
	info, err = long.Info(t.Context())
	require.NoError(t, err)
	assert.Less(t, info.Unsplit, int64(1000))

	require.NoError(t, harness.ErrorOf(list.RPush(t.Context(), harness.Numbers(0, 1000)...)))
	_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
	require.NoError(t, err)
	require.NoError(t, harness.ErrorOf(list.RPush(t.Context(), harness.Numbers(0, 5000)...)))
	_, err = harness.Bare(harness.OneSlot(list).Delete()).Run(t.Context())
	require.NoError(t, err)
	for unswept := int64(1); unswept > 0; {
		require.NoError(t, push.Run(t.Context(), list, nil, "a").Err())
		info, err = list.Info(t.Context())
		require.NoError(t, err)
		require.True(t, unswept == 1 || info.Unswept < unswept, "it goes on")
		unswept = info.Unswept
	}
}

// A source that writes first, and pushes then, is not half done by a move of the slot.
func TestAScriptIsNotHalfDoneWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewList(t, server.Client(t, func(o *redis.UniversalOptions) { o.MaxRedirects = 1 }), shardedlist.WithCapacity(2))
	both := shardedlist.NewScript("redis.call('INCR', KEYS[1]) redis.call('SADD', KEYS[2], KEYS[1]) redis.call('DEL', KEYS[2]) return {rpush(1, 2, 3, 4, 5), lpush(6, 7)}")
	keys := []string{ownKey(list, "n"), ownKey(list, "s")}
	done, refused := 0, 0
	run := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		return both.Run(ctx, list, keys).Err()
	}
	for range 4 {
		require.NoError(t, run(time.Minute))
		done++
	}
	slot := harness.Keys(list).Slot()
	for range 3 {
		home, err := server.SlotOwner(t.Context(), slot)
		require.NoError(t, err)
		require.NoError(t, server.MoveSlot(t.Context(), slot, (home+1)%3, func(moved int) {
			err := run(20 * time.Millisecond)
			if err == nil {
				done++
				return
			}
			refused++
			assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
			assert.NotErrorIs(t, err, shardedlist.ErrScript)
		}))
		require.NoError(t, run(time.Minute))
		done++
		assert.Equal(t, fmt.Sprint(done), harness.Client(list).Get(t.Context(), keys[0]).Val())
		assert.Len(t, harness.Content(t, list), 7*done)
		require.NoError(t, list.Check(t.Context()))
	}
	assert.Greater(t, refused, 10)
}

// A slot that is stuck in a move keeps scripts from running, and the error says what to do.
func TestAScriptWhileASlotIsStuckInAMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(1))
	script := shardedlist.NewScript("redis.call('INCR', KEYS[1]) return rpush('a')")
	keys := []string{ownKey(list, "n")}
	require.NoError(t, harness.ErrorOf(list.RPush(t.Context(), "a")))
	require.NoError(t, script.Run(t.Context(), list, keys).Err())
	harness.Interrupted(t, server, list, func() {
		for patience := 50 * time.Millisecond; ; patience *= 2 { // a deadline may cut an attempt short
			require.Less(t, patience, time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := script.Run(ctx, list, keys).Err()
			cancel()
			require.Error(t, err)
			assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
			if strings.Contains(err.Error(), "the cluster slot of the list is moving") {
				break
			}
		}
		assert.Equal(t, []string{"a", "a"}, harness.Content(t, list))
	})
	require.NoError(t, script.Run(t.Context(), list, keys).Err())
	assert.Equal(t, "2", harness.Client(list).Get(t.Context(), keys[0]).Val())
	assert.Equal(t, []string{"a", "a", "a"}, harness.Content(t, list))
}

// The same on a list that is a plain one, all of whose keys are on this node: a key of the source that goes could not come back.
func TestASourceDoesNotRunWhileASlotIsStuckInAMove(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Cluster)
	list := harness.NewList(t, server.Client(t))
	require.NoError(t, harness.ErrorOf(list.RPush(t.Context(), "a")))
	require.NoError(t, list.Restore(t.Context(), nil))
	script := shardedlist.NewScript("redis.call('INCR', KEYS[1]) redis.call('DEL', KEYS[2]) redis.call('SADD', KEYS[2], 'x') return rpush('a')")
	keys := []string{ownKey(list, "n"), ownKey(list, "s")}
	require.NoError(t, script.Run(t.Context(), list, keys).Err())
	harness.Interrupted(t, server, list, func() {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := script.Run(ctx, list, keys).Err()
		assert.Error(t, err)
		assert.NotErrorIs(t, err, shardedlist.ErrScript)
	})
	require.NoError(t, script.Run(t.Context(), list, keys).Err())
	assert.Equal(t, "2", harness.Client(list).Get(t.Context(), keys[0]).Val())
	assert.Equal(t, []string{"a", "a", "a"}, harness.Content(t, list))
}

// What a script on a list cannot have is told before anything is sent.
func TestKeysOfAScript(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb)
		sent := &harness.Scripts{}
		sent.Set(func(_ string, send func() error) error { return send() })
		rdb.AddHook(sent)
		script := shardedlist.NewScript("return redis.call('SET', KEYS[1], 1)")
		run := func(key string) error { return script.Run(t.Context(), list, []string{key}).Err() }
		for _, key := range []string{harness.Keys(list).Meta, harness.Keys(list).Bell, harness.Keys(list).Prefix + "#0123456789ab.1:0", harness.Keys(list).Records() + "5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111"} {
			assert.ErrorIs(t, run(key), shardedlist.ErrOwnKey, key)
		}
		assert.ErrorIs(t, script.Run(t.Context(), nil, nil).Err(), shardedlist.ErrNilList)
		assert.ErrorIs(t, script.Run(t.Context(), list, nil, struct{}{}, 1).Err(), shardedlist.ErrValue)
		if server.Kind() == redistest.Cluster {
			err := run("elsewhere")
			assert.ErrorContains(t, err, "CROSSSLOT")
			assert.ErrorContains(t, err, `key "elsewhere" must have the hash tag of the list, as "{`)
		}
		assert.Zero(t, sent.Count(""), "nothing was sent")
		for _, key := range []string{ownKey(list, "x"), harness.Keys(list).Prefix + "x", list.Name()} {
			assert.NoError(t, run(key), key)
		}
		require.NoError(t, rdb.Del(t.Context(), list.Name()).Err())
	})
}

func TestAScriptOnAListOverManySlots(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		spread := harness.NewList(t, rdb, shardedlist.WithParts(8), shardedlist.WithCapacity(2))
		one := harness.OpenList(t, rdb, spread.Name())
		script := shardedlist.NewScript("redis.call('INCR', KEYS[1]) return rpush('x')")
		keys := []string{ownKey(one, "n")}
		assert.ErrorIs(t, script.Run(t.Context(), spread, keys).Err(), shardedlist.ErrSpread, "it would make the list in one slot")
		assert.Empty(t, harness.Content(t, spread))
		_, err := spread.RPush(t.Context(), harness.Numbers(0, 5)...)
		require.NoError(t, err)
		for _, list := range []*shardedlist.ShardedList{spread, one} {
			err := script.Run(t.Context(), list, keys).Err()
			assert.ErrorIs(t, err, shardedlist.ErrSpread)
			assert.NotErrorIs(t, err, shardedlist.ErrScript)
		}
		assert.Equal(t, harness.Words(harness.Numbers(0, 5)), harness.Content(t, spread))
		assert.Zero(t, rdb.Exists(t.Context(), keys[0]).Val())

		exists := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		_, err = exists.RPush(t.Context(), "a")
		require.NoError(t, err)
		length, err := shardedlist.NewScript("return lpush(1, 2, 3)").Run(t.Context(), harness.OpenList(t, rdb, exists.Name(), shardedlist.WithParts(8)), nil).Int()
		require.NoError(t, err, "an existing list keeps its layout")
		assert.Equal(t, 4, length)
	})
}

func TestAScriptBesideAPlainList(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb := server.Client(t)
		list := harness.NewList(t, rdb, shardedlist.WithCapacity(2))
		script := shardedlist.NewScript("redis.call('INCR', KEYS[1]) return {rpush('x'), lpush('y')}")
		keys := []string{ownKey(list, "n")}
		require.NoError(t, rdb.RPush(t.Context(), list.Name(), 1, 2, 3).Err())
		lengths, err := script.Run(t.Context(), list, keys).Int64Slice()
		require.NoError(t, err)
		assert.Equal(t, []int64{4, 5}, lengths)
		require.NoError(t, rdb.RPush(t.Context(), list.Name(), 4).Err()) // a newcomer
		lengths, err = script.Run(t.Context(), list, keys).Int64Slice()
		require.NoError(t, err)
		assert.Equal(t, []int64{7, 8}, lengths)
		assert.Equal(t, []string{"y", "y", "1", "2", "3", "x", "4", "x"}, harness.Content(t, list))
		assert.Equal(t, "2", rdb.Get(t.Context(), keys[0]).Val())

		// What the source itself pushes to the plain key is a newcomer of the next push.
		lengths, err = shardedlist.NewScript("redis.call('RPUSH', KEYS[1], 'p') return {rpush('q'), rpush('r')}").
			Run(t.Context(), list, []string{list.Name()}).Int64Slice()
		require.NoError(t, err)
		assert.Equal(t, []int64{10, 11}, lengths)
		assert.Equal(t, []string{"p", "q", "r"}, harness.Content(t, list)[8:])
	})
}

func TestAScriptWaitsForReplicas(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		list := harness.NewList(t, server.Client(t), shardedlist.WithReplicas(1, time.Millisecond))
		cmd := shardedlist.NewScript("return rpush('a')").Run(t.Context(), list, nil)
		assert.ErrorIs(t, cmd.Err(), shardedlist.ErrNotReplicated)
		assert.EqualValues(t, 1, cmd.Val())
		cmd = shardedlist.NewScript("return false").Run(t.Context(), list, nil)
		assert.Nil(t, cmd.Val())
		assert.ErrorIs(t, cmd.Err(), shardedlist.ErrNotReplicated)
		err := shardedlist.NewScript("return redis.error_reply('NO')").Run(t.Context(), list, nil).Err()
		assert.ErrorIs(t, err, shardedlist.ErrScript)
	})
}

// A script that is given up is not overtaken, at either end, and does not overtake a push that is.
func TestAScriptKeepsTheOrderOfPushes(t *testing.T) {
	t.Parallel()
	type add func(ctx context.Context, list *shardedlist.ShardedList, value string) error
	pushes := shardedlist.NewScript("return rpush(ARGV[1])")
	runs := func(ctx context.Context, list *shardedlist.ShardedList, value string) error {
		return pushes.Run(ctx, list, nil, value).Err()
	}
	left := func(ctx context.Context, list *shardedlist.ShardedList, value string) error {
		return harness.ErrorOf(list.LPush(ctx, value))
	}
	right := func(ctx context.Context, list *shardedlist.ShardedList, value string) error {
		return harness.ErrorOf(list.RPush(ctx, value))
	}
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, pair := range map[string][2]add{
			"script, script": {runs, runs}, "script, LPush": {runs, left}, "script, RPush": {runs, right},
			"LPush, script": {left, runs}, "RPush, script": {right, runs},
		} {
			rdb, hook := server.Client(t), &harness.Scripts{}
			rdb.AddHook(hook)
			list := harness.NewList(t, rdb)
			ctx, cancel := context.WithCancel(t.Context())
			hook.Set(func(string, func() error) error {
				cancel()
				return io.EOF
			})
			require.ErrorIs(t, pair[0](ctx, list, "first"), shardedlist.ErrOutcomeUnknown, name)
			require.True(t, hook.Sent("first"), "the fault has struck")
			soon, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
			err := pair[1](soon, list, "second")
			stop()
			assert.Error(t, err, name)
			assert.False(t, hook.Sent("second"), name)
			hook.Set(nil)
			require.NoError(t, pair[1](t.Context(), list, "second"), name)
			assert.Equal(t, []string{"second"}, harness.Content(t, list), name)
		}
	})
}

// A context that has ended before the call sends nothing, and one that ends while the server does not answer leaves the outcome open.
func TestACancelledScript(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, hook := server.Client(t), &harness.Scripts{}
		rdb.AddHook(hook)
		list := harness.NewList(t, rdb)
		script := shardedlist.NewScript("return rpush('a')")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := script.Run(ctx, list, nil).Err()
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
		assert.Empty(t, harness.Content(t, list))

		ctx, cancel = context.WithCancel(t.Context())
		arrive := make(chan struct{})
		hook.Set(func(words string, send func() error) error {
			cancel()
			<-arrive
			return send()
		})
		start := time.Now()
		err = script.Run(ctx, list, nil).Err()
		assert.ErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Less(t, time.Since(start), 5*time.Second)
		hook.Set(nil)
		close(arrive)
		_, err = list.RPush(t.Context(), "b") // waits until the outcome is known
		require.NoError(t, err)
		assert.Equal(t, []string{"a", "b"}, harness.Content(t, list))
	})
}

// The server is in use by others, each of whose runs counts once.
func TestScriptsOverABrokenNetwork(t *testing.T) {
	t.Parallel()
	server, proxy := redistest.Start(t, redistest.Redis), redistest.NewProxy(t)
	list := harness.NewList(t, server.Client(t), shardedlist.WithCapacity(5))
	broken := harness.OpenList(t, server.Client(t, harness.Through(proxy)), list.Name(), shardedlist.WithCapacity(5))
	script := shardedlist.NewScript("local n = redis.call('INCR', KEYS[1]) return {n, rpush(ARGV[1], n)}")
	counter := ownKey(list, "n")
	require.NoError(t, script.Run(t.Context(), broken, []string{counter}, 0).Err())
	proxy.Set(redistest.Faults{CutReply: 0.05, CutRequest: 0.05, CutInReply: 0.05})
	const runs = 400
	succeeded := 1
	for i := range runs {
		ctx, cancel := context.WithTimeout(t.Context(), harness.FaultPatience())
		reply, err := script.Run(ctx, broken, []string{counter}, i+1).Int64Slice()
		cancel()
		if !assert.NoError(t, err) {
			break
		}
		assert.Equal(t, []int64{int64(i) + 2, 2 * (int64(i) + 2)}, reply)
		succeeded++
	}
	proxy.Set(redistest.Faults{})
	assert.Greater(t, proxy.Strikes(), int64(runs/20))
	assert.Equal(t, runs+1, succeeded)
	for i, value := range harness.Content(t, list) {
		assert.Equal(t, fmt.Sprint((i+1)/2), value)
	}
}

func TestAScriptThatPushesOneValueTakesNineCalls(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t, redistest.Redis).Client(t).(*redis.Client)
	list := harness.NewList(t, rdb, shardedlist.WithCapacity(1000))
	_, err := list.RPush(t.Context(), harness.Numbers(0, 2500)...)
	require.NoError(t, err)
	script := shardedlist.NewScript("return rpush('a')")
	require.NoError(t, script.Run(t.Context(), list, nil).Err())
	require.NoError(t, rdb.ConfigResetStat(t.Context()).Err())
	for range 100 {
		require.NoError(t, script.Run(t.Context(), list, nil).Err())
	}
	each := map[string]int{}
	for name, calls := range harness.Without(harness.CommandCalls(t, rdb), "config|resetstat", "info") {
		each[name] = (calls + 50) / 100 // a new session, where the garbage collector has taken the old one, calls EXISTS instead of GETRANGE
	}
	assert.Equal(t, map[string]int{"call": 1, "hget": 2, "llen": 7, "exists": 2, "rpush": 1, "getrange": 1, "set": 1}, each)
}

// A script on the server's side fails while it is under way: the caller hears of it, and the next run goes on.
func TestAScriptThatIsKilled(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis, "lua-time-limit 1")
	list := harness.NewList(t, server.Client(t, harness.Patient))
	other := server.Client(t, harness.Patient)
	ended := make(chan error, 1)
	go func() {
		ended <- shardedlist.NewScript("while true do pcall(function() while true do end end) end").Run(t.Context(), list, nil).Err()
	}()
	require.Eventually(t, func() bool { return other.Do(t.Context(), "script", "kill").Err() == nil }, time.Minute, time.Millisecond)
	err := <-ended
	assert.ErrorContains(t, err, "killed")
	assert.NotErrorIs(t, err, shardedlist.ErrOutcomeUnknown)
	require.NoError(t, shardedlist.NewScript("return rpush('a')").Run(t.Context(), list, nil).Err())
	assert.Equal(t, []string{"a"}, harness.Content(t, list))
	assert.False(t, errors.Is(err, shardedlist.ErrScript), "nothing has changed")
}
