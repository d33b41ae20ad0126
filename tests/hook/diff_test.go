package hook

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The same random commands, through the hook on keys that match and on plain keys of the same server, have the same replies,
// value for value and error for error: commands alone, in pipelines and in transactions, well formed and not.
func TestHookRepliesAsRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster) {
		for _, capacity := range []int{1, 2, 3, 512} {
			t.Run(fmt.Sprintf("%s, capacity %d", kind, capacity), func(t *testing.T) {
				t.Parallel()
				server := redistest.Shared(t, kind)
				patient := func(o *redis.UniversalOptions) { o.ReadTimeout = time.Minute } // a long run may share a busy machine
				hooked := server.Client(t, patient)
				hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("*:sharded:*"), shardedlist.WithCapacity(capacity)))
				plain := server.Client(t, patient)
				for seed := range uint64(redistest.Times(4, 24)) {
					d := differential{t, hooked, plain, rand.New(rand.NewPCG(seed, uint64(capacity))), "{" + uuid.NewString() + "}", capacity, seed%2 == 1, nil}
					d.run()
				}
			})
		}
	}
}

type differential struct {
	t        *testing.T
	hooked   redis.UniversalClient
	plain    redis.UniversalClient
	random   *rand.Rand
	tag      string
	capacity int
	mixed    bool // keys hold values of other types too, and nothing replaces one of another type, which would differ
	log      []string
}

const differentialSteps = 40

func (d *differential) run() {
	defer func() {
		if d.t.Failed() {
			d.t.Logf("capacity %d:\n%s", d.capacity, strings.Join(d.log, "\n"))
		}
	}()
	for range differentialSteps {
		switch d.random.IntN(8) {
		case 0:
			d.together(false)
		case 1:
			d.together(true)
		case 2:
			d.pushPlain()
		case 3:
			d.restoreOrAdopt()
		default:
			command := d.command()
			d.log = append(d.log, fmt.Sprintf("%q", fmt.Sprint(command...)))
			want := d.plain.Do(d.t.Context(), d.on("plain", command)...)
			got := d.hooked.Do(d.t.Context(), d.on("sharded", command)...)
			d.same(want, got)
		}
	}
	for _, key := range differentialKeys {
		ctx := d.t.Context()
		require.Equal(d.t,
			replyOf(d.plain.Do(ctx, d.on("plain", []any{"lrange", key, 0, -1})...)),
			replyOf(d.hooked.Do(ctx, d.on("sharded", []any{"lrange", key, 0, -1})...)))
		list, err := shardedlist.New(d.plain, d.key("sharded", key))
		require.NoError(d.t, err)
		if kind := d.plain.Type(ctx, d.key("plain", key)).Val(); kind == "none" || kind == "list" { // else a restored list may be WRONGTYPE
			if d.random.IntN(20) == 0 {
				require.NoError(d.t, list.Check(ctx)) // which looks at all keys of the server
			}
			require.NoError(d.t, harness.OneSlot(list).CheckShards(ctx))
		}
		d.plain.Do(ctx, d.on("plain", []any{"del", key})...)
		d.hooked.Do(ctx, d.on("sharded", []any{"del", key})...)
	}
}

// list returns the list of a key, as a process without the hook opens it.
func (d *differential) list(key string) *shardedlist.ShardedList {
	list, err := shardedlist.New(d.plain, d.key("sharded", key), shardedlist.WithCapacity(d.capacity), shardedlist.WithPoppedAt("left"))
	require.NoError(d.t, err)
	return list
}

