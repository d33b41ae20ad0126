package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
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

// Whatever method of go-redis is called, with whatever arguments: a client with the hook and one without have the same replies and errors,
// and leave the same behind. What differs stands in the tables of docs/commands.md.
func TestTheWholeAPIDoesAsGoRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range redistest.Kinds(redistest.Redis, redistest.Valkey, redistest.Cluster, redistest.Sentinel) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server := redistest.Shared(t, kind)
			for _, protocol := range []int{2, 3} { // one after the other: words of theirs are keys
				options := func(o *redis.UniversalOptions) { o.ReadTimeout, o.Protocol = time.Minute, protocol }
				testAPI(t, server.Client(t, options), server.Client(t, options))
			}
		})
	}
	t.Run("ring", func(t *testing.T) {
		t.Parallel()
		addrs := map[string]string{"a": redistest.Start(t, redistest.Redis).Addr(), "b": redistest.Start(t, redistest.Redis).Addr()}
		hooked, plain := redis.NewRing(&redis.RingOptions{Addrs: addrs}), redis.NewRing(&redis.RingOptions{Addrs: addrs})
		t.Cleanup(func() { assert.NoError(t, errors.Join(hooked.Close(), plain.Close())) })
		testAPI(t, hooked, plain)
	})
}

func testAPI(t *testing.T, hooked, plain redis.UniversalClient) {
	hooked.AddHook(shardedlist.NewHook(hooked, shardedlist.Match("*:hooks:m*"), shardedlist.WithCapacity(3)))
	a := &api{t: t, hooked: hooked, plain: plain, exceptions: exceptions(t)}
	for seed := range uint64(redistest.Times(60, 400)) {
		a.random = rand.New(rand.NewPCG(seed, uint64(len(t.Name()))))
		a.compare()
	}
	t.Logf("%d methods, %d replies without an error, %d exceptions, %d times the server lacks a command", len(a.called), a.succeeded, a.excepted, a.unknown)
	assert.Greater(t, a.succeeded, redistest.Times(60, 400)/4)
}

// api compares calls of methods, by the same arguments, on a client with the hook and on one without.
type api struct {
	t                   *testing.T
	hooked, plain       redis.UniversalClient
	random              *rand.Rand
	tag                 string
	exceptions          map[string][]string // the errors that a command may have instead of its reply
	called              map[string]bool
	succeeded, excepted int
	unknown             int // calls of what the server does not have
}

// apiKeys are of lists and of other types; those that begin with m match.
var apiKeys = []string{"m1", "m2", "m3", "u1", "u2"}

// apiCall is a call whose arguments are made by a seed of their own, so that they can be made twice.
type apiCall struct {
	method string
	seed   uint64
}

var (
	cmdable = reflect.TypeFor[redis.Cmdable]()
	cmder   = reflect.TypeFor[redis.Cmder]()

	listMethods  = methods(regexp.MustCompile(`^(B?[LR]Pop|B?LMove|B?LMPop|B?RPopLPush|LPos|[LR]Push|L(Index|Insert|Len|Range|Rem|Set|Trim)|Del|Unlink|Exists|Touch|P?Expire|P?TTL|Persist|Type|Rename|Copy)`))
	otherMethods = methods(regexp.MustCompile(`.`))
)

// notCompared are methods without keys, those whose replies are random or tell the time, those of the server's own and of modules, and those that have
// tests of their own: of what KEYS and SCAN find, of transactions, of pipelines.
var notCompared = regexp.MustCompile(`^(ACL|AR|ASK|Auto|BF|CF|CMS|BgRewrite|BgSave|Client|Cluster|Command|Config|DBSize|Debug|Echo|Eval|FCall|FT|Flush|Function|GeoRadius\w*Store|Gears|HRand|Hello|HotKeys|Info|` +
	`JSON|Keys|LastSave|Latency|Lolwut|Memory|Migrate|Module|Monitor|Object|Ping|Pipeline|Process|PubSub|Publish|Quit|Random|Read(Only|Write)|Replica|Reset|Role|SPop|SPublish|SRand|Save|` +
	`Scan|Script|Select|Shutdown|Slave|Slow|Swap|Sync|T[FS]|TDigest|Time|TopK|Tx|V[A-Z]|Wait|XAuto|XClaim|XInfo|XPending|XReadGroup|ZRand)`)

func methods(pattern *regexp.Regexp) (names []string) {
	for m := range cmdable.Methods() {
		takesArguments := m.Type.NumIn() > 1 && m.Type.In(0) == reflect.TypeFor[context.Context]()
		if pattern.MatchString(m.Name) && takesArguments && m.Type.NumOut() == 1 && m.Type.Out(0).Implements(cmder) && !notCompared.MatchString(m.Name) {
			names = append(names, m.Name)
		}
	}
	return names
}

