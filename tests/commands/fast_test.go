package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/lua"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A fast path does what the command behind it does: replies and keys are the same after every step of a random sequence. The
// fast paths take many of the steps.
func TestFastPathsDoAsTheirCommands(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t)
			seeds, steps := 12, 120
			if kind != redistest.Redis {
				seeds = 4
			}
			behind, left, parts := 0, 0, 0
			for seed := range uint64(seeds) {
				twins := fastTwins{rdb: rdb, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, how: []string{"+", "+", "*", "^"}[seed%4]}
				behind += twins.compare(t, steps)
				left += twins.left
				parts += twins.parts
			}
			assert.Greater(t, parts, seeds*steps/100, "pops that have taken a part")
			assert.Greater(t, left, seeds*steps/100, "pops that have left their elements")
			assert.Less(t, behind, seeds*steps*3/4, "steps that the fast paths left to their commands")
		})
	}
}

// The same for wake-ups, which random sequences seldom have: a consumer waits, a push rings, and the consumer that is woken takes the only
// element, or has been released.
func TestFastPathsOfWakeUpsDoAsTheirCommands(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	rdb := redistest.Start(t, redistest.Redis).Client(t)
	seed := uint64(1000)
	for _, how := range []string{"+", "*"} {
		for _, pushed := range []string{"L", "R"} {
			for _, popped := range []string{"L", "R"} {
				for _, released := range []bool{false, true} {
					seed++
					twins := fastTwins{rdb: rdb, seed: seed, how: how}
					consumer, producer := "0123456789abcdef01234567", "00000000000000000000ffff"
					steps := []fastStep{
						{"push", []string{producer, "1", "60000", pushed, "3", "a"}}, // from now on it is known where newcomers join
						{"pop", []string{consumer, "1", "60000", pushed, "9", "no", ""}},
						{"pop", []string{consumer, "2", "-60000", popped, "1", "first", ""}},
						{"push", []string{producer, "2", "-60000", pushed, "3", "b"}},
						{"del bell", nil}, // its BLPOP takes the dummy
					}
					if released {
						steps = append(steps, fastStep{"rpush woken", nil})
					}
					steps = append(steps, fastStep{"pop", []string{consumer, "3", "-60000", popped, "2", "woken", "woken"}})
					for i, step := range steps {
						twins.compareStep(t, i, step)
					}
				}
			}
		}
	}
}

// fastTwins are two lists, of which one is used by scripts without their fast paths.
type fastTwins struct {
	rdb    redis.UniversalClient
	rng    *rand.Rand
	seed   uint64
	how    string // the character before the plain key, see shared/keys.lua
	number int    // of the last operation
	left   int    // pops that have left their elements for the caller to read
	parts  int    // pops that have taken a part
	sent   []fastStep
}

type fastStep struct {
	command string
	args    []string
}

// fastPaths are the fast paths of a command, from the last one on.
var fastPaths = map[string][]string{
	"push":   {"push"},
	"pop":    {"pop_more", "pop_woken", "pop"},
	"lindex": {"lindex"},
}

// compare returns how many steps the fast paths left to their commands.
func (f *fastTwins) compare(t *testing.T, steps int) int {
	for i := range steps {
		f.compareStep(t, i, f.next())
	}
	behind, err := f.rdb.Get(t.Context(), "behind:"+f.name("fast")).Int()
	require.NoError(t, err)
	return behind
}

func (f *fastTwins) name(which string) string { return fmt.Sprintf("%d:%s", f.seed, which) }

// compareStep runs a step on both lists.
func (f *fastTwins) compareStep(t *testing.T, i int, step fastStep) {
	t.Helper()
	was, is := f.run(t, f.name("slow"), step), f.run(t, f.name("fast"), step)
	require.Equal(t, was, is, "seed %d %q, step %d: %v", f.seed, f.how, i, step)
	require.Equal(t, f.keys(t, f.name("slow")), f.keys(t, f.name("fast")), "seed %d %q, step %d: %v", f.seed, f.how, i, step)
}

