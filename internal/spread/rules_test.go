package spread

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/lua"
)

// stage is one part of a spread list, or its pointers, to which scripts are sent as clients with pointers of any age send them.
type stage struct {
	t       *testing.T
	rdb     redis.UniversalClient
	key     string
	breaks  *strings.Replacer // a bug in the scripts, or nil
	changed bool              // a script had it
	number  int               // of the last operation
}

// run sends a script with its arguments.
func (s *stage) run(command string, args ...any) any {
	s.t.Helper()
	text := lua.Source(command)
	if s.breaks != nil {
		broken := s.breaks.Replace(text)
		s.changed = s.changed || broken != text
		text = broken
	}
	if lua.Requires(command, "shared/keys") {
		args = append([]any{""}, args...)
	}
	reply, err := s.rdb.Eval(s.t.Context(), text, []string{s.key}, args...).Result()
	if err != redis.Nil {
		require.NoError(s.t, err, command)
	}
	return reply
}

// numbered sends an operation under a number, or under the next one if it is 0.
func (s *stage) numbered(number int, command, side, pointers string, args ...any) any {
	s.t.Helper()
	if number == 0 {
		s.number++
		number = s.number
	}
	return s.run(command, append([]any{"session", number, 60000, side, pointers}, args...)...)
}

func (s *stage) push(side, pointers string, values ...any) string {
	s.t.Helper()
	return fmt.Sprint(s.numbered(0, "spread_push", side, pointers, values...))
}

// pop returns the word of the reply and the elements.
func (s *stage) pop(side, pointers, how string) string {
	s.t.Helper()
	return popped(s.numbered(0, "spread_pop", side, pointers, 1, how, ""))
}

func popped(reply any) string {
	if alone, _ := reply.(string); alone != "" {
		word, element, _ := strings.Cut(alone, "=")
		return word + "[" + element + "]"
	}
	words := reply.([]any)
	return fmt.Sprint(words[1], words[2])
}

func (s *stage) close(side, pointers string) any {
	s.t.Helper()
	return s.run("spread_close", "", "", "", side, pointers, "")
}

// state returns the flags of a shard: whether it is open at the left and at the right, and whether a consumer waits.
func (s *stage) state(id int) string {
	state := s.rdb.HGet(s.t.Context(), s.key, fmt.Sprintf("7.%d", id)).Val()
	return state[:min(3, len(state))]
}

func (s *stage) watermark(epoch int) { s.rdb.HSet(s.t.Context(), s.key, "mark", epoch) }

func (s *stage) rings() int64 {
	return s.rdb.LLen(s.t.Context(), strings.TrimSuffix(s.key, "meta")+"bell").Val()
}

// stamp returns that of the expiry in meta.
func (s *stage) stamp() string { return strings.Fields(s.expiry())[1] }

func (s *stage) expiry() string { return s.rdb.HGet(s.t.Context(), s.key, "expiry").Val() }

// What pointers say of an expiry, whose stamp is 5.
const (
	passed = " 1 5"
	toCome = " 9999999999999 5"
)

// at are pointers of generation 7 and capacity 2.
func at(first, last, leftEpoch, rightEpoch int) string {
	return fmt.Sprintf("7 %d %d %d %d 0 0 2", first, last, leftEpoch, rightEpoch)
}

// pointers makes meta: generation 7, all in shard 0, with epochs 10 and 20.
func (s *stage) pointers() {
	s.rdb.HSet(s.t.Context(), s.key, "layout", "4 3 2 7 0 0 10 20 0 0 30 2")
}

// layout returns words of the pointers.
func (s *stage) layout(words ...int) (values []string) {
	all := strings.Fields(s.rdb.HGet(s.t.Context(), s.key, "layout").Val())
	for _, word := range words {
		values = append(values, all[word])
	}
	return values
}

const (
	generationWord = 3
	firstWord      = 4
	lastWord       = 5
	leftEpochWord  = 6
	flagsWord      = 11
)