// compare fills the keys, calls one or several methods on both sides, and compares what comes back and what is left.
func (a *api) compare() {
	a.tag = "{" + uuid.NewString() + "}"
	defer a.clear()
	a.fill()
	before := a.left("hooks")
	require.Equal(a.t, a.left("plain"), before)
	var calls []apiCall
	way := a.pick("alone", "alone", "alone", "conn", "tx", "pipeline", "transaction")
	number := 1
	if way == "pipeline" || way == "transaction" {
		number += a.random.IntN(3)
	}
	for range number {
		from := listMethods
		if a.random.IntN(2) == 0 {
			from = otherMethods
		}
		method := from[a.random.IntN(len(from))]
		if blocks := method[0] == 'B' || method == "XRead"; blocks && a.random.IntN(20) > 0 {
			method = "LRange"
		}
		calls = append(calls, apiCall{method, a.random.Uint64()})
	}
	want, got := a.run("plain", a.plain, way, calls), a.run("hooks", a.hooked, way, calls)
	if want == nil {
		return
	}
	_, single := a.plain.(*redis.Client)
	for _, cmd := range want {
		switch text := fmt.Sprint(cmd.Err()); {
		case strings.Contains(text, "unknown command"):
			a.unknown++ // which aborts a transaction, where a script refuses only the command
			return
		case !single && way == "transaction" && strings.Contains(text, "wrong number of arguments"):
			return // go-redis may have sent it to another server, as a transaction of its own
		}
	}
	if cluster := !single && way == "transaction" && refusedWhole(want); cluster {
		routed := slices.ContainsFunc(want, func(cmd redis.Cmder) bool { return redis.HasErrorPrefix(cmd.Err(), "EXECABORT") })
		assert.False(a.t, routed && slices.ContainsFunc(got, succeeded), "%v, %v", want, got) // or go-redis takes other words for keys
		return
	}
	for i, call := range calls {
		if a.called == nil {
			a.called = map[string]bool{}
		}
		a.called[call.method] = true
		if want[i].Err() == nil {
			a.succeeded++
		}
		wants, gots := a.outcome(want[i]), a.outcome(got[i])
		if wants == gots {
			continue
		}
		if a.excused(want, got) {
			a.excepted++
			refused := len(calls) == 1 || way == "transaction" && errors.Is(got[i].Err(), shardedlist.ErrUnsupported) && !foundLate.MatchString(call.method)
			if refused {
				assert.Equal(a.t, before, a.left("hooks"), "%s: %v: what is refused changes nothing", way, got)
			}
			return
		}
		a.t.Errorf("%s: of\n%v\nthe replies are\n%v\n%v\nwith\n%v", way, want, wants, gots, before)
		return
	}
	assert.Equal(a.t, a.left("plain"), a.left("hooks"), "%s: behind\n%v\non\n%v", way, want, before)
}

// foundLate are the methods of which a script finds out that the hook refuses them.
var foundLate = regexp.MustCompile(`^(Rename|Copy)`)

// excused tells whether all differences are exceptions of the page.
func (a *api) excused(want, got []redis.Cmder) bool {
	for _, cmd := range got {
		if _, ring := a.plain.(*redis.Ring); ring && (errors.Is(cmd.Err(), shardedlist.ErrUnsupported) || redis.HasErrorPrefix(cmd.Err(), "CROSSSLOT")) {
			return true // keys with tags of their own, which go-redis sends to the server of one of them
		}
		for _, prefix := range a.exceptions[strings.ToUpper(cmd.Name())] {
			if cmd.Err() != nil && (strings.HasPrefix(cmd.Err().Error(), prefix) || prefix == "ErrUnsupported" && errors.Is(cmd.Err(), shardedlist.ErrUnsupported)) {
				return true
			}
		}
	}
	return false
}

// run calls the methods on one side, in one of the ways that a client has. It returns nil if go-redis panics, as for some options of JSON.
func (a *api) run(side string, client redis.UniversalClient, way string, calls []apiCall) (cmds []redis.Cmder) {
	defer func() {
		if recover() != nil {
			cmds = nil
		}
		require.NoError(a.t, a.dropWords())
	}()
	on := func(target any) error {
		for _, call := range calls {
			arguments := &apiArguments{random: rand.New(rand.NewPCG(call.seed, 0)), key: func(key string) string { return a.key(side, key) }}
			method := reflect.ValueOf(target).MethodByName(call.method)
			cmds = append(cmds, method.Call(arguments.of(a.t.Context(), call.method, method.Type()))[0].Interface().(redis.Cmder))
		}
		return nil
	}
	ctx := a.t.Context()
	switch single, ok := client.(*redis.Client); {
	case way == "conn" && ok:
		conn := single.Conn()
		require.NoError(a.t, errors.Join(on(conn), conn.Close()))
	case way == "tx":
		require.NoError(a.t, client.Watch(ctx, func(tx *redis.Tx) error { return on(tx) }, a.key(side, "u2")))
	case way == "pipeline":
		_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error { return on(pipe) })
	case way == "transaction":
		_, _ = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return on(pipe) })
	default:
		require.NoError(a.t, on(client))
	}
	return cmds
}