// pushPlain has a client without the hook push to a key, whose elements the hook must take over, or in.
func (d *differential) pushPlain() {
	ctx, key := d.t.Context(), differentialKeys[d.random.IntN(len(differentialKeys))]
	if kind := d.plain.Type(ctx, d.key("plain", key)).Val(); kind != "none" && kind != "list" {
		return
	}
	values := harness.Numbers(0, 1+d.random.IntN(8))
	d.log = append(d.log, fmt.Sprintf("plain client: rpush %s %v", key, values))
	if harness.NewcomersJoinLeft(d.list(key), ctx) && d.plain.Exists(ctx, d.key("plain", key)).Val() == 1 {
		require.NoError(d.t, d.hooked.LLen(ctx, d.key("sharded", key)).Err()) // takes in those that wait: they stay left of these
		require.NoError(d.t, d.plain.RPush(ctx, d.key("sharded", key), values...).Err())
		slices.Reverse(values)
		require.NoError(d.t, d.plain.LPush(ctx, d.key("plain", key), values...).Err())
		return
	}
	for _, where := range []string{"plain", "sharded"} {
		require.NoError(d.t, d.plain.RPush(ctx, d.key(where, key), values...).Err())
		if len(values) == 1 {
			require.NoError(d.t, d.plain.Expire(ctx, d.key(where, key), time.Hour).Err())
		}
	}
	if harness.Pointer(d.list(key), ctx, harness.Digit) <= "1" { // the next operation decides where they belong: one that says nothing, so at the right
		require.NoError(d.t, d.hooked.LLen(ctx, d.key("sharded", key)).Err())
	}
}

// restoreOrAdopt turns a list into a plain one, or begins to, or turns it back.
func (d *differential) restoreOrAdopt() {
	ctx, key := d.t.Context(), differentialKeys[d.random.IntN(len(differentialKeys))]
	if kind := d.plain.Type(ctx, d.key("plain", key)).Val(); kind != "none" && kind != "list" {
		return
	}
	require.NoError(d.t, d.hooked.LLen(ctx, d.key("sharded", key)).Err()) // takes newcomers in where they belong by now
	list := d.list(key)
	switch d.random.IntN(5) {
	case 0:
		d.log = append(d.log, "restore "+key)
		require.NoError(d.t, list.Restore(ctx, nil))
	case 1, 2:
		d.log = append(d.log, "a step of restore "+key)
		_, _, err := harness.Inside(list).RestoreStep(ctx, true, "")
		require.NoError(d.t, err)
	default:
		d.log = append(d.log, "adopt "+key)
		require.NoError(d.t, list.Adopt(ctx, nil))
	}
}

// together compares some commands in one pipeline.
func (d *differential) together(atomic bool) {
	ctx := d.t.Context()
	plain, hooked := d.plain.Pipeline(), d.hooked.Pipeline()
	if atomic {
		plain, hooked = d.plain.TxPipeline(), d.hooked.TxPipeline()
	}
	d.log = append(d.log, fmt.Sprintf("together, atomic %v", atomic))
	for range 1 + d.random.IntN(8) {
		command := d.command()
		if _, cluster := d.plain.(*redis.ClusterClient); cluster && atomic && len(command) == 1 {
			continue // go-redis takes it for one of a random slot, and so the transaction for one across slots
		}
		d.log = append(d.log, fmt.Sprintf("  %q", fmt.Sprint(command...)))
		plain.Do(ctx, d.on("plain", command)...)
		hooked.Do(ctx, d.on("sharded", command)...)
	}
	want, wantErr := plain.Exec(ctx)
	got, err := hooked.Exec(ctx)
	if _, cluster := d.plain.(*redis.ClusterClient); cluster && atomic && refusedWhole(want) {
		// Which of several faulty commands the errors of a cluster client tell of may differ.
		require.Truef(d.t, err != nil && !slices.ContainsFunc(got, succeeded), "%v, %v", want, got)
		return
	}
	for i := range want {
		d.same(want[i].(*redis.Cmd), got[i].(*redis.Cmd))
	}
	assert.Equal(d.t, wantErr == nil, err == nil, "%v, %v", wantErr, err)
}

// refusedWhole reports whether a transaction was refused as a whole, because one of its commands is faulty.
func refusedWhole(cmds []redis.Cmder) bool {
	refused := func(cmd redis.Cmder) bool {
		return redis.HasErrorPrefix(cmd.Err(), "EXECABORT") || redis.HasErrorPrefix(cmd.Err(), "CROSSSLOT")
	}
	return slices.ContainsFunc(cmds, refused) && !slices.ContainsFunc(cmds, succeeded)
}

