package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/redistest"
	lists "github.com/shardedlist/shardedlist/tests/harness"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) == "" {
		code := m.Run()
		removeAhead()
		os.Exit(code)
	}
	for _, b := range broken {
		variants[b.name] = b.open
	}
	for _, b := range brokenSpread {
		variants[b.name] = rewritten(b.texts...)
	}
	variants[brokenSearch] = rewritten("if from and from <= low then\n", "if false then\n", "elseif from and to >= high then\n", "elseif false then\n",
		"elseif from and not string.find(", "elseif false and not string.find(")
	for _, b := range brokenHooks {
		hooks[b.name] = b.add
	}
	for _, b := range brokenJobs {
		jobQueues[b.name] = b.open
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// broken are lists with one bug each, and the scenario that finds it.
var broken = []struct {
	name  string
	open  func(rdb redis.UniversalClient, name string, options ...shardedlist.Option) (deque, error)
	fault string
	kind  redistest.Kind
	only  string
	words string // in the violation
	atEnd bool   // the bug shows only at the end of a queue, so queues are short and repeated
}{
	{"the book's blocking pop", openBook, "none", redistest.Redis, "blocking queue", "never pushed", false},
	{"a push retried with a new number", withoutDedup, "cut", redistest.Redis, "queue", "doubled", false},
	{"a push retried with a new number, in rounds", withoutDedup, "cut", redistest.Redis, "rounds", "no order of the calls", false},
	{"a pop without a dedup record", rewritten("save_elements(more and 'MORE' or '', popped, total)\n", ""),
		"cut", redistest.Redis, "queue", "lost", true},
	{"a pop that writes before it has read", rewritten(
		"local function plan_take(list, left, count)", "local early = {}\nlocal function plan_take(list, left, count)",
		"parts[#parts + 1] = part\n", "parts[#parts + 1] = part\nearly[#parts] = redis.call(left and 'LPOP' or 'RPOP', list.shards .. id, part)\n",
		"redis.call(POP, list.shards .. (id + (i - 1) * step), part)", "early[i]"), "slot", redistest.Cluster, "queue", "", false},
	{"one wake-up in a thousand is dropped", rewritten("local function ring(at)", "local function ring(at)\n  if redis.call('TIME')[2] % 1000 == 0 then return end",
		"redis.call('RPUSH', bell, '1')", "if redis.call('TIME')[2] % 1000 ~= 0 then redis.call('RPUSH', bell, '1') end"),
		"none", redistest.Redis, "blocking queue", "blocked for", false},
	{"a push retried with a new number, links cut", withoutDedup, "links", redistest.ReplicatedCluster, "queue", "", true},
	{"an expiry by the client's clock", openMortal, "clocks", redistest.Redis, "queue", "lost", true},
	{"a pointer moved without its shard", rewritten("list[left and 'first' or 'last'] = stop",
		"list[left and 'first' or 'last'] = redis.call('TIME')[2] % 100 == 0 and stop + step or stop"), "none", redistest.Redis, "queue", "", true},
	{"a length that is a millisecond old", openStale, "none", redistest.Redis, "rounds", "no order of the calls", false},
}

// The harness is able to fail: it finds each bug within a minute.
func TestEveryBrokenListIsCaught(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			switch b.fault {
			case "links":
				needNetworks(t)
			case "clocks":
				needClocks(t, canSetClocks)
			}
			isCaught(t, b.fault, b.kind, methods, b.words, func(sc *scenario) {
				sc.variant, sc.only = b.name, b.only
				sc.foreign = strings.HasPrefix(b.name, "the book")
				if b.atEnd {
					sc.span = 2 * time.Second
				}
			})
		})
	}
}

const brokenSearch = "a search is not told of what changes between the ends"

func TestABrokenSearchIsCaught(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute or two; TestBrokenSearchesAreCaught of tests/commands takes none")
	}
	isCaught(t, "none", redistest.Redis, steps, "no order of the calls", func(sc *scenario) { sc.variant = brokenSearch })
}

// brokenRepairs are repairs with one bug each.
var brokenRepairs = map[string][]string{
	"the list that was begun anew is forgotten": {"return { has_none and '' or list.shards, ", "return { '', ", "if not has_none then\n", "if false then\n"},
	"what was lost joins at the other end":      {"take_in(list, key, size, pushed_at(left))", "take_in(list, key, size, pushed_at(not left))"},
	"a shard moves past another":                {"move(id, -step * width)", "move(id, -step * (width - 1))"},
}

func TestEveryBrokenRepairIsCaught(t *testing.T) {
	for name, texts := range brokenRepairs {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			isCaught(t, "damage", redistest.Redis, methods, "", func(sc *scenario) { sc.hook = lists.NewRewriter(texts...) })
		})
	}
}