// dropWords deletes the keys that neither side has for itself: words that commands have taken for keys.
func (a *api) dropWords() error {
	ctx, words := a.t.Context(), slices.Concat(apiWords, harness.Words(harness.Numbers(0, 10)))
	if ring, ok := a.plain.(*redis.Ring); ok { // go-redis sends a command to the server of its first key
		return ring.ForEachShard(ctx, func(ctx context.Context, server *redis.Client) error { return server.Del(ctx, words...).Err() })
	}
	_, err := a.plain.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, word := range words {
			pipe.Del(ctx, word)
		}
		return nil
	})
	return err
}

func (a *api) key(side, key string) string { return a.tag + ":" + side + ":" + key }

// fill gives each key a value of some type, the same on both sides, lists mostly.
func (a *api) fill() {
	ctx := a.t.Context()
	for _, key := range apiKeys {
		kind, size, expires := a.random.IntN(12), 1+a.random.IntN(9), a.random.IntN(5) == 0
		for side, client := range map[string]redis.UniversalClient{"plain": a.plain, "hooks": a.hooked} {
			key, err := a.key(side, key), error(nil)
			switch kind {
			case 0:
				continue
			case 1:
				err = client.Set(ctx, key, size, 0).Err()
			case 2:
				err = client.SAdd(ctx, key, harness.Numbers(0, size)...).Err()
			case 3:
				err = client.HSet(ctx, key, "1", size, "2", "b").Err()
			case 4:
				err = client.ZAdd(ctx, key, redis.Z{Score: 1, Member: "1"}, redis.Z{Score: float64(size), Member: "b"}).Err()
			case 5:
				err = client.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: "1-1", Values: []any{"1", size}}).Err()
			default:
				err = client.RPush(ctx, key, harness.Numbers(0, size)...).Err()
			}
			require.NoError(a.t, err)
			if expires {
				require.NoError(a.t, client.Expire(ctx, key, time.Hour).Err())
			}
		}
	}
}

// left is what the keys of one side hold.
func (a *api) left(side string) string {
	client, ctx := a.plain, a.t.Context()
	if side == "hooks" {
		client = a.hooked
	}
	var all []string
	for _, key := range apiKeys {
		name := a.key(side, key)
		kind := client.Type(ctx, name).Val()
		var value any
		switch kind {
		case "string":
			value = client.Get(ctx, name).Val()
			if strings.HasPrefix(value.(string), "HYLL") {
				value = "hyperloglog" // of hashes, also of the names of keys
			}
		case "list":
			value = client.LRange(ctx, name, 0, -1).Val()
		case "set":
			members := client.SMembers(ctx, name).Val()
			slices.Sort(members)
			value = members
		case "hash":
			value = client.HGetAll(ctx, name).Val()
		case "zset":
			value = client.ZRangeWithScores(ctx, name, 0, -1).Val()
		case "stream":
			value = client.XLen(ctx, name).Val()
		}
		hours := time.Duration(0)
		if ttl := client.TTL(ctx, name).Val(); ttl > 0 {
			hours = ttl.Round(time.Hour)
		}
		all = append(all, fmt.Sprint(key, ": ", kind, " ", value, " ", hours))
	}
	return sides.Replace(strings.Join(all, "\n"))
}

// sides takes the difference between the keys of the sides out of a text.
var sides = strings.NewReplacer(":plain:", ":", ":hooks:", ":")

func (a *api) clear() {
	for _, key := range apiKeys {
		require.NoError(a.t, a.plain.Del(a.t.Context(), a.key("plain", key)).Err())
		require.NoError(a.t, a.hooked.Del(a.t.Context(), a.key("hooks", key)).Err())
	}
}

var unordered = regexp.MustCompile(`^(SMEMBERS|SUNION|SINTER|SDIFF|HKEYS|HVALS|HGETALL)$`)

// outcome is what a command has replied, in words.
func (a *api) outcome(cmd redis.Cmder) string {
	if err := cmd.Err(); err != nil {
		return sides.Replace("error: " + err.Error())
	}
	value := reflect.ValueOf(cmd).MethodByName("Val").Call(nil)
	var all []string
	for _, v := range value {
		switch v := v.Interface().(type) {
		case time.Duration:
			if v > time.Minute {
				v = v.Round(time.Hour)
			}
			all = append(all, v.String())
		case []string:
			if unordered.MatchString(strings.ToUpper(cmd.Name())) {
				slices.Sort(v)
			}
			all = append(all, fmt.Sprintf("%q", v))
		default:
			text, err := json.Marshal(v)
			if err != nil {
				text = fmt.Append(nil, v)
			}
			all = append(all, string(text))
		}
	}
	return sides.Replace(strings.Join(all, " "))
}

