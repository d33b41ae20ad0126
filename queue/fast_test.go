package queue

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/lua"
)

// A fast path does what the command behind it does: replies and keys are the same after every step of a random sequence. The fast
// paths take many of the steps.
func TestFastPathsDoAsTheirCommands(t *testing.T) {
	t.Parallel()
	redistest.LongOnly(t)
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			rdb := redistest.Start(t, kind).Client(t).(*redis.Client)
			seeds, steps := redistest.Times(4, 8), 150
			runs, behind := 0, 0
			for seed := range uint64(seeds) {
				w := twins{rdb: rdb, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed}
				w.compare(t, steps)
				runs += w.runs
				slow, err := rdb.Get(t.Context(), w.behind()).Int()
				require.NoError(t, err)
				behind += slow
			}
			assert.Greater(t, runs-behind, runs/8, "steps that the fast paths took")
			assert.Greater(t, behind, runs/8, "steps that they left to their commands")
		})
	}
}

// twins are two queues, of which one is used by scripts without their fast paths.
type twins struct {
	rdb    *redis.Client
	rng    *rand.Rand
	seed   uint64
	number int      // of the last operation
	leased []string // members
	sent   []twinStep
	runs   int // of scripts that have a fast path
}

// A twinStep is a script and its arguments, or a Redis command on a key of the queue.
type twinStep struct {
	script string
	args   []string
}

func (w *twins) compare(t *testing.T, steps int) {
	for i := range steps {
		step := w.next()
		require.NoError(t, w.rdb.MSet(t.Context(), w.clock(0), 1_800_000_000+i, w.clock(1), w.rng.IntN(1_000_000)).Err())
		was, is := w.run(t, "slow", step), w.run(t, "fast", step)
		require.Equal(t, was, is, "seed %d, step %d: %q", w.seed, i, step)
		require.Equal(t, w.keys(t, "slow"), w.keys(t, "fast"), "seed %d, step %d: %q", w.seed, i, step)
	}
}

const serverTime = "redis.call('TIME')"

// clock returns the key that holds the seconds of the clock that the scripts see, or the microseconds.
func (w *twins) clock(word int) string { return fmt.Sprintf("clock:%d:%d", w.seed, word) }

// next draws a step. Now and then it is one that has been done.
func (w *twins) next() twinStep {
	if len(w.sent) > 0 && w.rng.IntN(12) == 0 {
		return w.sent[len(w.sent)-1-w.rng.IntN(min(3, len(w.sent)))]
	}
	pick := func(from ...string) string { return from[w.rng.IntN(len(from))] }
	w.number++
	session := func(stream string) []string {
		if w.seed%3 == 0 && w.rng.IntN(40) == 0 { // it leaves a record in meta
			stream = "@0123456789abcdef01234567"
		}
		return []string{stream, strconv.Itoa(w.number), "60000"}
	}
	step := twinStep{}
	switch dice := w.rng.IntN(40); {
	case dice < 14:
		step = twinStep{"push", append(session("0123456789abcdef01234567"), pick("L", "R"), pick("7", "40", "40"))}
		for i := range 1 + w.rng.IntN(25) {
			step.args = append(step.args, w.element(i))
		}
	case dice < 26:
		random := fmt.Sprintf("%02d%04d", w.seed, w.number) + "@\x8010bytes..."
		step = twinStep{"queue_take", append(session("00000000000000000000ffff"), pick("L", "R"), pick("1", "2", "3", "3", "4", "8", "8", "0"),
			pick("first", "first", "first", "again", "again", "again", "woken"), pick("", "woken"), pick("ann", "bob", "cyd"),
			pick("3600000", "3600000", "3600000", "5000"),                                            // the lease
			pick("0", "0", "0", "0", "0", "0", "5"), pick("0", "0", "0", "0", "0", "0", "1000"), "9", // limits
			random[:16])}
	case dice < 37 && len(w.leased) > 0:
		step = twinStep{"queue_settle", []string{""}}
		for range 1 + w.rng.IntN(4) {
			i := w.rng.IntN(len(w.leased))
			member := w.leased[i]
			if w.rng.IntN(6) > 0 && len(w.leased) > 1 {
				w.leased = slices.Delete(w.leased, i, i+1)
			}
			if w.rng.IntN(12) == 0 {
				step.args = append(step.args, member, pick("0", "5000", "3600000"), "it failed", pick("", "1"))
			} else if w.rng.IntN(12) == 0 {
				step.args = append(step.args, member, "", strings.Repeat("u", 40), "")
			} else {
				step.args[0] += member
			}
		}
	case w.seed%2 == 0:
		step = twinStep{"", strings.Fields(pick("HSET queue paused 1", "HDEL queue paused", "HDEL queue paused", "HDEL queue paused", "HSET queue waits limit",
			"HDEL queue waits", "HDEL queue waits", "RPUSH woken 1", "DEL woken", "RPUSH bell 1", "DEL bell"))}
	default:
		step = twinStep{"", strings.Fields(pick("DEL queue:jobs", "SET queue:jobs x", "SET queue x", "SET queue:times x", "DEL queue queue:jobs queue:times",
			"DEL queue queue:jobs queue:times", "DEL queue queue:jobs queue:times", "HDEL meta layout"))}
	}
	w.sent = append(w.sent, step)
	return step
}

