package commands

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/shardedlist/shardedlist"
	"github.com/shardedlist/shardedlist/internal/history"
	"github.com/shardedlist/shardedlist/internal/ledger"
	"github.com/shardedlist/shardedlist/internal/oneslot"
	"github.com/shardedlist/shardedlist/internal/redistest"
	"github.com/shardedlist/shardedlist/internal/script"
	"github.com/shardedlist/shardedlist/internal/survey"
	"github.com/shardedlist/shardedlist/tests/harness"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// between calls a function behind each step of a search, before the caller gets its reply.
type between struct {
	do    func(step string)
	sent  func(cmd redis.Cmder) // is told each step of a copy
	steps atomic.Int64
}

func (b *between) DialHook(next redis.DialHook) redis.DialHook { return next }
func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if step := searchStep(cmd); step != "" && err == nil {
			b.steps.Add(1)
			if b.do != nil {
				b.do(step)
			}
			if b.sent != nil && step == "copy_step" {
				b.sent(cmd)
			}
		}
		return err
	}
}

// searchStep returns which step of a search or a copy a command is, or "".
func searchStep(cmd redis.Cmder) string {
	if ours, ok := cmd.(*script.Command); ok {
		if _, operation := ours.About(); operation == "copy_step" {
			return operation
		}
	}
	at := slices.IndexFunc(cmd.Args(), func(arg any) bool { return arg == "begin" || arg == "read" || arg == "end" })
	if at < 0 || !strings.HasPrefix(cmd.Name(), "eval") && !strings.HasSuffix(fmt.Sprint(cmd.Args()[1]), "_search") {
		return ""
	}
	return fmt.Sprint(cmd.Args()[at])
}

// searchScript is a list, and what it must hold.
type searchScript struct {
	t      testing.TB
	list   *shardedlist.ShardedList
	random *rand.Rand
	values []string
	broken bool // what differs is not to fail the test
	differ bool

	copy   *shardedlist.ShardedList // the last one, and what it must hold
	copied []string
}

func (s *searchScript) letter() string { return string("abcde"[min(4, s.random.IntN(10))]) }

// expect compares what a call has returned with what Redis would.
func (s *searchScript) expect(call history.Call, number int64, err error) {
	if s.differ {
		return
	}
	after, want := history.Apply(s.values, call)
	if s.broken {
		s.differ = err != nil || number != want.Number
	} else {
		require.NoError(s.t, err)
		require.Equal(s.t, want.Number, number, "%v of %v", call, s.values)
	}
	s.values = after
}

// change makes some change to the list, as others do while somebody searches it.
func (s *searchScript) change() {
	ctx, value := s.t.Context(), s.letter()
	index := int64(s.random.IntN(max(1, len(s.values))))
	switch s.random.IntN(13) {
	case 0, 1:
		n, err := s.list.RPush(ctx, value)
		s.expect(history.Call{Name: "rpush", Values: []string{value}}, n, err)
	case 2, 3:
		n, err := s.list.LPush(ctx, value)
		s.expect(history.Call{Name: "lpush", Values: []string{value}}, n, err)
	case 4, 5:
		popped, _ := s.list.LPopCount(ctx, 1+s.random.IntN(5))
		s.values = s.values[len(popped):]
	case 6, 7:
		popped, _ := s.list.RPopCount(ctx, 1+s.random.IntN(5))
		s.values = s.values[: len(s.values)-len(popped) : len(s.values)-len(popped)]
	case 8, 9:
		if len(s.values) > 0 {
			s.expect(history.Call{Name: "lset", Values: []string{value}, Count: int(index)}, 0, s.list.LSet(ctx, index, value))
		}
	case 10:
		pivot := s.letter()
		n, err := s.list.LInsertBefore(ctx, pivot, value)
		s.expect(history.Call{Name: "linsert before", Pivot: pivot, Values: []string{value}}, n, err)
	case 11:
		if s.random.IntN(3) == 0 {
			n, err := s.list.LRem(ctx, 0, value)
			s.expect(history.Call{Name: "lrem", Values: []string{value}}, n, err)
		}
	default:
		switch s.random.IntN(6) {
		case 0:
			_, err := s.list.Del(ctx)
			require.NoError(s.t, err)
			s.values = nil
			fallthrough
		case 1:
			values := make([]any, 20)
			for i := range values {
				values[i] = s.letter()
			}
			_, err := s.list.RPush(ctx, values...)
			require.NoError(s.t, err)
			s.values = slices.Concat(s.values, harness.Words(values))
		case 2:
			require.NoError(s.t, s.list.LTrim(ctx, index/3, -1-index/3))
			s.values = s.values[min(int(index/3), len(s.values)):max(int(index/3), len(s.values)-int(index/3))]
		case 3:
			if len(s.values) > 0 {
				other := "{" + s.list.Name() + "}-other"
				for _, name := range []string{other, s.list.Name()} {
					from := s.list.Name()
					if name == from {
						from = other
					}
					require.NoError(s.t, harness.OpenList(s.t, harness.Client(s.list), from).Rename(s.t.Context(), name))
				}
			}
		}
	}
}