func (a *api) pick(words ...string) string { return words[a.random.IntN(len(words))] }

// apiArguments makes arguments of the types that a method has.
type apiArguments struct {
	random *rand.Rand
	key    func(string) string
	first  bool // the next string is the first, which is a key
	blocks bool
	copies bool // the number is that of a database: 0, since both sides share the others
}

func (a *apiArguments) of(ctx context.Context, name string, method reflect.Type) []reflect.Value {
	a.first, a.blocks, a.copies = true, name[0] == 'B', name == "Copy"
	values := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < method.NumIn(); i++ {
		if method.IsVariadic() && i == method.NumIn()-1 {
			number := a.random.IntN(4)
			if number == 3 {
				number = 2
			}
			for range number {
				values = append(values, a.value(method.In(i).Elem(), 0))
			}
			break
		}
		values = append(values, a.value(method.In(i), 0))
	}
	return values
}

func (a *apiArguments) word() string {
	if first := a.first; first || a.random.IntN(3) == 0 {
		a.first = false
		return a.key(apiKeys[a.random.IntN(len(apiKeys))])
	}
	return apiWords[a.random.IntN(len(apiWords))]
}

var apiWords = []string{"1", "2", "3", "b", "left", "RIGHT", "before", "After", "", "nx", "max", "-1", "x y", "\x00\xff", "1.5"}

func (a *apiArguments) value(kind reflect.Type, depth int) reflect.Value {
	switch kind {
	case reflect.TypeFor[time.Duration]():
		durations := []time.Duration{time.Hour, 2 * time.Hour, 90 * time.Second, -time.Second, 0}
		if a.blocks {
			durations = []time.Duration{time.Second, -time.Second, time.Millisecond}
		}
		return reflect.ValueOf(durations[a.random.IntN(len(durations))])
	case reflect.TypeFor[time.Time]():
		return reflect.ValueOf(time.Now().Add([]time.Duration{time.Hour, -time.Hour}[a.random.IntN(2)]))
	}
	value := reflect.New(kind).Elem()
	switch kind.Kind() {
	case reflect.String:
		value.SetString(a.word())
	case reflect.Bool:
		value.SetBool(a.random.IntN(2) == 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if value.SetInt(a.random.Int64N(10) - 3); a.copies {
			value.SetInt(0)
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		value.SetUint(a.random.Uint64N(7))
	case reflect.Float32, reflect.Float64:
		value.SetFloat(float64(a.random.IntN(10)) / 2)
	case reflect.Interface:
		if kind.NumMethod() > 0 {
			return value
		}
		switch a.random.IntN(8) {
		case 0:
			value.Set(reflect.ValueOf(a.random.IntN(6)))
		case 1:
			value.Set(reflect.ValueOf(1.5))
		case 2:
			value.Set(reflect.ValueOf([]byte("b")))
		case 3:
			value.Set(reflect.ValueOf(true))
		case 4: // nil
		default:
			value.Set(reflect.ValueOf(a.word()))
		}
	case reflect.Slice:
		number := a.random.IntN(3)
		if depth == 0 {
			number++
		}
		for range number {
			value = reflect.Append(value, a.value(kind.Elem(), depth+1))
			if kind.Elem().Kind() == reflect.String && depth == 0 {
				a.first = true // keys, mostly
			}
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(kind))
		value.SetMapIndex(a.value(kind.Key(), depth+1), a.value(kind.Elem(), depth+1))
	case reflect.Pointer:
		if depth < 4 && (depth == 0 || a.random.IntN(2) == 0) {
			value.Set(reflect.New(kind.Elem()))
			value.Elem().Set(a.value(kind.Elem(), depth+1))
		}
	case reflect.Struct:
		for i := range kind.NumField() {
			if kind.Field(i).IsExported() && (i == 0 || a.random.IntN(2) == 0) {
				value.Field(i).Set(a.value(kind.Field(i).Type, depth+1))
			}
		}
	}
	return value
}

// exceptions reads the tables of docs/commands.md that say which commands have which error instead of Redis's reply.
func exceptions(t *testing.T) map[string][]string {
	page, err := os.ReadFile("../../docs/commands.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(page), "\n## What the hook refuses\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	errorsOf := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		for _, name := range regexp.MustCompile("`([A-Z_ ]+)`").FindAllStringSubmatch(cells[1], -1) {
			errorsOf[name[1]] = append(errorsOf[name[1]], strings.Trim(cells[3], " `"))
		}
	}
	require.NotEmpty(t, errorsOf)
	return errorsOf
}