// brokenSpread are spread lists whose scripts have one bug each, and what finds it. TestEveryRuleOfASpreadList has the bugs that take too
// long to show here.
var brokenSpread = []struct {
	name  string
	texts []string
	fault string
	kind  redistest.Kind
	only  string
	words string
}{
	{"a push does not ring", []string{"local rings = shard and (shard.left or (not result and count > 0)) and disarm(shard)", "local rings = false",
		"      arm(false)\n      ring()\n", "    arm(false)\n"},
		"none", redistest.Redis, "blocking queue", "blocked for"},
	{"a full shard stays open", []string{"elseif not shard.open[SIDE] or (shard.size >= CAPACITY and count > 0) then\n", "elseif shard.size >= CAPACITY and count > 0 then\n",
		"  shut(shard, SIDE)\n  result = knows", "  result = knows"}, "none", redistest.Redis, "queue", ""},
	{"an operation is done again", []string{"  if sequence == SEQUENCE then\n", "  if false then\n", "tonumber(string.match(before, '^%d+')) < SEQUENCE",
		"tonumber(string.match(before, '^%d+')) <= SEQUENCE"}, "cut", redistest.Redis, "queue", "doubled"},
	{"a late operation is done", []string{"  if sequence > SEQUENCE then\n", "  if false then\n"}, "late", redistest.Redis, "queue", "doubled"},
	{"a shard is made with both sides open", []string{"open = { false, false }, armed", "open = { true, true }, armed"}, "none", redistest.Redis, "rounds", ""},
	{"a shard that was retired is made again", []string{"elseif EPOCHS[SIDE] <= mark then", "elseif false then"}, "none", redistest.Redis, "rounds", ""},
}

func TestEveryBrokenSpreadListIsCaught(t *testing.T) {
	for _, b := range brokenSpread {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			if testing.Short() && strings.Contains(b.name, "stays open") {
				t.Skip("it takes half a minute")
			}
			isCaught(t, b.fault, b.kind, spreadLists, b.words, func(sc *scenario) { sc.variant, sc.only = b.name, b.only })
		})
	}
}

// isCaught runs the scenario of a bug until it is found.
func isCaught(t *testing.T, fault string, kind redistest.Kind, clients, words string, adjust func(*scenario)) {
	began, within, expected := time.Now(), 50*time.Second, regexp.MustCompile(words)
	var r row
	for (r.Violation == "" || !expected.MatchString(r.Violation)) && time.Since(began) < 4*within { // a busy machine may show nothing at first
		scenarios, err := selectScenarios(fault, string(kind), clients)
		require.NoError(t, err)
		sc := scenarios[0]
		sc.seed, sc.span, sc.out = rand.Uint64(), within, t.TempDir()
		adjust(sc)
		if sc.fault.apart {
			sc.span = 10 * time.Second // time for several cuts
		}
		r, err = sc.run(t.Context())
		require.NoError(t, err)
	}
	t.Logf("after %v: %s", time.Since(began).Round(time.Millisecond), r.Violation)
	assert.NotEmpty(t, r.Violation, "%+v", r)
	assert.Regexp(t, expected, r.Violation)
}

// So is a run whose faults do not strike.
func TestARunWithoutFaultsIsCaught(t *testing.T) {
	t.Setenv(redistest.FaultsVariable, "none")
	scenarios, err := selectScenarios("cut,late,partition,mixed", "redis", "methods")
	require.NoError(t, err)
	for _, sc := range scenarios {
		t.Run(sc.fault.name, func(t *testing.T) {
			sc.seed, sc.span, sc.out = 1, 4*time.Second, t.TempDir()
			r, err := sc.run(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "no fault has struck", r.Violation)
		})
	}
}

// withoutDedup is a list whose operations have no sequence numbers: go-redis retries them.
func withoutDedup(rdb redis.UniversalClient, name string, options ...shardedlist.Option) (deque, error) {
	return shardedlist.New(rdb, name, append(options, shardedlist.WithoutExactlyOnce())...)
}

// stale is a list that caches its length.
type stale struct {
	*shardedlist.ShardedList
	mu     sync.Mutex
	length int64
	asked  time.Time
}

func openStale(rdb redis.UniversalClient, name string, options ...shardedlist.Option) (deque, error) {
	list, err := shardedlist.New(rdb, name, options...)
	return &stale{ShardedList: list}, err
}

func (s *stale) LLen(ctx context.Context) (length int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) > time.Millisecond {
		s.length, err = s.ShardedList.LLen(ctx)
		s.asked = time.Now()
	}
	return s.length, err
}

// mortal is a list that expires half an hour after each push, by the clock of the client.
type mortal struct{ *shardedlist.ShardedList }

func openMortal(rdb redis.UniversalClient, name string, options ...shardedlist.Option) (deque, error) {
	list, err := shardedlist.New(rdb, name, options...)
	return mortal{list}, err
}

func (m mortal) RPush(ctx context.Context, values ...any) (int64, error) {
	length, err := m.ShardedList.RPush(ctx, values...)
	if err == nil {
		_, err = m.ExpireAt(ctx, time.Now().Add(30*time.Minute))
	}
	return length, err
}