// element is the payload of a job without an id, or an envelope: of a job that has a unique key, has failed, or neither.
func (w *twins) element(i int) string {
	flags := w.rng.IntN(6)
	if flags > 3 {
		return fmt.Sprintf("payload %d.%d", w.number, i)
	}
	envelope := "\xffJ" + string(rune(flags)) + fmt.Sprintf("%06d", w.number*100+i) + "@\x80\x80\x80\x80\x80\x80\x80\x80\x80" + "\x00\x02"
	if flags%2 == 1 {
		envelope += strings.Repeat("u", 40)
	}
	if flags > 1 {
		envelope += "\x00\x03bad"
	}
	return envelope + "payload"
}

// run runs a step on one of the queues and returns its reply.
func (w *twins) run(t *testing.T, name string, step twinStep) string {
	t.Helper()
	prefix := fmt.Sprintf("{%d:%s}:", w.seed, name)
	if step.script == "" {
		command := []any{step.args[0]}
		for _, word := range step.args[1:] {
			if regexp.MustCompile(`^(queue|queue:\w+|meta|bell|woken)$`).MatchString(word) {
				word = prefix + word
			}
			command = append(command, word)
		}
		return fmt.Sprint(w.rdb.Do(t.Context(), command...).Result())
	}
	args := []any{"+" + prefix + "plain"}
	for i, arg := range step.args {
		if step.script == "queue_take" && i == 6 && arg != "" {
			arg = prefix + arg
		}
		args = append(args, arg)
	}
	source := redis.NewScript(w.source(t, name, step.script))
	reply, err := source.Run(t.Context(), w.rdb, []string{prefix + "meta"}, args...).Result()
	if name == "fast" {
		w.note(step, reply)
	}
	text, _, _ := strings.Cut(fmt.Sprintf("%q %v", reply, err), " script: ") // and where in it
	return strings.ReplaceAll(text, prefix, "")
}

// note remembers what a script has leased, and counts.
func (w *twins) note(step twinStep, reply any) {
	if step.script != "push" {
		w.runs++
	}
	if words, ok := reply.([]any); ok {
		leaseName, envelopes := taken(words)
		for _, envelope := range envelopes {
			w.leased = append(w.leased, envelope[idAt:attemptAt]+leaseName)
		}
	}
}

// behind is the key that counts how often the fast paths leave the work to what is behind them.
func (w *twins) behind() string { return fmt.Sprintf("behind:%d", w.seed) }

// source returns the text of a script. That for the fast queue counts how often the fast path leaves the work to what is behind it, that
// for the slow one has no fast path.
func (w *twins) source(t *testing.T, name, script string) string {
	t.Helper()
	clock := fmt.Sprintf("redis.call('MGET', '%s', '%s')", w.clock(0), w.clock(1))
	source := strings.ReplaceAll(lua.Source(script), serverTime, clock)
	file, ok := strings.CutPrefix(script, "queue_")
	if !ok {
		return source
	}
	fast, err := os.ReadFile("../lua/fast/" + file + ".lua")
	require.NoError(t, err)
	before, behind, found := strings.Cut(source, strings.ReplaceAll(string(fast), serverTime, clock))
	require.True(t, found)
	if name == "slow" {
		return before + behind
	}
	return strings.Replace(source, behind, fmt.Sprintf("redis.call('INCR', '%s')\n", w.behind())+behind, 1)
}

// allKeys returns the keys with a prefix, each with what it holds, and whether it expires.
var allKeys = redis.NewScript(`
local read = {
  string = { 'GET' }, list = { 'LRANGE', 0, -1 }, hash = { 'HGETALL' }, zset = { 'ZRANGE', 0, -1, 'WITHSCORES' },
}
local all = {}
for i, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  local command = read[redis.call('TYPE', key).ok]
  local value = redis.call(command[1], key, unpack(command, 2))
  if command[1] == 'HGETALL' then
    local fields = {}
    for j = 1, #value, 2 do
      fields[#fields + 1] = value[j] .. ' = ' .. value[j + 1]
    end
    table.sort(fields)
    value = fields
  end
  all[i] = { string.sub(key, #ARGV[1] + 1), value, redis.call('PTTL', key) > 0 and 'expires' or 'stays' }
end
return all`)

// keys returns what all keys of a queue hold.
func (w *twins) keys(t *testing.T, name string) []string {
	t.Helper()
	prefix := fmt.Sprintf("{%d:%s}:", w.seed, name)
	found, err := allKeys.Run(t.Context(), w.rdb, nil, prefix).Slice()
	require.NoError(t, err)
	var all []string
	for _, key := range found {
		all = append(all, strings.ReplaceAll(fmt.Sprintf("%q", key), prefix, ""))
	}
	slices.Sort(all)
	return all
}