// search carries out one of the commands that search.
func (s *searchScript) search(list *shardedlist.ShardedList) {
	ctx, value := s.t.Context(), s.letter()
	switch s.random.IntN(5) {
	case 4:
		s.copyTo(list, fmt.Sprintf("{%s}-copy%d", list.Name(), s.random.IntN(2)))
	case 0:
		n, err := list.LRem(ctx, 0, value)
		s.expect(history.Call{Name: "lrem", Values: []string{value}}, n, err)
	case 1:
		n, err := list.LInsertAfter(ctx, value, "new")
		s.expect(history.Call{Name: "linsert after", Pivot: value, Values: []string{"new"}}, n, err)
	case 2:
		count, left := int64(1+s.random.IntN(3)), s.random.IntN(2) == 0
		if !left {
			count = -count
		}
		n, err := list.LRem(ctx, count, value)
		var at []int
		for i, v := range s.values {
			if v == value {
				at = append(at, i)
			}
		}
		if !left {
			slices.Reverse(at)
			count = -count
		}
		at = at[:min(int(count), len(at))]
		if !s.broken {
			require.NoError(s.t, err)
			require.EqualValues(s.t, len(at), n, "of %v", s.values)
		}
		s.differ = s.differ || int(n) != len(at)
		slices.Sort(at)
		for _, i := range slices.Backward(at) {
			s.values = slices.Delete(slices.Clone(s.values), i, i+1)
		}
	default:
		rank, count, most := int64(s.random.IntN(7)-3), int64(s.random.IntN(4)), int64(s.random.IntN(3)*s.random.IntN(40))
		if rank == 0 {
			rank = 1
		}
		found, err := list.LPosCount(ctx, value, count, redis.LPosArgs{Rank: rank, MaxLen: most})
		want := positionsIn(s.values, value, int(rank), int(count), int(most))
		if !s.broken {
			require.NoError(s.t, err)
			require.Equal(s.t, want, found, "%s rank %d count %d maxlen %d of %v", value, rank, count, most, s.values)
		}
		s.differ = s.differ || !slices.Equal(want, found)
	}
}

// copyTo copies the list over another one, which then changes by itself.
func (s *searchScript) copyTo(list *shardedlist.ShardedList, name string) {
	ctx := s.t.Context()
	s.checkCopy()
	copied, err := list.Copy(ctx, name, true)
	if s.broken {
		s.differ = s.differ || err != nil || copied != (len(s.values) > 0)
	} else {
		require.NoError(s.t, err)
		require.Equal(s.t, len(s.values) > 0, copied)
	}
	if !copied {
		s.copy = nil
		return
	}
	s.copy, s.copied = harness.OpenList(s.t, harness.Client(list), name, shardedlist.WithCapacity(2)), slices.Clone(s.values)
	s.checkCopy()
	for i := range s.random.IntN(9) {
		if i%2 == 0 {
			_, err = s.copy.RPush(ctx, "right")
			s.copied = append(s.copied, "right")
		} else {
			_, err = s.copy.LPush(ctx, "left")
			s.copied = slices.Insert(s.copied, 0, "left")
		}
		require.NoError(s.t, err)
	}
	s.checkCopy()
}

// checkCopy checks that the last copy is whole, and holds what it must.
func (s *searchScript) checkCopy() {
	if s.copy == nil {
		return
	}
	ctx, expires := s.t.Context(), ""
	content, err := s.copy.LRange(ctx, 0, -1)
	for node, keys := range harness.KeysByNode(s.t, s.copy) {
		for _, key := range keys {
			if _, isShard := oneslot.ShardPrefix(key); isShard && harness.Asking(s.t, node, "ttl", key).Val().(int64) >= 0 {
				expires = key
			}
		}
	}
	if s.broken {
		s.differ = s.differ || err != nil || !slices.Equal(s.copied, content) || expires != ""
		return
	}
	require.NoError(s.t, err)
	require.Equal(s.t, s.copied, content)
	require.NoError(s.t, s.copy.Check(ctx))
	require.Empty(s.t, expires)
}