// next draws a step. Now and then it is one that has been done.
func (f *fastTwins) next() fastStep {
	if len(f.sent) > 0 && f.rng.IntN(12) == 0 {
		return f.sent[len(f.sent)-1-f.rng.IntN(min(3, len(f.sent)))]
	}
	pick := func(from ...string) string { return from[f.rng.IntN(len(from))] }
	f.number++
	stream := pick("0123456789abcdef01234567", "00000000000000000000ffff") // that of pushes, and that of pops
	number := strconv.Itoa(f.number)
	life := pick("60000", "60000", "-60000") // a record that is not renewed is so by the fast paths alone
	switch f.rng.IntN(40) {
	case 0:
		number = ""
	case 1:
		if f.seed%3 != 0 {
			break // it leaves a record in meta
		}
		stream = "@0123456789abcdef01234567"
	case 2:
		return fastStep{pick("set plain", "rpush plain", "del plain", "del plain", "del plain", "rpush bell", "rpush woken", "del woken", "persist"), nil}
	case 5, 6, 7, 8:
		return fastStep{pick("fill plain", "fill plain", "fill plain", "fill and expire plain"), []string{pick("1", "1", "2", "511", "600", "600")}}
	case 3:
		return fastStep{"ltrim", []string{stream, number, "60000", pick("0", "1", "-2"), pick("-1", "-3", "2")}}
	case 4:
		return fastStep{"expire", []string{stream, number, "60000", pick("in", "never"), "600000", "", "1000"}}
	}
	if f.rng.IntN(8) == 0 {
		return fastStep{"lindex", []string{strconv.Itoa(f.rng.IntN(20) - 10)}}
	}
	var step fastStep
	if f.rng.IntN(2) == 0 {
		step = fastStep{"push", []string{stream, number, life, pick("L", "R"), pick("3", "3", "3", "4", "")}}
		for i := range 1 + f.rng.IntN(2)*f.rng.IntN(5) {
			step.args = append(step.args, fmt.Sprintf("%d.%d", f.number, i)+strings.Repeat("x", f.rng.IntN(50)/49*20000))
		}
	} else {
		how := pick("no", "no", "no", "first", "again", "woken")
		step = fastStep{"pop", []string{stream, number, life, pick("L", "R"), pick("1", "1", "1", "2", "5", "0"), how}}
		switch how {
		case "woken":
			step.args = append(step.args, pick("", "woken"))
		case "no":
			step.args = append(step.args, pick("", "part", "part"))
		}
		if how := pick("leave", "leave", "join", ""); how != "" && step.args[4] != "1" { // a single element would have another form in the record
			step.args = append(append(step.args, "")[:7:7], how)
		}
	}
	f.sent = append(f.sent, step)
	return step
}

// run runs a step on one of the lists and returns its reply.
func (f *fastTwins) run(t *testing.T, name string, step fastStep) string {
	t.Helper()
	plain, prefix := name, "{"+name+"}:"
	ctx := t.Context()
	switch step.command {
	case "set plain":
		return f.text(f.rdb.Do(ctx, "SET", plain, "x"))
	case "rpush plain":
		return f.text(f.rdb.Do(ctx, "RPUSH", plain, "x"))
	case "fill plain", "fill and expire plain": // a short list, or one that is longer
		length, _ := strconv.Atoi(step.args[0])
		f.rdb.Del(ctx, plain, prefix+"meta")
		if step.command == "fill and expire plain" {
			defer f.rdb.PExpire(ctx, plain, 10*time.Minute)
		}
		return f.text(f.rdb.Do(ctx, append([]any{"RPUSH", plain}, harness.Numbers(0, length)...)...))
	case "del plain":
		return f.text(f.rdb.Do(ctx, "DEL", plain))
	case "rpush bell":
		return f.text(f.rdb.Do(ctx, "RPUSH", prefix+"bell", "1"))
	case "del bell":
		return f.text(f.rdb.Do(ctx, "DEL", prefix+"bell"))
	case "rpush woken":
		return f.text(f.rdb.Do(ctx, "RPUSH", prefix+"woken", "1"))
	case "del woken":
		return f.text(f.rdb.Do(ctx, "DEL", prefix+"woken"))
	case "persist":
		return f.text(f.rdb.Do(ctx, "PERSIST", prefix+"meta"))
	}
	args := []any{f.how + plain}
	for i, arg := range step.args {
		if step.command == "pop" && i == 6 && arg == "woken" {
			arg = prefix + arg
		}
		args = append(args, arg)
	}
	cmd := f.rdb.Eval(ctx, f.source(t, name, step.command), []string{prefix + "meta"}, args...)
	parts, _ := cmd.Val().([]any)
	if step.command == "pop" && len(parts) == 2 && parts[0] == int64(5) {
		f.parts++
	}
	if count, left := atOne(parts).(int64); left && step.command == "pop" { // the elements are in the record's list
		popped, err := f.rdb.LRange(ctx, prefix+"op:"+step.args[0]+":popped", 0, -1).Result()
		require.NoError(t, err)
		require.Len(t, popped, int(count))
		if parts[0] == int64(3) {
			parts[0] = int64(0)
		}
		cmd.SetVal([]any{parts[0], popped})
		f.left++
	}
	if element, alone := cmd.Val().(string); alone && step.command == "pop" {
		cmd.SetVal([]any{int64(0), []any{element}})
	}
	return strings.ReplaceAll(f.text(cmd), name, "NAME")
}