// rewritten is a list whose scripts are changed on their way to the server. The texts are pairs of old and new.
func rewritten(texts ...string) func(redis.UniversalClient, string, ...shardedlist.Option) (deque, error) {
	var once sync.Once
	return func(rdb redis.UniversalClient, name string, options ...shardedlist.Option) (deque, error) {
		once.Do(func() { rdb.AddHook(lists.NewRewriter(texts...)) }) // not before: it takes half a second, and each worker has all variants
		return shardedlist.New(rdb, name, options...)
	}
}

// book is the sharded list of "Redis in Action", section 11.4, implemented from its description. Its blocking pop waits on the end
// shard, behind a script that pushes a dummy there if the end has moved.
type book struct {
	rdb      redis.UniversalClient
	prefix   string
	capacity int
	dummy    string
}

func openBook(rdb redis.UniversalClient, name string, _ ...shardedlist.Option) (deque, error) {
	return &book{rdb, name + ":", 2, fmt.Sprint(rand.Int64())}, nil
}

var (
	bookPush = redis.NewScript(`
local shard = redis.call('get', KEYS[2]) or '0'
for i = 3, #ARGV do
  if redis.call('llen', KEYS[1] .. shard) >= tonumber(ARGV[2]) then
    shard = redis.call(ARGV[1] == 'lpush' and 'decr' or 'incr', KEYS[2])
  end
  redis.call(ARGV[1], KEYS[1] .. shard, ARGV[i])
end
return #ARGV - 2`)
	bookPop = redis.NewScript(`
local shard = redis.call('get', KEYS[2]) or '0'
local value = redis.call(ARGV[1], KEYS[1] .. shard)
if (not value or redis.call('llen', KEYS[1] .. shard) == 0) and shard ~= (redis.call('get', KEYS[3]) or '0') then
  shard = redis.call(ARGV[1] == 'lpop' and 'incr' or 'decr', KEYS[2])
  value = value or redis.call(ARGV[1], KEYS[1] .. shard)
end
return value`)
	bookWake = redis.NewScript(`
if (redis.call('get', KEYS[2]) or '0') ~= ARGV[1] then
  redis.call(ARGV[2], KEYS[1] .. ARGV[1], ARGV[3])
end`)
)

func (b *book) push(ctx context.Context, command, pointer string, values []any) (int64, error) {
	return bookPush.Run(ctx, b.rdb, []string{b.prefix, b.prefix + pointer}, append([]any{command, b.capacity}, values...)...).Int64()
}

func (b *book) pop(ctx context.Context, command, near, far string) (string, error) {
	for {
		value, err := bookPop.Run(ctx, b.rdb, []string{b.prefix, b.prefix + near, b.prefix + far}, command).Text()
		if err != nil || value != b.dummy {
			return value, err
		}
	}
}

func (b *book) wait(ctx context.Context, pop, push, near, far string, timeout time.Duration) (string, error) {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		if value, err := b.pop(ctx, pop, near, far); err != redis.Nil {
			return value, err
		}
		shard, err := b.rdb.Get(ctx, b.prefix+near).Result()
		if err == redis.Nil {
			shard = "0"
		}
		pipe := b.rdb.Pipeline()
		bookWake.Eval(ctx, pipe, []string{b.prefix, b.prefix + near}, shard, push, b.dummy)
		wait := pipe.BLPop(ctx, time.Second, b.prefix+shard)
		_, _ = pipe.Exec(ctx)
		if value := wait.Val(); len(value) == 2 && value[1] != b.dummy {
			return value[1], nil
		}
	}
	return "", redis.Nil
}

func (b *book) LPush(ctx context.Context, values ...any) (int64, error) {
	return b.push(ctx, "lpush", "first", values)
}

func (b *book) RPush(ctx context.Context, values ...any) (int64, error) {
	return b.push(ctx, "rpush", "last", values)
}

func (b *book) LPop(ctx context.Context) (string, error) { return b.pop(ctx, "lpop", "first", "last") }
func (b *book) RPop(ctx context.Context) (string, error) { return b.pop(ctx, "rpop", "last", "first") }

func (b *book) BLPop(ctx context.Context, timeout time.Duration) (string, error) {
	return b.wait(ctx, "lpop", "lpush", "first", "last", timeout)
}

func (b *book) BRPop(ctx context.Context, timeout time.Duration) (string, error) {
	return b.wait(ctx, "rpop", "rpush", "last", "first", timeout)
}

func (b *book) LPopCount(ctx context.Context, count int) ([]string, error) {
	value, err := b.LPop(ctx)
	return []string{value}, err
}

func (b *book) RPopCount(ctx context.Context, count int) ([]string, error) {
	value, err := b.RPop(ctx)
	return []string{value}, err
}

func (b *book) LLen(context.Context) (int64, error)           { panic("the book has none") }
func (b *book) LIndex(context.Context, int64) (string, error) { panic("the book has none") }