// positionsIn is LPOS.
func positionsIn(values []string, value string, rank, count, most int) []int64 {
	found, skip := []int64{}, max(rank, -rank)-1
	for i := range values {
		if rank < 0 {
			i = len(values) - 1 - i
		}
		if most > 0 && (rank > 0 && i >= most || rank < 0 && i < len(values)-most) {
			break
		}
		if values[i] != value {
			continue
		}
		if skip--; skip < 0 && (count == 0 || len(found) < count) {
			found = append(found, int64(i))
		}
	}
	return found
}

// play searches a list while it is changed behind each step, and returns how many steps there were, and whether anything differed.
func play(t *testing.T, rdb, searching redis.UniversalClient, b *between, seed uint64, broken bool) (steps int64, differ bool) {
	name := harness.UniqueName(t)
	s := &searchScript{t: t, random: rand.New(rand.NewPCG(seed, 0)), broken: broken}
	s.list = harness.OpenList(t, rdb, name, shardedlist.WithCapacity(2))
	list := harness.OpenList(t, searching, name, shardedlist.WithCapacity(2))
	harness.OneSlot(s.list).SearchStep = 1_000_000
	for range 30 {
		value := s.letter()
		_, err := s.list.RPush(t.Context(), value)
		require.NoError(t, err)
		s.values = append(s.values, value)
	}
	b.steps.Store(0)
	b.do = func(step string) {
		if step == "end" { // the search is over
			return
		}
		for s.random.IntN(4) == 0 {
			s.change()
		}
	}
	for range 6 {
		s.search(list)
	}
	b.do = nil
	s.checkCopy()
	content, err := s.list.LRange(t.Context(), 0, -1)
	if !broken {
		require.NoError(t, err)
		require.Equal(t, append([]string{}, s.values...), append([]string{}, content...))
	}
	for i := range 2 {
		_, err := harness.OpenList(t, rdb, fmt.Sprintf("{%s}-copy%d", name, i)).Del(t.Context())
		require.NoError(t, err)
	}
	return b.steps.Load(), s.differ || !slices.Equal(s.values, content)
}

// A search in steps replies, and changes, what Redis would at the moment of the last script, however others change the list between the
// steps.
func TestSearchesInStepsAmongChanges(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		b := &between{}
		rdb, searching := server.Client(t), server.Client(t)
		searching.AddHook(b)
		steps := int64(0)
		for seed := range uint64(60) {
			n, _ := play(t, rdb, searching, b, seed, false)
			steps += n
		}
		assert.Greater(t, steps, int64(60*10))
	})
}

// Each of these bugs of the scripts is seen by such a test.
func TestBrokenSearchesAreCaught(t *testing.T) {
	t.Parallel()
	server := redistest.Shared(t, redistest.Redis)
	for name, texts := range map[string][]string{
		"LSET marks nothing":           {"save_searches(list, id, id)", "save_searches(list)"},
		"pops move no border":          {"low, high = math.max(low, list.first), math.min(high, list.last)", "low, high = tonumber(low), tonumber(high)"},
		"marks are not read":           {"not string.find(note.marks, ',' .. id .. ',', 1, true)", "true"},
		"copies expire":                {"redis.call('PERSIST', key)", "1"},
		"LREM and LINSERT mark no end": {"elseif from and to >= high then", "elseif false then", "if from and from <= low then", "if false then"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func() redis.UniversalClient {
				rdb := server.Client(t)
				rdb.AddHook(harness.NewRewriter(texts...))
				return rdb
			}
			b := &between{}
			rdb, searching := open(), open()
			searching.AddHook(b)
			for seed := range uint64(400) {
				if _, differ := play(t, rdb, searching, b, seed, true); differ {
					return
				}
			}
			t.Error("nobody has seen it")
		})
	}
}

