package harness

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/session"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// NewList returns an empty list of a name of its own. When the test ends, the list's invariants are checked, and it is deleted: on a
// server that tests share, the next ones look at fewer keys.
func NewList(t testing.TB, rdb redis.UniversalClient, opts ...shardedlist.Option) *shardedlist.ShardedList {
	t.Helper()
	return OpenList(t, rdb, UniqueName(t), opts...)
}

// NewSharded is NewList for a list that is sharded, although its elements would fit into one key. They are more than half of the capacity,
// or the first pop would make it a plain list.
func NewSharded(t testing.TB, rdb redis.UniversalClient, capacity int, values []any, opts ...shardedlist.Option) *shardedlist.ShardedList {
	t.Helper()
	list := NewList(t, rdb, append(opts, shardedlist.WithCapacity(capacity), shardedlist.WithPoppedAt("LEFT"))...)
	_, err := list.RPush(t.Context(), values...)
	require.NoError(t, err)
	require.NoError(t, list.Adopt(t.Context(), nil))
	return list
}

// UniqueName is a name that no other test uses, nor the same one when it is run again.
func UniqueName(t testing.TB) string { return t.Name() + "-" + uuid.NewString() }

// SearchStep is how many elements lists of tests search at once, of which a shard costs 25 more: so that they search in steps.
const SearchStep = 100

// OpenList is NewList for a name that other lists may share.
func OpenList(t testing.TB, rdb redis.UniversalClient, name string, opts ...shardedlist.Option) *shardedlist.ShardedList {
	t.Helper()
	list, err := shardedlist.New(rdb, name, opts...)
	require.NoError(t, err)
	OneSlot(list).SearchStep = SearchStep
	t.Cleanup(func() {
		if !t.Failed() {
			assert.NoError(t, list.Check(context.Background()))
			_, _ = list.Del(context.Background())
		}
	})
	return list
}

// Patient lets a client wait for what takes the server long, where the machine is slow or busy with other tests.
func Patient(o *redis.UniversalOptions) { o.ReadTimeout = time.Minute }

// Numbers are the decimal numbers from..to-1, as values to push.
func Numbers(from, to int) []any {
	values := make([]any, 0, to-from)
	for i := from; i < to; i++ {
		values = append(values, i)
	}
	return values
}

func Words(values []any) []string {
	result := make([]string, len(values))
	for i, value := range values {
		result[i] = fmt.Sprint(value)
	}
	return result
}

func Content(t testing.TB, list *shardedlist.ShardedList) []string {
	t.Helper()
	return Collect(t, list.All(t.Context()))
}

func Collect(t testing.TB, all iter.Seq2[string, error]) []string {
	t.Helper()
	values := []string{}
	for value, err := range all {
		require.NoError(t, err)
		values = append(values, value)
	}
	return values
}

// KeysOfList are all keys that exist of the list, on whatever node, but the dedup records, which it checks do expire.
func KeysOfList(t testing.TB, list *shardedlist.ShardedList) []string {
	t.Helper()
	found := []string{}
	for node, keys := range KeysByNode(t, list) {
		for _, key := range keys {
			if key == Keys(list).Prefix+"short.meta" { // the mark of a list that has become short
				continue
			}
			if !strings.HasPrefix(key, Keys(list).Records()) {
				found = append(found, key)
			} else if life, err := node.PTTL(t.Context(), key).Result(); err == nil { // the node may be about to receive it
				assert.LessOrEqual(t, life, session.RecordLife)
				assert.NotEqual(t, time.Duration(-1), life, "%q never expires", key)
			}
		}
	}
	return found
}

// KeysByNode are all keys of the list, and of lists whose names begin with its keys. A list that has been renamed has its shards
// under the name that it had, so its meta tells whose they are.
func KeysByNode(t testing.TB, list *shardedlist.ShardedList) map[*redis.Client][]string {
	t.Helper()
	prefix := Keys(list).Prefix
	tag := oneslot.Keys{Prefix: prefix[:strings.Index(prefix, "}")+1]}
	found, owner := map[*redis.Client][]string{}, map[string]string{}
	for _, node := range NodesOf(t, list) {
		keys, err := node.Keys(t.Context(), tag.Glob()).Result()
		require.NoError(t, err)
		found[node] = keys
		for _, key := range keys {
			if !strings.HasSuffix(key, ":meta") {
				continue
			}
			if layout, err := Asking(t, node, "hget", key, "layout").Text(); err == nil { // it may be no hash
				owner[ShardPrefix(layout, strings.TrimSuffix(key, "meta"))] = key
			}
		}
	}
	for node, keys := range found {
		found[node] = slices.DeleteFunc(keys, func(key string) bool {
			meta, known := owner[key[:strings.LastIndexByte(key, ':')+1]]
			if known {
				return !strings.HasPrefix(meta, prefix)
			}
			return !strings.HasPrefix(key, prefix)
		})
	}
	return found
}

func NodesOf(t testing.TB, list *shardedlist.ShardedList) (nodes []*redis.Client) {
	t.Helper()
	switch rdb := Client(list).(type) {
	case *redis.ClusterClient:
		added := make(chan *redis.Client, 100)
		require.NoError(t, rdb.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
			added <- node
			return nil
		}))
		close(added)
		for node := range added {
			nodes = append(nodes, node)
		}
	case *redis.Client:
		nodes = append(nodes, rdb)
	}
	return nodes
}

func IgnoreNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

// ConfigFails fails the first CONFIG commands of a client with these errors, and counts all.
type ConfigFails struct {
	Calls  atomic.Int64
	Errors []error
}

func (f *ConfigFails) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *ConfigFails) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f *ConfigFails) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "config" {
			return next(ctx, cmd)
		}
		if call := f.Calls.Add(1); int(call) <= len(f.Errors) {
			cmd.SetErr(f.Errors[call-1])
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func AssertAllExpire(t *testing.T, list *shardedlist.ShardedList) {
	t.Helper()
	for _, key := range KeysOfList(t, list) {
		life := Client(list).PTTL(t.Context(), key).Val()
		assert.Positive(t, life, key)
		assert.LessOrEqual(t, life, time.Minute, key)
	}
}

// CommandCalls is how often each command ran since the last CONFIG RESETSTAT, from within scripts too. "call" is how often scripts and
// functions were called.
func CommandCalls(t testing.TB, rdb *redis.Client) map[string]int {
	t.Helper()
	stats := rdb.InfoMap(t.Context(), "commandstats")
	require.NoError(t, stats.Err())
	calls := map[string]int{}
	for name, stat := range stats.Val()["Commandstats"] {
		var count int
		_, err := fmt.Sscanf(stat, "calls=%d", &count)
		require.NoError(t, err)
		switch name = name[len("cmdstat_"):]; {
		case redistest.IsCall(name):
			calls["call"] += count
		case name != "function|load":
			calls[name] = count
		}
	}
	return calls
}

func Without(calls map[string]int, names ...string) map[string]int {
	for _, name := range names {
		delete(calls, name)
	}
	return calls
}

var HostileNames = []string{
	"jobs", "{jobs}", "{jobs}{}", "{{jobs}}", "jobs}{", "}{", "{}", "{", "}", "{}{}", "}{}", "{}}", "{{}", "{a}{b}", "a{b}c", "{a}b",
	"{user1}:jobs", "jobs:meta", "{jobs}:meta", "{jobs}:bell", "jobs:0", "{jobs}:0", "jobs:", ":", " ", "a b", "a\x00b", "\x00",
	"ключ", "{ключ}", "\xff\xfe", `\`, `\(`, `\{`, "*", "?[a]", "a\r\nb", strings.Repeat("x", 10_000),
	"{jobs}:#0d8a54a2c111.7", "{jobs}:op:5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111", "{jobs}:bell:5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111",
}

// OwnedKeys are keys of every kind that a list of the name may own.
func OwnedKeys(name string) []string {
	k, id := oneslot.KeysOf(name), "5c0b1e38-6d4b-4b7e-9f1f-0d8a54a2c111"
	shards := k.Prefix + "#0d8a54a2c111.7:"
	return []string{k.Meta, k.Bell, shards + "0", shards + "-1", k.Release(id), k.Records() + id, k.Records() + id + ":popped", k.Records() + id + ":7"}
}

// Numbered are n values.
func Numbered(n int) []any {
	values := make([]any, n)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	return values
}

// Expired waits until the list has expired.
func Expired(t testing.TB, list *shardedlist.ShardedList) {
	t.Helper()
	require.Eventually(t, func() bool {
		length, err := list.LLen(t.Context())
		return err == nil && length == 0
	}, 20*time.Second, time.Millisecond)
}

// Filled is a list of that many elements, in shards of the capacity.
func Filled(t testing.TB, rdb redis.UniversalClient, capacity, length int) *shardedlist.ShardedList {
	t.Helper()
	list := NewList(t, rdb, shardedlist.WithCapacity(capacity))
	_, err := list.RPush(t.Context(), Numbers(0, length)...)
	require.NoError(t, err)
	return list
}

// Pair are two lists of one slot, the first with some elements.
func Pair(t testing.TB, rdb redis.UniversalClient, length int) (from, to *shardedlist.ShardedList) {
	t.Helper()
	tag := "{" + UniqueName(t) + "}"
	from, to = OpenList(t, rdb, tag+"from", shardedlist.WithCapacity(2)), OpenList(t, rdb, tag+"to", shardedlist.WithCapacity(3))
	if length > 0 {
		_, err := from.RPush(t.Context(), Numbers(0, length)...)
		require.NoError(t, err)
	}
	return from, to
}

// Main runs the tests of a package, stops the servers that they shared, and fails if goroutines are left.
func Main(m *testing.M) { goleak.VerifyTestMain(redistest.Main(m)) }

// Transfers are the commands that give the elements of a list to another, which they replace.
var Transfers = map[string]func(ctx context.Context, from, to *shardedlist.ShardedList) error{
	"rename": func(ctx context.Context, from, to *shardedlist.ShardedList) error { return from.Rename(ctx, to.Name()) },
	"copy": func(ctx context.Context, from, to *shardedlist.ShardedList) error {
		_, err := from.Copy(ctx, to.Name(), true)
		return err
	},
}