func succeeded(cmd redis.Cmder) bool { return cmd.Err() == nil }

// same compares two replies, times only coarsely, and of sizes whether there are any.
func (d *differential) same(want, got *redis.Cmd) {
	name := strings.ToLower(want.Name())
	if size, err := want.Int64(); name == "memory" && err == nil {
		other, err := got.Int64()
		require.NoError(d.t, err)
		require.Equal(d.t, size > 0, other > 0)
		return
	}
	// Valkey 9 stores a number that a script sets as embstr, and one that a client sets as int.
	if encodings := []string{"int", "embstr", "raw"}; name == "object" && slices.Contains(encodings, fmt.Sprint(want.Val())) {
		require.Contains(d.t, encodings, got.Val())
		return
	}
	if strings.HasSuffix(name, "ttl") || strings.HasSuffix(name, "expiretime") {
		units := 5.0
		if name[0] == 'p' {
			units *= 1000
		}
		time, err := want.Int64()
		other, otherErr := got.Int64()
		if err == nil && otherErr == nil && min(time, other) >= 0 {
			if latest := int64(latestExpiry * units / 5000); time > latest {
				require.Greater(d.t, other, latest, "%v", want)
				return
			}
			require.InDelta(d.t, time, other, units, "%v", want)
			return
		}
	}
	require.Equal(d.t, replyOf(want), replyOf(got), "%v", want)
}

// latestExpiry is before the latest time at which a list expires, in milliseconds: a later one of a plain list is shortened to 2^53. A time
// to live is less, by half a century and more.
const latestExpiry = 1<<53 - 1<<42

var differentialKeys = []string{"k1", "k2"}

func (d *differential) key(kind, key string) string { return d.tag + ":" + kind + ":" + key }

// on replaces the short names of keys by those of one kind.
func (d *differential) on(kind string, command []any) []any {
	command = append([]any(nil), command...)
	for i, word := range command {
		for _, key := range differentialKeys {
			if word == key {
				command[i] = d.key(kind, key)
			}
		}
	}
	return command
}

// replyOf is a command's reply and error in words.
func replyOf(cmd *redis.Cmd) string {
	reply, err := cmd.Result()
	if err != nil {
		return "error: " + kinds.Replace(err.Error())
	}
	return kinds.Replace(fmt.Sprintf("%T %v", reply, reply))
}

// kinds takes the difference between keys of the two kinds out of a reply.
var kinds = strings.NewReplacer(":plain:", ":", ":sharded:", ":")

func (d *differential) pick(words ...any) any { return words[d.random.IntN(len(words))] }

func (d *differential) anyKey() any {
	return differentialKeys[d.random.IntN(len(differentialKeys))]
}

// value is one of few, so that values recur.
func (d *differential) value() any { return strconv.Itoa(d.random.IntN(6)) }

// index is mostly of an element.
func (d *differential) index() any {
	if d.random.IntN(25) == 0 {
		return d.pick("abc", "1.5", "", " 1", "+1", "01", "9223372036854775807", "-9223372036854775808", "9223372036854775808")
	}
	return d.random.IntN(2*d.capacity+12) - d.capacity - 6
}

func (d *differential) count() any {
	if d.random.IntN(10) == 0 {
		return d.pick("-1", "abc", "", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "0")
	}
	return d.random.IntN(d.capacity + 4)
}

func (d *differential) timeout() any {
	if d.random.IntN(6) == 0 {
		return d.pick("abc", "-1", "", " 1")
	}
	return "0.001"
}

func (d *differential) values(least, most int) []any {
	values := make([]any, least+d.random.IntN(most-least+1))
	for i := range values {
		values[i] = d.value()
	}
	return values
}