// rules are those of docs/models/spread.py that the scripts carry: each has a bug that takes it away, and what shows the bug.
var rules = []struct {
	name, old, new string
	holds          func(s *stage) bool
}{
	{"watermark", "elseif EPOCHS[SIDE] <= mark then", "elseif false then", func(s *stage) bool {
		s.watermark(20)
		return strings.HasPrefix(s.push("L", at(0, 0, 15, 25), "x"), "GONE")
	}},
	{"create_needs_both_fresh", "elseif alone and not closing and EPOCHS[OTHER] <= mark then", "elseif false then", func(s *stage) bool {
		s.watermark(20)
		return strings.HasPrefix(s.push("L", at(0, 0, 25, 15), "x"), "OTHER_GONE")
	}},
	{"create_other_at_watermark", "open = { false, false }, armed", "open = { true, true }, armed", func(s *stage) bool {
		s.watermark(20)
		s.push("L", at(0, 1, 25, 15), "x")
		return s.state(0) == "100"
	}},
	{"close_creates", "save_shard(shard)\nif rings then\n  ring()\nend\nreturn shard.size", "return shard.size", func(s *stage) bool {
		s.close("L", at(0, 0, 10, 10))
		return strings.HasPrefix(s.push("L", at(0, 0, 10, 10), "x"), "CLOSED")
	}},
	{"ring_on_close", "shut(shard, SIDE)\n  rings = disarm(shard)", "shut(shard, SIDE)", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "first")
		s.close("R", at(0, 0, 10, 10))
		return s.rings() == 1
	}},
	{"close_what_was_left", "elseif not alone and shard.open[OTHER] and shard.epoch[OTHER] < EPOCHS[OTHER] then", "elseif false then", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		s.pop("L", at(0, 3, 10, 20), "no")
		return s.state(0) == "100"
	}},
	{"pass_on", "local rings = woken and not arms and bell_is_here()", "local rings = false", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x", "y")
		return s.pop("L", at(0, 0, 10, 10)+toCome, "woken") == "OK[y]" && s.rings() == 1
	}},
	{"pass_on on the fast path", "    elseif WOKEN then\n      ring()\n", "", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x", "y")
		return s.pop("L", at(0, 0, 10, 10), "woken") == "OK[y]" && s.rings() == 1
	}},
	{"arm_again", "(woken or took < count)", "(took < count)", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		return s.pop("L", at(0, 0, 10, 10)+toCome, "woken") == "OK[x]" && s.state(0) == "113"
	}},
	{"arm_again on the fast path", "      arm(true)\n", "", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		return s.pop("L", at(0, 0, 10, 10), "woken") == "OK[x]" && s.state(0) == "111"
	}},
	{"a push rings where a consumer waits", "      arm(false)\n      ring()\n", "", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "first")
		s.push("R", at(0, 0, 10, 10), "x")
		return s.state(0) == "110" && s.rings() == 1
	}},
	{"one that was released takes nothing", "and (ARGV[8] == '' or redis.pcall('EXISTS', ARGV[8]) == 0)", "", func(s *stage) bool {
		released := strings.TrimSuffix(s.key, "meta") + "bell:gone"
		s.push("L", at(0, 0, 10, 10), "x")
		s.rdb.LPush(s.t.Context(), released, "1")
		return popped(s.numbered(0, "spread_pop", "L", at(0, 0, 10, 10), 1, "woken", released)) == "OK[]"
	}},
	{"number", "  if sequence == SEQUENCE then\n", "  if false then\n", func(s *stage) bool {
		for range 2 {
			s.numbered(1, "spread_push", "L", at(0, 0, 10, 10), "x")
		}
		return s.rdb.LLen(s.t.Context(), strings.TrimSuffix(s.key, "meta")+"7.0").Val() == 1
	}},
	{"negative", "save_elements(word, popped, took)\n", "if took > 0 then save_elements(word, popped, took) end\n", func(s *stage) bool {
		s.numbered(1, "spread_pop", "L", at(0, 0, 10, 10), 1, "no", "")
		_ = s.run("spread_push", "another", 1, 60000, "L", at(0, 0, 10, 10), "x")
		return popped(s.numbered(1, "spread_pop", "L", at(0, 0, 10, 10), 1, "first", "")) == "EMPTY[]"
	}},
	{"other_stale", "elseif took == 0 and IDS[1] ~= IDS[2] and shard.epoch[OTHER] > EPOCHS[OTHER] then", "elseif false then", func(s *stage) bool {
		s.pop("R", at(0, 0, 10, 20), "no")
		return strings.HasPrefix(s.pop("L", at(0, 3, 10, 5), "no"), "OTHER_STALE")
	}},
	{"closed at the capacity", "or (shard.size >= CAPACITY and count > 0) then", "then", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x", "y", "z")
		return strings.HasPrefix(s.push("L", at(0, 0, 10, 10), "w"), "CLOSED")
	}},
	{"retired with its epochs", "math.max(shard.mark, shard.epoch[1], shard.epoch[2])", "shard.mark", func(s *stage) bool {
		s.push("L", at(0, 1, 25, 15), "x")
		s.pop("L", at(0, 1, 25, 15), "no")
		s.pop("L", at(0, 1, 25, 15), "no")
		return strings.HasPrefix(s.push("L", at(0, 1, 25, 15), "y"), "GONE")
	}},
	{"freeze", "elseif p.deleting or p.epochs[side]", "elseif p.epochs[side]", func(s *stage) bool {
		s.pointers()
		s.run("spread_delete", "begin", 7)
		s.run("spread_move", "L", 10, "CLOSED", 0)
		return s.layout(firstWord)[0] == "0"
	}},
	{"a pointer is moved once", "or p.epochs[side] ~= tonumber(ARGV[2]) then", "then", func(s *stage) bool {
		s.pointers()
		for range 2 {
			s.run("spread_move", "L", 10, "CLOSED", 0)
		}
		return s.layout(firstWord)[0] == "-1"
	}},
	{"renew", "p.next = math.max(p.next, tonumber(ARGV[4]) + 1)", "p.next = p.next", func(s *stage) bool {
		s.pointers()
		s.run("spread_move", "L", 10, "STALE", "5000000000000000")
		return s.layout(leftEpochWord)[0] == "5000000000000001"
	}},
	{"generation", "p.generation, p.deleting, p.used, p.expired = p.next, false, false, false", "p.deleting, p.used = false, false", func(s *stage) bool {
		s.pointers()
		s.run("spread_delete", "begin", 7)
		s.run("spread_delete", "end", 7)
		return s.layout(generationWord)[0] != "7"
	}},
	{"del_generation", "elseif p.generation ~= tonumber(ARGV[2]) then", "elseif false then", func(s *stage) bool {
		s.pointers()
		s.run("spread_delete", "begin", 6)
		return s.layout(flagsWord)[0] == "2"
	}},
	{"expiry_words", "EXPIRES, STAMP = tonumber(expires or 0), tonumber(stamp or 0)", "EXPIRES, STAMP = 0, 0", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		return strings.HasPrefix(s.push("L", at(0, 0, 10, 10)+passed, "x"), "EXPIRED 10 10 5")
	}},
	{"expiry_told", "redis.call('HSET', META, 'expiry', string.format('%s %.0f %.0f', GENERATION, EXPIRES, STAMP))", "", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		s.numbered(0, "spread_pop", "L", at(0, 0, 10, 10)+toCome, 0, "no", "")
		return s.state(0) == "112" && s.expiry() == "7"+toCome
	}},
	{"fast paths leave what expires", " and (armed == '0' or armed == '1')", "", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		s.numbered(0, "spread_pop", "L", at(0, 0, 10, 10)+toCome, 0, "no", "")
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "7"+passed)
		return strings.HasPrefix(s.push("L", at(0, 0, 10, 10), "x"), "EXPIRED")
	}},
	{"stamp", "if stamp > STAMP or", "if false or", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "7 9999999999999 7")
		return s.push("L", at(0, 0, 10, 10)+passed, "y") == "2"
	}},
	{"void", "if EXPIRES > 0 and shard.open[1] and shard.open[2] and shard.size == 0 then", "if false then", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "no")
		return s.push("L", at(0, 0, 10, 10)+passed, "x") == "1" && s.expiry() == "7 0 5"
	}},
	{"expiry_generation", "if generation and not KNOWN then", "if false then", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "6 1 5")
		return s.push("L", at(0, 0, 10, 10)+toCome, "y") == "2" && s.expiry() == "7"+toCome
	}},
	{"and that of a later one stays", "tonumber(generation) < tonumber(GENERATION) and STAMP > 0", "STAMP > 0", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "8 1 5")
		return s.push("L", at(0, 0, 10, 10)+toCome, "y") == "2" && s.expiry() == "8 1 5"
	}},
	{"void_wins", " or (stamp == STAMP and expires < EXPIRES)", "", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "no")
		s.push("L", at(0, 0, 10, 10)+passed, "x")
		return s.push("L", at(0, 0, 10, 10)+passed, "x") == "2"
	}},
	{"who leaves a shard learns that the expiry is void", "return EXPIRES == 0 and STAMP > 0 and", "return false and", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "no")
		s.push("L", at(0, 0, 10, 10)+passed, "x", "y")
		return s.push("R", at(0, 0, 10, 10), "z") == "CLOSED 10 10 2 5"
	}},
	{"void_moves", "voids = time ~= 0 and", "voids = false and", func(s *stage) bool {
		s.pointers()
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "1 5 somebody")
		s.run("spread_move", "R", 20, "CLOSED", 4, 5)
		return s.expiry() == "0 5 somebody"
	}},
	{"only that expiry is void", "and stamp <= tonumber(ARGV[5]) and {", "and {", func(s *stage) bool {
		s.pointers()
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "1 6 somebody")
		s.run("spread_move", "R", 20, "CLOSED", 4, 5)
		return s.expiry() == "1 6 somebody"
	}},
	{"lapse_checks", "if stamp < told or stamp == told and time ~= 0 then", "if true then", func(s *stage) bool {
		s.pointers()
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "1 6 somebody")
		s.run("spread_delete", "expired", 7, 5)
		return s.layout(flagsWord)[0] == "2"
	}},
	{"close_checks", "if ARGV[6] ~= '' and (", "if false and (", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "no")
		return s.run("spread_close", "", "", "", "L", at(0, 0, 10, 10)+passed, 5) == "0 5" && s.state(0) == "110"
	}},
	{"an expired list is deleted", "elseif not closing and has_expired() then", "elseif has_expired() then", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		return s.run("spread_close", "", "", "", "L", at(0, 0, 10, 10)+passed, 5) == int64(1) && s.state(0) == "012"
	}},
	{"drained_goes", "if left == 0 and took > 0 and EXPIRES > 0 and not shard.open[OTHER] then", "if false then", func(s *stage) bool {
		s.push("L", at(0, 1, 25, 15)+toCome, "x")
		return s.pop("L", at(0, 1, 25, 15), "no") == "DRAINED 25 15 0[x]" && s.state(0) == ""
	}},
	{"an expiry is set on the one that was read", " or stamp ~= tonumber(ARGV[2]) then", " then", func(s *stage) bool {
		s.pointers()
		s.rdb.HSet(s.t.Context(), s.key, "expiry", "9999999999999 6 somebody")
		s.run("spread_expire", 7, 5, "never", 0, "", "me", 0, 0)
		return s.expiry() == "9999999999999 6 somebody"
	}},
	{"an expiry is set once", "if string.find(' ' .. by .. ' '", "if false and string.find(' ' .. by .. ' '", func(s *stage) bool {
		s.pointers()
		s.run("spread_expire", 7, 0, "in", 60000, "NX", "me", 0, 0)
		s.run("spread_expire", 7, s.stamp(), "never", 0, "", "somebody", 0, 0)
		again := s.run("spread_expire", 7, 0, "in", 60000, "NX", "me", 0, 0).([]any)[3]
		return again == "set" && strings.HasPrefix(s.expiry(), "0 ")
	}},
	{"what a failover has taken back from meta counts", "if shard_stamp > stamp or", "if false or", func(s *stage) bool {
		s.pointers()
		return s.run("spread_expire", 7, 0, "never", 0, "", "me", "9999999999999", 5).([]any)[3] == "set"
	}},
	{"repair_encloses", "first, last = math.min(first, p.ids[1]), math.max(last, p.ids[2])", "", func(s *stage) bool {
		s.pointers()
		s.run("spread_move", "R", 20, "CLOSED", 4)
		s.run("spread_repair", 7, 3, 2, 7, -3, 0, -5, 0, 1)
		return slices.Equal(s.layout(firstWord, lastWord), []string{"-3", "1"})
	}},
	{"repair_above", "epoch = math.max(p and p.next or microseconds(), epoch)", "epoch = p.next", func(s *stage) bool {
		s.pointers()
		s.run("spread_repair", 7, 3, 2, 7, -3, 0, -5, 0, "5000000000000000")
		return s.layout(leftEpochWord)[0] == "5000000000000000"
	}},
	{"a repaired list does not expire", "redis.call('PERSIST', META)\nreturn reply()", "return reply()", func(s *stage) bool {
		s.pointers()
		s.rdb.PExpire(s.t.Context(), s.key, time.Minute)
		s.run("spread_repair", 7, 3, 2, 7, -3, 0, -5, 0, 1)
		return s.rdb.PTTL(s.t.Context(), s.key).Val() == -1
	}},
	{"repair of another list", " ~= ARGV[1] or", " == 0 or", func(s *stage) bool {
		s.pointers()
		return s.run("spread_repair", 6, 3, 2, 6, -3, 0, -5, 0, 1) == nil && s.layout(firstWord)[0] == "0"
	}},
	{"repair_fills", "if not begins or EPOCHS[1] <= mark", "if true or EPOCHS[1] <= mark", func(s *stage) bool {
		s.run("spread_mend", "", "", "", "L", at(0, 2, 10, 10), 1, 5)
		return s.state(1) == "000"
	}},
	{"no shard is made that was retired", "EPOCHS[1] <= mark or id == IDS[1]", "id == IDS[1]", func(s *stage) bool {
		s.watermark(10)
		s.run("spread_mend", "", "", "", "L", at(0, 2, 10, 10), 1, 5)
		return s.state(1) == ""
	}},
	{"repair_moves", "shard.position + begins - border(shard, 1), true", "shard.position, true", func(s *stage) bool {
		s.push("L", at(0, 0, 10, 10), "x")
		return fmt.Sprint(s.run("spread_mend", "", "", "", "L", at(-1, 1, 20, 20), 0, 5)) == "[5 6]"
	}},
	{"a repair closes what is between the ends", "    shut(shard, side)\n    rings = disarm", "    rings = disarm", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "first")
		s.run("spread_mend", "", "", "", "L", at(-1, 1, 20, 20), 0, 5)
		return s.state(0) == "000" && s.rings() == 1
	}},
	{"and rings", "rings = disarm(shard) or rings\n  end\nend\nif begins", "end\nend\nif begins", func(s *stage) bool {
		s.pop("L", at(0, 0, 10, 10), "first")
		s.run("spread_mend", "", "", "", "L", at(-1, 1, 20, 20), 0, 5)
		return s.state(0) == "000" && s.rings() == 1
	}},
	{"epochs outlive a meta that is lost", "local now = microseconds()\n  save_pointers({", "local now = 1\n  save_pointers({", func(s *stage) bool {
		s.run("spread_pointers", 1, 3, 2, "")
		first := s.layout(leftEpochWord)[0]
		s.rdb.Del(s.t.Context(), s.key)
		s.run("spread_pointers", 1, 3, 2, "")
		return first < s.layout(leftEpochWord)[0]
	}},
}

// Each rule holds, and shows when a script does not have it.
func TestEveryRuleOfASpreadList(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		for _, rule := range rules {
			stageOf := func(breaks *strings.Replacer) *stage {
				return &stage{t: t, rdb: server.Client(t), key: "{" + uuid.NewString() + "/0/0}:part.meta", breaks: breaks}
			}
			assert.True(t, rule.holds(stageOf(nil)), rule.name)
			broken := stageOf(strings.NewReplacer(rule.old, rule.new))
			assert.False(t, rule.holds(broken), "without %s", rule.name)
			assert.True(t, broken.changed, "no script has %q", rule.old)
		}
	})
}