// A step of a copy that arrives when the copy is done changes nothing of it.
func TestALateStepOfACopyDoesNothing(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		for name, broken := range map[string][]string{"whole": nil, "broken": {"end_search(from)", ""}} {
			rdb, ctx, b := server.Client(t), t.Context(), &between{}
			if broken != nil {
				rdb.AddHook(harness.NewRewriter(broken...))
			}
			var late []any
			b.sent = func(cmd redis.Cmder) { late = slices.Clone(cmd.Args()) }
			rdb.AddHook(b)
			list := harness.NewSharded(t, rdb, 3, harness.Numbers(0, 90))
			copied := harness.OpenList(t, rdb, "{"+list.Name()+"}-copy")
			done, err := list.Copy(ctx, copied.Name(), false)
			require.NoError(t, err)
			require.True(t, done)
			require.NotEmpty(t, late)
			b.sent = nil
			for i := range int64(90) {
				require.NoError(t, list.LSet(ctx, i, "changed"))
			}
			require.NoError(t, rdb.Do(ctx, late...).Err())
			content, err := copied.LRange(ctx, 0, -1)
			require.NoError(t, err)
			assert.Equal(t, broken != nil, slices.Contains(content, "changed"), name)
			_, err = copied.Del(ctx) // its shards may expire now
			require.NoError(t, err)
		}
	})
}

// A client that dies between the steps of a copy leaves keys that expire, and no list. The next copy succeeds.
func TestACopyWhoseClientDies(t *testing.T) {
	t.Parallel()
	redistest.EachAndCluster(t, func(t *testing.T, server *redistest.Server) {
		rdb, mortal, ctx, d := server.Client(t), server.Client(t), t.Context(), &dying{}
		mortal.AddHook(d)
		list := harness.NewSharded(t, rdb, 3, harness.Numbers(0, 300))
		copied := harness.OpenList(t, rdb, "{"+list.Name()+"}-copy", shardedlist.WithCapacity(3))
		broken, err := shardedlist.New(mortal, list.Name())
		require.NoError(t, err)
		before, died := harness.Content(t, list), 0
		for left := int64(1); ; left++ {
			d.left.Store(left)
			alive, die := context.WithCancel(ctx)
			d.died = die
			done, err := broken.Copy(alive, copied.Name(), false)
			die()
			if err == nil {
				require.True(t, done)
				break
			}
			require.ErrorIs(t, err, context.Canceled)
			length, err := copied.LLen(ctx)
			require.NoError(t, err)
			require.Zero(t, length)
			for key := range harness.Snapshot(t, copied) {
				died++
				left := rdb.PTTL(ctx, key).Val()
				require.Positive(t, left, key)
				require.LessOrEqual(t, left, 3*time.Minute, key)
			}
			for row, err := range survey.Rows(ctx, rdb, survey.Options{}) {
				require.NoError(t, err)
				require.NotEqual(t, copied.Name(), row.Name)
			}
		}
		assert.Greater(t, died, 10)
		assert.Equal(t, before, harness.Content(t, copied))
		require.NoError(t, copied.Check(ctx))
		require.NoError(t, list.Check(ctx))
		d.left.Store(1 << 40)
	})
}

// A copy in steps keeps the expiry of the list, on all shards and exactly, and leaves no note.
func TestACopyInStepsKeepsTheExpiry(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		rdb, ctx, b := server.Client(t), t.Context(), &between{}
		rdb.AddHook(b)
		list := harness.NewSharded(t, rdb, 3, harness.Numbers(0, 90))
		copied := harness.OpenList(t, rdb, "{"+list.Name()+"}-copy")
		_, err := list.Expire(ctx, time.Hour)
		require.NoError(t, err)
		before, err := list.PTTL(ctx)
		require.NoError(t, err)
		b.steps.Store(0)
		done, err := list.Copy(ctx, copied.Name(), false)
		require.NoError(t, err)
		require.True(t, done)
		assert.Greater(t, b.steps.Load(), int64(2))
		after, err := copied.PTTL(ctx)
		require.NoError(t, err)
		assert.InDelta(t, before.Seconds(), after.Seconds(), 60)
		for _, key := range rdb.Keys(ctx, harness.Keys(copied).Prefix+"#*").Val() {
			assert.Greater(t, rdb.PTTL(ctx, key).Val(), before, key)
		}
		assert.NotContains(t, rdb.HGetAll(ctx, harness.Keys(list).Meta).Val(), "searches")
		require.NoError(t, copied.Check(ctx))
		require.NoError(t, list.Check(ctx))
	})
}