// expiry is when a list is to expire, far off or past. Of two in the future none is so near the other that it matters when the
// commands are carried out.
func (d *differential) expiry(command string) any {
	switch d.random.IntN(12) {
	case 0:
		return d.pick("abc", "", "1.5", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "9223372036854775", "-9223372036854776")
	case 1:
		return d.pick(0, -1, -100)
	}
	seconds := 1000 + 60*d.random.IntN(1_000_000)
	if strings.HasSuffix(command, "at") {
		seconds += 4_000_000_000
	}
	if command[0] == 'p' {
		return seconds * 1000
	}
	return seconds
}

// command is a random command on the keys of differentialKeys.
func (d *differential) command() []any {
	command := d.wellFormed()
	switch command[0] {
	case "del", "unlink", "exists", "touch", "blpop", "brpop", "mget", "pfcount", "lcs", "pfmerge", "msetnx":
		return command // another word is another key
	case "set", "pfadd":
		return command // without its last word SET replaces what it finds, and PFADD hashes names of keys
	}
	switch d.random.IntN(40) {
	case 0:
		return command[:len(command)-1]
	case 1:
		return append(command, d.pick("k1", "more", "1", "0"))
	}
	return command
}

func (d *differential) wellFormed() []any {
	k := d.anyKey()
	if d.mixed && d.random.IntN(4) == 0 {
		return d.ofOtherTypes(k)
	}
	switch d.random.IntN(37) {
	case 0, 1, 2:
		return append([]any{d.pick("lpush", "RPush"), k}, d.values(1, 3*min(d.capacity, 40))...)
	case 3:
		return []any{d.pick("rpush", "lpush"), k, d.value()}
	case 4:
		return []any{d.pick("lpop", "rpop"), k}
	case 5:
		return []any{d.pick("lpop", "rpop"), k, d.count()}
	case 6:
		return []any{"llen", k}
	case 7:
		return []any{"lindex", k, d.index()}
	case 8:
		return []any{"lrange", k, d.index(), d.index()}
	case 9:
		return append([]any{d.pick("del", "exists", "unlink", "touch")}, d.pick(k, "k1"), k)
	case 10:
		return []any{d.pick("type", "exists"), k}
	case 12:
		return append([]any{d.pick("lpushx", "rpushx"), k}, d.values(1, 3)...)
	case 13:
		index := d.index()
		if text, malformed := index.(string); malformed && len(text) > 15 {
			index = "1000000" // beyond 32 bits Valkey takes another index for it
		}
		return []any{"lset", k, index, d.value()}
	case 14, 15:
		return []any{"linsert", k, d.pick("before", "AFTER", "BEFORE", "after", "beside"), d.value(), d.value()}
	case 16, 17:
		count := d.pick(d.count(), 0, 1, -1, -2)
		if count == "-9223372036854775808" {
			count = 0 // an error in Valkey, not in Redis
		}
		return []any{"lrem", k, count, d.value()}
	case 18:
		if d.random.IntN(3) == 0 {
			return []any{"ltrim", k, d.index(), d.index()}
		}
		return []any{"ltrim", k, d.pick(0, 1, 2), d.pick(-1, -2, -3)}
	case 19, 20:
		command := []any{"lpos", k, d.value()}
		for range d.random.IntN(3) {
			command = append(command, d.pick("rank", "count", "maxlen", "MAXLEN", "order"), d.pick(0, 1, 2, 3, -1, -2, -3, "abc", ""))
		}
		return command
	case 22:
		return []any{"rpoplpush", k, d.anyKey()}
	case 23:
		return []any{d.pick("lmove", "LMOVE"), k, d.anyKey(), d.pick("left", "RIGHT", "Left", "up"), d.pick("left", "right")}
	case 24:
		command := []any{"lmpop", 2, k, "k2", d.pick("left", "right", "up")}
		if d.random.IntN(2) == 0 {
			command[1], command = 1, append(command[:3], command[4:]...)
		}
		if d.random.IntN(2) == 0 {
			command = append(command, d.pick("count", "COUNT", "counts"), d.count())
		}
		return command
	case 25:
		if d.random.IntN(10) > 0 {
			return []any{"lpop", k}
		}
		return []any{d.pick("blpop", "brpop"), k, d.anyKey(), d.timeout()}
	case 26:
		if d.random.IntN(10) > 0 { // an idle server ends a wait up to 100 ms late
			return []any{"llen", k}
		}
		switch d.random.IntN(3) {
		case 0:
			return []any{"brpoplpush", k, d.anyKey(), d.timeout()}
		case 1:
			return []any{"blmove", k, d.anyKey(), "left", "right", d.timeout()}
		default:
			return []any{"blmpop", d.timeout(), 1, k, "left", "count", 2}
		}
	case 27, 28, 29:
		name := d.pick("expire", "pexpire", "expireat", "pexpireat").(string)
		command := []any{name, k, d.expiry(name)}
		for range max(0, d.random.IntN(5)-2) {
			command = append(command, d.pick("NX", "xx", "GT", "gt", "LT", "XX", "ZZ"))
		}
		return command
	case 30, 31:
		return []any{d.pick("ttl", "pttl", "expiretime", "PEXPIRETIME"), k}
	case 32:
		return []any{d.pick("persist", "ttl"), k}
	case 33:
		if !d.mixed && d.random.IntN(2) == 0 {
			return []any{"rename", k, d.anyKey()}
		}
		return []any{"renamenx", k, d.anyKey()}
	case 34:
		command := []any{"copy", k, d.anyKey()}
		for range d.random.IntN(3) {
			switch d.random.IntN(5) {
			case 0:
				command = append(command, "replaces")
			case 1, 2:
				command = append(command, d.pick("db", "DB"), d.pick(0, 0, 0, "x", ""))
			default:
				if !d.mixed {
					command = append(command, d.pick("replace", "REPLACE"))
				}
			}
		}
		return command
	case 35:
		return []any{d.pick("object", "OBJECT"), d.pick("encoding", "ENCODING", "refcount", "freq", "foo"), k}
	case 36:
		command := []any{"memory", "usage", k} // go-redis takes USAGE for a key
		for range d.random.IntN(3) {
			command = append(command, d.pick("samples", "SAMPLES", "sample"), d.pick(0, 5, "-1", "x"))
		}
		return command
	case 11:
		if d.random.IntN(4) == 0 {
			return []any{"set", "other" + d.tag, d.value()}
		}
	}
	return []any{"lrange", k, 0, -1}
}