// atOne returns the second part of a reply that has two, or nil.
func atOne(parts []any) any {
	if len(parts) != 2 {
		return nil
	}
	return parts[1]
}

func (f *fastTwins) text(reply *redis.Cmd) string { return fmt.Sprint(reply.Val(), reply.Err()) }

// source returns the text of a command. That for the fast list counts how often the fast path leaves the work to what is behind
// it, that for the slow one has no fast path.
func (f *fastTwins) source(t *testing.T, name, command string) string {
	t.Helper()
	source := lua.Source(command)
	for _, file := range fastPaths[command] {
		fast, err := os.ReadFile("../../lua/fast/" + file + ".lua")
		require.NoError(t, err)
		before, behind, found := strings.Cut(source, string(fast))
		require.True(t, found, file)
		if strings.HasSuffix(name, "fast") {
			const count = "redis.call('INCR', 'behind:' .. string.match(KEYS[1], '{(.*)}'))\n"
			return before + string(fast) + count + behind
		}
		source = before + behind
	}
	return source
}

var (
	inIdentity = regexp.MustCompile(`\.\d{10,}\b`)           // the server's time, for an operation without a number
	inTaken    = regexp.MustCompile(`#[0-9a-f]{12}\.TIME\b`) // a hash, if the operation has no session either
	inExpiry   = regexp.MustCompile(`\b1[5-9]\d{11}\b`)
)

// keys returns what all keys of a list hold, and whether they expire.
func (f *fastTwins) keys(t *testing.T, name string) map[string][]string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	keys, err := f.rdb.Keys(ctx, "*"+name+"*").Result()
	require.NoError(t, err)
	all := map[string][]string{} // several if only what depends on the time tells their keys apart
	node := f.rdb.(*redis.Client)
	for _, key := range keys {
		if strings.HasPrefix(key, "behind:") {
			continue
		}
		ttl, err := f.rdb.PTTL(ctx, key).Result()
		require.NoError(t, err)
		if strings.HasSuffix(key, ":popped") {
			continue // it counts only with a record that refers to it
		}
		content := fmt.Sprint(harness.Read(t, node, key))
		if head, refers := strings.CutSuffix(content, "@"); refers {
			popped := key + ":popped"
			content = head + "=" + strings.Trim(fmt.Sprint(harness.Read(t, node, popped)), "[]")
			require.Positive(t, node.PTTL(ctx, popped).Val())
		}
		content = joined(content)
		value := fmt.Sprint(content, " expires: ", ttl > 0)
		value = f.forget(strings.ReplaceAll(value, name, "NAME"))
		key = f.forget(strings.ReplaceAll(key, name, "NAME"))
		all[key] = append(all[key], value)
		slices.Sort(all[key])
	}
	return all
}

// joined returns the content of a record with elements that a fast path has joined, each behind its length, as if it referred to a list.
func joined(content string) string {
	head, rest, found := strings.Cut(content, ":@")
	if _, err := strconv.Atoi(head); !found || err != nil {
		return content
	}
	var elements []string
	for rest != "" {
		length, behind, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n > len(behind) {
			return content
		}
		elements, rest = append(elements, behind[:n]), behind[n:]
	}
	return head + ":=" + strings.Join(elements, " ")
}

// forget removes what depends on the time.
func (f *fastTwins) forget(text string) string {
	text = inIdentity.ReplaceAllString(text, ".TIME")
	text = inTaken.ReplaceAllString(text, "#TIME")
	return inExpiry.ReplaceAllString(text, "TIME")
}