// There is an order of all calls that explains what many clients saw that search the list in steps, and change it.
func TestOrderOfSearchesInSteps(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		const clients = 4
		var order harness.Order
		defer order.Decided(t)
		b := &between{}
		var connections []redis.UniversalClient
		for range clients {
			connections = append(connections, server.Client(t))
			connections[len(connections)-1].AddHook(b)
		}
		for seed := range uint64(30) {
			name := harness.UniqueName(t)
			var lists []*shardedlist.ShardedList
			for _, rdb := range connections {
				lists = append(lists, harness.OpenList(t, rdb, name, shardedlist.WithCapacity(2)))
			}
			first := history.Call{Name: "rpush", Values: strings.Split("abcabdabcabd", "")}
			var mutex sync.Mutex
			var calls []history.Record
			start := time.Now()
			perform := func(client int, call history.Call) {
				called := time.Since(start)
				outcome := searchOrChange(t, lists[client], call)
				mutex.Lock()
				defer mutex.Unlock()
				calls = append(calls, history.Record{Client: client, Call: call, Start: int64(called), End: int64(time.Since(start)), Outcome: outcome})
			}
			perform(0, first)
			var group sync.WaitGroup
			for client := range clients {
				group.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(client)))
					for range 4 {
						letter := func() string { return string("abcd"[random.IntN(4)]) }
						names := []string{"lpos", "lpos", "lrem", "linsert before", "linsert after", "lset", "lpop", "rpop", "lpush", "rpush"}
						call := history.Call{Name: names[random.IntN(len(names))], Values: []string{letter()}, Pivot: letter(), Count: 1 + random.IntN(4)}
						if strings.HasSuffix(call.Name, "pop") {
							call.Count = 1
						}
						perform(client, call)
					}
				})
			}
			group.Wait()
			order.Check(t, history.Model, history.Operations(calls), seed)
		}
		assert.Greater(t, b.steps.Load(), int64(200))
	})
}

// searchOrChange carries out a call.
func searchOrChange(t testing.TB, list *shardedlist.ShardedList, call history.Call) (out history.Outcome) {
	ctx, err := t.Context(), error(nil)
	out.Fate = ledger.Done
	switch call.Name {
	case "lpos":
		out.Number, err = list.LPos(ctx, call.Values[0], redis.LPosArgs{})
		if err == redis.Nil {
			out.Number, err = -1, nil
		}
	case "lrem":
		out.Number, err = list.LRem(ctx, 0, call.Values[0])
	case "linsert before", "linsert after":
		out.Number, err = list.LInsert(ctx, strings.Fields(call.Name)[1], call.Pivot, call.Values[0])
	case "lset":
		if err = list.LSet(ctx, int64(call.Count), call.Values[0]); err != nil {
			out.Number = map[string]int64{"ERR no such key": history.NoSuchKey, "ERR index out of range": history.OutOfRange}[lastWords(err)]
			err = nil
		}
	case "lpush":
		out.Number, err = list.LPush(ctx, call.Values[0])
	case "rpush":
		values := make([]any, len(call.Values))
		for i, value := range call.Values {
			values[i] = value
		}
		out.Number, err = list.RPush(ctx, values...)
	case "lpop":
		out.Values, err = list.LPopCount(ctx, 1)
	case "rpop":
		out.Values, err = list.RPopCount(ctx, 1)
	}
	if err == redis.Nil {
		err = nil
	}
	assert.NoError(t, err)
	return out
}

// lastWords is the server's part of an error.
func lastWords(err error) string { return err.Error()[strings.Index(err.Error(), "ERR "):] }

// What cannot be searched in steps is searched at once: where the user must not write, while the list is being restored, and in pipelines
// and transactions.
func TestSearchesAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, server *redistest.Server) {
		b := &between{}
		rdb := server.Client(t)
		rdb.AddHook(b)
		list := harness.NewSharded(t, rdb, 3, harness.Numbers(0, 60))
		find := func(want int64) {
			t.Helper()
			index, err := list.LPos(t.Context(), strconv.FormatInt(want, 10), redis.LPosArgs{})
			require.NoError(t, err)
			require.Equal(t, want, index)
		}
		b.steps.Store(0)
		find(1)
		assert.Zero(t, b.steps.Load(), "within the first step")
		find(50)
		assert.Greater(t, b.steps.Load(), int64(3))
		b.do = func(step string) {
			if step == "begin" { // faster than a search can follow
				for i := range 60 {
					require.NoError(t, list.LSet(t.Context(), int64(i), i))
				}
			}
		}
		find(50)
		b.do = nil
		assert.EqualValues(t, 1, list.Stats().SearchesAtOnce)
		meta := rdb.HGetAll(t.Context(), harness.Keys(list).Meta).Val()
		assert.NotContains(t, meta, "searches", "the note has gone")
		_, _, err := harness.Inside(list).RestoreStep(t.Context(), true, "")
		require.NoError(t, err)
		find(50)
		require.NoError(t, list.Adopt(t.Context(), nil))
		find(59)
	})
}