// ofOtherTypes is a random command of another type. None replaces what it finds: where there is a list, that differs.
func (d *differential) ofOtherTypes(k any) []any {
	other := d.anyKey()
	switch d.random.IntN(20) {
	case 0:
		return []any{"set", k, d.value(), "nx"}
	case 1:
		return []any{d.pick("setnx", "append", "getset"), k, d.value()}
	case 2:
		return []any{"msetnx", k, d.value(), other, d.value()}
	case 3:
		return []any{d.pick("get", "getdel", "incr", "strlen", "scard", "hgetall", "scard", "xlen"), k}
	case 4:
		return []any{d.pick("mget", "pfcount", "lcs"), k, other} // sets have no order
	case 5:
		return []any{"smove", k, other, d.value()}
	case 6:
		if d.random.IntN(2) == 0 {
			return []any{"pfadd", k, d.value()}
		}
		return []any{"pfmerge", k, other}
	case 7:
		return []any{"hset", k, d.value(), d.value()}
	case 8:
		return []any{"zadd", k, d.pick(1, 2, "x"), d.value()}
	case 9:
		return []any{"zunion", 2, k, other, "withscores"}
	case 10:
		return []any{"xadd", k, d.value(), "f", "v"}
	case 11:
		return []any{"xread", "streams", k, other, "$", "0"}
	case 12:
		return []any{"no-such-command", k}
	case 13:
		return []any{"hmget", k, d.value(), d.value()}
	case 14:
		return []any{"zmpop", 2, k, other, d.pick("min", "max")}
	case 15:
		return []any{"bitcount", k, d.pick(0, "x"), 1}
	case 16:
		return []any{"del", k}
	}
	return []any{"sadd", k, d.value()}
}
